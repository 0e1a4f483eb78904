// SPDX-License-Identifier: GPL-2.0

//! Where the two sides of a queue pair run.
//!
//! Packets are worked on in a softirq, soon after the one that has received them: so those that have
//! come together are worked on together, and no task has to be woken. What a process posts is sent
//! within its call. The tasks of the device's work queue, one for each side and the timer, do what is
//! left: what consumers in the kernel post, from any context; what may sleep, see [`Sleepers`]; and
//! failures.
//!
//! A work item that is queued while it runs runs once more, so it only has to look at what is there.
//! It yields after a budget. Only one thread works on a side at a time. Who finds it taken and cannot
//! wait leaves, and the other one looks again, see [`Side`](super::side::Side).
//!
//! [`Sleepers`]: crate::mem::Sleepers

use kernel::{
    sync::{
        atomic::ordering::{
            Full,
            Relaxed,
            Release, //
        },
        rcu,
        Arc, //
    },
    workqueue::WorkItem, //
};
use rdma::{
    jiffies::{
        jiffies_to_cover,
        monotonic_nanos, //
    },
    net::skb::{
        Family,
        SkBuff,
        SkbList,
        SkbQueue, //
    },
    softirq,
};

use super::{
    attrs::Attrs,
    recv::{
        RecvCtx,
        Responder, //
    },
    send::{
        SendCtx,
        Sender, //
    },
    Outbox,
    QpCore, //
};
use crate::{
    device::Shared,
    params::{
        SOFT_BUDGET,
        TASK_BUDGET, //
    },
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
/// As [`SEND`], of the items that run in softirqs.
pub(super) const SOFT_SEND: u64 = 3;
/// As [`SOFT_SEND`].
pub(super) const SOFT_RECV: u64 = 4;

/// While a task sends, softirqs wait, so that what it sends to this host is received together.
struct Batch {
    _guard: rcu::Guard,
    _softirqs: softirq::Disabled,
}

impl Batch {
    /// Begins, unless the task may have to sleep.
    fn begin(shared: &Shared) -> Option<Self> {
        let guard = rcu::read_lock();
        let none = shared.objects.memory.sleepers.none(&guard);
        none.then(|| Self {
            _softirqs: softirq::disable(),
            _guard: guard,
        })
    }
}

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

impl WorkItem<SOFT_SEND> for QpCore {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.soft_send(false);
    }
}

impl WorkItem<SOFT_RECV> for QpCore {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.soft_recv();
    }
}

/// The next packet of a queue, all of whose packets are taken at once.
fn next_packet(taken: &mut SkbList, queue: &SkbQueue) -> Option<SkBuff> {
    taken.next().or_else(|| {
        *taken = queue.take_all();
        taken.next()
    })
}

/// The MTU of the port, as the protocol knows it.
pub(super) fn port_mtu(shared: &Shared) -> Mtu {
    Mtu::from_code(shared.mtu() as u32).unwrap_or(Mtu::B256)
}

impl QpCore {
    /// Has the send task run soon. Any context.
    pub(super) fn schedule_send(self: &Arc<Self>) {
        let _ = self.shared.queues.tasks.enqueue::<_, SEND>(self.clone());
    }

    /// Has the receive task run soon. Any context.
    pub(super) fn schedule_recv(self: &Arc<Self>) {
        let _ = self.shared.queues.tasks.enqueue::<_, RECV>(self.clone());
    }

    /// Has the send side run in a softirq of this CPU. For bottom halves.
    pub(super) fn kick_send(self: &Arc<Self>) {
        let queue = &self.shared.queues.softirqs;
        let _ = queue.enqueue::<_, SOFT_SEND>(self.clone());
    }

    /// Has the receive side run in a softirq of this CPU. For bottom halves.
    pub(super) fn kick_recv(self: &Arc<Self>) {
        let queue = &self.shared.queues.softirqs;
        let _ = queue.enqueue::<_, SOFT_RECV>(self.clone());
    }

