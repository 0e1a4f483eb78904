// SPDX-License-Identifier: GPL-2.0

//! What the state machines need from the rest of the driver: memory, the network, completion
//! queues, the clock.
//!
//! The state machines call these functions with the lock of their side held (see
//! [the module](super)). So nothing here may call a consumer, take the lock of either side, or
//! enter the state machine again. Completions are written into the completion queue (its lock
//! nests inside); handlers and events are noted and called after unlock. Whether a function may
//! sleep is the environment's choice: the state machines hold nothing that forbids it.

use super::run::Run;
use super::wr::{LocalOp, RecvWc, RecvWqe, SendWc, SendWqe, Status};
use crate::wire::ext::{Feth, Key};
use core::ops::DerefMut;

/// Time in nanoseconds of a monotonic clock.
pub(crate) type Nanos = u64;

/// Why packets were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TxError {
    /// No room now (packets in flight, memory). The environment calls `run` again when there is.
    /// A packet that the network dropped is *not* this: it counts as sent.
    Full,
    /// Local memory of the request cannot be read, or there is no route that could ever work: the
    /// request ends with this status.
    Local(Status),
}

/// Why the peer may not touch memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessError {
    /// Key, protection domain, rights or range do not allow it: remote access error.
    Denied,
    /// It is allowed, but failed (a page cannot be faulted in): remote operational error.
    Failed,
}

/// The completion queue is full; the entry is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CqOverflow;

/// Asynchronous events of a queue pair. Those of completion queues and shared receive queues are
/// raised by these objects themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QpEvent {
    /// The send queue is drained (`IB_EVENT_SQ_DRAINED`).
    SqDrained,
    /// No request of the shared receive queue will come any more
    /// (`IB_EVENT_QP_LAST_WQE_REACHED`).
    LastWqeReached,
    /// A peer's access was refused and no completion tells it (`IB_EVENT_QP_ACCESS_ERR`).
    AccessErr,
}

/// What the statistics of the port count (`hw_counters`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counter {
    /// `duplicate_request`
    DuplicateRequest,
    /// `out_of_seq_request`
    OutOfSeqRequest,
    /// `rcvd_rnr_err`
    RcvdRnr,
    /// `send_rnr_err`
    SentRnr,
    /// `rcvd_seq_err`
    RcvdSeqErr,
    /// `ack_deferred`: an acknowledgement that a later one stands for.
    AckDeferred,
    /// `retry_exceeded_err`
    RetryExceeded,
    /// `retry_rnr_exceeded_err`
    RnrRetryExceeded,
    /// `completer_retry_err`
    CompleterRetry,
    /// `send_err`
    SendErr,
    /// `rdma_sends`: messages sent.
    Sends,
    /// `rdma_recvs`: messages received.
    Recvs,
}

/// Memory for `T`s whose number is fixed when it is made.
pub(crate) trait Slots<T>: DerefMut<Target = [T]> {}

impl<T, S: DerefMut<Target = [T]>> Slots<T> for S {}

/// The environment of a send queue.
pub(crate) trait SendEnv {
    /// The environment's part of a request, see [`SendWqe`].
    type Local;
    /// A received packet; the state machine only hands it on.
    type Rx: ?Sized;

    /// The time.
    fn now(&mut self) -> Nanos;

    /// Takes the next request from the send queue. From here on the state machine owns it and
    /// gives it back through [`retire`](Self::retire), exactly once and in the same order.
    fn fetch(&mut self) -> Option<SendWqe<Self::Local>>;

    /// Completes a request that was just fetched, before anything else is done with it. It is not
    /// called for one that is flushed.
    fn adjust(&mut self, _wqe: &mut SendWqe<Self::Local>) {}

    /// Whether [`fetch`](Self::fetch) would give a request now. It may be stale: the answer only
    /// decides whether `run` is worth calling again, which the poster of a request does anyway.
    fn has_more(&mut self) -> bool;

    /// Sends packets of one message: for each segment its headers, the bytes
    /// `segment.offset .. segment.offset + segment.len` of the message, padding and ICRC.
    ///
    /// Returns how many of them were taken, in order, at least one. The environment may keep
    /// them in a batch until the caller of `run` ends it.
    fn transmit(&mut self, run: &Run, local: &mut Self::Local) -> Result<u32, TxError>;

    /// Writes the payload of a response at byte `at` of the request's scatter list.
    fn scatter(&mut self, local: &mut Self::Local, at: u32, rx: &Self::Rx) -> Result<(), Status>;

    /// Writes the result of an atomic operation (in host order) to the request's scatter list.
    fn store_result(&mut self, local: &mut Self::Local, value: u64) -> Result<(), Status>;

    /// Executes a local operation.
    fn execute(&mut self, op: LocalOp, local: &mut Self::Local) -> Result<(), Status>;

