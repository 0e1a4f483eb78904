// SPDX-License-Identifier: GPL-2.0

//! The completer: completions and retries from responses (IBTA vol. 1, 9.7.5.2 and 9.9.2).

use super::{Entry, Phase, SendSide, SendState};
use crate::proto::attrs::SendAttrs;
use crate::proto::env::{Counter, SendEnv, Slots};
use crate::proto::wr::{SendOp, Status};
use crate::wire::aeth::{Aeth, NakCode, RnrTimer, Syndrome};
use crate::wire::packet::{Body, Packet, ReadPart};
use crate::wire::psn::Psn;

/// Whether all requests up to a sequence number could be ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    All,
    /// One of them lacks its response, which must have been lost.
    Missing,
}

/// A response that carries something for one request.
enum Answer {
    Read(ReadPart, u32),
    Atomic(u64),
}

impl<L, S: Slots<Option<Entry<L>>>> SendSide<L, S> {
    /// Takes a response packet. What does not belong to a packet that was sent and is not yet
    /// acknowledged is ignored.
    pub(crate) fn input<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        rx: &E::Rx,
    ) {
        let Some(attrs) = self.attrs else {
            return;
        };
        let listens = matches!(self.state, SendState::Ready | SendState::Draining { .. });
        let psn = packet.bth.psn;
        if !listens
            || !self.transport.is_reliable()
            || packet.opcode.service() != self.transport.service()
            || !psn.is_within(self.una, self.max.ahead_of(self.una))
        {
            return;
        }
        match packet.body {
            Body::Ack(Aeth { syndrome, .. }) => match syndrome {
                Syndrome::Ack { .. } => self.acknowledge(env, &attrs, psn),
                Syndrome::Rnr(timer) => self.receiver_not_ready(env, &attrs, psn, timer),
                Syndrome::Nak(code) => self.refused(env, &attrs, psn, code),
                Syndrome::Reserved(_) => (),
            },
            Body::ReadResponse(part) => {
                let answer = Answer::Read(part, packet.payload_len);
                self.answered(env, &attrs, psn, answer, rx);
            }
            Body::AtomicAck(_, value) => {
                self.answered(env, &attrs, psn, Answer::Atomic(value), rx);
            }
            _ => (),
        }
    }

    /// The clock may have reached [`deadline`](Self::deadline).
    pub(crate) fn timer<E: SendEnv<Local = L>>(&mut self, env: &mut E) {
        let Some(attrs) = self.attrs else {
            return;
        };
        if !matches!(self.state, SendState::Ready | SendState::Draining { .. }) {
            return;
        }
        let now = env.now();
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
            self.kicked = true;
        }
        if self.resend_at.is_some_and(|at| at <= now) {
            self.resend_at = None;
            if self.una != self.nxt {
                self.retry(env, &attrs);
                // The peer may not have reported the gap yet.
                self.recovering = false;
            }
        }
    }

    /// Ends requests whose last packet comes before `upto`, and moves `una` there.
    fn advance<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        attrs: &SendAttrs,
        upto: Psn,
    ) -> Reached {
        let before = self.una;
        let mut reached = Reached::All;
        while self.una != upto && !self.is_broken() {
            let Some(entry) = self.window.get(0) else {
                break;
            };
            let Phase::Started { first, packets } = entry.phase else {
                break;
            };
            if entry.wqe.op.needs_response() {
                reached = Reached::Missing;
                break;
            }
            let end = first.add(packets);
            if upto.ahead_of(self.una) < end.ahead_of(self.una) {
                self.una = upto;
                break;
            }
            self.una = end;
            self.end_oldest(env, Status::Success);
            self.end_done(env);
        }
        if self.una != before {
            self.progress(env, attrs);
        }
        reached
    }

    /// After `una` has moved.
    fn progress<E: SendEnv<Local = L>>(&mut self, env: &mut E, attrs: &SendAttrs) {
        if self.is_broken() {
            return;
        }
        if self.nxt.ahead_of(self.una) > self.max.ahead_of(self.una) {
            self.nxt = self.una;
        }
        self.retries = 0;
        self.rnr_retries = 0;
        self.recovering = false;
        self.kicked |= self.cursor < self.window.len() || env.has_more();
        self.resend_at = if self.una == self.nxt {
            None
        } else {
            attrs.ack_timeout.map(|time| env.now().saturating_add(time))
        };
    }

    fn acknowledge<E: SendEnv<Local = L>>(&mut self, env: &mut E, attrs: &SendAttrs, psn: Psn) {
        if self.advance(env, attrs, psn.next()) == Reached::Missing {
            self.response_lost(env, attrs);
        }
    }

    /// A later answer shows that the oldest request's response was lost (an implied NAK).
    fn response_lost<E: SendEnv<Local = L>>(&mut self, env: &mut E, attrs: &SendAttrs) {
        if !self.recovering && !self.is_broken() && self.pause_until.is_none() {
            self.retry(env, attrs);
        }
    }

    /// Sends again from the oldest packet that is not acknowledged, if the limit allows.
    fn retry<E: SendEnv<Local = L>>(&mut self, env: &mut E, attrs: &SendAttrs) {
        if !attrs.retry.allows(self.retries) {
            env.count(Counter::RetryExceeded);
            self.end_oldest(env, Status::RetryExc);
            return;
        }
        env.count(Counter::CompleterRetry);
        self.retries += 1;
        self.recovering = true;
        self.go_back();
    }

    fn receiver_not_ready<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        attrs: &SendAttrs,
        psn: Psn,
        timer: RnrTimer,
    ) {
        if self.advance(env, attrs, psn) == Reached::Missing {
            return self.response_lost(env, attrs);
        }
        // Also those that are sent again are refused until the pause is over.
        if self.is_broken() || self.una != psn || self.pause_until.is_some() {
            return;
        }
        env.count(Counter::RcvdRnr);
        if !attrs.rnr_retry.allows(self.rnr_retries) {
            env.count(Counter::RnrRetryExceeded);
            self.end_oldest(env, Status::RnrRetryExc);
            return;
        }
        self.rnr_retries = self.rnr_retries.saturating_add(1);
        self.go_back();
        self.pause_until = Some(env.now().saturating_add(timer.nanos()));
    }

    fn refused<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        attrs: &SendAttrs,
        psn: Psn,
        code: NakCode,
    ) {
        if self.advance(env, attrs, psn) == Reached::Missing {
            return self.response_lost(env, attrs);
        }
        if self.is_broken() || self.una != psn {
            return;
        }
        let status = match code {
            NakCode::PsnSequence => {
                env.count(Counter::RcvdSeqErr);
                // The same gap is reported once; and a pause is not cut short.
                if !self.recovering && self.pause_until.is_none() {
                    self.retry(env, attrs);
                }
                return;
            }
            NakCode::InvalidRequest => Status::RemInvReq,
            NakCode::RemoteAccess => Status::RemAccess,
            NakCode::RemoteOperation => Status::RemOp,
        };
        self.end_oldest(env, status);
    }

    /// A response to the request that has sequence number `psn`.
    fn answered<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        attrs: &SendAttrs,
        psn: Psn,
        answer: Answer,
        rx: &E::Rx,
    ) {
        // A response acknowledges all requests before its own, so that one must expect it.
        let Some(position) = self.window.find(psn) else {
            return;
        };
        let expects = |entry: &Entry<L>| entry.wqe.op.needs_response();
        if !self.window.get(position).is_some_and(expects) {
            return;
        }
        if self.advance(env, attrs, psn) == Reached::Missing {
            return self.response_lost(env, attrs);
        }
        if self.is_broken() || self.una != psn {
            return;
        }
        let Some(entry) = self.window.get_mut(0) else {
            return;
        };
        let Phase::Started { first, packets } = entry.phase else {
            return;
        };
        let number = psn.ahead_of(first);
        let last = number + 1 == packets;
        let mtu = attrs.mtu.bytes();
        let local = &mut entry.wqe.local;
        let taken = match (entry.wqe.op, answer) {
            (SendOp::Read { .. }, Answer::Read(part, len)) => {
                let offset = number.saturating_mul(mtu);
                let expected = entry.wqe.len.saturating_sub(offset).min(mtu);
                if len != expected || part.ends() != last {
                    Err(Status::BadResp)
                } else if len == 0 {
                    Ok(())
                } else {
                    env.scatter(local, offset, rx)
                }
            }
            (SendOp::Flush { .. } | SendOp::AtomicWrite { .. }, Answer::Read(part, 0))
                if part.ends() =>
            {
                Ok(())
            }
            (SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }, Answer::Atomic(value)) => {
                env.store_result(local, value)
            }
            _ => Err(Status::BadResp),
        };
        if let Err(status) = taken {
            return self.end_oldest(env, status);
        }
        self.una = psn.next();
        if last {
            self.end_oldest(env, Status::Success);
            self.end_done(env);
        }
        self.progress(env, attrs);
    }
}
