// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and XRC domains.

use super::{errno, module_owner, object_or_err};
use crate::verbs::{drain, mcast, qp_create, qp_modify, qp_state, xrcd};
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    gid::Gid,
    object::Object,
    pd::Pd,
    qp::{AttrMask, Qp, QpAttr, QpInitAttr, QpOpenAttr, UserQp},
    udata::Udata,
    uverbs::AttrBundle,
    warn_once,
    xrcd::{Inode, Xrcd},
};

// The state table has codes of its own, so that it can be tested on a build host.
const _: () = {
    assert!(qp_state::State::Err as u32 == bindings::ib_qp_state_IB_QPS_ERR);
    assert!(qp_state::State::Rtr as u32 == bindings::ib_qp_state_IB_QPS_RTR);
};

/// Makes one more handle on an XRC target.
///
/// # Safety
///
/// `xrcd` must be live, `qp_open_attr` valid and its handler callable as long as the handle exists.
#[export]
pub(crate) unsafe extern "C" fn ib_open_qp(
    xrcd: *mut bindings::ib_xrcd,
    qp_open_attr: *mut bindings::ib_qp_open_attr,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (xrcd, attr) = unsafe { (Xrcd::from_raw(xrcd), QpOpenAttr::from_raw(qp_open_attr)) };
    object_or_err(qp_create::open(xrcd, attr))
}

/// Creates a queue pair for user space; called by uverbs.
///
/// # Safety
///
/// `dev` must be valid, `pd`, `uattrs` and `uobj` null or valid, `attr` valid and the objects that
/// it names live, `caller` null or the name of a module.
#[export]
pub(crate) unsafe extern "C" fn ib_create_qp_user(
    dev: *mut bindings::ib_device,
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_qp_init_attr,
    uattrs: *mut bindings::uverbs_attr_bundle,
    uobj: *mut bindings::ib_uqp_object,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (device, attr) = unsafe { (Device::from_raw(dev), QpInitAttr::from_raw(attr)) };
    // SAFETY: As above.
    let pd = (!pd.is_null()).then(|| unsafe { Pd::from_raw(pd) });
    // SAFETY: As above.
    let bundle = unsafe { AttrBundle::from_raw(uattrs) };
    // SAFETY: As above.
    let user = (!uobj.is_null()).then(|| unsafe { UserQp::from_raw(uobj) });
    // SAFETY: As above.
    let module = unsafe { module_owner(caller) };
    object_or_err(qp_create::create_user(
        device, pd, attr, bundle, user, module,
    ))
}

/// Counts a queue pair as a user of all that it is built on; called by uverbs.
///
/// # Safety
///
/// `qp` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_inc(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    qp_create::keep_uses(unsafe { Qp::from_raw(qp) });
}

/// Reverses `ib_qp_usecnt_inc()`.
///
/// # Safety
///
/// `qp` must be live and counted.
#[export]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_dec(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    qp_create::give_up_uses(unsafe { Qp::from_raw(qp) });
}

/// Creates a queue pair for a kernel module; called through `ib_create_qp()`.
///
/// # Safety
///
/// `pd` must be live, `qp_init_attr` valid and the objects that it names live, `caller` the name
/// of a module.
#[export]
pub(crate) unsafe extern "C" fn ib_create_qp_kernel(
    pd: *mut bindings::ib_pd,
    qp_init_attr: *mut bindings::ib_qp_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), QpInitAttr::from_raw(qp_init_attr)) };
    if caller.is_null() {
        warn_once!("Missing kernel QP owner");
    }
    // SAFETY: As above.
    object_or_err(qp_create::create_kernel(pd, attr, unsafe {
        module_owner(caller)
    }))
}

/// Whether a transition exists and has the attributes that it needs; called by drivers.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp_is_ok(
    cur_state: bindings::ib_qp_state,
    next_state: bindings::ib_qp_state,
    type_: bindings::ib_qp_type,
    mask: bindings::ib_qp_attr_mask,
) -> bool {
    qp_state::may_modify(cur_state, next_state, type_, qp_state::Attrs(mask))
}

