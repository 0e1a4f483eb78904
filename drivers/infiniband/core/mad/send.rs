// SPDX-License-Identifier: GPL-2.0

//! Sending: making and posting datagrams, their completions, timeouts and
//! cancellation.
//!
//! Lock order: an agent's sends, then the queue of a queue pair.

use super::{
    agent::{
        Agent,
        Lease, //
    },
    flight::{
        OwnedSend,
        SendMad,
        Sends,
        Stage,
        Status, //
    },
    local,
    port::SendQueue,
};
use crate::mad_rmpp::{
    self,
    Sent, //
};
use kernel::{
    bindings,
    dev_err,
    list::{
        List,
        ListArc, //
    },
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies, //
};
use rdma::{
    gfp::Gfp,
    mad::{
        glue::{
            self,
            AgentEvent,
            SendEvent,
            SendTrace, //
        },
        recv::RecvContext,
        send::{
            SendHandler,
            SendLayout,
            SendWr,
            Target, //
        },
        verbs::Ah,
        wire::{
            Class,
            RmppHeader,
            RmppType,
            MAD_SIZE,
            OPA_BASE_VERSION,
            OPA_MAD_SIZE, //
        },
        WorkCompletion, //
    }, //
};

/// Key that a special queue pair takes from the packet's destination.
const QKEY_FROM_QP: u32 = 0x8000_0000;

/// What a client wants to send.
pub(crate) struct Draft {
    /// Queue pair at the destination.
    pub(crate) remote_qpn: u32,
    /// Index of the partition key.
    pub(crate) pkey_index: u16,
    /// As a segmented transfer.
    pub(crate) rmpp: bool,
    /// Bytes of the headers.
    pub(crate) header: usize,
    /// Bytes of the data.
    pub(crate) data: usize,
    /// Version of the datagram.
    pub(crate) base_version: u8,
}

impl Draft {
    /// Sizes of the datagram. `EINVAL` if it does not fit, or is a transfer of a
    /// client that does those itself.
    fn layout(&self, port_is_opa: bool, kernel_rmpp: bool) -> Result<SendLayout> {
        let opa = port_is_opa && self.base_version == OPA_BASE_VERSION;
        let mad_size = if opa { OPA_MAD_SIZE } else { MAD_SIZE };
        let room = mad_size.checked_sub(self.header).ok_or(EINVAL)?;

        // Data end with a whole datagram; without data there is one all the same.
        let pad = match self.data {
            0 => room,
            _ if room == 0 => 0,
            data => (room - data % room) % room,
        };
        let padded = self.data.checked_add(pad).ok_or(EINVAL)?;
        let whole = self.header.checked_add(padded).ok_or(EINVAL)?;
        if self.rmpp && !kernel_rmpp || !self.rmpp && whole > mad_size {
            return Err(EINVAL);
        }
        // Omni-Path datagrams may be shorter.
        let payload = if opa && self.data < room {
            self.data
        } else {
            room
        };
        Ok(SendLayout {
            buffer: if self.rmpp { self.header } else { mad_size },
            header: self.header,
            data: self.data,
            payload,
            segments: if self.rmpp {
                padded.checked_div(room).ok_or(EINVAL)?
            } else {
                0
            },
            segment: room,
            segment_rmpp: mad_size - RmppHeader::END,
        })
    }
}

/// Makes a datagram of `agent`. Sleeps if `gfp` allows.
pub(crate) fn create(agent: Lease, draft: &Draft, gfp: Gfp) -> Result<OwnedSend> {
    create_with(agent, draft, None, false, gfp)
}

/// Makes a datagram that goes to `ah` and of which nobody hears again. May sleep.
pub(crate) fn create_internal(agent: Lease, draft: &Draft, ah: Arc<Ah>) -> Result<OwnedSend> {
    create_with(agent, draft, Some(ah), true, Gfp::KERNEL)
}

fn create_with(
    agent: Lease,
    draft: &Draft,
    ah: Option<Arc<Ah>>,
    internal: bool,
    gfp: Gfp,
) -> Result<OwnedSend> {
    let layout = draft.layout(agent.port().is_opa(), agent.has_kernel_rmpp())?;
    let target = Target {
        remote_qpn: draft.remote_qpn,
        remote_qkey: QKEY_FROM_QP,
        pkey_index: draft.pkey_index,
    };
    let lkey = agent.port().lkey();
    let wr = SendWr::new::<SendMad>(agent.head(), layout, target, lkey, gfp)?;
    if draft.rmpp {
        let mut rmpp = wr.rmpp();
        rmpp.version = agent.head().rmpp_version();
        rmpp.kind = RmppType::Data;
        rmpp.set_flags(RmppHeader::ACTIVE);
        wr.set_rmpp(rmpp);
    }
    SendMad::new(agent, wr, ah, internal, gfp)
}

