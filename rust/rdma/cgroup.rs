// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup controller.
//!
//! C header: [`include/linux/cgroup_rdma.h`](srctree/include/linux/cgroup_rdma.h)

use crate::device::Device;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// A resource that the controller counts.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Resource(bindings::rdmacg_resource_type);

impl Resource {
    /// From the C enumeration (`RDMACG_RESOURCE_*`).
    pub fn from_raw(raw: bindings::rdmacg_resource_type) -> Self {
        Self(raw)
    }
}

/// Remembers the cgroup that an object was charged to (`struct ib_rdmacg_object`).
///
/// # Invariants
///
/// The pointer is valid as long as the reference, and only the owner of the
/// charged object writes through it.
#[repr(transparent)]
pub struct Charge(Opaque<bindings::ib_rdmacg_object>);

impl Charge {
    /// Views a C object.
    ///
    /// # Safety
    ///
    /// `ptr` must stay valid for `'a`, and no other thread may charge or
    /// uncharge through it meanwhile.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_rdmacg_object) -> &'a Self {
        // SAFETY: `Charge` is a transparent wrapper; validity by the caller.
        unsafe { &*ptr.cast() }
    }

    /// Charges one resource of the device to the current task's cgroup.
    ///
    /// May sleep. `EAGAIN` when a limit is reached.
    pub fn try_charge(&self, device: &Device, resource: Resource) -> Result {
        // SAFETY: By the type invariants both objects are valid; the device is
        // registered with the controller while user objects exist.
        to_result(unsafe {
            bindings::rdmacg_try_charge(
                &raw mut (*self.0.get()).cg,
                &raw mut (*device.as_raw()).cg_device,
                resource.0,
            )
        })
    }

    /// Gives a charge back. May sleep.
    pub fn uncharge(&self, device: &Device, resource: Resource) {
        // SAFETY: As in `try_charge`; the cgroup was recorded there.
        unsafe {
            bindings::rdmacg_uncharge(
                (*self.0.get()).cg,
                &raw mut (*device.as_raw()).cg_device,
                resource.0,
            )
        }
    }
}

/// Lists the device with the controller under its name and index. May sleep.
///
/// The controller keeps a pointer to the name inside the device, so a rename
/// shows up there at once.
///
/// # Safety
///
/// The device must be named and not be listed; it must be taken off the list
/// before it is freed.
pub unsafe fn register(device: &Device) {
    let dev = device.as_raw();
    // SAFETY: The device is valid; nobody else uses the controller's part of it
    // before it is listed, and the list entry is removed in time by the caller.
    unsafe {
        (*dev).cg_device.name = (&raw mut (*dev).name).cast();
        (*dev).cg_device.index = (*dev).index;
        bindings::rdmacg_register_device(&raw mut (*dev).cg_device);
    }
}

/// Takes the device off the controller's list; charges are dropped. May sleep.
///
/// # Safety
///
/// The device must be listed.
pub unsafe fn unregister(device: &Device) {
    // SAFETY: The entry is on the list, by the caller.
    unsafe { bindings::rdmacg_unregister_device(&raw mut (*device.as_raw()).cg_device) };
}
