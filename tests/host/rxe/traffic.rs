// SPDX-License-Identifier: GPL-2.0

//! Random requests of all kinds in both directions over a bad network, compared with what a
//! perfect one would have done: every request is executed once and in order, every byte is in
//! its place, everything completes once and in order.

use crate::proto::attrs::*;
use crate::proto::wr::*;
use crate::random::Random;
use crate::sim::*;
use crate::wire::aeth::RnrTimer;
use crate::wire::ext::{Feth, Imm, Key};
use crate::wire::packet::SendEnd;
use crate::wire::psn::Psn;

const MIB: usize = 1 << 20;
/// Never written: what is sent, written and read comes from here.
const SOURCE: usize = 0;
/// The peer writes here.
const TARGET: usize = 2 * MIB;
/// The peer's atomics act here.
const ATOMICS: usize = 5 * MIB;
/// Received messages, one after the other.
const INBOX: usize = 6 * MIB;
/// Results of READs and atomics, one after the other.
const RESULTS: usize = 8 * MIB;
const SIZE: usize = 10 * MIB;

const ALL: Allowed = Allowed {
    read: true,
    write: true,
    atomic: true,
    flush_global: true,
    flush_persistent: true,
};

pub fn attrs(mtu: Mtu, dest_qpn: u32, sq_psn: u32, rq_psn: u32) -> (RecvAttrs, SendAttrs) {
    (
        RecvAttrs {
            dest_qpn,
            mtu,
            pkey: 0xffff,
            rq_psn: Psn::new(rq_psn),
            allowed: ALL,
            min_rnr_timer: RnrTimer::new(1),
        },
        SendAttrs {
            dest_qpn,
            mtu,
            pkey: 0xffff,
            sq_psn: Psn::new(sq_psn),
            ack_timeout: Some(1_000_000),
            retry: Retries::from_retry_cnt(7),
            rnr_retry: Retries::from_rnr_retry(7),
            max_rd_atomic: 4,
        },
    )
}

/// A pair of connected hosts whose sequence numbers wrap soon.
pub fn pair(transport: Transport, mtu: Mtu, faults: Faults, seed: u64, size: usize) -> Net {
    let a = Host::new(transport, 17, 16, World::new(size, 0x1100, seed));
    let b = Host::new(transport, 18, 3, World::new(size, 0x2200, seed + 1));
    connect(a, b, mtu, faults, seed)
}

fn connect(mut a: Host, mut b: Host, mtu: Mtu, faults: Faults, seed: u64) -> Net {
    let (recv, send) = attrs(mtu, 18, 0xff_fff0, 0x20);
    a.start(&recv, &send, 4);
    let (recv, send) = attrs(mtu, 17, 0x20, 0xff_fff0);
    b.start(&recv, &send, 4);
    Net::new([a, b], faults, seed + 2)
}

/// Fills what is only read with a pattern that repeats nowhere near.
fn fill(net: &mut Net) {
    for host in &mut net.hosts {
        for (i, byte) in host.world.memory[SOURCE..TARGET].iter_mut().enumerate() {
            *byte = (i as u32).wrapping_mul(0x9e37_79b1).rotate_left(7) as u8;
        }
    }
}

/// Splits a place in memory into a list of one to four pieces.
fn split(random: &mut Random, start: usize, len: usize) -> Vec<(usize, usize)> {
    let mut cuts: Vec<usize> = (0..random.below(4))
        .map(|_| random.below(len as u64 + 1) as usize)
        .collect();
    cuts.extend([0, len]);
    cuts.sort();
    cuts.windows(2)
        .map(|pair| (start + pair[0], pair[1] - pair[0]))
        .collect()
}

/// What one direction must look like in the end.
#[derive(Default)]
struct Expected {
    sends: Vec<(SendWc, bool, Vec<u8>)>,
    recvs: Vec<(u32, bool, SendEnd, Vec<u8>)>,
    invalidated: Vec<Key>,
    executed: Vec<u64>,
}

struct Generator {
    random: Random,
    lengths: Vec<usize>,
    memory: Vec<u8>,
    expected: Expected,
    number: u64,
}