/// Requests of which the answers are limited.
fn is_flow_controlled(send: &SendMad, class: Class, timeout: usize) -> bool {
    let segmented =
        send.agent().head().rmpp_version() != 0 && send.wr().rmpp().has(RmppHeader::ACTIVE);
    timeout != 0 && !segmented && (class == Class::CM || class == Class::SUBN_ADM || class.is_smi())
}

/// Posts a datagram; it comes back when it is sent, or answered, or given up. Any
/// context.
///
/// On an error it comes back at once.
pub(crate) fn post(send: OwnedSend) -> core::result::Result<(), (Error, OwnedSend)> {
    let lease = send.agent().clone();
    let agent = lease.agent();
    let header = send.wr().header();

    if !send.is_internal() && !agent.head().has_send_handler()
        || !header.class.has_rmpp() && agent.head().rmpp_version() != 0
    {
        return Err((EINVAL, send));
    }
    let send = if header.class == Class::SUBN_DIRECTED_ROUTE {
        match local::outgoing(agent, send)? {
            Some(send) => send,
            None => return Ok(()),
        }
    } else {
        send
    };

    let timeout = msecs_to_jiffies(send.wr().timeout_ms());
    let retries = send.wr().retries();
    send.wr().set_retries(0);
    let solicited = is_flow_controlled(&send, header.class, timeout);

    let mut sends = agent.sends().lock();
    let state = send.state_mut(&mut sends);
    state.tid = header.tid;
    state.class = header.class;
    state.timeout = timeout;
    state.solicited = solicited;
    send.retries().allow(retries);
    if sends.must_queue(&send) {
        sends.queue(send);
        return Ok(());
    }
    let posted = send.clone_arc();
    sends.start(send);
    drop(sends);

    let begun = if agent.has_kernel_rmpp() {
        mad_rmpp::begin(&posted)
    } else {
        transmit(&posted, 1)
    };
    if let Err(error) = begun {
        if let Some(send) = agent.sends().lock().finish_sending(&posted) {
            return Err((error, send));
        }
    }
    Ok(())
}

/// Traces a datagram on its way. The agent's lock may be held or not.
fn trace(event: SendEvent, send: &SendMad) {
    let trace = SendTrace {
        tid: send.wr().header().tid,
        timeout: msecs_to_jiffies(send.wr().timeout_ms()),
        retry: matches!(event, SendEvent::ErrorHandler),
        ..SendTrace::default()
    };
    let trace = send.retries().trace(trace);
    glue::trace_send(event, send.agent().head(), send.wr(), trace);
}

/// Hands a datagram (or one of its segments) to the queue pair, or lines it up if
/// that is full. Any context.
pub(crate) fn transmit(send: &Arc<SendMad>, segment: u32) -> Result {
    let agent = send.agent();
    let port = agent.port();
    let mapping = send.wr().map(port.device(), segment)?;
    let mut queue = port.slot(agent.kind()).sends().lock();
    if queue.is_full() {
        let waiting = ListArc::try_from_arc(send.clone()).map_err(|_| EBUSY)?;
        send.in_flight_mut(&mut queue).mapping = Some(mapping);
        queue.line_up(waiting);
        return Ok(());
    }
    trace(SendEvent::Send, send);
    queue.qp()?.post_send(send.clone(), &mapping)?;
    let epoch = queue.posted();
    let flight = send.in_flight_mut(&mut queue);
    flight.mapping = Some(mapping);
    flight.epoch = epoch;
    Ok(())
}

