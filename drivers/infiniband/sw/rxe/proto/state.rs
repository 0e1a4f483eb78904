// SPDX-License-Identifier: GPL-2.0

//! States of a queue pair and what a change of state means for its two sides (IBTA vol. 1, 10.3.1).
//! Which attributes a change needs and takes is the core's table (`ib_modify_qp_is_ok`).

use super::attrs::Transport;
use super::recv::RecvState;
use super::send::SendState;

/// State of a queue pair, with the numbers of verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum QpState {
    /// Nothing is set up.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// The send queue drains or is drained.
    Sqd = 4,
    /// The send queue is in error; receiving goes on.
    Sqe = 5,
    /// Everything is flushed.
    Err = 6,
}

/// How far a failure reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The send queue only.
    SendQueue,
    /// The queue pair.
    QueuePair,
}

impl Failure {
    /// What has failed when the sides are in these states. `None` if neither has failed, or not any
    /// more, as the consumer has reset the queue pair.
    pub(crate) const fn of(send: SendState, recv: RecvState) -> Option<Self> {
        match (send, recv) {
            (SendState::Error, _) | (_, RecvState::Error) => Some(Self::QueuePair),
            (SendState::SqError, _) => Some(Self::SendQueue),
            _ => None,
        }
    }
}

/// What a change of state means for the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Attributes only.
    Stay,
    /// Both sides forget everything.
    Reset,
    /// Receives may be posted.
    Initialize,
    /// The receive side starts.
    StartReceive,
    /// The send side starts with its first sequence number.
    StartSend,
    /// The send side goes on where it was.
    ResumeSend,
    /// The send side drains.
    Drain,
    /// Both sides fail and flush.
    Fail,
}

impl QpState {
    /// All states, by their number.
    pub(crate) const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// From the number of verbs.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The number of verbs.
    pub(crate) const fn code(self) -> u32 {
        self as u32
    }

    /// Whether receive requests may be posted. In error they are taken and flushed.
    pub(crate) const fn may_post_recv(self) -> bool {
        !matches!(self, Self::Reset)
    }

    /// Whether send requests may be posted. In error they are taken and flushed, while drained they
    /// wait.
    pub(crate) const fn may_post_send(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd | Self::Sqe | Self::Err)
    }

    /// Whether request packets of the peer are looked at.
    pub(crate) const fn takes_requests(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether response packets of the peer are looked at.
    pub(crate) const fn takes_responses(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }

    /// What a change to `to` means. `None` if there is no such change.
    ///
    /// The consumer may tell the state that it believes the queue pair in (`IB_QP_CUR_STATE`). A
    /// belief is not a state: if it is wrong, there is no such change either.
    pub(crate) const fn step(
        self,
        believed: Option<Self>,
        to: Self,
        transport: Transport,
    ) -> Option<Step> {
        if let Some(believed) = believed {
            if believed.code() != self.code() {
                return None;
            }
        }
        match (self, to) {
            (_, Self::Reset) => Some(Step::Reset),
            // Of a queue pair that was never set up there is nothing to fail but what it is.
            (_, Self::Err) => Some(Step::Fail),
            (Self::Reset, Self::Init) => Some(Step::Initialize),
            (Self::Init, Self::Init) => Some(Step::Stay),
            (Self::Init, Self::Rtr) => Some(Step::StartReceive),
            (Self::Rtr, Self::Rts) => Some(Step::StartSend),
            (Self::Rts, Self::Rts) | (Self::Sqd, Self::Sqd) => Some(Step::Stay),
            (Self::Rts, Self::Sqd) => Some(Step::Drain),
            (Self::Sqd, Self::Rts) => Some(Step::ResumeSend),
            // Reliable connections have no such state.
            (Self::Sqe, Self::Rts) if !transport.is_reliable() => Some(Step::ResumeSend),
            _ => None,
        }
    }
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_qp_state))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    #[test]
    fn codes_convert_both_ways() {
        for (code, state) in (0..).zip(QpState::ALL) {
            assert_eq!(QpState::from_code(code), Some(state));
            assert_eq!(state.code(), code);
        }
        assert_eq!(QpState::from_code(7), None);
    }

    #[test]
    fn the_way_up_and_down() {
        let rc = Transport::Rc;
        assert_eq!(
            QpState::Reset.step(None, QpState::Init, rc),
            Some(Step::Initialize)
        );
        assert_eq!(
            QpState::Init.step(None, QpState::Rtr, rc),
            Some(Step::StartReceive)
        );
        assert_eq!(
            QpState::Rtr.step(None, QpState::Rts, rc),
            Some(Step::StartSend)
        );
        assert_eq!(QpState::Rts.step(None, QpState::Sqd, rc), Some(Step::Drain));
        assert_eq!(
            QpState::Sqd.step(None, QpState::Rts, rc),
            Some(Step::ResumeSend)
        );
        for state in QpState::ALL {
            assert_eq!(state.step(None, QpState::Err, rc), Some(Step::Fail));
            assert_eq!(state.step(None, QpState::Reset, rc), Some(Step::Reset));
        }
        assert_eq!(QpState::Reset.step(None, QpState::Rts, rc), None);
        assert_eq!(QpState::Err.step(None, QpState::Rts, rc), None);
        assert_eq!(QpState::Rts.step(None, QpState::Rtr, rc), None);
    }

    #[test]
    fn a_side_that_fails_after_the_send_queue_takes_the_rest_along() {
        let (ready, broken) = (RecvState::Ready, RecvState::Error);
        let of = Failure::of;
        assert_eq!(of(SendState::Ready, ready), None);
        assert_eq!(of(SendState::Idle, RecvState::Idle), None);
        assert_eq!(of(SendState::SqError, ready), Some(Failure::SendQueue));
        assert_eq!(of(SendState::SqError, broken), Some(Failure::QueuePair));
        assert_eq!(of(SendState::Error, ready), Some(Failure::QueuePair));
        assert_eq!(of(SendState::Idle, broken), Some(Failure::QueuePair));
    }

    #[test]
    fn a_wrong_belief_is_refused() {
        let (rts, sqe, rtr) = (QpState::Rts, QpState::Sqe, QpState::Rtr);
        assert_eq!(rts.step(Some(rtr), rts, Transport::Rc), None);
        assert_eq!(rts.step(Some(rts), rts, Transport::Rc), Some(Step::Stay));
        assert_eq!(
            sqe.step(Some(sqe), rts, Transport::Ud),
            Some(Step::ResumeSend)
        );
        assert_eq!(sqe.step(Some(rts), rts, Transport::Ud), None);
        assert_eq!(sqe.step(None, rts, Transport::Rc), None);
        for believed in QpState::ALL {
            let allowed = believed == QpState::Err;
            let step = QpState::Err.step(Some(believed), QpState::Reset, Transport::Rc);
            assert_eq!(step.is_some(), allowed);
        }
    }
}
