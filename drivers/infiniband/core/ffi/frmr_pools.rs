// SPDX-License-Identifier: GPL-2.0

//! Pools of fast-registration handles for drivers and nldev.

use crate::frmr_pools;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    frmr::{
        FrmrMr,
        Key,
        Pools, //
    },
};

/// What C expects of a function that returns nothing but an error.
fn to_errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Gives a device pools.
///
/// # Safety
///
/// Called by drivers for a device of their own, once, with static operations.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pools_init(
    device: *mut bindings::ib_device,
    pool_ops: *const bindings::ib_frmr_pool_ops,
) -> c_int {
    // SAFETY: Promised by the caller.
    let created = unsafe {
        Pools::create(
            Device::from_raw(device),
            pool_ops,
            frmr_pools::DEFAULT_PERIOD,
        )
    };
    to_errno(created)
}

/// Ends the pools of a device, if it has any.
///
/// # Safety
///
/// Called by drivers for a device of their own, when all handles are back.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pools_cleanup(device: *mut bindings::ib_device) {
    // SAFETY: Promised by the caller.
    unsafe { Pools::destroy(Device::from_raw(device), frmr_pools::destroy_all) }
}

/// Gives a region a handle.
///
/// # Safety
///
/// Called by drivers for a region of their own, from a context that may sleep.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pool_pop(
    device: *mut bindings::ib_device,
    mr: *mut bindings::ib_mr,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (device, mr) = unsafe { (Device::from_raw(device), FrmrMr::from_raw(mr)) };
    to_errno(frmr_pools::take(device, mr))
}

/// Takes a region's handle back.
///
/// # Safety
///
/// Called by drivers for a region of their own that has a handle.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pool_push(
    device: *mut bindings::ib_device,
    mr: *mut bindings::ib_mr,
) {
    // SAFETY: Promised by the caller.
    let (device, mr) = unsafe { (Device::from_raw(device), FrmrMr::from_raw(mr)) };
    frmr_pools::give_back(device, mr)
}

/// Forgets a region's handle, which the driver destroys.
///
/// # Safety
///
/// Called by drivers for a region of their own that has a handle.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pool_drop(mr: *mut bindings::ib_mr) {
    // SAFETY: Promised by the caller.
    frmr_pools::drop_handle(unsafe { FrmrMr::from_raw(mr) })
}

/// Sets how many handles a pool keeps.
///
/// # Safety
///
/// Called by nldev with a registered device and a key of its own.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pools_set_pinned(
    device: *mut bindings::ib_device,
    key: *mut bindings::ib_frmr_key,
    pinned_handles: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (device, key) = unsafe { (Device::from_raw(device), Key::from_raw(key)) };
    to_errno(frmr_pools::set_pinned(device, &key, pinned_handles))
}

/// Sets the time between two rounds of ageing.
///
/// # Safety
///
/// Called by nldev with a registered device.
#[export]
pub(crate) unsafe extern "C" fn ib_frmr_pools_set_aging_period(
    device: *mut bindings::ib_device,
    period_sec: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    let device = unsafe { Device::from_raw(device) };
    to_errno(frmr_pools::set_period(device, period_sec))
}
