// SPDX-License-Identifier: GPL-2.0

//! What the send side needs: requests from the ring, packets to the network, memory, completions.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    jiffies::monotonic_nanos,
    net::route::Route,
    provider::Handle, //
};

use super::{
    path,
    tasks::Received,
    Outbox,
    QpCore, //
};
use crate::{
    av::Av,
    counters::Counter,
    cq::Completion,
    proto::{
        attrs::Transport,
        env::{
            self,
            CqOverflow,
            Nanos,
            QpEvent,
            SendEnv,
            TxError, //
        },
        run::{
            Run,
            Segment, //
        },
        send::{
            Entry,
            SendSide, //
        },
        wr::{
            LocalOp,
            SendOp,
            SendWc,
            SendWqe,
            Status, //
        },
    },
    rx,
    tx::{
        self,
        NoPacket,
        Path,
        RouteCache, //
    },
    wqe::SendLocal,
};

/// A queue key with this bit stands for that of the sending queue pair (IBTA vol. 1, 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// Memory for the requests that are under way.
pub(super) type Slots = KVVec<Option<Entry<SendLocal>>>;

/// The send side, and what belongs to it.
pub(super) struct Sender {
    pub(super) side: SendSide<SendLocal, Slots>,
    pub(super) routes: RouteCache,
    /// When the timer is set for.
    pub(super) armed: Option<Nanos>,
}

impl Sender {
    /// A send side that is not started, with room for `depth` requests under way. May sleep.
    pub(super) fn new(transport: Transport, qpn: u32, depth: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(depth, GFP_KERNEL)?;
        for _ in 0..depth {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            side: SendSide::new(transport, qpn, slots),
            routes: RouteCache::default(),
            armed: None,
        })
    }
}

/// The environment of one call of the send side.
pub(super) struct SendCtx<'a> {
    qp: &'a Arc<QpCore>,
    routes: &'a mut RouteCache,
    outbox: &'a mut Outbox,
    /// Of connections.
    av: Option<Av>,
    port: u16,
}

impl<'a> SendCtx<'a> {
    pub(super) fn new(
        qp: &'a Arc<QpCore>,
        routes: &'a mut RouteCache,
        outbox: &'a mut Outbox,
    ) -> Self {
        let (av, port) = qp.way();
        Self {
            qp,
            routes,
            outbox,
            av,
            port,
        }
    }
}

impl From<env::Counter> for Counter {
    fn from(counter: env::Counter) -> Self {
        match counter {
            env::Counter::DuplicateRequest => Self::DuplicateRequest,
            env::Counter::OutOfSeqRequest => Self::OutOfSequence,
            env::Counter::RcvdRnr => Self::ReceivedRnr,
            env::Counter::SentRnr => Self::SentRnr,
            env::Counter::RcvdSeqErr => Self::ReceivedSequenceError,
            env::Counter::AckDeferred => Self::AckDeferred,
            env::Counter::RetryExceeded => Self::RetryExceeded,
            env::Counter::RnrRetryExceeded => Self::RnrRetryExceeded,
            env::Counter::CompleterRetry => Self::CompleterRetry,
            env::Counter::SendErr => Self::SendError,
            env::Counter::Sends => Self::RdmaSends,
            env::Counter::Recvs => Self::RdmaReceives,
        }
    }
}

