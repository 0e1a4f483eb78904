// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    Driver, Pd, Udata,
};
use crate::ah::{self, AhAttr, Sleepable};
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// An address handle: where a datagram goes.
    Ah: ah::Ah, ib_ah, Ah
}

new_object! {
    /// An address handle that the driver is about to set up.
    NewAh: ah::Ah
}

impl NewAh<'_> {
    /// The protection domain.
    pub fn pd<D: Driver>(&self, device: &super::Device<D>) -> &Pd<D> {
        device.check_owns(self.0.device());
        // SAFETY: Set before the driver is asked; the domain outlives its handles, and is one of
        // the same driver.
        unsafe { Pd::from_raw((*self.0.as_raw()).pd) }
    }
}

impl<D: Driver> Ah<D> {
    /// The protection domain.
    pub fn pd(&self) -> &Pd<D> {
        // SAFETY: Set at creation; the domain outlives its handles.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }
}

/// Operations of address handles.
#[vtable]
pub trait AhOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Whether user space may make handles, too.
    const USER: bool = false;

    /// Sets up the driver's part. May sleep only if `sleepable` says so. The vector is the
    /// caller's; a driver that keeps it keeps a [duplicate](AhAttr::duplicate).
    fn create(
        device: &super::Device<D>,
        ah: NewAh<'_>,
        attr: &AhAttr,
        sleepable: Sleepable,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error>;

    /// Completes a handle whose driver's part is initialised.
    fn created(_this: &Ah<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Sends elsewhere. May sleep.
    fn modify(_this: &Ah<D>, _attr: &AhAttr) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Tells the address: fills in the empty vector, without a source GID reference. May sleep.
    fn query(_this: &Ah<D>, _attr: &mut AhAttr) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The last look before the driver's part is dropped. Both may sleep only if `sleepable`
    /// says so.
    fn destroy(_this: &Ah<D>, _sleepable: Sleepable) -> Result {
        Ok(())
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device. `init` is valid.
pub(super) unsafe extern "C" fn create_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    init: *mut bindings::rdma_ah_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let new = D::Ah::create(
            super::Device::from_raw((*ah).device),
            NewAh(ah::Ah::from_raw(ah)),
            AhAttr::from_raw_const((*init).ah_attr),
            Sleepable::from_flags((*init).flags),
            udata,
        );
        Ah::<D>::create(ah, new, |this| D::Ah::created(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and a valid vector.
pub(super) unsafe extern "C" fn modify_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Ah::modify(Ah::from_raw(ah), AhAttr::from_raw_const(attr))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and room for a vector.
pub(super) unsafe extern "C" fn query_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Ah::query(Ah::from_raw(ah), AhAttr::from_raw_output(attr))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn destroy_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    flags: u32,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Ah::destroy(Ah::from_raw(ah), Sleepable::from_flags(flags))?;
        Ah::<D>::drop_data(ah);
        Ok(0)
    })
}
