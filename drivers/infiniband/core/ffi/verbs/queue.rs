// SPDX-License-Identifier: GPL-2.0

//! Completion queues, shared receive queues and work queues.

use super::{errno, module_owner, object_or_err};
use crate::verbs::{cq, srq, wq};
use kernel::{bindings, prelude::*};
use rdma::{
    async_event::{EventHandler, RawHandler},
    cq::{CompletionHandler, Cq},
    device::Device,
    object::Object,
    pd::Pd,
    srq::{Srq, SrqInitAttr, UserSrq},
    udata::Udata,
    wq::{Wq, WqInitAttr},
};

/// Creates a completion queue for a kernel module; called through `ib_create_cq()`.
///
/// # Safety
///
/// `device` must be valid, the handlers callable as long as the queue exists, `cq_attr` valid,
/// `caller` the name of a module.
#[export]
pub(crate) unsafe extern "C" fn __ib_create_cq(
    device: *mut bindings::ib_device,
    comp_handler: bindings::ib_comp_handler,
    event_handler: Option<RawHandler>,
    cq_context: *mut c_void,
    cq_attr: *const bindings::ib_cq_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    // SAFETY: By the contract of this function.
    let (device, attr) = unsafe { (Device::from_raw(device), &*cq_attr) };
    // SAFETY: As above.
    let completions = unsafe { CompletionHandler::from_raw(comp_handler) };
    // SAFETY: As above.
    let events = unsafe { EventHandler::from_raw(event_handler, cq_context) };
    // SAFETY: As above.
    let owner = unsafe { module_owner(caller) };
    object_or_err(cq::create(device, completions, events, attr, owner))
}

/// Sets how long notifications of a completion queue are held back.
///
/// # Safety
///
/// `cq` must be live.
#[export]
pub(crate) unsafe extern "C" fn rdma_set_cq_moderation(
    cq: *mut bindings::ib_cq,
    cq_count: u16,
    cq_period: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let cq = unsafe { Cq::from_raw(cq) };
    errno(cq::set_moderation(cq, cq_count, cq_period))
}

/// Destroys a completion queue; called by uverbs and through `ib_destroy_cq()`.
///
/// # Safety
///
/// `cq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_cq_user(
    cq: *mut bindings::ib_cq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (cq, udata) = unsafe { (Object::<Cq>::from_raw(cq), Udata::from_raw_or_null(udata)) };
    errno(cq::destroy(cq, udata))
}

/// Creates a shared receive queue; called by uverbs and through `ib_create_srq()`.
///
/// # Safety
///
/// `pd` must be live, `srq_init_attr` valid and the objects that it names live, `uobject` and
/// `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_create_srq_user(
    pd: *mut bindings::ib_pd,
    srq_init_attr: *mut bindings::ib_srq_init_attr,
    uobject: *mut bindings::ib_usrq_object,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_srq {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), SrqInitAttr::from_raw(srq_init_attr)) };
    // SAFETY: As above.
    let user = (!uobject.is_null()).then(|| unsafe { UserSrq::from_raw(uobject) });
    // SAFETY: As above.
    object_or_err(srq::create(pd, attr, user, unsafe {
        Udata::from_raw_or_null(udata)
    }))
}

/// Resizes a shared receive queue or arms its limit.
///
/// # Safety
///
/// `srq` must be live, `srq_attr` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_srq(
    srq: *mut bindings::ib_srq,
    srq_attr: *mut bindings::ib_srq_attr,
    srq_attr_mask: bindings::ib_srq_attr_mask,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (srq, attr) = unsafe { (Srq::from_raw(srq), &mut *srq_attr) };
    errno(srq.driver_modify(attr, srq_attr_mask))
}

/// Asks for size and limit of a shared receive queue.
///
/// # Safety
///
/// `srq` must be live, `srq_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_query_srq(
    srq: *mut bindings::ib_srq,
    srq_attr: *mut bindings::ib_srq_attr,
) -> c_int {
    // SAFETY: By the contract of this function; the attributes are plain numbers.
    let (srq, attr) = unsafe { (Srq::from_raw(srq), &mut *srq_attr) };
    errno(srq.driver_query(attr))
}

/// Destroys a shared receive queue; called by uverbs and through `ib_destroy_srq()`.
///
/// # Safety
///
/// `srq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_srq_user(
    srq: *mut bindings::ib_srq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (srq, udata) = unsafe { (Object::<Srq>::from_raw(srq), Udata::from_raw_or_null(udata)) };
    errno(srq::destroy(srq, udata))
}

/// Creates a receive work queue for a kernel module.
///
/// # Safety
///
/// `pd` must be live, `init_attr` valid and its completion queue live.
#[export]
pub(crate) unsafe extern "C" fn ib_create_wq(
    pd: *mut bindings::ib_pd,
    init_attr: *mut bindings::ib_wq_init_attr,
) -> *mut bindings::ib_wq {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), WqInitAttr::from_raw(init_attr)) };
    wq::create(pd, attr).map_or_else(|e| e.to_ptr(), Wq::as_raw)
}

/// Destroys a receive work queue; called by uverbs.
///
/// # Safety
///
/// `wq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_wq_user(
    wq: *mut bindings::ib_wq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (wq, udata) = unsafe { (Wq::from_raw(wq), Udata::from_raw_or_null(udata)) };
    errno(wq::destroy(wq, udata))
}
