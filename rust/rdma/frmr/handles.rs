// SPDX-License-Identifier: GPL-2.0

//! Handles of a pool, and what they are good for.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// What the handles of a pool are good for, `struct ib_frmr_key`.
#[derive(Clone, Copy)]
pub struct Key(pub(super) bindings::ib_frmr_key);

impl Key {
    /// # Safety
    ///
    /// `key` must be readable.
    pub unsafe fn from_raw(key: *const bindings::ib_frmr_key) -> Self {
        // SAFETY: Promised by the caller.
        Self(unsafe { key.read() })
    }

    /// Whether the device translates addresses by ATS.
    pub fn ats(&self) -> bool {
        self.0.ats() != 0
    }

    /// Access rights.
    pub fn access(&self) -> c_int {
        self.0.access_flags
    }

    /// The driver's part that users may choose.
    pub fn vendor(&self) -> u64 {
        self.0.vendor_key
    }

    /// The driver's part that is its own.
    pub fn kernel_vendor(&self) -> u64 {
        self.0.kernel_vendor_key
    }

    /// DMA blocks that a handle can take.
    pub fn blocks(&self) -> usize {
        self.0.num_dma_blocks
    }
}

/// Handles in a page of a queue.
pub const PAGE_HANDLES: usize = {
    // The array fills the page behind the list links.
    const LEN: usize =
        (kernel::page::PAGE_SIZE - size_of::<bindings::list_head>()) / size_of::<u32>();
    assert!(size_of::<bindings::frmr_handles_page>() <= kernel::page::PAGE_SIZE);
    LEN
};

/// A page of handles.
pub(super) struct HandlePage(pub(super) NonNull<bindings::frmr_handles_page>);

impl HandlePage {
    pub(super) fn new() -> Result<Self> {
        // Made under the pool's lock.
        let page = KBox::<bindings::frmr_handles_page>::new_uninit(GFP_ATOMIC)?;
        NonNull::new(KBox::into_raw(page).cast())
            .map(Self)
            .ok_or(ENOMEM)
    }

    pub(super) fn into_raw(self) -> *mut bindings::frmr_handles_page {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for HandlePage {
    fn drop(&mut self) {
        // SAFETY: Allocated as a box and owned.
        unsafe {
            drop(KBox::from_raw(
                self.0
                    .as_ptr()
                    .cast::<core::mem::MaybeUninit<bindings::frmr_handles_page>>(),
            ))
        }
    }
}

/// A page of handles that has left its queue.
pub struct HandleBatch {
    pub(super) page: HandlePage,
    pub(super) count: usize,
}

impl HandleBatch {
    /// The handles.
    pub fn handles(&mut self) -> &mut [u32] {
        // SAFETY: The first `count` handles are set; the page is owned.
        unsafe {
            core::slice::from_raw_parts_mut(
                (&raw mut (*self.page.0.as_ptr()).handles).cast(),
                self.count,
            )
        }
    }
}
