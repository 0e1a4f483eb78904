// SPDX-License-Identifier: GPL-2.0

//! State machine of queue pairs (IBTA vol. 1, 10.3.1 and 11.2.5.2; XRC: annex A14).
//!
//! Only data and `core`, so this also runs on a build host:
//! `tests/host/qp_state.sh` compares every cell with the kernel's own table.

/// State of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum State {
    /// Nothing is set up.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// The send queue is drained.
    Sqd,
    /// The send queue is in error.
    Sqe,
    /// Everything is flushed.
    Err,
}

impl State {
    /// All states, by their code.
    pub(crate) const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// From the code in a request.
    pub(crate) fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw).ok()?).copied()
    }
}

/// A set of attributes of a request to modify, as its mask names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attrs(pub(crate) u32);

impl Attrs {
    const NONE: Self = Self(0);
    const STATE: Self = Self(1 << 0);
    const CUR_STATE: Self = Self(1 << 1);
    const EN_SQD_NOTIFY: Self = Self(1 << 2);
    const ACCESS: Self = Self(1 << 3);
    const PKEY_INDEX: Self = Self(1 << 4);
    const PORT: Self = Self(1 << 5);
    const QKEY: Self = Self(1 << 6);
    const AV: Self = Self(1 << 7);
    const PATH_MTU: Self = Self(1 << 8);
    const TIMEOUT: Self = Self(1 << 9);
    const RETRY_CNT: Self = Self(1 << 10);
    const RNR_RETRY: Self = Self(1 << 11);
    const RQ_PSN: Self = Self(1 << 12);
    const MAX_RD_ATOMIC: Self = Self(1 << 13);
    const ALT_PATH: Self = Self(1 << 14);
    const MIN_RNR_TIMER: Self = Self(1 << 15);
    const SQ_PSN: Self = Self(1 << 16);
    const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    const PATH_MIG_STATE: Self = Self(1 << 18);
    const DEST_QPN: Self = Self(1 << 20);
    const RATE_LIMIT: Self = Self(1 << 25);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A set of transport services, one bit per code of a queue pair's type.
#[derive(Clone, Copy)]
struct Services(u32);

impl Services {
    const SMI: Self = Self(1 << 0);
    const GSI: Self = Self(1 << 1);
    const RC: Self = Self(1 << 2);
    const UC: Self = Self(1 << 3);
    const UD: Self = Self(1 << 4);
    const RAW_PACKET: Self = Self(1 << 8);
    const XRC_INI: Self = Self(1 << 9);
    const XRC_TGT: Self = Self(1 << 10);

    /// Subnet management and general services: datagrams on a port that the number implies.
    const MANAGEMENT: Self = Self::SMI.and(Self::GSI);
    /// Datagrams with a Q_Key.
    const DATAGRAM: Self = Self::UD.and(Self::MANAGEMENT);
    /// Those that acknowledge what they receive.
    const RESPONDER: Self = Self::RC.and(Self::XRC_TGT);
    /// Those that wait for acknowledgements.
    const REQUESTER: Self = Self::RC.and(Self::XRC_INI);
    /// Those that do either.
    const RELIABLE: Self = Self::RESPONDER.and(Self::REQUESTER);
    /// Those that have one peer.
    const CONNECTED: Self = Self::UC.and(Self::RELIABLE);

