// SPDX-License-Identifier: GPL-2.0

//! Answers on their way out.

use super::{RecvSide, RecvState, Resource};
use crate::proto::attrs::Progress;
use crate::proto::env::{RecvEnv, Slots, TxError};
use crate::proto::run::{packets_of, AckRequests, Common, Content, Run};
use crate::proto::wr::Status;
use crate::wire::aeth::{Aeth, NakCode, Syndrome};
use crate::wire::psn::Psn;

/// An answer that is not yet sent.
pub(super) enum Reply<R> {
    /// None.
    None,
    /// One packet without payload.
    Single(Content, Psn),
    /// The response to a READ.
    Read {
        /// Where the data is; none: of no bytes.
        from: Option<R>,
        /// Bytes of it.
        len: u32,
        /// Sequence number of its first packet.
        first: Psn,
        /// Packets that were sent.
        sent: u32,
        /// The request was answered before.
        again: bool,
    },
}

/// How far an answer got.
pub(super) enum Pumped {
    /// It is sent, with so many packets now.
    All(u32),
    /// So many packets of it are sent, the budget is used up.
    Part(u32),
    /// The network takes nothing now.
    Blocked,
}

/// Packets that `input` itself sends of an answer before it leaves the rest to `run`.
const AT_ONCE: u32 = 64;

impl<L, R, S: Slots<Option<Resource>>> RecvSide<L, R, S> {
    /// Sends what is to be sent, at most `budget` packets; in error, flushes as many receives.
    /// To be called at the end of each batch of packets.
    pub(crate) fn run<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        budget: u32,
    ) -> Progress {
        let mut left = budget;
        match self.pump(env, left) {
            Pumped::All(n) => left = left.saturating_sub(n),
            Pumped::Part(_) => return Progress::More,
            Pumped::Blocked => return Progress::Blocked,
        }
        if let Some(psn) = self.ack_due.take() {
            self.reply = Reply::Single(Content::Ack(self.aeth(Syndrome::ACK)), psn);
            match self.pump(env, left.max(1)) {
                Pumped::All(n) | Pumped::Part(n) => left = left.saturating_sub(n),
                Pumped::Blocked => {
                    // A later one may still take its place.
                    self.reply = Reply::None;
                    self.ack_due = Some(psn);
                    return Progress::Blocked;
                }
            }
        }
        // The shared queue is not this queue pair's to flush.
        while self.state == RecvState::Error && !self.has_srq {
            if left == 0 {
                return Progress::More;
            }
            self.held = env.next_recv();
            if self.held.is_none() {
                break;
            }
            self.end_recv(env, Status::WrFlush);
            left -= 1;
        }
        Progress::Idle
    }

    /// Answers a new request, and with it all before.
    pub(super) fn answer<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        reply: Reply<R>,
    ) {
        self.ack_due = None;
        self.answer_again(env, reply);
    }

    /// Answers a request that was answered before.
    pub(super) fn answer_again<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        reply: Reply<R>,
    ) {
        self.reply = reply;
        // What it could not send is left to `run`.
        let _ = self.pump(env, AT_ONCE);
    }

    /// An acknowledgement header for now.
    pub(super) fn aeth(&self, syndrome: Syndrome) -> Aeth {
        Aeth {
            syndrome,
            msn: self.msn,
        }
    }

    /// Refuses the request at `psn`: the peer gets `code`, a receive request in use ends with
    /// `status`, and the queue pair fails.
    pub(super) fn refuse<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        psn: Psn,
        code: NakCode,
        status: Status,
    ) {
        self.end_recv(env, status);
        let nak = Content::Ack(self.aeth(Syndrome::Nak(code)));
        self.break_down(env);
        self.answer(env, Reply::Single(nak, psn));
    }

    fn pump<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E, budget: u32) -> Pumped {
        let Some(attrs) = self.attrs else {
            self.reply = Reply::None;
            return Pumped::All(0);
        };
        let common = Common {
            service: self.transport.service(),
            pkey: attrs.pkey,
            dest_qp: attrs.dest_qpn,
            deth: None,
            xrc_srq: None,
            mtu: attrs.mtu.bytes(),
        };
        let aeth = self.aeth(Syndrome::ACK);
        let mut done = 0;
        loop {
            let left = budget.saturating_sub(done);
            let (run, from, total, number) = match &mut self.reply {
                Reply::None => return Pumped::All(done),
                Reply::Single(content, psn) => (Run::response(common, *content, *psn), None, 1, 0),
                Reply::Read {
                    from,
                    len,
                    first,
                    sent,
                    again,
                } => (
                    Run::new(
                        common,
                        Content::ReadResponse(aeth),
                        *len,
                        *sent,
                        left,
                        first.add(*sent),
                        false,
                        AckRequests::Never,
                    )
                    .map(|run| run.again(*again)),
                    from.as_mut(),
                    packets_of(*len, attrs.mtu.bytes()),
                    *sent,
                ),
            };
            if left == 0 {
                return Pumped::Part(done);
            }
            let Some(run) = run else {
                self.reply = Reply::None;
                return Pumped::All(done);
            };
            match env.transmit(&run, from) {
                Ok(n) => {
                    let n = n.clamp(1, run.packets());
                    done += n;
                    if number + n >= total {
                        self.reply = Reply::None;
                    } else if let Reply::Read { sent, .. } = &mut self.reply {
                        *sent += n;
                    }
                }
                Err(TxError::Full) => return Pumped::Blocked,
                Err(TxError::Local(status)) => {
                    // The data of a READ cannot be had any more.
                    self.reply = Reply::None;
                    let code = match status {
                        Status::LocProt => NakCode::RemoteAccess,
                        _ => NakCode::RemoteOperation,
                    };
                    if !matches!(run.content(), Content::ReadResponse(_)) {
                        return Pumped::All(done);
                    }
                    let psn = run.psn();
                    let nak = Content::Ack(self.aeth(Syndrome::Nak(code)));
                    self.break_down(env);
                    self.reply = Reply::Single(nak, psn);
                }
            }
        }
    }
}
