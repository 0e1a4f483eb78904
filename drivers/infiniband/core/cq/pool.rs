// SPDX-License-Identifier: GPL-2.0

//! Queues shared between the kernel users of a device.
//!
//! Users claim some of the completions of a queue, so that it cannot overflow. Queues are made
//! for all completion vectors at once and stay until the device goes away.

use super::{
    free,
    is_unused,
    start,
    vectors, //
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    },
};
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    poll_cq::{
        pool::{
            PoolKind,
            Pools, //
        },
        CqBuilder,
        OwnedCq,
        PollContext,
        PollCq, //
    },
    warn_on_once, //
};

/// Least size of a shared queue, so that several users find room in it.
const SHARED_SIZE: u32 = 4096;

/// Makes a shared queue for each vector, with room for at least `entries` completions each.
fn grow(device: &Device, kind: PoolKind, entries: u32) -> Result {
    let limit = device.attrs().max_cqe;
    if entries > limit {
        return Err(EINVAL);
    }
    let size = entries.max(SHARED_SIZE).min(limit);
    let size = i32::try_from(size).map_err(|_| EINVAL)?;
    let mut cqs = KVec::new();
    for vector in 0..vectors(device) {
        let cq = CqBuilder::shared(device, vector, kind.context(), size)?;
        let cq = start(cq, device);
        // A driver that gives less than it was asked for would have this repeated for ever.
        if cq.size() < entries {
            return Err(ENOMEM);
        }
        cqs.push(cq, GFP_KERNEL)?;
    }
    Pools::lock(device).add(kind, cqs);
    Ok(())
}

/// Claims `entries` completions of a shared queue for `context`, near vector `hint` if there is
/// one. May sleep.
///
/// Errors: `EINVAL` for a context without shared queues or for more completions than the device
/// can hold, otherwise those of the driver.
pub(crate) fn get(
    device: &Device,
    entries: u32,
    hint: Option<u32>,
    context: PollContext,
) -> Result<NonNull<bindings::ib_cq>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);

    let Ok(kind) = PoolKind::new(context) else {
        warn_on_once!(true);
        return Err(EINVAL);
    };
    let hint = hint.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
    let vector = hint.checked_rem(vectors(device)).ok_or(EINVAL)?;
    let fits = |cq: &PollCq, used: u32| {
        cq.vector() == vector && used.checked_add(entries).is_some_and(|n| n <= cq.size())
    };
    loop {
        let found = Pools::lock(device).claim(kind, entries, fits);
        if let Some(cq) = found {
            return Ok(cq);
        }
        grow(device, kind, entries)?;
    }
}

/// Gives `entries` claimed completions of a shared queue back. Any context.
pub(crate) fn put(cq: &PollCq, entries: u32) {
    if !Pools::lock(cq.device()).unclaim(cq, entries) {
        warn_on_once!(true);
    }
}

/// Frees the shared queues of a device that is going away. May sleep.
pub(crate) fn cleanup(device: &Device) {
    for kind in PoolKind::ALL {
        // The lock must not be held while a queue is freed.
        while let Some(cq) = pop(device, kind) {
            if is_unused(&cq) {
                free(cq);
            } else {
                // Its users would be left with a dangling pointer.
                cq.into_raw();
            }
        }
    }
}

fn pop(device: &Device, kind: PoolKind) -> Option<OwnedCq> {
    Pools::lock(device).pop(kind)
}