    /// Number of types that the architecture knows, gaps included.
    const CODES: u32 = 11;

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn contains(self, code: u32) -> bool {
        self.0 >> code & 1 != 0
    }
}

/// What some services need, and allow, to be set in a transition. Rules for the same service
/// add up.
#[derive(Clone, Copy)]
struct Rule {
    services: Services,
    required: Attrs,
    optional: Attrs,
}

const fn rule(services: Services, required: &[Attrs], optional: &[Attrs]) -> Rule {
    const fn union(attrs: &[Attrs]) -> Attrs {
        match attrs {
            [] => Attrs::NONE,
            [first, rest @ ..] => first.and(union(rest)),
        }
    }
    Rule {
        services,
        required: union(required),
        optional: union(optional),
    }
}

/// A transition that exists, with its rules.
struct Transition {
    from: State,
    to: State,
    rules: &'static [Rule],
}

const fn transition(from: State, to: State, rules: &'static [Rule]) -> Transition {
    Transition { from, to, rules }
}

const RESET_TO_INIT: [Rule; 4] = [
    rule(
        Services::UD,
        &[Attrs::PKEY_INDEX, Attrs::PORT, Attrs::QKEY],
        &[],
    ),
    rule(Services::MANAGEMENT, &[Attrs::PKEY_INDEX, Attrs::QKEY], &[]),
    rule(Services::RAW_PACKET, &[Attrs::PORT], &[]),
    rule(
        Services::CONNECTED,
        &[Attrs::PKEY_INDEX, Attrs::PORT, Attrs::ACCESS],
        &[],
    ),
];

const INIT_TO_INIT: [Rule; 3] = [
    rule(Services::DATAGRAM, &[], &[Attrs::PKEY_INDEX, Attrs::QKEY]),
    rule(Services::UD, &[], &[Attrs::PORT]),
    rule(
        Services::CONNECTED,
        &[],
        &[Attrs::PKEY_INDEX, Attrs::PORT, Attrs::ACCESS],
    ),
];

const INIT_TO_RTR: [Rule; 3] = [
    rule(Services::DATAGRAM, &[], &[Attrs::PKEY_INDEX, Attrs::QKEY]),
    rule(
        Services::CONNECTED,
        &[Attrs::AV, Attrs::PATH_MTU, Attrs::DEST_QPN, Attrs::RQ_PSN],
        &[Attrs::ALT_PATH, Attrs::ACCESS, Attrs::PKEY_INDEX],
    ),
    rule(
        Services::RESPONDER,
        &[Attrs::MAX_DEST_RD_ATOMIC, Attrs::MIN_RNR_TIMER],
        &[],
    ),
];

const RTR_TO_RTS: [Rule; 7] = [
    rule(Services::DATAGRAM, &[Attrs::SQ_PSN], &[]),
    rule(Services::CONNECTED, &[Attrs::SQ_PSN], &[]),
    rule(
        Services::REQUESTER,
        &[
            Attrs::TIMEOUT,
            Attrs::RETRY_CNT,
            Attrs::RNR_RETRY,
            Attrs::MAX_RD_ATOMIC,
        ],
        &[],
    ),
    rule(Services::XRC_TGT, &[Attrs::TIMEOUT], &[]),
    RUNNING[0],
    RUNNING[1],
    RUNNING[2],
];

/// What may change while requests are sent.
const RUNNING: [Rule; 3] = [
    rule(Services::DATAGRAM, &[], &[Attrs::CUR_STATE, Attrs::QKEY]),
    rule(
        Services::CONNECTED,
        &[],
        &[
            Attrs::CUR_STATE,
            Attrs::ALT_PATH,
            Attrs::ACCESS,
            Attrs::PATH_MIG_STATE,
        ],
    ),
    rule(Services::RESPONDER, &[], &[Attrs::MIN_RNR_TIMER]),
];

const RTS_TO_SQD: [Rule; 1] = [rule(
    Services::DATAGRAM.and(Services::CONNECTED),
    &[],
    &[Attrs::EN_SQD_NOTIFY],
)];

const SQD_TO_SQD: [Rule; 5] = [
    rule(Services::DATAGRAM, &[], &[Attrs::PKEY_INDEX, Attrs::QKEY]),
    rule(
        Services::CONNECTED,
        &[],
        &[
            Attrs::AV,
            Attrs::ALT_PATH,
            Attrs::ACCESS,
            Attrs::PKEY_INDEX,
            Attrs::PATH_MIG_STATE,
        ],
    ),
    rule(Services::RELIABLE, &[], &[Attrs::PORT, Attrs::TIMEOUT]),
    rule(
        Services::REQUESTER,
        &[],
        &[Attrs::RETRY_CNT, Attrs::RNR_RETRY, Attrs::MAX_RD_ATOMIC],
    ),
    rule(
        Services::RESPONDER,
        &[],
        &[Attrs::MAX_DEST_RD_ATOMIC, Attrs::MIN_RNR_TIMER],
    ),
];

const SQE_TO_RTS: [Rule; 2] = [
    rule(Services::DATAGRAM, &[], &[Attrs::CUR_STATE, Attrs::QKEY]),
    rule(Services::UC, &[], &[Attrs::CUR_STATE, Attrs::ACCESS]),
];

/// All transitions but those to RESET, which is always possible, and to ERR, which is possible
/// from everywhere but RESET; these take no attributes.
const TRANSITIONS: [Transition; 9] = [
    transition(State::Reset, State::Init, &RESET_TO_INIT),
    transition(State::Init, State::Init, &INIT_TO_INIT),
    transition(State::Init, State::Rtr, &INIT_TO_RTR),
    transition(State::Rtr, State::Rts, &RTR_TO_RTS),
    transition(State::Rts, State::Rts, &RUNNING),
    transition(State::Rts, State::Sqd, &RTS_TO_SQD),
    transition(State::Sqd, State::Rts, &RUNNING),
    transition(State::Sqd, State::Sqd, &SQD_TO_SQD),
    transition(State::Sqe, State::Rts, &SQE_TO_RTS),
];

/// Required and optional attributes of a transition of a queue pair of type `service`; `None` if
/// the transition does not exist.
///
/// A type without rules (one that only a driver knows) has the transitions but takes no
/// attributes.
pub(crate) fn attributes(from: State, to: State, service: u32) -> Option<(Attrs, Attrs)> {
    if to == State::Reset || (to == State::Err && from != State::Reset) {
        return Some((Attrs::NONE, Attrs::NONE));
    }
    let found = TRANSITIONS.iter().find(|t| t.from == from && t.to == to)?;
    let rules = found.rules.iter().filter(|r| r.services.contains(service));
    Some(rules.fold((Attrs::NONE, Attrs::NONE), |(need, may), rule| {
        (need.and(rule.required), may.and(rule.optional))
    }))
}

/// Whether a queue pair of type `service` may go from one state to another with the given
/// attributes: all that the transition requires, and none that it does not know.
///
/// The caller may say what it believes to be the current state only if the queue pair has
/// reached RTR and is not in error. False for a state or a type that does not exist.
pub(crate) fn may_modify(from: u32, to: u32, service: u32, attrs: Attrs) -> bool {
    let (Some(from), Some(to)) = (State::from_raw(from), State::from_raw(to)) else {
        return false;
    };
    if service >= Services::CODES {
        return false;
    }
    let knows_state = matches!(from, State::Rtr | State::Rts | State::Sqd | State::Sqe);
    if attrs.intersects(Attrs::CUR_STATE) && !knows_state {
        return false;
    }
    let Some((required, optional)) = attributes(from, to, service) else {
        return false;
    };
    let always = Attrs::STATE.and(Attrs::RATE_LIMIT);
    let allowed = required.and(optional).and(always);
    attrs.contains(required) && attrs.without(allowed) == Attrs::NONE
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rust_ib_core_qp_state)]
mod tests {
    use super::*;

