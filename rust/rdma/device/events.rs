// SPDX-License-Identifier: GPL-2.0

//! The handlers of asynchronous events of a device (`struct ib_event_handler`).

use super::Device;
use crate::rwsem::RwSem;
use kernel::{
    bindings,
    container_of,
    types::Opaque, //
};

/// A handler; the memory is that of whoever registers it.
///
/// # Invariants
///
/// The pointer is valid, and the device of the handler is.
#[repr(transparent)]
pub struct EventHandler(Opaque<bindings::ib_event_handler>);

impl EventHandler {
    /// Views a C handler.
    ///
    /// # Safety
    ///
    /// `raw` is valid for `'a`, with a device that is; while it is registered it stays so.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::ib_event_handler) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*raw.cast() }
    }

    /// The device whose events are handled.
    pub fn device(&self) -> &Device {
        // SAFETY: Valid by the type invariant.
        unsafe { Device::from_raw((*self.0.get()).device) }
    }

    /// Adds the handler behind all others of the device. Sleeps.
    ///
    /// # Safety
    ///
    /// The handler is not registered, and stays valid until it is unregistered.
    pub unsafe fn register(&self) {
        let device = self.device();
        let _lock = device.event_lock().write();
        // SAFETY: The list is locked, the entry by the caller on no list.
        unsafe {
            bindings::list_add_tail(
                &raw mut (*self.0.get()).list,
                &raw mut (*device.as_raw()).event_handler_list,
            )
        };
    }

    /// Removes the handler; afterwards it is not running. Sleeps.
    ///
    /// # Safety
    ///
    /// The handler is registered.
    pub unsafe fn unregister(&self) {
        let device = self.device();
        let _lock = device.event_lock().write();
        // SAFETY: The list is locked, the entry by the caller on it.
        unsafe { bindings::rdma_list_del(&raw mut (*self.0.get()).list) };
    }
}

impl Device {
    fn event_lock(&self) -> &RwSem {
        // SAFETY: Initialised when the device was allocated.
        unsafe { RwSem::from_raw(&raw mut (*self.as_raw()).event_handler_rwsem) }
    }

    /// Calls all handlers of the device, in the order of their registration. Sleeps.
    ///
    /// # Safety
    ///
    /// `event` is a valid event of this device.
    pub unsafe fn call_event_handlers(&self, event: *mut bindings::ib_event) {
        let _lock = self.event_lock().read();
        // SAFETY: The list is locked and its entries valid; the event by the caller.
        unsafe {
            let head = &raw mut (*self.as_raw()).event_handler_list;
            let mut entry = (*head).next;
            while entry != head {
                let handler = container_of!(entry, bindings::ib_event_handler, list);
                if let Some(handle) = (*handler).handler {
                    handle(handler, event);
                }
                entry = (*entry).next;
            }
        }
    }
}
