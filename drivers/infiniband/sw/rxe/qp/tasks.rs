// SPDX-License-Identifier: GPL-2.0

//! The tasks of a queue pair, which run on the device's work queue: one for each side, and the timer
//! of the send side.
//!
//! A work item that is queued while it runs runs once more, so a task only has to look at what is
//! there. It yields after a budget.

use kernel::{
    sync::Arc,
    workqueue::WorkItem, //
};
use rdma::{
    jiffies::{
        jiffies_to_cover,
        monotonic_nanos, //
    },
    net::skb::{
        Family,
        SkBuff, //
    },
};

use super::{
    attrs::Attrs,
    recv::RecvCtx,
    send::{
        SendCtx,
        Sender, //
    },
    Outbox,
    QpCore, //
};
use crate::{
    device::Shared,
    params::TASK_BUDGET,
    proto::{
        attrs::{
            Mtu,
            Progress, //
        },
        recv::Verdict,
        state::{
            Failure,
            QpState, //
        },
    },
    wire::packet::Packet,
};

/// Numbers of the work items.
pub(super) const SEND: u64 = 0;
/// As [`SEND`].
pub(super) const RECV: u64 = 1;
/// As [`SEND`].
pub(super) const TIMER: u64 = 2;

/// A packet that a task has taken off its queue.
pub(super) struct Received {
    skb: SkBuff,
    pub(super) packet: Packet,
}

impl Received {
    /// The form was checked when the packet came.
    pub(super) fn new(skb: SkBuff) -> Option<Self> {
        let packet = Packet::parse(skb.head()).ok()?;
        Some(Self { skb, packet })
    }

    /// The payload, without padding.
    pub(super) fn payload(&self) -> &[u8] {
        let start = usize::from(self.packet.headers_len);
        self.skb
            .head()
            .get(start..)
            .and_then(|rest| rest.get(..self.packet.payload_len as usize))
            .unwrap_or(&[])
    }

    /// The family of the IP header.
    pub(super) fn family(&self) -> Option<Family> {
        self.skb.family()
    }

    /// The VLAN that the packet came in.
    pub(super) fn vlan(&self) -> Option<u16> {
        self.skb.vlan()
    }

    /// The IP header.
    pub(super) fn ip_header(&self) -> &[u8] {
        self.skb.ip_header().unwrap_or(&[])
    }
}

impl WorkItem<SEND> for QpCore {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.run_send(false);
    }
}

impl WorkItem<RECV> for QpCore {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.run_recv();
    }
}

impl WorkItem<TIMER> for QpCore {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.run_send(true);
    }
}

/// The MTU of the port, as the protocol knows it.
pub(super) fn port_mtu(shared: &Shared) -> Mtu {
    Mtu::from_code(shared.mtu() as u32).unwrap_or(Mtu::B256)
}

impl QpCore {
    /// Has the send task run soon. Any context.
    pub(super) fn schedule_send(self: &Arc<Self>) {
        let _ = self.shared.queue.enqueue::<_, SEND>(self.clone());
    }

    /// Has the receive task run soon. Any context.
    pub(super) fn schedule_recv(self: &Arc<Self>) {
        let _ = self.shared.queue.enqueue::<_, RECV>(self.clone());
    }

    /// Handles responses, the timer and new requests. May sleep.
    fn run_send(self: &Arc<Self>, by_timer: bool) {
        let mut sender = self.send.lock();
        let Some(way) = self.way() else { return };
        let mut outbox = Outbox::default();
        let Sender {
            side,
            routes,
            armed,
        } = &mut *sender;
        if by_timer {
            *armed = None;
        }
        side.set_port_mtu(port_mtu(&self.shared));
        let mut ctx = SendCtx::new(self, &way, routes, &mut outbox);
        for _ in 0..TASK_BUDGET {
            let Some(skb) = self.responses.pop_front() else {
                break;
            };
            if let Some(rx) = Received::new(skb) {
                side.input(&mut ctx, &rx.packet, &rx);
            }
        }
        // After the responses, which may have come in time.
        if side.deadline().is_some_and(|at| at <= monotonic_nanos()) {
            side.timer(&mut ctx);
        }
        let progress = side.run(&mut ctx, TASK_BUDGET);
        let again = progress == Progress::More || !self.responses.is_empty();
        self.arm_timer(&mut sender);
        drop(sender);
        outbox.deliver(self);
        if again {
            self.schedule_send();
        }
    }

