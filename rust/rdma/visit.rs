// SPDX-License-Identifier: GPL-2.0

//! Callbacks of C code that are called for each of several devices or ports.

use core::ptr;

use crate::{
    device::Device,
    net::NetDevice,
    netns::{
        Net,
        NetId, //
    },
};
use kernel::{
    bindings,
    prelude::*, //
};

/// Called for each RoCE port that a filter lets through.
///
/// # Invariants
///
/// Both functions take what [`RoceVisitor::visit`] hands them, with their cookie.
pub struct RoceVisitor {
    filter: bindings::roce_netdev_filter,
    filter_cookie: *mut c_void,
    callback: bindings::roce_netdev_callback,
    cookie: *mut c_void,
}

impl RoceVisitor {
    /// Collects the functions.
    ///
    /// # Safety
    ///
    /// Both functions may be called, with their cookie, as long as the object exists.
    pub unsafe fn new(
        filter: bindings::roce_netdev_filter,
        filter_cookie: *mut c_void,
        callback: bindings::roce_netdev_callback,
        cookie: *mut c_void,
    ) -> Self {
        Self {
            filter,
            filter_cookie,
            callback,
            cookie,
        }
    }

    /// Shows a port, and the network device that it has, if any. May sleep.
    pub fn visit(&self, device: &Device, port: u32, netdev: Option<&NetDevice>) {
        let netdev = netdev.map_or(ptr::null_mut(), NetDevice::as_raw);
        let (Some(filter), Some(callback)) = (self.filter, self.callback) else {
            return;
        };
        // SAFETY: By the type invariant.
        unsafe {
            if filter(device.as_raw(), port, netdev, self.filter_cookie) {
                callback(device.as_raw(), port, netdev, self.cookie);
            }
        }
    }
}

/// Called for each device that a netlink dump is to list.
///
/// # Invariants
///
/// The function takes what [`DumpVisitor::visit`] hands it; the message is valid.
pub struct DumpVisitor {
    callback: bindings::nldev_callback,
    skb: *mut bindings::sk_buff,
    dump: *mut bindings::netlink_callback,
}

impl DumpVisitor {
    /// Collects the arguments.
    ///
    /// # Safety
    ///
    /// The function may be called, with the other two, as long as the object exists; `skb` is a
    /// message of a netlink socket.
    pub unsafe fn new(
        callback: bindings::nldev_callback,
        skb: *mut bindings::sk_buff,
        dump: *mut bindings::netlink_callback,
    ) -> Self {
        Self {
            callback,
            skb,
            dump,
        }
    }

    /// The namespace of who asks.
    pub fn net(&self) -> NetId {
        // SAFETY: By the type invariant; only the address is used.
        unsafe { Net::from_raw(bindings::rdma_skb_net(self.skb)) }.id()
    }

    /// Shows a device; anything but zero ends the dump.
    pub fn visit(&self, device: &Device, position: u32) -> i32 {
        match self.callback {
            // SAFETY: By the type invariant.
            Some(callback) => unsafe { callback(device.as_raw(), self.skb, self.dump, position) },
            None => 0,
        }
    }
}
