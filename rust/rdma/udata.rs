// SPDX-License-Identifier: GPL-2.0

//! What user space passes to, and expects from, the driver of an object.

use crate::object::c_object;
use kernel::bindings;

c_object! {
    /// Request and response area of a driver; absent for objects of kernel consumers.
    pub struct Udata(ib_udata);
}

impl Udata {
    /// What C expects: a null pointer for kernel consumers.
    pub fn as_raw_or_null(udata: Option<&Self>) -> *mut bindings::ib_udata {
        udata.map_or(core::ptr::null_mut(), Self::as_raw)
    }

    /// Reads a pointer that is null for kernel consumers.
    ///
    /// # Safety
    ///
    /// `ptr` must be null or valid for `'a`.
    pub unsafe fn from_raw_or_null<'a>(ptr: *mut bindings::ib_udata) -> Option<&'a Self> {
        if ptr.is_null() {
            return None;
        }
        // SAFETY: Not null, so valid by the contract of this function.
        Some(unsafe { Self::from_raw(ptr) })
    }
}
