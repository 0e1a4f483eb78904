// SPDX-License-Identifier: GPL-2.0

//! Two hosts with one queue pair each, and the network between them.

use crate::proto::attrs::{Progress, RecvAttrs, SendAttrs, Transport};
use crate::proto::env::*;
use crate::proto::recv::{RecvSide, Resource, Verdict};
use crate::proto::run::Run;
use crate::proto::send::{Entry, SendSide};
use crate::proto::wr::*;
use crate::random::Random;
use crate::wire::ext::{Feth, Key};
use crate::wire::icrc::{Crc32, Icrc, NetworkHeader};
use crate::wire::packet::{Packet, BTH_LEN, ICRC_LEN};
use std::collections::{BinaryHeap, VecDeque};

/// Scatter or gather list: places in the host's memory.
#[derive(Clone, Debug)]
pub struct Local {
    pub sges: Vec<(usize, usize)>,
    /// The number of the request, to see that each comes back once.
    pub id: u64,
    /// Its memory cannot be accessed.
    pub bad: bool,
    /// Keep what it received when it ends.
    pub capture: bool,
}

impl Local {
    pub fn len(&self) -> usize {
        self.sges.iter().map(|(_, len)| len).sum()
    }

    /// Calls `f` for each piece of `at .. at + len` of the list.
    fn walk(&self, mut at: usize, mut len: usize, mut f: impl FnMut(usize, usize)) {
        assert!(at + len <= self.len(), "outside of the list");
        for &(start, room) in &self.sges {
            if at >= room {
                at -= room;
                continue;
            }
            let n = len.min(room - at);
            if n > 0 {
                f(start + at, n);
            }
            at = 0;
            len -= n;
        }
    }
}

#[derive(Clone, Debug)]
pub struct Remote {
    start: usize,
    len: usize,
}

pub struct RxPacket {
    pub bytes: Vec<u8>,
    pub headers: usize,
    pub payload: usize,
}

impl RxPacket {
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.headers..self.headers + self.payload]
    }
}

/// What is outside of the state machines of one host.
pub struct World {
    pub now: u64,
    pub memory: Vec<u8>,
    /// The key that gives the peer access to all memory; its address is 0x1000_0000.
    pub key: Key,
    pub send_queue: VecDeque<SendWqe<Local>>,
    pub recv_queue: VecDeque<RecvWqe<Local>>,
    /// Number, completion and data (of READs and atomics).
    pub send_done: Vec<(u64, Option<SendWc>, Vec<u8>)>,
    /// Completion and data (of SENDs).
    pub recv_done: Vec<(RecvWc, Vec<u8>)>,
    pub invalidated: Vec<Key>,
    pub executed: Vec<u64>,
    pub events: Vec<QpEvent>,
    pub failures: u32,
    pub wire: Vec<Vec<u8>>,
    /// How often (in 1000) the network takes nothing.
    pub full: u64,
    pub cq_room: usize,
    pub random: Random,
}

pub const BASE: u64 = 0x1000_0000;
/// Number of the shared receive queue that XRC requests name.
pub const SRQ: u32 = 0xab_cdef;

impl World {
    pub fn new(size: usize, key: u32, seed: u64) -> Self {
        Self {
            now: 0,
            memory: vec![0; size],
            key: Key(key),
            send_queue: VecDeque::new(),
            recv_queue: VecDeque::new(),
            send_done: Vec::new(),
            recv_done: Vec::new(),
            invalidated: Vec::new(),
            executed: Vec::new(),
            events: Vec::new(),
            failures: 0,
            wire: Vec::new(),
            full: 0,
            cq_room: usize::MAX,
            random: Random::new(seed),
        }
    }

