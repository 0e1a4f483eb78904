// SPDX-License-Identifier: GPL-2.0

//! The requester: packets from requests (IBTA vol. 1, 9.7.2 to 9.7.4 and 9.8).

use super::{Entry, Phase, SendSide, SendState};
use crate::proto::attrs::{Progress, SendAttrs, Transport};
use crate::proto::env::{Counter, SendEnv, Slots, TxError};
use crate::proto::run::{packets_of, AckRequests, Common, Content, Run};
use crate::proto::wr::{RemoteAddr, SendOp, SendWqe, Status};
use crate::wire::ext::{AtomicEth, Deth, Reth, MAX_MESSAGE};
use crate::wire::packet::{SendEnd, WriteEnd};
use crate::wire::psn::Psn;

/// Packets that may be sent without an acknowledgement.
const MAX_UNACKED: u32 = 128;
/// In a long message each packet at this distance asks for one.
const ACK_EVERY: u32 = 64;

/// What one step of the requester did.
enum Step {
    /// So much of the budget was used.
    Did(u32),
    /// Nothing can be done now.
    Wait,
    /// The network takes nothing now.
    Blocked,
}

impl<L, S: Slots<Option<Entry<L>>>> SendSide<L, S> {
    /// Sends what can be sent, at most `budget` packets; in error, flushes as many requests.
    pub(crate) fn run<E: SendEnv<Local = L>>(&mut self, env: &mut E, budget: u32) -> Progress {
        self.kicked = false;
        let mut left = budget;
        while left > 0 {
            let step = match self.state {
                SendState::Idle | SendState::Drained => Step::Wait,
                SendState::SqError | SendState::Error => self.flush_posted(env),
                SendState::Ready | SendState::Draining { .. } => self.step(env, left),
            };
            match step {
                Step::Did(n) => left = left.saturating_sub(n),
                Step::Wait => return Progress::Idle,
                Step::Blocked => return Progress::Blocked,
            }
        }
        Progress::More
    }

    fn flush_posted<E: SendEnv<Local = L>>(&mut self, env: &mut E) -> Step {
        let Some(wqe) = env.fetch() else {
            return Step::Wait;
        };
        let room = Self::end(env, &wqe, Status::WrFlush);
        drop(wqe);
        self.flushed(env, room);
        Step::Did(1)
    }

    fn step<E: SendEnv<Local = L>>(&mut self, env: &mut E, budget: u32) -> Step {
        let Some(attrs) = self.attrs else {
            return Step::Wait;
        };
        if let Some(until) = self.pause_until {
            if env.now() < until {
                return Step::Wait;
            }
            self.pause_until = None;
        }
        if self.cursor >= self.window.len() {
            if self.state != SendState::Ready || self.window.is_full() {
                return Step::Wait;
            }
            if !self.window.push_from(|| env.fetch()) {
                return Step::Wait;
            }
            // Where it is, as it is long.
            if let Some(entry) = self.window.get_mut(self.cursor) {
                env.adjust(&mut entry.wqe);
            }
        }
        match self.window.get(self.cursor).map(|entry| entry.phase) {
            None => Step::Wait,
            Some(Phase::Done(Status::Success)) => {
                self.cursor += 1;
                Step::Did(0)
            }
            // An error ends in its turn; nothing after it is sent.
            Some(Phase::Done(_)) => {
                self.end_done(env);
                if self.is_broken() {
                    Step::Did(0)
                } else {
                    Step::Wait
                }
            }
            Some(Phase::Queued) => self.begin(env, &attrs),
            Some(Phase::Started { first, packets }) => {
                self.transmit(env, &attrs, first, packets, budget)
            }
        }
    }

