// SPDX-License-Identifier: GPL-2.0

//! What a group does next.
//!
//! All that concerns one group happens one after the other. The group rests until somebody joins
//! or leaves it, or an event makes its membership doubtful; then it works: it asks its machine
//! for the next step, takes it, and so on until it may rest. While the administration is asked,
//! the answer goes on with the work.

use kernel::prelude::*;
use rdma::{
    gid::Gid,
    sa::{
        record::JoinState,
        Components,
        Member, //
    },
};

/// How often leaving is tried again.
const LEAVE_RETRIES: u8 = 3;

/// How somebody wants to be in a group.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) record: Member,
    pub(super) components: Components,
}

/// The first one who waits to be in the group.
#[derive(Clone, Copy)]
pub(super) struct Applicant<'a> {
    pub(super) serial: u64,
    pub(super) wish: &'a Wish,
}

/// Why the membership may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The P_Key may be gone, or at another index.
    Pkey,
    /// The subnet has forgotten the port.
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting,
    Working,
    /// The administration was asked to let this applicant in.
    Joining(u64),
    /// The administration was asked to let the group go.
    Leaving {
        state: JoinState,
        retries: u8,
    },
}

/// The next step.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Look up this P_Key, then tell by [`Machine::pkey_found`].
    LookUpPkey(u16),
    /// Tell the first member that it has lost its membership, and ask again; when there is none,
    /// tell by [`Machine::reset`].
    Expel,
    /// The first applicant is in, by [`Machine::admit`].
    Admit,
    /// The first applicant wants another group than there is.
    Refuse,
    /// Ask the administration for what the first applicant wants.
    Join,
    /// Ask the administration to delete this record.
    Leave(Member),
    /// Nothing to do.
    Rest,
}

/// See the [module](self).
pub(super) struct Machine {
    record: Member,
    /// The administration has told the record.
    known: bool,
    /// Members by the ways of being in the group.
    members: [u32; JoinState::WAYS],
    phase: Phase,
    alarm: Option<Alarm>,
    /// Where the P_Key was when the group was joined.
    pkey_index: Option<u16>,
}

impl Machine {
    /// Of a group that nobody is in.
    pub(super) fn new(record: Member) -> Self {
        Self {
            record,
            known: false,
            members: [0; JoinState::WAYS],
            phase: Phase::Resting,
            alarm: None,
            pkey_index: None,
        }
    }

    /// The record, once the administration has told it.
    pub(super) fn record(&self) -> Option<&Member> {
        self.known.then_some(&self.record)
    }

    /// The group, as far as known.
    pub(super) fn mgid(&self) -> Gid {
        self.record.mgid()
    }

    /// There is nothing to do.
    pub(super) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    /// There may be work; says whether somebody has to begin with it.
    pub(super) fn wake(&mut self) -> bool {
        let resting = self.phase == Phase::Resting;
        if resting {
            self.phase = Phase::Working;
        }
        resting
    }

    /// Something happened to the port. A [`Alarm::Reset`] stays one.
    pub(super) fn sound(&mut self, alarm: Alarm) {
        if self.alarm != Some(Alarm::Reset) {
            self.alarm = Some(alarm);
        }
    }

    /// The next step; `first` is the first applicant.
    pub(super) fn next(&mut self, first: Option<Applicant<'_>>) -> Step {
        match self.alarm {
            Some(Alarm::Pkey) => return Step::LookUpPkey(self.record.pkey()),
            Some(Alarm::Reset) => return Step::Expel,
            None => {}
        }
        if let Some(Applicant { serial, wish }) = first {
            if !self.record.join_state().includes(wish.record.join_state()) {
                self.phase = Phase::Joining(serial);
                return Step::Join;
            }
            return if self.record.satisfies(&wish.record, wish.components) {
                Step::Admit
            } else {
                Step::Refuse
            };
        }
        let unused = self.unused();
        if unused == JoinState::NONE {
            self.phase = Phase::Resting;
            return Step::Rest;
        }
        self.keep(self.record.join_state().without(unused));
        self.phase = Phase::Leaving {
            state: unused,
            retries: LEAVE_RETRIES,
        };
        Step::Leave(self.record.with_join_state(unused))
    }

