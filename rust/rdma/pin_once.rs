// SPDX-License-Identifier: GPL-2.0

//! Statics that are made in place while the module loads.
//!
//! The `kernel` crate's `SetOnce` takes a value by move, so a lock with a list head cannot live in
//! it. [`PinOnce`] runs an in-place initialiser instead.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit, //
};

use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
        Atomic, //
    }, //
};

const EMPTY: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;

/// A place for one pinned value, for the use as a `static`.
///
/// # Invariants
///
/// `state` only grows. While it is `FILLING`, one thread has `value` for itself; when it is
/// `FULL`, `value` is initialised and only shared.
pub struct PinOnce<T> {
    state: Atomic<u32>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: The state orders the initialisation before every use, and the value is shared only.
unsafe impl<T: Send + Sync> Sync for PinOnce<T> {}

impl<T> PinOnce<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self {
            state: Atomic::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Fills the place. Tells whether it was empty.
    pub fn init(&'static self, init: impl PinInit<T>) -> bool {
        if self.state.cmpxchg(EMPTY, FILLING, Relaxed).is_err() {
            return false;
        }
        let slot = self.value.get().cast::<T>();
        // SAFETY: By the invariant the value is this thread's alone; a static never moves.
        unsafe { pin_init::raw_init(slot, init) };
        // INVARIANT: Initialised just now.
        self.state.store(FULL, Release);
        true
    }

    /// The value, once there is one.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: By the invariant a full place has a value that is only shared.
        (self.state.load(Acquire) == FULL).then(|| unsafe { &*self.value.get().cast::<T>() })
    }
}

impl<T> Default for PinOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}
