// SPDX-License-Identifier: GPL-2.0

//! Packets from the base transport header on: parsing and building. All arithmetic on the length
//! of a packet is here.

use super::aeth::Aeth;
use super::ext::{AtomicEth, Deth, Feth, Imm, Key, Reth};
use super::opcode::{Headers, Op, Opcode, Payload};
use super::psn::Psn;

/// Bytes of the base transport header.
pub(crate) const BTH_LEN: usize = 12;
/// Bytes of the invariant CRC at the end.
pub(crate) const ICRC_LEN: usize = 4;
/// Bytes of all headers of the longest packet (XRC compare and swap).
pub(crate) const MAX_HEADERS: usize = BTH_LEN + 4 + 28;

/// Fields of the base transport header that do not follow from the rest of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bth {
    /// The sender asks for a solicited event.
    pub(crate) solicited: bool,
    /// Path migration state.
    pub(crate) migrated: bool,
    /// Partition key.
    pub(crate) pkey: u16,
    /// Destination queue pair, 24 bits.
    pub(crate) dest_qp: u32,
    /// The sender asks for an acknowledgement.
    pub(crate) ack_req: bool,
    /// Sequence number.
    pub(crate) psn: Psn,
}

/// How the last packet of a SEND ends the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendEnd {
    /// With data alone.
    Plain,
    /// With immediate data.
    Imm(Imm),
    /// With a key to invalidate.
    Invalidate(Key),
}

/// How the last packet of an RDMA WRITE ends the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteEnd {
    /// With data alone.
    Plain,
    /// With immediate data.
    Imm(Imm),
}

/// Where a packet of a READ response is, with the header that the outer ones have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadPart {
    First(Aeth),
    Middle,
    Last(Aeth),
    Only(Aeth),
}

impl ReadPart {
    /// Whether it ends the response.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Last(_) | Self::Only(_))
    }
}

/// What a packet asks for or answers: operation and extended headers in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// A part of a SEND.
    Send {
        /// The first packet.
        start: bool,
        /// The last packet.
        end: Option<SendEnd>,
    },
    /// A part of an RDMA WRITE.
    Write {
        /// The first packet.
        start: Option<Reth>,
        /// The last packet.
        end: Option<WriteEnd>,
    },
    /// RDMA READ.
    Read(Reth),
    /// Compare and swap.
    CompareSwap(AtomicEth),
    /// Fetch and add.
    FetchAdd(AtomicEth),
    /// ATOMIC WRITE with its value in the order of memory, which is the packet's payload.
    /// `None` if the payload has not eight bytes.
    AtomicWrite(Reth, Option<[u8; 8]>),
    /// FLUSH. The kind is `None` if the packet has one that is not defined.
    Flush(Option<Feth>, Reth),
    /// A part of the response to a READ; without payload also that to FLUSH and ATOMIC WRITE.
    ReadResponse(ReadPart),
    /// Acknowledgement.
    Ack(Aeth),
    /// Response to an atomic operation, with the value found.
    AtomicAck(Aeth, u64),
}

impl Body {
    /// The operation.
    pub(crate) const fn op(&self) -> Op {
        match *self {
            Self::Send { start, end } => match (start, end) {
                (true, None) => Op::SendFirst,
                (false, None) => Op::SendMiddle,
                (false, Some(SendEnd::Plain)) => Op::SendLast,
                (false, Some(SendEnd::Imm(_))) => Op::SendLastImm,
                (false, Some(SendEnd::Invalidate(_))) => Op::SendLastInvalidate,
                (true, Some(SendEnd::Plain)) => Op::SendOnly,
                (true, Some(SendEnd::Imm(_))) => Op::SendOnlyImm,
                (true, Some(SendEnd::Invalidate(_))) => Op::SendOnlyInvalidate,
            },
            Self::Write { start, end } => match (start, end) {
                (Some(_), None) => Op::WriteFirst,
                (None, None) => Op::WriteMiddle,
                (None, Some(WriteEnd::Plain)) => Op::WriteLast,
                (None, Some(WriteEnd::Imm(_))) => Op::WriteLastImm,
                (Some(_), Some(WriteEnd::Plain)) => Op::WriteOnly,
                (Some(_), Some(WriteEnd::Imm(_))) => Op::WriteOnlyImm,
            },
            Self::Read(_) => Op::ReadRequest,
            Self::CompareSwap(_) => Op::CompareSwap,
            Self::FetchAdd(_) => Op::FetchAdd,
            Self::AtomicWrite(..) => Op::AtomicWrite,
            Self::Flush(..) => Op::Flush,
            Self::ReadResponse(ReadPart::First(_)) => Op::ReadResponseFirst,
            Self::ReadResponse(ReadPart::Middle) => Op::ReadResponseMiddle,
            Self::ReadResponse(ReadPart::Last(_)) => Op::ReadResponseLast,
            Self::ReadResponse(ReadPart::Only(_)) => Op::ReadResponseOnly,
            Self::Ack(_) => Op::Acknowledge,
            Self::AtomicAck(..) => Op::AtomicAcknowledge,
        }
    }
}

