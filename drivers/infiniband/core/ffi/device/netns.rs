// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::device::netns`].

use super::errno;
use crate::device::netns;
use core::ptr::NonNull;
use kernel::{
    bindings::{
        self,
        ib_device, //
    },
    prelude::*, //
};
use rdma::{
    device::{
        Device,
        Get, //
    },
    netns::{
        Net,
        Requester, //
    },
};

/// A namespace is being made.
///
/// # Safety
///
/// Called by the network core, once per namespace.
#[export]
pub(crate) unsafe extern "C" fn rdma_net_init(net: *mut bindings::net) -> c_int {
    // SAFETY: By the caller.
    errno(netns::init_net(unsafe { Net::from_raw(net) }))
}

/// A namespace goes.
///
/// # Safety
///
/// Called by the network core, once per namespace for which [`rdma_net_init`] succeeded.
#[export]
pub(crate) unsafe extern "C" fn rdma_net_exit(net: *mut bindings::net) {
    // SAFETY: By the caller.
    netns::exit_net(unsafe { Net::from_raw(net) });
}

/// Whether a namespace can see a device.
///
/// # Safety
///
/// Both are valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_dev_access_netns(
    dev: *const ib_device,
    net: *const bindings::net,
) -> bool {
    // SAFETY: By the caller.
    let (device, net) = unsafe { (Device::from_raw(dev.cast_mut()), Net::from_raw(net)) };
    netns::can_see(device, net.id())
}

/// Whether the current task may send raw packets through a device.
///
/// # Safety
///
/// The caller keeps the device registered.
#[export]
pub(crate) unsafe extern "C" fn rdma_dev_has_raw_cap(dev: *const ib_device) -> bool {
    // SAFETY: By the caller.
    netns::has_raw_cap(unsafe { Device::from_raw(dev.cast_mut()) })
}

/// Changes the sharing mode.
///
/// # Safety
///
/// Called by netlink.
#[export]
pub(crate) unsafe extern "C" fn rdma_compatdev_set(enable: u8) -> c_int {
    errno(netns::set_shared_mode(enable != 0))
}

/// Moves a device to another namespace, and drops a reference.
///
/// # Safety
///
/// Called by netlink, which gives a registration reference away; `skb` and `extack` are those of
/// the message, `name` is null or a string.
#[export]
pub(crate) unsafe extern "C" fn ib_device_set_netns_put(
    skb: *mut bindings::sk_buff,
    dev: *mut ib_device,
    ns_fd: u32,
    name: *const c_char,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: By the caller.
    let (device, name, requester) = unsafe {
        (
            Get::from_raw(dev),
            NonNull::new(name.cast_mut()).map(|name| CStr::from_char_ptr(name.as_ptr())),
            Requester::from_raw(skb, extack),
        )
    };
    errno(netns::set_netns(device, ns_fd, name, &requester))
}
