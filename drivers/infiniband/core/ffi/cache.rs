// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::cache`].
//!
//! Unless a function says more, its device is valid, its port number may be any, and other pointers
//! are valid for the call.

use core::ptr;

use kernel::bindings;
use kernel::error::from_result;
use kernel::ffi::{c_char, c_int, c_ulong, c_void};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::device::Device;
use rdma::event::Event;
use rdma::gid::{entry, Gid, GidAttr, GidType, GidTypes, NO_VLAN};
use rdma::net::NetDevice;
use rdma::port::{Pkey, Port};

use crate::cache::gids::Origin;
use crate::cache::{self, events, gids};

/// Returns a reference to C, or an error pointer.
fn give(found: Result<ARef<GidAttr>>) -> *const bindings::ib_gid_attr {
    match found {
        Ok(attr) => GidAttr::into_raw(attr),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// `device` is valid during `'a`.
unsafe fn port<'a>(device: *mut bindings::ib_device, port: u32) -> Option<Port<'a>> {
    // SAFETY: By the contract.
    Port::new(unsafe { Device::from_raw(device) }, port)
}

/// Names a GID type, for sysfs and configfs.
///
/// # Safety
///
/// None; called by everybody.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_type_str(
    gid_type: bindings::ib_gid_type,
) -> *const c_char {
    GidType::from_raw(gid_type)
        .map_or(c"Invalid GID type", GidType::name)
        .as_char_ptr()
}

/// Finds the GID type of a name, which may end in a newline; `-EINVAL` if there is none.
///
/// # Safety
///
/// Called by rdma_cm's configfs, with a C string.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_parse_type_str(buf: *const c_char) -> c_int {
    // SAFETY: By the contract.
    let name = unsafe { CStr::from_char_ptr(buf) }.to_bytes();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    GidType::from_name(name).map_or(EINVAL.to_errno(), |ty| ty.as_raw() as c_int)
}

/// Whether a GID is the reserved one.
///
/// # Safety
///
/// Called by everybody.
#[export]
pub(crate) unsafe extern "C" fn rdma_is_zero_gid(gid: *const bindings::ib_gid) -> bool {
    // SAFETY: By the contract of the module.
    unsafe { Gid::read(gid) }.is_zero()
}

/// Takes a reference to the GID at an index.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn rdma_get_gid_attr(
    device: *mut bindings::ib_device,
    port_num: u32,
    index: c_int,
) -> *const bindings::ib_gid_attr {
    // SAFETY: By the contract of the module.
    let port = unsafe { port(device, port_num) };
    give(match (port, usize::try_from(index)) {
        (Some(port), Ok(index)) => gids::get(&port, index),
        _ => Err(EINVAL),
    })
}

/// Takes another reference.
///
/// # Safety
///
/// Called by everybody, in any context, with a reference that the caller holds.
#[export]
pub(crate) unsafe extern "C" fn rdma_hold_gid_attr(attr: *const bindings::ib_gid_attr) {
    // SAFETY: By the contract.
    unsafe { entry::hold(attr) }
}

/// Puts a reference.
///
/// # Safety
///
/// Called by everybody, in any context, with a reference that the caller gives away.
#[export]
pub(crate) unsafe extern "C" fn rdma_put_gid_attr(attr: *const bindings::ib_gid_attr) {
    // SAFETY: By the contract.
    unsafe { entry::put(attr) }
}

/// Copies the value of the GID at an index.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn rdma_query_gid(
    device: *mut bindings::ib_device,
    port_num: u32,
    index: c_int,
    gid: *mut bindings::ib_gid,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract of the module.
        let port = unsafe { port(device, port_num) }.ok_or(EINVAL)?;
        let found = gids::query(&port, usize::try_from(index)?)?;
        // SAFETY: By the contract of the module.
        unsafe { found.write(gid) };
        Ok(0)
    })
}

