// SPDX-License-Identifier: GPL-2.0

//! The class of RDMA devices, `/sys/class/infiniband`.
//!
//! C header: [`include/linux/device/class.h`](srctree/include/linux/device/class.h)

use crate::device::{
    alloc,
    Device, //
};
use kernel::{
    bindings,
    container_of,
    error::to_result,
    prelude::*, //
};

/// A class whose devices are `struct ib_core_device`.
///
/// Devices appear in the network namespace that they belong to, and their uevents carry the
/// variable `NAME`.
#[repr(transparent)]
pub struct Class(bindings::class);

// SAFETY: The driver model only reads a class.
unsafe impl Sync for Class {}

impl Class {
    /// Describes a class.
    #[inline]
    pub const fn new(name: &'static CStr) -> Self {
        let mut class: bindings::class = pin_init::zeroed();
        class.name = name.as_ptr().cast();
        class.dev_release = Some(release);
        class.dev_uevent = Some(uevent);
        class.ns_type = &raw const bindings::net_ns_type_operations;
        class.namespace = Some(namespace);
        Self(class)
    }

    /// The C object.
    pub fn as_raw(&'static self) -> *const bindings::class {
        &raw const self.0
    }

    /// Adds the class to the driver model until the result is dropped. May sleep.
    pub fn register(&'static self) -> Result<ClassRegistration> {
        // SAFETY: The class is static.
        to_result(unsafe { bindings::class_register(self.as_raw()) })?;
        Ok(ClassRegistration(self))
    }
}

/// A class that is in the driver model.
pub struct ClassRegistration(&'static Class);

impl Drop for ClassRegistration {
    fn drop(&mut self) {
        // SAFETY: Registered once, and no device is left.
        unsafe { bindings::class_unregister(self.0.as_raw()) }
    }
}

/// Frees a device.
///
/// # Safety
///
/// Called by the driver model when the last reference on a device made by [`Device::alloc`] is
/// dropped (compat devices have a release function of their own).
#[inline]
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: The device is embedded in an `ib_core_device` whose owner is the device itself.
    unsafe {
        let coredev: *mut bindings::ib_core_device =
            container_of!(dev, bindings::ib_core_device, dev);
        alloc::release((*coredev).owner);
    }
}

/// Adds the name to a uevent. Runs with the table of devices locked or not.
///
/// # Safety
///
/// Called by the driver model for a device of the class that is in sysfs.
#[inline]
unsafe extern "C" fn uevent(
    dev: *const bindings::device,
    env: *mut bindings::kobj_uevent_env,
) -> c_int {
    // SAFETY: The owner of a device in sysfs is valid; the format takes one string.
    unsafe {
        let coredev: *const bindings::ib_core_device =
            container_of!(dev, bindings::ib_core_device, dev);
        let name = Device::from_raw((*coredev).owner).name();
        bindings::add_uevent_var(env, c"NAME=%s".as_char_ptr(), name.as_char_ptr())
    }
}

/// Tells the namespace of a device.
///
/// # Safety
///
/// Called by the driver model for a device of the class.
#[inline]
unsafe extern "C" fn namespace(dev: *const bindings::device) -> *const bindings::ns_common {
    // SAFETY: The device is embedded in an `ib_core_device`, whose namespace is set.
    unsafe {
        let coredev: *const bindings::ib_core_device =
            container_of!(dev, bindings::ib_core_device, dev);
        let net = bindings::read_pnet(&raw const (*coredev).rdma_net);
        if net.is_null() {
            core::ptr::null()
        } else {
            bindings::to_ns_common(net)
        }
    }
}
