// SPDX-License-Identifier: GPL-2.0

//! The sending side of a transfer.

use super::{
    abort_peer,
    receive,
    Template, //
};
use crate::mad::{
    agent::Lease,
    flight::{
        Answered,
        SendMad,
        Sends,
        Stage,
        Status, //
    },
    send::{
        complete,
        transmit, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies, //
};
use rdma::mad::{
    recv::RecvChain,
    wire::{
        Header,
        RmppHeader,
        RmppStatus,
        RmppType, //
    },
};

/// Longest time to wait for an acknowledgement, in milliseconds.
const ACK_TIMEOUT_MS: u32 = 2000;

/// What the completion of a segment means.
pub(crate) enum Sent {
    /// The next segment is under way.
    Continued,
    /// The queue pair is done with the datagram for now.
    Over(Status),
}

fn is_transfer(send: &SendMad) -> bool {
    let rmpp = send.wr().rmpp();
    rmpp.has(RmppHeader::ACTIVE) && rmpp.kind == RmppType::Data
}

fn segments(send: &SendMad) -> u32 {
    send.wr().layout().segments.try_into().unwrap_or(u32::MAX)
}

/// Sends the segment after the last one.
fn next_segment(sends: &mut Sends, send: &Arc<SendMad>) -> Result {
    let wr = send.wr();
    let layout = *wr.layout();
    let count = segments(send);
    let padding = layout
        .segments
        .saturating_mul(layout.segment)
        .saturating_sub(layout.data);
    let timeout = match wr.timeout_ms() {
        0 => ACK_TIMEOUT_MS,
        timeout => timeout.min(ACK_TIMEOUT_MS),
    };
    let state = send.state_mut(sends);
    state.timeout = msecs_to_jiffies(timeout);
    state.transfer.segment = state.transfer.segment.wrapping_add(1);
    let segment = state.transfer.segment;

    let mut flags = RmppHeader::ACTIVE;
    let mut payload = 0;
    if segment == 1 {
        // The first segment tells the length of the whole.
        flags |= RmppHeader::FIRST;
        payload = layout
            .segments
            .saturating_mul(layout.segment_rmpp)
            .saturating_sub(padding);
    }
    if segment == count {
        flags |= RmppHeader::LAST;
        payload = layout.segment_rmpp.saturating_sub(padding);
    }
    let mut rmpp = wr.rmpp();
    rmpp.set_flags(flags);
    rmpp.segment = segment;
    rmpp.paylen_newwin = payload.try_into().unwrap_or(u32::MAX);
    wr.set_rmpp(rmpp);
    transmit(send, segment)
}

/// Sends the first segment of a transfer, or a datagram that is none.
pub(crate) fn begin(send: &Arc<SendMad>) -> Result {
    if !is_transfer(send) {
        return transmit(send, 1);
    }
    let window = receive::reply_window(send);
    let mut sends = send.agent().sends().lock();
    let transfer = &mut send.state_mut(&mut sends).transfer;
    *transfer = Default::default();
    transfer.window = window;
    next_segment(&mut sends, send)
}

/// A segment (or a datagram that is none) was sent.
pub(crate) fn sent(sends: &mut Sends, send: &Arc<SendMad>, status: Status) -> Sent {
    let over = Sent::Over(status);
    let state = send.state(sends);
    if !is_transfer(send)
        || !status.is_success()
        || state.stage() == Stage::Canceled
        || state.timeout == 0
    {
        return over;
    }
    let transfer = state.transfer;
    let count = segments(send);
    if transfer.acked == count {
        // The answer remains to be waited for.
        send.state_mut(sends).timeout = msecs_to_jiffies(send.wr().timeout_ms());
        return over;
    }
    if transfer.segment == transfer.window || transfer.segment == count {
        return over;
    }
    match next_segment(sends, send) {
        Ok(()) => Sent::Continued,
        Err(_) => Sent::Over(Status::GENERAL),
    }
}

/// Sends the first unacknowledged segment again, or a datagram that is none.
pub(crate) fn retry(sends: &mut Sends, send: &Arc<SendMad>) -> Result {
    if !is_transfer(send) {
        return transmit(send, 1);
    }
    let count = segments(send);
    let transfer = &mut send.state_mut(sends).transfer;
    if transfer.acked == count {
        // It is the answer that is missing.
        return Err(ECOMM);
    }
    transfer.segment = transfer.acked;
    next_segment(sends, send)
}

/// Whether a transfer is still on.
fn is_on(sends: &Sends, send: &SendMad) -> bool {
    let state = send.state(sends);
    state.transfer.acked != segments(send) && state.timeout != 0 && state.stage() != Stage::Canceled
}

/// The peer (or this node) ends the transfer that `chain` belongs to. May sleep.
pub(super) fn abort(lease: &Lease, chain: &RecvChain, reason: RmppStatus) {
    let status = Status::aborted(reason.0);
    let mut sends = lease.sends().lock();
    let Some(send) = sends.find(chain) else {
        return;
    };
    if !is_on(&sends, &send) {
        return;
    }
    let answered = sends.answer(&send, Some(status));
    drop(sends);
    if let Answered::Done(send) = answered {
        complete(lease.agent(), send, status);
    }
}

/// The peer acknowledges segments. May sleep.
pub(super) fn acknowledged(lease: &Lease, chain: &RecvChain, header: &Header, rmpp: &RmppHeader) {
    let fail = |status| {
        abort(lease, chain, status);
        abort_peer(lease, chain, status);
    };
    let (segment, window) = (rmpp.segment, rmpp.paylen_newwin);
    if rmpp.status != RmppStatus::NORMAL {
        return fail(RmppStatus::BAD_STATUS);
    }
    if window < segment {
        return fail(RmppStatus::W2S);
    }

    let mut sends = lease.sends().lock();
    let Some(send) = sends.find(chain) else {
        if segment == 0 {
            receive::set_reply_window(lease, chain, header, window);
        }
        return;
    };
    let count = segments(&send);
    let state = send.state(&sends);
    if state.transfer.acked == count && state.timeout != 0 {
        // The peer repeats itself: it has not heard that it may answer.
        drop(sends);
        return invite_answer(lease, chain);
    }
    if !is_on(&sends, &send) {
        return;
    }
    let transfer = send.state(&sends).transfer;
    if segment > count || segment > transfer.window {
        drop(sends);
        return fail(RmppStatus::S2B);
    }
    if window < transfer.window || segment < transfer.acked {
        return;
    }

    let state = send.state_mut(&mut sends);
    if segment > transfer.acked {
        state.transfer.acked = segment;
        send.retries().refill();
    }
    state.transfer.window = window;
    let transfer = state.transfer;
    let waits = matches!(state.stage(), Stage::Waiting(_));

    if transfer.acked < count {
        let may_send = transfer.segment < window && transfer.segment < count;
        // If that fails, the timeout tries again.
        if waits && may_send && next_segment(&mut sends, &send).is_ok() {
            sends.resume(&send);
        }
        return;
    }
    let timeout_ms = send.wr().timeout_ms();
    if timeout_ms == 0 {
        // No answer is expected, so this is the end.
        let answered = sends.answer(&send, None);
        drop(sends);
        if let Answered::Done(send) = answered {
            complete(lease.agent(), send, Status::SUCCESS);
        }
        return;
    }
    if waits {
        let timeout = msecs_to_jiffies(timeout_ms);
        send.state_mut(&mut sends).timeout = timeout;
        if sends.wait_for_answer(&send) {
            lease.agent().arm_timer(timeout);
        }
    }
    drop(sends);
    invite_answer(lease, chain);
}

/// Opens a window for the answer, which is a transfer the other way.
fn invite_answer(lease: &Lease, chain: &RecvChain) {
    let (Some(template), Ok(ah)) = (Template::of(chain), chain.reply_ah(lease.head())) else {
        return;
    };
    let Ok(ah) = Arc::new(ah, GFP_KERNEL) else {
        return;
    };
    let _ = template.send(lease.clone(), ah, |rmpp| {
        rmpp.segment = 0;
        rmpp.paylen_newwin = 1;
    });
}
