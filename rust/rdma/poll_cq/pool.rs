// SPDX-License-Identifier: GPL-2.0

//! The queues of a device that several users share.

use super::{
    OwnedCq,
    PollContext, //
    PollCq,
};
use crate::{
    clist,
    device::Device,
    spinlock::{
        CSpinLock,
        CSpinLockGuard, //
    },
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

/// The poll contexts in which queues can be shared, one list for each.
#[derive(Clone, Copy)]
pub struct PoolKind(PollContext);

impl PoolKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [
        Self(PollContext::SoftIrq),
        Self(PollContext::Workqueue),
        Self(PollContext::UnboundWorkqueue),
    ];

    /// The kind for `context`; `EINVAL` if its queues cannot be shared.
    pub fn new(context: PollContext) -> Result<Self> {
        match context {
            PollContext::Direct => Err(EINVAL),
            _ => Ok(Self(context)),
        }
    }

    /// The context of the kind's queues.
    pub fn context(self) -> PollContext {
        self.0
    }
}

/// The shared queues of a device, locked.
///
/// # Invariants
///
/// The lists hold live queues made by the core, and `cqe_used` of these changes under the lock
/// only.
pub struct Pools<'a> {
    device: &'a Device,
    _lock: CSpinLockGuard<'a>,
}

impl<'a> Pools<'a> {
    /// Locks the shared queues of `device`. Any context.
    pub fn lock(device: &'a Device) -> Self {
        // SAFETY: The lock is set up with the device.
        let lock = unsafe { CSpinLock::from_raw(&raw mut (*device.as_raw()).cq_pools_lock) };
        Self {
            device,
            _lock: lock.lock_irqsave(),
        }
    }

    fn head(&self, kind: PoolKind) -> *mut bindings::list_head {
        let pools = self.device.as_raw();
        let index = kind.0.as_raw() as usize;
        // SAFETY: There is a list for each kind; `PoolKind` excludes the context without one.
        unsafe {
            (&raw mut (*pools).cq_pools)
                .cast::<bindings::list_head>()
                .add(index)
        }
    }

    /// Claims `entries` completions of the first queue that `fits`, which is told how many are
    /// claimed of a queue already.
    pub fn claim(
        &mut self,
        kind: PoolKind,
        entries: u32,
        fits: impl Fn(&PollCq, u32) -> bool,
    ) -> Option<NonNull<bindings::ib_cq>> {
        let head = self.head(kind);
        // SAFETY: The list is locked and holds live queues by the type invariant.
        unsafe {
            let mut next = clist::first(head);
            while let Some(entry) = next {
                let raw = kernel::container_of!(entry, bindings::ib_cq, pool_entry);
                let used = (*raw).cqe_used;
                if fits(PollCq::from_raw(raw), used) {
                    (*raw).cqe_used = used.checked_add(entries)?;
                    return NonNull::new(raw);
                }
                next = clist::after(entry, head);
            }
        }
        None
    }

    /// Gives `entries` claimed completions of `cq` back; `false` if that is more than is claimed.
    pub fn unclaim(&mut self, cq: &PollCq, entries: u32) -> bool {
        let raw = cq.as_raw();
        // SAFETY: The field is changed under this lock only.
        unsafe {
            match (*raw).cqe_used.checked_sub(entries) {
                Some(left) => {
                    (*raw).cqe_used = left;
                    true
                }
                None => false,
            }
        }
    }

    /// Adds new queues, to be found first.
    pub fn add(&mut self, kind: PoolKind, cqs: KVec<OwnedCq>) {
        let head = self.head(kind);
        for cq in cqs {
            let raw = cq.into_raw().as_ptr();
            // SAFETY: The list is locked; the queue is new and in no list.
            unsafe {
                (*raw).set_shared(1);
                clist::push_front(&raw mut (*raw).pool_entry, head);
            }
        }
    }

    /// Takes the first queue out of a list.
    pub fn pop(&mut self, kind: PoolKind) -> Option<OwnedCq> {
        // SAFETY: The list is locked and holds live queues, which were given to it by `add`.
        unsafe {
            let entry = clist::first(self.head(kind))?;
            let raw = kernel::container_of!(entry, bindings::ib_cq, pool_entry);
            clist::remove(entry);
            (*raw).set_shared(0);
            Some(OwnedCq::from_raw(NonNull::new(raw)?))
        }
    }
}

/// How much of a queue is claimed, for the owner of a queue.
pub fn claimed(cq: &PollCq) -> u32 {
    // SAFETY: A word; read without the lock it may be out of date.
    unsafe { (&raw const (*cq.as_raw()).cqe_used).read_volatile() }
}
