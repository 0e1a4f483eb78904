// SPDX-License-Identifier: GPL-2.0

//! The send side of a queue pair: the requester, which makes packets of requests
//! ([`requester`]), and the completer, which makes completions of the answers ([`completer`]).
//!
//! Both work on one window of requests. Three sequence numbers move over it, `una <= nxt <= max`
//! in the order of the numbers: all before `una` is acknowledged, `nxt` is sent next, and
//! `max` is the first one that was never sent. Which packet a sequence number stands for follows
//! from the request that owns it, so to send again from some packet on is to move `nxt` back.
//!
//! A request ends in its turn: with the answer (reliable), when it is sent (unreliable), or with
//! the error that was found in it, by its own status. All after an error are flushed.

mod completer;
mod requester;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests;
mod window;

use super::attrs::{Mtu, SendAttrs, Transport};
use super::env::{Nanos, QpEvent, SendEnv, Slots};
use super::wr::{SendWc, SendWqe, Status};
use crate::wire::psn::Psn;
pub(crate) use window::Entry;
use window::{Phase, Window};

/// Requests that can be under way at once: the most slots that are worth having.
pub(crate) const WINDOW: usize = 256;

/// State of the send side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendState {
    /// Not started (RESET, INIT, RTR).
    Idle,
    /// Sending (RTS).
    Ready,
    /// No new request is started (SQD).
    Draining {
        /// Raise an event when it is drained.
        notify: bool,
    },
    /// All requests that were started have ended (SQD).
    Drained,
    /// The send queue has failed, the receive side not (SQE).
    SqError,
    /// The queue pair has failed (ERR).
    Error,
}

/// The send side of a queue pair. `L` is [`SendEnv::Local`], `S` the memory of the window, of
/// one to [`WINDOW`] slots.
pub(crate) struct SendSide<L, S: Slots<Option<Entry<L>>>> {
    transport: Transport,
    qpn: u32,
    attrs: Option<SendAttrs>,
    state: SendState,
    window: Window<L, S>,
    /// Position in the window of the request that is sent next.
    cursor: usize,
    una: Psn,
    nxt: Psn,
    max: Psn,
    /// Requests before the cursor that wait for a response.
    outstanding: u32,
    /// When to send again what is not acknowledged.
    resend_at: Option<Nanos>,
    /// Until when nothing may be sent: the receiver was not ready.
    pause_until: Option<Nanos>,
    retries: u32,
    rnr_retries: u32,
    /// Sending went back for a missing packet, and nothing new was acknowledged since.
    recovering: bool,
    /// Something happened after which `run` has work to do.
    kicked: bool,
}

