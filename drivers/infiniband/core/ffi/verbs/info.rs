// SPDX-License-Identifier: GPL-2.0

//! Texts, rates, kinds of nodes and links, counter sets, interfaces and virtual functions.

use super::errno;
use crate::verbs::{event_str, node, port, rate};
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    net::NetDevice,
    rate::SpeedInfo,
    rdma_netdev::{Params, Template},
    stats::memory::{StatDescs, StatsMemory},
    vf::VirtualFunctions,
};

/// The text of an asynchronous event.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_event_msg(event: bindings::ib_event_type) -> *const c_char {
    event_str::event(event).as_char_ptr()
}

/// The text of a completion status.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_wc_status_msg(status: bindings::ib_wc_status) -> *const c_char {
    event_str::wc_status(status).as_char_ptr()
}

/// A static rate as a multiple of 2.5 Gb/s, -1 for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_rate_to_mult(rate: bindings::ib_rate) -> c_int {
    rate::to_mult(rate).unwrap_or(-1)
}

/// The static rate of a multiple of 2.5 Gb/s, `IB_RATE_PORT_CURRENT` for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn mult_to_ib_rate(mult: c_int) -> bindings::ib_rate {
    rate::from_mult(mult)
}

/// A static rate in megabits per second, -1 for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_rate_to_mbps(rate: bindings::ib_rate) -> c_int {
    rate::to_mbps(rate).unwrap_or(-1)
}

/// Name and rate of a port's link. `EINVAL` for an unknown width.
///
/// # Safety
///
/// `attr` and `speed_info` must be valid; sysfs and drivers pass their own.
#[export]
pub(crate) unsafe extern "C" fn ib_port_attr_to_speed_info(
    attr: *mut bindings::ib_port_attr,
    speed_info: *mut bindings::ib_port_speed_info,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (attr, info) = unsafe { (&*attr, SpeedInfo::from_raw(speed_info)) };
    let rate = port::rate(attr.active_speed, attr.active_width);
    info.set(port::speed_name(attr.active_speed), rate.unwrap_or(-1));
    errno(rate.map(|_| ()).ok_or(EINVAL))
}

/// The transport of a kind of node.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn rdma_node_get_transport(
    node_type: c_uint,
) -> bindings::rdma_transport_type {
    node::Transport::of_node(node_type).as_raw()
}

/// The link layer of a port.
///
/// # Safety
///
/// `device` must be a device whose operations are set.
#[export]
pub(crate) unsafe extern "C" fn rdma_port_get_link_layer(
    device: *mut bindings::ib_device,
    port_num: u32,
) -> bindings::rdma_link_layer {
    // SAFETY: By the contract of this function.
    node::link_layer(unsafe { Device::from_raw(device) }, port_num)
}

/// Width and speed of the Ethernet interface of a port, in InfiniBand terms; called by drivers.
///
/// # Safety
///
/// `dev` must be valid, `speed` and `width` writable. Process context, without the RTNL lock.
#[export]
pub(crate) unsafe extern "C" fn ib_get_eth_speed(
    dev: *mut bindings::ib_device,
    port_num: u32,
    speed: *mut u16,
    width: *mut u8,
) -> c_int {
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(dev) };
    errno(
        port::eth_speed(device, port_num).map(|(link_width, link_speed)| {
            // SAFETY: As above.
            unsafe {
                width.write(link_width.as_raw());
                speed.write(link_speed.as_raw());
            }
        }),
    )
}

/// Sets the link state policy of a virtual function.
///
/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_set_vf_link_state(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    state: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(unsafe { Device::from_raw(device) }.set_vf_link_state(vf, port, state))
}

/// Reads the configuration of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `info` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_config(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    info: *mut bindings::ifla_vf_info,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, info) = unsafe { (Device::from_raw(device), &mut *info) };
    errno(device.vf_config(vf, port, info))
}

/// Reads the counters of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `stats` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_stats(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    stats: *mut bindings::ifla_vf_stats,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, stats) = unsafe { (Device::from_raw(device), &mut *stats) };
    errno(device.vf_stats(vf, port, stats))
}

/// Sets a GUID of a virtual function.
///
/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_set_vf_guid(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    guid: u64,
    type_: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(unsafe { Device::from_raw(device) }.set_vf_guid(vf, port, guid, type_))
}

/// Reads the GUIDs of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `node_guid` and `port_guid` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_guid(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    node_guid: *mut bindings::ifla_vf_guid,
    port_guid: *mut bindings::ifla_vf_guid,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, node, port_guid) =
        unsafe { (Device::from_raw(device), &mut *node_guid, &mut *port_guid) };
    errno(device.vf_guid(vf, port, node, port_guid))
}

/// Allocates a network interface as the driver wants it; called by IPoIB.
///
/// # Safety
///
/// `device` must be valid, `name` a string, `setup` callable.
#[export]
pub(crate) unsafe extern "C" fn rdma_alloc_netdev(
    device: *mut bindings::ib_device,
    port_num: u32,
    type_: bindings::rdma_netdev_t,
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
) -> *mut bindings::net_device {
    // SAFETY: By the contract of this function.
    let (device, template) = unsafe {
        (
            Device::from_raw(device),
            Template::from_raw(name, name_assign_type, setup),
        )
    };
    Params::query(device, port_num, type_)
        .and_then(|params| params.alloc(template))
        .map_or_else(|e| e.to_ptr(), NetDevice::as_raw)
}

/// Lets the driver initialise a network interface; called by IPoIB.
///
/// # Safety
///
/// `device` and `netdev` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_init_netdev(
    device: *mut bindings::ib_device,
    port_num: u32,
    type_: bindings::rdma_netdev_t,
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
    netdev: *mut bindings::net_device,
) -> c_int {
    let _ = (name, name_assign_type, setup);
    // SAFETY: By the contract of this function.
    let (device, netdev) = unsafe { (Device::from_raw(device), NetDevice::from_raw(netdev)) };
    errno(
        Params::query(device, port_num, type_)
            .and_then(|params| params.init(device, port_num, netdev)),
    )
}

/// Allocates a set of hardware counters; null without memory. Called by drivers.
///
/// # Safety
///
/// `descs` must have `num_counters` elements and outlive the set.
#[export]
pub(crate) unsafe extern "C" fn rdma_alloc_hw_stats_struct(
    descs: *const bindings::rdma_stat_desc,
    num_counters: c_int,
    lifespan: c_ulong,
) -> *mut bindings::rdma_hw_stats {
    // SAFETY: By the contract of this function.
    let descs = unsafe { StatDescs::from_raw(descs, num_counters) };
    StatsMemory::new(descs, lifespan).map_or(core::ptr::null_mut(), StatsMemory::into_raw)
}

/// Frees a set of hardware counters.
///
/// # Safety
///
/// `stats` must be null or a set that the caller gives up.
#[export]
pub(crate) unsafe extern "C" fn rdma_free_hw_stats_struct(stats: *mut bindings::rdma_hw_stats) {
    // SAFETY: By the contract of this function.
    drop(unsafe { StatsMemory::from_raw(stats) });
}
