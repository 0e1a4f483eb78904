// SPDX-License-Identifier: GPL-2.0

//! Writing of transport headers: the reverse of [`packet`](super::packet).

use super::ext::{AtomicEth, Deth, Feth, Reth};
use super::opcode::{Opcode, Service};
use super::packet::{
    pad_len, Body, Bth, ReadPart, SendEnd, WriteEnd, ACK_REQ, MAX_HEADERS, MIGRATED, QPN_MASK,
    SOLICITED,
};
use super::psn::Psn;

/// The headers of a packet, from the base transport header on.
///
/// # Invariants
///
/// `len` is at most `MAX_HEADERS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeaderBuf {
    bytes: [u8; MAX_HEADERS],
    len: usize,
}

impl HeaderBuf {
    /// The headers of a packet with `payload_len` bytes of payload. `deth` is for datagrams,
    /// `xrc_srq` for XRC requests; others do not look at them.
    ///
    /// `None` if the service has no such operation.
    pub(crate) fn new(
        service: Service,
        bth: &Bth,
        deth: Option<&Deth>,
        xrc_srq: Option<u32>,
        body: &Body,
        payload_len: u32,
    ) -> Option<Self> {
        let opcode = Opcode::new(service, body.op())?;
        // INVARIANT: `put` keeps `len` within the buffer.
        let mut buf = Self {
            bytes: [0; MAX_HEADERS],
            len: 0,
        };
        buf.put_bth(opcode, bth, payload_len);
        if service == Service::Ud {
            let deth = deth?;
            buf.put(&deth.qkey.to_be_bytes());
            buf.put(&(deth.src_qp & QPN_MASK).to_be_bytes());
        }
        if service == Service::Xrc && opcode.is_request() {
            buf.put(&(xrc_srq? & QPN_MASK).to_be_bytes());
        }
        buf.put_body(body);
        Some(buf)
    }

