// SPDX-License-Identifier: GPL-2.0

//! Pools of fast-registration handles.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    container_of,
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

use crate::device::{
    Device,
    Get, //
};

/// Which registrations a pool serves.
#[derive(Clone, Copy, Default)]
pub struct Key {
    /// Whether addresses are translated by the device.
    pub ats: bool,
    /// Access rights.
    pub access_flags: u32,
    /// What the driver tells apart.
    pub vendor_key: u64,
    /// What the driver tells apart in pools that only the kernel uses; 0 in the others.
    pub kernel_vendor_key: u64,
    /// The number of blocks.
    pub num_dma_blocks: u64,
}

impl Key {
    fn from_raw(raw: &bindings::ib_frmr_key) -> Self {
        Self {
            ats: raw.ats() != 0,
            access_flags: raw.access_flags as u32,
            vendor_key: raw.vendor_key,
            kernel_vendor_key: raw.kernel_vendor_key,
            num_dma_blocks: raw.num_dma_blocks as u64,
        }
    }

    fn to_raw(self) -> bindings::ib_frmr_key {
        let mut raw: bindings::ib_frmr_key = pin_init::zeroed();
        raw.set_ats(self.ats.into());
        raw.access_flags = self.access_flags as c_int;
        raw.vendor_key = self.vendor_key;
        raw.kernel_vendor_key = self.kernel_vendor_key;
        raw.num_dma_blocks = self.num_dma_blocks as usize;
        raw
    }
}

/// What a pool has.
pub struct PoolInfo {
    /// Handles that are free.
    pub queued: u32,
    /// The most that were in use at a time.
    pub max_in_use: u64,
    /// Handles in use.
    pub in_use: u64,
    /// Handles that are kept whatever happens.
    pub pinned: u32,
}

/// The pools of a device, which cannot come or go meanwhile. A spinlock: no sleeping.
///
/// # Invariants
///
/// The pools are valid for `'a`, and their lock is held for reading.
pub struct Pools<'a> {
    raw: NonNull<bindings::ib_frmr_pools>,
    _device: PhantomData<&'a Device>,
    _not_send: NotThreadSafe,
}

/// Whether the driver of a device has pools.
pub fn has_pools(device: &Device) -> bool {
    // SAFETY: The device is valid; the driver sets the field before it registers it.
    !unsafe { (&raw const (*device.as_raw()).frmr_pools).read_volatile() }.is_null()
}

impl<'a> Pools<'a> {
    /// Locks the pools; [`None`] if the driver has none.
    pub fn lock(device: &'a Get) -> Option<Self> {
        // SAFETY: The device is valid; the driver sets the field before it registers it, and frees
        // the pools after it has unregistered it.
        let raw = unsafe { (&raw const (*device.as_raw()).frmr_pools).read_volatile() };
        let raw = NonNull::new(raw)?;
        // SAFETY: As above.
        unsafe { bindings::read_lock(&raw mut (*raw.as_ptr()).rb_lock) };
        // INVARIANT: The lock has just been taken.
        Some(Self {
            raw,
            _device: PhantomData,
            _not_send: NotThreadSafe,
        })
    }

    /// The pools, in the order of their keys.
    pub fn iter(&self) -> PoolIter<'_> {
        // SAFETY: By the invariant.
        let first = unsafe { bindings::rb_first(&raw const (*self.raw.as_ptr()).rb_root) };
        // INVARIANT: The first node of the tree, which is locked as long as `self` is borrowed.
        PoolIter {
            next: NonNull::new(first),
            _pools: PhantomData,
        }
    }
}

/// The rest of the pools of a device.
///
/// # Invariants
///
/// `next` is a node of a tree of pools that is locked during `'a`.
pub struct PoolIter<'a> {
    next: Option<NonNull<bindings::rb_node>>,
    _pools: PhantomData<&'a Pools<'a>>,
}

impl<'a> Iterator for PoolIter<'a> {
    type Item = Pool<'a>;

    fn next(&mut self) -> Option<Pool<'a>> {
        let node = self.next?.as_ptr();
        // SAFETY: By the invariant, the node is in a locked tree.
        let next = unsafe { bindings::rb_next(node) };
        // INVARIANT: A node of the same tree.
        self.next = NonNull::new(next);
        // SAFETY: Every node of the tree is that of a pool.
        let pool = unsafe { container_of!(node, bindings::ib_frmr_pool, node) };
        // INVARIANT: The lock keeps the pool during `'a`.
        Some(Pool(pool, PhantomData))
    }
}

impl Drop for Pools<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        unsafe { bindings::read_unlock(&raw mut (*self.raw.as_ptr()).rb_lock) };
    }
}

/// A pool.
///
/// # Invariants
///
/// The pointer is a pool that stays for `'a`.
pub struct Pool<'a>(*mut bindings::ib_frmr_pool, PhantomData<&'a ()>);

impl Pool<'_> {
    /// Which registrations it serves.
    pub fn key(&self) -> Key {
        // SAFETY: By the invariant; the key never changes.
        Key::from_raw(unsafe { &(*self.0).key })
    }

    /// What it has.
    pub fn info(&self) -> PoolInfo {
        // SAFETY: By the invariant; the fields are read under their lock.
        unsafe {
            bindings::spin_lock(&raw mut (*self.0).lock);
            let info = PoolInfo {
                queued: (*self.0).queue.ci.wrapping_add((*self.0).inactive_queue.ci) as u32,
                max_in_use: (*self.0).max_in_use.into(),
                in_use: (*self.0).in_use.into(),
                pinned: (*self.0).pinned_handles,
            };
            bindings::spin_unlock(&raw mut (*self.0).lock);
            info
        }
    }
}

/// Has a pool, which is made if need be, keep a number of handles. May sleep.
#[inline]
pub fn set_pinned(device: &Get, key: Key, handles: u32) -> Result {
    let mut key = key.to_raw();
    // SAFETY: The device is registered.
    to_result(unsafe { bindings::ib_frmr_pools_set_pinned(device.as_raw(), &mut key, handles) })
}

/// Sets after how many seconds unused handles are destroyed. May sleep.
#[inline]
pub fn set_aging_period(device: &Get, seconds: u32) -> Result {
    // SAFETY: The device is registered.
    to_result(unsafe { bindings::ib_frmr_pools_set_aging_period(device.as_raw(), seconds) })
}
