// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    Driver, Pd, Udata,
};
use crate::mw;
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// A memory window.
    Mw: mw::Mw, ib_mw, Mw
}

new_object! {
    /// A memory window that the driver is about to set up.
    NewMw: mw::Mw
}

impl NewMw<'_> {
    /// Sets the key.
    pub fn set_rkey(&self, rkey: u32) {
        // SAFETY: Until it is complete, only the driver has the object.
        unsafe { (*self.0.as_raw()).rkey = rkey };
    }
}

impl<D: Driver> Mw<D> {
    /// The protection domain.
    pub fn pd(&self) -> &Pd<D> {
        // SAFETY: Set at creation; the window keeps the domain in use.
        unsafe { Pd::from_raw(self.core().pd().as_raw()) }
    }
}

/// Operations of memory windows.
#[vtable]
pub trait MwOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part, and the key. May sleep.
    fn alloc(_mw: NewMw<'_>, _pd: &Pd<D>, _udata: Udata<'_>) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// Completes a window whose driver's part is initialised. May sleep.
    fn allocated(_this: &Mw<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// The last look before the driver's part is dropped. May sleep.
    fn dealloc(_this: &Mw<D>) -> Result {
        Ok(())
    }
}

/// # Safety
///
/// Called by uverbs with a new object, for the driver's device.
pub(super) unsafe extern "C" fn alloc_mw<D: Driver>(
    mw: *mut bindings::ib_mw,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the domain is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let new = NewMw(mw::Mw::from_raw(mw));
        let init = D::Mw::alloc(new, Pd::from_raw((*mw).pd), udata);
        Mw::<D>::create(mw, init, |this| D::Mw::allocated(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by uverbs for the last time with this object.
pub(super) unsafe extern "C" fn dealloc_mw<D: Driver>(mw: *mut bindings::ib_mw) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Mw::dealloc(Mw::from_raw(mw))?;
        Mw::<D>::drop_data(mw);
        Ok(0)
    })
}
