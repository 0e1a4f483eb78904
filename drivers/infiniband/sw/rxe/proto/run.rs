// SPDX-License-Identifier: GPL-2.0

//! Runs of packets: consecutive packets of one message, described so that the sender can look at
//! all of them at once (what is sent together, one walk of the gather list) or at each by itself.

use crate::wire::aeth::Aeth;
use crate::wire::build::HeaderBuf;
use crate::wire::ext::{AtomicEth, Deth, Feth, Reth};
use crate::wire::opcode::Service;
use crate::wire::packet::{pad_len, Body, Bth, ReadPart, SendEnd, WriteEnd, ICRC_LEN};
use crate::wire::psn::Psn;

/// What a run carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// SEND.
    Send(SendEnd),
    /// RDMA WRITE: address and length of the whole message.
    Write(Reth, WriteEnd),
    /// RDMA READ request.
    Read(Reth),
    /// Compare and swap request.
    CompareSwap(AtomicEth),
    /// Fetch and add request.
    FetchAdd(AtomicEth),
    /// ATOMIC WRITE request; its eight bytes are the payload.
    AtomicWrite(Reth),
    /// FLUSH request.
    Flush(Feth, Reth),
    /// READ response.
    ReadResponse(Aeth),
    /// Acknowledgement.
    Ack(Aeth),
    /// Response to an atomic operation.
    AtomicAck(Aeth, u64),
}

/// What is the same in all packets of a queue pair or message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Common {
    /// The service.
    pub(crate) service: Service,
    /// Partition key.
    pub(crate) pkey: u16,
    /// Queue pair at the destination.
    pub(crate) dest_qp: u32,
    /// Datagrams: queue key and source.
    pub(crate) deth: Option<Deth>,
    /// XRC requests: number of the shared receive queue.
    pub(crate) xrc_srq: Option<u32>,
    /// Path MTU.
    pub(crate) mtu: u32,
}

/// Consecutive packets of one message.
///
/// # Invariants
///
/// There is at least one packet, and all are of the message: `first + count <= total`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    common: Common,
    content: Content,
    /// Bytes of the message's payload.
    message: u32,
    /// Packets of the message.
    total: u32,
    /// Number in the message of the first packet here.
    first: u32,
    /// Packets here.
    count: u32,
    /// Of the first packet here.
    psn: Psn,
    /// Whether the last packet of the message asks for a solicited event.
    solicited: bool,
    /// Which packets ask for an acknowledgement.
    acks: AckRequests,
    /// Whether packets of it may have been sent before.
    again: bool,
}

/// Which packets of a run ask for an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckRequests {
    /// None: unreliable services and responses.
    Never,
    /// The last packet of the message, the last of this run if `here`, and each whose number in
    /// the message is a multiple of `every`.
    EndAndEvery {
        /// Distance.
        every: u32,
        /// Whether the last packet of this run asks, too (the window ends there).
        here: bool,
    },
}

/// One packet of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// The transport headers.
    pub(crate) headers: HeaderBuf,
    /// First byte of its payload in the message.
    pub(crate) offset: u32,
    /// Bytes of payload.
    pub(crate) len: u32,
}

impl Segment {
    /// Bytes of zero after the payload.
    pub(crate) const fn pad(&self) -> usize {
        pad_len(self.len) as usize
    }

    /// Bytes of the packet from the base transport header to the end of the CRC: the payload of
    /// the UDP packet.
    pub(crate) const fn wire_len(&self) -> usize {
        self.headers.len() + self.len as usize + self.pad() + ICRC_LEN
    }
}

/// Packets that a message of `len` bytes takes.
pub(crate) const fn packets_of(len: u32, mtu: u32) -> u32 {
    match len.div_ceil(mtu) {
        0 => 1,
        n => n,
    }
}

