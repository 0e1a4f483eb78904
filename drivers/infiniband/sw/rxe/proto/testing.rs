// SPDX-License-Identifier: GPL-2.0

//! An environment for tests of the state machines that notes what they do. Needs only `core`, so
//! that the tests run in KUnit, too.

use super::attrs::{Allowed, Mtu, RecvAttrs, Retries, SendAttrs};
use super::env::{
    Access, AccessError, AtomicOp, Counter, CqOverflow, Nanos, QpEvent, RecvEnv, SendEnv, TxError,
};
use super::run::Run;
use super::wr::{LocalOp, RecvWc, RecvWqe, RemoteAddr, SendOp, SendWc, SendWqe, Status, WcOp};
use crate::wire::aeth::{Aeth, RnrTimer, Syndrome};
use crate::wire::ext::{Feth, Key};
use crate::wire::opcode::{Op, Opcode, Service};
use crate::wire::packet::{Body, Bth, Packet, ReadPart, SendEnd};
use crate::wire::psn::{Msn, Psn};

/// A queue of fixed size; what does not fit fails the test through what is missing.
pub(crate) struct Fifo<T, const N: usize>([Option<T>; N]);

impl<T, const N: usize> Fifo<T, N> {
    fn new() -> Self {
        Self([const { None }; N])
    }

    pub(crate) fn push(&mut self, value: T) {
        if let Some(slot) = self.0.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(value);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.0.first_mut()?.take();
        self.0.rotate_left(1);
        first
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    pub(crate) op: Op,
    pub(crate) psn: u32,
    pub(crate) ack_req: bool,
    pub(crate) solicited: bool,
    /// Offset in the message and bytes of payload.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) body: Body,
    /// Whether the run said that it may have been sent before.
    pub(crate) again: bool,
    pub(crate) xrc_srq: Option<u32>,
}

pub(crate) const MTU: u32 = 256;
pub(crate) const KEY: Key = Key(0x1234);
/// What the memory of the environment has at the place of an atomic operation at first.
pub(crate) const WORD: u64 = 40;

pub(crate) struct TestEnv {
    pub(crate) now: Nanos,
    pub(crate) posted: Fifo<SendWqe<u32>, 8>,
    pub(crate) recvs: Fifo<RecvWqe<u32>, 8>,
    pub(crate) sent: Fifo<Sent, 16>,
    pub(crate) ended: Fifo<(u32, Option<SendWc>), 8>,
    pub(crate) received: Fifo<RecvWc, 8>,
    pub(crate) events: Fifo<QpEvent, 4>,
    pub(crate) failures: u32,
    /// Packets that the network takes before it is full.
    pub(crate) room: u32,
    /// Packets that were sent, also those that did not fit into `sent`.
    pub(crate) packets: u32,
    /// What accesses of the peer end with.
    pub(crate) denied: Option<AccessError>,
    /// The access asked for last.
    pub(crate) opened: Option<Access>,
    /// What accesses to local memory end with.
    pub(crate) fault: Option<Status>,
    /// End and number of bytes of the last write to memory, and how many there were.
    pub(crate) written: (u32, u32),
    pub(crate) writes: u32,
    pub(crate) word: u64,
    pub(crate) executed: u32,
    pub(crate) invalidated: Option<Key>,
    pub(crate) cq_full: bool,
    /// The only shared receive queue that XRC requests find, and the one named last.
    pub(crate) srq: u32,
    pub(crate) named: Option<u32>,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self {
            now: 0,
            posted: Fifo::new(),
            recvs: Fifo::new(),
            sent: Fifo::new(),
            ended: Fifo::new(),
            received: Fifo::new(),
            events: Fifo::new(),
            failures: 0,
            room: u32::MAX,
            packets: 0,
            denied: None,
            opened: None,
            fault: None,
            written: (0, 0),
            writes: 0,
            word: WORD,
            executed: 0,
            invalidated: None,
            cq_full: false,
            srq: 0,
            named: None,
        }
    }

    /// Posts a request whose number is `id`.
    pub(crate) fn post(&mut self, id: u32, op: SendOp, len: u32) {
        self.push(id, op, len, None);
    }

    /// Posts an XRC request for the queue `srq`.
    pub(crate) fn post_to(&mut self, id: u32, op: SendOp, len: u32, srq: u32) {
        self.push(id, op, len, Some(srq));
    }

    fn push(&mut self, id: u32, op: SendOp, len: u32, xrc_srq: Option<u32>) {
        self.posted.push(SendWqe {
            wr_id: id.into(),
            op,
            len,
            signaled: true,
            solicited: false,
            fence: false,
            xrc_srq,
            local: id,
        });
    }

