// SPDX-License-Identifier: GPL-2.0

//! Finding GIDs, for all parts but the cache itself.
//!
//! C header: [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)
//!
//! All functions may be called in any context.

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::error::{from_err_ptr, to_result};
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use super::{Gid, GidAttr, GidType};
use crate::device::Device;
use crate::net::NetDevice;

fn raw(netdev: Option<&NetDevice>) -> *mut bindings::net_device {
    netdev.map_or(ptr::null_mut(), NetDevice::as_raw)
}

/// # Safety
///
/// `attr` is an error pointer or that of an entry of which the caller gives a reference away.
unsafe fn owned(attr: *const bindings::ib_gid_attr) -> Result<ARef<GidAttr>> {
    let attr = NonNull::new(from_err_ptr(attr.cast_mut())?).ok_or(ENOENT)?;
    // SAFETY: The reference is given away.
    Ok(unsafe { GidAttr::from_raw_owned(attr) })
}

impl GidAttr {
    /// The GID at an index of a port's table.
    ///
    /// Errors: `EINVAL` for a bad port or index, `ENODATA` for an empty slot.
    pub fn get(device: &Device, port: u32, index: u16) -> Result<ARef<GidAttr>> {
        // SAFETY: The device is valid; a reference is returned, if any.
        unsafe {
            owned(bindings::rdma_get_gid_attr(
                device.as_raw(),
                port,
                c_int::from(index),
            ))
        }
    }

    /// Finds a GID in the table of a port; the network device matters if there is one.
    ///
    /// Errors: `ENOENT`.
    pub fn find_by_port(
        device: &Device,
        port: u32,
        gid: &Gid,
        gid_type: GidType,
        netdev: Option<&NetDevice>,
    ) -> Result<ARef<GidAttr>> {
        // SAFETY: All arguments are valid; a reference is returned, if any.
        unsafe {
            owned(bindings::rdma_find_gid_by_port(
                device.as_raw(),
                gid.as_raw(),
                gid_type.as_raw(),
                port,
                raw(netdev),
            ))
        }
    }

    /// Finds a GID in the tables of all ports; the network device matters if there is one.
    ///
    /// Errors: `ENOENT`.
    pub fn find(
        device: &Device,
        gid: &Gid,
        gid_type: GidType,
        netdev: Option<&NetDevice>,
    ) -> Result<ARef<GidAttr>> {
        // SAFETY: All arguments are valid; a reference is returned, if any.
        unsafe {
            owned(bindings::rdma_find_gid(
                device.as_raw(),
                gid.as_raw(),
                gid_type.as_raw(),
                raw(netdev),
            ))
        }
    }

    /// Finds the first GID of a port's table that has the value and passes `filter`, which is
    /// called in atomic context.
    ///
    /// Errors: `EINVAL` for a bad port, `ENOENT`.
    pub fn find_by_filter<F: FnMut(&GidAttr) -> bool>(
        device: &Device,
        port: u32,
        gid: &Gid,
        mut filter: F,
    ) -> Result<ARef<GidAttr>> {
        /// # Safety
        ///
        /// Called by the function below, with its context and an entry that it holds.
        unsafe extern "C" fn call<F: FnMut(&GidAttr) -> bool>(
            _gid: *const bindings::ib_gid,
            attr: *const bindings::ib_gid_attr,
            context: *mut c_void,
        ) -> bool {
            // SAFETY: The context is the closure of the caller.
            let filter = unsafe { &mut *context.cast::<F>() };
            // SAFETY: The entry is held during the call.
            filter(unsafe { GidAttr::from_raw(attr) })
        }

        // SAFETY: All arguments are valid, and `call` fits the context; a reference is returned,
        // if any.
        unsafe {
            owned(bindings::rdma_find_gid_by_filter(
                device.as_raw(),
                gid.as_raw(),
                port,
                Some(call::<F>),
                (&raw mut filter).cast(),
            ))
        }
    }
}

/// The value of the GID at an index of a port's table.
///
/// Errors: `EINVAL` for a bad port or index, `ENOENT` for an empty slot.
pub fn query(device: &Device, port: u32, index: i32) -> Result<Gid> {
    let mut gid = Gid::ZERO;
    // SAFETY: The device is valid, and the result has room.
    to_result(unsafe { bindings::rdma_query_gid(device.as_raw(), port, index, gid.as_raw_mut()) })?;
    Ok(gid)
}
