// SPDX-License-Identifier: GPL-2.0

//! Lists of memory regions that wait to be used by a queue pair.
//!
//! The regions are linked by `ib_mr.qp_entry`, in a list of the queue pair or of its consumer,
//! under the lock of the queue pair.

use crate::{
    mr::{Mr, MrKind},
    qp::Qp,
    spinlock::{CSpinLock, CSpinLockGuard},
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{self, NonNull},
};
use kernel::{bindings, error::to_result, prelude::*};

/// A list of regions of a queue pair.
///
/// # Invariants
///
/// `list` is an initialised list of regions of `qp`, which only changes under the lock of `qp`.
#[derive(Clone, Copy)]
pub struct MrPool<'a> {
    qp: &'a Qp,
    list: *mut bindings::list_head,
}

impl<'a> MrPool<'a> {
    /// Views a list of C.
    ///
    /// # Safety
    ///
    /// `list` must be an initialised list for `'a` that holds regions of `qp` only and changes
    /// under its lock only.
    pub unsafe fn from_raw(qp: &'a Qp, list: *mut bindings::list_head) -> Self {
        // INVARIANT: By the contract of this function.
        Self { qp, list }
    }

    /// The queue pair.
    pub fn qp(&self) -> &'a Qp {
        self.qp
    }

    /// Takes the lock, with interrupts off. Any context.
    pub fn lock(&self) -> LockedPool<'a> {
        // SAFETY: The lock is initialised at the queue pair's creation.
        let lock = unsafe { CSpinLock::from_raw(&raw mut (*self.qp.as_raw()).mr_lock) };
        LockedPool {
            pool: *self,
            _held: lock.lock_irqsave(),
            _list: PhantomData,
        }
    }
}

impl Qp {
    /// Regions for plain transfers of the RDMA READ/WRITE API.
    pub fn rdma_mrs(&self) -> MrPool<'_> {
        // SAFETY: Initialised at creation, and only used as a pool.
        unsafe { MrPool::from_raw(self, &raw mut (*self.as_raw()).rdma_mrs) }
    }

    /// Regions for transfers with protection information.
    pub fn sig_mrs(&self) -> MrPool<'_> {
        // SAFETY: As above.
        unsafe { MrPool::from_raw(self, &raw mut (*self.as_raw()).sig_mrs) }
    }
}

/// Fills a pool through the core: `count` regions for `max_sg` entries, and `max_meta_sg` entries
/// of protection information. May sleep. On an error nothing is left in the pool.
pub fn fill(pool: MrPool<'_>, count: u32, kind: MrKind, max_sg: u32, max_meta_sg: u32) -> Result {
    let count = i32::try_from(count).map_err(|_| ENOMEM)?;
    // SAFETY: A valid pool.
    to_result(unsafe {
        bindings::ib_mr_pool_init(
            pool.qp.as_raw(),
            pool.list,
            count,
            kind.as_raw(),
            max_sg,
            max_meta_sg,
        )
    })
}

/// Deregisters the regions of a pool through the core. May sleep.
pub fn empty(pool: MrPool<'_>) {
    // SAFETY: A valid pool.
    unsafe { bindings::ib_mr_pool_destroy(pool.qp.as_raw(), pool.list) };
}

/// A region that was taken from a pool; put back when dropped.
///
/// # Invariants
///
/// The region is ours, and belongs to the pool.
pub struct PooledMr<'a> {
    pool: MrPool<'a>,
    mr: NonNull<bindings::ib_mr>,
}

impl<'a> PooledMr<'a> {
    /// Takes a region through the core; `None` if all are in use. Any context.
    pub fn take(pool: MrPool<'a>) -> Option<Self> {
        // SAFETY: A valid pool.
        let mr = unsafe { bindings::ib_mr_pool_get(pool.qp.as_raw(), pool.list) };
        // INVARIANT: Just taken.
        NonNull::new(mr).map(|mr| Self { pool, mr })
    }

    /// Keeps the region, until [`Self::reclaim`].
    pub fn keep(self) -> NonNull<bindings::ib_mr> {
        ManuallyDrop::new(self).mr
    }

    /// Takes a region back that was kept.
    ///
    /// # Safety
    ///
    /// `mr` must come from [`Self::keep`] of a region of `pool`.
    pub unsafe fn reclaim(pool: MrPool<'a>, mr: NonNull<bindings::ib_mr>) -> Self {
        // INVARIANT: By the contract of this function.
        Self { pool, mr }
    }
}

impl Deref for PooledMr<'_> {
    type Target = Mr;

    fn deref(&self) -> &Mr {
        // SAFETY: By the type invariant.
        unsafe { Mr::from_raw(self.mr.as_ptr()) }
    }
}

impl Drop for PooledMr<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            bindings::ib_mr_pool_put(self.pool.qp.as_raw(), self.pool.list, self.mr.as_ptr());
        }
    }
}

/// A list of regions whose lock is held.
pub struct LockedPool<'a> {
    pool: MrPool<'a>,
    _held: CSpinLockGuard<'a>,
    _list: PhantomData<&'a mut Mr>,
}

impl<'a> LockedPool<'a> {
    /// Takes the first region off the list.
    pub fn pop(&mut self) -> Option<&'a Mr> {
        // SAFETY: By the invariant of `MrPool` a list of live regions, and the lock is held.
        unsafe {
            let node = (*self.pool.list).next;
            if ptr::eq(node, self.pool.list) {
                return None;
            }
            bindings::list_del(node);
            let mr = node
                .byte_sub(core::mem::offset_of!(bindings::ib_mr, __bindgen_anon_1))
                .cast::<bindings::ib_mr>();
            Some(Mr::from_raw(mr))
        }
    }

    fn node(mr: &Mr) -> *mut bindings::list_head {
        // SAFETY: The region is valid; no reference is made. While it is in a pool's care the
        // union holds the link.
        unsafe { (&raw mut (*mr.as_raw()).__bindgen_anon_1).cast() }
    }

    /// Puts a region at the front, so that it is used next.
    pub fn push_front(&mut self, mr: &Mr) {
        // SAFETY: As for `pop`; the region is on no list.
        unsafe { bindings::list_add(Self::node(mr), self.pool.list) };
    }

    /// Puts a region at the end.
    pub fn push_back(&mut self, mr: &Mr) {
        // SAFETY: As above.
        unsafe { bindings::list_add_tail(Self::node(mr), self.pool.list) };
    }

    /// Counts a region as used (1) or back (-1).
    pub fn adjust_used(&mut self, by: i32) {
        // SAFETY: The counter changes under the lock only, which is held.
        unsafe {
            let used = &raw mut (*self.pool.qp.as_raw()).mrs_used;
            used.write((*used).wrapping_add(by));
        }
    }
}
