// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use kernel::bindings;

/// Fills `bytes`. Any context.
pub fn fill(bytes: &mut [u8]) {
    // SAFETY: The slice is writable for its length.
    unsafe { bindings::get_random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// One byte. Any context.
pub fn byte() -> u8 {
    let mut byte = [0];
    fill(&mut byte);
    let [byte] = byte;
    byte
}

/// 32 random bits. Any context.
#[inline]
pub fn u32() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u32() }
}
