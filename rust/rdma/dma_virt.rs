// SPDX-License-Identifier: GPL-2.0

//! DMA of devices that are software: a bus address is a kernel address.

use crate::dma::dma_len;
use kernel::bindings;

/// Maps a scatter list by noting the kernel address of each entry.
///
/// # Safety
///
/// `sg` is a list of at least `nents` entries whose pages have kernel addresses.
pub unsafe fn map_sg(sg: *mut bindings::scatterlist, nents: i32) -> i32 {
    let mut entry = sg;
    for _ in 0..nents {
        // SAFETY: The list has this entry, by the caller.
        unsafe {
            (*entry).dma_address = bindings::sg_virt(entry).addr() as u64;
            *dma_len(entry) = (*entry).length;
            entry = bindings::sg_next(entry);
        }
    }
    nents
}