    /// Works on the send side. May sleep.
    pub(super) fn with_send<R>(self: &Arc<Self>, work: impl FnOnce(&mut Sender) -> R) -> R {
        let result = work(&mut self.send.lock());
        if self.send.was_missed() {
            self.schedule_send();
        }
        result
    }

    /// Works on the receive side. May sleep.
    pub(super) fn with_recv<R>(self: &Arc<Self>, work: impl FnOnce(&mut Responder) -> R) -> R {
        let result = work(&mut self.recv.lock());
        if self.recv.was_missed() {
            self.schedule_recv();
        }
        result
    }

    /// Handles responses, the timer and new requests. May sleep.
    fn run_send(self: &Arc<Self>, by_timer: bool) {
        self.spread_noted_failure();
        let mut outbox = Outbox::default();
        let (again, batch) = self.with_send(|sender| {
            let batch = Batch::begin(&self.shared);
            let again = self.send_round(sender, by_timer, TASK_BUDGET, &mut outbox);
            (again, batch)
        });
        drop(batch);
        outbox.deliver(self);
        if again {
            self.schedule_send();
        }
    }

    /// Handles requests of the peer. May sleep.
    fn run_recv(self: &Arc<Self>) {
        let mut outbox = Outbox::default();
        let (again, batch) = self.with_recv(|responder| {
            let batch = Batch::begin(&self.shared);
            let again = self.recv_round(responder, TASK_BUDGET, &mut outbox);
            (again, batch)
        });
        drop(batch);
        outbox.deliver(self);
        if again {
            self.schedule_recv();
        }
    }

    /// A process has rung the doorbell.
    ///
    /// What it has posted is sent at once if the process seems to wait for it: no other request is
    /// under way, and since the last time the process has taken completions. If not, it is left to
    /// the task, which finds more to send together. Process context.
    pub(super) fn doorbell(self: &Arc<Self>) {
        if !self.has_taken_some() {
            return self.schedule_send();
        }
        // What is sent to this host comes when all is sent.
        let batch = softirq::disable();
        self.soft_send(true);
        drop(batch);
    }

    /// Whether a process has taken completions since the last call.
    fn has_taken_some(&self) -> bool {
        let Some(send) = &self.send_cq else {
            return false;
        };
        let mut taken_to = u64::from(send.taken_to());
        match &self.recv_cq {
            Some(recv) if !Arc::ptr_eq(send, recv) => {
                taken_to |= u64::from(recv.taken_to()) << 32;
            }
            _ => (),
        }
        self.taken_to.xchg(taken_to, Relaxed) != taken_to
    }

    /// As [`run_send`](Self::run_send), with bottom halves disabled; `if_idle`: unless requests are
    /// under way, which the task goes on with then.
    fn soft_send(self: &Arc<Self>, if_idle: bool) {
        let guard = rcu::read_lock();
        if !self.shared.objects.memory.sleepers.none(&guard) {
            return self.schedule_send();
        }
        let mut outbox = Outbox::default();
        let Some(mut sender) = self.send.try_lock() else {
            return;
        };
        let for_task = if_idle && !sender.side.is_idle();
        let again = !for_task && self.send_round(&mut sender, false, SOFT_BUDGET, &mut outbox);
        drop(sender);
        if for_task {
            self.schedule_send();
        }
        if again || self.send.was_missed() {
            self.kick_send();
        }
        outbox.deliver_soft(self);
    }

    /// As [`run_recv`](Self::run_recv), with bottom halves disabled.
    fn soft_recv(self: &Arc<Self>) {
        let guard = rcu::read_lock();
        if !self.shared.objects.memory.sleepers.none(&guard) {
            return self.schedule_recv();
        }
        let mut outbox = Outbox::default();
        let Some(mut responder) = self.recv.try_lock() else {
            return;
        };
        let again = self.recv_round(&mut responder, SOFT_BUDGET, &mut outbox);
        drop(responder);
        if again || self.recv.was_missed() {
            self.kick_recv();
        }
        outbox.deliver_soft(self);
    }

