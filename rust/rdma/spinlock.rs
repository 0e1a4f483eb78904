// SPDX-License-Identifier: GPL-2.0

//! Spinlocks that lie in C structures, with the interrupt and bottom-half variants.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)
//!
//! For a lock that Rust owns use `SpinLock` or `SpinLockIrq` of the `kernel` crate.

use kernel::bindings;
use kernel::types::{NotThreadSafe, Opaque};

/// A `spinlock_t` of a C structure.
#[repr(transparent)]
pub struct CSpinLock(Opaque<bindings::spinlock_t>);

// SAFETY: A spinlock is made to be used from several threads.
unsafe impl Sync for CSpinLock {}
// SAFETY: As above.
unsafe impl Send for CSpinLock {}

impl CSpinLock {
    /// Views a lock of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised lock that outlives `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::spinlock_t) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Takes the lock. For locks that are never taken from interrupts.
    pub fn lock(&self) -> CSpinLockGuard<'_> {
        // SAFETY: `self` is an initialised lock.
        unsafe { bindings::spin_lock(self.0.get()) };
        CSpinLockGuard {
            lock: self,
            how: How::Plain,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock with bottom halves disabled.
    pub fn lock_bh(&self) -> CSpinLockGuard<'_> {
        // SAFETY: `self` is an initialised lock.
        unsafe { bindings::spin_lock_bh(self.0.get()) };
        CSpinLockGuard {
            lock: self,
            how: How::Bh,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock with interrupts disabled; they return to their earlier state with the guard.
    pub fn lock_irqsave(&self) -> CSpinLockGuard<'_> {
        // SAFETY: `self` is an initialised lock.
        let flags = unsafe { bindings::spin_lock_irqsave(self.0.get()) };
        CSpinLockGuard {
            lock: self,
            how: How::Irq(flags),
            _not_send: NotThreadSafe,
        }
    }
}

enum How {
    Plain,
    Bh,
    Irq(usize),
}

/// The lock is held.
///
/// # Invariants
///
/// `lock` is held by this thread, taken in the way that `how` says.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct CSpinLockGuard<'a> {
    lock: &'a CSpinLock,
    how: How,
    _not_send: NotThreadSafe,
}

impl Drop for CSpinLockGuard<'_> {
    fn drop(&mut self) {
        let lock = self.lock.0.get();
        match self.how {
            // SAFETY: Held, and taken this way, by the type invariant.
            How::Plain => unsafe { bindings::spin_unlock(lock) },
            // SAFETY: As above.
            How::Bh => unsafe { bindings::spin_unlock_bh(lock) },
            // SAFETY: As above.
            How::Irq(flags) => unsafe { bindings::spin_unlock_irqrestore(lock, flags) },
        }
    }
}