impl Generator {
    fn remote(&self, key: Key, at: usize) -> RemoteAddr {
        RemoteAddr {
            va: BASE + at as u64,
            key,
        }
    }

    /// A random request, noted in the model of the peer's memory and of the completions.
    fn request(&mut self, source: &[u8], key: Key, transport: Transport) -> SendWqe<Local> {
        let random = &mut self.random;
        let len = random.pick(&self.lengths);
        let from = random.below((2 * MIB - len) as u64 + 1) as usize;
        let to = TARGET + random.below((3 * MIB - len) as u64 + 1) as usize;
        let word = ATOMICS + 8 * random.below(4) as usize;
        let data = source[from..from + len].to_vec();
        let imm = Imm(random.next().to_le_bytes()[..4].try_into().unwrap());
        let signaled = random.permille(800);
        let solicited = random.permille(500);
        let fence = random.permille(100);
        let out = split(random, SOURCE + from, len);
        let back = split(random, RESULTS, len);
        let id = self.number;
        self.number += 1;
        let kinds = match transport {
            Transport::Uc => 4,
            Transport::Ud => 2,
            _ => 12,
        };
        let kind = random.below(kinds);
        let a = random.next();
        let value = |memory: &[u8]| u64::from_ne_bytes(memory[word..word + 8].try_into().unwrap());
        let old = value(&self.memory);
        let whole_region = random.permille(300);
        let eight = vec![(RESULTS, 8)];
        let (op, len, sges, result) = match kind {
            0 | 1 => {
                let end = if kind == 0 {
                    SendEnd::Plain
                } else {
                    SendEnd::Imm(imm)
                };
                let op = match transport {
                    Transport::Ud => SendOp::Datagram {
                        dest_qpn: 18,
                        qkey: 0x1111,
                        imm: (kind == 1).then_some(imm),
                    },
                    _ => SendOp::Send(end),
                };
                self.expected.recvs.push((len as u32, false, end, data));
                (op, len, out, vec![])
            }
            2 | 3 => {
                self.memory[to..to + len].copy_from_slice(&data);
                let imm = (kind == 3).then_some(imm);
                if let Some(imm) = imm {
                    let end = SendEnd::Imm(imm);
                    self.expected.recvs.push((len as u32, true, end, vec![]));
                }
                let to = self.remote(key, to);
                (SendOp::Write { to, imm }, len, out, vec![])
            }
            4 => {
                let from = self.remote(key, from);
                (SendOp::Read { from }, len, back, data)
            }
            5 => {
                let compare = if a % 2 == 0 { old } else { a };
                let new = if compare == old { a } else { old };
                self.memory[word..word + 8].copy_from_slice(&new.to_ne_bytes());
                let at = self.remote(key, word);
                let op = SendOp::CompareSwap {
                    at,
                    compare,
                    swap: a,
                };
                (op, 8, eight, old.to_ne_bytes().to_vec())
            }
            6 | 7 => {
                let new = old.wrapping_add(a);
                self.memory[word..word + 8].copy_from_slice(&new.to_ne_bytes());
                let at = self.remote(key, word);
                let op = SendOp::FetchAdd { at, add: a };
                (op, 8, eight, old.to_ne_bytes().to_vec())
            }
            8 => {
                let from = from & !7;
                let to = to & !7;
                let data: [u8; 8] = source[from..from + 8].try_into().unwrap();
                self.memory[to..to + 8].copy_from_slice(&data);
                let to = self.remote(key, to);
                let op = SendOp::AtomicWrite { to };
                (op, 8, vec![(SOURCE + from, 8)], vec![])
            }
            9 => {
                let how = Feth {
                    global: true,
                    persistent: false,
                    whole_region,
                };
                let at = self.remote(key, to);
                (SendOp::Flush { at, how }, len, vec![], vec![])
            }
            10 => {
                self.expected.executed.push(id);
                (SendOp::Local(LocalOp::RegMr), 0, vec![], vec![])
            }
            _ => {
                let key = Key(a as u32);
                self.expected.invalidated.push(key);
                let end = SendEnd::Invalidate(key);
                self.expected.recvs.push((len as u32, false, end, data));
                (SendOp::Send(end), len, out, vec![])
            }
        };
        let wc = SendWc {
            wr_id: id ^ 0xabcd,
            status: Status::Success,
            op: op.wc_op(),
            byte_len: len as u32,
        };
        let capture = matches!(
            op,
            SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }
        );
        self.expected.sends.push((wc, signaled, result));
        SendWqe {
            wr_id: wc.wr_id,
            op,
            len: wc.byte_len,
            signaled,
            solicited,
            fence,
            xrc_srq: (transport == Transport::XrcIni).then_some(SRQ),
            local: Local {
                sges: sges,
                id,
                bad: false,
                capture,
            },
        }
    }
}

