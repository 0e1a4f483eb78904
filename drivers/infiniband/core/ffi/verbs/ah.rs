// SPDX-License-Identifier: GPL-2.0

//! Address handles and vectors.

use super::{errno, object_or_err};
use crate::verbs::ah::{self, NetworkType};
use kernel::{bindings, prelude::*};
use rdma::{
    ah::{AhAttr, Route, Sleepable},
    device::Device,
    gid::{Gid, GidAttr},
    network_header::{HeaderVersion, NetworkHeader},
    object::Object,
    pd::Pd,
    udata::Udata,
    wc::Wc,
};

/// Reads the network header of a datagram if its completion says that there is one.
///
/// # Safety
///
/// `grh` must point to 40 bytes in that case.
unsafe fn header_of(wc: &Wc, grh: *const bindings::ib_grh) -> Option<NetworkHeader> {
    // SAFETY: By the contract of this function.
    (wc.has_grh() && !grh.is_null()).then(|| unsafe { NetworkHeader::read(grh.cast()) })
}

/// Copies an address vector over memory that holds none.
///
/// # Safety
///
/// `dest` must be writable, `src` a valid vector; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_copy_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    unsafe { AhAttr::from_raw_const(src).duplicate().write_to(dest) };
}

/// Replaces an address vector by a copy of another one.
///
/// # Safety
///
/// `old` must be a valid or zeroed vector, `new` a valid one; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_replace_ah_attr(
    old: *mut bindings::rdma_ah_attr,
    new: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    let (copy, old) = unsafe {
        (
            AhAttr::from_raw_const(new).duplicate(),
            AhAttr::from_raw(old),
        )
    };
    *old = copy;
}

/// Replaces an address vector by another one, which loses its source GID.
///
/// # Safety
///
/// `dest` must be a valid or zeroed vector, `src` a valid one; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_move_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *mut bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    let moved = unsafe { AhAttr::from_raw(src) }.take();
    // SAFETY: As above.
    *unsafe { AhAttr::from_raw(dest) } = moved;
}

/// Creates an address handle for a kernel module.
///
/// # Safety
///
/// `pd` must be live, `ah_attr` a valid vector that the caller has for itself. The caller may be
/// atomic unless `flags` says that it may sleep.
#[export]
pub(crate) unsafe extern "C" fn rdma_create_ah(
    pd: *mut bindings::ib_pd,
    ah_attr: *mut bindings::rdma_ah_attr,
    flags: u32,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), AhAttr::from_raw(ah_attr)) };
    object_or_err(ah::create(pd, attr, Sleepable::from_flags(flags)))
}

/// Creates an address handle for user space.
///
/// # Safety
///
/// `pd` must be live, `ah_attr` a valid vector that the caller, uverbs, has for itself, `udata`
/// null or valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_create_user_ah(
    pd: *mut bindings::ib_pd,
    ah_attr: *mut bindings::rdma_ah_attr,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), AhAttr::from_raw(ah_attr)) };
    // SAFETY: As above.
    object_or_err(ah::create_user(pd, attr, unsafe {
        Udata::from_raw_or_null(udata)
    }))
}

/// 4 or 6 by what precedes a datagram's payload, 0 for neither.
///
/// # Safety
///
/// `hdr` must point to 40 bytes.
#[export]
pub(crate) unsafe extern "C" fn ib_get_rdma_header_version(
    hdr: *const bindings::rdma_network_hdr,
) -> c_int {
    // SAFETY: By the contract of this function.
    match unsafe { NetworkHeader::read(hdr) }.version() {
        HeaderVersion::V4 => 4,
        HeaderVersion::V6 => 6,
        HeaderVersion::Unknown => 0,
    }
}

/// Source and destination GID of a datagram. `EINVAL` for an unknown type.
///
/// # Safety
///
/// `hdr` must point to 40 bytes, `sgid` and `dgid` must be null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_gids_from_rdma_hdr(
    hdr: *const bindings::rdma_network_hdr,
    net_type: bindings::rdma_network_type,
    sgid: *mut bindings::ib_gid,
    dgid: *mut bindings::ib_gid,
) -> c_int {
    let Some(net_type) = NetworkType::from_raw(net_type) else {
        return EINVAL.to_errno();
    };
    if sgid.is_null() || dgid.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By the contract of this function.
    let (source, destination) = net_type.gids(&unsafe { NetworkHeader::read(hdr) });
    // SAFETY: As above, and not null.
    unsafe {
        source.write(sgid);
        destination.write(dgid);
    }
    0
}