impl SendEnv for SendCtx<'_> {
    type Local = SendLocal;
    type Rx = Received;

    fn now(&mut self) -> Nanos {
        monotonic_nanos()
    }

    fn fetch(&mut self) -> Option<SendWqe<SendLocal>> {
        let mut wqe = self.qp.sq.fetch(&self.qp.shared.objects.ahs)?;
        if let SendOp::Datagram { qkey, .. } = &mut wqe.op {
            if *qkey & CONTROLLED_QKEY != 0 {
                *qkey = self.qp.qkey();
            }
        }
        // An old library puts the address vector into the request, and may claim any source.
        let claimed = wqe.local.destination().map(|to| to.av());
        if claimed.is_some_and(|av| !av.is_verified() && !self.qp.has_source(av)) {
            wqe.op = SendOp::Invalid(Status::LocQpOp);
        }
        Some(wqe)
    }

    fn has_more(&mut self) -> bool {
        self.qp.sq.has_more()
    }

    fn transmit(&mut self, run: &Run, local: &mut SendLocal) -> Result<u32, TxError> {
        let av = match local.destination() {
            Some(destination) => *destination.av(),
            None => self.av.ok_or(TxError::Local(Status::LocQpOp))?,
        };
        let path = Path::new(&av, self.port);
        let (memory, pd) = (&self.qp.shared.objects.memory, self.qp.asker.pd);
        self.qp.transmit(self.routes, &av, &path, run, |at, to| {
            local.read(memory, pd, at, to, &mut |_: &[u8]| ())
        })
    }

    fn scatter(&mut self, local: &mut SendLocal, at: u32, rx: &Received) -> Result<(), Status> {
        let (memory, pd) = (&self.qp.shared.objects.memory, self.qp.asker.pd);
        local.scatter(memory, pd, at, rx.payload())
    }

    fn store_result(&mut self, local: &mut SendLocal, value: u64) -> Result<(), Status> {
        let (memory, pd) = (&self.qp.shared.objects.memory, self.qp.asker.pd);
        local.scatter(memory, pd, 0, &value.to_ne_bytes())
    }

    fn execute(&mut self, _op: LocalOp, local: &mut SendLocal) -> Result<(), Status> {
        local.execute(&self.qp.shared.objects.memory, self.qp.asker)
    }

    fn retire(&mut self, local: SendLocal, wc: Option<SendWc>) -> Result<(), CqOverflow> {
        let status = wc.as_ref().map_or(Status::Success, |wc| wc.status);
        self.qp.sq.retire(local, status);
        match wc {
            Some(wc) => self.outbox.complete_send(self.qp, Completion::of_send(&wc)),
            None => Ok(()),
        }
    }

    fn failed(&mut self) {
        self.outbox.failed();
    }

    fn event(&mut self, event: QpEvent) {
        self.outbox.event(event);
    }

    fn count(&mut self, counter: env::Counter) {
        self.qp.shared.counters.add(counter.into(), 1);
    }
}

impl QpCore {
    /// Sends the packets of a run as far as there is room; returns how many. `read` copies bytes of
    /// the message. A packet that is lost on the way counts as sent.
    pub(super) fn transmit(
        &self,
        routes: &mut RouteCache,
        av: &Av,
        path: &Path,
        run: &Run,
        mut read: impl FnMut(u32, &mut [u8]) -> Result<(), Status>,
    ) -> Result<u32, TxError> {
        let mut sent = 0;
        for segment in run.segments() {
            if !self.flight.has_room() {
                break;
            }
            let at = segment.offset;
            let id = run.psn().add(sent).get() as u16;
            match self.emit(routes, av, path, &segment, id, |to| read(at, to)) {
                Ok(()) => (),
                Err(status) if sent == 0 => return Err(TxError::Local(status)),
                Err(_) => break,
            }
            sent += 1;
        }
        match sent {
            0 => Err(TxError::Full),
            sent => Ok(sent),
        }
    }

    /// Makes one packet and sends it.
    fn emit(
        &self,
        routes: &mut RouteCache,
        av: &Av,
        path: &Path,
        segment: &Segment,
        id: u16,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let shared = &self.shared;
        let own = path.dmac == shared.mac() || path.source == path.destination;
        let route = if own {
            None
        } else {
            match routes.get(av, |av| self.look_up(av)) {
                Ok(route) => Some(route),
                Err(_) => {
                    shared.counters.add(Counter::SendError, 1);
                    return Ok(());
                }
            }
        };
        let headroom = route.map_or(0, Route::headroom);
        let mut skb = match tx::assemble(path, segment, id, headroom, fill) {
            Ok(skb) => skb,
            Err(NoPacket::Payload(status)) => return Err(status),
            Err(NoPacket::Lost) => {
                shared.counters.add(Counter::SendError, 1);
                return Ok(());
            }
        };
        let len = skb.len() as u64;
        skb.set_flow(self.flight.launch());
        let sent = match route {
            Some(route) => route.send(skb),
            None => tx::strip(path, &mut skb).map(|()| rx::from_own(shared, skb)),
        };
        match sent {
            Ok(()) => {
                shared.counters.add(Counter::SentPackets, 1);
                shared.counters.add(Counter::SentBytes, len);
            }
            Err(_) => shared.counters.add(Counter::SendError, 1),
        }
        Ok(())
    }

    /// Whether the source of an address vector is an address of this device.
    fn has_source(&self, av: &Av) -> bool {
        let qp = self.consumer.as_ref().and_then(Handle::get);
        qp.is_some_and(|qp| path::source_of(qp.device().core(), av).is_ok())
    }

    /// Looks a route up, as long as the queue pair exists.
    fn look_up(&self, av: &Av) -> Result<Route> {
        let qp = self.consumer.as_ref().and_then(Handle::get).ok_or(ENODEV)?;
        path::route(qp.device().core(), av)
    }
}
