// SPDX-License-Identifier: GPL-2.0

//! Datagrams under way: where each one is, and who owns it.
//!
//! A send object has one owner at any time, which is the [`OwnedSend`] in
//! somebody's hand or in one of the lists of [`Sends`]:
//!
//! | owner | stage |
//! |---|---|
//! | the client | `Idle`, or `Done` after it got the object back |
//! | `backlog` | `Backlog`: too many requests are unanswered |
//! | `sending` | `Sending`, `Answered`, `Canceled`: the queue pair works on it |
//! | `waiting` | `Waiting` for an answer, in the order of deadlines |
//! | `canceled` | `Canceled`: the timer gives it back |
//! | `local` | `Sending`: the driver's own agents consumed it |
//!
//! What the queue pair holds is a plain count of the object. The completion takes
//! it out of `sending`, so no two events can give an object back.

use super::{
    agent::Lease,
    port::SendQueue, //
};
use kernel::{
    bindings,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        List,
        ListArc,
        ListLinks,
        TryNewListArc, //
    },
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        LockedBy, //
    },
    time::Jiffies, //
};
use rdma::{
    impl_has_send_wr,
    jiffies::Deadline,
    mad::{
        glue::SendTrace,
        recv::RecvChain,
        send::{
            SendMapping,
            SendWr, //
        },
        verbs::Ah,
        wire::{
            Class,
            RmppHeader,
            RmppType, //
        }, //
    }, //
};

/// A datagram to send, with its transaction.
#[pin_data]
pub(crate) struct SendMad {
    in_flight: LockedBy<InFlight, SendQueue>,
    wr: SendWr,
    /// Kept for an internal datagram.
    ah: Option<Arc<Ah>>,
    internal: bool,
    retries: Retries,
    state: LockedBy<SendState, Sends>,
    #[pin]
    links: ListLinks<0>,
    #[pin]
    overflow_links: ListLinks<1>,
    #[pin]
    overflow_tracker: AtomicTracker<1>,
    /// Last: the agent may go when it is dropped.
    agent: Lease,
}

impl_has_send_wr!(SendMad { self.wr });
impl_list_arc_safe! {
    impl ListArcSafe<0> for SendMad { untracked; }
    impl ListArcSafe<1> for SendMad { tracked_by overflow_tracker: AtomicTracker<1>; }
}
impl_list_item! {
    impl ListItem<0> for SendMad { using ListLinks { self.links }; }
    impl ListItem<1> for SendMad { using ListLinks { self.overflow_links }; }
}

/// The right to decide over a send object.
pub(crate) type OwnedSend = ListArc<SendMad, 0>;

/// What the queue pair's lock protects.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Present while the queue pair works on the datagram or it waits for room.
    pub(crate) mapping: Option<SendMapping>,
    /// The queue's count of recoveries when the datagram was posted.
    pub(crate) epoch: u32,
}

/// Outcome of a send for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Completion status.
    pub(crate) code: bindings::ib_wc_status,
    /// More about an error: the RMPP status of an aborted transfer.
    pub(crate) vendor_err: u32,
}

impl Status {
    /// No error.
    pub(crate) const SUCCESS: Self = Self::new(bindings::ib_wc_status_IB_WC_SUCCESS);
    /// Cancelled.
    pub(crate) const FLUSHED: Self = Self::new(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR);
    /// No answer came.
    pub(crate) const TIMED_OUT: Self = Self::new(bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR);
    /// Could not be posted.
    pub(crate) const NOT_POSTED: Self = Self::new(bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR);
    /// A later segment could not be posted.
    pub(crate) const GENERAL: Self = Self::new(bindings::ib_wc_status_IB_WC_GENERAL_ERR);

    const fn new(code: bindings::ib_wc_status) -> Self {
        Self {
            code,
            vendor_err: 0,
        }
    }

    /// The peer ended the transfer.
    pub(crate) const fn aborted(reason: u8) -> Self {
        Self {
            code: bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
            vendor_err: reason as u32,
        }
    }

    /// No error.
    pub(crate) fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

/// Where a datagram is; the [module](self) says in which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// With the client, not posted.
    Idle,
    /// Held back by flow control.
    Backlog,
    /// The queue pair works on it.
    Sending,
    /// Sent; an answer is due by then.
    Waiting(Deadline),
    /// The answer (or the end of the transfer, with its status) came before the
    /// completion of the send.
    Answered(Option<Status>),
    /// The client wants it back.
    Canceled,
    /// On its way to the client.
    Done,
}

/// Progress of a segmented transfer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Transfer {
    /// Last segment sent.
    pub(crate) segment: u32,
    /// Last segment that may be sent.
    pub(crate) window: u32,
    /// Last segment that the peer has.
    pub(crate) acked: u32,
}

