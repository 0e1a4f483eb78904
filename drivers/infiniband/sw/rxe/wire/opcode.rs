// SPDX-License-Identifier: GPL-2.0

//! Opcodes of the base transport header (IBTA vol. 1, 9.2 and table 38; FLUSH and ATOMIC WRITE:
//! annex A19; XRC: annex A14). The upper three bits name the transport service, the lower five
//! the operation; [`TABLE`] says what an operation needs.

/// A transport service, by the upper three bits of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Unreliable datagram.
    Ud = 3,
    /// Extended reliable connection.
    Xrc = 5,
}

impl Service {
    /// All services.
    #[cfg(any(test, CONFIG_KUNIT = "y"))]
    pub(crate) const ALL: [Self; 4] = [Self::Rc, Self::Uc, Self::Ud, Self::Xrc];

    /// The service of an opcode byte. Reliable datagrams and the congestion notification are
    /// not known.
    const fn from_opcode(byte: u8) -> Option<Self> {
        match byte >> 5 {
            0 => Some(Self::Rc),
            1 => Some(Self::Uc),
            3 => Some(Self::Ud),
            5 => Some(Self::Xrc),
            _ => None,
        }
    }

    /// Whether what is sent is acknowledged, and sent again if not.
    pub(crate) const fn is_reliable(self) -> bool {
        match self {
            Self::Rc | Self::Xrc => true,
            Self::Uc | Self::Ud => false,
        }
    }

    /// The opcode bits of the service.
    const fn base(self) -> u8 {
        (self as u8) << 5
    }
}

/// An operation, by the lower five bits of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Op {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImm = 0x03,
    SendOnly = 0x04,
    SendOnlyImm = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImm = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImm = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
    Flush = 0x1c,
    AtomicWrite = 0x1d,
}

/// Who sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// The requester.
    Request,
    /// The responder.
    Response,
}

/// Where a packet is in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    First,
    Middle,
    Last,
    Only,
}

impl Place {
    /// Whether the packet starts a message.
    pub(crate) const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }
}

/// How much payload a packet has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    /// None.
    Empty,
    /// Exactly the path MTU.
    Mtu,
    /// One byte to the path MTU.
    Some,
    /// Nothing to the path MTU.
    Any,
    /// Eight bytes, no padding.
    Eight,
}

impl Payload {
    /// Whether `len` bytes are right for a path MTU.
    pub(crate) const fn allows(self, len: u32, mtu: u32) -> bool {
        match self {
            Self::Empty => len == 0,
            Self::Mtu => len == mtu,
            Self::Some => len != 0 && len <= mtu,
            Self::Any => len <= mtu,
            Self::Eight => len == 8,
        }
    }
}

/// A set of extended transport headers. In a packet they follow in the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Headers(u16);

impl Headers {
    /// None.
    pub(crate) const NONE: Self = Self(0);
    /// Datagram: queue key and source.
    pub(crate) const DETH: Self = Self(1 << 0);
    /// Number of the shared receive queue.
    pub(crate) const XRCETH: Self = Self(1 << 1);
    /// Kind of a flush.
    pub(crate) const FETH: Self = Self(1 << 2);
    /// Address, key and length.
    pub(crate) const RETH: Self = Self(1 << 3);
    /// Operands of an atomic operation.
    pub(crate) const ATOMIC: Self = Self(1 << 4);
    /// Acknowledgement.
    pub(crate) const AETH: Self = Self(1 << 5);
    /// Result of an atomic operation.
    pub(crate) const ATOMIC_ACK: Self = Self(1 << 6);
    /// Immediate data.
    pub(crate) const IMM: Self = Self(1 << 7);
    /// Key to invalidate.
    pub(crate) const IETH: Self = Self(1 << 8);

    /// Each header with its length in bytes.
    const LENGTHS: [(Self, u8); 9] = [
        (Self::DETH, 8),
        (Self::XRCETH, 4),
        (Self::FETH, 4),
        (Self::RETH, 16),
        (Self::ATOMIC, 28),
        (Self::AETH, 4),
        (Self::ATOMIC_ACK, 8),
        (Self::IMM, 4),
        (Self::IETH, 4),
    ];

    /// Both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are here.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Bytes that each set takes.
    const SUMS: [u8; 1 << Self::LENGTHS.len()] = {
        let mut sums = [0; 1 << Self::LENGTHS.len()];
        let mut set = 0;
        while set < sums.len() {
            let mut i = 0;
            while i < Self::LENGTHS.len() {
                let (header, len) = Self::LENGTHS[i];
                if Self(set as u16).has(header) {
                    sums[set] += len;
                }
                i += 1;
            }
            set += 1;
        }
        sums
    };
}

/// What a packet with an operation looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// The operation.
    pub(crate) op: Op,
    /// Who sends it.
    pub(crate) direction: Direction,
    /// Where it is in its message.
    pub(crate) place: Place,
    /// How much payload it has.
    pub(crate) payload: Payload,
    /// Headers after the base header, without those that the service adds.
    pub(crate) headers: Headers,
    /// Whether unreliable connections and datagrams know it.
    uc: bool,
    ud: bool,
}

