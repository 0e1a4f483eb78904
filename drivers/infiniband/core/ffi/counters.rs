// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::counters`].

use crate::counters;
use kernel::{
    bindings,
    error::from_result,
    prelude::*, //
};
use rdma::{
    counter::{
        Counter,
        Mask,
        Setup, //
    },
    device::Device,
    qp::Qp, //
};

fn errno(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// Prepares the counters of a device.
///
/// # Safety
///
/// Called by device registration, before the device is visible.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_init(dev: *mut bindings::ib_device) {
    // SAFETY: By the caller.
    counters::init(&unsafe { Setup::new(Device::from_raw(dev)) });
}

/// Frees the counters of a device.
///
/// # Safety
///
/// Called when the memory of the device is about to be freed.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_release(dev: *mut bindings::ib_device) {
    // SAFETY: By the caller.
    counters::clean(&unsafe { Setup::new(Device::from_raw(dev)) });
}

/// Turns automatic mode of a port on or off.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device; `extack` is null or valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_set_auto_mode(
    dev: *mut bindings::ib_device,
    port: u32,
    mask: bindings::rdma_nl_counter_mask,
    bind_opcnt: bool,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    let result = counters::set_auto_mode(device, port, Mask::from_raw(mask), bind_opcnt);

    if result == Err(EBUSY) && !extack.is_null() {
        let message = c"Modifying auto mode is not allowed when there is a bound QP";
        // SAFETY: By the caller; the message lives forever.
        unsafe { (*extack)._msg = message.as_char_ptr() };
    }
    errno(result)
}

/// Binds a queue pair in automatic mode.
///
/// # Safety
///
/// Called by the modify verb, which has the queue pair.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_bind_qp_auto(
    qp: *mut bindings::ib_qp,
    port: u32,
) -> c_int {
    // SAFETY: By the caller.
    errno(counters::bind_qp_auto(unsafe { Qp::from_raw(qp) }, port))
}

/// Unbinds a queue pair.
///
/// # Safety
///
/// Called by the destroy verb, which has the queue pair.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_unbind_qp(
    qp: *mut bindings::ib_qp,
    port: u32,
    force: bool,
) -> c_int {
    // SAFETY: By the caller.
    let qp = unsafe { Qp::from_raw(qp) };
    errno(counters::unbind_qp(qp, port, force))
}

/// Has the driver read the values of a counter.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the counter's entry.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_query_stats(
    counter: *mut bindings::rdma_counter,
) -> c_int {
    // SAFETY: By the caller.
    errno(counters::query_stats(unsafe { Counter::from_raw(counter) }))
}

/// The sum of a value over the counters of a port.
///
/// # Safety
///
/// Called by netlink and sysfs; the device is registered.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_get_hwstat_value(
    dev: *mut bindings::ib_device,
    port: u32,
    index: u32,
) -> u64 {
    // SAFETY: By the caller.
    counters::hwstat_value(unsafe { Device::from_raw(dev) }, port, index)
}

/// Binds a queue pair to a counter.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_bind_qpn(
    dev: *mut bindings::ib_device,
    port: u32,
    qp_num: u32,
    counter_id: u32,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    errno(counters::bind_qpn(device, port, qp_num, counter_id))
}

/// Binds a queue pair to a new counter.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device; `counter_id` is null or valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_bind_qpn_alloc(
    dev: *mut bindings::ib_device,
    port: u32,
    qp_num: u32,
    counter_id: *mut u32,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    let result = counters::bind_qpn_alloc(device, port, qp_num);
    // SAFETY: By the caller.
    if let (Ok(id), Some(counter_id)) = (result, unsafe { counter_id.as_mut() }) {
        *counter_id = id;
    }
    errno(result.map(|_| ()))
}

/// Unbinds a queue pair from a counter.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_unbind_qpn(
    dev: *mut bindings::ib_device,
    port: u32,
    qp_num: u32,
    counter_id: u32,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    errno(counters::unbind_qpn(device, port, qp_num, counter_id))
}

/// The settings of a port.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device and has room for the results.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_get_mode(
    dev: *mut bindings::ib_device,
    port: u32,
    mode: *mut bindings::rdma_nl_counter_mode,
    mask: *mut bindings::rdma_nl_counter_mask,
    opcnt: *mut bool,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    from_result(|| {
        let settings = counters::settings(device, port)?;
        // SAFETY: By the caller.
        unsafe {
            mode.write(settings.mode.as_raw());
            mask.write(settings.mask.as_raw());
            opcnt.write(settings.bind_opcnt);
        }
        Ok(0)
    })
}

/// Switches an optional counter.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the device.
#[export]
pub(crate) unsafe extern "C" fn rdma_counter_modify(
    dev: *mut bindings::ib_device,
    port: u32,
    index: c_uint,
    enable: bool,
) -> c_int {
    // SAFETY: By the caller.
    let device = unsafe { Device::from_raw(dev) };
    errno(counters::modify(device, port, index, enable))
}
