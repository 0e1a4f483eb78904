// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use kernel::prelude::*;
use rdma::{
    async_event::EventHandler,
    cq::{CompletionHandler, Cq, CqInitAttr},
    device::Device,
    gfp::Gfp,
    object::{Draft, Object, Owner, Retiring},
    udata::Udata,
    warn_on_once,
};

/// Creates a queue for a kernel module. May sleep.
///
/// `EINVAL`, with a warning, for a queue without entries.
pub(crate) fn create(
    device: &Device,
    completions: CompletionHandler,
    events: EventHandler,
    attr: &CqInitAttr,
    owner: Owner<'_>,
) -> Result<Object<Cq>> {
    if warn_on_once!(attr.cqe == 0) {
        return Err(EINVAL);
    }
    let cq = Draft::<Cq>::new(device, Gfp::KERNEL)?;
    cq.set_up(device, completions, events);
    let cq = cq.track(owner);
    cq.driver_create(attr)?;
    Ok(cq.publish())
}

/// Sets how long notifications are held back. The pool's queues have several users, so none of
/// them may do that.
pub(crate) fn set_moderation(cq: &Cq, count: u16, period: u16) -> Result {
    if cq.is_shared() {
        return Err(EOPNOTSUPP);
    }
    cq.driver_modify(count, period)
}

/// Destroys a queue. May sleep. `EBUSY` while a queue pair or another object uses it.
pub(crate) fn destroy(cq: Object<Cq>, udata: Option<&Udata>) -> Result {
    if warn_on_once!(cq.is_shared()) {
        return Err(EOPNOTSUPP);
    }
    cq.uses().check_idle()?;

    let cq = Retiring::begin(cq);
    cq.driver_destroy(udata)?;
    cq.finish();
    Ok(())
}