/// Finds a GID in the table of a port.
///
/// # Safety
///
/// Called by everybody, in any context; `ndev` may be null.
#[export]
pub(crate) unsafe extern "C" fn rdma_find_gid_by_port(
    ib_dev: *mut bindings::ib_device,
    gid: *const bindings::ib_gid,
    gid_type: bindings::ib_gid_type,
    port_num: u32,
    ndev: *mut bindings::net_device,
) -> *const bindings::ib_gid_attr {
    // SAFETY: By the contract of the module.
    let (port, gid, ndev) = unsafe {
        (
            port(ib_dev, port_num),
            Gid::read(gid),
            NetDevice::from_raw_opt(ndev),
        )
    };
    give(match (port, GidType::from_raw(gid_type)) {
        (Some(port), Some(gid_type)) => gids::find_by_port(&port, &gid, gid_type, ndev),
        _ => Err(ENOENT),
    })
}

/// Finds a GID in the tables of all ports.
///
/// # Safety
///
/// Called by everybody, in any context; `ndev` may be null.
#[export]
pub(crate) unsafe extern "C" fn rdma_find_gid(
    device: *mut bindings::ib_device,
    gid: *const bindings::ib_gid,
    gid_type: bindings::ib_gid_type,
    ndev: *mut bindings::net_device,
) -> *const bindings::ib_gid_attr {
    // SAFETY: By the contract of the module.
    let (device, gid, ndev) = unsafe {
        (
            Device::from_raw(device),
            Gid::read(gid),
            NetDevice::from_raw_opt(ndev),
        )
    };
    give(match GidType::from_raw(gid_type) {
        Some(gid_type) => gids::find(device, &gid, gid_type, ndev),
        None => Err(ENOENT),
    })
}

/// Finds a GID that passes a filter.
///
/// # Safety
///
/// Called by the address handle code, in any context; `filter` may be called with `context` and must
/// not sleep.
#[export]
pub(crate) unsafe extern "C" fn rdma_find_gid_by_filter(
    device: *mut bindings::ib_device,
    gid: *const bindings::ib_gid,
    port_num: u32,
    filter: Option<
        unsafe extern "C" fn(
            gid: *const bindings::ib_gid,
            arg1: *const bindings::ib_gid_attr,
            arg2: *mut c_void,
        ) -> bool,
    >,
    context: *mut c_void,
) -> *const bindings::ib_gid_attr {
    // SAFETY: By the contract of the module.
    let (port, value) = unsafe { (port(device, port_num), Gid::read(gid)) };
    give(match (port, filter) {
        (Some(port), Some(filter)) => gids::find_by_filter(&port, &value, |attr| {
            // SAFETY: By the contract; the entry is held during the call.
            unsafe { filter(gid, attr.as_raw(), context) }
        }),
        _ => Err(EINVAL),
    })
}

/// Lists the GIDs of all ports; `-EINVAL` if there are more than `max_entries`.
///
/// # Safety
///
/// Called by ib_uverbs, with zeroed room for `max_entries` entries.
#[export]
pub(crate) unsafe extern "C" fn rdma_query_gid_table(
    device: *mut bindings::ib_device,
    entries: *mut bindings::ib_uverbs_gid_entry,
    max_entries: usize,
) -> isize {
    // SAFETY: By the contract of the module.
    let device = unsafe { Device::from_raw(device) };
    let mut next = 0;
    let listed = gids::list(device, |entry| {
        if next >= max_entries {
            return Err(EINVAL);
        }
        // SAFETY: There is room for `max_entries` entries, zeroed by the caller, so a missing
        // index of a network device stays zero.
        unsafe {
            let out = entries.add(next);
            (*out).gid = core::mem::transmute::<[u8; 16], [u64; 2]>(*entry.gid.as_bytes());
            (*out).gid_index = entry.index;
            (*out).port_num = entry.port;
            (*out).gid_type = entry.gid_type.as_raw();
            if let Some(ifindex) = entry.ifindex {
                (*out).netdev_ifindex = ifindex as u32;
            }
        }
        next += 1;
        Ok(())
    });
    match listed {
        Ok(count) => count as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// The driver's context of a GID.
///
/// # Safety
///
/// Called by drivers, with a reference that the caller holds.
#[export]
pub(crate) unsafe extern "C" fn rdma_read_gid_hw_context(
    attr: *const bindings::ib_gid_attr,
) -> *mut c_void {
    // SAFETY: By the contract.
    unsafe { entry::hw_context(attr) }
}

/// The network device of a GID, or an error pointer.
///
/// # Safety
///
/// Called by everybody, with a reference and an RCU read lock that the caller holds.
#[export]
pub(crate) unsafe extern "C" fn rdma_read_gid_attr_ndev_rcu(
    attr: *const bindings::ib_gid_attr,
) -> *mut bindings::net_device {
    // SAFETY: By the contract.
    match unsafe { entry::read_ndev(attr) } {
        Ok(ndev) => ndev.as_raw(),
        Err(error) => error.to_ptr(),
    }
}

/// The VLAN id (0xffff if there is none) and the source MAC address of a GID.
///
/// # Safety
///
/// Called by drivers, with a reference that the caller holds; either result may be null.
#[export]
pub(crate) unsafe extern "C" fn rdma_read_gid_l2_fields(
    attr: *const bindings::ib_gid_attr,
    vlan_id: *mut u16,
    smac: *mut u8,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract.
        let (vlan, mac) = gids::l2_fields(unsafe { GidAttr::from_raw(attr) })?;
        if !vlan_id.is_null() {
            // SAFETY: By the contract.
            unsafe { vlan_id.write(vlan.unwrap_or(NO_VLAN)) };
        }
        if !smac.is_null() {
            // SAFETY: By the contract; a MAC address has six bytes.
            unsafe { ptr::copy_nonoverlapping(mac.as_ptr(), smac, mac.len()) };
        }
        Ok(0)
    })
}

