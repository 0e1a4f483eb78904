// SPDX-License-Identifier: GPL-2.0

//! The receive side of a queue pair: the responder (IBTA vol. 1, 9.7.4 to 9.7.8, 9.8, 9.9.3).
//!
//! A request packet is executed at once ([`execute`], [`unreliable`]) and cannot be executed
//! again: what the peer repeats is answered from what was saved about it ([`resource`]).
//! Answers leave one at a time and in order ([`reply`]); while one is on its way no request packet
//! is taken. Plain acknowledgements are cumulative, so that of a batch only the last is sent.

mod execute;
mod reply;
mod resource;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests;
mod unreliable;

use super::attrs::{Allowed, RecvAttrs, Transport};
use super::env::{AccessError, Counter, QpEvent, RecvEnv, Slots};
use super::wr::{RecvWc, RecvWqe, Status};
use crate::wire::aeth::RnrTimer;
use crate::wire::opcode::Service;
use crate::wire::packet::{Packet, SendEnd, WriteEnd};
use crate::wire::psn::{Msn, Psn};
use reply::Reply;
pub(crate) use resource::Resource;
use resource::Resources;

/// State of the receive side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvState {
    /// Not started (RESET, INIT): packets are dropped, receive requests wait.
    Idle,
    /// Receiving (RTR, RTS, SQD, SQE).
    Ready,
    /// The queue pair has failed (ERR).
    Error,
}

/// Whether a packet was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Verdict {
    /// Yes, whatever became of it.
    Done,
    /// No: an answer is still on its way. Run the side, then offer the packet again.
    Busy,
}

/// The message that is being received.
enum Message<R> {
    /// None.
    None,
    /// A SEND: bytes so far.
    Send { got: u32 },
    /// An RDMA WRITE to this range (none: of no bytes), with its length and bytes so far.
    Write { to: Option<R>, len: u32, got: u32 },
}

/// The receive side of a queue pair. `L` and `R` are [`RecvEnv::Local`] and
/// [`RecvEnv::Remote`], `S` is memory for as many answers as the peer may have outstanding.
pub(crate) struct RecvSide<L, R, S: Slots<Option<Resource>>> {
    transport: Transport,
    qpn: u32,
    has_srq: bool,
    attrs: Option<RecvAttrs>,
    state: RecvState,
    /// The next sequence number.
    expected: Psn,
    msn: Msn,
    message: Message<R>,
    /// XRC: the shared receive queue that the message being received has named.
    named: Option<u32>,
    /// A receive request that was taken and has not ended.
    held: Option<RecvWqe<L>>,
    /// A gap, or that no receive was posted, has been reported and the packet has not come yet.
    reported: bool,
    reply: Reply<R>,
    /// The last packet to acknowledge.
    ack_due: Option<Psn>,
    resources: Resources<S>,
}

impl<L, R, S: Slots<Option<Resource>>> RecvSide<L, R, S> {
    /// A receive side that is not started.
    pub(crate) fn new(transport: Transport, qpn: u32, has_srq: bool) -> Self {
        Self {
            transport,
            qpn,
            has_srq,
            attrs: None,
            state: RecvState::Idle,
            expected: Psn::new(0),
            msn: Msn::new(0),
            message: Message::None,
            named: None,
            held: None,
            reported: false,
            reply: Reply::None,
            ack_due: None,
            resources: Resources::new(),
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> RecvState {
        self.state
    }

    /// The next sequence number expected (`rq_psn` of a query).
    pub(crate) fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Whether an answer or an acknowledgement waits for [`run`](Self::run).
    #[cfg(any(test, CONFIG_KUNIT = "y"))]
    pub(crate) fn wants_run(&self) -> bool {
        !matches!(self.reply, Reply::None) || self.ack_due.is_some()
    }

    /// To Ready To Receive. `resources` has a slot for each READ, atomic, ATOMIC WRITE and FLUSH
    /// that the peer may have outstanding; without any they are refused.
    pub(crate) fn start(&mut self, attrs: &RecvAttrs, resources: S) {
        self.expected = attrs.rq_psn;
        self.msn = Msn::new(0);
        self.attrs = Some(*attrs);
        self.resources.replace(resources);
        self.state = RecvState::Ready;
    }

    /// Changes what the peer may do.
    pub(crate) fn set_allowed(&mut self, allowed: Allowed) {
        if let Some(attrs) = &mut self.attrs {
            attrs.allowed = allowed;
        }
    }

    /// Changes the time that the peer waits when no receive is posted.
    pub(crate) fn set_min_rnr_timer(&mut self, timer: RnrTimer) {
        if let Some(attrs) = &mut self.attrs {
            attrs.min_rnr_timer = timer;
        }
    }

    /// Changes the number of answers that are kept, and returns the memory of the old ones. Those
    /// are forgotten; an answer on its way does not depend on them.
    pub(crate) fn set_resources(&mut self, resources: S) -> Option<S> {
        self.resources.replace(resources)
    }

    /// To Error: the receive request in use is flushed. What is still in the receive queue is
    /// flushed by [`run`](Self::run), as is what will be posted.
    pub(crate) fn fail<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E) {
        if self.state == RecvState::Error {
            return;
        }
        self.reply = Reply::None;
        self.enter_error(env);
    }

    /// To Reset: forgets everything without a completion.
    pub(crate) fn reset(&mut self) {
        self.state = RecvState::Idle;
        self.attrs = None;
        self.held = None;
        self.reply = Reply::None;
        self.stop();
        self.resources.clear();
    }

    fn stop(&mut self) {
        self.message = Message::None;
        self.reported = false;
        self.ack_due = None;
    }

    fn enter_error<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E) {
        self.state = RecvState::Error;
        self.stop();
        self.end_recv(env, Status::WrFlush);
        // That of an XRC target is not its own.
        if self.has_srq && self.transport != Transport::XrcTgt {
            env.event(QpEvent::LastWqeReached);
        }
    }

