// SPDX-License-Identifier: GPL-2.0

//! Soft-RoCE's wire format and state machines on the host: their own unit tests, packets captured
//! from the kernel's driver, two queue pairs over a network that loses, repeats, reorders and
//! damages packets, and hostile input. Everything is repeatable; the seed is in the message of a
//! failure. Build and run:
//! `rustc --test -O -C debug-assertions -C overflow-checks --edition 2021 tests/host/rxe.rs &&
//! ./rxe`. RXE_FUZZ sets the number of hostile packets.

#![allow(dead_code, unexpected_cfgs)]

#[path = "../../drivers/infiniband/sw/rxe"]
mod rxe {
    pub(crate) mod proto;
    pub(crate) mod wire;
}
pub(crate) use rxe::{proto, wire};

#[path = "rxe/fuzz.rs"]
mod fuzz;
#[path = "rxe/random.rs"]
mod random;
#[path = "rxe/sim.rs"]
mod sim;
#[path = "rxe/traffic.rs"]
mod traffic;
#[path = "rxe/vectors.rs"]
mod vectors;