/// The P_Key at an index.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_get_cached_pkey(
    device_handle: *mut bindings::ib_device,
    port_num: u32,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    from_result(|| {
        let index = usize::try_from(index)?;
        // SAFETY: By the contract of the module.
        let port = unsafe { port(device_handle, port_num) }.ok_or(EINVAL)?;
        let found = port.cache().with_pkeys(|table| table.get(index)).flatten();
        // SAFETY: By the contract of the module.
        unsafe { pkey.write(found.ok_or(EINVAL)?.0) };
        Ok(0)
    })
}

/// The index of a P_Key; `-ENOENT` if the port is not in the partition.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_find_cached_pkey(
    device: *mut bindings::ib_device,
    port_num: u32,
    pkey: u16,
    index: *mut u16,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract of the module.
        let port = unsafe { port(device, port_num) }.ok_or(EINVAL)?;
        let found = port
            .cache()
            .with_pkeys(|table| table.find(Pkey(pkey)))
            .ok_or(EINVAL)?;
        // SAFETY: By the contract of the module.
        unsafe { index.write(found.map_or(u16::MAX, |found| found as u16)) };
        found.map(|_| 0).ok_or(ENOENT)
    })
}

/// The LID mask count.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_get_cached_lmc(
    device: *mut bindings::ib_device,
    port_num: u32,
    lmc: *mut u8,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract of the module.
        let port = unsafe { port(device, port_num) }.ok_or(EINVAL)?;
        // SAFETY: By the contract of the module.
        unsafe { lmc.write(port.cache().lmc()) };
        Ok(0)
    })
}

/// The state of a port.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_get_cached_port_state(
    device: *mut bindings::ib_device,
    port_num: u32,
    port_state: *mut bindings::ib_port_state,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract of the module.
        let port = unsafe { port(device, port_num) }.ok_or(EINVAL)?;
        // SAFETY: By the contract of the module.
        unsafe { port_state.write(port.cache().state().0) };
        Ok(0)
    })
}

/// The subnet prefix of a port, 0 for a port that does not exist.
///
/// # Safety
///
/// Called by everybody, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_get_cached_subnet_prefix(
    device: *mut bindings::ib_device,
    port_num: u32,
    sn_pfx: *mut u64,
) {
    // SAFETY: By the contract of the module.
    let port = unsafe { port(device, port_num) };
    // SAFETY: By the contract of the module.
    unsafe { sn_pfx.write(port.map_or(0, |port| port.cache().subnet_prefix())) };
}

/// Takes an asynchronous event.
///
/// # Safety
///
/// Called by drivers, in any context, with an event of a device that is not freed yet.
#[export]
pub(crate) unsafe extern "C" fn ib_dispatch_event(event: *const bindings::ib_event) {
    // SAFETY: By the contract.
    events::dispatch(unsafe { Event::from_raw(event) });
}

