// SPDX-License-Identifier: GPL-2.0

//! What the receive side needs: receive requests, memory for the peer, responses to the network,
//! completions.

use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

use super::{
    tasks::Received,
    verbs::RecvSource,
    Outbox,
    QpCore,
    Way, //
};
use crate::{
    cq::{
        Arrival,
        Completion, //
    },
    mem::{
        Asker,
        Fault,
        Target, //
    },
    proto::{
        attrs::Transport,
        env::{
            self,
            Access,
            AccessError,
            AtomicOp,
            CqOverflow,
            QpEvent,
            RecvEnv,
            Right,
            TxError, //
        },
        recv::{
            RecvSide,
            Resource, //
        },
        run::Run,
        wr::{
            RecvWc,
            RecvWqe,
            Status, //
        },
    },
    srq::SrqCore,
    tx::RouteCache,
    wire::ext::{
        Feth,
        Key, //
    },
    wqe::RecvLocal,
};
use rdma::{
    cpu_memory::Rmw,
    mr,
    net::skb::{
        Family,
        SkbList, //
    }, //
};

/// Memory for the answers that may have to be repeated.
pub(super) type Slots = KVVec<Option<Resource>>;

/// The receive side, and what belongs to it.
pub(super) struct Responder {
    pub(super) side: RecvSide<RecvLocal, Target, Slots>,
    pub(super) routes: RouteCache,
    /// Packets that were taken off the queue.
    pub(super) arrived: SkbList,
    /// A packet that could not be taken, because an answer was on its way.
    pub(super) waiting: Option<Received>,
}

impl Responder {
    /// A receive side that is not started.
    pub(super) fn new(transport: Transport, qpn: u32, has_srq: bool) -> Self {
        Self {
            side: RecvSide::new(transport, qpn, has_srq),
            routes: RouteCache::default(),
            arrived: SkbList::new(),
            waiting: None,
        }
    }

    /// Memory for `count` answers. May sleep.
    pub(super) fn slots(count: usize) -> Result<Slots> {
        let mut slots = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(slots)
    }
}

/// The environment of one call of the receive side.
pub(super) struct RecvCtx<'a> {
    qp: &'a Arc<QpCore>,
    way: &'a Way,
    routes: &'a mut RouteCache,
    outbox: &'a mut Outbox,
    /// How the packet came that is being handled.
    arrival: Option<Arrival>,
    /// The XRC queue that it names, with its number.
    named: Option<(u32, Arc<SrqCore>)>,
}

impl<'a> RecvCtx<'a> {
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
            arrival: None,
            named: None,
        }
    }

    /// Whether consumers have to be told of one XRC queue before a packet that is for another one is
    /// taken.
    pub(super) fn must_tell_before(&self, rx: &Received) -> bool {
        let other = |(number, _): &(u32, _)| rx.packet.xrc_srq != Some(*number);
        self.outbox.is_about_named() && self.named.as_ref().is_some_and(other)
    }

    /// Who asks for memory: the peer of an XRC target gets at that of the queue that it names.
    fn asker(&self) -> Asker {
        let pd = self.named.as_ref().and_then(|(_, srq)| srq.pd());
        Asker {
            pd: pd.unwrap_or(self.qp.asker.pd),
            ..self.qp.asker
        }
    }

    /// Notes how a packet came, for the completions that it makes.
    pub(super) fn arrived(&mut self, rx: &Received) {
        self.arrival = rx.family().map(|family| Arrival {
            network_type: match family {
                Family::V4 => bindings::rdma_network_type_RDMA_NETWORK_IPV4 as u8,
                Family::V6 => bindings::rdma_network_type_RDMA_NETWORK_IPV6 as u8,
            },
            vlan: rx.vlan(),
        });
    }
}

impl From<Fault> for AccessError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied => AccessError::Denied,
            Fault::Failed => AccessError::Failed,
        }
    }
}

/// The right to memory that a peer's access needs.
fn needed(right: Right) -> mr::Access {
    match right {
        Right::Read => mr::Access::REMOTE_READ,
        Right::Write => mr::Access::REMOTE_WRITE,
        Right::Atomic => mr::Access::REMOTE_ATOMIC,
        Right::Flush(how) => {
            let mut need = mr::Access::NONE;
            if how.global {
                need = need | mr::Access::FLUSH_GLOBAL;
            }
            if how.persistent {
                need = need | mr::Access::FLUSH_PERSISTENT;
            }
            need
        }
    }
}

