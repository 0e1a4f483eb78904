// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    Driver, Udata,
};
use crate::pd;
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// A protection domain.
    Pd: pd::Pd, ib_pd, Pd
}

new_object! {
    /// A protection domain that the driver is about to set up.
    NewPd: pd::Pd
}

impl NewPd<'_> {
    /// Sets the local key that stands for all memory.
    pub fn set_local_dma_lkey(&self, lkey: u32) {
        // SAFETY: Until it is complete, only the driver has the object.
        unsafe { (*self.0.as_raw()).local_dma_lkey = lkey };
    }
}

/// Operations of protection domains.
#[vtable]
pub trait PdOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part. May sleep.
    fn alloc(
        device: &super::Device<D>,
        pd: NewPd<'_>,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error>;

    /// Completes a domain whose driver's part is initialised: publishes it, answers to user
    /// space. May sleep.
    fn allocated(_this: &Pd<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// The last look before the driver's part is dropped; nothing uses the domain any more. If
    /// this fails, the domain stays. May sleep.
    fn dealloc(_this: &Pd<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn alloc_pd<D: Driver>(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let device = super::Device::from_raw((*pd).device);
        let init = D::Pd::alloc(device, NewPd(pd::Pd::from_raw(pd)), udata);
        Pd::<D>::create(pd, init, |this| D::Pd::allocated(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn dealloc_pd<D: Driver>(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Pd::dealloc(Pd::from_raw(pd), Udata::from_raw(udata))?;
        Pd::<D>::drop_data(pd);
        Ok(0)
    })
}