    /// Begins the request at the cursor.
    fn begin<E: SendEnv<Local = L>>(&mut self, env: &mut E, attrs: &SendAttrs) -> Step {
        if self.state != SendState::Ready {
            return Step::Wait;
        }
        let transport = self.transport;
        let must_wait = self.outstanding > 0;
        let Some(entry) = self.window.get_mut(self.cursor) else {
            return Step::Wait;
        };
        if entry.wqe.fence && must_wait {
            return Step::Wait;
        }
        if let Err(status) = check(&entry.wqe, transport, attrs) {
            entry.phase = Phase::Done(status);
            env.count(Counter::SendErr);
            return Step::Did(0);
        }
        if let SendOp::Local(op) = entry.wqe.op {
            let status = match env.execute(op, &mut entry.wqe.local) {
                Ok(()) => Status::Success,
                Err(status) => status,
            };
            entry.phase = Phase::Done(status);
            if status == Status::Success {
                self.cursor += 1;
            }
            self.end_done(env);
            return Step::Did(1);
        }
        let packets = match entry.wqe.op {
            SendOp::Send(_) | SendOp::Write { .. } | SendOp::Read { .. } => {
                packets_of(entry.wqe.len, attrs.mtu.bytes())
            }
            _ => 1,
        };
        // The window is checked before the first packet goes out, so a message that could not
        // start at all stays queued and a drain does not wait for it.
        if self.transport.is_reliable()
            && (self.room() == 0
                || self.nxt.ahead_of(self.una) + packets > Psn::WINDOW
                || self.is_too_deep(self.cursor, attrs))
        {
            return Step::Wait;
        }
        let first = self.nxt;
        if let Some(entry) = self.window.get_mut(self.cursor) {
            entry.phase = Phase::Started { first, packets };
        }
        Step::Did(0)
    }

    /// Packets that may be sent before the next acknowledgement.
    fn room(&self) -> u32 {
        MAX_UNACKED.saturating_sub(self.nxt.ahead_of(self.una))
    }

    /// Whether the request must wait for an earlier response.
    fn is_too_deep(&self, position: usize, attrs: &SendAttrs) -> bool {
        self.outstanding >= u32::from(attrs.max_rd_atomic).max(1)
            && self
                .window
                .get(position)
                .is_some_and(|entry| entry.wqe.op.needs_response())
    }

    /// Sends packets of the request at the cursor, from `nxt` on.
    fn transmit<E: SendEnv<Local = L>>(
        &mut self,
        env: &mut E,
        attrs: &SendAttrs,
        first: Psn,
        packets: u32,
        budget: u32,
    ) -> Step {
        let reliable = self.transport.is_reliable();
        let number = self.nxt.ahead_of(first);
        let room = if reliable { self.room() } else { u32::MAX };
        if room == 0 || self.is_too_deep(self.cursor, attrs) {
            return Step::Wait;
        }
        let (nxt, transport, qpn) = (self.nxt, self.transport, self.qpn);
        let again = nxt != self.max;
        let Some(entry) = self.window.get_mut(self.cursor) else {
            return Step::Wait;
        };
        let wqe = &mut entry.wqe;
        let count = (packets - number.min(packets)).min(room).min(budget);
        let ends_window = reliable && count == room;
        let run = run_of(wqe, attrs, transport, qpn, nxt, number, count, ends_window);
        let Some(run) = run else {
            // The request has no such packet: `begin` lets none of that kind pass.
            entry.phase = Phase::Done(Status::Fatal);
            return Step::Did(0);
        };
        let sent = match env.transmit(&run.again(again), &mut wqe.local) {
            Ok(sent) => sent.clamp(1, run.packets()),
            Err(TxError::Full) => return Step::Blocked,
            Err(TxError::Local(status)) => {
                entry.phase = Phase::Done(status);
                env.count(Counter::SendErr);
                // A packet of it may have been sent; its number will not be acknowledged.
                return Step::Did(0);
            }
        };
        let response = wqe.op.needs_response();
        // One READ request stands for all packets of the response.
        let passed = if response { packets - number } else { sent };
        let finished = number + passed >= packets;
        if finished && !reliable {
            entry.phase = Phase::Done(Status::Success);
        }
        self.nxt = self.nxt.add(passed);
        if self.nxt.ahead_of(self.una) > self.max.ahead_of(self.una) {
            self.max = self.nxt;
        }
        if finished {
            self.cursor += 1;
            env.count(Counter::Sends);
            if response {
                self.outstanding += 1;
            }
        }
        if reliable {
            if self.resend_at.is_none() {
                self.resend_at = attrs.ack_timeout.map(|time| env.now().saturating_add(time));
            }
        } else {
            self.una = self.nxt;
            self.end_done(env);
        }
        Step::Did(sent)
    }
}