pub fn receive(id: u64, start: usize, len: usize) -> RecvWqe<Local> {
    RecvWqe {
        wr_id: id,
        len: len as u32,
        invalid: None,
        local: Local {
            sges: vec![(start, len)],
            id,
            bad: false,
            capture: false,
        },
    }
}

fn run_reliable(transport: Transport, mtu: Mtu, faults: Faults, count: usize, seed: u64) -> u64 {
    let what = format!("{transport:?} seed {seed} mtu {} {faults:?}", mtu.bytes());
    let mut net = pair(transport, mtu, faults, seed, SIZE);
    fill(&mut net);
    let bytes = mtu.bytes() as usize;
    let mut lengths = vec![
        0,
        1,
        7,
        bytes - 1,
        bytes,
        bytes + 1,
        3 * bytes,
        20 * bytes + 5,
    ];
    if seed % 4 == 0 {
        lengths.push(MIB);
    }
    let mut sides = [0, 1].map(|i| Generator {
        random: Random::new(seed * 2 + i),
        lengths: lengths.clone(),
        memory: net.hosts[1 - i as usize].world.memory.clone(),
        expected: Expected::default(),
        number: 0,
    });
    let mut random = Random::new(seed ^ 0x5555);
    let mut posted = [0u64; 2];
    let mut idle = 0;
    for _ in 0..3_000_000 {
        for i in 0..2 {
            let key = net.hosts[1 - i].world.key;
            let world = &mut net.hosts[i].world;
            let side = &mut sides[i];
            while (side.number as usize) < count && random.permille(400) {
                let wqe = side.request(&world.memory[..TARGET], key, transport);
                world.send_queue.push_back(wqe);
            }
            let due = sides[1 - i].expected.recvs.len() as u64;
            while posted[i] < due && random.permille(300) {
                let wqe = receive(posted[i], INBOX, MIB);
                net.hosts[i].world.recv_queue.push_back(wqe);
                posted[i] += 1;
            }
        }
        let more = net.step();
        let done = |i: usize| net.hosts[i].world.send_done.len() == count;
        if done(0) && done(1) {
            break;
        }
        idle = if more { 0 } else { idle + 1 };
        assert!(idle < 1000, "{what}: stuck");
    }
    for i in 0..2 {
        let world = &net.hosts[i].world;
        let peer = &net.hosts[1 - i].world;
        let expected = &sides[i].expected;
        assert_eq!(world.failures, 0, "{what}");
        assert_eq!(world.send_done.len(), count, "{what}: not all done");
        for (number, (done, expected)) in world.send_done.iter().zip(&expected.sends).enumerate() {
            let (id, wc, data) = done;
            assert_eq!(*id, number as u64, "{what}");
            assert_eq!(*wc, expected.1.then_some(expected.0), "{what}");
            assert!(*data == expected.2, "{what}: result of {number} {wc:?}");
        }
        assert_eq!(peer.recv_done.len(), expected.recvs.len(), "{what}");
        for (number, (done, expected)) in peer.recv_done.iter().zip(&expected.recvs).enumerate() {
            let (wc, data) = done;
            assert_eq!(wc.status, Status::Success, "{what}");
            assert_eq!(wc.wr_id, number as u64, "{what}");
            let got = (wc.byte_len, wc.by_write, wc.end);
            assert_eq!(got, (expected.0, expected.1, expected.2), "{what}");
            assert!(*data == expected.3, "{what}: message {number}");
        }
        assert!(
            peer.memory[TARGET..INBOX] == sides[i].memory[TARGET..INBOX],
            "{what}: memory"
        );
        assert_eq!(peer.invalidated, expected.invalidated, "{what}");
        assert_eq!(world.executed, expected.executed, "{what}");
    }
    net.packets
}

