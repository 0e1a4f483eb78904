// SPDX-License-Identifier: GPL-2.0

//! What requests have done to devices and to the subsystem.

use core::ptr::NonNull;

use kernel::{
    bindings,
    device,
    error::to_result,
    prelude::*,
    sync::aref::ARef, //
};

use crate::{
    device::{
        Device,
        Get, //
    },
    netlink::{
        AttrWriter,
        Request, //
    }, //
};

/// Renames a device; `EEXIST` if the name is taken. May sleep.
#[inline]
pub fn rename(device: &Get, name: &CStr) -> Result {
    // SAFETY: The device is registered, the name a C string.
    to_result(unsafe { bindings::ib_device_rename(device.as_raw(), name.as_char_ptr()) })
}

/// Switches the adaptive moderation of new completion queues.
#[inline]
pub fn set_dim(device: &Get, on: u8) -> Result {
    // SAFETY: The device is registered.
    to_result(unsafe { bindings::ib_device_set_dim(device.as_raw(), on) })
}

/// Moves a device to the namespace that the sender of the request has open as `fd`, under a new
/// name if one is given. May sleep.
#[inline]
pub fn set_netns(request: &mut Request<'_>, device: Get, fd: u32, name: Option<&CStr>) -> Result {
    let name = name.map_or(core::ptr::null(), |name| name.as_char_ptr());
    // SAFETY: The function takes over the count on the device; the rest is valid during the call.
    to_result(unsafe {
        bindings::ib_device_set_netns_put(
            request.skb_raw(),
            device.into_raw(),
            fd,
            name,
            request.extack_raw(),
        )
    })
}

/// Unregisters a device. Returns when it is unregistered. Sleeps.
#[inline]
pub fn unregister(device: Get) {
    // SAFETY: The function takes over the count.
    unsafe { bindings::ib_unregister_device_and_put(device.into_raw()) };
}

/// Has the driver of `parent` make a sub-device of the type `kind`. May sleep.
#[inline]
pub fn add_sub_device(parent: &Get, kind: u8, name: &CStr) -> Result {
    // SAFETY: The device is registered, the name a C string.
    to_result(unsafe {
        bindings::ib_add_sub_device(parent.as_raw(), kind.into(), name.as_char_ptr())
    })
}

/// Has the driver remove a sub-device. May sleep.
#[inline]
pub fn del_sub_device(device: Get) -> Result {
    // SAFETY: The function takes over the count.
    to_result(unsafe { bindings::ib_del_sub_device_and_put(device.into_raw()) })
}

/// Whether network namespaces share the devices.
#[inline]
pub fn netns_shared() -> bool {
    // SAFETY: A word that is read once; who changes it does so under locks of its own.
    unsafe { (&raw const bindings::ib_devices_shared_netns).read_volatile() }
}

/// Has network namespaces share the devices, or not; `EBUSY` if there is more than one. May sleep.
#[inline]
pub fn set_netns_shared(shared: bool) -> Result {
    // SAFETY: No requirements.
    to_result(unsafe { bindings::rdma_compatdev_set(shared.into()) })
}

/// Which of a client's character devices is asked for.
pub enum Chardev<'a> {
    /// The one for all devices.
    Global,
    /// That of a device.
    Device(&'a Device),
    /// That of a port.
    Port(&'a Device, u32),
}

/// A client's character device.
pub struct ChardevInfo {
    /// The device node.
    node: ARef<device::Device>,
    /// The number of the node, in the encoding of `stat`.
    pub number: u64,
    /// The version of its interface.
    pub abi: u64,
}

impl ChardevInfo {
    /// The name of the node.
    pub fn name(&self) -> &CStr {
        self.node.name()
    }
}

/// Asks a client, whose module is loaded if need be, for a character device. May sleep.
///
/// The client may add attributes of its own to `out`.
#[inline]
pub fn chardev(which: Chardev<'_>, client: &CStr, out: &mut AttrWriter<'_>) -> Result<ChardevInfo> {
    let (device, port) = match which {
        Chardev::Global => (core::ptr::null_mut(), 0),
        Chardev::Device(device) => (device.as_raw(), u32::MAX),
        Chardev::Port(device, port) => (device.as_raw(), port),
    };
    let mut info = bindings::ib_client_nl_info {
        nl_msg: out.as_raw(),
        port,
        ..pin_init::zeroed()
    };
    // SAFETY: The device, if any, is valid, the name a C string, and the message can take
    // attributes.
    to_result(unsafe { bindings::ib_get_client_nl_info(device, client.as_char_ptr(), &mut info) })?;
    let node = NonNull::new(info.cdev).ok_or(ENODEV)?;
    Ok(ChardevInfo {
        // SAFETY: The node is valid; its number never changes.
        number: unsafe { bindings::huge_encode_dev((*node.as_ptr()).devt) },
        // SAFETY: The client took a reference for the caller. `Device` is transparent.
        node: unsafe { ARef::from_raw(node.cast()) },
        abi: info.abi,
    })
}