/// A packet that keeps to the format: every header that its opcode calls for is there, and
/// headers, payload, padding and CRC fill it exactly.
///
/// What depends on the queue pair (path MTU, order of opcodes) is not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    /// The opcode.
    pub(crate) opcode: Opcode,
    /// Other fields of the base header.
    pub(crate) bth: Bth,
    /// Datagrams: queue key and source.
    pub(crate) deth: Option<Deth>,
    /// XRC requests: number of the shared receive queue, 24 bits.
    pub(crate) xrc_srq: Option<u32>,
    /// What the packet is about.
    pub(crate) body: Body,
    /// Bytes of payload, without padding.
    pub(crate) payload_len: u32,
    /// Bytes of the headers: where the payload starts.
    pub(crate) headers_len: u8,
}

/// Why a packet is not one. All are dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// Too short for its headers, padding and CRC.
    Short,
    /// Too long for UDP.
    Long,
    /// An opcode that does not exist here.
    Opcode(u8),
    /// Another version of the transport header.
    Version(u8),
    /// Payload where there must be none, or its length plus padding is not a multiple of four.
    Payload,
}

/// Reads big-endian values from the start of a slice.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    fn key(&mut self) -> Result<Key, Malformed> {
        self.word().map(Key)
    }

    fn imm(&mut self) -> Result<Imm, Malformed> {
        self.take().map(Imm)
    }

    fn aeth(&mut self) -> Result<Aeth, Malformed> {
        self.word().map(Aeth::from_word)
    }

    fn reth(&mut self) -> Result<Reth, Malformed> {
        Ok(Reth {
            va: self.long()?,
            key: self.key()?,
            len: self.word()?,
        })
    }

    fn atomic(&mut self) -> Result<AtomicEth, Malformed> {
        Ok(AtomicEth {
            va: self.long()?,
            key: self.key()?,
            swap_add: self.long()?,
            compare: self.long()?,
        })
    }

    fn deth(&mut self) -> Result<Deth, Malformed> {
        Ok(Deth {
            qkey: self.word()?,
            src_qp: self.word()? & QPN_MASK,
        })
    }
}

pub(super) const QPN_MASK: u32 = 0x00ff_ffff;
pub(super) const SOLICITED: u8 = 1 << 7;
pub(super) const MIGRATED: u8 = 1 << 6;
pub(super) const ACK_REQ: u32 = 1 << 31;

/// Bytes that pad `len` to a multiple of four.
pub(crate) const fn pad_len(len: u32) -> u8 {
    (len.wrapping_neg() & 3) as u8
}

/// What decides whom a packet is for. Its length fits its opcode, nothing more is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    /// The opcode.
    pub(crate) opcode: Opcode,
    /// Partition key.
    pub(crate) pkey: u16,
    /// Destination queue pair, 24 bits.
    pub(crate) dest_qp: u32,
    /// Datagrams: queue key.
    pub(crate) qkey: Option<u32>,
    flags: u8,
    payload_len: u16,
    headers_len: u8,
}

impl Label {
    /// Reads the first headers of a packet of `total` bytes.
    #[inline]
    fn read(at: &mut Cursor<'_>, total: usize) -> Result<Self, Malformed> {
        if total > usize::from(u16::MAX) {
            return Err(Malformed::Long);
        }
        let [opcode, flags, p, k, _, q0, q1, q2] = at.take()?;
        let opcode = Opcode::from_byte(opcode).ok_or(Malformed::Opcode(opcode))?;
        if flags & 0xf != 0 {
            return Err(Malformed::Version(flags & 0xf));
        }
        let pad = usize::from(flags >> 4 & 3);
        let headers_len = BTH_LEN + opcode.headers_len();
        let payload_len = total
            .checked_sub(headers_len + pad + ICRC_LEN)
            .ok_or(Malformed::Short)?;
        if (payload_len + pad) % 4 != 0 {
            return Err(Malformed::Payload);
        }
        if opcode.row().payload == Payload::Empty && payload_len + pad != 0 {
            return Err(Malformed::Payload);
        }
        Ok(Self {
            opcode,
            pkey: u16::from_be_bytes([p, k]),
            dest_qp: u32::from_be_bytes([0, q0, q1, q2]),
            qkey: None,
            flags,
            payload_len: u16::try_from(payload_len).map_err(|_| Malformed::Long)?,
            headers_len: u8::try_from(headers_len).map_err(|_| Malformed::Long)?,
        })
    }