impl SendHandler for SendMad {
    fn sent(this: Arc<Self>, completion: &WorkCompletion) {
        let lease = this.agent().clone();
        let port = lease.port();
        if port.is_closing() || !completion.is_success() && sent_again(&this, completion) {
            return;
        }
        let trace = this.state(&lease.sends().lock()).trace();
        let trace = this.retries().trace(trace);
        glue::trace_agent(AgentEvent::SendDone, lease.head());
        glue::trace_send_done(lease.head(), this.wr(), trace, completion);

        let mut failed = List::<SendMad, 1>::new();
        let mapping = {
            let mut queue = port.slot(lease.kind()).sends().lock();
            queue.completed();
            let mapping = this.in_flight_mut(&mut queue).mapping.take();
            while let Some(next) = queue.next_in_line() {
                if let Err(next) = post_lined_up(&mut queue, next) {
                    failed.push_back(next);
                } else {
                    break;
                }
            }
            mapping
        };
        drop(mapping);

        let wc = completion.raw();
        finish(
            &this,
            Status {
                code: wc.status,
                vendor_err: wc.vendor_err,
            },
        );
        while let Some(send) = failed.pop_front() {
            finish(&send.into_arc(), Status::NOT_POSTED);
        }
    }
}

/// Posts a datagram that has waited for room; it comes back if that fails.
fn post_lined_up(
    queue: &mut SendQueue,
    next: ListArc<SendMad, 1>,
) -> core::result::Result<(), ListArc<SendMad, 1>> {
    let agent = next.agent();
    trace(SendEvent::Resend, &next);
    let posted = match (queue.qp(), next.in_flight(queue).mapping.as_ref()) {
        (Ok(qp), Some(mapping)) => qp.post_send(next.clone_arc(), mapping),
        _ => Err(ENODEV),
    };
    if let Err(error) = posted {
        dev_err!(
            agent.port().device().as_dev(),
            "ib_post_send failed: {}\n",
            error.to_errno()
        );
        next.in_flight_mut(queue).mapping = None;
        return Err(next);
    }
    let epoch = queue.posted();
    next.in_flight_mut(queue).epoch = epoch;
    Ok(())
}

/// A send failed. The queue pair is brought back to work, and what it flushed for
/// that reason is posted again: `true` if this is such a one.
fn sent_again(send: &Arc<SendMad>, completion: &WorkCompletion) -> bool {
    let agent = send.agent();
    let port = agent.port();
    let slot = port.slot(agent.kind());
    if completion.raw().status == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR {
        let mut queue = slot.sends().lock();
        let epoch = queue.epoch();
        if send.in_flight(&queue).epoch == epoch {
            return false;
        }
        trace(SendEvent::ErrorHandler, send);
        let again = match (queue.qp(), send.in_flight(&queue).mapping.as_ref()) {
            (Ok(qp), Some(mapping)) => qp.post_send(send.clone(), mapping),
            _ => Err(ENODEV),
        };
        send.in_flight_mut(&mut queue).epoch = epoch;
        return again.is_ok();
    }
    match port.recover(agent.kind()) {
        Ok(()) => slot.sends().lock().recovered(),
        Err(error) => dev_err!(
            port.device().as_dev(),
            "ib_mad_send_error - ib_modify_qp to RTS: {}\n",
            error.to_errno()
        ),
    }
    false
}

/// The queue pair is done with a datagram. May sleep.
fn finish(send: &Arc<SendMad>, status: Status) {
    let lease = send.agent().clone();
    let agent = lease.agent();
    let mut status = status;
    let mut sends = agent.sends().lock();
    if agent.has_kernel_rmpp() {
        match mad_rmpp::sent(&mut sends, send, status) {
            Sent::Continued => return,
            Sent::Over(outcome) => status = outcome,
        }
    }
    match send.state(&sends).stage() {
        Stage::Canceled => status = Status::FLUSHED,
        Stage::Answered(Some(outcome)) => status = outcome,
        Stage::Sending if send.state(&sends).timeout != 0 => {
            let timeout = send.state(&sends).timeout;
            if sends.wait_for_answer(send) {
                agent.arm_timer(timeout);
            }
            return;
        }
        _ => {}
    }
    let owned = sends.finish_sending(send);
    drop(sends);
    if let Some(owned) = owned {
        complete(agent, owned, status);
    }
}

/// Gives a datagram back that is over. May sleep.
pub(crate) fn complete(agent: &Arc<Agent>, send: OwnedSend, status: Status) {
    let solicited = send.state(&agent.sends().lock()).solicited;
    if solicited {
        drain_backlog(agent);
    }
    agent.give_back(send, status);
}

/// Sends what flow control held back, as far as it may.
fn drain_backlog(agent: &Arc<Agent>) {
    loop {
        let mut sends = agent.sends().lock();
        let Some(send) = sends.next_queued() else {
            return;
        };
        let posted = send.clone_arc();
        sends.start(send);
        drop(sends);
        if transmit(&posted, 1).is_err() {
            let failed = agent.sends().lock().finish_sending(&posted);
            if let Some(send) = failed {
                agent.give_back(send, Status::NOT_POSTED);
            }
        }
    }
}

