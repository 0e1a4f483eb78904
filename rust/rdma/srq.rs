// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (`struct ib_srq`).

use crate::{
    cq::Cq,
    device::Device,
    object::{c_object, driver_op, DriverObject, TrackedObject},
    pd::Pd,
    udata::Udata,
    usecnt::UseCount,
    xrcd::Xrcd,
};
use kernel::{bindings, error::to_result, prelude::*};

c_object! {
    /// A shared receive queue.
    pub struct Srq(ib_srq);
}

c_object! {
    /// The user object of a shared receive queue.
    pub struct UserSrq(ib_usrq_object);
}

// SAFETY: Transparent over `ib_srq`, which is plain data.
unsafe impl DriverObject for Srq {
    type Raw = bindings::ib_srq;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_srq
    }
}

// SAFETY: `res` is the entry of a shared receive queue.
unsafe impl TrackedObject for Srq {
    const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_SRQ;

    fn tracker_entry(&self) -> *mut bindings::rdma_restrack_entry {
        // SAFETY: The object is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).res }
    }
}

/// Size and limit of a queue, in and out.
pub type SrqAttr = bindings::ib_srq_attr;

/// What a consumer asks for.
#[repr(transparent)]
pub struct SrqInitAttr(bindings::ib_srq_init_attr);

impl SrqInitAttr {
    /// Takes the request of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use it meanwhile, and the objects that it
    /// names must be live objects of the same device.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_srq_init_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// The sizes that are asked for.
    pub fn attr(&self) -> SrqAttr {
        self.0.attr
    }

    /// Sets the sizes, those that the consumer gets.
    pub fn set_attr(&mut self, attr: SrqAttr) {
        self.0.attr = attr;
    }

    /// `IB_SRQT_*`.
    pub fn kind(&self) -> bindings::ib_srq_type {
        self.0.srq_type
    }

    /// Whether this kind of queue has a completion queue of its own: XRC and tag matching.
    pub fn has_cq(&self) -> bool {
        srq_type_has_cq(self.0.srq_type)
    }

    /// The completion queue, if the kind has one.
    pub fn cq(&self) -> Option<&Cq> {
        if !self.has_cq() || self.0.ext.cq.is_null() {
            return None;
        }
        // SAFETY: A live queue by the contract of `from_raw`.
        Some(unsafe { Cq::from_raw(self.0.ext.cq) })
    }

    /// The XRC domain, if the kind has one.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        if self.0.srq_type != bindings::ib_srq_type_IB_SRQT_XRC {
            return None;
        }
        // SAFETY: For this kind the union holds the domain, live by the contract of `from_raw`.
        unsafe {
            let xrcd = self.0.ext.__bindgen_anon_1.xrc.xrcd;
            (!xrcd.is_null()).then(|| Xrcd::from_raw(xrcd))
        }
    }
}

fn srq_type_has_cq(srq_type: bindings::ib_srq_type) -> bool {
    matches!(
        srq_type,
        bindings::ib_srq_type_IB_SRQT_XRC | bindings::ib_srq_type_IB_SRQT_TM
    )
}

impl Srq {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: Set at creation; the queue keeps the domain in use.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }

    /// Uses by queue pairs.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    /// The completion queue, if the kind has one.
    pub fn cq(&self) -> Option<&Cq> {
        // SAFETY: Set at creation; the queue keeps its completion queue in use.
        unsafe {
            let srq = self.as_raw();
            (srq_type_has_cq((*srq).srq_type) && !(*srq).ext.cq.is_null())
                .then(|| Cq::from_raw((*srq).ext.cq))
        }
    }

    /// The XRC domain, if the kind has one.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        // SAFETY: Set at creation; the queue keeps its domain in use.
        unsafe {
            let srq = self.as_raw();
            if (*srq).srq_type != bindings::ib_srq_type_IB_SRQT_XRC {
                return None;
            }
            let xrcd = (*srq).ext.__bindgen_anon_1.xrc.xrcd;
            (!xrcd.is_null()).then(|| Xrcd::from_raw(xrcd))
        }
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, pd: &Pd, attr: &SrqInitAttr, user: Option<&UserSrq>) {
        let srq = self.as_raw();
        // SAFETY: The creator has the object for itself; the request names live objects.
        unsafe {
            (*srq).device = pd.device().as_raw();
            (*srq).pd = pd.as_raw();
            (*srq).event_handler = attr.0.event_handler;
            (*srq).srq_context = attr.0.srq_context;
            (*srq).srq_type = attr.0.srq_type;
            (*srq).uobject = user.map_or(core::ptr::null_mut(), UserSrq::as_raw);
            if attr.has_cq() {
                (*srq).ext.cq = attr.0.ext.cq;
            }
            if attr.0.srq_type == bindings::ib_srq_type_IB_SRQT_XRC {
                (*srq).ext.__bindgen_anon_1.xrc.xrcd = attr.0.ext.__bindgen_anon_1.xrc.xrcd;
            }
        }
    }

    /// Asks the driver to set up its part; it updates the sizes of the request.
    pub fn driver_create(&self, attr: &mut SrqInitAttr, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(
            self.device(),
            create_srq(self.as_raw(), &mut attr.0, udata)
        )?)
    }

    /// Asks the driver to resize the queue or to arm its limit.
    pub fn driver_modify(&self, attr: &mut SrqAttr, mask: bindings::ib_srq_attr_mask) -> Result {
        to_result(driver_op!(
            self.device(),
            modify_srq(self.as_raw(), attr, mask, core::ptr::null_mut())
        )?)
    }

    /// Asks the driver for size and limit.
    pub fn driver_query(&self, attr: &mut SrqAttr) -> Result {
        to_result(driver_op!(self.device(), query_srq(self.as_raw(), attr))?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_destroy(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(
            self.device(),
            destroy_srq(self.as_raw(), udata)
        )?)
    }
}
