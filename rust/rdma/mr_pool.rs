// SPDX-License-Identifier: GPL-2.0

//! Lists of memory regions that wait to be used by a queue pair.
//!
//! The regions are linked by `ib_mr.qp_entry`, in a list of the queue pair or of its consumer,
//! under the lock of the queue pair.

use crate::{
    mr::Mr,
    qp::Qp,
    spinlock::{CSpinLock, CSpinLockGuard},
};
use core::{marker::PhantomData, ptr};
use kernel::bindings;

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
