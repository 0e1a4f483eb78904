// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions for the C side; prototypes in `rdma/mr_pool.h`.

use crate::mr_pool;
use kernel::{bindings, error::from_result, prelude::*};
use rdma::{
    mr::{Mr, MrKind},
    mr_pool::MrPool,
    qp::Qp,
};

/// Takes a region for a transfer; null if all are in use.
///
/// # Safety
///
/// `qp` must be live, `list` an initialised list of its regions.
#[export]
pub(crate) unsafe extern "C" fn ib_mr_pool_get(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pool = unsafe { MrPool::from_raw(Qp::from_raw(qp), list) };
    mr_pool::get(pool).map_or(core::ptr::null_mut(), Mr::as_raw)
}

/// Puts a region back.
///
/// # Safety
///
/// As for [`ib_mr_pool_get`]; `mr` must come from there and be the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_mr_pool_put(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
    mr: *mut bindings::ib_mr,
) {
    // SAFETY: By the contract of this function.
    let (pool, mr) = unsafe { (MrPool::from_raw(Qp::from_raw(qp), list), Mr::from_raw(mr)) };
    mr_pool::put(pool, mr);
}

/// Fills a pool.
///
/// # Safety
///
/// As for [`ib_mr_pool_get`]. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_mr_pool_init(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
    nr: c_int,
    type_: bindings::ib_mr_type,
    max_num_sg: u32,
    max_num_meta_sg: u32,
) -> c_int {
    // SAFETY: By the contract of this function.
    let pool = unsafe { MrPool::from_raw(Qp::from_raw(qp), list) };
    // A negative number asks for nothing.
    let count = u32::try_from(nr).unwrap_or(0);
    let kind = MrKind::from_raw(type_);
    from_result(|| mr_pool::fill(pool, count, kind, max_num_sg, max_num_meta_sg).map(|()| 0))
}

/// Deregisters all regions of a pool.
///
/// # Safety
///
/// As for [`ib_mr_pool_get`]. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_mr_pool_destroy(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
) {
    // SAFETY: By the contract of this function.
    mr_pool::drain(unsafe { MrPool::from_raw(Qp::from_raw(qp), list) });
}
