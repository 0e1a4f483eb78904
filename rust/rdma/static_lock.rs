// SPDX-License-Identifier: GPL-2.0

//! Spinlocks with data, for statics.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use crate::spinlock::{
    CSpinLock,
    CSpinLockGuard, //
};
use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    bindings,
    static_lock_class,
    sync::atomic::{
        ordering::{
            Acquire,
            Full,
            Release, //
        },
        Atomic, //
    },
    types::Opaque, //
};

const RAW: i32 = 0;
const IN_PROGRESS: i32 = 1;
const READY: i32 = 2;

/// A lock that sets itself up at its first use. Usable in any context.
pub struct StaticSpinLock<T> {
    state: Atomic<i32>,
    lock: Opaque<bindings::spinlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: The data are only reached with the lock held.
unsafe impl<T: Send> Sync for StaticSpinLock<T> {}

impl<T> StaticSpinLock<T> {
    /// A lock around `data`.
    pub const fn new(data: T) -> Self {
        Self {
            state: Atomic::new(RAW),
            lock: Opaque::uninit(),
            data: UnsafeCell::new(data),
        }
    }

    /// Takes the lock, with interrupts disabled.
    pub fn lock(&'static self) -> StaticGuard<'static, T> {
        while self.state.load(Acquire) != READY {
            if self.state.cmpxchg(RAW, IN_PROGRESS, Full).is_ok() {
                // SAFETY: The memory is ours until the state says otherwise; name
                // and key are static.
                unsafe {
                    bindings::__spin_lock_init(
                        self.lock.get(),
                        c"static_lock".as_ptr().cast(),
                        static_lock_class!().as_ptr(),
                    )
                };
                self.state.store(READY, Release);
            }
            core::hint::spin_loop();
        }
        // SAFETY: Initialised above, and static.
        let guard = unsafe { CSpinLock::from_raw(self.lock.get()) }.lock_irqsave();
        StaticGuard {
            data: self.data.get(),
            _guard: guard,
        }
    }
}

/// The lock is held.
///
/// # Invariants
///
/// `data` is protected by the lock of `_guard`.
pub struct StaticGuard<'a, T> {
    data: *mut T,
    _guard: CSpinLockGuard<'a>,
}

impl<T> Deref for StaticGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant.
        unsafe { &*self.data }
    }
}

impl<T> DerefMut for StaticGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant.
        unsafe { &mut *self.data }
    }
}
