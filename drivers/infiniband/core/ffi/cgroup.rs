// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::cgroup`].

use crate::cgroup;
use kernel::{
    bindings,
    error::from_result,
    prelude::*, //
};
use rdma::{
    cgroup::{
        Charge,
        Resource, //
    },
    device::Device, //
};

/// Lists a device with the rdma cgroup controller.
///
/// # Safety
///
/// Called by device registration: `device` has its name and index and is not
/// listed. [`ib_device_unregister_rdmacg`] follows before it is freed.
#[export]
pub(crate) unsafe extern "C" fn ib_device_register_rdmacg(device: *mut bindings::ib_device) {
    // SAFETY: By the caller.
    unsafe { rdma::cgroup::register(Device::from_raw(device)) }
}

/// Takes a device off the controller's list.
///
/// # Safety
///
/// Called by device unregistration: `device` is listed and no user object is
/// left.
#[export]
pub(crate) unsafe extern "C" fn ib_device_unregister_rdmacg(device: *mut bindings::ib_device) {
    // SAFETY: By the caller.
    unsafe { rdma::cgroup::unregister(Device::from_raw(device)) }
}

/// Charges a user object.
///
/// # Safety
///
/// Called by ib_uverbs for an object that is being created on the registered
/// `device`, so no other thread uses `cg_obj`.
#[export]
pub(crate) unsafe extern "C" fn ib_rdmacg_try_charge(
    cg_obj: *mut bindings::ib_rdmacg_object,
    device: *mut bindings::ib_device,
    resource_index: bindings::rdmacg_resource_type,
) -> c_int {
    // SAFETY: By the caller.
    let (charge, device) = unsafe { (Charge::from_raw(cg_obj), Device::from_raw(device)) };
    from_result(|| {
        cgroup::try_charge(charge, device, Resource::from_raw(resource_index))?;
        Ok(0)
    })
}

/// Gives the charge of a user object back.
///
/// # Safety
///
/// Called by ib_uverbs for an object that is being destroyed and was charged, on
/// a `device` that still is listed.
#[export]
pub(crate) unsafe extern "C" fn ib_rdmacg_uncharge(
    cg_obj: *mut bindings::ib_rdmacg_object,
    device: *mut bindings::ib_device,
    resource_index: bindings::rdmacg_resource_type,
) {
    // SAFETY: By the caller.
    let (charge, device) = unsafe { (Charge::from_raw(cg_obj), Device::from_raw(device)) };
    cgroup::uncharge(charge, device, Resource::from_raw(resource_index))
}
