// SPDX-License-Identifier: GPL-2.0

//! Reference counters of C structures.
//!
//! C headers: [`include/linux/refcount.h`](srctree/include/linux/refcount.h),
//! [`include/linux/kref.h`](srctree/include/linux/kref.h)

use kernel::bindings;
use kernel::sync::Refcount;
use kernel::types::Opaque;

/// What the `kernel` crate's `Refcount` lacks.
pub trait RefcountExt {
    /// Takes a reference unless the count has reached zero; says whether it did.
    fn inc_not_zero(&self) -> bool;

    /// The current value, for reports only.
    fn read(&self) -> u32;
}

impl RefcountExt for Refcount {
    fn inc_not_zero(&self) -> bool {
        // SAFETY: `Refcount` is transparent over `refcount_t`, and the reference is valid.
        unsafe { bindings::refcount_inc_not_zero(core::ptr::from_ref(self).cast_mut().cast()) }
    }

    fn read(&self) -> u32 {
        // SAFETY: As above.
        unsafe { bindings::refcount_read(core::ptr::from_ref(self).cast_mut().cast()) }
    }
}

/// Views a `refcount_t` of a C structure.
///
/// # Safety
///
/// `ptr` points to an initialised counter that outlives `'a`.
pub unsafe fn refcount_from_raw<'a>(ptr: *mut bindings::refcount_t) -> &'a Refcount {
    // SAFETY: `Refcount` is transparent over `refcount_t`.
    unsafe { &*ptr.cast() }
}

/// A `struct kref` of a C structure.
#[repr(transparent)]
pub struct Kref(Opaque<bindings::kref>);

// SAFETY: The counter is atomic.
unsafe impl Sync for Kref {}

impl Kref {
    /// Views a counter of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to memory that outlives `'a`, initialised unless the first call is
    /// [`Kref::init`].
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::kref) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Sets the count to one.
    pub fn init(&self) {
        // SAFETY: `self` is valid for writes through the `Opaque`.
        unsafe { bindings::kref_init(self.0.get()) }
    }

    /// Takes a reference; the caller holds one already.
    pub fn get(&self) {
        // SAFETY: `self` is a valid counter.
        unsafe { bindings::kref_get(self.0.get()) }
    }

    /// Takes a reference unless the last one is gone; says whether it did.
    pub fn get_unless_zero(&self) -> bool {
        // SAFETY: `self` is a valid counter.
        unsafe { bindings::kref_get_unless_zero(self.0.get()) != 0 }
    }

    /// Drops a reference; says whether it was the last one, whose holder then releases the object.
    #[must_use = "the holder of the last reference has to release the object"]
    pub fn put_and_test(&self) -> bool {
        // SAFETY: `kref` is a `refcount_t` in a structure of its own.
        unsafe { bindings::refcount_dec_and_test(self.0.get().cast()) }
    }
}