impl<L, S: Slots<Option<Entry<L>>>> SendSide<L, S> {
    /// A send side that is not started.
    pub(crate) fn new(transport: Transport, qpn: u32, slots: S) -> Self {
        Self {
            transport,
            qpn,
            attrs: None,
            state: SendState::Idle,
            window: Window::new(slots),
            cursor: 0,
            una: Psn::new(0),
            nxt: Psn::new(0),
            max: Psn::new(0),
            outstanding: 0,
            resend_at: None,
            pause_until: None,
            retries: 0,
            rnr_retries: 0,
            recovering: false,
            kicked: false,
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> SendState {
        self.state
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.window.len() == 0
    }

    /// The sequence number of the next packet that was never sent (`sq_psn` of a query).
    pub(crate) fn next_psn(&self) -> Psn {
        self.max
    }

    /// When [`timer`](Self::timer) is to be called, if nothing else happens. It may change in
    /// every call.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.pause_until.or(self.resend_at)
    }

    /// Whether something happened since the last [`run`](Self::run) that makes another one
    /// necessary.
    #[cfg(any(test, CONFIG_KUNIT = "y"))]
    pub(crate) fn wants_run(&self) -> bool {
        self.kicked
    }

    /// To Ready To Send: from RTR with the first sequence number, from SQD or SQE where it was.
    /// The caller runs the side then.
    pub(crate) fn start(&mut self, attrs: &SendAttrs) {
        if self.state == SendState::Idle {
            self.una = attrs.sq_psn;
            self.nxt = attrs.sq_psn;
            self.max = attrs.sq_psn;
        }
        self.set_attrs(attrs);
        self.state = SendState::Ready;
        self.kicked = true;
    }

    /// Other attributes, which count from now on. The path MTU of a connection and the first
    /// sequence number do not change any more.
    pub(crate) fn set_attrs(&mut self, attrs: &SendAttrs) {
        let mut attrs = *attrs;
        match &self.attrs {
            Some(old) if self.transport != Transport::Ud => attrs.mtu = old.mtu,
            _ => (),
        }
        self.attrs = Some(attrs);
        self.kicked = true;
    }

    /// The MTU of the port, to which datagrams are held from now on.
    pub(crate) fn set_port_mtu(&mut self, mtu: Mtu) {
        if let (Some(attrs), Transport::Ud) = (&mut self.attrs, self.transport) {
            attrs.mtu = mtu;
        }
    }

    /// To Send Queue Drained: requests that are started end, others wait.
    pub(crate) fn drain<E: SendEnv<Local = L>>(&mut self, env: &mut E, notify: bool) {
        if self.state == SendState::Ready {
            self.state = SendState::Draining { notify };
            self.check_drained(env);
        }
    }

    fn check_drained<E: SendEnv<Local = L>>(&mut self, env: &mut E) {
        let SendState::Draining { notify } = self.state else {
            return;
        };
        let busy = self
            .window
            .get(0)
            .is_some_and(|entry| entry.phase != Phase::Queued);
        if busy {
            return;
        }
        self.state = SendState::Drained;
        if notify {
            env.event(QpEvent::SqDrained);
        }
    }

    /// To Error: all requests in the window are flushed. What is still in the queue is flushed by
    /// [`run`](Self::run), as is what will be posted.
    pub(crate) fn fail<E: SendEnv<Local = L>>(&mut self, env: &mut E) {
        if self.state == SendState::Error {
            return;
        }
        self.state = SendState::Error;
        self.flush(env);
    }

    /// To Reset: forgets all requests without a completion.
    pub(crate) fn reset(&mut self) {
        while self.window.drop_oldest() {}
        self.state = SendState::Idle;
        self.attrs = None;
        self.stop();
        self.kicked = false;
    }

    fn stop(&mut self) {
        self.cursor = 0;
        self.outstanding = 0;
        self.nxt = self.max;
        self.una = self.max;
        self.resend_at = None;
        self.pause_until = None;
        self.retries = 0;
        self.rnr_retries = 0;
        self.recovering = false;
    }

    fn flush<E: SendEnv<Local = L>>(&mut self, env: &mut E) {
        self.stop();
        while let Some(entry) = self.window.get(0) {
            let room = Self::end(env, &entry.wqe, Status::WrFlush);
            self.window.drop_oldest();
            self.flushed(env, room);
        }
        self.kicked = true;
    }

    /// After the end of a request that is not executed. A completion that is lost is more than the
    /// send queue can bear alone.
    fn flushed<E: SendEnv<Local = L>>(&mut self, env: &mut E, room: bool) {
        if !room && self.state != SendState::Error {
            self.state = SendState::Error;
            env.failed();
        }
    }

    /// Ends a request, which the caller drops then. Returns whether the completion queue had room.
    fn end<E: SendEnv<Local = L>>(env: &mut E, wqe: &SendWqe<L>, status: Status) -> bool {
        let wc = (wqe.signaled || status != Status::Success).then(|| SendWc {
            wr_id: wqe.wr_id,
            status,
            op: wqe.op.wc_op(),
            byte_len: wqe.len,
        });
        env.retire(&wqe.local, wc).is_ok()
    }

    /// Takes the oldest request out with this status. An error fails the send queue.
    fn end_oldest<E: SendEnv<Local = L>>(&mut self, env: &mut E, status: Status) {
        let Some(entry) = self.window.get(0) else {
            return;
        };
        if self.cursor > 0 {
            self.cursor -= 1;
            if entry.wqe.op.needs_response() {
                self.outstanding = self.outstanding.saturating_sub(1);
            }
        }
        let room = Self::end(env, &entry.wqe, status);
        self.window.drop_oldest();
        if !room {
            self.break_down(env, SendState::Error);
        } else if status != Status::Success {
            self.break_down(
                env,
                if self.transport.is_reliable() {
                    SendState::Error
                } else {
                    SendState::SqError
                },
            );
        }
    }

    /// An error in the send queue: IBTA vol. 1, 10.3.1.6 and 10.3.1.7.
    fn break_down<E: SendEnv<Local = L>>(&mut self, env: &mut E, to: SendState) {
        if self.is_broken() {
            return;
        }
        self.state = to;
        self.flush(env);
        env.failed();
    }

    fn is_broken(&self) -> bool {
        matches!(self.state, SendState::SqError | SendState::Error)
    }

    /// Ends those of the oldest requests that are done.
    fn end_done<E: SendEnv<Local = L>>(&mut self, env: &mut E) {
        while let Some(Phase::Done(status)) = self.window.get(0).map(|entry| entry.phase) {
            self.end_oldest(env, status);
        }
        self.check_drained(env);
    }

    /// Goes back to the oldest packet that is not acknowledged.
    fn go_back(&mut self) {
        self.nxt = self.una;
        self.cursor = 0;
        self.outstanding = 0;
        self.resend_at = None;
        self.kicked = true;
    }
}
