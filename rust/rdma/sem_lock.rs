// SPDX-License-Identifier: GPL-2.0

//! Locks whose holder may sleep, and which a softirq may try to take.
//!
//! C header: [`include/linux/semaphore.h`](srctree/include/linux/semaphore.h)
//!
//! A mutex must not be tried in a softirq, as its owner is a task; a semaphore may be.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use kernel::bindings;
use kernel::prelude::*;
use kernel::types::{NotThreadSafe, Opaque};

/// A semaphore of one around a value.
///
/// # Invariants
///
/// `sem` is initialised; `data` is only reached through a guard, of which there is one at a time.
#[pin_data]
pub struct SemLock<T> {
    #[pin]
    sem: Opaque<bindings::semaphore>,
    data: UnsafeCell<T>,
}

// SAFETY: Moving the lock moves the data.
unsafe impl<T: Send> Send for SemLock<T> {}
// SAFETY: Only the one who holds the lock reaches the data.
unsafe impl<T: Send> Sync for SemLock<T> {}

impl<T> SemLock<T> {
    /// Makes a lock that nobody holds.
    pub fn new(data: T) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid for writes, and pinned.
            sem <- Opaque::ffi_init(|slot| unsafe { bindings::rdma_sema_init(slot, 1) }),
            data: UnsafeCell::new(data),
        })
    }

    /// Takes the lock. May sleep.
    pub fn lock(&self) -> SemLockGuard<'_, T> {
        // SAFETY: Initialised by the type invariant.
        unsafe { bindings::down(self.sem.get()) };
        SemLockGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock if nobody holds it. Any context.
    ///
    /// What was written before a failed call is seen by the holder after it has dropped its guard.
    pub fn try_lock(&self) -> Option<SemLockGuard<'_, T>> {
        // SAFETY: Initialised by the type invariant.
        let taken = unsafe { bindings::down_trylock(self.sem.get()) } == 0;
        taken.then(|| SemLockGuard {
            lock: self,
            _not_send: NotThreadSafe,
        })
    }
}

/// The right to the value of a [`SemLock`].
///
/// # Invariants
///
/// The lock is held.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct SemLockGuard<'a, T> {
    lock: &'a SemLock<T>,
    _not_send: NotThreadSafe,
}

impl<T> Deref for SemLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Held by the type invariant, so that nobody else reaches the data.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for SemLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As above.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for SemLockGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant, and given up here.
        unsafe { bindings::up(self.lock.sem.get()) };
    }
}
