// SPDX-License-Identifier: GPL-2.0

//! What the send side needs: requests from the ring, packets to the network, memory, completions.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    jiffies::monotonic_nanos,
    net::{
        frag::FragPool,
        route::Route,
        skb::SkbList,
        train::{
            Train,
            TUNNEL_ROOM, //
        }, //
    },
    provider::Handle, //
};

use super::{
    path,
    tasks::Received,
    Outbox,
    QpCore,
    Way, //
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
        run::Run,
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
        Frame,
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
    /// Packets that were taken off the queue.
    pub(super) arrived: SkbList,
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
            arrived: SkbList::new(),
            armed: None,
        })
    }
}

/// The environment of one call of the send side.
pub(super) struct SendCtx<'a> {
    qp: &'a Arc<QpCore>,
    way: &'a Way,
    routes: &'a mut RouteCache,
    outbox: &'a mut Outbox,
    /// The time, once somebody has asked for it.
    now: Option<Nanos>,
}

impl<'a> SendCtx<'a> {
    pub(super) fn new(
        qp: &'a Arc<QpCore>,
        way: &'a Way,
        routes: &'a mut RouteCache,
        outbox: &'a mut Outbox,
    ) -> Self {
        Self {
            qp,
            way,
            routes,
            outbox,
            now: None,
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
        // A call is short.
        *self.now.get_or_insert_with(monotonic_nanos)
    }

    fn fetch(&mut self) -> Option<SendWqe<SendLocal>> {
        self.qp.sq.fetch(&self.qp.shared.objects.ahs)
    }

    fn adjust(&mut self, wqe: &mut SendWqe<SendLocal>) {
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
    }

    fn has_more(&mut self) -> bool {
        self.qp.sq.has_more()
    }

    fn transmit(&mut self, run: &Run, local: &mut SendLocal) -> Result<u32, TxError> {
        let own;
        let av = match local.destination() {
            Some(destination) => {
                own = *destination.av();
                &own
            }
            None => self.way.connected()?,
        };
        let (memory, pd) = (&self.qp.shared.objects.memory, self.qp.asker.pd);
        self.qp
            .transmit(self.routes, av, self.way.port, run, |at, to| {
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

    fn retire(&mut self, local: &SendLocal, wc: Option<SendWc>) -> Result<(), CqOverflow> {
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

/// How the packets of a run leave.
struct Exit<'a> {
    /// To others; packets to an own address turn round here.
    route: Option<&'a Route>,
    /// The VLAN of the own address.
    vlan: Option<u16>,
    frame: &'a Frame,
    headroom: usize,
    /// Packets go together as far as they can.
    trains: bool,
    /// Memory for packets.
    pool: Option<KBox<FragPool>>,
}

impl QpCore {
    /// Sends the packets of a run as far as there is room; returns how many. `read` copies bytes of
    /// the message. A packet that is lost on the way counts as sent.
    pub(super) fn transmit(
        &self,
        routes: &mut RouteCache,
        av: &Av,
        port: u16,
        run: &Run,
        mut read: impl FnMut(u32, &mut [u8]) -> Result<(), Status>,
    ) -> Result<u32, TxError> {
        let shared = &self.shared;
        let lost = |packets| {
            shared.counters.add(Counter::SendError, u64::from(packets));
            Ok(packets)
        };
        let own = self.own(routes, av);
        let frame_to_own;
        let (route, frame) = if own.is_some() {
            let Some(frame) = Frame::new(&Path::new(av, port)) else {
                return lost(run.packets());
            };
            frame_to_own = frame;
            (None, &frame_to_own)
        } else {
            match routes.get(av, port, || self.look_up(av, port)) {
                Ok((route, frame)) => (Some(route), frame),
                Err(_) => return lost(run.packets()),
            }
        };
        // What does not pass as a train passes when it is sent again, alone.
        let trains =
            route.is_some() && run.packets() > 1 && !run.is_again() && self.transport.is_reliable();
        let mut exit = Exit {
            route,
            vlan: own.and_then(|own| own.vlan),
            frame,
            headroom: route.map_or(0, Route::headroom) + if trains { TUNNEL_ROOM } else { 0 },
            trains,
            pool: route.and_then(|_| shared.pools.take()),
        };
        let mut sent = 0;
        let mut failed = None;
        while sent < run.packets() && self.flight.has_room() {
            match self.emit(&mut exit, run, sent, &mut read) {
                Ok(packets) => sent += packets,
                Err(status) => {
                    failed = Some(status);
                    break;
                }
            }
        }
        if let Some(pool) = exit.pool {
            shared.pools.give_back(pool);
        }
        match (sent, failed) {
            (0, Some(status)) => Err(TxError::Local(status)),
            (0, None) => Err(TxError::Full),
            (sent, _) => Ok(sent),
        }
    }

    /// Makes packets from number `from` of a run on, as many as go through the network stack
    /// together, and sends them. Returns how many, at least one.
    fn emit(
        &self,
        exit: &mut Exit<'_>,
        run: &Run,
        from: u32,
        read: &mut impl FnMut(u32, &mut [u8]) -> Result<(), Status>,
    ) -> Result<u32, Status> {
        let counters = &self.shared.counters;
        let mut train: Option<Train> = None;
        let (mut packets, mut bytes) = (0u32, 0u64);
        let mut segments = run.segments(from);
        while let Some(segment) = segments.advance() {
            let len = exit.frame.packet_len(segment);
            if train.as_ref().is_some_and(|train| !train.has_room(len)) {
                break;
            }
            let id = run.psn().add(from + packets).get() as u16;
            let at = segment.offset;
            let pool = exit.pool.as_deref_mut();
            let made = tx::assemble(exit.frame, segment, id, exit.headroom, pool, |to| {
                read(at, to)
            });
            let skb = match made {
                Ok(skb) => skb,
                Err(NoPacket::Payload(status)) if packets == 0 => return Err(status),
                Err(NoPacket::Lost) if packets == 0 => {
                    counters.add(Counter::SendError, 1);
                    return Ok(1);
                }
                // What is there goes; the next call says what becomes of the rest.
                Err(_) => break,
            };
            match &mut train {
                None => train = Some(Train::new(skb, exit.frame.family())),
                // There is room.
                Some(train) => {
                    let _ = train.push(skb);
                }
            }
            packets += 1;
            bytes += len as u64;
            if !exit.trains {
                break;
            }
        }
        let Some(train) = train else {
            // There are no such packets.
            return Ok(run.packets() - from);
        };
        let mut skb = train.finish();
        skb.set_flow(self.flight.launch());
        let sent = match exit.route {
            Some(route) => {
                // Part of the way may be narrower than the interface, as its routers tell the
                // network stack; the path MTU of a connection is what it is.
                skb.allow_fragments(exit.frame.family());
                route.send(skb)
            }
            None => {
                tx::strip(exit.frame, &mut skb).map(|()| rx::from_own(&self.shared, skb, exit.vlan))
            }
        };
        match sent {
            Ok(()) => {
                counters.add(Counter::SentPackets, packets.into());
                counters.add(Counter::SentBytes, bytes);
            }
            Err(_) => counters.add(Counter::SendError, packets.into()),
        }
        Ok(packets)
    }

    /// Whether the source of an address vector is an address of this device.
    fn has_source(&self, av: &Av) -> bool {
        let qp = self.consumer.as_ref().and_then(Handle::get);
        qp.is_some_and(|qp| path::source_of(qp.device().core(), av).is_ok())
    }

    /// The address of the device that an address vector leads back to. The Ethernet address alone
    /// does not tell: several interfaces may share one, and those without have none.
    fn own(&self, routes: &RouteCache, av: &Av) -> Option<path::Own> {
        let (source, destination) = av.addresses();
        if source == destination {
            return Some(path::Own { vlan: av.vlan() });
        }
        if av.dmac() != self.shared.mac() || routes.has(av) {
            return None;
        }
        let qp = self.consumer.as_ref().and_then(Handle::get)?;
        path::own(qp.device().core(), destination)
    }

    /// Looks a route up, as long as the queue pair exists, and makes the headers for it.
    fn look_up(&self, av: &Av, port: u16) -> Result<(Route, Frame)> {
        let qp = self.consumer.as_ref().and_then(Handle::get).ok_or(ENODEV)?;
        let frame = Frame::new(&Path::new(av, port)).ok_or(EINVAL)?;
        Ok((path::route(qp.device().core(), av)?, frame))
    }
}
