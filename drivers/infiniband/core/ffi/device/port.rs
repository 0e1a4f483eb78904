// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::device::port`].

use super::errno;
use crate::device::port;
use kernel::{
    bindings::{
        self,
        ib_device,
        ib_port_immutable, //
    },
    prelude::*,
    warn_on, //
};
use rdma::device::Device;

/// What a port that does not exist can do: nothing.
static NO_PORT: ib_port_immutable = pin_init::zeroed();

/// What never changes about a port.
///
/// # Safety
///
/// Called by drivers with a device that is set up.
#[export]
pub(crate) unsafe extern "C" fn ib_port_immutable_read(
    dev: *mut ib_device,
    port: c_uint,
) -> *const ib_port_immutable {
    // SAFETY: By the caller.
    let immutable = unsafe { Device::from_raw(dev) }.immutable(port);
    warn_on!(immutable.is_none());
    immutable.unwrap_or(&NO_PORT)
}

/// Writes the version of the firmware.
///
/// # Safety
///
/// The device is valid; `str_` has room for `IB_FW_VERSION_NAME_MAX` bytes.
#[export]
pub(crate) unsafe extern "C" fn ib_get_device_fw_str(dev: *mut ib_device, str_: *mut c_char) {
    // SAFETY: By the caller.
    unsafe { Device::from_raw(dev).read_fw_version(&mut *str_.cast()) }
}

/// Asks for the attributes of a port.
///
/// # Safety
///
/// The device is valid; the attributes are the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_query_port(
    device: *mut ib_device,
    port_num: u32,
    port_attr: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(device) };
    let mut attr = pin_init::zeroed();
    let result = port::query(device, port_num, &mut attr);
    if result != Err(EINVAL) || device.has_port(port_num) {
        // SAFETY: By the caller, who may not have initialised the place.
        unsafe { port_attr.write(attr) };
    }
    errno(result)
}

/// Asks for a P_Key.
///
/// # Safety
///
/// The device is valid; `pkey` is valid for writes.
#[export]
pub(crate) unsafe extern "C" fn ib_query_pkey(
    device: *mut ib_device,
    port_num: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(device) };
    errno(
        port::query_pkey(device, port_num, index)
            // SAFETY: By the caller.
            .map(|found| unsafe { pkey.write(found) }),
    )
}

/// Finds a P_Key.
///
/// # Safety
///
/// The device is valid; `index` is valid for writes.
#[export]
pub(crate) unsafe extern "C" fn ib_find_pkey(
    device: *mut ib_device,
    port_num: u32,
    pkey: u16,
    index: *mut u16,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(device) };
    errno(
        port::find_pkey(device, port_num, pkey)
            // SAFETY: By the caller.
            .map(|found| unsafe { index.write(found) }),
    )
}

/// Finds a GID.
///
/// # Safety
///
/// The device and the GID are valid, `port_num` is valid for writes, and so is `index` unless it is
/// null.
#[export]
pub(crate) unsafe extern "C" fn ib_find_gid(
    device: *mut ib_device,
    gid: *mut bindings::ib_gid,
    port_num: *mut u32,
    index: *mut u16,
) -> c_int {
    // SAFETY: By the caller.
    let (device, gid) = unsafe { (Device::from_raw(device), (*gid).raw) };
    errno(port::find_gid(device, &gid).map(|(port, found)| {
        // SAFETY: By the caller.
        unsafe {
            port_num.write(port);
            if !index.is_null() {
                index.write(found);
            }
        }
    }))
}

/// Changes attributes of a device.
///
/// # Safety
///
/// The device is valid; the attributes are the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_device(
    device: *mut ib_device,
    device_modify_mask: c_int,
    device_modify: *mut bindings::ib_device_modify,
) -> c_int {
    // SAFETY: By the caller.
    let (device, modify) = unsafe { (Device::from_raw(device), &mut *device_modify) };
    errno(port::modify_device(device, device_modify_mask, modify))
}

/// Changes attributes of a port.
///
/// # Safety
///
/// The device is valid; the attributes are the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_port(
    device: *mut ib_device,
    port_num: u32,
    port_modify_mask: c_int,
    port_modify: *mut bindings::ib_port_modify,
) -> c_int {
    // SAFETY: By the caller.
    let (device, modify) = unsafe { (Device::from_raw(device), &mut *port_modify) };
    errno(port::modify(device, port_num, port_modify_mask, modify))
}

/// Turns the moderation of completion queues on or off.
///
/// # Safety
///
/// Called by netlink with a registered device.
#[export]
pub(crate) unsafe extern "C" fn ib_device_set_dim(ibdev: *mut ib_device, use_dim: u8) -> c_int {
    // SAFETY: By the caller.
    errno(port::set_dim(unsafe { Device::from_raw(ibdev) }, use_dim))
}

/// Maps a scatter list for a device that is software.
///
/// # Safety
///
/// Called by the DMA functions of the RDMA headers with a list of at least `nents` entries.
#[export]
pub(crate) unsafe extern "C" fn ib_dma_virt_map_sg(
    _dev: *mut ib_device,
    sg: *mut bindings::scatterlist,
    nents: c_int,
) -> c_int {
    // SAFETY: By the caller.
    unsafe { rdma::dma_virt::map_sg(sg, nents) }
}
