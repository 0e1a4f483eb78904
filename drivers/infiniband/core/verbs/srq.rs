// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use kernel::prelude::*;
use rdma::{
    gfp::Gfp,
    object::{Draft, Object, Owner, Retiring},
    pd::Pd,
    srq::{Srq, SrqInitAttr, UserSrq},
    udata::Udata,
    usecnt::{Use, UseCount},
};

/// The use counts of all that a queue is built on.
fn foundations(srq: &Srq) -> [Option<&UseCount>; 3] {
    [
        Some(srq.pd().uses()),
        srq.xrcd().map(|xrcd| xrcd.uses()),
        srq.cq().map(|cq| cq.uses()),
    ]
}

/// Creates a queue. May sleep.
///
/// The driver writes the sizes that it really gives to `attr`.
pub(crate) fn create(
    pd: &Pd,
    attr: &mut SrqInitAttr,
    user: Option<&UserSrq>,
    udata: Option<&Udata>,
) -> Result<Object<Srq>> {
    if attr.has_cq() && attr.cq().is_none() {
        return Err(EINVAL);
    }
    let srq = Draft::<Srq>::new(pd.device(), Gfp::KERNEL)?;
    srq.set_up(pd, attr, user);

    let srq = srq.track(Owner::SameAs(pd.owner_entry()));
    let uses = foundations(&srq).map(|count| count.map(UseCount::acquire));
    srq.driver_create(attr, udata)?;
    uses.into_iter().flatten().for_each(Use::keep);
    Ok(srq.publish())
}

/// Destroys a queue. May sleep. `EBUSY` while a queue pair uses it.
pub(crate) fn destroy(srq: Object<Srq>, udata: Option<&Udata>) -> Result {
    srq.uses().check_idle()?;

    let srq = Retiring::begin(srq);
    srq.driver_destroy(udata)?;
    drop(foundations(&srq).map(|count| count.map(UseCount::reclaim)));
    srq.finish();
    Ok(())
}
