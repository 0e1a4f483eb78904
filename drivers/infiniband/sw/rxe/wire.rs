// SPDX-License-Identifier: GPL-2.0

//! The wire format of RoCEv2 above UDP: base and extended transport headers, opcodes, sequence
//! numbers, acknowledgements, the invariant CRC (IBTA vol. 1, chapter 9; annexes A17 and A19).
//!
//! Nothing here calls the kernel, so that the same code runs in tests and fuzzers on any host.

pub(crate) mod aeth;
pub(crate) mod build;
pub(crate) mod ext;
pub(crate) mod icrc;
pub(crate) mod opcode;
pub(crate) mod packet;
pub(crate) mod psn;
