// SPDX-License-Identifier: GPL-2.0

//! Hostile packets. The parser must never panic and must account for every byte; the state machines
//! must never panic, never touch memory outside of what was granted (the environment of the
//! simulation checks that), and end every request and every receive once.

use crate::proto::attrs::{Mtu, Transport};
use crate::proto::recv::RecvState;
use crate::proto::send::SendState;
use crate::proto::wr::*;
use crate::random::Random;
use crate::sim::*;
use crate::traffic::{attrs, pair, receive};
use crate::wire::aeth::{Aeth, NakCode, RnrTimer, Syndrome};
use crate::wire::build::HeaderBuf;
use crate::wire::ext::{AtomicEth, Deth, Feth, Imm, Key, Reth};
use crate::wire::opcode::Service;
use crate::wire::packet::*;
use crate::wire::psn::{Msn, Psn};

/// Memory of a host.
const SIZE: usize = 16384;

fn cases(default: u64) -> u64 {
    std::env::var("RXE_FUZZ").map_or(default, |n| n.parse().expect("RXE_FUZZ: a number"))
}

fn aeth(random: &mut Random) -> Aeth {
    let syndrome = match random.below(8) {
        0 => Syndrome::Rnr(RnrTimer::new(random.next() as u8)),
        1 => Syndrome::Nak(random.pick(&[
            NakCode::PsnSequence,
            NakCode::PsnSequence,
            NakCode::PsnSequence,
            NakCode::InvalidRequest,
            NakCode::RemoteAccess,
            NakCode::RemoteOperation,
        ])),
        2 => Syndrome::from_byte(random.next() as u8),
        _ => Syndrome::ACK,
    };
    Aeth {
        syndrome,
        msn: Msn::new(random.next() as u32),
    }
}

fn reth(random: &mut Random, key: Key) -> Reth {
    let near = BASE + random.pick(&[0, 8, 4096, SIZE as u64 - 8, SIZE as u64]);
    Reth {
        va: match random.below(8) {
            0 => random.next(),
            1 => 0u64.wrapping_sub(random.below(4096)),
            _ => near + random.below(3) * random.below(16),
        },
        key: if random.permille(950) {
            key
        } else {
            Key(random.next() as u32)
        },
        len: match random.below(8) {
            0 => random.next() as u32,
            1 => random.pick(&[0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX]),
            2 => 8,
            _ => random.below(2000) as u32,
        },
    }
}

fn body(random: &mut Random, key: Key) -> Body {
    let imm = Imm([1, 2, 3, 4]);
    let start = random.permille(700);
    match random.below(14) {
        0..=2 => Body::Send {
            start,
            end: random.pick(&[
                None,
                Some(SendEnd::Plain),
                Some(SendEnd::Imm(imm)),
                Some(SendEnd::Invalidate(Key(5))),
            ]),
        },
        3..=5 => Body::Write {
            start: start.then(|| reth(random, key)),
            end: random.pick(&[None, Some(WriteEnd::Plain), Some(WriteEnd::Imm(imm))]),
        },
        6 => Body::Read(reth(random, key)),
        7 | 8 => {
            let at = reth(random, key);
            let eth = AtomicEth {
                va: at.va,
                key: at.key,
                swap_add: random.next(),
                compare: random.next(),
            };
            if start {
                Body::CompareSwap(eth)
            } else {
                Body::FetchAdd(eth)
            }
        }
        9 => Body::AtomicWrite(reth(random, key), None),
        10 => Body::Flush(
            Feth::from_word(random.below(0x40) as u32),
            reth(random, key),
        ),
        11 => Body::Ack(aeth(random)),
        12 => {
            let aeth = aeth(random);
            Body::ReadResponse(random.pick(&[
                ReadPart::First(aeth),
                ReadPart::Middle,
                ReadPart::Last(aeth),
                ReadPart::Only(aeth),
            ]))
        }
        _ => Body::AtomicAck(aeth(random), random.next()),
    }
}

