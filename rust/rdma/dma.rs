// SPDX-License-Identifier: GPL-2.0

//! Scatter lists, and how a device maps them.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Device;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Flag bits in the low end of a scatter entry's page link.
const SG_CHAIN: usize = 0x1;
const SG_END: usize = 0x2;
const SG_LINK_MASK: usize = SG_CHAIN | SG_END;

/// One DMA-mapped stretch of a scatter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSegment {
    /// First bus address (or kernel address, for a device without DMA).
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Where an entry keeps the length of its mapped part: in a field of its own on
/// architectures that may merge entries, else in the length of the entry itself.
///
/// # Safety
///
/// `sg` must point into an entry of a list.
#[inline]
pub(crate) unsafe fn dma_len(sg: *mut bindings::scatterlist) -> *mut u32 {
    // SAFETY: Only the place of a field is taken, inside the entry of the caller.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        return &raw mut (*sg).dma_length;
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        return &raw mut (*sg).length;
    }
}

/// The entry after `sg` in its list, null at the end.
///
/// # Safety
///
/// `sg` must point at an entry of a well-formed scatter list, not at a chain link.
#[inline]
pub(crate) unsafe fn sg_next(sg: *mut bindings::scatterlist) -> *mut bindings::scatterlist {
    // SAFETY: Valid entry by the function's contract.
    if unsafe { (*sg).page_link } & SG_END != 0 {
        return core::ptr::null_mut();
    }
    // SAFETY: `sg` is not the end of its list, so another entry or a chain link follows it.
    let next = unsafe { sg.add(1) };
    // SAFETY: As above, `next` is readable.
    let link = unsafe { (*next).page_link };
    if link & SG_CHAIN != 0 {
        (link & !SG_LINK_MASK) as *mut bindings::scatterlist
    } else {
        next
    }
}

/// A walk over the first entries of a scatter list.
///
/// # Invariants
///
/// `sg` is null or points at an entry of a well-formed list that neither goes away nor is
/// edited during `'a`.
#[derive(Clone)]
pub struct SgCursor<'a> {
    sg: *mut bindings::scatterlist,
    left: u32,
    _list: PhantomData<&'a bindings::scatterlist>,
}

impl<'a> SgCursor<'a> {
    /// A walk over at most `nents` entries from `sg` on.
    ///
    /// # Safety
    ///
    /// `sg` must be null or the head of a well-formed list that outlives `'a` and is not edited
    /// during it.
    #[inline]
    pub unsafe fn new(sg: *mut bindings::scatterlist, nents: u32) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            sg,
            left: nents,
            _list: PhantomData,
        }
    }

    /// The entry that the walk stands at.
    #[inline]
    pub(crate) fn entry(&self) -> Option<*mut bindings::scatterlist> {
        (self.left != 0 && !self.sg.is_null()).then_some(self.sg)
    }

    /// Goes to the next entry.
    #[inline]
    pub(crate) fn step(&mut self) {
        if let Some(sg) = self.entry() {
            // SAFETY: By the type invariant `sg` is an entry of a well-formed list.
            self.sg = unsafe { sg_next(sg) };
            self.left -= 1;
        }
    }
}

impl Iterator for SgCursor<'_> {
    type Item = DmaSegment;

    #[inline]
    fn next(&mut self) -> Option<DmaSegment> {
        let sg = self.entry()?;
        // SAFETY: By the type invariant `sg` is a live entry that nobody edits.
        let segment = unsafe {
            DmaSegment {
                addr: (*sg).dma_address,
                len: *dma_len(sg),
            }
        };
        self.step();
        Some(segment)
    }
}

/// How a device reaches memory.
///
/// All that is read here is constant from before the device's registration on.
pub trait DmaExt {
    /// Whether an encrypted guest bounces this device's DMA, so that user memory cannot be
    /// mapped for it.
    fn bounces_dma(&self) -> bool;

    /// Upper limit of one segment in bytes.
    fn max_segment(&self) -> u32;
}

impl DmaExt for Device {
    #[inline]
    fn bounces_dma(&self) -> bool {
        // SAFETY: Constant bit field of a live device.
        unsafe { (*self.as_raw()).cc_dma_bounce() != 0 }
    }

    #[inline]
    fn max_segment(&self) -> u32 {
        // SAFETY: Live device.
        unsafe { bindings::ib_dma_max_seg_size(self.as_raw()) }
    }
}

/// Maps all of `table` for `device` to read and write. May sleep.
///
/// # Safety
///
/// `table` must be a well-formed, unmapped table that stays until it is unmapped.
pub(crate) unsafe fn map_table(
    device: &Device,
    table: *mut bindings::sg_table,
    attrs: usize,
) -> Result {
    // SAFETY: Live device; the caller promises the table.
    to_result(unsafe {
        bindings::ib_dma_map_sgtable_attrs(
            device.as_raw(),
            table,
            bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            attrs,
        )
    })
}

/// Takes back what [`map_table`] did.
///
/// # Safety
///
/// `table` must have been mapped by [`map_table`] for the same device, with the same `attrs`.
pub(crate) unsafe fn unmap_table(device: &Device, table: *mut bindings::sg_table, attrs: usize) {
    // SAFETY: Live device; the caller promises the table.
    unsafe {
        bindings::ib_dma_unmap_sgtable_attrs(
            device.as_raw(),
            table,
            bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            attrs,
        )
    }
}