/// Adds a GID of an IP address.
///
/// # Safety
///
/// Called by RoCE GID management, which may sleep, with type and network device in `attr`; the
/// network device is held.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_add(
    ib_dev: *mut bindings::ib_device,
    port_num: u32,
    gid: *mut bindings::ib_gid,
    attr: *mut bindings::ib_gid_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract.
        let (port, gid, gid_type, ndev) = unsafe {
            (
                port(ib_dev, port_num).ok_or(EINVAL)?,
                Gid::read(gid),
                GidType::from_raw((*attr).gid_type).ok_or(EINVAL)?,
                NetDevice::from_raw_opt((*attr).ndev).ok_or(EINVAL)?,
            )
        };
        gids::add(&port, &gid, gid_type, ndev, Origin::Ip)?;
        Ok(0)
    })
}

/// Deletes a GID of an IP address.
///
/// # Safety
///
/// As [`ib_cache_gid_add`].
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_del(
    ib_dev: *mut bindings::ib_device,
    port_num: u32,
    gid: *mut bindings::ib_gid,
    attr: *mut bindings::ib_gid_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract.
        let (port, gid, gid_type, ndev) = unsafe {
            (
                port(ib_dev, port_num).ok_or(EINVAL)?,
                Gid::read(gid),
                GidType::from_raw((*attr).gid_type).ok_or(EINVAL)?,
                NetDevice::from_raw_opt((*attr).ndev),
            )
        };
        gids::delete(&port, &gid, gid_type, ndev)?;
        Ok(0)
    })
}

/// Deletes all GIDs of a network device.
///
/// # Safety
///
/// Called by RoCE GID management, which may sleep; `ndev` is held.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_del_all_netdev_gids(
    ib_dev: *mut bindings::ib_device,
    port_num: u32,
    ndev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: By the contract.
        let (port, ndev) = unsafe {
            (
                port(ib_dev, port_num).ok_or(EINVAL)?,
                NetDevice::from_raw_opt(ndev).ok_or(EINVAL)?,
            )
        };
        gids::delete_all(&port, ndev);
        Ok(0)
    })
}

/// Adds or deletes the default GIDs of a network device, for each type in the mask.
///
/// # Safety
///
/// Called by RoCE GID management, which may sleep; `ndev` is held.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_gid_set_default_gid(
    ib_dev: *mut bindings::ib_device,
    port_num: u32,
    ndev: *mut bindings::net_device,
    gid_type_mask: c_ulong,
    mode: bindings::ib_cache_gid_default_mode,
) {
    // SAFETY: By the contract.
    let (port, ndev) = unsafe { (port(ib_dev, port_num), NetDevice::from_raw_opt(ndev)) };
    let (Some(port), Some(ndev)) = (port, ndev) else {
        return;
    };
    let set = mode == bindings::ib_cache_gid_default_mode_IB_CACHE_GID_DEFAULT_MODE_SET;
    cache::gids::set_defaults(&port, ndev, GidTypes::from_mask(gid_type_mask as u64), set);
}

/// Makes the cache of a device.
///
/// # Safety
///
/// Called by device registration, which may sleep, after the port data are set up.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_setup_one(device: *mut bindings::ib_device) -> c_int {
    from_result(|| {
        // SAFETY: By the contract of the module.
        cache::setup(unsafe { Device::from_raw(device) })?;
        Ok(0)
    })
}

/// Empties the cache of a device.
///
/// # Safety
///
/// Called by device unregistration, which may sleep, after [`ib_cache_setup_one`] succeeded.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_cleanup_one(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of the module.
    cache::cleanup(unsafe { Device::from_raw(device) });
}

/// Frees the cache of a device.
///
/// # Safety
///
/// Called by the release function of the device, when no other user is left.
#[export]
pub(crate) unsafe extern "C" fn ib_cache_release_one(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of the module.
    for port in Port::all(unsafe { Device::from_raw(device) }) {
        // SAFETY: By the contract.
        unsafe { port.cache().release() };
    }
}
