// SPDX-License-Identifier: GPL-2.0

//! Completion queues that the core polls on behalf of a kernel user.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod builder;
pub mod pool;
mod scratch;

pub use builder::CqBuilder;

use crate::{
    device::Device,
    irq_poll::IrqPoll, //
};
use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    static_lock_class,
    types::Opaque, //
};
use scratch::Scratch;

/// Where the completions of a queue are handled, `enum ib_poll_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollContext {
    /// In the soft interrupt.
    SoftIrq,
    /// On the CPU of the interrupt, in a work queue.
    Workqueue,
    /// On any CPU, in a work queue.
    UnboundWorkqueue,
    /// Where the user calls for it.
    Direct,
}

impl PollContext {
    /// From the value that C passes; `EINVAL` for an unknown one.
    pub fn from_raw(raw: bindings::ib_poll_context) -> Result<Self> {
        match raw {
            bindings::ib_poll_context_IB_POLL_SOFTIRQ => Ok(Self::SoftIrq),
            bindings::ib_poll_context_IB_POLL_WORKQUEUE => Ok(Self::Workqueue),
            bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE => Ok(Self::UnboundWorkqueue),
            bindings::ib_poll_context_IB_POLL_DIRECT => Ok(Self::Direct),
            _ => Err(EINVAL),
        }
    }

    fn as_raw(self) -> bindings::ib_poll_context {
        match self {
            Self::SoftIrq => bindings::ib_poll_context_IB_POLL_SOFTIRQ,
            Self::Workqueue => bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            Self::UnboundWorkqueue => bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
            Self::Direct => bindings::ib_poll_context_IB_POLL_DIRECT,
        }
    }
}

/// What the queue's owner does when something happens to it.
pub trait Poller {
    /// Completions that one run in the soft interrupt may handle.
    const SOFTIRQ_BUDGET: i32;

    /// The device has new completions. Interrupt context.
    fn event(cq: &PollCq);

    /// The soft interrupt's turn: handles up to `budget` completions, returns how many it was.
    fn softirq(cq: &PollCq, turn: Turn, budget: u32) -> u32;

    /// The work queue's turn.
    fn work(cq: &PollCq, turn: Turn);

    /// The adaptive moderation has chosen profile `index`. Process context.
    fn moderate(cq: &PollCq, index: usize);
}

/// A queue that the core polls, `struct ib_cq` made by [`CqBuilder`].
///
/// # Invariants
///
/// Wraps a CQ that is fully set up; device, context, vector and size are constant.
#[repr(transparent)]
pub struct PollCq(Opaque<bindings::ib_cq>);

