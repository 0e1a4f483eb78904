// SPDX-License-Identifier: GPL-2.0

//! What a fast registration maps: the consumer's scatter list, and the driver's function that
//! takes its pages.

use super::Mr;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// A DMA-mapped scatter list of a consumer.
///
/// # Invariants
///
/// The list has at least `nents` entries as long as this exists.
#[derive(Clone, Copy)]
pub struct SgList<'a> {
    head: *mut bindings::scatterlist,
    nents: kernel::ffi::c_int,
    offset: *mut kernel::ffi::c_uint,
    _list: core::marker::PhantomData<&'a bindings::scatterlist>,
}

impl<'a> SgList<'a> {
    /// Takes a list with the place of the offset into its first entry.
    ///
    /// # Safety
    ///
    /// `head` must have `nents` mapped entries, and `offset` must be null or writable, for `'a`.
    pub unsafe fn from_raw(
        head: *mut bindings::scatterlist,
        nents: kernel::ffi::c_int,
        offset: *mut kernel::ffi::c_uint,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            head,
            nents,
            offset,
            _list: core::marker::PhantomData,
        }
    }
}

impl SgList<'_> {
    /// As C passes it: first entry, number of entries, place of the offset.
    pub(crate) fn into_parts(
        self,
    ) -> (
        *mut bindings::scatterlist,
        kernel::ffi::c_int,
        *mut kernel::ffi::c_uint,
    ) {
        (self.head, self.nents, self.offset)
    }

    /// Bytes of the first entry that are left out.
    pub fn offset(&self) -> u32 {
        if self.offset.is_null() {
            return 0;
        }
        // SAFETY: Valid by the contract of `from_raw`.
        unsafe { *self.offset }
    }

    /// Tells the consumer how many bytes of the entry after the mapped ones are mapped as well.
    pub fn set_offset(&self, bytes: u32) {
        if !self.offset.is_null() {
            // SAFETY: Valid by the contract of `from_raw`.
            unsafe { *self.offset = bytes };
        }
    }

    /// Bus address and length of each entry.
    pub fn segments(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut next = self.head;
        (0..self.nents).map_while(move |_| {
            if next.is_null() {
                return None;
            }
            let entry = next;
            // SAFETY: By the type invariant there is an entry for each step.
            unsafe {
                next = bindings::sg_next(entry);
                Some((bindings::sg_dma_address(entry), bindings::sg_dma_len(entry)))
            }
        })
    }
}

/// A driver's function that adds a page to a region.
///
/// # Invariants
///
/// The function may be called with the region that it is meant for.
#[derive(Clone, Copy)]
pub struct PageSetter(
    Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> kernel::ffi::c_int>,
);

impl PageSetter {
    /// Takes a driver's function.
    ///
    /// # Safety
    ///
    /// It must be callable with the region that the driver maps.
    pub unsafe fn from_raw(
        function: Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> kernel::ffi::c_int>,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self(function)
    }

    /// Adds the page at a bus address. Fails when the region is full.
    pub fn add(self, mr: &Mr, page: u64) -> Result {
        let function = self.0.ok_or(EINVAL)?;
        // SAFETY: By the type invariant.
        to_result(unsafe { function(mr.as_raw(), page) }.min(0))
    }
}