/// A packet that keeps to the format, most of the time for the peer's next sequence numbers.
fn packet(random: &mut Random, service: Service, key: Key, psn: Psn) -> Option<Vec<u8>> {
    let body = body(random, key);
    let payload = match body {
        Body::Read(_) | Body::CompareSwap(_) | Body::FetchAdd(_) | Body::Flush(..) => 0,
        Body::Ack(_) | Body::AtomicAck(..) => 0,
        Body::AtomicWrite(..) => random.pick(&[8, 8, 8, 0, 4, 12]),
        Body::Write {
            start: Some(reth), ..
        } if random.permille(500) => reth.len.min(300),
        _ => random.pick(&[0, 1, 5, 255, 256, 256, 256, 256, 257, 300]),
    };
    let psn = match random.below(10) {
        0 => Psn::new(random.next() as u32),
        1 | 2 => psn.sub(random.below(40) as u32),
        3 => psn.add(random.below(4) as u32),
        _ => psn,
    };
    let bth = Bth {
        solicited: random.permille(100),
        migrated: random.permille(100),
        pkey: 0xffff,
        dest_qp: 18,
        ack_req: random.permille(500),
        psn,
    };
    let deth = Deth {
        qkey: 1,
        src_qp: 17,
    };
    let srq = if random.permille(20) { 3 } else { SRQ };
    let headers = HeaderBuf::new(service, &bth, Some(&deth), Some(srq), &body, payload)?;
    let mut bytes = headers.as_bytes().to_vec();
    bytes.resize(
        bytes.len() + payload as usize + usize::from(pad_len(payload)),
        0xa5,
    );
    bytes.extend(icrc(&bytes));
    Some(bytes)
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.extend((0..random.below(9)).map(|_| 0x5a)),
        _ => {
            for _ in 0..=random.below(4) {
                if !bytes.is_empty() {
                    let at = random.below(bytes.len().min(48) as u64) as usize;
                    bytes[at] = random.next() as u8;
                }
            }
        }
    }
}

/// What the parser says accounts for all bytes, and writing it gives the same headers.
pub fn check_parse(bytes: &[u8]) -> bool {
    let (parsed, label) = (Packet::parse(bytes), Label::of(bytes));
    // What is read first lets pass what is a packet, and no other.
    assert_eq!(parsed.is_ok(), label.is_ok());
    let (Ok(packet), Ok(label)) = (parsed, label) else {
        return false;
    };
    assert_eq!(
        (label.opcode, label.pkey, label.dest_qp, label.qkey),
        (
            packet.opcode,
            packet.bth.pkey,
            packet.bth.dest_qp,
            packet.deth.map(|deth| deth.qkey)
        )
    );
    let headers = usize::from(packet.headers_len);
    let payload = packet.payload_len as usize;
    let pad = usize::from(bytes[1] >> 4 & 3);
    assert_eq!(headers + payload + pad + ICRC_LEN, bytes.len());
    let again = HeaderBuf::new(
        packet.opcode.service(),
        &packet.bth,
        packet.deth.as_ref(),
        packet.xrc_srq,
        &packet.body,
        packet.payload_len,
    )
    .expect("what was parsed can be built");
    assert_eq!(again.len(), headers);
    assert_eq!(again.as_bytes()[0], bytes[0]);
    let mut reparsed = again.as_bytes().to_vec();
    reparsed.extend(&bytes[headers..]);
    let reparsed = Packet::parse(&reparsed).expect("what was built can be parsed");
    assert_eq!(reparsed, packet);
    // Only the headers are looked at, and the value of an ATOMIC WRITE.
    let head = &bytes[..bytes.len().min(MAX_HEADERS)];
    assert_eq!(Packet::parse_head(head, bytes.len()), Ok(packet));
    true
}

#[test]
fn parser() {
    let mut random = Random::new(99);
    let mut good = 0;
    for _ in 0..cases(1_000_000) {
        let service = random.pick(&[Service::Rc, Service::Uc, Service::Ud, Service::Xrc]);
        let mut bytes = match packet(&mut random, service, Key(1), Psn::new(5)) {
            Some(bytes) => bytes,
            None => (0..random.below(80)).map(|_| random.next() as u8).collect(),
        };
        if random.permille(800) {
            mutate(&mut random, &mut bytes);
        }
        good += u64::from(check_parse(&bytes));
    }
    assert!(good > cases(1_000_000) / 20, "only {good} were packets");
}

/// All opcodes with all short lengths and all pad counts: nothing short is a packet.
#[test]
fn every_opcode_and_short_length() {
    for opcode in 0..=255u8 {
        for len in 0..100 {
            for pad in 0..4u8 {
                let mut bytes = vec![0; len];
                if let [first, second, ..] = &mut bytes[..] {
                    *first = opcode;
                    *second = pad << 4;
                }
                let known = crate::wire::opcode::Opcode::from_byte(opcode);
                let least =
                    known.map(|known| BTH_LEN + known.headers_len() + usize::from(pad) + ICRC_LEN);
                if check_parse(&bytes) {
                    assert!(least.is_some_and(|least| len >= least));
                }
            }
        }
    }
}

