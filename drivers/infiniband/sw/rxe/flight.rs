// SPDX-License-Identifier: GPL-2.0

//! How many buffers of a queue pair the network stack has.
//!
//! Each buffer that is sent owns a share of its queue pair's [`Flight`], not of the queue pair: so a
//! queue pair is destroyed at once, whatever a queueing discipline keeps, and freeing the buffers
//! later is harmless. Only the module has to stay until the last one is freed, see [`settle`].
//!
//! A queue pair pauses at [`INFLIGHT_HIGH`] buffers and is woken at
//! [`INFLIGHT_LOW`].

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        rcu,
        Arc,
        SpinLockIrq, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use rdma::{
    kmod::synchronize_tasks,
    net::skb::Flow, //
};

use crate::params::{
    INFLIGHT_HIGH,
    INFLIGHT_LOW, //
};

/// Flights that exist, of all devices.
static LIVE: Atomic<usize> = Atomic::new(0);

/// Is woken when there is room for buffers again. Bottom halves may be off or on.
pub(crate) trait Wake: Send + Sync + 'static {
    /// There is room.
    fn wake(self: Arc<Self>);
}

/// The count of a queue pair.
#[pin_data(PinnedDrop)]
pub(crate) struct Flight<W: Wake> {
    buffers: Atomic<u32>,
    /// Whether the sender waits for room.
    paused: Atomic<bool>,
    #[pin]
    sender: SpinLockIrq<Option<Arc<W>>>,
}

impl<W: Wake> Flight<W> {
    /// A count of 0, of nobody's buffers.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                buffers: {
                    LIVE.fetch_add(1, Relaxed);
                    Atomic::new(0)
                },
                paused: Atomic::new(false),
                sender <- new_spinlock_irq!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Says who is to be woken, or nobody any more.
    pub(crate) fn set_sender(&self, sender: Option<Arc<W>>) {
        let old = core::mem::replace(&mut *self.sender.lock(), sender);
        drop(old);
    }

    /// Whether another buffer may be sent. If not, the sender will be woken.
    pub(crate) fn has_room(&self) -> bool {
        if self.buffers.load(Relaxed) < INFLIGHT_HIGH {
            return true;
        }
        // Fully ordered, as is the count of a release: either the flag is seen there, or the room
        // here.
        self.paused.xchg(true, Full);
        // The flag stays, as the other side of the queue pair may have set it, too: at worst the
        // sender is woken once for nothing.
        self.buffers.load(Relaxed) <= INFLIGHT_LOW
    }

    /// Counts a buffer that is about to be sent, which has to be given the result as its flow.
    pub(crate) fn launch(self: &Arc<Self>) -> Arc<Self> {
        self.buffers.fetch_add(1, Relaxed);
        self.clone()
    }
}

impl<W: Wake> Flow for Flight<W> {
    fn released(&self) {
        let left = self.buffers.fetch_sub(1, Full).wrapping_sub(1);
        if left > INFLIGHT_LOW || !self.paused.load(Relaxed) || !self.paused.xchg(false, Full) {
            return;
        }
        let sender = self.sender.lock().clone();
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

#[pinned_drop]
impl<W: Wake> PinnedDrop for Flight<W> {
    fn drop(self: Pin<&mut Self>) {
        LIVE.fetch_sub(1, Full);
    }
}

/// Waits until no buffer refers to this module any more. To be called when there is no queue pair
/// left. May sleep for as long as a queueing discipline keeps packets.
pub(crate) fn settle() {
    const STEP: Delta = Delta::from_millis(10);
    const STEPS_PER_LINE: u32 = 1000;

    let mut steps = 0u32;
    loop {
        let left = LIVE.load(Acquire);
        if left == 0 {
            break;
        }
        steps = steps.wrapping_add(1);
        if steps % STEPS_PER_LINE == 0 {
            pr_info!("waiting for packets of {left} queue pairs in the queues of interfaces\n");
        }
        fsleep(STEP);
    }
    // Whoever released the last buffer may have been preempted on the way out of this module.
    synchronize_tasks();
    // Tables of objects free their entries after a grace period.
    rcu::rcu_barrier();
}
