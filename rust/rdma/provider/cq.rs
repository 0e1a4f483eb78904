// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    wc::WcSlots,
    Driver, Udata,
};
use crate::cq;
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

provided_object! {
    /// A completion queue.
    Cq: cq::Cq, ib_cq, Cq
}

new_object! {
    /// A completion queue that the driver is about to set up.
    NewCq: cq::Cq
}

impl NewCq<'_> {
    /// Sets the number of entries that the queue is going to have.
    pub fn set_entries(&self, entries: u32) {
        set_entries(self.0, entries);
    }
}

fn set_entries(cq: &cq::Cq, entries: u32) {
    // SAFETY: The object is valid; readers take one aligned word.
    unsafe { (&raw mut (*cq.as_raw()).cqe).write_volatile(entries.try_into().unwrap_or(i32::MAX)) };
}

/// What a consumer asks for when it creates a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqRequest {
    /// Least number of entries.
    pub entries: u32,
    /// Completion vector: which interrupt is to tell.
    pub vector: u32,
    /// `IB_UVERBS_CQ_FLAGS_*`.
    pub flags: u32,
}

/// When the consumer wants to hear of the next completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Only of a solicited or a failed one.
    pub solicited_only: bool,
    /// The consumer asks to be told if completions are there already.
    pub report_missed: bool,
}

/// Asynchronous events of completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqEvent {
    /// An entry was lost, or the queue does not work any more.
    Error,
}

impl<D: Driver> Cq<D> {
    /// Tells the consumer that there is a completion, as it asked for by
    /// [`CqOps::request_notify`]. Any context.
    ///
    /// The consumer may poll the queue from within this call: the caller holds no lock that
    /// polling takes, and nobody else calls this for the same queue at the same time.
    pub fn complete(&self) {
        // SAFETY: The queue is live; the handler was set before the driver saw the queue.
        unsafe {
            if let Some(handler) = (*self.as_raw()).comp_handler {
                handler(self.as_raw(), (*self.as_raw()).cq_context);
            }
        }
    }

    /// Tells the consumer of an event. Any context; the caller holds no lock that the driver's
    /// operations take.
    pub fn report(&self, event: CqEvent) {
        let mut raw: bindings::ib_event = pin_init::zeroed();
        raw.device = self.device().as_raw();
        raw.element.cq = self.as_raw();
        raw.event = match event {
            CqEvent::Error => bindings::ib_event_type_IB_EVENT_CQ_ERR,
        };
        // SAFETY: The queue is live; the handler was set before the driver saw the queue.
        unsafe {
            if let Some(handler) = (*self.as_raw()).event_handler {
                handler(&mut raw, (*self.as_raw()).cq_context);
            }
        }
    }

    /// Sets the number of entries, after a resize.
    pub fn set_entries(&self, entries: u32) {
        set_entries(self.core(), entries);
    }
}

/// Operations of completion queues.
#[vtable]
pub trait CqOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part, and the number of entries. May sleep.
    fn create(
        device: &super::Device<D>,
        cq: NewCq<'_>,
        request: &CqRequest,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error>;

    /// Completes a queue whose driver's part is initialised. May sleep.
    fn created(_this: &Cq<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// The last look before the driver's part is dropped. When this returns, no handler of the
    /// queue is running, and none will be called. May sleep.
    fn destroy(_this: &Cq<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Hands out completions, until there are none or no room is left. Any context.
    fn poll(this: &Cq<D>, slots: &mut WcSlots<'_>) -> Result;

    /// How many completions there are, at most `limit`. Any context.
    fn peek(_this: &Cq<D>, _limit: u32) -> Result<u32> {
        Err(EOPNOTSUPP)
    }

    /// Arms the queue: the next completion is told by [`Cq::complete`]. Returns whether
    /// completions may have been missed, if the consumer wants to know. Any context.
    fn request_notify(this: &Cq<D>, notify: Notify) -> Result<bool>;

    /// Tells no more often than after `count` completions or `period` microseconds. May sleep.
    fn moderate(_this: &Cq<D>, _count: u16, _period: u16) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Changes the number of entries of a queue of user space. May sleep.
    fn resize(_this: &Cq<D>, _entries: u32, _udata: Udata<'_>) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn create_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    bundle: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_bundle(bundle);
        let request = CqRequest {
            entries: (*attr).cqe,
            vector: (*attr).comp_vector,
            flags: (*attr).flags,
        };
        let device = super::Device::from_raw((*cq).device);
        let init = D::Cq::create(device, NewCq(cq::Cq::from_raw(cq)), &request, udata);
        Cq::<D>::create(cq, init, |this| D::Cq::created(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Cq::destroy(Cq::from_raw(cq), Udata::from_raw(udata))?;
        Cq::<D>::drop_data(cq);
        Ok(0)
    })
}

/// # Safety
///
/// Called by the consumer with a live object, and room for `room` completions.
pub(super) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    room: c_int,
    wc: *mut bindings::ib_wc,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let mut slots = WcSlots::from_raw(wc, u32::try_from(room).map_err(|_| EINVAL)?);
        D::Cq::poll(Cq::from_raw(cq), &mut slots)?;
        Ok(slots.used() as c_int)
    })
}

/// # Safety
///
/// Called by the consumer with a live object.
pub(super) unsafe extern "C" fn peek_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    limit: c_int,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let count = D::Cq::peek(Cq::from_raw(cq), u32::try_from(limit).map_err(|_| EINVAL)?)?;
        Ok(count.try_into().unwrap_or(c_int::MAX))
    })
}

/// # Safety
///
/// Called by the consumer with a live object.
pub(super) unsafe extern "C" fn req_notify_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    flags: bindings::ib_cq_notify_flags,
) -> c_int {
    const MASK: u32 = bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK;
    let notify = Notify {
        solicited_only: flags & MASK == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED,
        report_missed: flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0,
    };
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let missed = D::Cq::request_notify(Cq::from_raw(cq), notify)?;
        Ok((missed && notify.report_missed).into())
    })
}

/// # Safety
///
/// Called by the core with a live object.
pub(super) unsafe extern "C" fn modify_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    count: u16,
    period: u16,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Cq::moderate(Cq::from_raw(cq), count, period)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by uverbs with a live object.
pub(super) unsafe extern "C" fn resize_user_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    entries: u32,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::Cq::resize(Cq::from_raw(cq), entries, Udata::from_raw(udata))?;
        Ok(0)
    })
}