/// Fills an address vector with the way back to the sender of a datagram; the caller has to
/// call `rdma_destroy_ah_attr()` after success.
///
/// # Safety
///
/// `device` must be valid, `wc` a completion, `grh` 40 bytes if the completion says so, `ah_attr`
/// writable. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_init_ah_attr_from_wc(
    device: *mut bindings::ib_device,
    port_num: u32,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, wc) = unsafe { (Device::from_raw(device), Wc::from_raw(wc)) };
    // SAFETY: As above.
    let (header, attr) = unsafe { (header_of(wc, grh), AhAttr::init_raw(ah_attr)) };
    errno(ah::init_from_wc(device, port_num, wc, header, attr))
}

/// Writes a global route to an address vector, which takes the reference to the source GID over.
///
/// # Safety
///
/// `attr` must be a vector that the caller has for itself, `dgid` null or valid, `sgid_attr` a
/// reference that the caller gives away.
#[export]
pub(crate) unsafe extern "C" fn rdma_move_grh_sgid_attr(
    attr: *mut bindings::rdma_ah_attr,
    dgid: *mut bindings::ib_gid,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    sgid_attr: *const bindings::ib_gid_attr,
) {
    let Some(sgid) = core::ptr::NonNull::new(sgid_attr.cast_mut()) else {
        return;
    };
    // SAFETY: By the contract of this function.
    let (attr, sgid) = unsafe { (AhAttr::from_raw(attr), GidAttr::from_raw_owned(sgid)) };
    // SAFETY: As above.
    let dgid = (!dgid.is_null()).then(|| unsafe { Gid::read(dgid) });
    let route = Route {
        dgid,
        flow_label,
        hop_limit,
        traffic_class,
    };
    attr.set_route(&route, sgid);
}

/// Gives up the source GID of an address vector, if there is one.
///
/// # Safety
///
/// `ah_attr` must be a valid or zeroed vector that the caller has for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_attr(ah_attr: *mut bindings::rdma_ah_attr) {
    // SAFETY: By the contract of this function.
    drop(unsafe { AhAttr::from_raw(ah_attr) }.replace_sgid(None));
}

/// Creates an address handle by which the sender of a datagram is answered.
///
/// # Safety
///
/// `pd` must be live, `wc` a completion, `grh` 40 bytes if the completion says so. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_create_ah_from_wc(
    pd: *mut bindings::ib_pd,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    port_num: u32,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, wc) = unsafe { (Pd::from_raw(pd), Wc::from_raw(wc)) };
    // SAFETY: As above.
    let header = unsafe { header_of(wc, grh) };
    object_or_err(ah::create_from_wc(pd, port_num, wc, header))
}

/// Changes the address of a handle.
///
/// # Safety
///
/// `ah` must be live, `ah_attr` a valid vector; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_modify_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (ah, attr) = unsafe { (rdma::ah::Ah::from_raw(ah), AhAttr::from_raw(ah_attr)) };
    errno(ah::modify(ah, attr))
}

/// Asks for the address of a handle.
///
/// # Safety
///
/// `ah` must be live, `ah_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn rdma_query_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (ah, attr) = unsafe { (rdma::ah::Ah::from_raw(ah), AhAttr::from_raw_output(ah_attr)) };
    errno(ah::query(ah, attr))
}

/// Destroys an address handle; called by uverbs and through `rdma_destroy_ah()`.
///
/// # Safety
///
/// `ah` must be live and the caller's. The caller may be atomic unless `flags` says that it may
/// sleep.
#[export]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_user(
    ah: *mut bindings::ib_ah,
    flags: u32,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let _ = udata;
    // SAFETY: By the contract of this function.
    let ah = unsafe { Object::<rdma::ah::Ah>::from_raw(ah) };
    errno(ah::destroy(ah, Sleepable::from_flags(flags)))
}