const fn row(
    op: Op,
    direction: Direction,
    place: Place,
    payload: Payload,
    headers: Headers,
    (uc, ud): (bool, bool),
) -> Row {
    Row {
        op,
        direction,
        place,
        payload,
        headers,
        uc,
        ud,
    }
}

/// Services other than the reliable ones that know an operation.
const RC: (bool, bool) = (false, false);
const UC: (bool, bool) = (true, false);
const UD: (bool, bool) = (true, true);

/// All operations, in the order of their codes.
#[rustfmt::skip]
pub(crate) static TABLE: [Row; 25] = {
    use Direction::{Request, Response};
    use Place::{First, Last, Middle, Only};
    use Payload::{Any, Eight, Empty, Mtu, Some};
    type H = Headers;
    [
        row(Op::SendFirst,          Request,  First,  Mtu,   H::NONE, UC),
        row(Op::SendMiddle,         Request,  Middle, Mtu,   H::NONE, UC),
        row(Op::SendLast,           Request,  Last,   Some,  H::NONE, UC),
        row(Op::SendLastImm,        Request,  Last,   Some,  H::IMM,  UC),
        row(Op::SendOnly,           Request,  Only,   Any,   H::NONE, UD),
        row(Op::SendOnlyImm,        Request,  Only,   Any,   H::IMM,  UD),
        row(Op::WriteFirst,         Request,  First,  Mtu,   H::RETH, UC),
        row(Op::WriteMiddle,        Request,  Middle, Mtu,   H::NONE, UC),
        row(Op::WriteLast,          Request,  Last,   Some,  H::NONE, UC),
        row(Op::WriteLastImm,       Request,  Last,   Some,  H::IMM,  UC),
        row(Op::WriteOnly,          Request,  Only,   Any,   H::RETH, UC),
        row(Op::WriteOnlyImm,       Request,  Only,   Any,   H::RETH.and(H::IMM), UC),
        row(Op::ReadRequest,        Request,  Only,   Empty, H::RETH, RC),
        row(Op::ReadResponseFirst,  Response, First,  Mtu,   H::AETH, RC),
        row(Op::ReadResponseMiddle, Response, Middle, Mtu,   H::NONE, RC),
        row(Op::ReadResponseLast,   Response, Last,   Some,  H::AETH, RC),
        row(Op::ReadResponseOnly,   Response, Only,   Any,   H::AETH, RC),
        row(Op::Acknowledge,        Response, Only,   Empty, H::AETH, RC),
        row(Op::AtomicAcknowledge,  Response, Only,   Empty, H::AETH.and(H::ATOMIC_ACK), RC),
        row(Op::CompareSwap,        Request,  Only,   Empty, H::ATOMIC, RC),
        row(Op::FetchAdd,           Request,  Only,   Empty, H::ATOMIC, RC),
        row(Op::SendLastInvalidate, Request,  Last,   Some,  H::IETH, RC),
        row(Op::SendOnlyInvalidate, Request,  Only,   Any,   H::IETH, RC),
        row(Op::Flush,              Request,  Only,   Empty, H::FETH.and(H::RETH), RC),
        row(Op::AtomicWrite,        Request,  Only,   Eight, H::RETH, RC),
    ]
};

/// A service's form of an operation: a valid opcode.
///
/// # Invariants
///
/// The service knows the operation of the row, which is one of [`TABLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opcode {
    service: Service,
    row: &'static Row,
    /// Those of the row and of the service, and their bytes.
    headers: Headers,
    headers_len: u8,
}

/// Place in [`TABLE`] by the five bits of an operation; none is 0xff.
static PLACES: [u8; 32] = {
    let mut places = [0xff; 32];
    let mut i = 0;
    while i < TABLE.len() {
        places[TABLE[i].op as usize] = i as u8;
        i += 1;
    }
    places
};

impl Opcode {
    /// A service's form of an operation, if it has one.
    pub(crate) fn new(service: Service, op: Op) -> Option<Self> {
        Self::from_byte(service.base() | op as u8)
    }