    /// Of a whole packet: from the base transport header to the CRC.
    pub(crate) fn of(packet: &[u8]) -> Result<Self, Malformed> {
        let mut at = Cursor(packet);
        let mut label = Self::read(&mut at, packet.len())?;
        let _psn = at.word()?;
        if label.opcode.headers().has(Headers::DETH) {
            label.qkey = Some(at.deth()?.qkey);
        }
        Ok(label)
    }
}

impl Packet {
    /// Parses a whole packet: from the base transport header to the CRC.
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        Self::parse_head(packet, packet.len())
    }

    /// Parses a packet of `total` bytes of which only the start is at hand, at least
    /// [`MAX_HEADERS`] bytes or all.
    pub(crate) fn parse_head(head: &[u8], total: usize) -> Result<Self, Malformed> {
        let mut at = Cursor(head);
        let label = Label::read(&mut at, total)?;
        let Label { opcode, flags, .. } = label;
        let payload_len = u32::from(label.payload_len);
        let psn = at.word()?;

        let headers = opcode.headers();
        let deth = if headers.has(Headers::DETH) {
            Some(at.deth()?)
        } else {
            None
        };
        let xrc_srq = if headers.has(Headers::XRCETH) {
            Some(at.word()? & QPN_MASK)
        } else {
            None
        };
        let mut body = Self::body(opcode, &mut at)?;
        if let Body::AtomicWrite(_, value) = &mut body {
            // The responder answers other lengths, so the packet is not malformed.
            if payload_len == 8 {
                *value = Some(at.take()?);
            }
        }
        Ok(Self {
            opcode,
            bth: Bth {
                solicited: flags & SOLICITED != 0,
                migrated: flags & MIGRATED != 0,
                pkey: label.pkey,
                dest_qp: label.dest_qp,
                ack_req: psn & ACK_REQ != 0,
                psn: Psn::new(psn),
            },
            deth,
            xrc_srq,
            body,
            payload_len,
            headers_len: label.headers_len,
        })
    }

    #[inline]
    fn body(opcode: Opcode, at: &mut Cursor<'_>) -> Result<Body, Malformed> {
        let place = opcode.row().place;
        let start = place.starts();
        Ok(match opcode.op() {
            Op::SendFirst | Op::SendMiddle => Body::Send { start, end: None },
            Op::SendLast | Op::SendOnly => Body::Send {
                start,
                end: Some(SendEnd::Plain),
            },
            Op::SendLastImm | Op::SendOnlyImm => Body::Send {
                start,
                end: Some(SendEnd::Imm(at.imm()?)),
            },
            Op::SendLastInvalidate | Op::SendOnlyInvalidate => Body::Send {
                start,
                end: Some(SendEnd::Invalidate(at.key()?)),
            },
            Op::WriteFirst => Body::Write {
                start: Some(at.reth()?),
                end: None,
            },
            Op::WriteMiddle => Body::Write {
                start: None,
                end: None,
            },
            Op::WriteLast => Body::Write {
                start: None,
                end: Some(WriteEnd::Plain),
            },
            Op::WriteLastImm => Body::Write {
                start: None,
                end: Some(WriteEnd::Imm(at.imm()?)),
            },
            Op::WriteOnly => Body::Write {
                start: Some(at.reth()?),
                end: Some(WriteEnd::Plain),
            },
            Op::WriteOnlyImm => Body::Write {
                start: Some(at.reth()?),
                end: Some(WriteEnd::Imm(at.imm()?)),
            },
            Op::ReadRequest => Body::Read(at.reth()?),
            Op::CompareSwap => Body::CompareSwap(at.atomic()?),
            Op::FetchAdd => Body::FetchAdd(at.atomic()?),
            Op::AtomicWrite => Body::AtomicWrite(at.reth()?, None),
            Op::Flush => Body::Flush(Feth::from_word(at.word()?), at.reth()?),
            Op::ReadResponseFirst => Body::ReadResponse(ReadPart::First(at.aeth()?)),
            Op::ReadResponseMiddle => Body::ReadResponse(ReadPart::Middle),
            Op::ReadResponseLast => Body::ReadResponse(ReadPart::Last(at.aeth()?)),
            Op::ReadResponseOnly => Body::ReadResponse(ReadPart::Only(at.aeth()?)),
            Op::Acknowledge => Body::Ack(at.aeth()?),
            Op::AtomicAcknowledge => Body::AtomicAck(at.aeth()?, at.long()?),
        })
    }
}