/// What a driver's own agent made of a datagram, for the local work item.
pub(crate) struct LocalReply {
    /// Who gets it.
    pub(crate) receiver: Lease,
    /// The datagram; its completion is made up when it is delivered.
    pub(crate) chain: rdma::mad::recv::Recv,
    /// Bytes of it.
    pub(crate) len: usize,
}

/// The transaction of a datagram.
pub(crate) struct SendState {
    stage: Stage,
    /// Counts as unanswered for flow control.
    counted: bool,
    /// Subject to flow control.
    pub(crate) solicited: bool,
    /// How long to wait for an answer; 0 for none.
    pub(crate) timeout: Jiffies,
    pub(crate) class: Class,
    pub(crate) tid: u64,
    pub(crate) transfer: Transfer,
    pub(crate) local: Option<LocalReply>,
}

impl SendState {
    /// Where the datagram is.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// For trace events, without the retries.
    pub(crate) fn trace(&self) -> SendTrace {
        SendTrace {
            tid: self.tid,
            timeout: self.timeout,
            ..SendTrace::default()
        }
    }
}

/// How often a request is sent again. Changed with the agent's sends locked; trace events read it
/// without.
pub(crate) struct Retries {
    max: Atomic<u32>,
    left: Atomic<u32>,
}

impl Retries {
    fn new() -> Self {
        Self {
            max: Atomic::new(0),
            left: Atomic::new(0),
        }
    }

    /// The request may be sent again so often.
    pub(crate) fn allow(&self, retries: u32) {
        self.max.store(retries, Relaxed);
        self.left.store(retries, Relaxed);
    }

    /// The peer is there: all retries are left again.
    pub(crate) fn refill(&self) {
        self.left.store(self.max.load(Relaxed), Relaxed);
    }

    /// Takes one; says whether there was one left.
    pub(crate) fn take(&self) -> bool {
        let left = self.left.load(Relaxed).checked_sub(1);
        if let Some(left) = left {
            self.left.store(left, Relaxed);
        }
        left.is_some()
    }

    /// Adds the numbers to what a trace event shows.
    pub(crate) fn trace(&self, trace: SendTrace) -> SendTrace {
        SendTrace {
            max_retries: self.max.load(Relaxed),
            retries_left: self.left.load(Relaxed),
            ..trace
        }
    }
}

impl SendMad {
    /// Makes a datagram of `agent`.
    pub(crate) fn new(
        agent: Lease,
        wr: SendWr,
        ah: Option<Arc<Ah>>,
        internal: bool,
        gfp: rdma::gfp::Gfp,
    ) -> Result<OwnedSend> {
        if let Some(ah) = &ah {
            wr.set_ah(ah);
        }
        let state = LockedBy::new(
            agent.sends(),
            SendState {
                stage: Stage::Idle,
                counted: false,
                solicited: false,
                timeout: 0,
                class: Class(0),
                tid: 0,
                transfer: Transfer::default(),
                local: None,
            },
        );
        let in_flight = LockedBy::new(agent.port().slot(agent.kind()).sends(), InFlight::default());
        ListArc::pin_init(
            try_pin_init!(Self {
                in_flight,
                wr,
                ah,
                internal,
                retries: Retries::new(),
                state,
                links <- ListLinks::new(),
                overflow_links <- ListLinks::new(),
                overflow_tracker <- AtomicTracker::new(),
                agent,
            }? Error),
            gfp.flags(),
        )
    }

    /// The part that C and the device see.
    pub(crate) fn wr(&self) -> &SendWr {
        &self.wr
    }

    /// The agent.
    pub(crate) fn agent(&self) -> &Lease {
        &self.agent
    }

    /// Made here: nobody is told when it is sent.
    pub(crate) fn is_internal(&self) -> bool {
        self.internal
    }

    /// How often it is sent again.
    pub(crate) fn retries(&self) -> &Retries {
        &self.retries
    }

    /// The transaction.
    pub(crate) fn state<'a>(&'a self, sends: &'a Sends) -> &'a SendState {
        self.state.access(sends)
    }

    /// The transaction, to change.
    pub(crate) fn state_mut<'a>(&'a self, sends: &'a mut Sends) -> &'a mut SendState {
        self.state.access_mut(sends)
    }

    /// What the queue's lock protects.
    pub(crate) fn in_flight<'a>(&'a self, queue: &'a SendQueue) -> &'a InFlight {
        self.in_flight.access(queue)
    }

    /// What the queue's lock protects, to change.
    pub(crate) fn in_flight_mut<'a>(&'a self, queue: &'a mut SendQueue) -> &'a mut InFlight {
        self.in_flight.access_mut(queue)
    }