    /// Posts a receive whose number is `id`.
    pub(crate) fn receive(&mut self, id: u32, len: u32) {
        self.recvs.push(RecvWqe {
            wr_id: id.into(),
            len,
            invalid: None,
            local: id,
        });
    }

    /// The operation and number of the packet sent next.
    pub(crate) fn next_sent(&mut self) -> Option<(Op, u32)> {
        self.sent.pop().map(|sent| (sent.op, sent.psn))
    }

    /// The acknowledgement sent next: sequence number, syndrome, message number.
    pub(crate) fn next_ack(&mut self) -> Option<(u32, Syndrome, u32)> {
        let sent = self.sent.pop()?;
        match sent.body {
            Body::Ack(Aeth { syndrome, msn }) => Some((sent.psn, syndrome, msn.get())),
            _ => None,
        }
    }

    /// The number and status of the request that ended next.
    pub(crate) fn next_ended(&mut self) -> Option<(u32, Option<Status>)> {
        self.ended
            .pop()
            .map(|(id, wc)| (id, wc.map(|wc| wc.status)))
    }

    fn note(&mut self, run: &Run) -> Result<u32, TxError> {
        let n = run.packets().min(self.room);
        if n == 0 {
            return Err(TxError::Full);
        }
        self.room -= n;
        self.packets += n;
        for segment in run.segments(0).take(n as usize) {
            let mut head = [0; 64];
            let headers = segment.headers.as_bytes();
            if let Some(place) = head.get_mut(..headers.len()) {
                place.copy_from_slice(headers);
            }
            if let Ok(packet) = Packet::parse_head(&head, segment.wire_len()) {
                self.sent.push(Sent {
                    op: packet.opcode.op(),
                    psn: packet.bth.psn.get(),
                    ack_req: packet.bth.ack_req,
                    solicited: packet.bth.solicited,
                    offset: segment.offset,
                    len: segment.len,
                    body: packet.body,
                    again: run.is_again(),
                    xrc_srq: packet.xrc_srq,
                });
            }
        }
        Ok(n)
    }

    fn touch(&mut self, at: u32, len: u32) -> Result<(), Status> {
        if let Some(status) = self.fault {
            return Err(status);
        }
        self.writes += 1;
        self.written = (at.saturating_add(len), len);
        Ok(())
    }
}

/// The payload of a packet is only its length.
impl SendEnv for TestEnv {
    type Local = u32;
    type Rx = u32;

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn fetch(&mut self) -> Option<SendWqe<u32>> {
        self.posted.pop()
    }

    fn has_more(&mut self) -> bool {
        self.posted.len() != 0
    }

    /// Requests with an odd hundred in their number have bad memory.
    fn transmit(&mut self, run: &Run, local: &mut u32) -> Result<u32, TxError> {
        if *local / 100 % 2 == 1 {
            return Err(TxError::Local(Status::LocProt));
        }
        self.note(run)
    }

    fn scatter(&mut self, _: &mut u32, at: u32, rx: &u32) -> Result<(), Status> {
        self.touch(at, *rx)
    }

    fn store_result(&mut self, _: &mut u32, value: u64) -> Result<(), Status> {
        self.touch(0, 8)?;
        self.word = value;
        Ok(())
    }

    fn execute(&mut self, _: LocalOp, local: &mut u32) -> Result<(), Status> {
        if *local / 100 % 2 == 1 {
            return Err(Status::MwBind);
        }
        self.executed += 1;
        Ok(())
    }

    fn retire(&mut self, local: &u32, wc: Option<SendWc>) -> Result<(), CqOverflow> {
        self.ended.push((*local, wc));
        if self.cq_full {
            return Err(CqOverflow);
        }
        Ok(())
    }

    fn failed(&mut self) {
        self.failures += 1;
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn count(&mut self, _: Counter) {}
}

impl RecvEnv for TestEnv {
    type Local = u32;
    type Remote = Access;
    type Rx = u32;

    fn address(&mut self, srq: u32) -> bool {
        self.named = Some(srq);
        srq == self.srq
    }

    fn next_recv(&mut self) -> Option<RecvWqe<u32>> {
        self.recvs.pop()
    }

    fn scatter(&mut self, _: &mut u32, at: u32, rx: &u32) -> Result<(), Status> {
        self.touch(at, *rx)
    }

    fn scatter_grh(&mut self, _: &mut u32, _: &u32) -> Result<(), Status> {
        self.touch(0, 40)
    }