impl PollCq {
    /// # Safety
    ///
    /// `cq` must come from [`CqBuilder`] and not be freed during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(cq: *mut bindings::ib_cq) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*cq.cast() }
    }

    /// The wrapped C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_cq {
        self.0.get()
    }

    /// The device of the queue.
    #[inline]
    pub fn device(&self) -> &Device {
        // SAFETY: A queue keeps its device.
        unsafe { Device::from_raw((*self.as_raw()).device.cast()) }
    }

    /// Where the queue is polled; `EINVAL` if that was damaged.
    pub fn context(&self) -> Result<PollContext> {
        // SAFETY: Constant field.
        PollContext::from_raw(unsafe { (*self.as_raw()).poll_ctx })
    }

    /// Completions that the queue holds.
    #[inline]
    pub fn size(&self) -> u32 {
        // SAFETY: Constant field.
        u32::try_from(unsafe { (*self.as_raw()).cqe }).unwrap_or(0)
    }

    /// Completion vector.
    #[inline]
    pub fn vector(&self) -> u32 {
        // SAFETY: Constant field.
        unsafe { (*self.as_raw()).comp_vector }
    }

    /// QPs and others that still deliver here.
    pub fn users(&self) -> i32 {
        // SAFETY: A word that others change atomically.
        unsafe { (&raw const (*self.as_raw()).usecnt.counter).read_volatile() }
    }

    /// Asks the device for an event at the next completion. `true` if completions have come
    /// meanwhile that no event will tell of.
    pub fn rearm(&self) -> bool {
        let flags = bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP
            | bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
        self.notify(flags) > 0
    }

    fn notify(&self, flags: bindings::ib_cq_notify_flags) -> c_int {
        match self.device().ops().req_notify_cq {
            // SAFETY: The driver's operation on its own live queue.
            Some(op) => unsafe { op(self.as_raw(), flags) },
            None => 0,
        }
    }

    /// The poller of the soft interrupt. `None` for queues of other contexts.
    pub fn irq_poll(&self) -> Option<&IrqPoll> {
        match self.context() {
            // SAFETY: Set up before the queue of this context was armed.
            Ok(PollContext::SoftIrq) => Some(unsafe {
                IrqPoll::from_raw((&raw mut (*self.as_raw()).__bindgen_anon_1.iop).cast())
            }),
            _ => None,
        }
    }

    /// Queues the work of a queue that is polled in a work queue; does nothing for others.
    pub fn queue_work(&self) {
        if let Ok(PollContext::Workqueue | PollContext::UnboundWorkqueue) = self.context() {
            // SAFETY: Work and work queue are set up before a queue of these contexts was armed.
            unsafe {
                bindings::queue_work_on(
                    bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                    (*self.as_raw()).comp_wq,
                    (&raw mut (*self.as_raw()).__bindgen_anon_1.work).cast(),
                );
            }
        }
    }

    /// Tells the adaptive moderation, if there is one, of `completions` handled. From the poll
    /// context only.
    #[inline]
    pub fn sample_moderation(&self, completions: u32) {
        // SAFETY: Constant pointer, null or to the queue's own moderation.
        unsafe {
            let dim = (*self.as_raw()).dim;
            if !dim.is_null() {
                bindings::rdma_dim(dim, completions.into());
            }
        }
    }

    /// Sets when the device raises an event: after `count` completions or `usec` microseconds.
    #[inline]
    pub fn modify(&self, count: u16, usec: u16) {
        // SAFETY: A live queue.
        unsafe { bindings::trace_cq_modify(self.as_raw(), count, usec) };
        if let Some(op) = self.device().ops().modify_cq {
            // SAFETY: The driver's operation on its own live queue. A refusal leaves things as
            // they were.
            unsafe { op(self.as_raw(), count, usec) };
        }
    }

    /// The memory of the poll context.
    fn scratch(&self) -> *mut bindings::ib_wc {
        // SAFETY: Constant field.
        unsafe { (*self.as_raw()).wc }
    }

    /// Traces that an event is about to start the polling.
    #[inline]
    pub fn trace_schedule(&self) {
        // SAFETY: A live queue.
        unsafe { bindings::trace_cq_schedule(self.as_raw()) }
    }

    /// Traces that polling goes on because of a missed event.
    #[inline]
    pub fn trace_reschedule(&self) {
        // SAFETY: A live queue.
        unsafe { bindings::trace_cq_reschedule(self.as_raw()) }
    }

    /// Traces the start of a round of polling.
    #[inline]
    pub fn trace_process(&self) {
        // SAFETY: A live queue.
        unsafe { bindings::trace_cq_process(self.as_raw()) }
    }

    /// Calls `f` with the scratch array of the queue's poll context.
    pub fn with_own_batch<R>(&self, _turn: &Turn, f: impl FnOnce(WcBatch<'_>) -> R) -> R {
        // SAFETY: The queue's own; `Turn` is only made in the poll context, of which one instance
        // runs at a time.
        f(unsafe { Scratch::batch(self.scratch()) })
    }

    /// Stops polling and waits for what runs. The queue must have no users.
    fn quiesce(&self) {
        match self.context() {
            Ok(PollContext::Direct) | Err(_) => {}
            Ok(PollContext::SoftIrq) => {
                if let Some(poll) = self.irq_poll() {
                    poll.disable();
                    // SAFETY: The queue's own, and the poller is disabled.
                    unsafe { Scratch::settle(self.scratch()) };
                }
            }
            Ok(PollContext::Workqueue | PollContext::UnboundWorkqueue) => {
                // The device may have another event until its part of the queue is destroyed, which
                // must not queue the work again.
                // SAFETY: The work is set up; it is waited for in process context.
                unsafe {
                    bindings::disable_work_sync(
                        (&raw mut (*self.as_raw()).__bindgen_anon_1.work).cast(),
                    );
                }
            }
        }
    }

    /// # Safety
    ///
    /// `cq` must be owned by the caller, without users, and is gone afterwards.
    #[inline]
    unsafe fn free(cq: *mut bindings::ib_cq) -> bool {
        // SAFETY: Live by the contract.
        let this = unsafe { PollCq::from_raw(cq) };
        let ops = this.device().ops();
        // SAFETY: The entry was added when the queue was made.
        unsafe { bindings::rdma_restrack_del(&raw mut (*cq).res) };
        let mut clean = true;
        if let Some(op) = ops.pre_destroy_cq {
            // SAFETY: The driver's operation on its own live queue.
            clean &= unsafe { op(cq) } == 0;
        }
        this.quiesce();
        // SAFETY: Polling has stopped, so nothing feeds the moderation; the queue is live.
        unsafe {
            drop(Moderation::take(cq));
            bindings::trace_cq_free(cq);
        }
        // SAFETY: The driver's operations on its own queue, which nobody uses any more.
        unsafe {
            match (ops.post_destroy_cq, ops.destroy_cq) {
                (Some(op), _) => op(cq),
                (None, Some(op)) => clean &= op(cq, core::ptr::null_mut()) == 0,
                (None, None) => {}
            }
        }
        // SAFETY: Both allocated by `CqBuilder::new`, and nothing points at them now.
        unsafe {
            Scratch::free((*cq).wc);
            bindings::kfree(cq.cast());
        }
        clean
    }
}

