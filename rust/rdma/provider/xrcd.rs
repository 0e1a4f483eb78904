// SPDX-License-Identifier: GPL-2.0

//! XRC domains.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    Driver, Udata,
};
use crate::xrcd;
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// An XRC domain.
    Xrcd: xrcd::Xrcd, ib_xrcd, Xrcd
}

new_object! {
    /// An XRC domain that the driver is about to set up.
    NewXrcd: xrcd::Xrcd
}

/// Operations of XRC domains.
#[vtable]
pub trait XrcdOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part. May sleep.
    fn alloc(
        _device: &super::Device<D>,
        _xrcd: NewXrcd<'_>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// The last look before the driver's part is dropped. May sleep.
    fn dealloc(_this: &Xrcd<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn alloc_xrcd<D: Driver>(
    xrcd: *mut bindings::ib_xrcd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let device = super::Device::from_raw((*xrcd).device);
        let new = NewXrcd(xrcd::Xrcd::from_raw(xrcd));
        let init = D::Xrcd::alloc(device, new, Udata::from_raw(udata));
        Xrcd::<D>::create(xrcd, init, |_| Ok(()))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn dealloc_xrcd<D: Driver>(
    xrcd: *mut bindings::ib_xrcd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Xrcd::dealloc(Xrcd::from_raw(xrcd), Udata::from_raw(udata))?;
        Xrcd::<D>::drop_data(xrcd);
        Ok(0)
    })
}
