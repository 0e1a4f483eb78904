// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events of queue pairs, completion queues, shared receive queues and work queues.

use crate::qp::Qp;
use kernel::{bindings, ffi::c_void};

/// C prototype of the function that consumers pass for the events of an object.
pub type RawHandler = unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void);

/// Consumer's function for the events of an object, and what it wants to be called with.
///
/// # Invariants
///
/// The function may be called with `context` as long as the object lives.
#[derive(Clone, Copy)]
pub struct EventHandler {
    pub(crate) function: Option<RawHandler>,
    pub(crate) context: *mut c_void,
}

impl EventHandler {
    /// Takes the pair that a consumer passes.
    ///
    /// # Safety
    ///
    /// `function`, if any, must be callable with `context`, from any context including
    /// interrupts, as long as the object that it is given to exists.
    pub unsafe fn from_raw(function: Option<RawHandler>, context: *mut c_void) -> Self {
        // INVARIANT: By the contract of this function.
        Self { function, context }
    }
}

/// An event that a driver reports.
#[repr(transparent)]
pub struct Event(bindings::ib_event);

impl Event {
    /// Takes an event from a driver.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use the event meanwhile, and its element
    /// must be a live object of the kind that the event concerns.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_event) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// Whether the queue pair has taken its last entry from a shared receive queue.
    pub fn is_last_wqe_reached(&self) -> bool {
        self.0.event == bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED
    }

    /// Passes the event on, as that of `qp`.
    pub fn deliver(&mut self, qp: &Qp, handler: EventHandler) {
        let Some(function) = handler.function else {
            return;
        };
        self.0.element.qp = qp.as_raw();
        // SAFETY: By the invariant of `EventHandler`; the object lives as the driver reports an
        // event of it.
        unsafe { function(&mut self.0, handler.context) };
    }
}