/// A queue and the right to end it.
///
/// # Invariants
///
/// Points at a live queue made by [`CqBuilder`] that this object owns.
pub struct OwnedCq(NonNull<bindings::ib_cq>);

impl OwnedCq {
    /// # Safety
    ///
    /// `cq` must come from [`Self::into_raw`] and be taken back once.
    pub unsafe fn from_raw(cq: NonNull<bindings::ib_cq>) -> Self {
        // INVARIANT: Promised by the caller.
        Self(cq)
    }

    /// Leaves the queue to C, which gives it back when it is no longer needed.
    pub fn into_raw(self) -> NonNull<bindings::ib_cq> {
        ManuallyDrop::new(self).0
    }

    /// Takes the queue out of the resource lists, stops its polling, destroys and frees it. May
    /// sleep. Returns whether the driver did its part without an error.
    #[inline]
    pub fn free(self) -> bool {
        // SAFETY: Owned by the type invariant, and gone with `self`.
        unsafe { PollCq::free(self.into_raw().as_ptr()) }
    }
}

impl Deref for OwnedCq {
    type Target = PollCq;

    fn deref(&self) -> &PollCq {
        // SAFETY: Live by the type invariant.
        unsafe { PollCq::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedCq {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Owned by the type invariant, and gone with `self`.
        unsafe { PollCq::free(self.0.as_ptr()) };
    }
}

/// Proof of running in the poll context of a queue, of which one instance runs at a time.
pub struct Turn(());

/// Room for a batch of completions.
pub struct WcBatch<'a> {
    wcs: &'a mut [MaybeUninit<bindings::ib_wc>],
}

impl WcBatch<'_> {
    /// Calls `f` with room for `N` completions on the stack.
    pub fn with_stack<const N: usize, R>(f: impl FnOnce(WcBatch<'_>) -> R) -> R {
        let mut wcs = [const { MaybeUninit::uninit() }; N];
        f(WcBatch { wcs: &mut wcs })
    }

    /// Completions that fit.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.wcs.len() as u32
    }

    /// Takes up to `max` completions from `cq` and hands each to its user.
    ///
    /// Returns how many there were, and how many of these were successes without a user.
    #[inline]
    pub fn poll(&mut self, cq: &PollCq, max: u32) -> Polled {
        let want = max.min(self.capacity());
        let raw = cq.as_raw();
        let rc = match cq.device().ops().poll_cq {
            // SAFETY: The driver's operation on its own live queue, with room for `want` entries.
            Some(op) => unsafe { op(raw, want as c_int, self.wcs.as_mut_ptr().cast()) },
            None => 0,
        };
        // SAFETY: A live queue.
        unsafe { bindings::trace_cq_poll(raw, want as c_int, rc) };
        let count = u32::try_from(rc).unwrap_or(0).min(want);
        let mut orphans = 0;
        for wc in self.wcs.iter_mut().take(count as usize) {
            // SAFETY: The driver has filled this entry. The queue's users name a completion
            // entry for each of their work requests, which stays until its completion.
            unsafe {
                let wc = wc.as_mut_ptr();
                let cqe = (*wc).__bindgen_anon_1.wr_cqe;
                if let Some(done) = NonNull::new(cqe).and_then(|cqe| (*cqe.as_ptr()).done) {
                    done(raw, wc);
                } else if (*wc).status == bindings::ib_wc_status_IB_WC_SUCCESS {
                    orphans += 1;
                }
            }
        }
        Polled { count, orphans }
    }
}

/// What one poll has found.
#[derive(Clone, Copy)]
pub struct Polled {
    /// Completions.
    pub count: u32,
    /// Successful ones among them that named no user.
    pub orphans: u32,
}

/// The adaptive moderation of a queue.
struct Moderation(NonNull<bindings::dim>);

