// SPDX-License-Identifier: GPL-2.0

//! Completion queues (`struct ib_cq`).

use crate::{
    async_event::EventHandler,
    device::Device,
    object::{c_object, driver_op, DriverObject, TrackedObject},
    udata::Udata,
    usecnt::UseCount,
};
use kernel::{bindings, error::to_result, prelude::*};

c_object! {
    /// A completion queue.
    pub struct Cq(ib_cq);
}

// SAFETY: Transparent over `ib_cq`, which is plain data.
unsafe impl DriverObject for Cq {
    type Raw = bindings::ib_cq;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_cq
    }
}

// SAFETY: `res` is the entry of a completion queue.
unsafe impl TrackedObject for Cq {
    const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_CQ;

    fn tracker_entry(&self) -> *mut bindings::rdma_restrack_entry {
        // SAFETY: The object is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).res }
    }
}

/// Size, vector and flags that a consumer asks for.
pub type CqInitAttr = bindings::ib_cq_init_attr;

/// Consumer's function for completions.
///
/// # Invariants
///
/// The function may be called with the queue and its context as long as the queue lives.
#[derive(Clone, Copy)]
pub struct CompletionHandler(bindings::ib_comp_handler);

impl CompletionHandler {
    /// Takes the function that a consumer passes.
    ///
    /// # Safety
    ///
    /// `function`, if any, must be callable from any context as long as its queue exists.
    pub unsafe fn from_raw(function: bindings::ib_comp_handler) -> Self {
        // INVARIANT: By the contract of this function.
        Self(function)
    }
}

/// Where completions of a queue are processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollContext {
    /// Interrupt polling in softirq.
    Softirq,
    /// A work item on the CPU of the interrupt.
    Workqueue,
    /// A work item on any CPU.
    UnboundWorkqueue,
    /// Only when the consumer polls.
    Direct,
}

impl PollContext {
    /// From the C constant.
    pub fn from_raw(raw: bindings::ib_poll_context) -> Option<Self> {
        Some(match raw {
            bindings::ib_poll_context_IB_POLL_SOFTIRQ => Self::Softirq,
            bindings::ib_poll_context_IB_POLL_WORKQUEUE => Self::Workqueue,
            bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE => Self::UnboundWorkqueue,
            bindings::ib_poll_context_IB_POLL_DIRECT => Self::Direct,
            _ => return None,
        })
    }

    /// To the C constant.
    pub fn as_raw(self) -> bindings::ib_poll_context {
        match self {
            Self::Softirq => bindings::ib_poll_context_IB_POLL_SOFTIRQ,
            Self::Workqueue => bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            Self::UnboundWorkqueue => bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
            Self::Direct => bindings::ib_poll_context_IB_POLL_DIRECT,
        }
    }
}

impl Cq {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Uses by queue pairs, shared receive queues and work queues.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    /// Number of entries; a resize changes it.
    pub fn entries(&self) -> u32 {
        // SAFETY: The object is valid; the read is one aligned word.
        let cqe = unsafe { (&raw const (*self.as_raw()).cqe).read_volatile() };
        u32::try_from(cqe).unwrap_or(0)
    }

    /// Where completions are processed. `None` only for a value that no consumer can ask for.
    pub fn poll_context(&self) -> Option<PollContext> {
        // SAFETY: Set at creation.
        PollContext::from_raw(unsafe { (*self.as_raw()).poll_ctx })
    }

    /// Whether the queue belongs to the device's pool and serves several consumers.
    pub fn is_shared(&self) -> bool {
        // SAFETY: The object is valid; the byte also holds a flag that trace code writes, but
        // the bit read here changes only while the pool has the queue for itself.
        unsafe { bindings::ib_cq::shared_raw(self.as_raw()) != 0 }
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, device: &Device, completions: CompletionHandler, events: EventHandler) {
        let cq = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*cq).device = device.as_raw();
            (*cq).comp_handler = completions.0;
            (*cq).event_handler = events.function;
            (*cq).cq_context = events.context;
        }
    }

    /// Asks the driver to set up its part.
    pub fn driver_create(&self, attr: &CqInitAttr) -> Result {
        to_result(driver_op!(
            self.device(),
            create_cq(self.as_raw(), attr, core::ptr::null_mut())
        )?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_destroy(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), destroy_cq(self.as_raw(), udata))?)
    }

    /// Asks the driver to hold notifications back until `count` completions or `period`
    /// microseconds.
    pub fn driver_modify(&self, count: u16, period: u16) -> Result {
        to_result(driver_op!(
            self.device(),
            modify_cq(self.as_raw(), count, period)
        )?)
    }

    /// Asks the driver for another number of entries, with the operation that it has for user
    /// space. May sleep.
    pub fn driver_resize(&self, entries: u32) -> Result {
        to_result(driver_op!(
            self.device(),
            resize_user_cq(self.as_raw(), entries, core::ptr::null_mut())
        )?)
    }

    /// Asks the driver how many completions there are, at most `limit`.
    pub fn driver_peek(&self, limit: u32) -> Result<u32> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let count = driver_op!(self.device(), peek_cq(self.as_raw(), limit))?;
        to_result(count.min(0)).map(|()| count as u32)
    }

    /// Processes at most `budget` completions here and now (all that there are without a
    /// budget); returns how many. For queues that are polled directly.
    pub fn process_direct(&self, budget: Option<u32>) -> u32 {
        let budget = budget.map_or(-1, |n| i32::try_from(n).unwrap_or(i32::MAX));
        // SAFETY: The queue is valid.
        let done = unsafe { bindings::ib_process_cq_direct(self.as_raw(), budget) };
        u32::try_from(done).unwrap_or(0)
    }

    /// Trace point: the queue pair's side of this queue is drained.
    #[inline]
    pub fn trace_drain_complete(&self) {
        // SAFETY: The queue is valid.
        unsafe { bindings::trace_cq_drain_complete(self.as_raw()) };
    }
}
