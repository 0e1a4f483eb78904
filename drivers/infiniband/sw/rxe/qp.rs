// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! What the core allocates ([`Qp`]) is a handle; everything that packets, timers and tasks use is a
//! [`QpCore`], which they hold by counted references and which may outlive the handle for a moment.
//!
//! # Locks
//!
//! | lock | protects | taken in |
//! |---|---|---|
//! | [`QpCore::attrs`] | attributes; serialises changes of state | verbs, tasks after a failure |
//! | [`QpCore::send`], [`QpCore::recv`] | one side of the state machine each | tasks, verbs; softirqs try |
//! | [`QpCore::gate`] | what the receive path asks first | any context |
//!
//! In this order, but never both sides at once. Inside the sides are the locks of memory, of
//! completion queues and of the work queues' rings. No consumer is called with any of them held:
//! what it has to be told is collected in an [`Outbox`].

mod attrs;
mod change;
mod outbox;
mod path;
mod recv;
mod send;
mod side;
mod tasks;
mod verbs;

use kernel::{
    impl_has_delayed_work, impl_has_work,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        Mutex,
        SetOnce,
        SpinLockIrq, //
    },
    workqueue::{
        DelayedWork,
        Work, //
    },
};
use rdma::{
    gid::Gid,
    net::skb::{
        SkBuff,
        SkbQueue, //
    },
    provider::{
        self,
        Handle, //
    },
};

use crate::{
    av::Av,
    cq::{
        CqCore,
        QpName, //
    },
    device::{
        Rxe,
        Shared, //
    },
    flight::{
        Flight,
        Wake, //
    },
    mcast::Member,
    mem::Asker,
    params,
    proto::{
        attrs::Transport,
        env::TxError,
        state::QpState,
        wr::Status, //
    },
    wire::opcode::Service,
    wq::SendQueue,
};

use attrs::Attrs;
use outbox::Outbox;
use recv::Responder;
use send::Sender;
use side::Side;
pub(crate) use verbs::Qp;
use verbs::RecvSource;

/// What the receive path asks before it looks any further.
struct Gate {
    state: QpState,
    /// Of connections: where packets go.
    av: Option<Av>,
    /// Of connections: own address and the peer's.
    peers: Option<(Gid, Gid)>,
    /// UDP source port of the packets that are sent.
    port: u16,
    qkey: u32,
    /// The queue pair is being destroyed.
    closed: bool,
}

/// What of a queue pair the data path holds.
#[pin_data]
pub(crate) struct QpCore {
    shared: Arc<Shared>,
    /// Who asks for memory.
    asker: Asker,
    name: QpName,
    transport: Transport,
    #[pin]
    gate: SpinLockIrq<Gate>,
    #[pin]
    attrs: Mutex<Attrs>,
    #[pin]
    send: Side<Sender>,
    #[pin]
    recv: Side<Responder>,
    /// How far the completion queues had been taken when a process rang the doorbell last.
    taken_to: Atomic<u64>,
    /// A side has failed, and the send task has to tell the other one.
    failing: Atomic<bool>,
    sq: Arc<SendQueue>,
    rq: RecvSource,
    /// XRC targets have none.
    send_cq: Option<Arc<CqCore>>,
    /// XRC queue pairs have none.
    recv_cq: Option<Arc<CqCore>>,
    /// Packets that wait for the receive task.
    #[pin]
    requests: SkbQueue,
    /// Packets that wait for the send task.
    #[pin]
    responses: SkbQueue,
    flight: Arc<Flight<QpCore>>,
    /// Multicast groups that it is a member of.
    groups: Atomic<i32>,
    /// Set when it is complete.
    consumer: SetOnce<Handle<provider::Qp<Rxe>>>,
    #[pin]
    send_work: Work<QpCore, { tasks::SEND }>,
    #[pin]
    recv_work: Work<QpCore, { tasks::RECV }>,
    #[pin]
    timer_work: DelayedWork<QpCore, { tasks::TIMER }>,
    #[pin]
    soft_send_work: Work<QpCore, { tasks::SOFT_SEND }>,
    #[pin]
    soft_recv_work: Work<QpCore, { tasks::SOFT_RECV }>,
}

impl_has_work! {
    impl HasWork<Self, { tasks::SEND }> for QpCore { self.send_work }
    impl HasWork<Self, { tasks::RECV }> for QpCore { self.recv_work }
    impl HasWork<Self, { tasks::SOFT_SEND }> for QpCore { self.soft_send_work }
    impl HasWork<Self, { tasks::SOFT_RECV }> for QpCore { self.soft_recv_work }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Self, { tasks::TIMER }> for QpCore { self.timer_work }
}

/// Where packets of a queue pair go.
#[derive(Clone, Copy)]
struct Way {
    /// Of connections.
    av: Option<Av>,
    /// UDP source port.
    port: u16,
}

impl Way {
    /// Where a connection leads.
    fn connected(&self) -> Result<&Av, TxError> {
        self.av.as_ref().ok_or(TxError::Local(Status::LocQpOp))
    }
}

impl Gate {
    fn way(&self) -> Way {
        Way {
            av: self.av,
            port: self.port,
        }
    }
}

impl QpCore {
    /// Where packets go, unless the queue pair is being destroyed.
    fn way(&self) -> Option<Way> {
        let gate = self.gate.lock();
        (!gate.closed).then(|| gate.way())
    }

    /// The number.
    fn qpn(&self) -> u32 {
        self.name.number
    }

    /// The state.
    fn state(&self) -> QpState {
        self.gate.lock().state
    }

    /// The queue key that datagrams must have.
    pub(crate) fn qkey(&self) -> u32 {
        if self.qpn() == params::GSI_QPN {
            params::GSI_QKEY
        } else {
            self.gate.lock().qkey
        }
    }

    /// Whether packets of a service, requests or responses, between two addresses are for this queue
    /// pair in its state. Any context.
    pub(crate) fn takes(
        &self,
        service: Service,
        is_request: bool,
        source: &Gid,
        destination: &Gid,
    ) -> bool {
        if !self.transport.takes(service, is_request) {
            return false;
        }
        let gate = self.gate.lock();
        let ready = if is_request {
            gate.state.takes_requests()
        } else {
            gate.state.takes_responses()
        };
        let from_peer = match (&gate.peers, self.transport) {
            (_, Transport::Ud) => true,
            (Some((own, peer)), _) => own == destination && peer == source,
            (None, _) => false,
        };
        ready && from_peer && !gate.closed
    }

    /// Takes a packet that has passed all checks, whose data start with the base transport header.
    /// Beyond a limit it is dropped, which the peer repairs like any other loss. Any context.
    pub(crate) fn enqueue(self: &Arc<Self>, mut skb: SkBuff, is_request: bool) {
        let queue = if is_request {
            &self.requests
        } else {
            &self.responses
        };
        if queue.len() >= params::RX_QUEUE_MAX {
            return;
        }
        skb.forget_device();
        // Whoever works on the side takes all that is there, and has it run again if he leaves any, so
        // only the first one in the queue has it run.
        if queue.push_back(skb) != 1 {
            return;
        }
        if is_request {
            self.kick_recv();
        } else {
            self.kick_send();
        }
    }
}

impl Member for QpCore {
    fn attachments(&self) -> &Atomic<i32> {
        &self.groups
    }
}

impl Wake for QpCore {
    fn wake(self: Arc<Self>) {
        // Either side may have been the one to wait.
        self.kick_send();
        self.kick_recv();
    }
}