fn own_request(random: &mut Random, id: u64, transport: Transport) -> SendWqe<Local> {
    let at = RemoteAddr {
        va: BASE,
        key: Key(0x2200),
    };
    let len = random.pick(&[0u32, 1, 256, 300, 2000]);
    let op = match (transport, random.below(8)) {
        (Transport::Ud, _) => SendOp::Datagram {
            dest_qpn: 18,
            qkey: 1,
            imm: None,
        },
        (_, 0) => SendOp::Send(SendEnd::Plain),
        (_, 1) => SendOp::Read { from: at },
        (_, 2) => SendOp::FetchAdd { at, add: 1 },
        (_, 3) => SendOp::AtomicWrite { to: at },
        (_, 4) => SendOp::Local(LocalOp::BindMw),
        (_, 5) if random.permille(50) => SendOp::Invalid(Status::LocQpOp),
        _ => SendOp::Write { to: at, imm: None },
    };
    let len = match op {
        SendOp::FetchAdd { .. } | SendOp::AtomicWrite { .. } => 8,
        _ => len,
    };
    SendWqe {
        wr_id: id,
        op,
        len,
        signaled: random.permille(700),
        solicited: false,
        fence: random.permille(100),
        xrc_srq: (transport == Transport::XrcIni).then_some(SRQ),
        local: Local {
            sges: vec![(0, len as usize)],
            id,
            bad: random.permille(5),
            capture: false,
        },
    }
}

/// One queue pair that only hears from an attacker. All choices are of `random`.
pub fn besieged(mut random: Random, packets: u64) {
    let (transport, service) = random.pick(&[
        (Transport::Rc, Service::Rc),
        (Transport::Rc, Service::Rc),
        (Transport::Rc, Service::Rc),
        (Transport::XrcIni, Service::Xrc),
        (Transport::Uc, Service::Uc),
        (Transport::Ud, Service::Ud),
    ]);
    let mut net = pair(transport, Mtu::B256, Faults::default(), 1, SIZE);
    let host = &mut net.hosts[1];
    host.world.full = random.pick(&[0, 100]);
    let (mut sent, mut posted) = (0, 0);
    for _ in 0..packets {
        if !random.has_more() {
            break;
        }
        while random.has_more() && random.permille(400) {
            let wqe = own_request(&mut random, sent, transport);
            host.world.send_queue.push_back(wqe);
            sent += 1;
        }
        if random.permille(400) {
            let len = random.pick(&[0, 39, 40, 100, 600]);
            let mut recv = receive(posted, 0, len);
            recv.local.bad = random.permille(3);
            recv.invalid = random.permille(3).then_some(Status::LocQpOp);
            host.world.recv_queue.push_back(recv);
            posted += 1;
        }
        // The consumer changes what it may.
        match random.below(200) {
            0 => host.send.drain(&mut host.world, true),
            1 | 2 if matches!(host.send.state(), SendState::Drained | SendState::SqError) => {
                host.send.start(&attrs(Mtu::B256, 17, 0x20, 0xff_fff0).1);
            }
            3 => {
                let depth = random.below(4) as usize;
                assert!(host.recv.set_resources(vec![None; depth]).is_some());
            }
            _ => (),
        }
        let psn = if random.permille(600) {
            host.recv.expected_psn()
        } else {
            host.send.next_psn().sub(random.below(20) as u32)
        };
        if let Some(mut bytes) = packet(&mut random, service, host.world.key, psn) {
            if random.permille(100) {
                mutate(&mut random, &mut bytes);
                if bytes.len() < ICRC_LEN {
                    continue;
                }
                let end = bytes.len() - ICRC_LEN;
                if end >= BTH_LEN {
                    let crc = icrc(&bytes[..end]);
                    bytes[end..].copy_from_slice(&crc);
                }
            }
            host.give(bytes);
        }
        host.world.now += random.below(100_000);
        host.send.timer(&mut host.world);
        host.work();
        host.world.wire.clear();
    }
    host.world.full = 0;
    host.send.fail(&mut host.world);
    host.recv.fail(&mut host.world);
    host.work();
    assert_eq!(host.send.state(), SendState::Error);
    assert_eq!(host.recv.state(), RecvState::Error);
    let ends: Vec<u64> = host.world.send_done.iter().map(|done| done.0).collect();
    assert_eq!(ends, (0..sent).collect::<Vec<_>>(), "requests");
    let ends: Vec<u64> = host
        .world
        .recv_done
        .iter()
        .map(|(wc, _)| wc.wr_id)
        .collect();
    assert_eq!(ends, (0..posted).collect::<Vec<_>>(), "receives");
    // After the first error nothing succeeds.
    let statuses = host.world.send_done.iter().filter_map(|done| done.1);
    let mut after = statuses.skip_while(|wc| wc.status == Status::Success);
    if transport.is_reliable() {
        after.next();
        assert!(after.all(|wc| wc.status == Status::WrFlush));
    }
}

#[test]
fn hostile_peer() {
    for seed in 0..cases(600_000) / 200 {
        println!("seed {seed}");
        besieged(Random::new(seed), 200);
    }
}