    /// From the byte in a packet.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        OPCODES.get(usize::from(byte)).copied().flatten()
    }

    /// What a byte stands for.
    const fn of(byte: u8) -> Option<Self> {
        let Some(service) = Service::from_opcode(byte) else {
            return None;
        };
        let place = PLACES[(byte & 0x1f) as usize] as usize;
        if place >= TABLE.len() {
            return None;
        }
        let row = &TABLE[place];
        let (known, headers) = match service {
            Service::Rc => (true, Headers::NONE),
            Service::Uc => (row.uc, Headers::NONE),
            Service::Ud => (row.ud, Headers::DETH),
            Service::Xrc if matches!(row.direction, Direction::Request) => (true, Headers::XRCETH),
            Service::Xrc => (true, Headers::NONE),
        };
        if !known {
            return None;
        }
        let headers = row.headers.and(headers);
        // INVARIANT: The row is of the table, and the service knows it.
        Some(Self {
            service,
            row,
            headers,
            headers_len: Headers::SUMS[headers.0 as usize],
        })
    }

    /// The byte in a packet.
    pub(crate) const fn to_byte(self) -> u8 {
        self.service.base() | self.op() as u8
    }

    /// The service.
    pub(crate) const fn service(self) -> Service {
        self.service
    }

    /// What the packet looks like.
    pub(crate) const fn row(self) -> &'static Row {
        self.row
    }

    /// The operation.
    pub(crate) const fn op(self) -> Op {
        self.row.op
    }

    /// Whether a requester sends it.
    pub(crate) const fn is_request(self) -> bool {
        matches!(self.row.direction, Direction::Request)
    }

    /// Headers after the base header, with those that the service adds.
    pub(crate) const fn headers(self) -> Headers {
        self.headers
    }

    /// Bytes of [`headers`](Self::headers).
    pub(crate) const fn headers_len(self) -> usize {
        self.headers_len as usize
    }
}

/// All opcodes, by their bytes: asked for each packet, twice.
static OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut byte = 0;
    while byte < opcodes.len() {
        opcodes[byte] = Opcode::of(byte as u8);
        byte += 1;
    }
    opcodes
};

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_opcode))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order_and_complete() {
        for pair in TABLE.windows(2) {
            assert!((pair[0].op as u8) < pair[1].op as u8);
        }
        let known = |service| {
            (0..=255u8)
                .filter_map(Opcode::from_byte)
                .filter(|opcode| opcode.service() == service)
                .count()
        };
        assert_eq!(known(Service::Rc), 25);
        assert_eq!(known(Service::Uc), 12);
        assert_eq!(known(Service::Ud), 2);
        assert_eq!(known(Service::Xrc), 25);
    }

    #[test]
    fn bytes_convert_both_ways() {
        let mut known = 0;
        for byte in 0..=255u8 {
            if let Some(opcode) = Opcode::from_byte(byte) {
                assert_eq!(opcode.to_byte(), byte);
                assert_eq!(Opcode::new(opcode.service(), opcode.op()), Some(opcode));
                known += 1;
            }
        }
        assert_eq!(known, 64);
    }

    #[test]
    fn codes_of_the_specification() {
        let code = |service, op| Opcode::new(service, op).map(Opcode::to_byte);
        assert_eq!(code(Service::Rc, Op::SendOnly), Some(0x04));
        assert_eq!(code(Service::Rc, Op::SendLastInvalidate), Some(0x16));
        assert_eq!(code(Service::Rc, Op::SendOnlyInvalidate), Some(0x17));
        assert_eq!(code(Service::Rc, Op::Flush), Some(0x1c));
        assert_eq!(code(Service::Rc, Op::AtomicWrite), Some(0x1d));
        assert_eq!(code(Service::Uc, Op::SendFirst), Some(0x20));
        assert_eq!(code(Service::Ud, Op::SendOnly), Some(0x64));
        assert_eq!(code(Service::Ud, Op::SendOnlyImm), Some(0x65));
        assert_eq!(code(Service::Xrc, Op::SendOnly), Some(0xa4));
        assert_eq!(code(Service::Ud, Op::SendFirst), None);
        assert_eq!(code(Service::Uc, Op::ReadRequest), None);
        assert_eq!(code(Service::Uc, Op::SendOnlyInvalidate), None);
    }

    #[test]
    fn header_lengths() {
        let len = |byte| Opcode::from_byte(byte).map(|opcode| opcode.headers_len());
        assert_eq!(len(0x00), Some(0)); // SEND first
        assert_eq!(len(0x0b), Some(20)); // WRITE only with immediate: RETH and ImmDt
        assert_eq!(len(0x0e), Some(0)); // READ response middle
        assert_eq!(len(0x12), Some(12)); // atomic acknowledge: AETH and the value
        assert_eq!(len(0x13), Some(28)); // compare and swap
        assert_eq!(len(0x1c), Some(20)); // FLUSH: FETH and RETH
        assert_eq!(len(0x65), Some(12)); // datagram with immediate: DETH and ImmDt
        assert_eq!(len(0xa4), Some(4)); // XRC SEND only: XRCETH
        assert_eq!(len(0xb1), Some(4)); // XRC acknowledge: AETH alone
    }

    #[test]
    fn payload_rules() {
        assert!(Payload::Mtu.allows(1024, 1024) && !Payload::Mtu.allows(1023, 1024));
        assert!(Payload::Some.allows(1, 256) && !Payload::Some.allows(0, 256));
        assert!(Payload::Any.allows(0, 256) && !Payload::Any.allows(257, 256));
        assert!(Payload::Eight.allows(8, 256) && !Payload::Eight.allows(4, 256));
        assert!(Payload::Empty.allows(0, 256) && !Payload::Empty.allows(1, 256));
    }
}