impl Run {
    /// Packets `first ..` of a message, at most `count`. `None` if there is no such packet.
    ///
    /// `len` is the length of the message as in the request; whether the packets of this
    /// content have payload follows from the content.
    #[expect(
        clippy::too_many_arguments,
        reason = "a plain record, made in two places"
    )]
    pub(crate) fn new(
        common: Common,
        content: Content,
        len: u32,
        first: u32,
        count: u32,
        psn: Psn,
        solicited: bool,
        acks: AckRequests,
    ) -> Option<Self> {
        let message = match content {
            Content::Send(_) | Content::Write(..) | Content::ReadResponse(_) => len,
            Content::AtomicWrite(_) => 8,
            _ => 0,
        };
        let total = packets_of(message, common.mtu);
        let count = count.min(total.checked_sub(first)?);
        if count == 0 {
            return None;
        }
        // INVARIANT: Both were just checked.
        Some(Self {
            common,
            content,
            message,
            total,
            first,
            count,
            psn,
            solicited,
            acks,
            again: false,
        })
    }

    /// Notes whether packets of the run may have been sent before.
    pub(crate) fn again(self, again: bool) -> Self {
        Self { again, ..self }
    }

    /// Whether packets of the run may have been sent before: what was lost once should go the
    /// simplest way now.
    pub(crate) const fn is_again(&self) -> bool {
        self.again
    }

    /// A response of one packet without payload.
    pub(crate) fn response(common: Common, content: Content, psn: Psn) -> Option<Self> {
        Self::new(common, content, 0, 0, 1, psn, false, AckRequests::Never)
    }

    /// Number of packets, at least 1.
    pub(crate) const fn packets(&self) -> u32 {
        self.count
    }

    /// Sequence number of the first packet.
    pub(crate) const fn psn(&self) -> Psn {
        self.psn
    }

    /// What it carries.
    pub(crate) const fn content(&self) -> &Content {
        &self.content
    }

    /// First byte and number of bytes, in the message, of the payload of packets `from ..
    /// from + n` of the run.
    pub(crate) fn payload(&self, from: u32, n: u32) -> (u32, u32) {
        let mtu = u64::from(self.common.mtu);
        let message = u64::from(self.message);
        let start = (u64::from(self.first) + u64::from(from))
            .saturating_mul(mtu)
            .min(message);
        let end = (start + u64::from(n).saturating_mul(mtu)).min(message);
        // Both are at most `message`, 32 bits.
        (start as u32, (end - start) as u32)
    }

    /// Packet `i` of the run.
    pub(crate) fn segment(&self, i: u32) -> Option<Segment> {
        if i >= self.count {
            return None;
        }
        let (offset, len) = self.payload(i, 1);
        let number = self.first + i;
        let start = number == 0;
        let end = number + 1 == self.total;
        let body = self.body(start, end);
        let bth = Bth {
            solicited: self.solicited && end,
            migrated: false,
            pkey: self.common.pkey,
            dest_qp: self.common.dest_qp,
            ack_req: self.asks_for_ack(i),
            psn: self.psn.add(i),
        };
        let headers = HeaderBuf::new(
            self.common.service,
            &bth,
            self.common.deth.as_ref(),
            self.common.xrc_srq,
            &body,
            len,
        )?;
        Some(Segment {
            headers,
            offset,
            len,
        })
    }

    /// Whether packet `i` of the run asks for an acknowledgement.
    #[inline]
    fn asks_for_ack(&self, i: u32) -> bool {
        let number = self.first + i;
        match self.acks {
            AckRequests::Never => false,
            AckRequests::EndAndEvery { every, here } => {
                number + 1 == self.total
                    || (here && i + 1 == self.count)
                    || (number + 1) % every.max(1) == 0
            }
        }
    }

    /// All packets from packet `from` of the run on.
    pub(crate) fn segments(&self, from: u32) -> Segments<'_> {
        Segments {
            run: self,
            next: from,
            current: None,
            in_middle: false,
        }
    }

    fn body(&self, start: bool, end: bool) -> Body {
        match self.content {
            Content::Send(how) => Body::Send {
                start,
                end: end.then_some(how),
            },
            Content::Write(reth, how) => Body::Write {
                start: start.then_some(reth),
                end: end.then_some(how),
            },
            Content::Read(reth) => Body::Read(reth),
            Content::CompareSwap(eth) => Body::CompareSwap(eth),
            Content::FetchAdd(eth) => Body::FetchAdd(eth),
            Content::AtomicWrite(reth) => Body::AtomicWrite(reth, None),
            Content::Flush(how, reth) => Body::Flush(Some(how), reth),
            Content::ReadResponse(aeth) => Body::ReadResponse(match (start, end) {
                (true, true) => ReadPart::Only(aeth),
                (true, false) => ReadPart::First(aeth),
                (false, false) => ReadPart::Middle,
                (false, true) => ReadPart::Last(aeth),
            }),
            Content::Ack(aeth) => Body::Ack(aeth),
            Content::AtomicAck(aeth, value) => Body::AtomicAck(aeth, value),
        }
    }
}

/// The packets of a run, one after another.
pub(crate) struct Segments<'a> {
    run: &'a Run,
    next: u32,
    current: Option<Segment>,
    /// The current packet is neither the first nor the last one of its message.
    in_middle: bool,
}

