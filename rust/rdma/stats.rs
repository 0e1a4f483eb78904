// SPDX-License-Identifier: GPL-2.0

//! Statistics that drivers read from the hardware (`struct rdma_hw_stats`).
//!
//! A set has one value per [`StatDesc`]. The driver allocates it, with the core's allocator, and
//! fills it in; the core frees it. Optional counters, which an administrator switches, come last.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod memory;

use core::{
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        lock::mutex::MutexGuard,
        Mutex, //
    },
    time::Jiffies,
    types::Opaque, //
};

use crate::device::Device;

/// Now, in ticks since some start.
pub fn now() -> Jiffies {
    // SAFETY: The tick counter may be read at any time; it changes, hence the volatile read.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// Ticks as milliseconds.
pub fn jiffies_to_msecs(ticks: Jiffies) -> u64 {
    // SAFETY: The function only computes.
    unsafe { bindings::jiffies64_to_msecs(ticks as u64) }
}

/// The name and the kind of one value.
///
/// # Invariants
///
/// The name is a constant of the driver's module, which outlives everything that its devices have.
#[repr(transparent)]
pub struct StatDesc(bindings::rdma_stat_desc);

// SAFETY: Only constants, see the invariant; `priv` is not used.
unsafe impl Sync for StatDesc {}

impl StatDesc {
    /// A counter that always runs.
    pub const fn new(name: &'static CStr) -> Self {
        let mut desc: bindings::rdma_stat_desc = pin_init::zeroed();
        desc.name = name.as_ptr().cast();
        // INVARIANT: A constant of the driver's module.
        Self(desc)
    }

    /// The name.
    pub fn name(&self) -> &'static CStr {
        // SAFETY: By the type invariant.
        unsafe { CStr::from_char_ptr(self.0.name) }
    }

    /// Whether the counter only runs when an administrator wants it.
    pub fn is_optional(&self) -> bool {
        self.0.flags & bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL != 0
    }
}

/// A set of statistics.
///
/// # Invariants
///
/// The set was made by `rdma_alloc_hw_stats_struct()`. It has `num_counters` values and flags, and
/// as many descriptions if `descs` is not null, all of which outlive the set.
#[repr(transparent)]
pub struct HwStats(Opaque<bindings::rdma_hw_stats>);

// SAFETY: What changes is read and written with volatile accesses or under the set's mutex.
unsafe impl Send for HwStats {}

// SAFETY: As above.
unsafe impl Sync for HwStats {}

impl HwStats {
    /// Views a C set.
    ///
    /// # Safety
    ///
    /// `ptr` points to a set that fulfils the invariants of [`HwStats`] for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_hw_stats) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The C set.
    pub fn as_raw(&self) -> *mut bindings::rdma_hw_stats {
        self.0.get()
    }

    /// The statistics of a port that has its directory in sysfs, if the driver has any.
    #[inline]
    pub fn of_port(device: &Device, port: u32) -> Option<&HwStats> {
        // SAFETY: The device is valid; the set belongs to the directory of the port, which is
        // there as long as the device is registered.
        let stats = unsafe { bindings::ib_get_hw_stats_port(device.as_raw(), port) };
        // SAFETY: As above.
        (!stats.is_null()).then(|| unsafe { Self::from_raw(stats) })
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        // SAFETY: The set is valid; the number never changes.
        let len = unsafe { (&raw const (*self.as_raw()).num_counters).read() };
        usize::try_from(len).unwrap_or(0)
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the values are; empty if the driver did not say.
    pub fn descs(&self) -> &[StatDesc] {
        // SAFETY: The set is valid; the pointer never changes.
        let descs = unsafe { (&raw const (*self.as_raw()).descs).read() };
        if descs.is_null() {
            return &[];
        }
        // SAFETY: By the type invariant; `StatDesc` is transparent.
        unsafe { core::slice::from_raw_parts(descs.cast(), self.len()) }
    }

    fn slot(&self, index: usize) -> Option<*mut u64> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: By the type invariant, there are `len` values.
        Some(unsafe { (&raw mut (*self.as_raw()).value).cast::<u64>().add(index) })
    }

    /// A value as it is now; drivers update it at any time.
    pub fn value(&self, index: usize) -> Option<u64> {
        // SAFETY: The slot is inside the set.
        self.slot(index).map(|slot| unsafe { slot.read_volatile() })
    }

    /// Sets a value. The caller serialises changes.
    pub fn set(&self, index: usize, value: u64) {
        if let Some(slot) = self.slot(index) {
            // SAFETY: The slot is inside the set.
            unsafe { slot.write_volatile(value) }
        }
    }

    /// Adds to a value. The caller serialises changes.
    pub fn add(&self, index: usize, amount: u64) {
        if let Some(slot) = self.slot(index) {
            // SAFETY: The slot is inside the set.
            unsafe { slot.write_volatile(slot.read_volatile().wrapping_add(amount)) }
        }
    }

    /// Locks the set against updates. May sleep.
    pub fn lock(&self) -> StatsGuard<'_> {
        // SAFETY: The mutex was initialised with the set, and lives as long.
        let mutex = unsafe { Mutex::<()>::from_raw(&raw mut (*self.as_raw()).lock) };
        StatsGuard {
            stats: self,
            _guard: mutex.lock(),
        }
    }
}

