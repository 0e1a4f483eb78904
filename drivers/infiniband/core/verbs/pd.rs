// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use kernel::{bindings, prelude::*, types::ScopeGuard, warn_on};
use rdma::{
    device::Device,
    gfp::Gfp,
    mr::{Access, Mr},
    object::{Draft, Object, Owner, Retiring},
    pd::{Pd, PdFlags},
    printk::warn_plain,
    udata::Udata,
};

/// Allocates a domain for the kernel module `owner`. May sleep.
///
/// The domain has a key for local access to all DMA memory: the device's own, or else that of a
/// region that the domain keeps for itself.
pub(crate) fn alloc(device: &Device, flags: PdFlags, owner: &'static CStr) -> Result<Object<Pd>> {
    let pd = Draft::<Pd>::new(device, Gfp::KERNEL)?;
    pd.set_up(device, flags);
    let pd = pd.track(Owner::Module(owner));
    pd.driver_alloc(None)?;
    let pd = ScopeGuard::new_with_data(pd, |pd| {
        let refused = pd.driver_dealloc(None).is_err();
        warn_on!(refused);
    });

    let device_has_key = device.attrs().kernel_cap_flags
        & u64::from(bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY)
        != 0;
    let mut access = Access::NONE;
    if device_has_key {
        pd.set_local_dma_lkey(device.local_dma_lkey());
    } else {
        access = access | Access::LOCAL_WRITE;
    }
    if flags.wants_unsafe_global_rkey() {
        warn_plain(fmt!("{}: enabling unsafe global rkey\n", owner));
        access = access | Access::REMOTE_READ | Access::REMOTE_WRITE;
    }

    if access != Access::NONE {
        let mr = pd.driver_get_dma_mr(access)?;
        mr.set_up_internal(&pd);
        pd.set_internal_mr(mr);
        if !device_has_key {
            pd.set_local_dma_lkey(mr.lkey());
        }
        if flags.wants_unsafe_global_rkey() {
            pd.set_unsafe_global_rkey(mr.rkey());
        }
    }
    Ok(pd.dismiss().publish())
}

/// Gives a domain back. May sleep.
///
/// `EBUSY` while anything is built on it: nothing happens then, and the domain stays usable. The
/// domain's own region does not count.
pub(crate) fn dealloc(pd: Object<Pd>, udata: Option<&Udata>) -> Result {
    pd.uses().check_idle()?;

    let pd = Retiring::begin(pd);
    if let Some(mr) = pd.take_internal_mr() {
        let refused = Mr::driver_dereg(mr, None).is_err();
        warn_on!(refused);
    }
    pd.driver_dealloc(udata)?;
    pd.finish();
    Ok(())
}
