// SPDX-License-Identifier: GPL-2.0

//! Memory windows (`struct ib_mw`).
//!
//! User space creates them through uverbs, which calls the driver's operations itself; kernel
//! modules through the classic calls.

use crate::{
    classic::Promises,
    device::Device,
    object::{c_object, driver_op, DriverObject},
    pd::Pd,
    qp::Qp,
};
use core::ptr;
use kernel::{bindings, error::to_result, prelude::*};

c_object! {
    /// A memory window.
    pub struct Mw(ib_mw);
}

// SAFETY: Transparent over `ib_mw`, which is plain data.
unsafe impl DriverObject for Mw {
    type Raw = bindings::ib_mw;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_mw
    }
}

/// How a window is bound and revoked (IBTA vol. 1, 10.6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MwKind {
    /// Bound by a verb; a bind of length zero revokes it.
    Type1,
    /// Bound and invalidated by work requests.
    Type2,
}

impl MwKind {
    /// From the C constant.
    pub fn from_raw(raw: bindings::ib_mw_type) -> Option<Self> {
        match raw {
            bindings::ib_mw_type_IB_MW_TYPE_1 => Some(Self::Type1),
            bindings::ib_mw_type_IB_MW_TYPE_2 => Some(Self::Type2),
            _ => None,
        }
    }
}

/// What a consumer wants a window to be bound to (`struct ib_mw_bind`).
#[repr(transparent)]
pub struct MwBind(bindings::ib_mw_bind);

impl MwBind {
    /// Takes the request of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a` and not change meanwhile; its region must be null or live.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::ib_mw_bind) -> &'a Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Whether the request names a region.
    pub fn has_region(&self) -> bool {
        !self.0.bind_info.mr.is_null()
    }
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

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, pd: &Pd, kind: MwKind) {
        let mw = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*mw).device = pd.device().as_raw();
            (*mw).pd = pd.as_raw();
            (*mw).uobject = ptr::null_mut();
            (*mw).type_ = match kind {
                MwKind::Type1 => bindings::ib_mw_type_IB_MW_TYPE_1,
                MwKind::Type2 => bindings::ib_mw_type_IB_MW_TYPE_2,
            };
        }
    }

    /// Asks the driver to set up its part, for a kernel module.
    pub fn driver_alloc(&self) -> Result {
        to_result(driver_op!(
            self.device(),
            alloc_mw(self.as_raw(), ptr::null_mut())
        )?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_dealloc(&self) -> Result {
        to_result(driver_op!(self.device(), dealloc_mw(self.as_raw()))?)
    }

    /// Posts the work request that binds the window, which then has a new key. Any context; the
    /// caller serialises binds of a window.
    ///
    /// `EOPNOTSUPP` if the driver does not promise to take such requests.
    pub fn post_bind(&self, qp: &Qp, bind: &MwBind) -> Result {
        if !Promises::of(qp.device()).takes_bind_requests() {
            return Err(EOPNOTSUPP);
        }
        let mut wr: bindings::ib_bind_mw_wr = pin_init::zeroed();
        wr.wr.__bindgen_anon_1.wr_id = bind.0.wr_id;
        wr.wr.send_flags = bind.0.send_flags;
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_BIND_MW;
        wr.mw = self.as_raw();
        // SAFETY: The helper only computes.
        wr.rkey = unsafe { bindings::ib_inc_rkey(self.rkey()) };
        wr.bind_info = bind.0.bind_info;
        let mut bad = ptr::null();
        to_result(driver_op!(
            qp.device(),
            post_send(qp.as_raw(), &wr.wr, &mut bad)
        )?)?;
        // SAFETY: The consumer serialises binds; the word is aligned.
        unsafe { (&raw mut (*self.as_raw()).rkey).write_volatile(wr.rkey) };
        Ok(())
    }
}
