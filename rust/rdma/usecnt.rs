// SPDX-License-Identifier: GPL-2.0

//! Use counts of verbs objects.
//!
//! An object that others are built on (a protection domain, a completion queue ...) carries
//! an `atomic_t usecnt`. It is a plain counter, not a reference count: it keeps the object from
//! being destroyed, and it frees nothing when it falls to zero. `ib_uverbs` and the consumers
//! change the same fields, so every access is atomic.

use core::mem::ManuallyDrop;
use kernel::{bindings, prelude::*, types::Opaque};

/// The `usecnt` field of a C object.
#[repr(transparent)]
pub struct UseCount(Opaque<bindings::atomic_t>);

impl UseCount {
    /// Views a C field as a use count.
    ///
    /// # Safety
    ///
    /// `ptr` must point to an initialised `atomic_t` that stays valid for `'a` and is only
    /// accessed atomically.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::atomic_t) -> &'a Self {
        // SAFETY: The caller guarantees validity; `Self` is transparent over `atomic_t`.
        unsafe { &*ptr.cast() }
    }

    /// Number of objects that use this one at the moment.
    pub fn get(&self) -> i32 {
        // SAFETY: `from_raw` guarantees a valid `atomic_t`.
        unsafe { bindings::atomic_read(self.0.get()) }
    }

    /// Refuses with `EBUSY` while somebody uses the object.
    pub fn check_idle(&self) -> Result {
        if self.get() == 0 {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// Adds a use that ends with the returned guard, or is handed to an object by
    /// [`Use::keep`].
    pub fn acquire(&self) -> Use<'_> {
        // SAFETY: `from_raw` guarantees a valid `atomic_t`.
        unsafe { bindings::atomic_inc(self.0.get()) };
        Use(self)
    }

    /// Takes back a use that an object kept: the reverse of [`Use::keep`].
    ///
    /// Only for the code that destroys the object which kept it.
    pub fn reclaim(&self) -> Use<'_> {
        Use(self)
    }
}

/// One use of an object; given up when dropped.
#[must_use = "the use is given up when this is dropped"]
pub struct Use<'a>(&'a UseCount);

impl Use<'_> {
    /// Leaves the use counted: from here on a C object stands for it.
    pub fn keep(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // SAFETY: `UseCount::from_raw` guarantees a valid `atomic_t`.
        unsafe { bindings::atomic_dec(self.0 .0.get()) };
    }
}
