// SPDX-License-Identifier: GPL-2.0

//! The headers of management datagrams, as values.
//!
//! IBTA volume 1, 13.4 (common header) and 13.6 (RMPP).
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

/// Bytes of an InfiniBand datagram.
pub const MAD_SIZE: usize = 256;
/// Largest Omni-Path datagram.
pub const OPA_MAD_SIZE: usize = 2048;
/// Base version of InfiniBand datagrams.
pub const BASE_VERSION: u8 = 1;
/// Base version of Omni-Path datagrams.
pub const OPA_BASE_VERSION: u8 = 0x80;
/// Class version of Omni-Path subnet management.
pub const OPA_SM_CLASS_VERSION: u8 = 0x80;

/// Management classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

impl Class {
    /// Subnet management, LID routed.
    pub const SUBN_LID_ROUTED: Class = Class(0x01);
    /// Subnet management, directed route.
    pub const SUBN_DIRECTED_ROUTE: Class = Class(0x81);
    /// Subnet administration.
    pub const SUBN_ADM: Class = Class(0x03);
    /// Baseboard management.
    pub const BM: Class = Class(0x05);
    /// Device management.
    pub const DEVICE_MGMT: Class = Class(0x06);
    /// Communication management.
    pub const CM: Class = Class(0x07);
    /// Device administration.
    pub const DEVICE_ADM: Class = Class(0x10);
    /// Booting.
    pub const BIS: Class = Class(0x12);
    /// Classes without an alias below this can be registered.
    pub const LIMIT: u8 = 80;

    /// A vendor class whose datagrams carry an OUI and may be segmented.
    pub const fn is_vendor(self) -> bool {
        0x30 <= self.0 && self.0 <= 0x4f
    }

    /// Subnet management, which uses QP0.
    pub const fn is_smi(self) -> bool {
        self.0 == Self::SUBN_LID_ROUTED.0 || self.0 == Self::SUBN_DIRECTED_ROUTE.0
    }

    /// Datagrams have an RMPP header.
    pub const fn has_rmpp(self) -> bool {
        matches!(
            self,
            Self::SUBN_ADM | Self::DEVICE_MGMT | Self::DEVICE_ADM | Self::BIS
        ) || self.is_vendor()
    }

    /// Bytes before the data of the class: the headers.
    pub const fn data_offset(self) -> usize {
        match self {
            Self::SUBN_ADM => 56,
            Self::DEVICE_MGMT | Self::DEVICE_ADM | Self::BIS => 64,
            class if class.is_vendor() => 40,
            _ => Header::BYTES,
        }
    }
}

/// Methods.
pub mod method {
    /// Reads an attribute.
    pub const GET: u8 = 0x01;
    /// Writes an attribute.
    pub const SET: u8 = 0x02;
    /// Sends a message of the class.
    pub const SEND: u8 = 0x03;
    /// Stops repeated traps.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// Answers a [`GET`] or [`SET`].
    pub const GET_RESP: u8 = 0x81;
    /// The bit that tells answers.
    pub const RESPONSE_BIT: u8 = 0x80;
    /// Number of methods without the response bit.
    pub const COUNT: usize = 128;
}

/// Attribute of class information.
pub const ATTR_CLASS_PORT_INFO: u16 = 0x0001;
/// Status: neither the method nor the combination with the attribute is known.
pub const STATUS_UNSUPPORTED_METHOD_ATTRIB: u16 = 0x000c;
/// Status bit of directed-route packets: returning.
pub const STATUS_DIRECTION: u16 = 0x8000;

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format of the header.
    pub base_version: u8,
    /// Management class.
    pub class: Class,
    /// Format of the class.
    pub class_version: u8,
    /// Method with the response bit.
    pub method: u8,
    /// Status; with the D bit and no class-specific part for directed routes.
    pub status: u16,
    /// Transaction; the upper half names the agent that chose it.
    pub tid: u64,
    /// Attribute.
    pub attr_id: u16,
    /// Modifier of the attribute.
    pub attr_mod: u32,
}

