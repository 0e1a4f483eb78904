// SPDX-License-Identifier: GPL-2.0

//! The iterator that drivers keep on their stack to walk a scatter list in blocks.
//!
//! C header: [`include/rdma/iter.h`](srctree/include/rdma/iter.h)

use crate::dma::{
    dma_len,
    sg_next,
    DmaSegment, //
};
use kernel::bindings;

/// Position of a block walk, `struct ib_block_iter`.
///
/// The driver reads the block address from it and counts its blocks in it, so the layout is the
/// C one.
///
/// # Invariants
///
/// The entry pointer is null or points at an entry of a well-formed list that stays as it is for
/// the length of the walk.
#[repr(transparent)]
pub struct BlockIter(bindings::ib_block_iter);

impl BlockIter {
    /// # Safety
    ///
    /// `iter` must point at an iterator that was started with [`Self::start`], the list it was
    /// started on must still be there, and nobody else may use the iterator during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(iter: *mut bindings::ib_block_iter) -> &'a mut Self {
        // SAFETY: Exclusive and valid by the contract; the layout is transparent.
        unsafe { &mut *iter.cast() }
    }

    /// Starts a walk over `nents` entries of `list` in blocks of 2^`block_bits` bytes.
    ///
    /// # Safety
    ///
    /// `iter` must be writable and exclusive; `list` must be null or a well-formed list that
    /// stays for the walk.
    #[inline]
    pub unsafe fn start(
        iter: *mut bindings::ib_block_iter,
        list: *mut bindings::scatterlist,
        nents: u32,
        block_bits: u32,
    ) {
        let state = bindings::ib_block_iter {
            __sg: list,
            __sg_nents: nents,
            __pg_bit: block_bits,
            ..pin_init::zeroed()
        };
        // SAFETY: Writable by the contract.
        // INVARIANT: `list` is null or well-formed by the contract.
        unsafe { iter.write(state) };
    }

    /// The entry that the walk stands in.
    #[inline]
    pub fn segment(&self) -> Option<DmaSegment> {
        if self.0.__sg_nents == 0 || self.0.__sg.is_null() {
            return None;
        }
        // SAFETY: A live entry by the type invariant.
        unsafe {
            Some(DmaSegment {
                addr: (*self.0.__sg).dma_address,
                len: *dma_len(self.0.__sg),
            })
        }
    }

    /// Bytes of the current entry that earlier blocks have taken.
    #[inline]
    pub fn consumed(&self) -> u32 {
        self.0.__sg_advance
    }

    /// Sets how much of the current entry is taken.
    #[inline]
    pub fn set_consumed(&mut self, bytes: u32) {
        self.0.__sg_advance = bytes;
    }

    /// Leaves the current entry for the start of the next one.
    #[inline]
    pub fn step(&mut self) {
        if self.segment().is_none() {
            return;
        }
        // SAFETY: A live entry of a well-formed list by the type invariant.
        // INVARIANT: So is what follows it.
        self.0.__sg = unsafe { sg_next(self.0.__sg) };
        self.0.__sg_nents -= 1;
        self.0.__sg_advance = 0;
    }

    /// Binary logarithm of the block size.
    #[inline]
    pub fn block_bits(&self) -> u32 {
        self.0.__pg_bit
    }

    /// Publishes the address inside the block that the driver is to use next; the driver rounds
    /// it down to the block size.
    #[inline]
    pub fn publish(&mut self, addr: u64) {
        self.0.__dma_addr = addr;
    }
}