    /// The ways in which the port is in the group, but no member.
    fn unused(&self) -> JoinState {
        let used = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, members)| **members != 0)
            .fold(JoinState::NONE, |used, (way, _)| {
                used.or(JoinState(1 << way))
            });
        // Only ways that members can have: there are no others to leave.
        self.record.join_state().and(JoinState(0xf)).without(used)
    }

    fn keep(&mut self, state: JoinState) {
        self.record = self.record.with_join_state(state);
    }

    /// Where the P_Key is.
    pub(super) fn pkey_found(&mut self, index: Option<u16>) {
        if self.alarm == Some(Alarm::Pkey) {
            let unchanged = index.is_some() && index == self.pkey_index;
            self.alarm = (!unchanged).then_some(Alarm::Reset);
        }
    }

    /// All members know that they are not in the group any more.
    pub(super) fn reset(&mut self) {
        self.keep(JoinState::NONE);
        self.alarm = None;
    }

    /// The first applicant is in the group; returns its record.
    pub(super) fn admit(&mut self, wish: &Wish) -> Member {
        let state = wish.record.join_state();
        self.count(state, |members| members.saturating_add(1));
        self.keep(self.record.join_state().or(state));
        self.record.with_join_state(state)
    }

    /// A member is not in the group any more.
    pub(super) fn dismiss(&mut self, wish: &Wish) {
        self.count(wish.record.join_state(), |members| {
            members.saturating_sub(1)
        });
    }

    fn count(&mut self, state: JoinState, change: impl Fn(u32) -> u32) {
        for way in state.ways() {
            if let Some(members) = self.members.get_mut(way) {
                *members = change(*members);
            }
        }
    }

    /// The administration has answered [`Step::Join`], or could not be asked. Returns the
    /// applicant that it was about, and its error, if it is to be told one.
    ///
    /// An answer that grants something else than was asked for is no reason to ask again: the
    /// applicant is told `EINVAL`.
    pub(super) fn joined(
        &mut self,
        answer: Result<(&Member, Option<u16>)>,
        first: Option<Applicant<'_>>,
    ) -> Option<(u64, Error)> {
        let Phase::Joining(serial) = self.phase else {
            return None;
        };
        self.phase = Phase::Working;
        match answer {
            Err(error) => Some((serial, error)),
            Ok((record, pkey_index)) => {
                self.record = *record;
                self.known = true;
                if self.alarm.is_none() {
                    self.pkey_index = pkey_index;
                }
                let Applicant { wish, .. } = first.filter(|first| first.serial == serial)?;
                let granted = record.join_state().includes(wish.record.join_state());
                (!granted).then_some((serial, EINVAL))
            }
        }
    }

    /// Whether an answer about joining is due.
    pub(super) fn is_joining(&self) -> bool {
        matches!(self.phase, Phase::Joining(_))
    }

    /// The administration has answered [`Step::Leave`], or could not be asked. Returns what to
    /// delete in another attempt.
    pub(super) fn left(&mut self, answer: Result, again: bool) -> Option<Member> {
        let Phase::Leaving { state, retries } = self.phase else {
            return None;
        };
        if answer.is_err() && again {
            if let Some(retries) = retries.checked_sub(1) {
                self.phase = Phase::Leaving { state, retries };
                return Some(self.record.with_join_state(state));
            }
        }
        self.phase = Phase::Working;
        None
    }
}

#[kunit_tests(rust_ib_core_multicast_machine)]
mod tests {
    use super::*;

    const FULL: JoinState = JoinState(1);
    const SEND_ONLY: JoinState = JoinState(4);

    fn group() -> Member {
        let mut mgid = [0; 16];
        mgid[0] = 0xff;
        Member::of_group(Gid::from_bytes(mgid))
    }

    fn wish(state: JoinState) -> Wish {
        Wish {
            record: group().with_join_state(state),
            components: Components::NONE,
        }
    }

