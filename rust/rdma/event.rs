// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events of devices, ports and objects (IBTA 11.6.3).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::Queue;

use crate::device::Device;

/// Events that concern a port.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PortEvent {
    /// The link is up.
    Active,
    /// The link is down.
    Err,
    /// The LID changed.
    LidChange,
    /// The P_Key table changed.
    PkeyChange,
    /// The subnet manager changed.
    SmChange,
    /// Clients have to register with the subnet manager again.
    ClientReregister,
    /// The GID table changed.
    GidChange,
}

impl PortEvent {
    const TABLE: [(PortEvent, bindings::ib_event_type); 7] = [
        (
            PortEvent::Active,
            bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
        ),
        (PortEvent::Err, bindings::ib_event_type_IB_EVENT_PORT_ERR),
        (
            PortEvent::LidChange,
            bindings::ib_event_type_IB_EVENT_LID_CHANGE,
        ),
        (
            PortEvent::PkeyChange,
            bindings::ib_event_type_IB_EVENT_PKEY_CHANGE,
        ),
        (
            PortEvent::SmChange,
            bindings::ib_event_type_IB_EVENT_SM_CHANGE,
        ),
        (
            PortEvent::ClientReregister,
            bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER,
        ),
        (
            PortEvent::GidChange,
            bindings::ib_event_type_IB_EVENT_GID_CHANGE,
        ),
    ];

    /// From the number of C; nothing if it is no event of a port.
    pub fn from_raw(raw: bindings::ib_event_type) -> Option<Self> {
        Self::TABLE
            .into_iter()
            .find_map(|(event, code)| (code == raw).then_some(event))
    }

    fn as_raw(self) -> bindings::ib_event_type {
        Self::TABLE
            .into_iter()
            .find_map(|(event, code)| (event == self).then_some(code))
            .unwrap_or(bindings::ib_event_type_IB_EVENT_PORT_ERR)
    }
}

/// An event, with a reference that keeps its device in memory.
pub struct Event {
    raw: bindings::ib_event,
    device: ARef<Device>,
}

// SAFETY: The pointers of the event are passed on, and never dereferenced here.
unsafe impl Send for Event {}

impl Event {
    /// Copies a C event.
    ///
    /// # Safety
    ///
    /// `event` is valid, and so is its device.
    pub unsafe fn from_raw(event: *const bindings::ib_event) -> Self {
        // SAFETY: By the contract.
        let raw = unsafe { event.read() };
        Self {
            // SAFETY: By the contract.
            device: unsafe { Device::from_raw(raw.device) }.hold(),
            raw,
        }
    }

    /// Makes an event of a port.
    pub fn of_port(device: &Device, port: u32, event: PortEvent) -> Self {
        Self {
            raw: bindings::ib_event {
                device: device.as_raw(),
                element: bindings::ib_event__bindgen_ty_1 { port_num: port },
                event: event.as_raw(),
            },
            device: device.hold(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the event says about a port, and the number of the port.
    pub fn port_event(&self) -> Option<(PortEvent, u32)> {
        let event = PortEvent::from_raw(self.raw.event)?;
        // SAFETY: Events of ports carry the number in the union.
        Some((event, unsafe { self.raw.element.port_num }))
    }

    /// Calls the handlers that are registered for the device, one after another. May sleep.
    #[inline]
    pub fn deliver(mut self) {
        // SAFETY: The event is valid, and its device is held.
        unsafe { bindings::ib_dispatch_event_clients(&mut self.raw) }
    }

    /// Hands the event to the core, which refreshes its cache and calls the handlers later. Any
    /// context.
    pub fn dispatch(&self) {
        // SAFETY: The event is valid, and its device is held.
        unsafe { bindings::ib_dispatch_event(&self.raw) }
    }
}

/// The work queue of events and of the release of GIDs.
pub fn queue() -> &'static Queue {
    // SAFETY: The queue is made before all users of the core and destroyed after them.
    unsafe { Queue::from_raw(bindings::ib_wq.cast()) }
}

/// Waits until the events that are queued now were delivered. May sleep.
pub fn flush() {
    // SAFETY: As above.
    unsafe { bindings::__flush_workqueue(bindings::ib_wq) }
}

/// Who wants to be told of events of ports.
pub trait PortWatcher: Send + Sync + 'static {
    /// Something happened to a port. May sleep; registering and removing of handlers waits.
    fn happened(&self, event: PortEvent, port: u32);
}

#[repr(C)]
struct Watch<T> {
    raw: Opaque<bindings::ib_event_handler>,
    watcher: Arc<T>,
}

/// Events of a device go to a watcher until this is dropped. Dropping sleeps, and waits until the
/// watcher is not being called.
///
/// # Invariants
///
/// The handler is registered.
pub struct Subscription<T: PortWatcher> {
    watch: KBox<Watch<T>>,
    _device: ARef<Device>,
}

// SAFETY: A handler is removed by any thread.
unsafe impl<T: PortWatcher> Send for Subscription<T> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<T: PortWatcher> Sync for Subscription<T> {}

impl<T: PortWatcher> Subscription<T> {
    /// Has `watcher` told of the events of the ports of `device`. Sleeps.
    pub fn new(device: &Device, watcher: Arc<T>) -> Result<Self> {
        let mut handler: bindings::ib_event_handler = pin_init::zeroed();
        handler.device = device.as_raw();
        handler.handler = Some(call::<T>);
        let watch = KBox::new(
            Watch {
                raw: Opaque::new(handler),
                watcher,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The handler is complete, and stays where it is until it is removed.
        unsafe {
            bindings::INIT_LIST_HEAD(&raw mut (*watch.raw.get()).list);
            bindings::ib_register_event_handler(watch.raw.get());
        }
        // INVARIANT: Just registered.
        Ok(Self {
            watch,
            _device: device.hold(),
        })
    }
}

impl<T: PortWatcher> Drop for Subscription<T> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::ib_unregister_event_handler(self.watch.raw.get()) };
    }
}

/// # Safety
///
/// Called by the core with the handler of a [`Watch`] of a `T`, and an event of its device.
unsafe extern "C" fn call<T: PortWatcher>(
    handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: By the contract of this function; the handler is the first member.
    let watch = unsafe { &*handler.cast::<Watch<T>>() };
    // SAFETY: By the contract of this function.
    let (code, element) = unsafe { ((*event).event, (*event).element) };
    if let Some(what) = PortEvent::from_raw(code) {
        // SAFETY: Events of ports carry the number in the union.
        watch.watcher.happened(what, unsafe { element.port_num });
    }
}