    /// Makes them those of another packet of the same message, if only these fields differ.
    pub(crate) fn go_on(&mut self, psn: Psn, ack_req: bool) {
        let ack = if ack_req { ACK_REQ } else { 0 };
        let to = &mut self.bytes;
        [to[8], to[9], to[10], to[11]] = (ack | psn.get()).to_be_bytes();
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            // INVARIANT: The range was inside.
            self.len = end;
        }
    }

    fn put_bth(&mut self, opcode: Opcode, bth: &Bth, payload_len: u32) {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(bth.solicited, SOLICITED)
            | flag(bth.migrated, MIGRATED)
            | pad_len(payload_len) << 4;
        let ack = if bth.ack_req { ACK_REQ } else { 0 };
        self.put(&[opcode.to_byte(), flags]);
        self.put(&bth.pkey.to_be_bytes());
        self.put(&(bth.dest_qp & QPN_MASK).to_be_bytes());
        self.put(&(ack | bth.psn.get()).to_be_bytes());
    }

    fn put_reth(&mut self, reth: &Reth) {
        self.put(&reth.va.to_be_bytes());
        self.put(&reth.key.0.to_be_bytes());
        self.put(&reth.len.to_be_bytes());
    }

    fn put_atomic(&mut self, atomic: &AtomicEth) {
        self.put(&atomic.va.to_be_bytes());
        self.put(&atomic.key.0.to_be_bytes());
        self.put(&atomic.swap_add.to_be_bytes());
        self.put(&atomic.compare.to_be_bytes());
    }

    fn put_body(&mut self, body: &Body) {
        match body {
            Body::Send { end, .. } => match end {
                None | Some(SendEnd::Plain) => (),
                Some(SendEnd::Imm(imm)) => self.put(&imm.0),
                Some(SendEnd::Invalidate(key)) => self.put(&key.0.to_be_bytes()),
            },
            Body::Write { start, end } => {
                if let Some(reth) = start {
                    self.put_reth(reth);
                }
                if let Some(WriteEnd::Imm(imm)) = end {
                    self.put(&imm.0);
                }
            }
            Body::Read(reth) | Body::AtomicWrite(reth, _) => self.put_reth(reth),
            Body::CompareSwap(atomic) | Body::FetchAdd(atomic) => self.put_atomic(atomic),
            Body::Flush(how, reth) => {
                self.put(&how.map_or(0, Feth::to_word).to_be_bytes());
                self.put_reth(reth);
            }
            Body::ReadResponse(part) => match part {
                ReadPart::Middle => (),
                ReadPart::First(aeth) | ReadPart::Last(aeth) | ReadPart::Only(aeth) => {
                    self.put(&aeth.to_word().to_be_bytes());
                }
            },
            Body::Ack(aeth) => self.put(&aeth.to_word().to_be_bytes()),
            Body::AtomicAck(aeth, value) => {
                self.put(&aeth.to_word().to_be_bytes());
                self.put(&value.to_be_bytes());
            }
        }
    }
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_headers))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::super::aeth::{Aeth, NakCode, Syndrome};
    use super::super::ext::{Imm, Key};
    use super::super::opcode::Payload;
    use super::super::packet::{Malformed, Packet, BTH_LEN, ICRC_LEN};
    use super::super::psn::{Msn, Psn};
    use super::*;

    const BTH: Bth = Bth {
        solicited: true,
        migrated: false,
        pkey: 0xffff,
        dest_qp: 0x0001_2345,
        ack_req: true,
        psn: Psn::new(0xff_fffe),
    };
    const RETH: Reth = Reth {
        va: 0x0102_0304_0506_0708,
        key: Key(0x1122_3344),
        len: 0x8000_0000,
    };
    const ATOMIC: AtomicEth = AtomicEth {
        va: 0xffff_ffff_ffff_fff8,
        key: Key(1),
        swap_add: 2,
        compare: 3,
    };
    const AETH: Aeth = Aeth {
        syndrome: Syndrome::Nak(NakCode::RemoteAccess),
        msn: Msn::new(0x0a_0b0c),
    };
    const DETH: Deth = Deth {
        qkey: 0x8001_0000,
        src_qp: 0x00ff_ffff,
    };
    const IMM: Imm = Imm([0xde, 0xad, 0xbe, 0xef]);
    const FETH: Feth = Feth {
        global: true,
        persistent: true,
        whole_region: true,
    };

    fn bodies() -> [Body; 25] {
        let send = |start, end| Body::Send { start, end };
        let write = |start, end| Body::Write { start, end };
        [
            send(true, None),
            send(false, None),
            send(false, Some(SendEnd::Plain)),
            send(false, Some(SendEnd::Imm(IMM))),
            send(false, Some(SendEnd::Invalidate(Key(7)))),
            send(true, Some(SendEnd::Plain)),
            send(true, Some(SendEnd::Imm(IMM))),
            send(true, Some(SendEnd::Invalidate(Key(7)))),
            write(Some(RETH), None),
            write(None, None),
            write(None, Some(WriteEnd::Plain)),
            write(None, Some(WriteEnd::Imm(IMM))),
            write(Some(RETH), Some(WriteEnd::Plain)),
            write(Some(RETH), Some(WriteEnd::Imm(IMM))),
            Body::Read(RETH),
            Body::CompareSwap(ATOMIC),
            Body::FetchAdd(ATOMIC),
            Body::AtomicWrite(RETH, Some([1, 2, 3, 4, 5, 6, 7, 8])),
            Body::Flush(Some(FETH), RETH),
            Body::ReadResponse(ReadPart::First(AETH)),
            Body::ReadResponse(ReadPart::Middle),
            Body::ReadResponse(ReadPart::Last(AETH)),
            Body::ReadResponse(ReadPart::Only(AETH)),
            Body::Ack(AETH),
            Body::AtomicAck(AETH, 0xfedc_ba98_7654_3210),
        ]
    }

    /// Length and bytes of a packet with a payload of 1, 2, 3 ...
    fn packet(service: Service, body: &Body, payload_len: u32) -> Option<([u8; 80], usize)> {
        let headers = HeaderBuf::new(service, &BTH, Some(&DETH), Some(0xabc), body, payload_len)?;
        let mut bytes = [0; 80];
        let (head, rest) = bytes.split_at_mut(headers.len());
        head.copy_from_slice(headers.as_bytes());
        for (value, byte) in (1..).zip(rest.iter_mut().take(payload_len as usize)) {
            *byte = value;
        }
        let padded = payload_len as usize + usize::from(pad_len(payload_len));
        Some((bytes, headers.len() + padded + ICRC_LEN))
    }

    #[test]
    fn every_operation_of_every_service_converts_both_ways() {
        let mut built = 0;
        for service in Service::ALL {
            for body in bodies() {
                let opcode = Opcode::new(service, body.op());
                let len = match opcode.map(|opcode| opcode.row().payload) {
                    Some(Payload::Empty) => 0,
                    Some(Payload::Eight) => 8,
                    _ => 5,
                };
                let made = packet(service, &body, len);
                assert_eq!(made.is_some(), opcode.is_some());
                let Some((bytes, total)) = made else {
                    continue;
                };
                built += 1;
                let parsed = Packet::parse(&bytes[..total]);
                let parsed = parsed.ok();
                assert_eq!(parsed.map(|packet| packet.body), Some(body));
                assert_eq!(parsed.map(|packet| packet.bth), Some(BTH));
                assert_eq!(parsed.map(|packet| packet.payload_len), Some(len));
                assert_eq!(parsed.map(|packet| packet.opcode), opcode);
                let deth = parsed.and_then(|packet| packet.deth);
                assert_eq!(deth, (service == Service::Ud).then_some(DETH));
                // No shorter packet is one.
                for short in 0..total {
                    let shorter = Packet::parse(&bytes[..short]);
                    let payload = shorter.ok().map(|packet| packet.payload_len);
                    assert!(payload.is_none_or(|payload| payload < len));
                }
            }
        }
        assert_eq!(built, 64);
    }

    #[test]
    fn bytes_of_a_write_with_immediate_data() {
        let body = Body::Write {
            start: Some(RETH),
            end: Some(WriteEnd::Imm(IMM)),
        };
        let made = packet(Service::Rc, &body, 2);
        let (bytes, total) = made.unwrap_or(([0; 80], 0));
        let expected = [
            0x0b, 0xa0, 0xff, 0xff, 0x00, 0x01, 0x23, 0x45, 0x80, 0xff, 0xff, 0xfe, // BTH
            1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0x80, 0, 0, 0, // RETH
            0xde, 0xad, 0xbe, 0xef, // ImmDt
            1, 2, 0, 0, // payload and padding
        ];
        assert_eq!(bytes[..total - ICRC_LEN], expected);
    }

    #[test]
    fn packets_that_are_none() {
        let body = Body::Send {
            start: true,
            end: Some(SendEnd::Plain),
        };
        let (bytes, total) = packet(Service::Rc, &body, 4).unwrap_or(([0; 80], 0));
        let changed = |place: usize, value| {
            let mut bytes = bytes;
            bytes[place] = value;
            Packet::parse(&bytes[..total]).err()
        };
        assert_eq!(changed(0, 0x04), None);
        assert_eq!(changed(0, 0x1f), Some(Malformed::Opcode(0x1f)));
        assert_eq!(changed(0, 0x44), Some(Malformed::Opcode(0x44)));
        assert_eq!(changed(1, 0x01), Some(Malformed::Version(1)));
        assert_eq!(changed(1, 0x30), None);
        // Headers that are longer than the packet; payload where there must be none.
        assert_eq!(changed(0, 0x0a), Some(Malformed::Short));
        assert_eq!(changed(0, 0x11), None);
        let (bytes, total) = packet(Service::Rc, &body, 8).unwrap_or(([0; 80], 0));
        let mut ack = bytes;
        ack[0] = 0x11;
        assert_eq!(Packet::parse(&ack[..total]).err(), Some(Malformed::Payload));
        assert_eq!(
            Packet::parse(&bytes[..total - 1]).err(),
            Some(Malformed::Payload)
        );
        assert_eq!(
            Packet::parse(&bytes[..BTH_LEN]).err(),
            Some(Malformed::Short)
        );
        assert_eq!(Packet::parse(&[]).err(), Some(Malformed::Short));
        assert_eq!(
            Packet::parse_head(&bytes, 70_000).err(),
            Some(Malformed::Long)
        );
        // Padding alone does not fit into what is left.
        let mut runt = [0; BTH_LEN + ICRC_LEN];
        runt[0] = 0x04;
        runt[1] = 0x30;
        assert_eq!(Packet::parse(&runt).err(), Some(Malformed::Short));
    }
}