    fn applicant(serial: u64, wish: &Wish) -> Option<Applicant<'_>> {
        Some(Applicant { serial, wish })
    }

    /// A group that one member is in.
    fn joined(state: JoinState) -> Machine {
        let mut machine = Machine::new(group());
        let wish = wish(state);
        assert!(machine.wake());
        assert!(matches!(machine.next(applicant(1, &wish)), Step::Join));
        let answer = group().with_join_state(state);
        assert!(machine
            .joined(Ok((&answer, Some(3))), applicant(1, &wish))
            .is_none());
        assert!(matches!(machine.next(applicant(1, &wish)), Step::Admit));
        assert!(machine.admit(&wish).join_state() == state);
        assert!(matches!(machine.next(None), Step::Rest));
        machine
    }

    #[test]
    fn a_second_member_does_not_ask() {
        let mut machine = joined(FULL);
        let second = wish(FULL);
        assert!(machine.wake());
        assert!(!machine.wake());
        assert!(matches!(machine.next(applicant(2, &second)), Step::Admit));
        machine.admit(&second);
        // The group is left with the last one only.
        machine.dismiss(&second);
        assert!(matches!(machine.next(None), Step::Rest));
        machine.dismiss(&second);
        assert!(machine.wake());
        assert!(matches!(
            machine.next(None),
            Step::Leave(record) if record.join_state() == FULL
        ));
    }

    #[test]
    fn another_way_of_being_in_asks_again() {
        let mut machine = joined(FULL);
        let second = wish(SEND_ONLY);
        assert!(machine.wake());
        assert!(matches!(machine.next(applicant(2, &second)), Step::Join));
        assert!(machine.is_joining());
        let failed = machine.joined(Err(ETIMEDOUT), applicant(2, &second));
        assert!(failed == Some((2, ETIMEDOUT)));
        assert!(matches!(machine.next(None), Step::Rest));
    }

    #[test]
    fn an_answer_that_grants_nothing_is_an_error() {
        let mut machine = Machine::new(group());
        let wish = wish(FULL);
        assert!(machine.record().is_none());
        assert!(machine.wake());
        assert!(matches!(machine.next(applicant(1, &wish)), Step::Join));
        let failed = machine.joined(Ok((&group(), None)), applicant(1, &wish));
        assert!(failed == Some((1, EINVAL)));
        assert!(machine.record().is_some());
    }

    #[test]
    fn an_applicant_that_left_is_not_told() {
        let mut machine = Machine::new(group());
        let first = wish(FULL);
        assert!(machine.wake());
        assert!(matches!(machine.next(applicant(1, &first)), Step::Join));
        let answer = group().with_join_state(FULL);
        assert!(machine.joined(Ok((&answer, None)), None).is_none());
        // What it got is given back.
        assert!(matches!(machine.next(None), Step::Leave(_)));
    }

    #[test]
    fn a_reset_expels_and_joins_anew() {
        let mut machine = joined(FULL);
        machine.sound(Alarm::Reset);
        machine.sound(Alarm::Pkey);
        assert!(machine.wake());
        assert!(matches!(machine.next(None), Step::Expel));
        let member = wish(FULL);
        machine.dismiss(&member);
        machine.reset();
        // Nothing is left to be left.
        assert!(matches!(machine.next(applicant(2, &member)), Step::Join));
    }

    #[test]
    fn a_pkey_that_stayed_is_no_reason() {
        let mut machine = joined(FULL);
        machine.sound(Alarm::Pkey);
        assert!(machine.wake());
        assert!(matches!(machine.next(None), Step::LookUpPkey(0)));
        machine.pkey_found(Some(3));
        assert!(matches!(machine.next(None), Step::Rest));

        machine.sound(Alarm::Pkey);
        assert!(machine.wake());
        assert!(matches!(machine.next(None), Step::LookUpPkey(0)));
        machine.pkey_found(Some(4));
        assert!(matches!(machine.next(None), Step::Expel));
    }

    #[test]
    fn leaving_is_tried_a_few_times() {
        let mut machine = joined(FULL);
        machine.dismiss(&wish(FULL));
        assert!(machine.wake());
        assert!(matches!(machine.next(None), Step::Leave(_)));
        for _ in 0..LEAVE_RETRIES {
            assert!(machine.left(Err(ETIMEDOUT), true).is_some());
        }
        assert!(machine.left(Err(ETIMEDOUT), true).is_none());
        assert!(matches!(machine.next(None), Step::Rest));
    }
}
