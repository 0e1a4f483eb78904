// SPDX-License-Identifier: GPL-2.0

//! The whole address space of a process, whose pages are pinned for each access alone.

use super::{
    FetchedMemory,
    Piece, //
};
use crate::mm::GrabbedMm;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};

/// The address space of a process. All accesses may sleep, and fail with `EFAULT` once the process
/// has given its memory up.
pub struct ProcessMemory {
    mm: GrabbedMm,
    writable: bool,
}

/// A page of a process, pinned.
///
/// # Invariants
///
/// Owns a pin of `page`.
struct PinnedPage {
    page: *mut bindings::page,
    dirty: bool,
}

impl PinnedPage {
    /// Pins the page of a user address.
    fn new(mm: &GrabbedMm, address: u64, write: bool) -> Result<Self> {
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        let mm = mm.live().ok_or(EFAULT)?;
        let mut page = core::ptr::null_mut();
        // SAFETY: The mm is alive.
        let count =
            unsafe { bindings::rdma_pin_remote_page(mm.as_raw(), address, write, &mut page) };
        if count != 1 {
            return Err(EFAULT);
        }
        // INVARIANT: Just pinned.
        Ok(Self { page, dirty: write })
    }

    fn address(&self) -> usize {
        // SAFETY: A live page.
        unsafe { bindings::rdma_page_to_virt(self.page) as usize }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        // SAFETY: The pin is owned.
        unsafe { bindings::unpin_user_page_range_dirty_lock(self.page, 1, self.dirty) }
    }
}

impl ProcessMemory {
    /// The address space of the calling process. `EINVAL` in a kernel thread.
    pub fn current(writable: bool) -> Result<Self> {
        Ok(Self {
            mm: GrabbedMm::current().ok_or(EINVAL)?,
            writable,
        })
    }

    /// Whether it may be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Fetches the page of a user address, for reading or writing.
    pub fn prefetch(&self, at: u64, len: u64, write: bool) -> Result {
        let len = usize::try_from(len).map_err(|_| EFAULT)?;
        self.visit(at, len, write, |_, _| Ok(()))
    }
}

/// Offsets are user addresses.
impl FetchedMemory for ProcessMemory {
    fn visit(
        &self,
        at: u64,
        len: usize,
        write: bool,
        mut visit: impl FnMut(usize, Piece) -> Result,
    ) -> Result {
        if write && !self.writable {
            return Err(EACCES);
        }
        at.checked_add(len as u64).ok_or(EFAULT)?;
        let mut done = 0usize;
        while done < len {
            let address = at.wrapping_add(done as u64);
            let page = PinnedPage::new(&self.mm, address, write)?;
            let inside = address as usize & (PAGE_SIZE - 1);
            // INVARIANT: The page is pinned during the visit.
            let piece = Piece {
                addr: page.address().wrapping_add(inside),
                len: (len - done).min(PAGE_SIZE - inside),
                writable: write,
            };
            visit(done, piece)?;
            done = done.wrapping_add(piece.len);
        }
        Ok(())
    }
}
