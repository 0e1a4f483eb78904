// SPDX-License-Identifier: GPL-2.0

//! Statistics of ports, and the counters that queue pairs are bound to.

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

use crate::{
    device::Get,
    netlink::Request, //
};

/// Who binds the queue pairs of a port to counters.
pub struct Mode {
    /// `enum rdma_nl_counter_mode`.
    pub mode: u32,
    /// `enum rdma_nl_counter_mask`, the criteria of the automatic mode.
    pub mask: u32,
    /// Whether optional counters count per counter too.
    pub bind_optional: bool,
}

/// What counters of a port, past and present, add to a value of its statistics.
#[inline]
pub fn counted(device: &Get, port: u32, index: u32) -> u64 {
    // SAFETY: The device is registered.
    unsafe { bindings::rdma_counter_get_hwstat_value(device.as_raw(), port, index) }
}

/// Has the core bind queue pairs by the criteria `mask`; none ends that. May sleep.
#[inline]
pub fn set_auto_mode(
    request: &mut Request<'_>,
    device: &Get,
    port: u32,
    mask: u32,
    bind_optional: bool,
) -> Result {
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe {
        bindings::rdma_counter_set_auto_mode(
            device.as_raw(),
            port,
            mask,
            bind_optional,
            request.extack_raw(),
        )
    })
}

/// Who binds the queue pairs of a port. May sleep.
#[inline]
pub fn mode(device: &Get, port: u32) -> Result<Mode> {
    let mut mode = Mode {
        mode: 0,
        mask: 0,
        bind_optional: false,
    };
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe {
        bindings::rdma_counter_get_mode(
            device.as_raw(),
            port,
            &mut mode.mode,
            &mut mode.mask,
            &mut mode.bind_optional,
        )
    })?;
    Ok(mode)
}

/// Binds a queue pair to a counter that exists. May sleep.
#[inline]
pub fn bind(device: &Get, port: u32, qp: u32, counter: u32) -> Result {
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe { bindings::rdma_counter_bind_qpn(device.as_raw(), port, qp, counter) })
}

/// Binds a queue pair to a new counter, whose number is returned. May sleep.
#[inline]
pub fn bind_new(device: &Get, port: u32, qp: u32) -> Result<u32> {
    let mut counter = 0;
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe {
        bindings::rdma_counter_bind_qpn_alloc(device.as_raw(), port, qp, &mut counter)
    })?;
    Ok(counter)
}

/// Takes a queue pair off a counter. May sleep.
#[inline]
pub fn unbind(device: &Get, port: u32, qp: u32, counter: u32) -> Result {
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe { bindings::rdma_counter_unbind_qpn(device.as_raw(), port, qp, counter) })
}

/// Switches an optional counter of a port. May sleep.
#[inline]
pub fn switch(device: &Get, port: u32, index: u32, on: bool) -> Result {
    // SAFETY: The device is registered and has the port, as the caller checked.
    to_result(unsafe { bindings::rdma_counter_modify(device.as_raw(), port, index, on) })
}
