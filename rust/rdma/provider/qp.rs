// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    wr::{RecvList, SendList},
    Cq, Driver, Pd, QpTag, Srq, Udata, Xrcd,
};
use crate::{
    classic::Promises,
    gid::Gid,
    qp::{self, AttrMask, QpAttr, QpInitAttr},
};
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// A queue pair.
    Qp: qp::Qp, ib_qp, Qp
}

new_object! {
    /// A queue pair that the driver is about to set up.
    NewQp: qp::Qp
}

impl NewQp<'_> {
    /// Sets the number.
    pub fn set_number(&self, number: u32) {
        // SAFETY: Until it is complete, only the driver has the object.
        unsafe { (*self.0.as_raw()).qp_num = number };
    }

    /// How completions name the queue pair.
    pub fn tag(&self) -> QpTag {
        QpTag::new(self.0.as_raw())
    }

    /// The protection domain; XRC targets have none.
    pub fn pd<D: Driver>(&self, device: &super::Device<D>) -> Option<&Pd<D>> {
        device.check_owns(self.0.device());
        self.0.pd().map(|pd| {
            // SAFETY: Set before the driver is asked; the domain is one of the same driver.
            unsafe { Pd::from_raw(pd.as_raw()) }
        })
    }

    /// The completion queue of the send queue.
    pub fn send_cq<D: Driver>(&self, device: &super::Device<D>) -> Option<&Cq<D>> {
        device.check_owns(self.0.device());
        self.0.send_cq().map(|cq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The completion queue of the receive queue.
    pub fn recv_cq<D: Driver>(&self, device: &super::Device<D>) -> Option<&Cq<D>> {
        device.check_owns(self.0.device());
        self.0.recv_cq().map(|cq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The shared receive queue, if receives come from one.
    pub fn srq<D: Driver>(&self, device: &super::Device<D>) -> Option<&Srq<D>> {
        device.check_owns(self.0.device());
        self.0.srq().map(|srq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Srq::from_raw(srq.as_raw()) }
        })
    }

    /// The XRC domain of a target, from the request for it.
    pub fn xrcd<'a, D: Driver>(
        &self,
        device: &super::Device<D>,
        request: &'a QpInitAttr,
    ) -> Option<&'a Xrcd<D>> {
        request.xrcd().map(|xrcd| {
            device.check_owns(xrcd.device());
            // SAFETY: The objects of a request are live; as was just checked, this one is of a
            // device of the same driver.
            unsafe { Xrcd::from_raw(xrcd.as_raw()) }
        })
    }
}

/// Asynchronous events of queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The queue pair does not work any more.
    Fatal,
    /// The peer sent a request that makes no sense.
    RequestError,
    /// The peer sent a request that is not allowed.
    AccessError,
    /// A packet came before the connection was set up.
    CommunicationEstablished,
    /// The send queue has run dry, in the state SQD.
    SqDrained,
    /// The path was changed to the alternate one.
    PathMigrated,
    /// The alternate path does not work.
    PathMigrationError,
    /// The queue pair has taken its last request from a shared receive queue.
    LastWqeReached,
}

impl QpEvent {
    fn as_raw(self) -> bindings::ib_event_type {
        match self {
            Self::Fatal => bindings::ib_event_type_IB_EVENT_QP_FATAL,
            Self::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            Self::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            Self::CommunicationEstablished => bindings::ib_event_type_IB_EVENT_COMM_EST,
            Self::SqDrained => bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            Self::PathMigrated => bindings::ib_event_type_IB_EVENT_PATH_MIG,
            Self::PathMigrationError => bindings::ib_event_type_IB_EVENT_PATH_MIG_ERR,
            Self::LastWqeReached => bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        }
    }
}

impl<D: Driver> Qp<D> {
    /// How completions name the queue pair.
    pub fn tag(&self) -> QpTag {
        QpTag::new(self.as_raw())
    }

    /// The protection domain; XRC targets have none.
    pub fn pd(&self) -> Option<&Pd<D>> {
        self.core().pd().map(|pd| {
            // SAFETY: Set at creation; the queue pair keeps the domain in use.
            unsafe { Pd::from_raw(pd.as_raw()) }
        })
    }

    /// The completion queue of the send queue, if there is a send queue.
    pub fn send_cq(&self) -> Option<&Cq<D>> {
        self.core().send_cq().map(|cq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The completion queue of the receive queue, if there is one.
    pub fn recv_cq(&self) -> Option<&Cq<D>> {
        self.core().recv_cq().map(|cq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Cq::from_raw(cq.as_raw()) }
        })
    }

    /// The shared receive queue, if receives come from one.
    pub fn srq(&self) -> Option<&Srq<D>> {
        self.core().srq().map(|srq| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Srq::from_raw(srq.as_raw()) }
        })
    }

    /// The XRC domain of a target.
    pub fn xrcd(&self) -> Option<&Xrcd<D>> {
        self.core().xrcd().map(|xrcd| {
            // SAFETY: Live, and an object of the same driver, as for the domain.
            unsafe { Xrcd::from_raw(xrcd.as_raw()) }
        })
    }

    /// Tells the consumer of an event. Any context; the caller holds no lock that the driver's
    /// operations take.
    pub fn report(&self, event: QpEvent) {
        let mut raw: bindings::ib_event = pin_init::zeroed();
        raw.device = self.device().as_raw();
        raw.element.qp = self.as_raw();
        raw.event = event.as_raw();
        // SAFETY: The queue pair is live; the handler was set before the driver saw it.
        unsafe {
            if let Some(handler) = (*self.as_raw()).event_handler {
                handler(&mut raw, (*self.as_raw()).qp_context);
            }
        }
    }
}

