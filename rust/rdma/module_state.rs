// SPDX-License-Identifier: GPL-2.0

//! State that an init function makes and an exit function takes away.

use core::marker::PhantomData;
use core::ptr;

use kernel::ffi::c_void;
use kernel::sync::atomic::{ordering, Atomic};
use kernel::types::ForeignOwnable;

/// A place for one owner of module state, usually a `Pin<KBox<_>>`. It starts empty, so that an exit
/// function works after each failure of the init functions.
///
/// # Invariants
///
/// The pointer is null or comes from `T::into_foreign`, and the place owns it.
pub struct ModuleState<T: ForeignOwnable + Send> {
    owner: Atomic<*mut c_void>,
    _type: PhantomData<T>,
}

// SAFETY: The pointer is atomic, and the owner may move to other threads.
unsafe impl<T: ForeignOwnable + Send> Sync for ModuleState<T> {}

impl<T: ForeignOwnable + Send> ModuleState<T> {
    /// An empty place, for a `static`.
    pub const fn new() -> Self {
        Self {
            owner: Atomic::new(ptr::null_mut()),
            _type: PhantomData,
        }
    }

    fn exchange(&self, owner: *mut c_void) -> Option<T> {
        let old = self.owner.xchg(owner, ordering::Full);
        // SAFETY: By the type invariant; the exchange took the old pointer out once.
        unsafe { T::try_from_foreign(old) }
    }

    /// Stores `owner`; the previous one, if any, is dropped.
    pub fn set(&self, owner: T) {
        // INVARIANT: The pointer comes from `into_foreign`.
        drop(self.exchange(owner.into_foreign()));
    }

    /// Takes the owner away.
    pub fn take(&self) -> Option<T> {
        self.exchange(ptr::null_mut())
    }
}

impl<T: ForeignOwnable + Send> Default for ModuleState<T> {
    fn default() -> Self {
        Self::new()
    }
}
