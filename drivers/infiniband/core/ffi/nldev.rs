// SPDX-License-Identifier: GPL-2.0

//! What C calls of [`nldev`].

use core::ptr::NonNull;

use kernel::{
    bindings::{
        ib_device,
        rdma_link_ops,
        rdma_nl_notify_event_type,
        sk_buff, //
    },
    prelude::*, //
};
use rdma::{
    device::Device,
    netlink::AttrWriter,
    nldev::link::LINK_TYPES, //
};

use crate::nldev::{
    self,
    Event,
    PrintType, //
};

fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Runs `put` on a reply that a driver adds to.
///
/// # Safety
///
/// `msg` is the reply that the driver was asked to add to, `name` a C string.
unsafe fn with_reply(
    msg: *mut sk_buff,
    name: *const c_char,
    put: impl FnOnce(&mut AttrWriter<'_>, &CStr) -> Result,
) -> c_int {
    let Some(msg) = NonNull::new(msg) else {
        return EINVAL.to_errno();
    };
    // SAFETY: Promised by the caller.
    let (mut out, name) = unsafe { (AttrWriter::from_raw(msg), CStr::from_char_ptr(name)) };
    errno(put(&mut out, name))
}

/// Opens the commands to user space.
///
/// # Safety
///
/// Called once by the module's init function, after `rdma_nl_init()`.
#[export]
pub(crate) unsafe extern "C" fn nldev_init() {
    nldev::init();
}

/// Closes the commands to user space.
///
/// # Safety
///
/// Called by the module's exit function.
#[export]
pub(crate) unsafe extern "C" fn nldev_exit() {
    nldev::exit();
}

/// Whether processes without rights may use reserved queue keys. Called by ib_uverbs.
///
/// # Safety
///
/// Callable in any context.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_get_privileged_qkey() -> bool {
    nldev::privileged_qkey()
}

/// Tells listeners what happened to a device.
///
/// # Safety
///
/// `device` is a device that the caller keeps, and that stays in its namespace meanwhile. Called
/// from process context by the registry and the notifiers of network devices.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_notify_event(
    device: *mut ib_device,
    port_num: u32,
    type_: rdma_nl_notify_event_type,
) -> c_int {
    let Some(event) = Event::from_raw(type_) else {
        return EINVAL.to_errno();
    };
    // SAFETY: Promised by the caller.
    let device = unsafe { Device::from_raw(device) };
    // SAFETY: Promised by the caller.
    let Some(netns) = (unsafe { device.netns() }) else {
        return EINVAL.to_errno();
    };
    errno(nldev::notify(device, netns, port_num, event))
}

/// Adds a link type.
///
/// # Safety
///
/// `ops` is the driver's table, which stays until it is removed again.
#[export]
pub(crate) unsafe extern "C" fn rdma_link_register(ops: *mut rdma_link_ops) {
    // SAFETY: Promised by the caller.
    kernel::warn_on!(!unsafe { LINK_TYPES.register(ops) });
}

/// Removes a link type.
///
/// # Safety
///
/// Called from process context by the driver that added it.
#[export]
pub(crate) unsafe extern "C" fn rdma_link_unregister(ops: *mut rdma_link_ops) {
    LINK_TYPES.unregister(ops);
}

/// Adds a driver's text to a reply.
///
/// # Safety
///
/// As [`with_reply`]; `str` is a C string.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_string(
    msg: *mut sk_buff,
    name: *const c_char,
    str_: *const c_char,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        let value = CStr::from_char_ptr(str_);
        with_reply(msg, name, |out, name| {
            nldev::put_driver_string(out, name, value)
        })
    }
}

/// Adds a driver's number to a reply.
///
/// # Safety
///
/// As [`with_reply`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u32(
    msg: *mut sk_buff,
    name: *const c_char,
    value: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        with_reply(msg, name, |out, name| {
            nldev::put_driver_u32(out, name, PrintType::Decimal, value)
        })
    }
}

/// Adds a driver's number, to be printed in hexadecimal, to a reply.
///
/// # Safety
///
/// As [`with_reply`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u32_hex(
    msg: *mut sk_buff,
    name: *const c_char,
    value: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        with_reply(msg, name, |out, name| {
            nldev::put_driver_u32(out, name, PrintType::Hex, value)
        })
    }
}

/// Adds a driver's number to a reply.
///
/// # Safety
///
/// As [`with_reply`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u64(
    msg: *mut sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        with_reply(msg, name, |out, name| {
            nldev::put_driver_u64(out, name, PrintType::Decimal, value)
        })
    }
}

/// Adds a driver's number, to be printed in hexadecimal, to a reply.
///
/// # Safety
///
/// As [`with_reply`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u64_hex(
    msg: *mut sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        with_reply(msg, name, |out, name| {
            nldev::put_driver_u64(out, name, PrintType::Hex, value)
        })
    }
}

/// Adds a value of a set of statistics to a reply.
///
/// # Safety
///
/// As [`with_reply`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_stat_hwcounter_entry(
    msg: *mut sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        with_reply(msg, name, |out, name| {
            nldev::put_hwcounter(out, name, value)
        })
    }
}
