// SPDX-License-Identifier: GPL-2.0

//! Writing of transport headers: the reverse of [`packet`](super::packet).

use super::ext::{AtomicEth, Deth, Feth, Reth};
use super::opcode::{Opcode, Service};
use super::packet::{
    pad_len, Body, Bth, ReadPart, SendEnd, WriteEnd, ACK_REQ, MAX_HEADERS, MIGRATED, QPN_MASK,
    SOLICITED,
};

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