impl Moderation {
    /// # Safety
    ///
    /// `cq` must be live and stay until the moderation is taken.
    unsafe fn attach<P: Poller>(cq: *mut bindings::ib_cq) -> Result {
        let mut dim = KBox::<bindings::dim>::new(pin_init::zeroed(), GFP_KERNEL)?;
        dim.state = bindings::dim_state_DIM_START_MEASURE as u8;
        dim.tune_state = bindings::dim_tune_state_DIM_GOING_RIGHT as u8;
        dim.profile_ix = bindings::RDMA_DIM_START_PROFILE as u8;
        dim.priv_ = cq.cast();
        let dim = KBox::into_raw(dim);
        // SAFETY: Both are live; the work lies in memory that does not move.
        unsafe {
            init_work(&raw mut (*dim).work, dim_shim::<P>, c"rdma_dim");
            (*cq).dim = dim;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// `cq` must be live, and nothing may feed its moderation any more.
    unsafe fn take(cq: *mut bindings::ib_cq) -> Option<Self> {
        // SAFETY: Live by the contract.
        unsafe {
            let dim = NonNull::new((*cq).dim)?;
            (*cq).dim = core::ptr::null_mut();
            Some(Self(dim))
        }
    }
}

impl Drop for Moderation {
    fn drop(&mut self) {
        // SAFETY: Made by `attach`, taken out of the queue, and fed no more.
        unsafe {
            bindings::cancel_work_sync(&raw mut (*self.0.as_ptr()).work);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// # Safety
///
/// `work` must be writable and stay where it is.
unsafe fn init_work(
    work: *mut bindings::work_struct,
    func: unsafe extern "C" fn(*mut bindings::work_struct),
    name: &'static CStr,
) {
    // SAFETY: Writable by the contract.
    unsafe {
        bindings::init_work_with_key(
            work,
            Some(func),
            false,
            name.as_char_ptr(),
            static_lock_class!().as_ptr(),
        )
    }
}

/// # Safety
///
/// Called by the work queue with the work of a moderation that has not been dropped.
unsafe extern "C" fn dim_shim<P: Poller>(work: *mut bindings::work_struct) {
    // SAFETY: The work lies in a `dim`, whose private pointer is its queue.
    unsafe {
        let dim = kernel::container_of!(work, bindings::dim, work);
        (*dim).state = bindings::dim_state_DIM_START_MEASURE as u8;
        P::moderate(
            PollCq::from_raw((*dim).priv_.cast()),
            (*dim).profile_ix.into(),
        );
    }
}

/// # Safety
///
/// Called by a driver with a live queue.
unsafe extern "C" fn event_shim<P: Poller>(cq: *mut bindings::ib_cq, _context: *mut c_void) {
    // SAFETY: Live by the contract.
    P::event(unsafe { PollCq::from_raw(cq) })
}

/// # Safety
///
/// Called by the soft interrupt with the poller of a live queue.
unsafe extern "C" fn softirq_shim<P: Poller>(iop: *mut bindings::irq_poll, budget: c_int) -> c_int {
    // SAFETY: The poller lies in the union of a queue, and is scheduled.
    unsafe {
        let cq = PollCq::from_raw(cq_of(iop.cast()));
        Scratch::turn(cq.scratch(), || {
            P::softirq(cq, Turn(()), budget.max(0) as u32) as c_int
        })
    }
}

/// # Safety
///
/// Called by the work queue with the work of a live queue.
unsafe extern "C" fn work_shim<P: Poller>(work: *mut bindings::work_struct) {
    // SAFETY: The work lies in the union of a queue.
    P::work(unsafe { PollCq::from_raw(cq_of(work.cast())) }, Turn(()))
}

/// The queue around its union of poller and work.
///
/// # Safety
///
/// `inner` must point at that union of a live queue.
unsafe fn cq_of(inner: *mut c_void) -> *mut bindings::ib_cq {
    // SAFETY: Within the queue by the contract.
    unsafe {
        inner
            .byte_sub(core::mem::offset_of!(bindings::ib_cq, __bindgen_anon_1))
            .cast()
    }
}

/// Traces a new queue.
#[inline]
pub fn trace_alloc(cq: &PollCq, entries: i32, vector: i32, context: bindings::ib_poll_context) {
    // SAFETY: A live queue.
    unsafe { bindings::trace_cq_alloc(cq.as_raw(), entries, vector, context) }
}

/// Traces a queue that could not be had.
#[inline]
pub fn trace_alloc_error(entries: i32, vector: i32, context: bindings::ib_poll_context, e: Error) {
    // SAFETY: Takes values only.
    unsafe { bindings::trace_cq_alloc_error(entries, vector, context, e.to_errno()) }
}

/// CPUs that are running.
pub fn online_cpus() -> u32 {
    // SAFETY: Reads a counter.
    unsafe { bindings::rdma_num_online_cpus() }
}
