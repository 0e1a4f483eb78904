// SPDX-License-Identifier: GPL-2.0

//! Memory windows of kernel modules.

use kernel::prelude::*;
use rdma::{
    gfp::Gfp,
    mw::{Mw, MwBind, MwKind},
    object::{Draft, Object},
    pd::Pd,
    qp::Qp,
};

/// Allocates a window that opens nothing. May sleep. `EOPNOTSUPP` if the device has none.
pub(crate) fn alloc(pd: &Pd, kind: MwKind) -> Result<Object<Mw>> {
    let ops = pd.device().ops();
    // One without the other could not be undone.
    if ops.alloc_mw.is_none() || ops.dealloc_mw.is_none() {
        return Err(EOPNOTSUPP);
    }
    let mw = Draft::<Mw>::new(pd.device(), Gfp::KERNEL)?;
    mw.set_up(pd, kind);
    mw.driver_alloc()?;
    pd.uses().acquire().keep();
    Ok(mw.finish())
}

/// Posts the request that binds a window. Any context.
pub(crate) fn bind(qp: &Qp, mw: &Mw, bind: &MwBind) -> Result {
    if !bind.has_region() || !core::ptr::eq(qp.device(), mw.device()) {
        return Err(EINVAL);
    }
    mw.post_bind(qp, bind)
}

/// Gives a window back. May sleep.
pub(crate) fn dealloc(mw: Object<Mw>) -> Result {
    mw.driver_dealloc()?;
    drop(mw.pd().uses().reclaim());
    mw.free();
    Ok(())
}
