// SPDX-License-Identifier: GPL-2.0

//! CRC-32 of the little-endian kind (polynomial 0xedb88320).
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use kernel::bindings;

/// Continues `crc` over `bytes`, without inversion at either end. Any context.
#[inline]
pub fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: The bytes are readable for their length.
    unsafe { bindings::crc32_le(crc, bytes.as_ptr().cast(), bytes.len()) }
}