    /// A segment of a transfer, or a datagram without segments; not an
    /// acknowledgement or the like.
    pub(crate) fn carries_data(&self) -> bool {
        if !self.agent.has_kernel_rmpp() {
            return true;
        }
        let rmpp = self.wr.rmpp();
        !rmpp.has(RmppHeader::ACTIVE) || rmpp.kind == RmppType::Data
    }
}

/// The datagrams of an agent that are under way.
pub(crate) struct Sends {
    sending: List<SendMad>,
    waiting: List<SendMad>,
    backlog: List<SendMad>,
    canceled: List<SendMad>,
    local: List<SendMad>,
    /// Unanswered requests that flow control counts.
    outstanding: u32,
    /// Most of them; 0 for no limit.
    limit: u32,
}

fn take(list: &mut List<SendMad>, send: &SendMad) -> Option<OwnedSend> {
    let mut cursor = list.cursor_front();
    while let Some(next) = cursor.peek_next() {
        if core::ptr::eq(&*next.arc(), send) {
            return Some(next.remove());
        }
        cursor.move_next();
    }
    None
}

/// What became of a request that was answered.
pub(crate) enum Answered {
    /// It is the caller's to give back.
    Done(OwnedSend),
    /// Its completion gives it back.
    Early,
}

impl Sends {
    /// Without datagrams, with a limit for flow control.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            sending: List::new(),
            waiting: List::new(),
            backlog: List::new(),
            canceled: List::new(),
            local: List::new(),
            outstanding: 0,
            limit,
        }
    }

    fn set_stage(&mut self, send: &SendMad, stage: Stage) {
        let state = send.state_mut(self);
        let counts = state.solicited && matches!(stage, Stage::Sending | Stage::Waiting(_));
        let counted = core::mem::replace(&mut state.counted, counts);
        state.stage = stage;
        match (counted, counts) {
            (false, true) => self.outstanding = self.outstanding.saturating_add(1),
            (true, false) => self.outstanding = self.outstanding.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether flow control lets another request out.
    fn has_room(&self) -> bool {
        self.limit == 0 || self.outstanding < self.limit
    }

    /// Whether a new request has to queue up.
    pub(crate) fn must_queue(&self, send: &SendMad) -> bool {
        send.state(self).solicited
            && self.limit != 0
            && (!self.backlog.is_empty() || !self.has_room())
    }

    /// Whether requests are queued up.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Holds a request back.
    pub(crate) fn queue(&mut self, send: OwnedSend) {
        self.set_stage(&send, Stage::Backlog);
        self.backlog.push_back(send);
    }

    /// The next request that may go out.
    pub(crate) fn next_queued(&mut self) -> Option<OwnedSend> {
        if !self.has_room() {
            return None;
        }
        self.backlog.pop_front()
    }

    /// The queue pair gets the datagram.
    pub(crate) fn start(&mut self, send: OwnedSend) {
        self.set_stage(&send, Stage::Sending);
        self.sending.push_back(send);
    }

    /// The driver consumed the datagram; the local work item completes it.
    pub(crate) fn start_local(&mut self, send: OwnedSend, reply: Option<LocalReply>) {
        send.state_mut(self).local = reply;
        self.set_stage(&send, Stage::Sending);
        self.local.push_back(send);
    }

    /// The next one that the driver consumed.
    pub(crate) fn next_local(&mut self) -> Option<(OwnedSend, Option<LocalReply>)> {
        let send = self.local.pop_front()?;
        self.set_stage(&send, Stage::Done);
        let reply = send.state_mut(self).local.take();
        Some((send, reply))
    }

    /// Ends the work of the queue pair.
    pub(crate) fn finish_sending(&mut self, send: &SendMad) -> Option<OwnedSend> {
        let owned = take(&mut self.sending, send)?;
        self.set_stage(&owned, Stage::Done);
        Some(owned)
    }

    /// Back to the queue pair for the next segment of a transfer.
    pub(crate) fn resume(&mut self, send: &SendMad) {
        if let Some(owned) = take(&mut self.waiting, send) {
            self.start(owned);
        }
    }

    /// Waits for the answer to a datagram that was sent; `true` if it is the next
    /// to time out.
    pub(crate) fn wait_for_answer(&mut self, send: &SendMad) -> bool {
        let taken = take(&mut self.sending, send).or_else(|| take(&mut self.waiting, send));
        match taken {
            Some(owned) => self.wait(owned),
            None => false,
        }
    }

    fn wait(&mut self, owned: OwnedSend) -> bool {
        let deadline = Deadline::after(owned.state(self).timeout);
        self.set_stage(&owned, Stage::Waiting(deadline));

        // From the end: most wait about equally long.
        let mut waiting = core::mem::replace(&mut self.waiting, List::new());
        let mut cursor = waiting.cursor_back();
        while let Some(before) = cursor.peek_prev() {
            match before.arc().state(self).stage {
                Stage::Waiting(other) if deadline.is_before(other) => {}
                _ => break,
            }
            cursor.move_prev();
        }
        let is_first = cursor.peek_prev().is_none();
        cursor.insert_prev(owned);
        self.waiting = waiting;
        is_first
    }

    /// The first deadline.
    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        let first = self.waiting.iter().next()?;
        match first.state(self).stage {
            Stage::Waiting(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// Takes out a request whose deadline has passed.
    pub(crate) fn next_expired(&mut self) -> Option<OwnedSend> {
        if !self.next_deadline()?.has_passed() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Marks a datagram that is in no list as given back.
    pub(crate) fn close(&mut self, send: &SendMad) {
        self.set_stage(send, Stage::Done);
    }

    /// Takes all cancelled datagrams.
    pub(crate) fn take_canceled(&mut self) -> List<SendMad> {
        let mut list = List::new();
        while let Some(send) = self.canceled.pop_front() {
            self.set_stage(&send, Stage::Done);
            list.push_back(send);
        }
        list
    }

    /// Cancels everything. What the queue pair does not work on is returned, the
    /// rest comes back with its completion.
    pub(crate) fn cancel_all(&mut self) -> List<SendMad> {
        let mut list = self.take_canceled();
        while let Some(send) = self
            .waiting
            .pop_front()
            .or_else(|| self.backlog.pop_front())
        {
            self.set_stage(&send, Stage::Done);
            list.push_back(send);
        }
        let mut sending = core::mem::replace(&mut self.sending, List::new());
        while let Some(send) = sending.pop_front() {
            self.set_stage(&send, Stage::Canceled);
            self.sending.push_back(send);
        }
        list
    }

    /// Changes the time that a datagram waits; 0 cancels it. `EINVAL` if it is not
    /// under way. The result says whether, and how soon, the timer has to run.
    pub(crate) fn modify(
        &mut self,
        is_it: impl Fn(&SendMad) -> bool,
        timeout_ms: u32,
    ) -> Result<Option<Jiffies>> {
        let found = [&self.waiting, &self.sending, &self.backlog]
            .into_iter()
            .flat_map(|list| list.iter())
            .find(|send| is_it(send))
            .filter(|send| send.carries_data())
            .map(Arc::from)
            .ok_or(EINVAL)?;
        let timeout = kernel::time::msecs_to_jiffies(timeout_ms);
        let stage = found.state(self).stage;
        if stage == Stage::Canceled {
            return Err(EINVAL);
        }
        found.wr.set_timeout_ms(timeout_ms);
        found.state_mut(self).timeout = timeout;
        match stage {
            Stage::Waiting(_) if timeout_ms != 0 => {
                Ok(self.wait_for_answer(&found).then_some(timeout))
            }
            Stage::Waiting(_) | Stage::Backlog if timeout_ms == 0 => {
                let owned =
                    take(&mut self.waiting, &found).or_else(|| take(&mut self.backlog, &found));
                if let Some(owned) = owned {
                    self.set_stage(&owned, Stage::Canceled);
                    self.canceled.push_back(owned);
                }
                Ok(Some(0))
            }
            _ => {
                if timeout_ms == 0 {
                    self.set_stage(&found, Stage::Canceled);
                }
                Ok(None)
            }
        }
    }

    /// The request that a received datagram belongs to.
    pub(crate) fn find(&self, chain: &RecvChain) -> Option<Arc<SendMad>> {
        let header = chain.header()?;
        let matches = |send: &SendMad| {
            let state = send.state(self);
            state.tid == header.tid
                && state.class == header.class
                && (header.class == Class::SUBN_DIRECTED_ROUTE
                    || super::matching::same_peer(send, &header, chain))
        };
        [&self.waiting, &self.backlog]
            .into_iter()
            .flat_map(|list| list.iter())
            .find(|send| matches(send))
            .or_else(|| {
                // An answer may come before the completion of the send.
                self.sending
                    .iter()
                    .find(|send| {
                        send.carries_data() && send.state(self).timeout != 0 && matches(send)
                    })
                    .filter(|send| send.state(self).stage != Stage::Canceled)
            })
            .map(Arc::from)
    }

    /// A request was answered, or its transfer ended with `status`.
    pub(crate) fn answer(&mut self, send: &SendMad, status: Option<Status>) -> Answered {
        send.state_mut(self).timeout = 0;
        match take(&mut self.waiting, send).or_else(|| take(&mut self.backlog, send)) {
            Some(owned) => {
                self.set_stage(&owned, Stage::Done);
                Answered::Done(owned)
            }
            None => {
                self.set_stage(send, Stage::Answered(status));
                Answered::Early
            }
        }
    }
}
