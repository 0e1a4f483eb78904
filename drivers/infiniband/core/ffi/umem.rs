// SPDX-License-Identifier: GPL-2.0

//! User memory regions for drivers.

use crate::umem::{
    self,
    BufferAttr,
    RawUmem,
    Rereg, //
};
use core::ptr::null_mut;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    umem::{
        Access,
        Umem, //
    },
    uverbs::{
        AttrBundle,
        BufferDesc, //
    },
};

/// What C expects of a function that returns a region.
fn to_ptr(result: Result<Option<RawUmem>>) -> *mut bindings::ib_umem {
    match result {
        Ok(umem) => umem.map_or(null_mut(), RawUmem::as_ptr),
        Err(e) => e.to_ptr(),
    }
}

/// Pins the memory of a buffer descriptor.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device and a descriptor of their own.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_get_desc(
    device: *mut bindings::ib_device,
    desc: *const bindings::ib_uverbs_buffer_desc,
    access: c_int,
) -> *mut bindings::ib_umem {
    // SAFETY: The device is registered; the descriptor is valid for the call.
    let (device, desc) = unsafe { (Device::from_raw(device), BufferDesc::from_raw(desc)) };
    to_ptr(umem::pin_desc(device, &desc, Access::from_bits(access)).map(Some))
}

/// Pins the buffer under one attribute; null without one.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device and the command's bundle or
/// null.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_get_attr(
    device: *mut bindings::ib_device,
    attrs: *const bindings::uverbs_attr_bundle,
    attr_id: u16,
    size: usize,
    access: c_int,
) -> *mut bindings::ib_umem {
    // SAFETY: The device is registered; the bundle belongs to the running command.
    let (device, attrs) = unsafe { (Device::from_raw(device), AttrBundle::from_raw(attrs)) };
    to_ptr(umem::pin_buffer(
        device,
        attrs,
        BufferAttr::Desc(attr_id),
        None,
        size as u64,
        Access::from_bits(access),
    ))
}

/// Pins the buffer under one attribute, or `size` bytes at `addr` without one.
///
/// # Safety
///
/// As for [`ib_umem_get_attr`].
#[export]
pub(crate) unsafe extern "C" fn ib_umem_get_attr_or_va(
    device: *mut bindings::ib_device,
    attrs: *const bindings::uverbs_attr_bundle,
    attr_id: u16,
    addr: u64,
    size: usize,
    access: c_int,
) -> *mut bindings::ib_umem {
    // SAFETY: The device is registered; the bundle belongs to the running command.
    let (device, attrs) = unsafe { (Device::from_raw(device), AttrBundle::from_raw(attrs)) };
    to_ptr(umem::pin_buffer(
        device,
        attrs,
        BufferAttr::Desc(attr_id),
        Some(addr),
        size as u64,
        Access::from_bits(access),
    ))
}

/// Pins the buffer that user space gives for a CQ; null without one.
///
/// # Safety
///
/// As for [`ib_umem_get_attr`], in CREATE_CQ.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_get_cq_buf(
    device: *mut bindings::ib_device,
    attrs: *const bindings::uverbs_attr_bundle,
    size: usize,
    access: c_int,
) -> *mut bindings::ib_umem {
    // SAFETY: The device is registered; the bundle belongs to the running command.
    let (device, attrs) = unsafe { (Device::from_raw(device), AttrBundle::from_raw(attrs)) };
    to_ptr(umem::pin_buffer(
        device,
        attrs,
        BufferAttr::Cq,
        None,
        size as u64,
        Access::from_bits(access),
    ))
}

/// Pins the buffer that user space gives for a CQ, or `size` bytes at `addr` without one.
///
/// # Safety
///
/// As for [`ib_umem_get_attr`], in CREATE_CQ.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_get_cq_buf_or_va(
    device: *mut bindings::ib_device,
    attrs: *const bindings::uverbs_attr_bundle,
    addr: u64,
    size: usize,
    access: c_int,
) -> *mut bindings::ib_umem {
    // SAFETY: The device is registered; the bundle belongs to the running command.
    let (device, attrs) = unsafe { (Device::from_raw(device), AttrBundle::from_raw(attrs)) };
    to_ptr(umem::pin_buffer(
        device,
        attrs,
        BufferAttr::Cq,
        Some(addr),
        size as u64,
        Access::from_bits(access),
    ))
}

/// Releases a region of any kind. Null and error pointers are ignored.
///
/// # Safety
///
/// Called by drivers with a region that they own and whose memory the device no longer uses.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_release(umem: *mut bindings::ib_umem) {
    // SAFETY: Looks at the pointer's value only.
    if umem.is_null() || unsafe { bindings::IS_ERR(umem.cast()) } {
        return;
    }
    // SAFETY: Owned by the caller, who gives it up.
    unsafe { Umem::release(umem) }
}

/// The best page size for a region that the device is to know by `virt`; 0 if none fits.
///
/// # Safety
///
/// Called by drivers with a region that they own.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_find_best_pgsz(
    umem: *mut bindings::ib_umem,
    pgsz_bitmap: c_ulong,
    virt: u64,
) -> c_ulong {
    // SAFETY: Owned by the caller.
    let umem = unsafe { Umem::from_raw(umem) };
    umem::best_page_size(umem, pgsz_bitmap as u64, virt) as c_ulong
}

/// Copies a range of a region into kernel memory.
///
/// # Safety
///
/// Called by drivers with a region that they own and `length` writable bytes at `dst`.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut bindings::ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    // SAFETY: Owned by the caller.
    let umem = unsafe { Umem::from_raw(umem) };
    let from = match umem::copy_offset(umem, offset as u64, length as u64) {
        Ok(from) => from,
        Err(e) => return e.to_errno(),
    };
    // SAFETY: The caller promises the destination.
    if unsafe { umem.copy_out(dst, length, from) } == length {
        0
    } else {
        EINVAL.to_errno()
    }
}

/// Whether a driver may keep its region in a re-registration.
///
/// # Safety
///
/// Called by drivers with a region that they own, or null for memory without one.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_check_rereg(
    umem: *mut bindings::ib_umem,
    flags: c_int,
    new_access_flags: c_int,
) -> c_int {
    if umem.is_null() {
        return 0;
    }
    let flags = flags as u32;
    let what = Rereg {
        access: flags & bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS != 0,
        translation: flags & bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS != 0,
    };
    // SAFETY: Owned by the caller.
    let umem = unsafe { Umem::from_raw(umem) };
    match umem::check_rereg(umem, what, Access::from_bits(new_access_flags)) {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}