impl Segments<'_> {
    /// The next packet. In the middle of a message it is the last one with some fields changed.
    pub(crate) fn advance(&mut self) -> Option<&Segment> {
        let i = self.next;
        if i >= self.run.count {
            return None;
        }
        self.next += 1;
        let number = self.run.first + i;
        let in_middle = number != 0 && number + 1 != self.run.total;
        match &mut self.current {
            Some(segment) if in_middle && self.in_middle => {
                let ack_req = self.run.asks_for_ack(i);
                segment.headers.go_on(self.run.psn.add(i), ack_req);
                // Before the last packet all are full.
                segment.offset = number.saturating_mul(self.run.common.mtu);
            }
            current => {
                self.in_middle = in_middle;
                *current = self.run.segment(i);
            }
        }
        self.current.as_ref()
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        self.advance().copied()
    }
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_run))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    const COMMON: Common = Common {
        service: Service::Rc,
        pkey: 0xffff,
        dest_qp: 18,
        deth: None,
        xrc_srq: None,
        mtu: 256,
    };
    const ACKS: AckRequests = AckRequests::EndAndEvery {
        every: 64,
        here: false,
    };

    fn run(content: Content, len: u32, first: u32, count: u32) -> Option<Run> {
        Run::new(COMMON, content, len, first, count, Psn::new(0), true, ACKS)
    }

    #[test]
    fn number_of_packets() {
        for (len, packets) in [(0, 1), (1, 1), (256, 1), (257, 2), (1 << 31, 1 << 23)] {
            assert_eq!(packets_of(len, 256), packets);
            let whole = run(Content::Send(SendEnd::Plain), len, 0, u32::MAX);
            assert_eq!(whole.map(|run| run.packets()), Some(packets));
        }
        // There is nothing after the last packet, and a run of no packets is none.
        assert_eq!(run(Content::Send(SendEnd::Plain), 256, 1, 1), None);
        assert_eq!(run(Content::Send(SendEnd::Plain), 256, 2, 1), None);
        assert_eq!(run(Content::Send(SendEnd::Plain), 256, 0, 0), None);
    }

    #[test]
    fn pieces_cover_the_message() {
        for len in [0, 1, 255, 256, 257, 1000, 70 * 256] {
            for count in [1, 2, 63, 64, 1000] {
                let (mut number, mut offset) = (0, 0);
                while let Some(run) = run(Content::Send(SendEnd::Plain), len, number, count) {
                    for segment in run.segments(0) {
                        assert_eq!(segment.offset, offset);
                        offset += segment.len;
                    }
                    number += run.packets();
                }
                assert_eq!((offset, number), (len, packets_of(len, 256)));
            }
        }
    }

    #[test]
    fn packets_in_a_row_are_those_by_themselves() {
        let aeth = Aeth::from_word(0x1f00_0001);
        let reth = Reth {
            va: 4096,
            key: crate::wire::ext::Key(7),
            len: 1000,
        };
        for content in [
            Content::Send(SendEnd::Plain),
            Content::Write(reth, WriteEnd::Plain),
            Content::ReadResponse(aeth),
        ] {
            for (first, from) in [(0, 0), (0, 1), (1, 0), (2, 3), (3, 66)] {
                let run = run(content, 100 * 256 - 1, first, 70);
                let same = run.as_ref().is_some_and(|run| {
                    let mut segments = run.segments(from);
                    let same = (from..run.packets()).all(|i| segments.next() == run.segment(i));
                    same && from < run.packets() && segments.next().is_none()
                });
                assert!(same);
            }
        }
    }

    #[test]
    fn who_asks_for_an_acknowledgement() {
        let asks = |run: Option<Run>| {
            let mut asks = [0; 4];
            let mut place = 0;
            for (number, segment) in run.iter().flat_map(|run| run.segments(0)).enumerate() {
                if segment
                    .headers
                    .as_bytes()
                    .get(8)
                    .is_some_and(|byte| byte & 0x80 != 0)
                {
                    if let Some(slot) = asks.get_mut(place) {
                        *slot = number;
                    }
                    place += 1;
                }
            }
            (place, asks)
        };
        let content = Content::Send(SendEnd::Plain);
        assert_eq!(
            asks(run(content, 150 * 256, 0, 200)),
            (3, [63, 127, 149, 0])
        );
        assert_eq!(asks(run(content, 150 * 256, 0, 100)), (1, [63, 0, 0, 0]));
        let here = AckRequests::EndAndEvery {
            every: 64,
            here: true,
        };
        let ends = Run::new(COMMON, content, 150 * 256, 0, 100, Psn::new(0), false, here);
        assert_eq!(asks(ends), (2, [63, 99, 0, 0]));
        let never = AckRequests::Never;
        let none = Run::new(COMMON, content, 1, 0, 1, Psn::new(0), false, never);
        assert_eq!(asks(none).0, 0);
    }
}