/// Sends a request again whose answer did not come. It comes back if it may not be
/// sent again.
fn retry(sends: &mut Sends, send: OwnedSend) -> core::result::Result<(), OwnedSend> {
    let wr = send.wr();
    let timeout = msecs_to_jiffies(wr.timeout_ms());
    let state = send.state_mut(sends);
    if !send.retries().take() {
        return Err(send);
    }
    state.timeout = timeout;
    let solicited = state.solicited;
    wr.set_retries(wr.retries().saturating_add(1));

    if solicited && sends.has_backlog() {
        sends.queue(send);
        return Ok(());
    }
    let posted = send.clone_arc();
    let again = if send.agent().has_kernel_rmpp() {
        mad_rmpp::retry(sends, &posted)
    } else {
        transmit(&posted, 1)
    };
    match again {
        Ok(()) => {
            sends.start(send);
            Ok(())
        }
        Err(_) => Err(send),
    }
}

/// The timer: retries or gives up what was not answered in time, and gives back
/// what was cancelled.
pub(crate) fn run_timeouts(agent: &Arc<Agent>) {
    let mut expired = List::<SendMad>::new();
    let mut sends = agent.sends().lock();
    let mut canceled = sends.take_canceled();
    while let Some(send) = sends.next_expired() {
        if let Err(send) = retry(&mut sends, send) {
            sends.close(&send);
            expired.push_back(send);
        }
    }
    if let Some(deadline) = sends.next_deadline() {
        agent.arm_timer(deadline.remaining().max(1));
    }
    drop(sends);

    drain_backlog(agent);
    give_all_back(agent, &mut expired, Status::TIMED_OUT);
    give_all_back(agent, &mut canceled, Status::FLUSHED);
}

fn give_all_back(agent: &Agent, list: &mut List<SendMad>, status: Status) {
    while let Some(send) = list.pop_front() {
        agent.give_back(send, status);
    }
}

/// Cancels all datagrams of an agent that is being unregistered.
pub(crate) fn cancel_all(agent: &Arc<Agent>) {
    let mut list = agent.sends().lock().cancel_all();
    give_all_back(agent, &mut list, Status::FLUSHED);
}

/// Changes how long a posted datagram waits for its answer; 0 cancels it. `EINVAL`
/// if it is not under way. Any context.
pub(crate) fn modify(
    agent: &Arc<Agent>,
    is_it: impl Fn(&SendMad) -> bool,
    timeout_ms: u32,
) -> Result {
    let mut sends = agent.sends().lock();
    if let Some(delay) = sends.modify(is_it, timeout_ms)? {
        agent.arm_timer(delay);
    }
    Ok(())
}

#[kunit_tests(rust_ib_core_mad_send)]
mod tests {
    use super::*;

    fn draft(rmpp: bool, header: usize, data: usize) -> Draft {
        Draft {
            remote_qpn: 1,
            pkey_index: 0,
            rmpp,
            header,
            data,
            base_version: 1,
        }
    }

    #[test]
    fn datagram_fills_its_size() -> Result {
        let layout = draft(false, 24, 100).layout(false, false)?;
        assert_eq!(layout.buffer, MAD_SIZE);
        assert_eq!(layout.payload, 232);
        assert_eq!(layout.segments, 0);
        Ok(())
    }

    #[test]
    fn too_much_for_one_datagram() {
        assert!(draft(false, 24, 233).layout(false, true).is_err());
        assert!(draft(false, 257, 0).layout(false, true).is_err());
    }

    #[test]
    fn transfer_is_padded() -> Result {
        let layout = draft(true, 40, 500).layout(false, true)?;
        assert_eq!(layout.segment, 216);
        assert_eq!(layout.segments, 3);
        assert_eq!(layout.buffer, 40);
        assert_eq!(layout.segment_rmpp, 220);
        Ok(())
    }

    #[test]
    fn acknowledgement_has_one_segment() -> Result {
        assert_eq!(draft(true, 40, 0).layout(false, true)?.segments, 1);
        Ok(())
    }

    #[test]
    fn clients_that_segment_themselves() {
        assert!(draft(true, 40, 500).layout(false, false).is_err());
        assert!(draft(false, 40, 216).layout(false, false).is_ok());
    }

    #[test]
    fn no_room_for_data() {
        assert!(draft(true, 256, 10).layout(false, true).is_err());
    }
}
