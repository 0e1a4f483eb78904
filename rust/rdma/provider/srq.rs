// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    wr::RecvList,
    Cq, Driver, Pd, Udata, Xrcd,
};
use crate::srq::{self, SrqAttr, SrqInitAttr};
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// A shared receive queue.
    Srq: srq::Srq, ib_srq, Srq
}

new_object! {
    /// A shared receive queue that the driver is about to set up.
    NewSrq: srq::Srq
}

impl NewSrq<'_> {
    /// Sets the number by which senders name an XRC queue.
    pub fn set_number(&self, number: u32) {
        let srq = self.0.as_raw();
        // SAFETY: Until it is complete, only the driver has the object; the union has no other
        // member than that of XRC.
        unsafe { (*srq).ext.__bindgen_anon_1.xrc.srq_num = number };
    }
}

impl NewSrq<'_> {
    /// The protection domain.
    pub fn pd<D: Driver>(&self, device: &super::Device<D>) -> &Pd<D> {
        device.check_owns(self.0.device());
        // SAFETY: Set before the driver is asked; the domain is one of the same device.
        unsafe { Pd::from_raw(self.0.pd().as_raw()) }
    }

    /// The completion queue of an XRC queue.
    pub fn cq<D: Driver>(&self, device: &super::Device<D>) -> Option<&Cq<D>> {
        device.check_owns(self.0.device());
        self.0.cq().map(|cq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The domain of an XRC queue.
    pub fn xrcd<D: Driver>(&self, device: &super::Device<D>) -> Option<&Xrcd<D>> {
        device.check_owns(self.0.device());
        self.0.xrcd().map(|xrcd| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Xrcd::from_raw(xrcd.as_raw()) }
        })
    }
}

/// What is to change of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqChange {
    /// The number of requests that it holds.
    pub max_wr: Option<u32>,
    /// Tell when fewer requests than this are left; 0 is never.
    pub limit: Option<u32>,
}

/// Asynchronous events of shared receive queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqEvent {
    /// The queue does not work any more.
    Error,
    /// Fewer requests than the limit are left. The limit is disarmed.
    LimitReached,
}

impl<D: Driver> Srq<D> {
    /// The protection domain.
    pub fn pd(&self) -> &Pd<D> {
        // SAFETY: Set at creation; the queue keeps the domain in use.
        unsafe { Pd::from_raw(self.core().pd().as_raw()) }
    }

    /// The completion queue of an XRC queue.
    pub fn cq(&self) -> Option<&Cq<D>> {
        self.core().cq().map(|cq| {
            // SAFETY: Set at creation; the queue keeps its completion queue in use.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The domain of an XRC queue.
    pub fn xrcd(&self) -> Option<&Xrcd<D>> {
        self.core().xrcd().map(|xrcd| {
            // SAFETY: Set at creation; the queue keeps the domain in use.
            unsafe { Xrcd::from_raw(xrcd.as_raw()) }
        })
    }

    /// Tells the consumer of an event. Any context; the caller holds no lock that the driver's
    /// operations take.
    pub fn report(&self, event: SrqEvent) {
        let mut raw: bindings::ib_event = pin_init::zeroed();
        raw.device = self.device().as_raw();
        raw.element.srq = self.as_raw();
        raw.event = match event {
            SrqEvent::Error => bindings::ib_event_type_IB_EVENT_SRQ_ERR,
            SrqEvent::LimitReached => bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
        };
        // SAFETY: The queue is live; the handler was set before the driver saw the queue.
        unsafe {
            if let Some(handler) = (*self.as_raw()).event_handler {
                handler(&mut raw, (*self.as_raw()).srq_context);
            }
        }
    }
}

/// Operations of shared receive queues.
#[vtable]
pub trait SrqOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part, and puts the sizes that the queue has into the request. May
    /// sleep.
    fn create(
        _device: &super::Device<D>,
        _srq: NewSrq<'_>,
        _request: &mut SrqInitAttr,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// Completes a queue whose driver's part is initialised. May sleep.
    fn created(_this: &Srq<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Changes the size or arms the limit. May sleep.
    fn modify(_this: &Srq<D>, _change: &SrqChange, _udata: Udata<'_>) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Tells sizes and limit. May sleep.
    fn query(_this: &Srq<D>) -> Result<SrqAttr> {
        Err(EOPNOTSUPP)
    }

    /// The last look before the driver's part is dropped. May sleep.
    fn destroy(_this: &Srq<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Takes receive requests; if it fails, the last one that was taken off the list is the one
    /// that failed. Any context.
    fn post_recv(_this: &Srq<D>, _list: &mut RecvList<'_>) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn create_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let init = D::Srq::create(
            super::Device::from_raw((*srq).device),
            NewSrq(srq::Srq::from_raw(srq)),
            SrqInitAttr::from_raw(attr),
            udata,
        );
        Srq::<D>::create(srq, init, |this| D::Srq::created(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and valid attributes.
pub(super) unsafe extern "C" fn modify_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
    mask: bindings::ib_srq_attr_mask,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let has = |bit: bindings::ib_srq_attr_mask| mask & bit != 0;
        let change = SrqChange {
            max_wr: has(bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR).then_some((*attr).max_wr),
            limit: has(bindings::ib_srq_attr_mask_IB_SRQ_LIMIT).then_some((*attr).srq_limit),
        };
        D::Srq::modify(Srq::from_raw(srq), &change, Udata::from_raw(udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and room for attributes.
pub(super) unsafe extern "C" fn query_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        *attr = D::Srq::query(Srq::from_raw(srq))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn destroy_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Srq::destroy(Srq::from_raw(srq), Udata::from_raw(udata))?;
        Srq::<D>::drop_data(srq);
        Ok(0)
    })
}

/// # Safety
///
/// Called by the consumer with a live object and a valid list.
pub(super) unsafe extern "C" fn post_srq_recv<D: Driver>(
    srq: *mut bindings::ib_srq,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    unsafe {
        let mut list = RecvList::from_raw(wr);
        let result = D::Srq::post_recv(Srq::from_raw(srq), &mut list);
        list.conclude(result, bad)
    }
}
