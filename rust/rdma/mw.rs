// SPDX-License-Identifier: GPL-2.0

//! Memory windows (`struct ib_mw`). Only user space has them; uverbs creates them through the
//! driver's operations.

use crate::{device::Device, object::c_object, pd::Pd};
use kernel::bindings;

c_object! {
    /// A memory window.
    pub struct Mw(ib_mw);
}

impl Mw {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: Set at creation; the window keeps the domain in use.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }

    /// Remote key. A type 2 window gets a new one with each bind.
    pub fn rkey(&self) -> u32 {
        // SAFETY: The object is valid.
        unsafe { (*self.as_raw()).rkey }
    }

    /// Whether the window is of type 2 (bound by a work request, revoked by an invalidate).
    pub fn is_type_2(&self) -> bool {
        // SAFETY: Set at creation.
        unsafe { (*self.as_raw()).type_ == bindings::ib_mw_type_IB_MW_TYPE_2 }
    }
}