    /// Works on responses, the timer and new requests, up to a budget; says whether there is more.
    fn send_round(
        self: &Arc<Self>,
        sender: &mut Sender,
        by_timer: bool,
        budget: u32,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(way) = self.way() else {
            return false;
        };
        let Sender {
            side,
            routes,
            arrived,
            armed,
        } = sender;
        if by_timer {
            *armed = None;
        }
        side.set_port_mtu(port_mtu(&self.shared));
        let mut ctx = SendCtx::new(self, &way, routes, outbox);
        for _ in 0..budget {
            let Some(skb) = next_packet(arrived, &self.responses) else {
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
        let progress = side.run(&mut ctx, budget);
        let waiting = !arrived.is_empty() || !self.responses.is_empty();
        self.arm_timer(sender);
        progress == Progress::More || waiting
    }

    /// Works on requests of the peer, up to a budget; says whether there is more.
    fn recv_round(
        self: &Arc<Self>,
        responder: &mut Responder,
        mut budget: u32,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(way) = self.way() else {
            return false;
        };
        let whole = budget;
        let Responder {
            side,
            routes,
            arrived,
            waiting,
        } = responder;
        let mut ctx = RecvCtx::new(self, &way, routes, outbox);
        let mut progress = Progress::Idle;
        while budget > 0 && progress == Progress::Idle {
            let next = waiting
                .take()
                .or_else(|| Received::new(next_packet(arrived, &self.requests)?));
            let Some(rx) = next else {
                break;
            };
            if ctx.must_tell_before(&rx) {
                *waiting = Some(rx);
                break;
            }
            budget -= 1;
            ctx.arrived(&rx);
            if side.input(&mut ctx, &rx.packet, &rx) == Verdict::Busy {
                *waiting = Some(rx);
                progress = side.run(&mut ctx, whole);
            }
        }
        if progress == Progress::Idle {
            progress = side.run(&mut ctx, whole);
        }
        let waiting = waiting.is_some() || !arrived.is_empty() || !self.requests.is_empty();
        progress == Progress::More || (progress == Progress::Idle && waiting)
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
            .queues
            .tasks
            .reschedule::<_, TIMER>(self.clone(), delay);
    }

    /// Notes that a side has failed, for the send task to spread it. Any context.
    pub(super) fn note_failure(self: &Arc<Self>) {
        self.failing.store(true, Release);
        self.schedule_send();
    }

    /// Spreads a failure that was noted. May sleep.
    fn spread_noted_failure(self: &Arc<Self>) {
        if self.failing.load(Relaxed) && self.failing.xchg(false, Full) {
            self.spread_failure();
        }
    }

    /// A side has failed: the whole queue pair fails, or only its send queue, where there is a state
    /// for that. The caller holds no lock. May sleep.
    pub(super) fn spread_failure(self: &Arc<Self>) {
        let mut outbox = Outbox::default();
        {
            let attrs = self.attrs.lock();
            let send = self.with_send(|sender| sender.side.state());
            let recv = self.with_recv(|responder| responder.side.state());
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
        self.with_recv(|responder| {
            responder.waiting = None;
            responder.arrived = SkbList::new();
            let mut ctx = RecvCtx::new(self, &way, &mut responder.routes, outbox);
            responder.side.fail(&mut ctx);
        });
        self.with_send(|sender| {
            sender.arrived = SkbList::new();
            let Sender { side, routes, .. } = sender;
            let mut ctx = SendCtx::new(self, &way, routes, outbox);
            side.fail(&mut ctx);
        });
        self.requests.clear();
        self.responses.clear();
        // What is in the rings is flushed by the tasks.
        self.schedule_recv();
        self.schedule_send();
    }
}