/// Operations of queue pairs.
#[vtable]
pub trait QpOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part and the number, and puts the sizes that the queues have into the
    /// request. May sleep.
    fn create(
        device: &super::Device<D>,
        qp: NewQp<'_>,
        request: &mut QpInitAttr,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error>;

    /// Completes a queue pair whose driver's part is initialised. May sleep.
    fn created(_this: &Qp<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Changes the attributes that `mask` names. The driver checks whether the change is allowed
    /// in the current state, see [`qp::transition`]. May sleep.
    fn modify(this: &Qp<D>, attr: &mut QpAttr, mask: AttrMask, udata: Udata<'_>) -> Result;

    /// Tells attributes, at least those that `mask` names, and what the queue pair was created
    /// with. May sleep.
    fn query(_this: &Qp<D>, _attr: &mut QpAttr, _mask: AttrMask, _init: &mut QpInitAttr) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The last look before the driver's part is dropped. When this returns, nothing that the
    /// driver does uses the queue pair any more. May sleep.
    fn destroy(_this: &Qp<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Takes send requests; if it fails, the last one that was taken off the list is the one that
    /// failed. Any context.
    fn post_send(this: &Qp<D>, list: &mut SendList<'_, D>) -> Result;

    /// Takes receive requests, likewise.
    fn post_recv(this: &Qp<D>, list: &mut RecvList<'_>) -> Result;

    /// Waits until all sends are completed. A driver without this gets a marker posted.
    fn drain_sq(_this: &Qp<D>) {}

    /// Waits until all receives are completed. A driver without this gets a marker posted.
    fn drain_rq(_this: &Qp<D>) {}

    /// Has datagrams to a group delivered here. May sleep.
    fn attach_mcast(_this: &Qp<D>, _gid: &Gid, _lid: u16) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Ends that. May sleep.
    fn detach_mcast(_this: &Qp<D>, _gid: &Gid, _lid: u16) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn create_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let init = D::Qp::create(
            super::Device::from_raw((*qp).device),
            NewQp(qp::Qp::from_raw(qp)),
            QpInitAttr::from_raw(attr),
            udata,
        );
        Qp::<D>::create(qp, init, |this| D::Qp::created(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and valid attributes.
pub(super) unsafe extern "C" fn modify_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Qp::modify(
            Qp::from_raw(qp),
            QpAttr::from_raw(attr),
            AttrMask::from_bits(mask),
            Udata::from_raw(udata),
        )?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and room for the attributes.
pub(super) unsafe extern "C" fn query_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let this = Qp::<D>::from_raw(qp);
        let init = QpInitAttr::from_raw(init);
        init.set_owner(this.core());
        D::Qp::query(
            this,
            QpAttr::from_raw_output(attr),
            AttrMask::from_bits(mask),
            init,
        )?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn destroy_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Qp::destroy(Qp::from_raw(qp), Udata::from_raw(udata))?;
        Qp::<D>::drop_data(qp);
        Ok(0)
    })
}

/// # Safety
///
/// Called by the consumer with a live object and a valid list.
pub(super) unsafe extern "C" fn post_send<D: Driver>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    unsafe {
        let this = Qp::<D>::from_raw(qp);
        let binds = Promises::of(this.core().device()).takes_bind_requests();
        let mut list = SendList::from_raw(
            wr,
            this.core().kind().is_datagram(),
            binds,
            !this.core().is_user(),
        );
        let result = D::Qp::post_send(this, &mut list);
        list.conclude(result, bad)
    }
}

/// # Safety
///
/// Called by the consumer with a live object and a valid list.
pub(super) unsafe extern "C" fn post_recv<D: Driver>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    unsafe {
        let mut list = RecvList::from_raw(wr);
        let result = D::Qp::post_recv(Qp::from_raw(qp), &mut list);
        list.conclude(result, bad)
    }
}

/// # Safety
///
/// Called by the core with a live object.
pub(super) unsafe extern "C" fn drain_sq<D: Driver>(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of the operation.
    D::Qp::drain_sq(unsafe { Qp::from_raw(qp) })
}

/// # Safety
///
/// Called by the core with a live object.
pub(super) unsafe extern "C" fn drain_rq<D: Driver>(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of the operation.
    D::Qp::drain_rq(unsafe { Qp::from_raw(qp) })
}

/// # Safety
///
/// Called by the core with a live object and a valid GID.
pub(super) unsafe extern "C" fn attach_mcast<D: Driver>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Qp::attach_mcast(Qp::from_raw(qp), &Gid::read(gid), lid)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and a valid GID.
pub(super) unsafe extern "C" fn detach_mcast<D: Driver>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Qp::detach_mcast(Qp::from_raw(qp), &Gid::read(gid), lid)?;
        Ok(0)
    })
}
