// SPDX-License-Identifier: GPL-2.0

//! Spinning reader/writer locks, taken with interrupts disabled.
//!
//! C header: [`include/linux/rwlock.h`](srctree/include/linux/rwlock.h)

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::{NotThreadSafe, Opaque};

/// A `rwlock_t` around a value. Usable in any context.
///
/// # Invariants
///
/// `lock` is initialised; `data` is only reached through a guard.
#[repr(C)]
#[pin_data]
pub struct RwLockIrq<T: ?Sized = ()> {
    #[pin]
    lock: Opaque<bindings::rwlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: Moving the lock moves the data.
unsafe impl<T: ?Sized + Send> Send for RwLockIrq<T> {}
// SAFETY: Readers share `&T` (hence `Sync`), a writer may move a `T` out (hence `Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockIrq<T> {}

impl<T> RwLockIrq<T> {
    /// Makes a lock; the macro [`new_rwlock_irq!`](crate::new_rwlock_irq) supplies name and class.
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, `name` and `key` are static.
            lock <- Opaque::ffi_init(|slot| unsafe {
                bindings::rwlock_init(slot, name.as_char_ptr(), key.as_ptr())
            }),
            data: UnsafeCell::new(data),
        })
    }
}

impl RwLockIrq<()> {
    /// Views a lock that is part of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised lock that outlives `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rwlock_t) -> &'a Self {
        // SAFETY: `RwLockIrq<()>` has the layout of its first and only sized field.
        unsafe { &*ptr.cast() }
    }
}

impl<T: ?Sized> RwLockIrq<T> {
    /// Takes the lock shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        // SAFETY: `lock` is initialised by the type invariant.
        let flags = unsafe { bindings::read_lock_irqsave(self.lock.get()) };
        RwLockReadGuard {
            lock: self,
            flags,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        // SAFETY: `lock` is initialised by the type invariant.
        let flags = unsafe { bindings::write_lock_irqsave(self.lock.get()) };
        RwLockWriteGuard {
            lock: self,
            flags,
            _not_send: NotThreadSafe,
        }
    }
}

/// Shared access to the value of a [`RwLockIrq`].
///
/// # Invariants
///
/// The lock is held for reading since interrupts were saved in `flags`.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized = ()> {
    lock: &'a RwLockIrq<T>,
    flags: usize,
    _not_send: NotThreadSafe,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Held for reading by the type invariant: there is no writer.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Held for reading by the type invariant.
        unsafe { bindings::read_unlock_irqrestore(self.lock.lock.get(), self.flags) };
    }
}

/// Exclusive access to the value of a [`RwLockIrq`].
///
/// # Invariants
///
/// The lock is held for writing since interrupts were saved in `flags`.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized = ()> {
    lock: &'a RwLockIrq<T>,
    flags: usize,
    _not_send: NotThreadSafe,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Held for writing by the type invariant.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Held for writing by the type invariant.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Held for writing by the type invariant.
        unsafe { bindings::write_unlock_irqrestore(self.lock.lock.get(), self.flags) };
    }
}

/// Makes a [`RwLockIrq`] with a lock class of its own: `new_rwlock_irq!(value)` or
/// `new_rwlock_irq!(value, "name")`.
#[macro_export]
macro_rules! new_rwlock_irq {
    ($value:expr $(, $name:literal)? $(,)?) => {
        $crate::rwlock::RwLockIrq::new(
            $value, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