    fn emit(
        &mut self,
        run: &Run,
        data: impl Fn(&World, usize, usize) -> Vec<u8>,
    ) -> Result<u32, TxError> {
        if self.random.permille(self.full) {
            return Err(TxError::Full);
        }
        let mut n = run.packets();
        if self.random.permille(self.full) {
            n = 1 + self.random.below(u64::from(n)) as u32;
        }
        for segment in run.segments(0).take(n as usize) {
            let mut packet = segment.headers.as_bytes().to_vec();
            let payload = data(self, segment.offset as usize, segment.len as usize);
            assert_eq!(payload.len(), segment.len as usize);
            packet.extend(payload);
            packet.resize(packet.len() + segment.pad(), 0);
            packet.extend(icrc(&packet));
            assert_eq!(packet.len(), segment.wire_len());
            self.wire.push(packet);
        }
        Ok(n)
    }

    fn gather(&self, local: &Local, at: usize, len: usize) -> Vec<u8> {
        let mut data = Vec::new();
        local.walk(at, len, |start, n| {
            data.extend(&self.memory[start..start + n]);
        });
        data
    }

    fn scatter_to(&mut self, local: &Local, at: usize, data: &[u8]) -> Result<(), Status> {
        if local.bad {
            return Err(Status::LocProt);
        }
        let memory = &mut self.memory;
        let mut rest = data;
        local.walk(at, data.len(), |start, n| {
            memory[start..start + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
        });
        Ok(())
    }
}

/// The CRC with headers that never change here.
pub fn icrc(packet: &[u8]) -> [u8; 4] {
    let bth = packet[..BTH_LEN].try_into().unwrap();
    Icrc::start::<TableCrc>(NetworkHeader::V4(&[0x45; 20]), &[7; 8], bth)
        .update::<TableCrc>(&packet[BTH_LEN..])
        .finish()
}

impl SendEnv for World {
    type Local = Local;
    type Rx = RxPacket;

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn fetch(&mut self) -> Option<SendWqe<Local>> {
        self.send_queue.pop_front()
    }

    fn has_more(&mut self) -> bool {
        !self.send_queue.is_empty()
    }

    fn transmit(&mut self, run: &Run, local: &mut Local) -> Result<u32, TxError> {
        if local.bad && run.payload(0, 1).1 != 0 {
            return Err(TxError::Local(Status::LocProt));
        }
        let local = local.clone();
        self.emit(run, |world, at, len| world.gather(&local, at, len))
    }

    fn scatter(&mut self, local: &mut Local, at: u32, rx: &RxPacket) -> Result<(), Status> {
        self.scatter_to(local, at as usize, rx.payload())
    }

    fn store_result(&mut self, local: &mut Local, value: u64) -> Result<(), Status> {
        self.scatter_to(local, 0, &value.to_ne_bytes())
    }

    fn execute(&mut self, _: LocalOp, local: &mut Local) -> Result<(), Status> {
        if local.bad {
            return Err(Status::MwBind);
        }
        self.executed.push(local.id);
        Ok(())
    }