const RELIABLE: [Transport; 2] = [Transport::Rc, Transport::XrcIni];

#[test]
fn reliable_over_a_good_network() {
    for mtu in Mtu::ALL {
        for seed in 0..4 {
            for transport in RELIABLE {
                run_reliable(transport, mtu, Faults::default(), 100, seed);
            }
        }
    }
}

#[test]
fn reliable_over_a_bad_network() {
    let mut packets = 0;
    for mtu in Mtu::ALL {
        for seed in 10..26 {
            let faults = Faults {
                lose: 5 * (seed % 5),
                repeat: 10 * (seed % 3),
                reorder: 10 * (seed % 4),
                damage: 5 * (seed % 2),
                full: 30 * (seed % 3),
            };
            let transport = RELIABLE[seed as usize / 3 % 2];
            packets += run_reliable(transport, mtu, faults, 60, seed);
        }
    }
    println!("{packets} packets");
}

/// Messages that may be lost, but what arrives is whole and in order; none comes twice.
fn run_unreliable(transport: Transport, mtu: Mtu, faults: Faults, count: usize, seed: u64) -> u64 {
    let what = format!("{transport:?} seed {seed} mtu {} {faults:?}", mtu.bytes());
    let mut net = pair(transport, mtu, faults, seed, SIZE);
    fill(&mut net);
    let bytes = mtu.bytes() as usize;
    let mut side = Generator {
        random: Random::new(seed),
        lengths: match transport {
            Transport::Ud => vec![0, 1, bytes - 1, bytes],
            _ => vec![0, 1, bytes - 1, bytes, bytes + 1, 9 * bytes + 3],
        },
        memory: net.hosts[1].world.memory.clone(),
        expected: Expected::default(),
        number: 0,
    };
    let mut random = Random::new(seed ^ 0x3333);
    let mut posted = 0;
    for _ in 0..count {
        let key = net.hosts[1].world.key;
        let world = &mut net.hosts[0].world;
        let wqe = side.request(&world.memory[..TARGET], key, transport);
        world.send_queue.push_back(wqe);
        if random.permille(900) {
            net.hosts[1]
                .world
                .recv_queue
                .push_back(receive(posted, INBOX, MIB));
            posted += 1;
        }
        net.step();
    }
    while net.step() {}
    let [a, b] = &net.hosts;
    assert_eq!(a.world.failures + b.world.failures, 0, "{what}");
    assert_eq!(a.world.send_done.len(), count, "{what}");
    for (done, expected) in a.world.send_done.iter().zip(&side.expected.sends) {
        assert_eq!(done.1, expected.1.then_some(expected.0), "{what}");
    }
    // Each that arrived is one of those sent after the one before.
    let grh = if transport == Transport::Ud { 40 } else { 0 };
    let mut sent = side.expected.recvs.iter();
    for (number, (wc, data)) in b.world.recv_done.iter().enumerate() {
        assert_eq!(
            (wc.status, wc.wr_id),
            (Status::Success, number as u64),
            "{what}"
        );
        let data = data.get(grh..).unwrap_or(&[]);
        let found = sent.any(|(len, by_write, end, bytes)| {
            (wc.byte_len, wc.by_write, wc.end) == (len + grh as u32, *by_write, *end)
                && data == bytes
        });
        assert!(found, "{what}: message {number}");
    }
    b.world.recv_done.len() as u64
}

#[test]
fn unreliable_messages_are_whole_or_lost() {
    for mtu in Mtu::ALL {
        for seed in 0..8 {
            for transport in [Transport::Uc, Transport::Ud] {
                // A repeated or late message is one more to its receiver: these services have no
                // means against a network that does so.
                let faults = Faults {
                    lose: 20 * (seed % 3),
                    repeat: 0,
                    reorder: 0,
                    damage: 10 * (seed % 2),
                    full: 50 * (seed % 3),
                };
                let arrived = run_unreliable(transport, mtu, faults, 100, seed);
                assert!(arrived > 5, "{transport:?} {seed}: only {arrived}");
            }
        }
    }
}