    /// An error found here: to Error, and the rest of the queue pair follows.
    fn break_down<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E) {
        if self.state == RecvState::Error {
            return;
        }
        self.enter_error(env);
        env.failed();
    }

    /// Takes a request packet.
    pub(crate) fn input<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        rx: &E::Rx,
    ) -> Verdict {
        if self.state != RecvState::Ready || !packet.opcode.is_request() {
            return Verdict::Done;
        }
        match (self.transport, packet.opcode.service()) {
            (Transport::Rc, Service::Rc) | (Transport::XrcTgt, Service::Xrc) => {
                if !matches!(self.reply, Reply::None) {
                    return Verdict::Busy;
                }
                self.request(env, packet, rx);
            }
            (Transport::Uc, Service::Uc) => self.part(env, packet, rx),
            (Transport::Ud, Service::Ud) => self.datagram(env, packet, rx),
            _ => (),
        }
        Verdict::Done
    }

    /// Makes sure that there is a receive request. Returns its length, `None` if none is posted.
    fn take_recv<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
    ) -> Option<Result<u32, Status>> {
        if self.held.is_none() {
            self.held = env.next_recv();
        }
        let recv = self.held.as_ref()?;
        Some(match recv.invalid {
            Some(status) => Err(status),
            None => Ok(recv.len),
        })
    }

    /// Ends the receive request with an error, if there is one.
    fn end_recv<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E, status: Status) {
        if let Some(recv) = self.held.take() {
            let wc = RecvWc {
                wr_id: recv.wr_id,
                status,
                by_write: false,
                byte_len: 0,
                end: SendEnd::Plain,
                src_qp: self.qpn,
                grh: false,
                solicited: false,
            };
            // The queue pair is in error, or will be.
            let _ = env.complete(recv.local, wc);
        }
    }

    /// Writes what a packet has of the RDMA WRITE that is being received; the packet that `ends` it has
    /// all that is left. Returns the length of the message.
    fn write_part<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        ends: bool,
        rx: &E::Rx,
    ) -> Result<u32, WriteFault> {
        let Message::Write { to, len, got } = &mut self.message else {
            return Err(WriteFault::Form);
        };
        let rest = *len - *got;
        let fits = if ends {
            packet.payload_len == rest
        } else {
            packet.payload_len < rest
        };
        if !fits {
            return Err(WriteFault::Form);
        }
        if let (Some(to), true) = (to, packet.payload_len != 0) {
            env.write(to, *got, rx).map_err(WriteFault::Access)?;
        }
        *got += packet.payload_len;
        Ok(*len)
    }

    /// An RDMA WRITE of `len` bytes has arrived: with immediate data it ends a receive request.
    fn written<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        len: u32,
        end: WriteEnd,
    ) {
        self.message = Message::None;
        if let WriteEnd::Imm(imm) = end {
            env.count(Counter::Recvs);
            self.deliver(
                env,
                Delivered {
                    by_write: true,
                    byte_len: len,
                    end: SendEnd::Imm(imm),
                    src_qp: attrs.dest_qpn,
                    grh: false,
                    solicited: packet.bth.solicited,
                },
            );
        }
    }

    /// Ends the receive request with a message. Without room in the completion queue the queue
    /// pair fails; returns whether there was.
    fn deliver<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        message: Delivered,
    ) -> bool {
        let Some(recv) = self.held.take() else {
            return true;
        };
        let wc = RecvWc {
            wr_id: recv.wr_id,
            status: Status::Success,
            by_write: message.by_write,
            byte_len: message.byte_len,
            end: message.end,
            src_qp: message.src_qp,
            grh: message.grh,
            solicited: message.solicited,
        };
        if env.complete(recv.local, wc).is_err() {
            self.break_down(env);
            return false;
        }
        true
    }
}

/// Why a packet of an RDMA WRITE had no effect.
enum WriteFault {
    /// It is not the part of the message that comes next.
    Form,
    /// The memory cannot be written.
    Access(AccessError),
}

/// What a completion says about a message that has arrived.
struct Delivered {
    by_write: bool,
    byte_len: u32,
    end: SendEnd,
    src_qp: u32,
    grh: bool,
    solicited: bool,
}
