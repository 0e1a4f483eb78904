// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::device::netdev`] and [`crate::device::enumerate`].

use super::errno;
use crate::device::{
    enumerate,
    netdev, //
};
use core::ptr;
use kernel::{
    bindings::{
        self,
        ib_device,
        net_device, //
    },
    prelude::*,
    sync::aref::ARef, //
};
use rdma::{
    device::{
        netdev::NetDeviceId,
        Device,
        Get, //
    },
    net::NetDevice,
    visit::RoceVisitor, //
};

/// Binds a port to a network device.
///
/// # Safety
///
/// Called by drivers with a device of theirs, and null or a network device that is not being
/// unregistered.
#[export]
pub(crate) unsafe extern "C" fn ib_device_set_netdev(
    ib_dev: *mut ib_device,
    ndev: *mut net_device,
    port: u32,
) -> c_int {
    // SAFETY: By the caller.
    let (device, netdev) = unsafe { (Device::from_raw(ib_dev), NetDevice::from_raw_opt(ndev)) };
    errno(netdev::bind(device, netdev, port))
}

/// The network device of a port, with a reference for the caller; null if it has none.
///
/// # Safety
///
/// The device is valid.
#[export]
pub(crate) unsafe extern "C" fn ib_device_get_netdev(
    ib_dev: *mut ib_device,
    port: u32,
) -> *mut net_device {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(ib_dev) };
    device.netdev(port).map_or(ptr::null_mut(), |netdev| {
        ARef::into_raw(netdev).as_ptr().cast()
    })
}

/// The port that has a network device.
///
/// # Safety
///
/// The device is valid, `ndev` is only compared, and `port` is valid for writes.
#[export]
pub(crate) unsafe extern "C" fn ib_query_netdev_port(
    ibdev: *mut ib_device,
    ndev: *mut net_device,
    port: *mut u32,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(ibdev) };
    errno(
        netdev::port_of(device, NetDeviceId::from_raw(ndev))
            // SAFETY: By the caller.
            .map(|found| unsafe { port.write(found) }),
    )
}

/// Finds a device by a network device; null if there is none. The caller gets a reference.
///
/// # Safety
///
/// The network device is valid.
#[export]
pub(crate) unsafe extern "C" fn ib_device_get_by_netdev(
    ndev: *mut net_device,
    driver_id: bindings::rdma_driver_id,
) -> *mut ib_device {
    // SAFETY: By the caller.
    let netdev = unsafe { NetDevice::from_raw(ndev) };
    enumerate::by_netdev(netdev, driver_id).map_or(ptr::null_mut(), Get::into_raw)
}

/// Sends an event if the state of a link changed.
///
/// # Safety
///
/// Called by drivers: both devices are valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dispatch_port_state_event(
    ibdev: *mut ib_device,
    ndev: *mut net_device,
) {
    // SAFETY: By the caller.
    let (device, netdev) = unsafe { (Device::from_raw(ibdev), NetDevice::from_raw(ndev)) };
    netdev::dispatch_link_state(device, netdev);
}

/// Shows the RoCE ports of a device.
///
/// # Safety
///
/// The device is valid; both functions may be called with their cookie.
#[export]
pub(crate) unsafe extern "C" fn ib_enum_roce_netdev(
    ib_dev: *mut ib_device,
    filter: bindings::roce_netdev_filter,
    filter_cookie: *mut c_void,
    cb: bindings::roce_netdev_callback,
    cookie: *mut c_void,
) {
    // SAFETY: By the caller.
    let (device, visitor) = unsafe {
        (
            Device::from_raw(ib_dev),
            RoceVisitor::new(filter, filter_cookie, cb, cookie),
        )
    };
    enumerate::roce_ports(device, &visitor);
}

/// Shows the RoCE ports of all devices.
///
/// # Safety
///
/// Both functions may be called with their cookie.
#[export]
pub(crate) unsafe extern "C" fn ib_enum_all_roce_netdevs(
    filter: bindings::roce_netdev_filter,
    filter_cookie: *mut c_void,
    cb: bindings::roce_netdev_callback,
    cookie: *mut c_void,
) {
    // SAFETY: By the caller.
    let visitor = unsafe { RoceVisitor::new(filter, filter_cookie, cb, cookie) };
    enumerate::all_roce_ports(&visitor);
}

/// Lets [`ib_enum_all_roce_netdevs`] show a device.
///
/// # Safety
///
/// Called by the cache with a device that is in the table.
#[export]
pub(crate) unsafe extern "C" fn ib_device_enable_gid_updates(device: *mut ib_device) {
    // SAFETY: By the caller.
    enumerate::set_gid_updates(unsafe { Device::from_raw(device) }, true);
}

/// Hides a device from [`ib_enum_all_roce_netdevs`], and waits for calls that run.
///
/// # Safety
///
/// Called by the cache with a device that is in the table.
#[export]
pub(crate) unsafe extern "C" fn ib_device_disable_gid_updates(device: *mut ib_device) {
    // SAFETY: By the caller.
    enumerate::set_gid_updates(unsafe { Device::from_raw(device) }, false);
}
