// SPDX-License-Identifier: GPL-2.0

//! One counter, from its allocation to its end.

use core::{
    mem::{
        size_of,
        ManuallyDrop, //
    },
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        lock::{
            mutex::MutexBackend,
            Backend, //
        },
        Mutex, //
    },
    types::Opaque, //
};

use super::Settings;
use crate::{
    device::Device,
    refcount::Kref,
    restrack::{
        Entry,
        Kind, //
    },
    stats::HwStats, //
};

/// A counter.
///
/// # Invariants
///
/// The pointer obtained from `as_raw` is that of a `struct rdma_counter`, valid as long as the
/// reference, with its statistics, entry, count and mutex initialised.
#[repr(transparent)]
pub struct Counter(Opaque<bindings::rdma_counter>);

// SAFETY: What changes is guarded by the mutex of `Counters` or the counter's own.
unsafe impl Send for Counter {}

// SAFETY: As above.
unsafe impl Sync for Counter {}

impl Counter {
    /// Views a C counter.
    ///
    /// # Safety
    ///
    /// `ptr` is a counter that fulfils the invariants of [`Counter`] for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_counter) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The counter that an entry is part of, if it is part of one.
    pub fn of_entry(entry: &Entry) -> Option<&Counter> {
        (entry.kind() == Some(Kind::Counter)).then(|| {
            // SAFETY: An entry of this kind is part of a counter, and is initialised after the
            // rest of it.
            unsafe {
                let counter = kernel::container_of!(entry.as_raw(), bindings::rdma_counter, res);
                Counter::from_raw(counter)
            }
        })
    }

    /// The C counter.
    pub fn as_raw(&self) -> *mut bindings::rdma_counter {
        self.0.get()
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        // SAFETY: The counter is valid and keeps its device.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Its port.
    pub fn port(&self) -> u32 {
        // SAFETY: The counter is valid; its port never changes.
        unsafe { (*self.as_raw()).port }
    }

    /// The driver's number for it, known once a queue pair is bound.
    pub fn id(&self) -> u32 {
        // SAFETY: The counter is valid; the driver sets the number when it first binds a queue
        // pair.
        unsafe { (&raw const (*self.as_raw()).id).read_volatile() }
    }

    /// Its entry for resource tracking.
    pub fn entry(&self) -> &Entry {
        // SAFETY: By the type invariant.
        unsafe { Entry::from_raw(&raw mut (*self.as_raw()).res) }
    }

    /// How it came to be.
    pub fn settings(&self) -> Settings {
        // SAFETY: The counter is valid.
        unsafe { Settings::read(&raw const (*self.as_raw()).mode) }
    }

    /// The type of queue pairs that it is for, in automatic mode by type.
    pub fn qp_type(&self) -> c_int {
        // SAFETY: The counter is valid; the type is set before others see it.
        unsafe { (*self.as_raw()).mode.param.qp_type }
    }

    /// Its values.
    pub fn stats(&self) -> &HwStats {
        // SAFETY: By the type invariant.
        unsafe { HwStats::from_raw((*self.as_raw()).stats) }
    }

    /// The mutex of the values.
    pub(super) fn values(&self) -> &Mutex<()> {
        // SAFETY: By the type invariant.
        unsafe { Mutex::<()>::from_raw(&raw mut (*self.as_raw()).lock) }
    }

    fn refs(&self) -> &Kref {
        // SAFETY: By the type invariant.
        unsafe { Kref::from_raw(&raw mut (*self.as_raw()).kref) }
    }

    /// Has the driver read the values. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without the operation, and the driver's.
    pub fn update(&self) -> Result {
        let update = self.device().ops().counter_update_stats.ok_or(EINVAL)?;
        let _values = self.values().lock();
        // SAFETY: The counter is valid, and its mutex is held.
        to_result(unsafe { update(self.as_raw()) })
    }

    /// A reference, unless the last one is gone.
    pub fn get(&self) -> Option<CounterRef> {
        // INVARIANT: The reference just taken.
        self.refs()
            .get_unless_zero()
            .then(|| CounterRef(NonNull::from(self)))
    }
}

/// A reference to a counter. It has to be [`put`](Self::put): what has to happen when the last one
/// goes is not for this type to say.
///
/// # Invariants
///
/// One reference of the counter belongs to this value.
#[must_use = "the reference has to be put"]
pub struct CounterRef(pub(super) NonNull<Counter>);

impl CounterRef {
    pub(super) fn into_raw(self) -> *mut bindings::rdma_counter {
        self.0.as_ptr().cast()
    }

