// SPDX-License-Identifier: GPL-2.0

//! Making a queue that the core polls.

use super::{
    event_shim,
    init_work,
    scratch::Scratch,
    softirq_shim,
    work_shim,
    Moderation,
    OwnedCq,
    PollContext,
    PollCq,
    Poller, //
};
use crate::{
    device::Device,
    irq_poll::IrqPoll, //
};
use core::{
    alloc::Layout,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        allocator::Kmalloc,
        Allocator,
        NumaNode, //
    },
    bindings,
    error::to_result,
    prelude::*, //
};

/// A queue under construction.
///
/// # Invariants
///
/// `cq` is memory of the driver's size with a resource entry that has not been added; `created`
/// tells whether the driver has set up its part.
pub struct CqBuilder<'a> {
    device: &'a Device,
    cq: NonNull<bindings::ib_cq>,
    created: bool,
}

impl<'a> CqBuilder<'a> {
    /// Completions that the poll contexts take in one go.
    pub const BATCH: usize = 16;

    /// Memory for a queue whose user is known to it as `private` and to others as `owner`.
    ///
    /// # Safety
    ///
    /// `owner` must be null or a string that outlives the queue.
    pub unsafe fn new(
        device: &'a Device,
        private: *mut c_void,
        vector: u32,
        context: PollContext,
        owner: *const c_char,
    ) -> Result<Self> {
        // SAFETY: Constant field of a live device.
        let size = unsafe { (*device.as_raw()).ops.size_ib_cq };
        let layout = Layout::from_size_align(
            size.max(size_of::<bindings::ib_cq>()),
            align_of::<bindings::ib_cq>(),
        )
        .map_err(|_| EINVAL)?;
        let cq = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?
            .cast::<bindings::ib_cq>();
        let raw = cq.as_ptr();
        let scratch = Scratch::alloc().inspect_err(|_| {
            // SAFETY: Allocated above.
            unsafe { bindings::kfree(raw.cast()) };
        })?;
        // SAFETY: Zeroed memory of at least the size of a queue, not yet shared.
        unsafe {
            (*raw).device = device.as_raw().cast();
            (*raw).cq_context = private;
            (*raw).poll_ctx = context.as_raw();
            (*raw).comp_vector = vector;
            (*raw).wc = scratch;
            let res = &raw mut (*raw).res;
            bindings::rdma_restrack_new(res, bindings::rdma_restrack_type_RDMA_RESTRACK_CQ);
            bindings::rdma_restrack_set_name(res, owner);
        }
        // INVARIANT: As just set up.
        Ok(Self {
            device,
            cq,
            created: false,
        })
    }

    /// A queue of `entries` completions that several users are to share; made by the driver.
    pub fn shared(
        device: &'a Device,
        vector: u32,
        context: PollContext,
        entries: i32,
    ) -> Result<Self> {
        // The owner that the resource lists show is this module.
        let owner = c"ib_core".as_char_ptr();
        // SAFETY: The owner's name is static.
        let mut cq = unsafe { Self::new(device, core::ptr::null_mut(), vector, context, owner)? };
        cq.create(entries)?;
        Ok(cq)
    }

    /// Lets the driver make a queue of at least `entries` completions.
    pub fn create(&mut self, entries: i32) -> Result {
        let raw = self.cq.as_ptr();
        let op = self.device.ops().create_cq.ok_or(EOPNOTSUPP)?;
        // SAFETY: Not yet shared.
        let vector = unsafe { (*raw).comp_vector };
        let attr = bindings::ib_cq_init_attr {
            cqe: entries as u32,
            comp_vector: vector,
            ..pin_init::zeroed()
        };
        // SAFETY: The driver's operation on a new queue; a null bundle marks a kernel user.
        to_result(unsafe { op(raw, &attr, core::ptr::null_mut()) })?;
        // INVARIANT: The driver has done its part.
        self.created = true;
        Ok(())
    }

    /// Starts polling through `P` and makes the queue known to the resource lists.
    pub fn start<P: Poller>(self, moderate: bool) -> OwnedCq {
        let raw = ManuallyDrop::new(self).cq.as_ptr();
        // SAFETY: The queue is complete but for the poller, and not yet armed.
        unsafe {
            (*raw).comp_handler = Some(event_shim::<P>);
            let union = &raw mut (*raw).__bindgen_anon_1;
            let cq = PollCq::from_raw(raw);
            match cq.context() {
                Ok(PollContext::SoftIrq) => {
                    IrqPoll::init(union.cast(), P::SOFTIRQ_BUDGET, softirq_shim::<P>);
                }
                Ok(context @ (PollContext::Workqueue | PollContext::UnboundWorkqueue)) => {
                    init_work(union.cast(), work_shim::<P>, c"ib_cq_poll");
                    (*raw).comp_wq = if context == PollContext::Workqueue {
                        bindings::ib_comp_wq
                    } else {
                        bindings::ib_comp_unbound_wq
                    };
                }
                Ok(PollContext::Direct) | Err(_) => {}
            }
            let direct = matches!(cq.context(), Ok(PollContext::Direct));
            if moderate && !direct {
                // Without memory for it the queue works as well.
                let _ = Moderation::attach::<P>(raw);
            }
            if !direct {
                cq.notify(bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP);
            }
            bindings::rdma_restrack_add(&raw mut (*raw).res);
            // INVARIANT: Complete, and nobody else's.
            OwnedCq(NonNull::new_unchecked(raw))
        }
    }
}

impl Drop for CqBuilder<'_> {
    fn drop(&mut self) {
        let raw = self.cq.as_ptr();
        // SAFETY: Never shared; the driver's part is there if `created`.
        unsafe {
            if let (true, Some(op)) = (self.created, self.device.ops().destroy_cq) {
                op(raw, core::ptr::null_mut());
            }
            bindings::rdma_restrack_put(&raw mut (*raw).res);
            Scratch::free((*raw).wc);
            bindings::kfree(raw.cast());
        }
    }
}
