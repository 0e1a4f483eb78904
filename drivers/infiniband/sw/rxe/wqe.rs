// SPDX-License-Identifier: GPL-2.0

//! Work requests: from what consumers post to what the state machines execute.
//!
//! A request of user space is copied out of its ring once, and what is checked is the copy. A
//! request that cannot be executed is not dropped: it completes in its turn, with an error of its
//! own. A consumer in the kernel learns of it at once instead.

mod posted;
mod tail;
mod user;

use crate::{
    abi::Sge,
    ah::Destination,
    mem::{
        Asker,
        Memory, //
    },
    mr::MrCore,
    mw::BindRequest,
    pd::PdId,
    proto::wr::{
        LocalOp,
        SendOp,
        SendWqe,
        Status, //
    },
    sge::{
        self,
        Cursor,
        Local, //
    },
    srq::SrqCore,
    wire::{
        ext::Key,
        opcode::Service,
        packet::SendEnd, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};
pub(crate) use posted::{
    recv_from_kernel,
    send_from_kernel, //
};
use rdma::{
    cpu_memory::Sink,
    mr::Access, //
};
pub(crate) use tail::{
    Tail,
    TailPool, //
};
pub(crate) use user::{
    recv_from_user,
    send_from_user, //
};

/// Largest number of a queue pair.
const MAX_QPN: u32 = 0xff_ffff;
/// Largest number of a shared receive queue.
const MAX_SRQN: u32 = 0xff_ffff;

/// What the requests of a send queue may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCaps {
    pub(crate) service: Service,
    /// Most scatter/gather entries.
    pub(crate) max_sge: u32,
    /// Most inline bytes.
    pub(crate) max_inline: u32,
    /// Every request makes a completion.
    pub(crate) signal_all: bool,
    /// The domain of the queue pair.
    pub(crate) pd: PdId,
}

impl SendCaps {
    /// Units of memory that each request needs for its entries or its inline bytes.
    pub(crate) fn units(&self) -> usize {
        let inline = (self.max_inline as usize).div_ceil(size_of::<Sge>());
        inline.max(self.max_sge as usize).max(1)
    }
}

/// What a send request acts on locally.
pub(crate) enum Payload {
    /// The bytes lie at so many places.
    Gather(usize),
    /// The bytes came with the request.
    Inline(usize),
    /// A region to be registered.
    Register {
        /// The region.
        mr: Arc<MrCore>,
        /// Its key from now on.
        key: Key,
        /// Its rights.
        access: Access,
        /// Address of its first byte.
        iova: u64,
    },
    /// A key to be invalidated.
    Invalidate(Key),
    /// A window to be bound.
    Bind(BindRequest),
}

/// The driver's part of a send request, until it retires.
pub(crate) struct SendLocal {
    tail: Tail,
    payload: Payload,
    destination: Option<Destination>,
    cursor: Cursor,
    /// The slot of a ring in user space.
    pub(crate) slot: Option<u32>,
}

impl SendLocal {
    /// Where a datagram goes.
    pub(crate) fn destination(&self) -> Option<&Destination> {
        self.destination.as_ref()
    }

    /// Copies the bytes of the message from `at` on, each piece also to `sink`. May sleep, if memory is
    /// fetched on demand.
    pub(crate) fn read(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        to: &mut [u8],
        sink: &mut impl Sink,
    ) -> Result<(), Status> {
        match self.payload {
            Payload::Gather(count) => {
                let list = self.tail.entries(count);
                Local { memory, pd, list }
                    .gather(&mut self.cursor, at, to, sink)
                    .map_err(|_| Status::LocProt)
            }
            Payload::Inline(len) => {
                let from = self.tail.bytes(len).get(at as usize..);
                let from = from.and_then(|from| from.get(..to.len()));
                to.copy_from_slice(from.ok_or(Status::LocQpOp)?);
                sink.take(to);
                Ok(())
            }
            _ => Err(Status::LocQpOp),
        }
    }

    /// Copies bytes that the peer sent to byte `at` of the message on. May sleep, if memory is
    /// fetched on demand.
    pub(crate) fn scatter(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        from: &[u8],
    ) -> Result<(), Status> {
        let Payload::Gather(count) = self.payload else {
            return Err(Status::LocQpOp);
        };
        let list = self.tail.entries(count);
        Local { memory, pd, list }
            .scatter(&mut self.cursor, at, from)
            .map_err(|_| Status::LocProt)
    }