    fn retire(&mut self, local: &Local, wc: Option<SendWc>) -> Result<(), CqOverflow> {
        if wc.is_some() && self.send_done.len() >= self.cq_room {
            return Err(CqOverflow);
        }
        let len = if local.capture { local.len() } else { 0 };
        self.send_done
            .push((local.id, wc, self.gather(local, 0, len)));
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

impl RecvEnv for World {
    type Local = Local;
    type Remote = Remote;
    type Rx = RxPacket;

    fn address(&mut self, srq: u32) -> bool {
        srq == SRQ
    }

    fn next_recv(&mut self) -> Option<RecvWqe<Local>> {
        self.recv_queue.pop_front()
    }

    fn scatter(&mut self, local: &mut Local, at: u32, rx: &RxPacket) -> Result<(), Status> {
        self.scatter_to(local, at as usize, rx.payload())
    }

    fn scatter_grh(&mut self, local: &mut Local, _: &RxPacket) -> Result<(), Status> {
        self.scatter_to(local, 0, &[0x60; 40])
    }

    fn open(&mut self, access: &Access) -> Result<Remote, AccessError> {
        let start = access.va.checked_sub(BASE).ok_or(AccessError::Denied)?;
        let end = start
            .checked_add(u64::from(access.len))
            .ok_or(AccessError::Denied)?;
        if access.key != self.key || end > self.memory.len() as u64 {
            return Err(AccessError::Denied);
        }
        Ok(Remote {
            start: start as usize,
            len: access.len as usize,
        })
    }

    fn write(&mut self, to: &mut Remote, at: u32, rx: &RxPacket) -> Result<(), AccessError> {
        let data = rx.payload();
        let at = at as usize;
        assert!(at + data.len() <= to.len, "outside of what was granted");
        self.memory[to.start + at..to.start + at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn atomic(&mut self, on: &mut Remote, op: AtomicOp) -> Result<u64, AccessError> {
        assert_eq!(on.len, 8);
        assert_eq!(on.start % 8, 0);
        let place = &mut self.memory[on.start..on.start + 8];
        let found = u64::from_ne_bytes((&*place).try_into().unwrap());
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if compare == found => swap,
            AtomicOp::CompareSwap { .. } => found,
            AtomicOp::FetchAdd(add) => found.wrapping_add(add),
        };
        place.copy_from_slice(&new.to_ne_bytes());
        Ok(found)
    }

    fn atomic_write(&mut self, to: &mut Remote, value: [u8; 8]) -> Result<(), AccessError> {
        assert_eq!(to.len, 8);
        self.memory[to.start..to.start + 8].copy_from_slice(&value);
        Ok(())
    }

    fn flush(&mut self, _: &mut Remote, _: Feth) -> Result<(), AccessError> {
        Ok(())
    }

    fn invalidate(&mut self, key: Key) -> Result<(), AccessError> {
        self.invalidated.push(key);
        Ok(())
    }

    fn transmit(&mut self, run: &Run, from: Option<&mut Remote>) -> Result<u32, TxError> {
        let from = from.cloned();
        self.emit(run, |world, at, len| match &from {
            None => {
                assert_eq!(len, 0);
                Vec::new()
            }
            Some(from) => {
                assert!(at + len <= from.len, "outside of what was granted");
                world.memory[from.start + at..from.start + at + len].to_vec()
            }
        })
    }

    fn complete(&mut self, local: Local, wc: RecvWc) -> Result<(), CqOverflow> {
        let len = if wc.by_write { 0 } else { wc.byte_len as usize };
        self.recv_done.push((wc, self.gather(&local, 0, len)));
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

pub type Send = SendSide<Local, Vec<Option<Entry<Local>>>>;
pub type Recv = RecvSide<Local, Remote, Vec<Option<Resource>>>;

/// One host.
pub struct Host {
    pub world: World,
    pub send: Send,
    pub recv: Recv,
    inbox: VecDeque<Vec<u8>>,
}

impl Host {
    pub fn new(transport: Transport, qpn: u32, window: usize, world: World) -> Self {
        let slots = (0..window).map(|_| None).collect();
        // An XRC host has two queue pairs, of which each has one side at work.
        let answers = match transport {
            Transport::XrcIni => Transport::XrcTgt,
            other => other,
        };
        Self {
            world,
            send: SendSide::new(transport, qpn, slots),
            recv: RecvSide::new(answers, qpn, false),
            inbox: VecDeque::new(),
        }
    }

    pub fn start(&mut self, recv: &RecvAttrs, send: &SendAttrs, depth: usize) {
        self.recv.start(recv, vec![None; depth]);
        self.send.start(send);
    }

    /// A packet arrives.
    pub fn give(&mut self, bytes: Vec<u8>) {
        self.inbox.push_back(bytes);
    }

    /// Takes packets, then sends. Returns whether the network was full, so that there is more
    /// to do.
    pub fn work(&mut self) -> bool {
        let mut blocked = false;
        while let Some(bytes) = self.inbox.pop_front() {
            let Some(end) = bytes.len().checked_sub(ICRC_LEN) else {
                continue;
            };
            if end < BTH_LEN || icrc(&bytes[..end]) != bytes[end..] {
                continue;
            }
            let Ok(packet) = Packet::parse(&bytes) else {
                continue;
            };
            let rx = RxPacket {
                headers: packet.headers_len.into(),
                payload: packet.payload_len as usize,
                bytes,
            };
            if !packet.opcode.is_request() {
                self.send.input(&mut self.world, &packet, &rx);
            } else if self.recv.input(&mut self.world, &packet, &rx) == Verdict::Busy {
                self.inbox.push_front(rx.bytes);
                if self.recv.run(&mut self.world, 16) == Progress::Blocked {
                    blocked = true;
                    break;
                }
            }
        }
        while !blocked {
            match self.recv.run(&mut self.world, 64) {
                Progress::More => (),
                Progress::Idle => break,
                Progress::Blocked => blocked = true,
            }
        }
        loop {
            match self.send.run(&mut self.world, 50) {
                Progress::More => (),
                Progress::Idle => break,
                Progress::Blocked => {
                    blocked = true;
                    break;
                }
            }
        }
        // An error of one side is one of the other, too.
        if self.world.failures > 0 && self.send.state() == crate::proto::send::SendState::Error
            || self.recv.state() == crate::proto::recv::RecvState::Error
        {
            self.send.fail(&mut self.world);
            self.recv.fail(&mut self.world);
            while self.send.run(&mut self.world, 50) == Progress::More {}
            while self.recv.run(&mut self.world, 50) == Progress::More {}
        }
        blocked
    }
}

/// What the network does to packets, in cases of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lose: u64,
    pub repeat: u64,
    pub reorder: u64,
    pub damage: u64,
    pub full: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    /// Sorted backwards: the heap gives the largest first.
    at: std::cmp::Reverse<(u64, u64)>,
    to: usize,
    bytes: Vec<u8>,
}

pub struct Net {
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub now: u64,
    flights: BinaryHeap<Flight>,
    number: u64,
    random: Random,
    pub packets: u64,
}

const LATENCY: u64 = 10_000;

impl Net {
    pub fn new(mut hosts: [Host; 2], faults: Faults, seed: u64) -> Self {
        for host in &mut hosts {
            host.world.full = faults.full;
        }
        Self {
            hosts,
            faults,
            now: 0,
            flights: BinaryHeap::new(),
            number: 0,
            random: Random::new(seed),
            packets: 0,
        }
    }

    fn launch(&mut self, to: usize, mut bytes: Vec<u8>) {
        self.packets += 1;
        if self.random.permille(self.faults.lose) {
            return;
        }
        let mut at = self.now + LATENCY;
        if self.random.permille(self.faults.reorder) {
            at += self.random.below(8 * LATENCY);
        }
        if self.random.permille(self.faults.damage) {
            let place = self.random.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << self.random.below(8);
        }
        let copies = 1 + u64::from(self.random.permille(self.faults.repeat));
        for _ in 0..copies {
            self.number += 1;
            self.flights.push(Flight {
                at: std::cmp::Reverse((at, self.number)),
                to,
                bytes: bytes.clone(),
            });
        }
    }

    /// One step of time. Returns false when nothing will ever happen again.
    pub fn step(&mut self) -> bool {
        let mut next = self.flights.peek().map(|flight| flight.at.0 .0);
        for host in &mut self.hosts {
            if let Some(at) = host.send.deadline() {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        let mut blocked = false;
        if let Some(next) = next {
            self.now = self.now.max(next);
        }
        while self
            .flights
            .peek()
            .is_some_and(|flight| flight.at.0 .0 <= self.now)
        {
            let flight = self.flights.pop().unwrap();
            self.hosts[flight.to].inbox.push_back(flight.bytes);
        }
        for i in 0..2 {
            let host = &mut self.hosts[i];
            host.world.now = self.now;
            host.send.timer(&mut host.world);
            blocked |= host.work();
            for bytes in std::mem::take(&mut host.world.wire) {
                self.launch(1 - i, bytes);
            }
        }
        if blocked {
            self.now += 1000;
        }
        blocked || next.is_some() || !self.flights.is_empty()
    }
}

/// The CRC for hosts without a kernel.
pub struct TableCrc;

impl TableCrc {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
}

impl Crc32 for TableCrc {
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, byte| {
            (crc >> 8) ^ Self::TABLE[usize::from(crc as u8 ^ byte)]
        })
    }
}
