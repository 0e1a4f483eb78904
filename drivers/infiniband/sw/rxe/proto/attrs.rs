// SPDX-License-Identifier: GPL-2.0

//! Attributes of a queue pair that the state machines work with.

use crate::wire::aeth::RnrTimer;
use crate::wire::opcode::Service;
use crate::wire::psn::Psn;

/// What a queue pair is for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram, also QP 1.
    Ud,
    /// Extended reliable connection, the end that asks: it has no receive queue.
    XrcIni,
    /// The end that answers: it has no send queue, and its peer names the receive queue.
    XrcTgt,
}

impl Transport {
    /// The service that its packets name.
    pub(crate) const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud => Service::Ud,
            Self::XrcIni | Self::XrcTgt => Service::Xrc,
        }
    }

    /// Whether what is sent is acknowledged, and sent again if not.
    pub(crate) const fn is_reliable(self) -> bool {
        self.service().is_reliable()
    }

    /// Whether packets of this service, requests or responses, are for such a queue pair.
    pub(crate) fn takes(self, service: Service, is_request: bool) -> bool {
        self.service() == service
            && match self {
                Self::Rc | Self::Uc | Self::Ud => true,
                Self::XrcIni => !is_request,
                Self::XrcTgt => is_request,
            }
    }
}

/// Path MTU in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Mtu {
    B256 = 256,
    B512 = 512,
    B1024 = 1024,
    B2048 = 2048,
    B4096 = 4096,
}

impl Mtu {
    /// All values, by their code in verbs (`enum ib_mtu`) minus one.
    pub(crate) const ALL: [Self; 5] = [
        Self::B256,
        Self::B512,
        Self::B1024,
        Self::B2048,
        Self::B4096,
    ];

    /// From the code of verbs, 1 to 5.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        let place = usize::try_from(code.checked_sub(1)?).ok()?;
        Self::ALL.get(place).copied()
    }

    /// The code of verbs.
    pub(crate) const fn code(self) -> u32 {
        self.bytes().trailing_zeros() - 7
    }

    /// Bytes.
    pub(crate) const fn bytes(self) -> u32 {
        self as u32
    }
}

/// How often something is tried again, 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retries {
    /// So many times.
    Limited(u8),
    /// For ever: the code 7, which only `rnr_retry` has with this meaning.
    Unlimited,
}

impl Retries {
    /// From `retry_cnt`, where 7 is a number like the others.
    pub(crate) const fn from_retry_cnt(code: u8) -> Self {
        Self::Limited(code)
    }

    /// From `rnr_retry`.
    pub(crate) const fn from_rnr_retry(code: u8) -> Self {
        if code == 7 {
            Self::Unlimited
        } else {
            Self::Limited(code)
        }
    }

    /// Whether one more try is allowed after `done` of them.
    pub(crate) const fn allows(self, done: u32) -> bool {
        match self {
            Self::Limited(n) => done < n as u32,
            Self::Unlimited => true,
        }
    }
}

/// The time to wait for an acknowledgement: 4.096 us * 2^code, code 0 is for ever.
pub(crate) const fn ack_timeout_nanos(code: u8) -> Option<u64> {
    match code {
        0 => None,
        // Attributes have five bits.
        code => Some(4096 << (code & 0x1f)),
    }
}

/// What the send side needs from Ready To Send on. Datagrams use `sq_psn`, `pkey` and `mtu` (that
/// of the port).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SendAttrs {
    /// Connected queue pair.
    pub(crate) dest_qpn: u32,
    /// Path MTU.
    pub(crate) mtu: Mtu,
    /// Partition key in packets.
    pub(crate) pkey: u16,
    /// Sequence number of the first packet.
    pub(crate) sq_psn: Psn,
    /// Time to wait for an acknowledgement, `None`: for ever.
    pub(crate) ack_timeout: Option<u64>,
    /// Retries after a timeout or a missing packet.
    pub(crate) retry: Retries,
    /// Retries after receiver-not-ready.
    pub(crate) rnr_retry: Retries,
    /// READs, atomics, ATOMIC WRITEs and FLUSHes that may be outstanding.
    pub(crate) max_rd_atomic: u8,
}

/// What the queue pair lets its peer do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Allowed {
    /// RDMA READ.
    pub(crate) read: bool,
    /// RDMA WRITE and ATOMIC WRITE.
    pub(crate) write: bool,
    /// Compare and swap, fetch and add.
    pub(crate) atomic: bool,
    /// FLUSH to global visibility.
    pub(crate) flush_global: bool,
    /// FLUSH to persistence.
    pub(crate) flush_persistent: bool,
}

/// What the receive side needs from Ready To Receive on. Datagrams use nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecvAttrs {
    /// Connected queue pair.
    pub(crate) dest_qpn: u32,
    /// Path MTU.
    pub(crate) mtu: Mtu,
    /// Partition key in packets.
    pub(crate) pkey: u16,
    /// Sequence number of the first packet.
    pub(crate) rq_psn: Psn,
    /// What the peer may do.
    pub(crate) allowed: Allowed,
    /// The time that the peer waits when no receive request is posted.
    pub(crate) min_rnr_timer: RnrTimer,
}

/// How far a call of a state machine got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing to do until there is input, a request, or the deadline.
    Idle,
    /// The budget is used up: call again.
    More,
    /// The environment takes no packets: call again when it does.
    Blocked,
}
