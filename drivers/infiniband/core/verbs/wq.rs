// SPDX-License-Identifier: GPL-2.0

//! Receive work queues.

use kernel::prelude::*;
use rdma::{
    pd::Pd,
    udata::Udata,
    wq::{Wq, WqInitAttr},
};

/// Creates a queue for a kernel module. May sleep.
pub(crate) fn create<'a>(pd: &'a Pd, attr: &mut WqInitAttr) -> Result<&'a Wq> {
    if pd.device().ops().create_wq.is_none() {
        return Err(EOPNOTSUPP);
    }
    if attr.cq().is_none() {
        return Err(EINVAL);
    }
    let wq = Wq::driver_create(pd, attr)?;
    let (pd_uses, cq_uses) = wq.holdings();
    pd_uses.acquire().keep();
    cq_uses.acquire().keep();
    Ok(wq)
}

/// Destroys a queue, whose memory the driver frees. May sleep. `EBUSY` while an indirection table
/// uses it.
pub(crate) fn destroy(wq: &Wq, udata: Option<&Udata>) -> Result {
    wq.uses().check_idle()?;
    let (pd_uses, cq_uses) = wq.holdings();
    wq.driver_destroy(udata)?;
    drop(pd_uses.reclaim());
    drop(cq_uses.reclaim());
    Ok(())
}