    const RC: u32 = 2;
    const UD: u32 = 4;

    #[test]
    fn the_usual_way_up() {
        let init = Attrs::STATE
            .and(Attrs::PKEY_INDEX)
            .and(Attrs::PORT)
            .and(Attrs::ACCESS);
        assert!(may_modify(0, 1, RC, init));
        assert!(!may_modify(0, 1, RC, init.without(Attrs::PORT)));
        assert!(!may_modify(0, 1, RC, init.and(Attrs::QKEY)));
        assert!(may_modify(0, 1, RC, init.and(Attrs::RATE_LIMIT)));
        assert!(may_modify(2, 3, UD, Attrs::STATE.and(Attrs::SQ_PSN)));
    }

    #[test]
    fn no_shortcuts() {
        for state in [2, 3, 4, 5, 6] {
            assert!(!may_modify(0, state, RC, Attrs(u32::MAX)));
            assert!(!may_modify(0, state, RC, Attrs::STATE));
        }
        assert!(!may_modify(1, 3, RC, Attrs::STATE));
    }

    #[test]
    fn down_from_everywhere() {
        for state in State::ALL {
            assert!(may_modify(state as u32, 0, UD, Attrs::STATE));
            let to_err = may_modify(state as u32, 6, UD, Attrs::STATE);
            assert_eq!(to_err, state != State::Reset);
        }
    }

    #[test]
    fn current_state_is_only_known_on_the_way() {
        let attrs = Attrs::STATE.and(Attrs::CUR_STATE);
        assert!(may_modify(3, 3, UD, attrs));
        assert!(!may_modify(1, 1, UD, attrs));
        assert!(!may_modify(6, 0, UD, attrs));
    }

    #[test]
    fn what_does_not_exist() {
        assert!(!may_modify(7, 0, RC, Attrs::STATE));
        assert!(!may_modify(0, u32::MAX, RC, Attrs::STATE));
        assert!(!may_modify(0, 0, 255, Attrs::STATE));
    }
}