/// Changes attributes of a queue pair for user space; called by uverbs.
///
/// # Safety
///
/// `qp` must be live, `attr` valid, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp_with_udata(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    attr_mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr) = unsafe { (Qp::from_raw(qp), QpAttr::from_raw(attr)) };
    // SAFETY: As above.
    let udata = unsafe { Udata::from_raw_or_null(udata) };
    errno(qp_modify::modify(
        qp,
        attr,
        AttrMask::from_bits(attr_mask),
        udata,
    ))
}

/// Changes attributes of a queue pair for a kernel module.
///
/// # Safety
///
/// `qp` must be live, `qp_attr` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp(
    qp: *mut bindings::ib_qp,
    qp_attr: *mut bindings::ib_qp_attr,
    qp_attr_mask: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr) = unsafe { (Qp::from_raw(qp), QpAttr::from_raw(qp_attr)) };
    errno(qp_modify::modify(
        qp,
        attr,
        AttrMask::from_bits(qp_attr_mask),
        None,
    ))
}

/// Asks for attributes of a queue pair.
///
/// # Safety
///
/// `qp` must be live, `qp_attr` and `qp_init_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_query_qp(
    qp: *mut bindings::ib_qp,
    qp_attr: *mut bindings::ib_qp_attr,
    qp_attr_mask: c_int,
    qp_init_attr: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr, init) = unsafe {
        (
            Qp::from_raw(qp),
            QpAttr::from_raw_output(qp_attr),
            QpInitAttr::from_raw(qp_init_attr),
        )
    };
    errno(qp_modify::query(
        qp,
        attr,
        AttrMask::from_bits(qp_attr_mask),
        init,
    ))
}

/// Closes a handle on an XRC target.
///
/// # Safety
///
/// `qp` must be live and the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_close_qp(qp: *mut bindings::ib_qp) -> c_int {
    // SAFETY: By the contract of this function.
    errno(qp_create::close(unsafe { Object::from_raw(qp) }))
}

/// Destroys a queue pair; called by uverbs and through `ib_destroy_qp()`.
///
/// # Safety
///
/// `qp` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_qp_user(
    qp: *mut bindings::ib_qp,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, udata) = unsafe { (Object::<Qp>::from_raw(qp), Udata::from_raw_or_null(udata)) };
    errno(qp_create::destroy(qp, udata))
}

/// Lets a queue pair receive what is sent to a multicast group.
///
/// # Safety
///
/// `qp` must be live, `gid` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_attach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, gid) = unsafe { (Qp::from_raw(qp), Gid::read(gid)) };
    errno(mcast::attach(qp, gid, lid))
}

/// Ends what `ib_attach_mcast()` began.
///
/// # Safety
///
/// `qp` must be live, `gid` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_detach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, gid) = unsafe { (Qp::from_raw(qp), Gid::read(gid)) };
    errno(mcast::detach(qp, gid, lid))
}

/// Allocates an XRC domain; called by uverbs.
///
/// # Safety
///
/// `device` must be valid, `inode` and `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_xrcd_user(
    device: *mut bindings::ib_device,
    inode: *mut bindings::inode,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_xrcd {
    // SAFETY: By the contract of this function.
    let (device, udata) = unsafe { (Device::from_raw(device), Udata::from_raw_or_null(udata)) };
    // SAFETY: As above.
    let inode = (!inode.is_null()).then(|| unsafe { Inode::from_raw(inode) });
    object_or_err(xrcd::alloc(device, inode, udata))
}

/// Gives an XRC domain back; called by uverbs.
///
/// # Safety
///
/// `xrcd` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dealloc_xrcd_user(
    xrcd: *mut bindings::ib_xrcd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (xrcd, udata) = unsafe {
        (
            Object::<Xrcd>::from_raw(xrcd),
            Udata::from_raw_or_null(udata),
        )
    };
    errno(xrcd::dealloc(xrcd, udata))
}

/// Waits until the send queue is empty.
///
/// # Safety
///
/// `qp` must be live, with queues of `ib_alloc_cq()`; nobody may post meanwhile. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_sq(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_sq(unsafe { Qp::from_raw(qp) });
}

/// Waits until the receive queue is empty.
///
/// # Safety
///
/// As for `ib_drain_sq()`.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_rq(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_rq(unsafe { Qp::from_raw(qp) });
}

/// Waits until both queues are empty.
///
/// # Safety
///
/// As for `ib_drain_sq()`.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_qp(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_qp(unsafe { Qp::from_raw(qp) });
}