/// A locked set.
pub struct StatsGuard<'a> {
    stats: &'a HwStats,
    _guard: MutexGuard<'a, ()>,
}

impl<'a> StatsGuard<'a> {
    /// The set.
    pub fn stats(&self) -> &'a HwStats {
        self.stats
    }

    /// How long values are good for.
    pub fn lifespan(&self) -> Jiffies {
        // SAFETY: The set is valid; the field is only used under the lock.
        unsafe { (*self.stats.as_raw()).lifespan }
    }

    /// Sets how long values are good for.
    pub fn set_lifespan(&mut self, lifespan: Jiffies) {
        // SAFETY: As above.
        unsafe { (*self.stats.as_raw()).lifespan = lifespan }
    }

    /// When all values were read last.
    pub fn timestamp(&self) -> Jiffies {
        // SAFETY: As above.
        unsafe { (*self.stats.as_raw()).timestamp }
    }

    /// Notes that all values have just been read.
    pub fn set_timestamp(&mut self, when: Jiffies) {
        // SAFETY: As above.
        unsafe { (*self.stats.as_raw()).timestamp = when }
    }

    fn flags(&self) -> *mut c_ulong {
        // SAFETY: The set is valid; the pointer never changes.
        unsafe { (*self.stats.as_raw()).is_disabled }
    }

    /// Whether an optional counter is off.
    pub fn is_disabled(&self, index: usize) -> bool {
        const BITS: usize = c_ulong::BITS as usize;

        if index >= self.stats.len() {
            return false;
        }
        // SAFETY: By the type invariant of the set, it has a flag for `index`.
        let word = unsafe { self.flags().add(index / BITS).read_volatile() };
        word >> (index % BITS) & 1 != 0
    }

    /// Notes whether an optional counter is off.
    pub fn set_disabled(&mut self, index: usize, disabled: bool) {
        if index >= self.stats.len() {
            return;
        }
        // SAFETY: By the type invariant of the set, it has a flag for `index`.
        unsafe {
            if disabled {
                bindings::set_bit(index, self.flags());
            } else {
                bindings::clear_bit(index, self.flags());
            }
        }
    }

    /// Has the driver read the value at `index`, or all of them if `index` is the number of values.
    /// Returns how many it did read: one, or all. Port 0 means the device as a whole.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the operation, and the driver's.
    pub fn fetch(&mut self, device: &Device, port: u32, index: usize) -> Result<usize> {
        let fetch = device.ops().get_hw_stats.ok_or(EOPNOTSUPP)?;
        let index = c_int::try_from(index)?;
        // SAFETY: The device is valid, and the set is one that its driver made.
        let ret = unsafe { fetch(device.as_raw(), self.stats.as_raw(), port, index) };
        to_result(ret.min(0))?;
        Ok(usize::try_from(ret)?)
    }

    /// Has the driver switch an optional counter.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the operation, and the driver's.
    pub fn modify(&mut self, device: &Device, port: u32, index: u32, enable: bool) -> Result {
        let modify = device.ops().modify_hw_stat.ok_or(EOPNOTSUPP)?;
        // SAFETY: The device and its port are valid.
        to_result(unsafe { modify(device.as_raw(), port, index, enable) })
    }
}

/// A set that nobody else frees.
///
/// # Invariants
///
/// The set is valid and belongs to this value.
pub struct OwnedHwStats(NonNull<HwStats>);

// SAFETY: `HwStats` is `Send`, and the memory may be freed anywhere.
unsafe impl Send for OwnedHwStats {}

// SAFETY: `HwStats` is `Sync`.
unsafe impl Sync for OwnedHwStats {}

impl OwnedHwStats {
    /// Takes over a set, or nothing for a null pointer.
    ///
    /// # Safety
    ///
    /// `ptr` is null or fulfils the invariants of [`HwStats`], and its owner gives it away.
    pub unsafe fn from_raw(ptr: *mut bindings::rdma_hw_stats) -> Option<Self> {
        // INVARIANT: Now it belongs to the result.
        NonNull::new(ptr).map(|ptr| Self(ptr.cast()))
    }

    /// Gives the set away.
    pub fn into_raw(self) -> *mut bindings::rdma_hw_stats {
        let ptr = self.as_raw();
        core::mem::forget(self);
        ptr
    }

    /// The driver's statistics of a port.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the operation, `ENOMEM`.
    pub fn of_port(device: &Device, port: u32) -> Result<Self> {
        let alloc = device.ops().alloc_hw_port_stats.ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is valid and has the port. What the driver returns is the caller's.
        unsafe { Self::from_raw(alloc(device.as_raw(), port)) }.ok_or(ENOMEM)
    }

    /// The driver's statistics of a device as a whole.
    ///
    /// # Errors
    ///
    /// As for [`of_port`](Self::of_port).
    pub fn of_device(device: &Device) -> Result<Self> {
        let alloc = device.ops().alloc_hw_device_stats.ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is valid. What the driver returns is the caller's.
        unsafe { Self::from_raw(alloc(device.as_raw())) }.ok_or(ENOMEM)
    }
}

impl Deref for OwnedHwStats {
    type Target = HwStats;

    fn deref(&self) -> &HwStats {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for OwnedHwStats {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, nobody uses the set any more.
        unsafe { bindings::rdma_free_hw_stats_struct(self.as_raw()) }
    }
}
