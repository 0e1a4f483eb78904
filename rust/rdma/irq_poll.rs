// SPDX-License-Identifier: GPL-2.0

//! Polling from the block layer's soft interrupt.
//!
//! C header: [`include/linux/irq_poll.h`](srctree/include/linux/irq_poll.h)

use kernel::{
    bindings,
    prelude::*,
    types::Opaque, //
};

/// The callback: handles up to a budget of events and returns how many it has handled. Runs in
/// the soft interrupt, one instance per poller at a time.
pub(crate) type PollFn = unsafe extern "C" fn(*mut bindings::irq_poll, c_int) -> c_int;

/// A poller that lies in a C structure.
///
/// # Invariants
///
/// Wraps a `struct irq_poll` set up by [`IrqPoll::init`].
#[repr(transparent)]
pub struct IrqPoll(Opaque<bindings::irq_poll>);

impl IrqPoll {
    /// Sets up a poller that handles `weight` events in one go.
    ///
    /// # Safety
    ///
    /// `ptr` must be writable and not in use; what `poll` needs must outlive the poller.
    pub(crate) unsafe fn init(ptr: *mut bindings::irq_poll, weight: i32, poll: PollFn) {
        // SAFETY: Writable by the contract.
        unsafe { bindings::irq_poll_init(ptr, weight, Some(poll)) }
    }

    /// # Safety
    ///
    /// `ptr` must be set up by [`Self::init`] and outlive `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::irq_poll) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Asks for a round of polling; does nothing if one is due already. Any context.
    pub fn schedule(&self) {
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::irq_poll_sched(self.0.get()) }
    }

    /// Ends the polling until it is scheduled again. From the callback only.
    pub fn complete(&self) {
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::irq_poll_complete(self.0.get()) }
    }

    /// Waits for a running callback and keeps later ones from running. May sleep.
    pub fn disable(&self) {
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::irq_poll_disable(self.0.get()) }
    }
}
