// SPDX-License-Identifier: GPL-2.0

//! Sleeping reader/writer locks.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)
//!
//! The `kernel` crate has no `rw_semaphore`. [`RwSem`] owns the data that it protects, as the
//! crate's `Mutex` does; [`RwSem::from_raw`] views a semaphore that lies in a C structure.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::{NotThreadSafe, Opaque};

/// A reader/writer semaphore around a value.
///
/// # Invariants
///
/// `sem` is initialised; `data` is only reached through a guard.
#[repr(C)]
#[pin_data]
pub struct RwSem<T: ?Sized = ()> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    data: UnsafeCell<T>,
}

// SAFETY: Moving the semaphore moves the data.
unsafe impl<T: ?Sized + Send> Send for RwSem<T> {}
// SAFETY: Readers share `&T` (hence `Sync`), a writer may move a `T` out (hence `Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// Makes a semaphore; the macro [`new_rwsem!`](crate::new_rwsem) supplies name and class.
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, `name` and `key` are static.
            sem <- Opaque::ffi_init(|slot| unsafe {
                bindings::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr())
            }),
            data: UnsafeCell::new(data),
        })
    }
}

impl RwSem<()> {
    /// Views a semaphore that is part of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised semaphore that outlives `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rw_semaphore) -> &'a Self {
        // SAFETY: `RwSem<()>` has the layout of its first and only sized field.
        unsafe { &*ptr.cast() }
    }
}

impl<T: ?Sized> RwSem<T> {
    /// Takes the lock shared. Sleeps.
    pub fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: `sem` is initialised by the type invariant.
        unsafe { bindings::down_read(self.sem.get()) };
        ReadGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock shared unless that would sleep.
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        // SAFETY: `sem` is initialised by the type invariant.
        let taken = unsafe { bindings::down_read_trylock(self.sem.get()) } != 0;
        taken.then(|| ReadGuard {
            lock: self,
            _not_send: NotThreadSafe,
        })
    }

    /// Takes the lock exclusively. Sleeps.
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: `sem` is initialised by the type invariant.
        unsafe { bindings::down_write(self.sem.get()) };
        WriteGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }
}

/// Shared access to the value of a [`RwSem`].
///
/// # Invariants
///
/// The lock is held for reading.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard<'a, T: ?Sized = ()> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Held for reading by the type invariant: there is no writer.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Held for reading by the type invariant.
        unsafe { bindings::up_read(self.lock.sem.get()) };
    }
}

/// Exclusive access to the value of a [`RwSem`].
///
/// # Invariants
///
/// The lock is held for writing.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard<'a, T: ?Sized = ()> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<'a, T: ?Sized> WriteGuard<'a, T> {
    /// Lets other readers in without ever releasing the lock.
    pub fn downgrade(self) -> ReadGuard<'a, T> {
        let lock = self.lock;
        core::mem::forget(self);
        // SAFETY: Held for writing by the type invariant; the write guard is gone.
        unsafe { bindings::downgrade_write(lock.sem.get()) };
        ReadGuard {
            lock,
            _not_send: NotThreadSafe,
        }
    }
}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Held for writing by the type invariant.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Held for writing by the type invariant.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Held for writing by the type invariant.
        unsafe { bindings::up_write(self.lock.sem.get()) };
    }
}

/// Makes a [`RwSem`] with a lock class of its own: `new_rwsem!(value)` or
/// `new_rwsem!(value, "name")`.
#[macro_export]
macro_rules! new_rwsem {
    ($value:expr $(, $name:literal)? $(,)?) => {
        $crate::rwsem::RwSem::new(
            $value, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
