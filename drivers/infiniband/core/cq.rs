// SPDX-License-Identifier: GPL-2.0

//! Completion queues that are polled on behalf of kernel users.
//!
//! A queue belongs to one poll context, in which its completions are handed to the users that
//! their work requests name. Polling is serialised by that context: by the soft interrupt's
//! poller, or by the work item. A queue of the direct context is serialised by its user.

mod pool;

pub(crate) use pool::{
    cleanup,
    get,
    put, //
};

use core::sync::atomic::{
    AtomicU32,
    Ordering, //
};
use kernel::bindings;
use rdma::{
    device::Device,
    poll_cq::{
        online_cpus,
        pool::claimed,
        CqBuilder,
        OwnedCq,
        PollContext,
        PollCq,
        Poller,
        Turn,
        WcBatch, //
    },
    warn_on_once,
    warn_once, //
};

/// Completions of a direct queue that are taken in one go, on the caller's stack.
const DIRECT_BATCH: usize = 8;

/// Completions that one run of the work item may handle before others get their turn.
const WORK_BUDGET: u32 = 65536;

/// When a device should raise events: after `count` completions or `usec` microseconds.
struct Moderation {
    usec: u16,
    count: u16,
}

const fn moderation(usec: u16, count: u16) -> Moderation {
    Moderation { usec, count }
}

/// The profiles of the adaptive moderation, from low latency to few events.
const PROFILES: [Moderation; bindings::RDMA_DIM_PARAMS_NUM_PROFILES as usize] = [
    moderation(1, 1),
    moderation(1, 4),
    moderation(2, 4),
    moderation(2, 8),
    moderation(4, 8),
    moderation(16, 8),
    moderation(16, 16),
    moderation(32, 16),
    moderation(32, 32),
];

/// Handles completions of `cq` until it is empty or `budget` (`None`: no limit) is used up.
/// Returns how many.
pub(crate) fn process(cq: &PollCq, budget: Option<u32>, mut batch: WcBatch<'_>) -> u32 {
    cq.trace_process();
    let mut done = 0u32;
    loop {
        let left = budget.map_or(u32::MAX, |b| b.saturating_sub(done));
        if left == 0 {
            return done;
        }
        let polled = batch.poll(cq, left);
        done = done.wrapping_add(polled.count);
        if polled.orphans != 0 {
            warn_on_once!(true);
        }
        if polled.count < batch.capacity() {
            return done;
        }
    }
}

/// [`process`] in the caller's context.
pub(crate) fn process_direct(cq: &PollCq, budget: Option<u32>) -> u32 {
    WcBatch::with_stack::<DIRECT_BATCH, _>(|batch| process(cq, budget, batch))
}

/// What the core does with the queues that it polls.
enum CorePoller {}

impl Poller for CorePoller {
    const SOFTIRQ_BUDGET: i32 = 256;

    fn event(cq: &PollCq) {
        match cq.context() {
            Ok(PollContext::Direct) | Err(_) => {
                warn_once!("got unsolicited completion for a directly polled CQ\n");
            }
            Ok(PollContext::SoftIrq) => {
                cq.trace_schedule();
                if let Some(poll) = cq.irq_poll() {
                    poll.schedule();
                }
            }
            Ok(PollContext::Workqueue | PollContext::UnboundWorkqueue) => {
                cq.trace_schedule();
                cq.queue_work();
            }
        }
    }

    fn softirq(cq: &PollCq, turn: Turn, budget: u32) -> u32 {
        let done = cq.with_own_batch(&turn, |batch| process(cq, Some(budget), batch));
        // Another CPU may have its turn as soon as this one is complete.
        cq.sample_moderation(done);
        if done < budget {
            if let Some(poll) = cq.irq_poll() {
                poll.complete();
                if cq.rearm() {
                    cq.trace_reschedule();
                    poll.schedule();
                }
            }
        }
        done
    }

    fn work(cq: &PollCq, turn: Turn) {
        let done = cq.with_own_batch(&turn, |batch| process(cq, Some(WORK_BUDGET), batch));
        if done >= WORK_BUDGET || cq.rearm() {
            cq.queue_work();
        } else {
            cq.sample_moderation(done);
        }
    }

    fn moderate(cq: &PollCq, index: usize) {
        if let Some(profile) = PROFILES.get(index) {
            cq.modify(profile.count, profile.usec);
        }
    }
}

/// Starts the polling of a queue that its driver has made.
pub(crate) fn start(builder: CqBuilder<'_>, device: &Device) -> OwnedCq {
    let moderate = device.ops().modify_cq.is_some() && device.use_cq_dim();
    builder.start::<CorePoller>(moderate)
}

/// Picks a completion vector for a user that does not care, each time the next one.
pub(crate) fn any_vector(device: &Device) -> i32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);

    match vectors(device) {
        0 | 1 => 0,
        vectors => {
            let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            next.checked_rem(vectors).unwrap_or(0) as i32
        }
    }
}

/// Vectors of the device that are worth using: no more than there are CPUs.
fn vectors(device: &Device) -> u32 {
    let vectors = u32::try_from(device.num_comp_vectors()).unwrap_or(0);
    vectors.min(online_cpus())
}

/// Whether a queue can be freed. One that is in use is reported and kept.
pub(crate) fn is_unused(cq: &PollCq) -> bool {
    if cq.users() != 0 || claimed(cq) != 0 {
        warn_on_once!(true);
        return false;
    }
    true
}

/// Ends a queue. May sleep.
pub(crate) fn free(cq: OwnedCq) {
    if !cq.free() {
        warn_once!("Destroy of kernel CQ shouldn't fail\n");
    }
}