    fn open(&mut self, access: &Access) -> Result<Access, AccessError> {
        self.opened = Some(*access);
        match self.denied {
            Some(error) => Err(error),
            None => Ok(*access),
        }
    }

    fn write(&mut self, _: &mut Access, at: u32, rx: &u32) -> Result<(), AccessError> {
        self.touch(at, *rx).map_err(|_| AccessError::Denied)
    }

    fn atomic(&mut self, _: &mut Access, op: AtomicOp) -> Result<u64, AccessError> {
        let found = self.word;
        self.executed += 1;
        self.word = match op {
            AtomicOp::CompareSwap { compare, swap } if compare == found => swap,
            AtomicOp::CompareSwap { .. } => found,
            AtomicOp::FetchAdd(add) => found.wrapping_add(add),
        };
        Ok(found)
    }

    fn atomic_write(&mut self, _: &mut Access, value: [u8; 8]) -> Result<(), AccessError> {
        self.executed += 1;
        self.word = u64::from_ne_bytes(value);
        Ok(())
    }

    fn flush(&mut self, _: &mut Access, _: Feth) -> Result<(), AccessError> {
        self.executed += 1;
        Ok(())
    }

    fn invalidate(&mut self, key: Key) -> Result<(), AccessError> {
        self.invalidated = Some(key);
        match self.denied {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn transmit(&mut self, run: &Run, _: Option<&mut Access>) -> Result<u32, TxError> {
        if let (Some(status), true) = (self.fault, run.payload(0, 1).1 != 0) {
            return Err(TxError::Local(status));
        }
        self.note(run)
    }

    fn complete(&mut self, _: u32, wc: RecvWc) -> Result<(), CqOverflow> {
        self.received.push(wc);
        if self.cq_full {
            return Err(CqOverflow);
        }
        Ok(())
    }

    fn failed(&mut self) {
        self.failures += 1;
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn count(&mut self, _: Counter) {}
}

/// Time to wait for an acknowledgement.
pub(crate) const TIMEOUT: Nanos = 1000;

pub(crate) fn send_attrs(first: u32) -> SendAttrs {
    SendAttrs {
        dest_qpn: 18,
        mtu: Mtu::B256,
        pkey: 0xffff,
        sq_psn: Psn::new(first),
        ack_timeout: Some(TIMEOUT),
        retry: Retries::from_retry_cnt(7),
        rnr_retry: Retries::from_rnr_retry(2),
        max_rd_atomic: 2,
    }
}

pub(crate) fn recv_attrs(first: u32) -> RecvAttrs {
    RecvAttrs {
        dest_qpn: 17,
        mtu: Mtu::B256,
        pkey: 0xffff,
        rq_psn: Psn::new(first),
        allowed: Allowed {
            read: true,
            write: true,
            atomic: true,
            flush_global: true,
            flush_persistent: false,
        },
        min_rnr_timer: RnrTimer::new(12),
    }
}

/// A packet from the peer with `len` bytes of payload.
pub(crate) fn packet(service: Service, psn: u32, body: Body, len: u32) -> Option<Packet> {
    Some(Packet {
        opcode: Opcode::new(service, body.op())?,
        bth: Bth {
            solicited: false,
            migrated: false,
            pkey: 0xffff,
            dest_qp: 17,
            ack_req: true,
            psn: Psn::new(psn),
        },
        deth: None,
        xrc_srq: None,
        body,
        payload_len: len,
        headers_len: 0,
    })
}

pub(crate) fn aeth(syndrome: Syndrome) -> Aeth {
    Aeth {
        syndrome,
        msn: Msn::new(0),
    }
}

pub(crate) const ACK: Body = Body::Ack(Aeth {
    syndrome: Syndrome::ACK,
    msn: Msn::new(0),
});

pub(crate) const READ_ONLY: Body = Body::ReadResponse(ReadPart::Only(Aeth {
    syndrome: Syndrome::ACK,
    msn: Msn::new(0),
}));

pub(crate) const SEND: SendOp = SendOp::Send(SendEnd::Plain);

pub(crate) const AT: RemoteAddr = RemoteAddr {
    va: 0x1000,
    key: KEY,
};

pub(crate) const WRITE: SendOp = SendOp::Write { to: AT, imm: None };
pub(crate) const READ: SendOp = SendOp::Read { from: AT };

/// What a completion says, for comparison.
pub(crate) fn says(wc: Option<SendWc>) -> Option<(Status, WcOp, u32)> {
    wc.map(|wc| (wc.status, wc.op, wc.byte_len))
}
