// SPDX-License-Identifier: GPL-2.0

//! Cleared memory.
//!
//! The allocator clears it with the fastest instructions of the processor; `KVec::from_elem`
//! writes element by element.

use crate::gfp::Gfp;
use kernel::{alloc::flags::__GFP_ZERO, prelude::*};

/// A vector of `len` elements all of whose bytes are zero. Sleeps if `gfp` may. `ENOMEM`.
pub(crate) fn cleared<T: Zeroable>(len: usize, gfp: Gfp) -> Result<KVec<T>> {
    let mut memory = KVec::with_capacity(len, gfp.flags() | __GFP_ZERO)?;
    // SAFETY: The vector was empty and has room for `len` elements. The allocator cleared them,
    // and a `T` may consist of zeroes.
    unsafe { memory.inc_len(len) };
    Ok(memory)
}