    /// Executes a local operation.
    pub(crate) fn execute(&mut self, memory: &Memory, asker: Asker) -> Result<(), Status> {
        match &self.payload {
            Payload::Register {
                mr,
                key,
                access,
                iova,
            } => mr
                .register(asker.pd, *key, *access, *iova)
                .map_err(|_| Status::LocQpOp),
            Payload::Invalidate(key) => memory.invalidate(asker, *key).map_err(|_| Status::LocQpOp),
            Payload::Bind(request) => memory.bind(asker, request).map_err(|_| Status::MwBind),
            Payload::Gather(_) | Payload::Inline(_) => Err(Status::Fatal),
        }
    }
}

/// Options of a send request.
#[derive(Clone, Copy)]
struct Flags(u32);

impl Flags {
    const fn has(self, flag: bindings::ib_send_flags) -> bool {
        self.0 & flag as u32 != 0
    }
}

/// A request that was found to be fine, apart from its memory.
struct Parsed {
    op: SendOp,
    /// For the operations that have no entries.
    payload: Option<Payload>,
    destination: Option<Destination>,
    /// Length of a FLUSH, which has no local bytes.
    flush_len: Option<u32>,
}

impl Parsed {
    fn of(op: SendOp) -> Self {
        Self {
            op,
            payload: None,
            destination: None,
            flush_len: None,
        }
    }

    fn local(op: LocalOp, payload: Payload) -> Self {
        Self {
            payload: Some(payload),
            ..Self::of(SendOp::Local(op))
        }
    }
}

/// Whether an operation is offered on a service.
pub(crate) fn offered(service: Service, op: &SendOp) -> bool {
    match op {
        SendOp::Send(SendEnd::Invalidate(_)) => service.is_reliable(),
        SendOp::Send(_) | SendOp::Write { .. } => service != Service::Ud,
        SendOp::Datagram { .. } => service == Service::Ud,
        SendOp::Local(LocalOp::BindMw) => service != Service::Ud,
        SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::Local(_) => service.is_reliable(),
        SendOp::Invalid(_) => false,
    }
}

/// Whether the bytes of an operation may come with the request.
fn inline_allowed(op: &SendOp) -> bool {
    matches!(
        op,
        SendOp::Send(_)
            | SendOp::Datagram { .. }
            | SendOp::Write { .. }
            | SendOp::AtomicWrite { .. }
    )
}

/// Bytes that an atomic operation is about.
const ATOMIC: u32 = 8;

/// Whether the length of a message fits the operation.
pub(crate) fn length_fits(op: &SendOp, len: u32) -> bool {
    match op {
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } | SendOp::AtomicWrite { .. } => {
            len == ATOMIC
        }
        _ => len <= sge::MAX_LENGTH,
    }
}

/// Whether the peer's address fits the operation. The peer looks at it as well, and its answer is
/// what a process is told (`IB_WC_REM_INV_REQ_ERR`); a consumer in the kernel learns of it at once.
pub(crate) fn is_aligned(op: &SendOp) -> bool {
    match op {
        SendOp::CompareSwap { at: to, .. }
        | SendOp::FetchAdd { at: to, .. }
        | SendOp::AtomicWrite { to } => to.va % u64::from(ATOMIC) == 0,
        _ => true,
    }
}

fn make_wqe(
    wr_id: u64,
    op: SendOp,
    len: u32,
    flags: Flags,
    caps: &SendCaps,
    local: SendLocal,
) -> SendWqe<SendLocal> {
    SendWqe {
        wr_id,
        op,
        len,
        signaled: caps.signal_all || flags.has(bindings::ib_send_flags_IB_SEND_SIGNALED),
        solicited: flags.has(bindings::ib_send_flags_IB_SEND_SOLICITED),
        fence: flags.has(bindings::ib_send_flags_IB_SEND_FENCE),
        xrc_srq: None,
        local,
    }
}

/// The driver's part of a receive request.
pub(crate) struct RecvLocal {
    tail: Tail,
    count: usize,
    cursor: Cursor,
    /// The XRC queue that it was taken from.
    srq: Option<Arc<SrqCore>>,
}

impl RecvLocal {
    /// Notes the XRC queue that the request was taken from.
    pub(crate) fn belongs_to(&mut self, srq: Arc<SrqCore>) {
        self.srq = Some(srq);
    }

    /// The XRC queue that the request was taken from.
    pub(crate) fn srq(&self) -> Option<&Arc<SrqCore>> {
        self.srq.as_ref()
    }

    /// Copies bytes to byte `at` of the message on. May sleep, if memory is fetched on demand.
    pub(crate) fn scatter(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        from: &[u8],
    ) -> Result<(), Status> {
        let list = self.tail.entries(self.count);
        Local { memory, pd, list }
            .scatter(&mut self.cursor, at, from)
            .map_err(|_| Status::LocProt)
    }
}
