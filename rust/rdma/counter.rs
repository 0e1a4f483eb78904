// SPDX-License-Identifier: GPL-2.0

//! Statistics counters that queue pairs are bound to (`struct rdma_counter`).
//!
//! A counter belongs to a port. Each queue pair bound to it holds a reference; when the last one
//! goes, the counter's values move to the history of the port.
//!
//! Which queue pair is bound to what, and the settings of the ports, are guarded by one mutex per
//! device: [`Counters`]. The values of a counter have a mutex of their own, which is the inner one.
//!
//! C header: [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h)

mod mode;
mod object;

pub use self::{
    mode::{
        Mask,
        Mode,
        Settings, //
    },
    object::{
        Counter,
        CounterRef,
        UniqueCounter, //
    }, //
};

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        lock::{
            mutex::{
                MutexBackend,
                MutexGuard, //
            },
            Backend, //
        },
        Mutex, //
    }, //
};

use crate::{
    device::Device,
    qp::Qp,
    restrack::{
        Entry,
        EntryRef,
        Kind, //
    },
    stats::{
        HwStats,
        OwnedHwStats, //
    }, //
};

/// The counter state of one port (`struct rdma_port_counter`).
///
/// # Invariants
///
/// The pointer is that of a port of a device that has its port data, for `'a`.
#[derive(Clone, Copy)]
pub struct Port<'a>(
    NonNull<bindings::rdma_port_counter>,
    PhantomData<&'a Device>,
);

impl<'a> Port<'a> {
    /// The state of a port, if the device has it.
    pub fn of(device: &'a Device, port: u32) -> Option<Self> {
        let data = NonNull::new(device.port_data_raw(port))?;
        // SAFETY: The port data are valid; only an address is computed.
        let counter = unsafe { &raw mut (*data.as_ptr()).port_counter };
        // INVARIANT: The port data live as long as the device.
        Some(Self(NonNull::new(counter)?, PhantomData))
    }

    /// The settings. They may change meanwhile unless [`Counters`] is held.
    pub fn settings(self) -> Settings {
        // SAFETY: By the type invariant.
        unsafe { Settings::read(&raw const (*self.0.as_ptr()).mode) }
    }

    /// The sums of counters that are gone, if the driver has port statistics.
    pub fn history(self) -> Option<&'a HwStats> {
        // SAFETY: By the type invariant; set during registration and cleared with the device.
        let stats = unsafe { (&raw const (*self.0.as_ptr()).hstats).read() };
        // SAFETY: The set belongs to the port, which has it as long as the device lives.
        (!stats.is_null()).then(|| unsafe { HwStats::from_raw(stats) })
    }
}

/// The right to prepare and to free the counter state of a device.
pub struct Setup<'a>(&'a Device);

impl<'a> Setup<'a> {
    /// Takes the right.
    ///
    /// # Safety
    ///
    /// The device is being registered or being freed: nobody uses its counters.
    pub unsafe fn new(device: &'a Device) -> Self {
        Self(device)
    }

    /// The device.
    pub fn device(&self) -> &'a Device {
        self.0
    }

    /// Its ports, none if there are no port data yet.
    pub fn ports(&self) -> impl Iterator<Item = u32> + '_ {
        self.0
            .ports()
            .filter(|port| Port::of(self.0, *port).is_some())
    }

    /// Prepares the state of a port, with `history`.
    pub fn init(&self, port: u32, history: Option<OwnedHwStats>) {
        let Some(Port(port, _)) = Port::of(self.0, port) else {
            return;
        };
        let ptr = port.as_ptr();
        // SAFETY: Nobody else uses the state.
        unsafe {
            MutexBackend::init(
                &raw mut (*ptr).lock,
                c"rdma_port_counter::lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            Settings::NONE.write(&raw mut (*ptr).mode);
            (*ptr).hstats = history.map_or(core::ptr::null_mut(), OwnedHwStats::into_raw);
        }
    }

    /// Frees what [`init`](Self::init) left with the port.
    pub fn release(&self, port: u32) {
        let Some(Port(port, _)) = Port::of(self.0, port) else {
            return;
        };
        let ptr = port.as_ptr();
        // SAFETY: Nobody else uses the state; the history was put there by `init` or is null.
        unsafe {
            let history = (&raw mut (*ptr).hstats).replace(core::ptr::null_mut());
            drop(OwnedHwStats::from_raw(history));
            bindings::mutex_destroy(&raw mut (*ptr).lock);
        }
    }
}

/// What the counters of a port have counted of one of its values, those that are gone included.
#[inline]
pub fn hwstat_value(device: &Device, port: u32, index: usize) -> u64 {
    let Ok(index) = u32::try_from(index) else {
        return 0;
    };
    // SAFETY: The device is valid.
    unsafe { bindings::rdma_counter_get_hwstat_value(device.as_raw(), port, index) }
}

/// Whether the current process may see raw packets of the device.
pub fn has_raw_cap(device: &Device) -> bool {
    // SAFETY: The device is valid.
    unsafe { bindings::rdma_dev_has_raw_cap(device.as_raw()) }
}

/// The right to bind and unbind queue pairs of a device, and to change the settings of its ports.
pub struct Counters<'a> {
    device: &'a Device,
    _guard: MutexGuard<'a, ()>,
}