    /// Drops the reference. If it was the last one, the counter is the caller's alone, apart from
    /// readers that resource tracking knows.
    pub fn put(self) -> Option<UniqueCounter> {
        let last = self.refs().put_and_test();
        // INVARIANT: No reference is left. Only then: dropping the value frees the counter.
        last.then(|| UniqueCounter(self.0))
    }
}

impl Deref for CounterRef {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

/// A counter that nobody has a reference to. Dropping it frees it.
///
/// # Invariants
///
/// The counter is valid and has no references; its memory belongs to this value.
pub struct UniqueCounter(NonNull<Counter>);

impl UniqueCounter {
    /// Makes a counter for `port`. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the driver has no counters, `ENOMEM`.
    pub fn new(device: &Device, port: u32) -> Result<Self> {
        let ops = device.ops();
        let alloc_stats = ops.counter_alloc_stats.ok_or(EOPNOTSUPP)?;
        if ops.counter_dealloc.is_none()
            || ops.size_rdma_counter < size_of::<bindings::rdma_counter>()
        {
            return Err(EOPNOTSUPP);
        }

        // SAFETY: The driver said how much memory its counters need, enough for a
        // `struct rdma_counter`; `kfree` frees it.
        let raw = NonNull::new(unsafe {
            bindings::rdma_zalloc_obj(
                device.as_raw(),
                ops.size_rdma_counter,
                bindings::GFP_KERNEL,
                false,
            )
        })
        .ok_or(ENOMEM)?
        .cast::<bindings::rdma_counter>();
        let ptr = raw.as_ptr();

        // SAFETY: The memory is ours alone. All zero is valid for what is not set here.
        unsafe {
            (*ptr).device = device.as_raw();
            (*ptr).port = port;
            if let Some(init) = ops.counter_init {
                init(ptr);
            }
            Entry::init(
                &raw mut (*ptr).res,
                Kind::Counter as bindings::rdma_restrack_type,
            );
            MutexBackend::init(
                &raw mut (*ptr).lock,
                c"rdma_counter::lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            (*ptr).stats = alloc_stats(ptr);
            if (*ptr).stats.is_null() {
                bindings::kfree(ptr.cast());
                return Err(ENOMEM);
            }
        }
        // INVARIANT: All parts are initialised, and the count is zero.
        Ok(Self(raw.cast()))
    }

    /// Says how the counter came to be.
    pub fn set(&mut self, settings: Settings, qp_type: Option<bindings::ib_qp_type>) {
        let ptr = self.as_raw();
        // SAFETY: The counter is ours alone.
        unsafe {
            settings.write(&raw mut (*ptr).mode);
            if let Some(qp_type) = qp_type {
                (*ptr).mode.param.qp_type = qp_type as c_int;
            }
        }
    }

    /// Lets others have references; the first one is the result.
    pub fn share(self) -> CounterRef {
        self.refs().init();
        // INVARIANT: The first reference.
        CounterRef(ManuallyDrop::new(self).0)
    }

    /// Has the driver take a counter apart that queue pairs were bound to.
    pub fn dealloc(&mut self) {
        if let Some(dealloc) = self.device().ops().counter_dealloc {
            // SAFETY: The counter is ours alone; no queue pair is bound to it. Nothing can be done
            // about an error.
            unsafe { dealloc(self.as_raw()) };
        }
    }
}

impl Deref for UniqueCounter {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for UniqueCounter {
    fn drop(&mut self) {
        let ptr = self.as_raw();
        // SAFETY: By the type invariant, nobody uses counter and statistics any more.
        unsafe {
            bindings::rdma_free_hw_stats_struct((*ptr).stats);
            bindings::mutex_destroy(&raw mut (*ptr).lock);
            bindings::kfree(ptr.cast());
        }
    }
}
