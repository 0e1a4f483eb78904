// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::device::client`], and of events.

use super::errno;
use crate::device::client;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings::{
        self,
        ib_client,
        ib_device,
        ib_event_handler, //
    },
    prelude::*, //
};
use rdma::{
    client::{
        Client,
        ClientData,
        NetDevQuery,
        NlInfo, //
    },
    device::{
        events::EventHandler,
        Device, //
    },
};

/// Registers a client.
///
/// # Safety
///
/// Called by clients, which stay until [`ib_unregister_client`] has returned.
#[export]
pub(crate) unsafe extern "C" fn ib_register_client(client: *mut ib_client) -> c_int {
    // SAFETY: By the caller.
    errno(client::register(unsafe { Client::from_raw(client) }))
}

/// Unregisters a client.
///
/// # Safety
///
/// Called once by each client that was registered, without locks.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_client(client: *mut ib_client) {
    // SAFETY: By the caller.
    client::unregister(unsafe { Client::from_raw(client) });
}

/// Notes what a client keeps for a device.
///
/// # Safety
///
/// Called by clients that were told of the device and are not yet done with its removal.
#[export]
pub(crate) unsafe extern "C" fn ib_set_client_data(
    device: *mut ib_device,
    client: *mut ib_client,
    data: *mut c_void,
) {
    // SAFETY: By the caller.
    let (device, client) = unsafe { (Device::from_raw(device), Client::from_raw(client)) };
    client::set_data(device, client, ClientData::new(data));
}

/// Asks a client for its character device.
///
/// # Safety
///
/// Called by netlink: `ibdev` is null or registered, `client_name` a string, `res` the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_get_client_nl_info(
    ibdev: *mut ib_device,
    client_name: *const c_char,
    res: *mut bindings::ib_client_nl_info,
) -> c_int {
    // SAFETY: By the caller.
    let (device, name, info) = unsafe {
        (
            NonNull::new(ibdev).map(|ibdev| Device::from_raw(ibdev.as_ptr())),
            CStr::from_char_ptr(client_name),
            NlInfo::from_raw(res),
        )
    };
    errno(client::nl_info(device, name, info))
}

/// Finds the network device that a connection request is for; null if nobody knows one.
///
/// # Safety
///
/// Called by rdma_cm with a registered device and valid addresses.
#[export]
pub(crate) unsafe extern "C" fn ib_get_net_dev_by_params(
    dev: *mut ib_device,
    port: u32,
    pkey: u16,
    gid: *const bindings::ib_gid,
    addr: *const bindings::sockaddr,
) -> *mut bindings::net_device {
    // SAFETY: By the caller.
    let (device, query) = unsafe {
        (
            Device::from_raw(dev),
            NetDevQuery::new(port, pkey, gid, addr),
        )
    };
    client::net_dev_by_params(device, &query, |client, data| {
        NonNull::new(client.net_dev_by_params(device, data, &query))
    })
    .map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Registers a handler of events.
///
/// # Safety
///
/// The handler is not registered, has a device, and stays until it is unregistered.
#[export]
pub(crate) unsafe extern "C" fn ib_register_event_handler(event_handler: *mut ib_event_handler) {
    // SAFETY: By the caller.
    unsafe { EventHandler::from_raw(event_handler).register() }
}

/// Unregisters a handler of events.
///
/// # Safety
///
/// The handler is registered.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_event_handler(event_handler: *mut ib_event_handler) {
    // SAFETY: By the caller.
    unsafe { EventHandler::from_raw(event_handler).unregister() }
}

/// Calls the handlers of an event.
///
/// # Safety
///
/// Called by the cache, on a work queue, with an event whose device it holds.
#[export]
pub(crate) unsafe extern "C" fn ib_dispatch_event_clients(event: *mut bindings::ib_event) {
    // SAFETY: By the caller.
    unsafe { Device::from_raw((*event).device).call_event_handlers(event) }
}
