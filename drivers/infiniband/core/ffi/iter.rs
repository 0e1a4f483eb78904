// SPDX-License-Identifier: GPL-2.0

//! Block iteration for drivers.

use crate::iter;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::block_iter::BlockIter;

/// Starts a block walk.
///
/// # Safety
///
/// Called by drivers with an iterator on their stack and a DMA-mapped list that stays for the
/// walk.
#[export]
pub(crate) unsafe extern "C" fn __rdma_block_iter_start(
    biter: *mut bindings::ib_block_iter,
    sglist: *mut bindings::scatterlist,
    nents: c_uint,
    pgsz: c_ulong,
) {
    // A walk without a block size is one that ends at once.
    let (nents, bits) = match iter::blocks::block_bits(pgsz) {
        Some(bits) => (nents, bits),
        None => (0, 0),
    };
    // SAFETY: The caller's iterator is its own; the list is well-formed and stays.
    unsafe { BlockIter::start(biter, sglist, nents, bits) }
}

/// Moves to the next block; false at the end.
///
/// # Safety
///
/// Called by drivers with an iterator that `__rdma_block_iter_start` has set up, while the list
/// is still there.
#[export]
pub(crate) unsafe extern "C" fn __rdma_block_iter_next(
    biter: *mut bindings::ib_block_iter,
) -> bool {
    // SAFETY: The iterator is started and the caller's own.
    iter::advance(unsafe { BlockIter::from_raw(biter) })
}
