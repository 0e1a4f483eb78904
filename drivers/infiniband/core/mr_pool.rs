// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions for fast registration, as the RDMA READ/WRITE API and storage
//! consumers use them: allocated with the queue pair, taken and put back for each transfer.
//!
//! The pool's lock is taken with interrupts off; regions are allocated and deregistered outside
//! of it, as that sleeps.

use kernel::{prelude::*, types::ScopeGuard};
use rdma::{
    mr::{Mr, MrKind},
    mr_pool::MrPool,
};

/// Takes a region for a transfer; `None` if all are in use. Any context.
pub(crate) fn get(pool: MrPool<'_>) -> Option<&Mr> {
    let mut locked = pool.lock();
    let mr = locked.pop()?;
    locked.adjust_used(1);
    Some(mr)
}

/// Puts a region back. It is the next to be taken, while it is still in caches. Any context.
pub(crate) fn put(pool: MrPool<'_>, mr: &Mr) {
    let mut locked = pool.lock();
    locked.push_front(mr);
    locked.adjust_used(-1);
}

/// Adds `count` regions for up to `max_sg` entries, and `max_meta_sg` entries of protection
/// information if they are for that. May sleep. On an error nothing is left in the pool.
pub(crate) fn fill(
    pool: MrPool<'_>,
    count: u32,
    kind: MrKind,
    max_sg: u32,
    max_meta_sg: u32,
) -> Result {
    let pd = pool.qp().pd().ok_or(EINVAL)?;
    let undo = ScopeGuard::new(|| drain(pool));
    for _ in 0..count {
        let mr = match kind {
            MrKind::Integrity => Mr::alloc_integrity(pd, max_sg, max_meta_sg)?,
            _ => Mr::alloc(pd, kind, max_sg)?,
        };
        pool.lock().push_back(mr);
    }
    undo.dismiss();
    Ok(())
}

/// Deregisters all regions that are in the pool. May sleep.
pub(crate) fn drain(pool: MrPool<'_>) {
    while let Some(mr) = { pool.lock().pop() } {
        // A region that the driver does not let go of is lost, and keeps its domain in use.
        let _ = mr.dereg();
    }
}
