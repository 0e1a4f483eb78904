// SPDX-License-Identifier: GPL-2.0

//! XRC domains.

use kernel::{prelude::*, warn_on};
use rdma::{
    device::Device,
    gfp::Gfp,
    object::{Draft, Object},
    udata::Udata,
    xrcd::{Inode, Xrcd},
};

/// Allocates a domain, attached to a file or on its own. May sleep.
pub(crate) fn alloc(
    device: &Device,
    inode: Option<&Inode>,
    udata: Option<&Udata>,
) -> Result<Object<Xrcd>> {
    if device.ops().alloc_xrcd.is_none() {
        return Err(EOPNOTSUPP);
    }
    let xrcd = Draft::<Xrcd>::new(device, Gfp::KERNEL)?;
    xrcd.set_up(device, inode);
    xrcd.driver_alloc(udata)?;
    Ok(xrcd.finish())
}

/// Gives a domain back. May sleep. `EBUSY` while a queue pair or a receive queue uses it.
pub(crate) fn dealloc(xrcd: Object<Xrcd>, udata: Option<&Udata>) -> Result {
    xrcd.uses().check_idle()?;
    warn_on!(!xrcd.has_no_targets());
    xrcd.driver_dealloc(udata)?;
    xrcd.free();
    Ok(())
}