fn be<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl Header {
    /// Bytes of the header.
    pub const BYTES: usize = 24;

    /// Reads the header of a datagram.
    pub fn parse(mad: &[u8]) -> Option<Self> {
        let [base_version, class, class_version, method] = be(mad, 0)?;
        Some(Self {
            base_version,
            class: Class(class),
            class_version,
            method,
            status: u16::from_be_bytes(be(mad, 4)?),
            tid: u64::from_be_bytes(be(mad, 8)?),
            attr_id: u16::from_be_bytes(be(mad, 16)?),
            attr_mod: u32::from_be_bytes(be(mad, 20)?),
        })
    }

    /// The datagram answers another one.
    pub const fn is_response(&self) -> bool {
        self.method & method::RESPONSE_BIT != 0
            || self.method == method::TRAP_REPRESS
            || (self.class.0 == Class::BM.0 && self.attr_mod & 1 != 0)
    }

    /// The agent that the transaction belongs to.
    pub const fn agent_id(&self) -> u32 {
        (self.tid >> 32) as u32
    }
}

/// OUI of a vendor-class datagram.
pub fn vendor_oui(mad: &[u8]) -> Option<[u8; 3]> {
    be(mad, 37)
}

/// What an RMPP datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmppType {
    /// A segment.
    Data,
    /// Acknowledges segments and opens the window.
    Ack,
    /// Ends a transfer for want of resources.
    Stop,
    /// Ends a transfer.
    Abort,
    /// Something else.
    Other(u8),
}

impl RmppType {
    fn from_wire(value: u8) -> Self {
        match value {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Stop,
            4 => Self::Abort,
            other => Self::Other(other),
        }
    }

    fn to_wire(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Ack => 2,
            Self::Stop => 3,
            Self::Abort => 4,
            Self::Other(other) => other,
        }
    }
}

/// Why a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmppStatus(pub u8);

impl RmppStatus {
    /// No error.
    pub const NORMAL: Self = Self(0);
    /// Resources exhausted; the only one of a STOP.
    pub const RESX: Self = Self(1);
    /// Total time too long.
    pub const T2L: Self = Self(118);
    /// Inconsistent first flag and segment number.
    pub const BAD_SEG: Self = Self(120);
    /// Unknown type.
    pub const BADT: Self = Self(121);
    /// Window smaller than the segment acknowledged.
    pub const W2S: Self = Self(122);
    /// Segment beyond the window.
    pub const S2B: Self = Self(123);
    /// Illegal status.
    pub const BAD_STATUS: Self = Self(124);
    /// Unknown version.
    pub const UNV: Self = Self(125);

    /// May stand in an ABORT.
    pub const fn is_abort(self) -> bool {
        118 <= self.0 && self.0 <= 127
    }
}

/// The RMPP header, after the common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmppHeader {
    /// Version, 1.
    pub version: u8,
    /// Kind of datagram.
    pub kind: RmppType,
    /// Response time (upper 5 bits) and flags.
    pub rtime_flags: u8,
    /// Status.
    pub status: RmppStatus,
    /// Segment sent or acknowledged.
    pub segment: u32,
    /// Payload length of data, new window of acknowledgements.
    pub paylen_newwin: u32,
}

impl RmppHeader {
    /// Version of the protocol.
    pub const VERSION: u8 = 1;
    /// First byte of the header in a datagram.
    pub const OFFSET: usize = Header::BYTES;
    /// Bytes of the datagram up to the end of the header.
    pub const END: usize = 36;
    /// Flag: RMPP is in use.
    pub const ACTIVE: u8 = 1;
    /// Flag: first segment.
    pub const FIRST: u8 = 2;
    /// Flag: last segment.
    pub const LAST: u8 = 4;

    /// Reads the header of a datagram.
    pub fn parse(mad: &[u8]) -> Option<Self> {
        let [version, kind, rtime_flags, status] = be(mad, Self::OFFSET)?;
        Some(Self {
            version,
            kind: RmppType::from_wire(kind),
            rtime_flags,
            status: RmppStatus(status),
            segment: u32::from_be_bytes(be(mad, Self::OFFSET + 4)?),
            paylen_newwin: u32::from_be_bytes(be(mad, Self::OFFSET + 8)?),
        })
    }

    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; 12] {
        let [s0, s1, s2, s3] = self.segment.to_be_bytes();
        let [p0, p1, p2, p3] = self.paylen_newwin.to_be_bytes();
        [
            self.version,
            self.kind.to_wire(),
            self.rtime_flags,
            self.status.0,
            s0,
            s1,
            s2,
            s3,
            p0,
            p1,
            p2,
            p3,
        ]
    }

    /// All of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.rtime_flags & flags == flags
    }

    /// Replaces the flags and keeps the response time.
    pub fn set_flags(&mut self, flags: u8) {
        self.rtime_flags = (self.rtime_flags & 0xf8) | (flags & 0x07);
    }
}