    /// Ends a request: frees its place in the send queue (consumer index) and, when there is one,
    /// writes the completion. The state machine drops `local` right after.
    fn retire(&mut self, local: &Self::Local, wc: Option<SendWc>) -> Result<(), CqOverflow>;

    /// The send queue has failed. The environment notes it and, after unlock, fails the other
    /// side too and stores the state in the queue pair. Called once per failure. For queue pairs
    /// other than RC only the send queue is in error (SQE) and the other side goes on; the
    /// state machine's `state()` tells which.
    fn failed(&mut self);

    /// Notes an event, to be raised after unlock.
    fn event(&mut self, event: QpEvent);

    /// Counts.
    fn count(&mut self, counter: Counter);
}

/// Rights that an access of the peer needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    /// `IB_ACCESS_REMOTE_READ`
    Read,
    /// `IB_ACCESS_REMOTE_WRITE`
    Write,
    /// `IB_ACCESS_REMOTE_ATOMIC`
    Atomic,
    /// `IB_ACCESS_FLUSH_GLOBAL` and/or `IB_ACCESS_FLUSH_PERSISTENT`, as the header tells.
    Flush(Feth),
}

/// An access that the peer asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// Key of a region or window.
    pub(crate) key: Key,
    /// First byte.
    pub(crate) va: u64,
    /// Bytes, never 0 except for a flush of the whole region.
    pub(crate) len: u32,
    /// What for.
    pub(crate) right: Right,
}

/// An operation on 8 aligned bytes that returns what was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtomicOp {
    /// Store `swap` if the value is `compare`.
    CompareSwap {
        /// The value expected.
        compare: u64,
        /// The value to store then.
        swap: u64,
    },
    /// Add, modulo 2^64.
    FetchAdd(u64),
}

/// The environment of the receive side.
pub(crate) trait RecvEnv {
    /// The environment's part of a receive request.
    type Local;
    /// A permission: holds a reference to the region or window and the byte range and right
    /// that were granted. It does not freeze the region; each access through it fails once the
    /// region was invalidated or deregistered. Offsets count from the start of the range.
    type Remote;
    /// A received packet; the state machine only hands it on.
    type Rx: ?Sized;

    /// An XRC request names this shared receive queue: what follows, until the next call, uses its
    /// requests and its protection domain. Says whether there is such a queue for this queue pair.
    fn address(&mut self, srq: u32) -> bool;

    /// Takes the next receive request, from the receive queue or the shared one (which raises its
    /// own limit event). It comes back through [`complete`](Self::complete), exactly once,
    /// or is dropped when the queue pair is reset.
    fn next_recv(&mut self) -> Option<RecvWqe<Self::Local>>;

    /// Writes the payload of a packet at byte `at` of a receive request.
    fn scatter(&mut self, local: &mut Self::Local, at: u32, rx: &Self::Rx) -> Result<(), Status>;

    /// Writes the 40 bytes of network header of a datagram at the start of a receive request.
    fn scatter_grh(&mut self, local: &mut Self::Local, rx: &Self::Rx) -> Result<(), Status>;

    /// Asks for an access: looks the key up, checks domain, queue pair (windows), rights, range.
    fn open(&mut self, access: &Access) -> Result<Self::Remote, AccessError>;

    /// Writes the payload of a packet at byte `at` of the range.
    fn write(&mut self, to: &mut Self::Remote, at: u32, rx: &Self::Rx) -> Result<(), AccessError>;

    /// Executes an atomic operation on the 8 bytes of the range; returns the previous value.
    fn atomic(&mut self, on: &mut Self::Remote, op: AtomicOp) -> Result<u64, AccessError>;

    /// Stores 8 bytes at once, with release order. `value` is as it was in the packet, in memory
    /// order.
    fn atomic_write(&mut self, to: &mut Self::Remote, value: [u8; 8]) -> Result<(), AccessError>;

    /// Flushes the range.
    fn flush(&mut self, range: &mut Self::Remote, how: Feth) -> Result<(), AccessError>;

    /// Invalidates a region or window on the peer's request.
    fn invalidate(&mut self, key: Key) -> Result<(), AccessError>;

    /// Sends responses; as [`SendEnv::transmit`]. The payload of READ responses is
    /// `segment.offset ..` of the range; other responses have none and come with `None`.
    /// [`TxError::Local`] means that the memory cannot be read.
    fn transmit(&mut self, run: &Run, from: Option<&mut Self::Remote>) -> Result<u32, TxError>;

    /// Ends a receive request with a completion.
    fn complete(&mut self, local: Self::Local, wc: RecvWc) -> Result<(), CqOverflow>;

    /// The receive side has failed: as [`SendEnv::failed`], the whole queue pair.
    fn failed(&mut self);

    /// Notes an event, to be raised after unlock.
    fn event(&mut self, event: QpEvent);

    /// Counts.
    fn count(&mut self, counter: Counter);
}
