// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::roce_gid_mgmt`].

use kernel::bindings;
use kernel::error::from_result;
use kernel::ffi::{c_int, c_ulong};
use kernel::prelude::*;
use rdma::device::Device;
use rdma::net::NetDevice;
use rdma::port::Port;

use crate::roce_gid_mgmt;

/// The types of the GIDs of a port, as bits of the numbers of the types.
///
/// # Safety
///
/// Called by everybody, with a valid device whose port data are set up.
#[export]
pub(crate) unsafe extern "C" fn roce_gid_type_mask_support(
    ib_dev: *mut bindings::ib_device,
    port: u32,
) -> c_ulong {
    // SAFETY: By the contract.
    let device = unsafe { Device::from_raw(ib_dev) };
    Port::new(device, port).map_or(0, |port| port.gid_types().mask() as c_ulong)
}

/// Adds the GIDs of all related network devices to all ports of a device.
///
/// # Safety
///
/// Called by device registration and drivers, which may sleep, with a valid device.
#[export]
pub(crate) unsafe extern "C" fn rdma_roce_rescan_device(ibdev: *mut bindings::ib_device) {
    // SAFETY: By the contract.
    roce_gid_mgmt::rescan_device(unsafe { Device::from_raw(ibdev) });
}

/// Adds the GIDs of all related network devices to a port.
///
/// # Safety
///
/// Called by drivers, which may sleep, with a valid device.
#[export]
pub(crate) unsafe extern "C" fn rdma_roce_rescan_port(ib_dev: *mut bindings::ib_device, port: u32) {
    // SAFETY: By the contract.
    let device = unsafe { Device::from_raw(ib_dev) };
    if let Some(port) = Port::new(device, port) {
        roce_gid_mgmt::rescan_port(&port);
    }
}

/// Deletes all GIDs of a network device.
///
/// # Safety
///
/// Called by drivers, which may sleep, with a valid device and a network device that they hold.
#[export]
pub(crate) unsafe extern "C" fn roce_del_all_netdev_gids(
    ib_dev: *mut bindings::ib_device,
    port: u32,
    ndev: *mut bindings::net_device,
) {
    // SAFETY: By the contract.
    let (device, netdev) = unsafe { (Device::from_raw(ib_dev), NetDevice::from_raw_opt(ndev)) };
    if let (Some(port), Some(netdev)) = (Port::new(device, port), netdev) {
        port.delete_gids_of(netdev);
    }
}

/// Starts to listen to network devices and addresses.
///
/// # Safety
///
/// Called once by the init function of the module.
#[export]
pub(crate) unsafe extern "C" fn roce_gid_mgmt_init() -> c_int {
    from_result(|| {
        roce_gid_mgmt::init()?;
        Ok(0)
    })
}

/// Stops listening.
///
/// # Safety
///
/// Called by the exit function of the module, after all devices are gone.
#[export]
pub(crate) unsafe extern "C" fn roce_gid_mgmt_cleanup() {
    roce_gid_mgmt::cleanup();
}