impl<'a> Counters<'a> {
    /// Takes the right. May sleep. [`None`] if the device has no ports (yet).
    pub fn lock(device: &'a Device) -> Option<Self> {
        let first = Port::of(device, device.start_port())?;
        // SAFETY: The mutex was initialised when the device was registered; the first port's is
        // used for all ports.
        let mutex = unsafe { Mutex::<()>::from_raw(&raw mut (*first.0.as_ptr()).lock) };
        Some(Self {
            device,
            _guard: mutex.lock(),
        })
    }

    /// The device.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Changes the settings of a port.
    pub fn set(&mut self, port: Port<'_>, settings: Settings) {
        // SAFETY: By the invariant of `Port`; the mutex is held.
        unsafe { settings.write(&raw mut (*port.0.as_ptr()).mode) }
    }

    /// The number of counters that a port has.
    pub fn count(&self, port: Port<'_>) -> u32 {
        // SAFETY: As above.
        unsafe { (*port.0.as_ptr()).num_counters }
    }

    /// Changes the number of counters.
    pub fn set_count(&mut self, port: Port<'_>, count: u32) {
        // SAFETY: As above.
        unsafe { (*port.0.as_ptr()).num_counters = count }
    }

    /// The counter that a queue pair is bound to.
    pub fn bound_to(&self, qp: &Qp) -> Option<&Counter> {
        // SAFETY: The queue pair is valid.
        let counter = unsafe { (&raw const (*qp.as_raw()).counter).read_volatile() };
        // SAFETY: A bound queue pair has a reference to its counter, and the mutex keeps it bound.
        (!counter.is_null()).then(|| unsafe { Counter::from_raw(counter) })
    }

    /// Has the driver bind a queue pair that is not bound, which takes over the reference.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is bound already, `EOPNOTSUPP` without the operation, and the
    /// driver's. The reference is given back with the error.
    pub fn bind(
        &mut self,
        counter: CounterRef,
        qp: &Qp,
        port: u32,
    ) -> core::result::Result<(), (Error, CounterRef)> {
        match self.try_bind(&counter, qp, port) {
            Ok(()) => {
                // The queue pair has the reference now.
                let _ = counter.into_raw();
                Ok(())
            }
            Err(e) => Err((e, counter)),
        }
    }

    fn try_bind(&mut self, counter: &Counter, qp: &Qp, port: u32) -> Result {
        if self.bound_to(qp).is_some() {
            return Err(EINVAL);
        }
        let bind = self.device.ops().counter_bind_qp.ok_or(EOPNOTSUPP)?;
        let _values = counter.values().lock();
        // SAFETY: Counter and queue pair are valid; the mutexes that the driver counts on are held.
        to_result(unsafe { bind(counter.as_raw(), qp.as_raw(), port) })
    }

    /// Has the driver unbind a queue pair, which returns its reference.
    ///
    /// With `force`, the reference comes back even if the driver fails: the queue pair is about to
    /// be destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound, `EOPNOTSUPP` without the operation, and the
    /// driver's.
    pub fn unbind(&mut self, qp: &Qp, port: u32, force: bool) -> Result<CounterRef> {
        let counter = self.bound_to(qp).ok_or(EINVAL)?;
        let reference = NonNull::from(counter);
        let values = counter.values().lock();
        let unbound = match self.device.ops().counter_unbind_qp {
            // SAFETY: The queue pair is valid and bound; the mutexes are held.
            Some(unbind) => to_result(unsafe { unbind(qp.as_raw(), port) }),
            None => Err(EOPNOTSUPP),
        };
        drop(values);

        if !force {
            unbound?;
        }
        // SAFETY: The queue pair is valid. Drivers clear the pointer; one that failed to did not.
        unsafe { (&raw mut (*qp.as_raw()).counter).write_volatile(core::ptr::null_mut()) };
        // INVARIANT: The reference was the queue pair's, which has let it go.
        Ok(CounterRef(reference))
    }
}

impl Qp {
    /// Its entry for resource tracking.
    pub fn entry(&self) -> &Entry {
        // SAFETY: The entry is part of the queue pair and was initialised with it.
        unsafe { Entry::from_raw(&raw mut (*self.as_raw()).res) }
    }

    /// Whether it sends and receives raw packets.
    pub fn is_raw_packet(&self) -> bool {
        self.kind().as_raw() == bindings::ib_qp_type_IB_QPT_RAW_PACKET
    }
}

/// A queue pair found by its number.
///
/// # Invariants
///
/// The entry is that of a queue pair.
pub struct HeldQp(EntryRef);

impl HeldQp {
    /// The queue pair that an entry is part of, if it is part of one.
    pub fn new(entry: EntryRef) -> Option<Self> {
        // INVARIANT: Checked.
        (entry.kind() == Some(Kind::Qp)).then_some(Self(entry))
    }
}

impl Deref for HeldQp {
    type Target = Qp;

    fn deref(&self) -> &Qp {
        // SAFETY: By the type invariant. The reference keeps the owner of the queue pair from
        // destroying it.
        unsafe {
            let qp = kernel::container_of!(self.0.as_raw(), bindings::ib_qp, res);
            Qp::from_raw(qp)
        }
    }
}