    /// Makes sure that the timer runs by the deadline of the side. One that is set for an earlier
    /// time is left alone: it finds nothing to do, and sets itself anew.
    fn arm_timer(self: &Arc<Self>, sender: &mut Sender) {
        let Some(deadline) = sender.side.deadline() else {
            return;
        };
        if sender.armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        sender.armed = Some(deadline);
        let delay = jiffies_to_cover(deadline.saturating_sub(monotonic_nanos()));
        self.shared
            .queue
            .reschedule::<_, TIMER>(self.clone(), delay);
    }

    /// Handles requests of the peer. May sleep.
    fn run_recv(self: &Arc<Self>) {
        let mut outbox = Outbox::default();
        let again;
        {
            let mut responder = self.recv.lock();
            let Some(way) = self.way() else { return };
            let responder = &mut *responder;
            let side = &mut responder.side;
            let mut ctx = RecvCtx::new(self, &way, &mut responder.routes, &mut outbox);
            let mut progress = Progress::Idle;
            let mut budget = TASK_BUDGET;
            while budget > 0 && progress == Progress::Idle {
                let next = responder
                    .waiting
                    .take()
                    .or_else(|| Received::new(self.requests.pop_front()?));
                let Some(rx) = next else {
                    break;
                };
                budget -= 1;
                ctx.arrived(&rx);
                if side.input(&mut ctx, &rx.packet, &rx) == Verdict::Busy {
                    responder.waiting = Some(rx);
                    progress = side.run(&mut ctx, TASK_BUDGET);
                }
            }
            if progress == Progress::Idle {
                progress = side.run(&mut ctx, TASK_BUDGET);
            }
            let waiting = responder.waiting.is_some() || !self.requests.is_empty();
            again = progress == Progress::More || (progress == Progress::Idle && waiting);
        }
        outbox.deliver(self);
        if again {
            self.schedule_recv();
        }
    }

    /// A side has failed: the whole queue pair fails, or only its send queue, where there is a state
    /// for that. The caller holds no lock. May sleep.
    pub(super) fn spread_failure(self: &Arc<Self>) {
        let mut outbox = Outbox::default();
        {
            let attrs = self.attrs.lock();
            let send = self.send.lock().side.state();
            let recv = self.recv.lock().side.state();
            match Failure::of(send, recv) {
                Some(Failure::QueuePair) => self.fail(&attrs, &mut outbox),
                Some(Failure::SendQueue) => {
                    self.gate.lock().state = QpState::Sqe;
                    // What is in the ring is flushed by the task.
                    self.schedule_send();
                }
                None => (),
            }
        }
        outbox.tell(self);
    }

    /// To the error state: everything is flushed. The caller changes the state, which `attrs` shows, and
    /// tells what the outbox has got when it holds no lock any more. May sleep.
    pub(super) fn fail(self: &Arc<Self>, _attrs: &Attrs, outbox: &mut Outbox) {
        let way = {
            let mut gate = self.gate.lock();
            if gate.closed {
                return;
            }
            gate.state = QpState::Err;
            gate.way()
        };
        {
            let mut responder = self.recv.lock();
            let responder = &mut *responder;
            responder.waiting = None;
            let mut ctx = RecvCtx::new(self, &way, &mut responder.routes, outbox);
            responder.side.fail(&mut ctx);
        }
        {
            let mut sender = self.send.lock();
            let Sender { side, routes, .. } = &mut *sender;
            let mut ctx = SendCtx::new(self, &way, routes, outbox);
            side.fail(&mut ctx);
        }
        self.requests.clear();
        self.responses.clear();
        // What is in the rings is flushed by the tasks.
        self.schedule_recv();
        self.schedule_send();
    }
}
