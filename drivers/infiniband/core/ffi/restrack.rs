// SPDX-License-Identifier: GPL-2.0

//! `rdma_restrack_*()`.
//!
//! Every entry that these functions get is part of an object of the type that was given to
//! `rdma_restrack_new()`, and its owner frees the object only after `rdma_restrack_del()`,
//! `rdma_restrack_commit_del()` or a failed creation's `rdma_restrack_put()` has returned.

use core::ptr::NonNull;

use crate::restrack;
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    restrack::{
        Entry,
        EntryRef,
        Kind,
        Tables, //
    }, //
};

/// Gives a new device its tables.
///
/// # Safety
///
/// `dev` is being made by `_ib_alloc_device()`; nobody else knows it yet.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_init(dev: *mut bindings::ib_device) -> c_int {
    let Some(dev) = NonNull::new(dev) else {
        return EINVAL.to_errno();
    };

    match restrack::init() {
        Ok(tables) => {
            // SAFETY: The caller has the device for itself.
            unsafe { Tables::attach(tables, dev) };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Frees the tables of a device.
///
/// # Safety
///
/// `dev` went through `rdma_restrack_init()` and is being freed by `ib_dealloc_device()`, or its
/// allocation is being undone.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_clean(dev: *mut bindings::ib_device) {
    // SAFETY: The caller has the device for itself.
    if let Some(tables) = NonNull::new(dev).and_then(|dev| unsafe { Tables::detach(dev) }) {
        restrack::clean(tables);
    }
}

/// Number of objects of a type.
///
/// # Safety
///
/// `dev` is a device that netlink code or a driver has a reference to.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_count(
    dev: *mut bindings::ib_device,
    type_: bindings::rdma_restrack_type,
    show_details: bool,
) -> u32 {
    // SAFETY: The caller's reference keeps the device.
    let device = unsafe { Device::from_raw(dev) };
    Kind::from_raw(type_).map_or(0, |kind| restrack::count(device, kind, show_details))
}

/// Names the creator.
///
/// # Safety
///
/// `res` is new, see the module's text; `caller` is null or a C string.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_set_name(
    res: *mut bindings::rdma_restrack_entry,
    caller: *const c_char,
) {
    // SAFETY: The caller passes a string or null.
    let caller = (!caller.is_null()).then(|| unsafe { CStr::from_char_ptr(caller) });
    // SAFETY: The entry belongs to the caller.
    restrack::set_name(unsafe { Entry::from_raw(res) }, caller);
}

/// Copies the creator of another object.
///
/// # Safety
///
/// `dst` is new; `parent` belongs to an object that the caller keeps alive.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_parent_name(
    dst: *mut bindings::rdma_restrack_entry,
    parent: *const bindings::rdma_restrack_entry,
) {
    // SAFETY: The caller has both objects.
    let (dst, parent) = unsafe { (Entry::from_raw(dst), Entry::from_raw(parent.cast_mut())) };
    restrack::parent_name(dst, parent);
}

/// Prepares the entry of a new object.
///
/// # Safety
///
/// `res` lies in an object of type `type_` that the caller is making.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_new(
    res: *mut bindings::rdma_restrack_entry,
    type_: bindings::rdma_restrack_type,
) {
    // SAFETY: The caller has the object for itself.
    unsafe { Entry::init(res, type_) };
}

/// Publishes an object.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, see the module's text.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_add(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::add(unsafe { Entry::from_raw(res) });
}

/// Shows an object again whose destruction failed.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, after `rdma_restrack_begin_del()`.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_abort_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::abort_del(unsafe { Entry::from_raw(res) });
}

/// Takes a reference; 0 if the object is on the way out.
///
/// # Safety
///
/// `res` is an entry that a lock or a reference of the caller keeps alive.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_get(
    res: *mut bindings::rdma_restrack_entry,
) -> c_int {
    // SAFETY: The caller keeps the entry alive.
    restrack::get(unsafe { Entry::from_raw(res) }).into()
}

/// Finds an object by its id and takes a reference, or `ERR_PTR(-ENOENT)`.
///
/// # Safety
///
/// `dev` is a device that the caller has a reference to.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_get_byid(
    dev: *mut bindings::ib_device,
    type_: bindings::rdma_restrack_type,
    id: u32,
) -> *mut bindings::rdma_restrack_entry {
    // SAFETY: The caller's reference keeps the device.
    let device = unsafe { Device::from_raw(dev) };
    let found = Kind::from_raw(type_).and_then(|kind| restrack::get_by_id(device, kind, id));
    found.map_or_else(|| ENOENT.to_ptr(), EntryRef::into_raw)
}

/// Drops a reference; 1 if it was the last one.
///
/// # Safety
///
/// The caller has a reference to `res`.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_put(
    res: *mut bindings::rdma_restrack_entry,
) -> c_int {
    // SAFETY: The caller's reference keeps the entry alive.
    restrack::put(unsafe { Entry::from_raw(res) }).into()
}

/// Waits for the readers of an object that is about to change.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, who does not delete it at the same time.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_sync(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::sync(unsafe { Entry::from_raw(res) });
}

/// Takes an object out of its table.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, see the module's text.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::del(unsafe { Entry::from_raw(res) });
}

/// Hides an object that is about to be destroyed.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, see the module's text.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_begin_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::begin_del(unsafe { Entry::from_raw(res) });
}

/// Frees the id of an object that was destroyed.
///
/// # Safety
///
/// `res` is the entry of an object of the caller, after `rdma_restrack_begin_del()`.
#[export]
pub(crate) unsafe extern "C" fn rdma_restrack_commit_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: The entry belongs to the caller.
    restrack::commit_del(unsafe { Entry::from_raw(res) });
}
