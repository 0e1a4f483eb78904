// SPDX-License-Identifier: GPL-2.0

//! Completions, those of C structures included.
//!
//! C header: [`include/linux/completion.h`](srctree/include/linux/completion.h)

use kernel::bindings;
use kernel::prelude::*;
use kernel::time::Jiffies;
use kernel::types::Opaque;

/// One waiter per `complete`, as in C; the `kernel` crate's type only knows `complete_all`.
#[repr(transparent)]
#[pin_data]
pub struct Completion {
    #[pin]
    raw: Opaque<bindings::completion>,
}

// SAFETY: A completion is made to be used from several threads.
unsafe impl Send for Completion {}
// SAFETY: As above.
unsafe impl Sync for Completion {}

impl Completion {
    /// Makes a completion that nobody has completed yet.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes.
            raw <- Opaque::ffi_init(|slot| unsafe { bindings::init_completion(slot) }),
        })
    }

    /// Views a completion of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised completion that outlives `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::completion) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Wakes one waiter. Any context.
    pub fn complete(&self) {
        // SAFETY: `self` is initialised.
        unsafe { bindings::complete(self.raw.get()) }
    }

    /// Wakes all waiters, now and later. Any context.
    pub fn complete_all(&self) {
        // SAFETY: `self` is initialised.
        unsafe { bindings::complete_all(self.raw.get()) }
    }

    /// Forgets earlier completions. The caller makes sure that nobody waits.
    pub fn reinit(&self) {
        // SAFETY: `self` is initialised.
        unsafe { bindings::reinit_completion(self.raw.get()) }
    }

    /// Waits, uninterruptibly.
    pub fn wait(&self) {
        // SAFETY: `self` is initialised.
        unsafe { bindings::wait_for_completion(self.raw.get()) }
    }

    /// Waits at most `timeout` jiffies; says whether the completion came.
    pub fn wait_timeout(&self, timeout: Jiffies) -> bool {
        // SAFETY: `self` is initialised.
        unsafe { bindings::wait_for_completion_timeout(self.raw.get(), timeout) != 0 }
    }
}
