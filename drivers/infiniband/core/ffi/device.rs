// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::device`]: life of a device and of the module.

mod client;
mod netdev;
mod netns;
mod port;

use crate::device::{
    enumerate,
    init,
    lifecycle,
    name,
    subdev, //
};
use core::ptr;
use kernel::{
    bindings::{
        self,
        ib_device, //
    },
    error::from_result,
    prelude::*, //
};
use rdma::{
    device::{
        ops::DmaDevice,
        subdev::NewSubDevice,
        Device,
        Get, //
    },
    netns::Net,
    visit::DumpVisitor, //
};

/// What C expects of a function that succeeds or fails.
fn errno(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// Loads the core.
///
/// # Safety
///
/// Called once, by the module's init function.
#[export]
pub(crate) unsafe extern "C" fn rdma_core_init() -> c_int {
    errno(init::init())
}

/// Unloads the core.
///
/// # Safety
///
/// Called once, by the module's exit function: no other module uses the core.
#[export]
pub(crate) unsafe extern "C" fn rdma_core_exit() {
    init::exit();
}

/// Makes a device of a driver's size; null if there is no memory.
///
/// # Safety
///
/// Called by drivers. `net` stays until the device is registered.
#[export]
pub(crate) unsafe extern "C" fn _ib_alloc_device(
    size: usize,
    net: *mut bindings::net,
) -> *mut ib_device {
    // SAFETY: By the caller.
    let net = unsafe { Net::from_raw(net) };
    lifecycle::alloc(size, net).map_or(ptr::null_mut(), Device::as_raw)
}

/// Ends the life of a device.
///
/// # Safety
///
/// Called by drivers with a device of theirs that is not registered, at most once.
#[export]
pub(crate) unsafe extern "C" fn ib_dealloc_device(device: *mut ib_device) {
    // SAFETY: The driver has the first reference.
    lifecycle::dealloc(unsafe { Device::from_raw(device) });
}

/// Takes operations over.
///
/// # Safety
///
/// Called by drivers with a device of theirs that is not registered yet, and a table of theirs.
#[export]
pub(crate) unsafe extern "C" fn ib_set_device_ops(
    dev: *mut ib_device,
    ops: *const bindings::ib_device_ops,
) {
    // SAFETY: By the caller.
    unsafe { Device::from_raw(dev).merge_ops(ops) }
}

/// Registers a device.
///
/// # Safety
///
/// Called by drivers with a device of theirs that was not registered before, a string, and null or
/// a device that stays as long as this one is registered.
#[export]
pub(crate) unsafe extern "C" fn ib_register_device(
    device: *mut ib_device,
    name: *const c_char,
    dma_device: *mut bindings::device,
) -> c_int {
    // SAFETY: By the caller.
    let (device, name, dma_device) = unsafe {
        (
            Device::from_raw(device),
            CStr::from_char_ptr(name),
            DmaDevice::from_raw(dma_device),
        )
    };
    errno(lifecycle::register(device, name, dma_device))
}

/// Unregisters a device.
///
/// # Safety
///
/// Called by drivers with a device of theirs that was registered; the caller makes sure that
/// nobody else frees it meanwhile.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_device(ib_dev: *mut ib_device) {
    // SAFETY: By the caller.
    lifecycle::unregister(unsafe { Device::from_raw(ib_dev) });
}

/// Unregisters a device and drops a reference.
///
/// # Safety
///
/// The caller gives a registration reference away.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_device_and_put(ib_dev: *mut ib_device) {
    // SAFETY: By the caller.
    lifecycle::unregister_and_put(unsafe { Get::from_raw(ib_dev) });
}

/// Unregisters a device later.
///
/// # Safety
///
/// Called by drivers with a device of theirs that they have a reference on.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_device_queued(ib_dev: *mut ib_device) {
    // SAFETY: By the caller.
    lifecycle::unregister_queued(unsafe { Device::from_raw(ib_dev) });
}

/// Unregisters all devices of a driver.
///
/// # Safety
///
/// Called by drivers that are being unloaded, without locks.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_driver(driver_id: bindings::rdma_driver_id) {
    lifecycle::unregister_driver(driver_id);
}

/// Drops a registration reference.
///
/// # Safety
///
/// The caller gives a registration reference away.
#[export]
pub(crate) unsafe extern "C" fn ib_device_put(device: *mut ib_device) {
    // SAFETY: By the caller.
    drop(unsafe { Get::from_raw(device) });
}

/// Finds a device by index; null if there is none. The caller gets a reference.
///
/// # Safety
///
/// `net` is valid. Called by netlink handlers.
#[export]
pub(crate) unsafe extern "C" fn ib_device_get_by_index(
    net: *const bindings::net,
    index: u32,
) -> *mut ib_device {
    // SAFETY: By the caller.
    let net = unsafe { Net::from_raw(net) }.id();
    enumerate::by_index(net, index).map_or(ptr::null_mut(), Get::into_raw)
}

/// Renames a device.
///
/// # Safety
///
/// Called by netlink with a registration reference, and a string.
#[export]
pub(crate) unsafe extern "C" fn ib_device_rename(
    ibdev: *mut ib_device,
    name: *const c_char,
) -> c_int {
    // SAFETY: By the caller.
    let (device, name) = unsafe { (Device::from_raw(ibdev), CStr::from_char_ptr(name)) };
    errno(name::rename(device, name))
}

/// Shows devices to a netlink dump.
///
/// # Safety
///
/// Called by netlink: the callback takes the other two arguments.
#[export]
pub(crate) unsafe extern "C" fn ib_enum_all_devs(
    nldev_cb: bindings::nldev_callback,
    skb: *mut bindings::sk_buff,
    cb: *mut bindings::netlink_callback,
) -> c_int {
    // SAFETY: By the caller.
    let visitor = unsafe { DumpVisitor::new(nldev_cb, skb, cb) };
    enumerate::dump(&visitor)
}

/// Makes a sub-device.
///
/// # Safety
///
/// Called by netlink with a registration reference on `parent`, and a string.
#[export]
pub(crate) unsafe extern "C" fn ib_add_sub_device(
    parent: *mut ib_device,
    type_: bindings::rdma_nl_dev_type,
    name: *const c_char,
) -> c_int {
    // SAFETY: By the caller.
    let parent = unsafe { Device::from_raw(parent) };
    // SAFETY: By the caller.
    errno(subdev::add(parent, |parent| unsafe {
        NewSubDevice::create(parent, type_, name)
    }))
}

/// Deletes a sub-device and drops a reference.
///
/// # Safety
///
/// Called by netlink, which gives a registration reference away.
#[export]
pub(crate) unsafe extern "C" fn ib_del_sub_device_and_put(sub: *mut ib_device) -> c_int {
    // SAFETY: By the caller.
    errno(subdev::delete(unsafe { Get::from_raw(sub) }))
}
