// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions as the state machines see them: already copied out of shared
//! memory, already validated, owned.

use crate::wire::ext::{Feth, Imm, Key};
use crate::wire::packet::SendEnd;

/// Where a request acts at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemoteAddr {
    /// Virtual address (or offset of a zero-based window).
    pub(crate) va: u64,
    /// Key of the region or window.
    pub(crate) key: Key,
}

/// A request of the send queue.
///
/// `L` is the environment's part of it, which the state machine owns but never looks into: the
/// gather list or the inline bytes, for datagrams the address vector, for local operations what
/// they act on. It goes back to the environment when the request retires.
#[derive(Debug)]
pub(crate) struct SendWqe<L> {
    /// The consumer's cookie (of kernel consumers: the address of their `ib_cqe`).
    pub(crate) wr_id: u64,
    /// What to do.
    pub(crate) op: SendOp,
    /// Bytes of the message: to send, to write, to read, to flush. 8 for the atomics.
    pub(crate) len: u32,
    /// Whether success makes a completion. Errors always do.
    pub(crate) signaled: bool,
    /// Whether the last packet asks for a solicited event.
    pub(crate) solicited: bool,
    /// Whether to wait for all earlier reads and atomics.
    pub(crate) fence: bool,
    /// XRC: number of the shared receive queue at the destination.
    pub(crate) xrc_srq: Option<u32>,
    /// The environment's part.
    pub(crate) local: L,
}

/// What a send request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendOp {
    /// SEND on a connection.
    Send(SendEnd),
    /// SEND of a datagram.
    Datagram {
        /// Queue pair at the destination.
        dest_qpn: u32,
        /// Key of the destination. The environment has already replaced a controlled one (top
        /// bit set) by the queue pair's own.
        qkey: u32,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// RDMA WRITE.
    Write {
        /// Where to.
        to: RemoteAddr,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// RDMA READ.
    Read {
        /// Where from.
        from: RemoteAddr,
    },
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// Where.
        at: RemoteAddr,
        /// The value expected.
        compare: u64,
        /// The value to store then.
        swap: u64,
    },
    /// Fetch and add of 8 bytes.
    FetchAdd {
        /// Where.
        at: RemoteAddr,
        /// The value to add.
        add: u64,
    },
    /// ATOMIC WRITE of the 8 bytes that the request has locally.
    AtomicWrite {
        /// Where to.
        to: RemoteAddr,
    },
    /// FLUSH of a range of the peer's memory.
    Flush {
        /// Where.
        at: RemoteAddr,
        /// What kind.
        how: Feth,
    },
    /// Something that sends nothing; the environment executes it.
    Local(LocalOp),
    /// The request did not pass validation. It completes in its turn with this status.
    Invalid(Status),
}

/// Operations that never leave the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LocalOp {
    /// Fast registration of a memory region.
    RegMr,
    /// Invalidation of a region or window.
    LocalInvalidate,
    /// Binding of a memory window.
    BindMw,
}

/// A request of a receive queue or shared receive queue. `L` as in [`SendWqe`].
#[derive(Debug)]
pub(crate) struct RecvWqe<L> {
    /// The consumer's cookie.
    pub(crate) wr_id: u64,
    /// Bytes that fit, over the whole scatter list.
    pub(crate) len: u32,
    /// The status of a request that did not pass validation.
    pub(crate) invalid: Option<Status>,
    /// The environment's part.
    pub(crate) local: L,
}

/// Status of a completion (`enum ib_wc_status`, same numbers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Status {
    /// Done.
    Success = 0,
    /// The message is longer than the receive request, or than a datagram may be.
    LocLen = 1,
    /// The request itself is faulty, or the queue pair cannot do it.
    LocQpOp = 2,
    /// A local key or range is wrong.
    LocProt = 4,
    /// Not executed: the queue is in error.
    WrFlush = 5,
    /// A window could not be bound.
    MwBind = 6,
    /// The answer does not fit the request.
    BadResp = 7,
    /// The peer refused the request as invalid.
    RemInvReq = 9,
    /// The peer refused the access.
    RemAccess = 10,
    /// The peer could not execute the request.
    RemOp = 11,
    /// No answer after all retries.
    RetryExc = 12,
    /// The receiver had no request posted, after all retries.
    RnrRetryExc = 13,
    /// The environment failed where it must not.
    Fatal = 19,
}

/// The operation that a completion of the send queue names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WcOp {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// FLUSH.
    Flush,
    /// Fast registration.
    RegMr,
    /// Invalidation.
    LocalInvalidate,
    /// Window binding.
    BindMw,
}

impl SendOp {
    /// The operation as the completion names it. A request that did not pass validation has
    /// none of its own; consumers must not look at the opcode of an error completion.
    pub(crate) const fn wc_op(&self) -> WcOp {
        match self {
            Self::Send(_) | Self::Datagram { .. } | Self::Invalid(_) => WcOp::Send,
            Self::Write { .. } => WcOp::Write,
            Self::Read { .. } => WcOp::Read,
            Self::CompareSwap { .. } => WcOp::CompareSwap,
            Self::FetchAdd { .. } => WcOp::FetchAdd,
            Self::AtomicWrite { .. } => WcOp::AtomicWrite,
            Self::Flush { .. } => WcOp::Flush,
            Self::Local(LocalOp::RegMr) => WcOp::RegMr,
            Self::Local(LocalOp::LocalInvalidate) => WcOp::LocalInvalidate,
            Self::Local(LocalOp::BindMw) => WcOp::BindMw,
        }
    }

    /// Whether the peer answers with more than an acknowledgement and needs to remember the
    /// answer: such requests count against the depth of reads and atomics.
    pub(crate) const fn needs_response(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::CompareSwap { .. }
                | Self::FetchAdd { .. }
                | Self::AtomicWrite { .. }
                | Self::Flush { .. }
        )
    }
}

/// A completion of the send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SendWc {
    /// The request's cookie.
    pub(crate) wr_id: u64,
    /// How it ended.
    pub(crate) status: Status,
    /// What it was.
    pub(crate) op: WcOp,
    /// Bytes of a read, write or atomic; else the length of the message.
    pub(crate) byte_len: u32,
}

/// A completion of the receive side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecvWc {
    /// The request's cookie.
    pub(crate) wr_id: u64,
    /// How it ended.
    pub(crate) status: Status,
    /// Whether an RDMA WRITE with immediate took the request, instead of a SEND.
    pub(crate) by_write: bool,
    /// Bytes received (of datagrams with the 40 bytes of the header) or written.
    pub(crate) byte_len: u32,
    /// Immediate data or the key that was invalidated.
    pub(crate) end: SendEnd,
    /// The sender's queue pair (of connections: the connected one).
    pub(crate) src_qp: u32,
    /// Whether the buffer starts with a network header (`IB_WC_GRH`): datagrams.
    pub(crate) grh: bool,
    /// Whether the sender asked for a solicited event. For [`Status`] other than success the
    /// environment treats each completion as solicited.
    pub(crate) solicited: bool,
}