impl RecvEnv for RecvCtx<'_> {
    type Local = RecvLocal;
    type Remote = Target;
    type Rx = Received;

    fn address(&mut self, srq: u32) -> bool {
        let RecvSource::Named(domain, _) = &self.qp.rq else {
            return false;
        };
        let found = self.qp.shared.objects.srqs.get(srq);
        self.named = found
            .filter(|found| found.is_in(*domain))
            .map(|found| (srq, found));
        self.named.is_some()
    }

    fn next_recv(&mut self) -> Option<RecvWqe<RecvLocal>> {
        match &self.qp.rq {
            RecvSource::Own(rq) => rq.pop(),
            RecvSource::Shared(srq, tails) => {
                let taken = srq.pop(tails)?;
                if taken.limit_reached {
                    self.outbox.srq_limit(None);
                }
                Some(taken.wqe)
            }
            RecvSource::Named(_, tails) => {
                let (_, srq) = self.named.as_ref()?;
                let mut taken = srq.pop(tails)?;
                if taken.limit_reached {
                    self.outbox.srq_limit(Some(srq));
                }
                taken.wqe.local.belongs_to(srq.clone());
                Some(taken.wqe)
            }
            RecvSource::None => None,
        }
    }

    fn scatter(&mut self, local: &mut RecvLocal, at: u32, rx: &Received) -> Result<(), Status> {
        let (memory, pd) = (&self.qp.shared.objects.memory, self.asker().pd);
        local.scatter(memory, pd, at, rx.payload())
    }

    fn scatter_grh(&mut self, local: &mut RecvLocal, rx: &Received) -> Result<(), Status> {
        // An IPv4 header lies in the second half (IBTA annex A17.4.5).
        let mut grh = [0u8; 40];
        let header = rx.ip_header();
        let start = grh.len().saturating_sub(header.len());
        for (to, from) in grh.iter_mut().skip(start).zip(header) {
            *to = *from;
        }
        let (memory, pd) = (&self.qp.shared.objects.memory, self.qp.asker.pd);
        local.scatter(memory, pd, 0, &grh)
    }

    fn open(&mut self, access: &Access) -> Result<Target, AccessError> {
        let memory = &self.qp.shared.objects.memory;
        let need = needed(access.right);
        let target = match access.right {
            Right::Flush(how) if how.whole_region => {
                memory.open_whole(self.asker(), access.key, need)?
            }
            _ => memory.open_remote(self.asker(), access.key, access.va, access.len, need)?,
        };
        Ok(target)
    }

    fn write(&mut self, to: &mut Target, at: u32, rx: &Received) -> Result<(), AccessError> {
        Ok(to.write(at.into(), rx.payload())?)
    }

    fn atomic(&mut self, on: &mut Target, op: AtomicOp) -> Result<u64, AccessError> {
        let op = match op {
            AtomicOp::CompareSwap { compare, swap } => Rmw::CompareSwap { compare, swap },
            AtomicOp::FetchAdd(add) => Rmw::FetchAdd(add),
        };
        Ok(on.atomic(0, op)?)
    }

    fn atomic_write(&mut self, to: &mut Target, value: [u8; 8]) -> Result<(), AccessError> {
        Ok(to.store(0, u64::from_ne_bytes(value))?)
    }

    fn flush(&mut self, range: &mut Target, how: Feth) -> Result<(), AccessError> {
        if how.persistent {
            range.persist()?;
        }
        if how.global {
            // What was written before is visible to all CPUs before what follows.
            kernel::sync::barrier::smp_mb(kernel::sync::barrier::Full);
        }
        Ok(())
    }

    fn invalidate(&mut self, key: Key) -> Result<(), AccessError> {
        let memory = &self.qp.shared.objects.memory;
        Ok(memory.invalidate(self.asker(), key)?)
    }

    fn transmit(&mut self, run: &Run, from: Option<&mut Target>) -> Result<u32, TxError> {
        let (av, port) = (self.way.connected()?, self.way.port);
        self.qp.transmit(self.routes, av, port, run, |at, to| {
            let target = from.as_ref().ok_or(Status::Fatal)?;
            target
                .read(at.into(), to, &mut |_: &[u8]| ())
                .map_err(|_| Status::LocProt)
        })
    }

    fn complete(&mut self, local: RecvLocal, wc: RecvWc) -> Result<(), CqOverflow> {
        // A request that a target holds outlives its queue, but nobody waits for it any more.
        if local.srq().is_some_and(|srq| srq.is_closed()) {
            return Ok(());
        }
        let completion = Completion::of_recv(&wc, self.arrival);
        self.outbox.complete_recv(self.qp, local.srq(), completion)
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