/// Whether the queue pair can execute a request.
fn check<L>(wqe: &SendWqe<L>, transport: Transport, attrs: &SendAttrs) -> Result<(), Status> {
    let known = match wqe.op {
        SendOp::Invalid(status) => return Err(status),
        SendOp::Local(_) => return Ok(()),
        SendOp::Datagram { .. } => transport == Transport::Ud,
        SendOp::Send(SendEnd::Plain | SendEnd::Imm(_)) | SendOp::Write { .. } => {
            transport != Transport::Ud
        }
        _ => transport.is_reliable(),
    };
    // A FLUSH can do without a place at the responder, as it may be executed twice.
    let keeps = wqe.op.needs_response() && !matches!(wqe.op, SendOp::Flush { .. });
    let finds_srq = wqe.xrc_srq.is_some() == (transport == Transport::XrcIni);
    if !known || !finds_srq || (keeps && attrs.max_rd_atomic == 0) {
        return Err(Status::LocQpOp);
    }
    let limit = match transport {
        Transport::Ud => attrs.mtu.bytes(),
        _ => MAX_MESSAGE,
    };
    if wqe.len > limit {
        return Err(Status::LocLen);
    }
    Ok(())
}

fn reth_of(at: RemoteAddr, len: u32, skip: u32) -> Reth {
    Reth {
        va: at.va.wrapping_add(u64::from(skip)),
        key: at.key,
        len: len.saturating_sub(skip),
    }
}

/// Packets `number ..` of a request, at most `count`, the first with sequence number `psn`.
#[expect(clippy::too_many_arguments, reason = "borrowed parts of one state")]
fn run_of<L>(
    wqe: &SendWqe<L>,
    attrs: &SendAttrs,
    transport: Transport,
    qpn: u32,
    psn: Psn,
    number: u32,
    count: u32,
    ends_window: bool,
) -> Option<Run> {
    let mtu = attrs.mtu.bytes();
    let mut common = Common {
        service: transport.service(),
        pkey: attrs.pkey,
        dest_qp: attrs.dest_qpn,
        deth: None,
        xrc_srq: wqe.xrc_srq,
        mtu,
    };
    let mut solicited = false;
    let mut first = number;
    let content = match wqe.op {
        SendOp::Send(end) => {
            solicited = wqe.solicited;
            Content::Send(end)
        }
        SendOp::Datagram {
            dest_qpn,
            qkey,
            imm,
        } => {
            solicited = wqe.solicited;
            common.dest_qp = dest_qpn;
            common.deth = Some(Deth { qkey, src_qp: qpn });
            Content::Send(imm.map_or(SendEnd::Plain, SendEnd::Imm))
        }
        SendOp::Write { to, imm } => {
            solicited = wqe.solicited && imm.is_some();
            let end = imm.map_or(WriteEnd::Plain, WriteEnd::Imm);
            Content::Write(reth_of(to, wqe.len, 0), end)
        }
        SendOp::Read { from } => {
            // The rest of the response, from the first packet that is missing.
            first = 0;
            Content::Read(reth_of(from, wqe.len, number.saturating_mul(mtu)))
        }
        SendOp::CompareSwap { at, compare, swap } => Content::CompareSwap(AtomicEth {
            va: at.va,
            key: at.key,
            swap_add: swap,
            compare,
        }),
        SendOp::FetchAdd { at, add } => Content::FetchAdd(AtomicEth {
            va: at.va,
            key: at.key,
            swap_add: add,
            compare: 0,
        }),
        SendOp::AtomicWrite { to } => Content::AtomicWrite(reth_of(to, 8, 0)),
        SendOp::Flush { at, how } => Content::Flush(how, reth_of(at, wqe.len, 0)),
        SendOp::Local(_) | SendOp::Invalid(_) => return None,
    };
    let acks = if transport.is_reliable() {
        AckRequests::EndAndEvery {
            every: ACK_EVERY,
            here: ends_window,
        }
    } else {
        AckRequests::Never
    };
    Run::new(common, content, wqe.len, first, count, psn, solicited, acks)
}
