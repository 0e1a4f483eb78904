// SPDX-License-Identifier: GPL-2.0

//! Some memory for tests of those that use regions.

use super::PageAddr;
use core::cell::UnsafeCell;
use kernel::page::PAGE_SIZE;

/// Number of pages.
pub const PAGES: usize = 4;

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; PAGE_SIZE]>);

// SAFETY: Only accessed through regions.
unsafe impl Sync for Page {}

static MEMORY: [Page; PAGES] = [const { Page(UnsafeCell::new([0; PAGE_SIZE])) }; PAGES];

/// The address of a page; after the last one come the first ones again. Chunks of a region that is
/// made of them must not be larger than a page.
pub fn page(index: usize) -> PageAddr {
    let page = MEMORY[index % PAGES].0.get();
    // SAFETY: Static memory that nothing else uses.
    unsafe { PageAddr::from_dma(page as usize as u64) }
}
