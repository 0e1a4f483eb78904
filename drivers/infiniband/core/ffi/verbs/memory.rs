// SPDX-License-Identifier: GPL-2.0

//! Protection domains and memory regions.

use super::{count_or_errno, errno, object_or_err};
use crate::verbs::{mr, pd};
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    mr::{Access, Mr, MrKind, PageSetter, SgList, SgeList},
    object::Object,
    pd::{Pd, PdFlags},
    udata::Udata,
};

/// A region of the driver or an error pointer.
fn mr_or_err(result: Result<&Mr>) -> *mut bindings::ib_mr {
    result.map_or_else(|e| e.to_ptr(), Mr::as_raw)
}

/// Allocates a protection domain for a kernel module; called through `ib_alloc_pd()`.
///
/// # Safety
///
/// `device` must be registered, or known to the caller by a client callback; `caller` must be the
/// name of a module.
#[export]
pub(crate) unsafe extern "C" fn __ib_alloc_pd(
    device: *mut bindings::ib_device,
    flags: c_uint,
    caller: *const c_char,
) -> *mut bindings::ib_pd {
    // SAFETY: By the contract of this function.
    let (device, caller) = unsafe { (Device::from_raw(device), CStr::from_char_ptr(caller)) };
    object_or_err(pd::alloc(device, PdFlags::from_bits(flags), caller))
}

/// Gives a protection domain back; called by uverbs and through `ib_dealloc_pd()`.
///
/// # Safety
///
/// `pd` must be live and the caller's; `udata` must be null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dealloc_pd_user(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (pd, udata) = unsafe { (Object::<Pd>::from_raw(pd), Udata::from_raw_or_null(udata)) };
    errno(pd::dealloc(pd, udata))
}

/// Registers memory of the current process for a kernel module.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_reg_user_mr(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    mr_access_flags: c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    let access = Access::from_bits(mr_access_flags);
    mr_or_err(mr::reg_user(pd, start, length, virt_addr, access))
}

/// Tells the driver how memory is going to be used.
///
/// # Safety
///
/// `pd` must be live, `sg_list` must have `num_sge` entries.
#[export]
pub(crate) unsafe extern "C" fn ib_advise_mr(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut bindings::ib_sge,
    num_sge: u32,
) -> c_int {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    // SAFETY: As above.
    let sges = (!sg_list.is_null()).then(|| unsafe { SgeList::from_raw(sg_list) });
    errno(mr::advise(pd, advice, flags, sges, num_sge))
}

/// Deregisters a memory region; called by uverbs and through `ib_dereg_mr()`.
///
/// # Safety
///
/// `mr` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dereg_mr_user(
    mr: *mut bindings::ib_mr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, udata) = unsafe { (Mr::from_raw(mr), Udata::from_raw_or_null(udata)) };
    errno(mr::dereg(mr, udata))
}

/// Allocates a region for fast registration.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_mr(
    pd: *mut bindings::ib_pd,
    mr_type: bindings::ib_mr_type,
    max_num_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    mr_or_err(mr::alloc(pd, MrKind::from_raw(mr_type), max_num_sg))
}

/// Allocates a region for data with protection information.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    max_num_data_sg: u32,
    max_num_meta_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    mr_or_err(mr::alloc_integrity(pd, max_num_data_sg, max_num_meta_sg))
}

/// Asks the driver to check the protection information of a finished transfer.
///
/// # Safety
///
/// `mr` must be live, `mr_status` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_check_mr_status(
    mr: *mut bindings::ib_mr,
    check_mask: u32,
    mr_status: *mut bindings::ib_mr_status,
) -> c_int {
    // SAFETY: By the contract of this function; the status is plain numbers.
    let (mr, status) = unsafe { (Mr::from_raw(mr), &mut *mr_status) };
    errno(mr.driver_check_status(check_mask, status))
}

/// Makes lists of data and of protection information the content of a region.
///
/// # Safety
///
/// `mr` must be live and not in use; the lists must have as many mapped entries as told, and the
/// offsets be null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_map_mr_sg_pi(
    mr: *mut bindings::ib_mr,
    data_sg: *mut bindings::scatterlist,
    data_sg_nents: c_int,
    data_sg_offset: *mut c_uint,
    meta_sg: *mut bindings::scatterlist,
    meta_sg_nents: c_int,
    meta_sg_offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, data, meta) = unsafe {
        (
            Mr::from_raw(mr),
            SgList::from_raw(data_sg, data_sg_nents, data_sg_offset),
            SgList::from_raw(meta_sg, meta_sg_nents, meta_sg_offset),
        )
    };
    count_or_errno(mr::map_integrity(mr, data, meta, page_size))
}

/// Makes the first entries of a list the content of a region; returns how many.
///
/// # Safety
///
/// `mr` must be live and not in use; `sg` must have `sg_nents` mapped entries, and `sg_offset` be
/// null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_map_mr_sg(
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    sg_nents: c_int,
    sg_offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, sg) = unsafe { (Mr::from_raw(mr), SgList::from_raw(sg, sg_nents, sg_offset)) };
    count_or_errno(mr::map(mr, sg, page_size))
}

/// Splits the first entries of a list into pages, which it gives to `set_page`; returns how many
/// entries. Called by drivers from their `map_mr_sg` operation.
///
/// # Safety
///
/// As for `ib_map_mr_sg()`; `set_page` must be callable with `mr`.
#[export]
pub(crate) unsafe extern "C" fn ib_sg_to_pages(
    mr: *mut bindings::ib_mr,
    sgl: *mut bindings::scatterlist,
    sg_nents: c_int,
    sg_offset: *mut c_uint,
    set_page: Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int>,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, sg, setter) = unsafe {
        (
            Mr::from_raw(mr),
            SgList::from_raw(sgl, sg_nents, sg_offset),
            PageSetter::from_raw(set_page),
        )
    };
    count_or_errno(mr::map_pages(mr, sg, setter))
}
