// SPDX-License-Identifier: GPL-2.0

//! Packets captured between two devices of the kernel's own driver: parsed, written again and
//! checked bit for bit; and what our requester and responder make of the same requests.

use crate::proto::attrs::{Mtu, Transport};
use crate::proto::env::AccessError;
use crate::proto::recv::{RecvSide, Resource};
use crate::proto::send::SendSide;
use crate::proto::testing::{recv_attrs, send_attrs, TestEnv};
use crate::proto::wr::*;
use crate::sim::{Local, TableCrc, World};
use crate::wire::build::HeaderBuf;
use crate::wire::icrc::{check, seal, NetworkHeader};
use crate::wire::opcode::{Opcode, Service};
use crate::wire::packet::*;
use std::collections::{HashMap, HashSet};

struct Vector {
    label: String,
    /// From the IP header on.
    bytes: Vec<u8>,
    /// Where the base transport header is.
    bth: usize,
    packet: Packet,
}

impl Vector {
    fn transport(&self) -> &[u8] {
        &self.bytes[self.bth..]
    }

    /// The packet up to the CRC.
    fn covered(&self) -> &[u8] {
        &self.bytes[self.bth..self.bytes.len() - ICRC_LEN]
    }

    fn payload(&self) -> &[u8] {
        let start = usize::from(self.packet.headers_len);
        &self.transport()[start..start + self.packet.payload_len as usize]
    }

    /// The CRC as we send it, and whether we take what was captured.
    fn icrc(&self) -> (Option<[u8; 4]>, bool) {
        let (ip, rest) = self.bytes.split_at(self.bth - 8);
        let network = match ip.len() {
            20 => NetworkHeader::V4(ip.try_into().unwrap()),
            _ => NetworkHeader::V6(ip.try_into().unwrap()),
        };
        let udp = rest[..8].try_into().unwrap();
        let mut sealed = self.bytes.clone();
        sealed.last_chunk_mut::<ICRC_LEN>().unwrap().fill(0);
        let done = seal::<TableCrc>(ip.len() == 40, &mut sealed);
        assert_eq!(
            sealed[..sealed.len() - ICRC_LEN],
            self.bytes[..sealed.len() - ICRC_LEN]
        );
        (
            done.and_then(|()| sealed.last_chunk().copied()),
            check::<TableCrc>(network, udp, self.transport()),
        )
    }
}

fn vectors() -> Vec<Vector> {
    include_str!("vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (label, hex) = line.split_once('\t').unwrap();
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let bth = 8 + if bytes[0] >> 4 == 4 { 20 } else { 40 };
            Vector {
                label: label.to_string(),
                packet: Packet::parse(&bytes[bth..]).expect(label),
                bytes,
                bth,
            }
        })
        .collect()
}

#[test]
fn captured_packets_bit_for_bit() {
    let mut opcodes = HashSet::new();
    for vector in vectors() {
        let packet = &vector.packet;
        let covered = vector.covered();
        let headers = HeaderBuf::new(
            packet.opcode.service(),
            &packet.bth,
            packet.deth.as_ref(),
            None,
            &packet.body,
            packet.payload_len,
        )
        .unwrap();
        let mut again = headers.as_bytes().to_vec();
        again.extend(vector.payload());
        again.resize(again.len() + usize::from(pad_len(packet.payload_len)), 0);
        assert_eq!(again, covered, "{}", vector.label);
        let captured = vector.bytes.last_chunk().copied();
        assert_eq!(vector.icrc(), (captured, true), "{}", vector.label);
        opcodes.insert(packet.opcode.to_byte());
    }
    // All that the driver sends.
    for byte in 0..=255u8 {
        if let Some(opcode) = Opcode::from_byte(byte) {
            let seen = opcodes.contains(&byte);
            assert_eq!(seen, opcode.service() != Service::Xrc, "{opcode:?}");
        }
    }
}

/// The request that made these packets.
fn request(packets: &[&Vector]) -> (SendWqe<Local>, Vec<u8>) {
    let first = packets[0];
    let last = packets[packets.len() - 1];
    let at = |reth: crate::wire::ext::Reth| RemoteAddr {
        va: reth.va,
        key: reth.key,
    };
    let payload: Vec<u8> = packets.iter().flat_map(|p| p.payload()).copied().collect();
    let mut len = payload.len() as u32;
    let op = match (first.packet.body, last.packet.body, first.packet.deth) {
        (Body::Send { .. }, Body::Send { end, .. }, None) => SendOp::Send(end.unwrap()),
        (Body::Send { end, .. }, _, Some(deth)) => SendOp::Datagram {
            dest_qpn: first.packet.bth.dest_qp,
            qkey: deth.qkey,
            imm: match end {
                Some(SendEnd::Imm(imm)) => Some(imm),
                _ => None,
            },
        },
        (Body::Write { start, .. }, Body::Write { end, .. }, _) => SendOp::Write {
            to: at(start.unwrap()),
            imm: match end {
                Some(WriteEnd::Imm(imm)) => Some(imm),
                _ => None,
            },
        },
        (Body::Read(reth), ..) => {
            len = reth.len;
            SendOp::Read { from: at(reth) }
        }
        (Body::CompareSwap(eth), ..) => SendOp::CompareSwap {
            at: RemoteAddr {
                va: eth.va,
                key: eth.key,
            },
            compare: eth.compare,
            swap: eth.swap_add,
        },
        (Body::FetchAdd(eth), ..) => SendOp::FetchAdd {
            at: RemoteAddr {
                va: eth.va,
                key: eth.key,
            },
            add: eth.swap_add,
        },
        (Body::AtomicWrite(reth, _), ..) => SendOp::AtomicWrite { to: at(reth) },
        (Body::Flush(how, reth), ..) => {
            len = reth.len;
            SendOp::Flush {
                at: at(reth),
                how: how.unwrap(),
            }
        }
        other => panic!("{other:?}"),
    };
    let wqe = SendWqe {
        wr_id: 0,
        op,
        len,
        signaled: true,
        solicited: last.packet.bth.solicited,
        fence: false,
        xrc_srq: None,
        local: Local {
            sges: vec![(0, payload.len())],
            id: 0,
            bad: false,
            capture: false,
        },
    };
    (wqe, payload)
}

#[test]
fn our_requester_sends_the_same() {
    let vectors = vectors();
    let mut compared = 0;
    for group in vectors.chunk_by(|a, b| a.label == b.label) {
        // Each once: some were sent again.
        let mut seen = HashSet::new();
        let requests: Vec<&Vector> = group
            .iter()
            .filter(|vector| vector.packet.opcode.is_request())
            .filter(|vector| seen.insert(vector.packet.bth.psn.get()))
            .collect();
        let first = &requests[0].packet;
        let (wqe, payload) = request(&requests);
        let mut world = World::new(0, 1, 1);
        world.memory = payload;
        world.send_queue.push_back(wqe);
        let (transport, qpn) = match first.opcode.service() {
            Service::Uc => (Transport::Uc, 0),
            Service::Ud => (Transport::Ud, first.deth.unwrap().src_qp),
            _ => (Transport::Rc, 0),
        };
        let mut attrs = send_attrs(first.bth.psn.get());
        attrs.dest_qpn = first.bth.dest_qp;
        attrs.mtu = Mtu::B256;
        let mut side = SendSide::new(transport, qpn, vec![None]);
        side.start(&attrs);
        side.run(&mut world, 1000);
        let sent: Vec<&[u8]> = world
            .wire
            .iter()
            .map(|bytes| &bytes[..bytes.len() - ICRC_LEN])
            .collect();
        let captured: Vec<&[u8]> = requests.iter().map(|vector| vector.covered()).collect();
        assert_eq!(sent, captured, "{}", group[0].label);
        compared += sent.len();
    }
    assert!(compared > 75, "only {compared} packets");
}

#[test]
fn our_responder_answers_the_same() {
    let vectors = vectors();
    let mut sides = HashMap::new();
    let mut compared = 0;
    for group in vectors.chunk_by(|a, b| a.label == b.label) {
        let label = &group[0].label;
        // Of IPv6 only some packets are kept.
        if !label.starts_with("rc4") {
            continue;
        }
        let qpn = group
            .iter()
            .find(|vector| vector.packet.opcode.is_request())
            .map(|vector| vector.packet.bth.dest_qp);
        let mut env = TestEnv::new();
        let side = sides.entry(qpn).or_insert_with(|| {
            let mut side = RecvSide::new(Transport::Rc, 0, false);
            side.start(&recv_attrs(0xff_fff0), vec![None::<Resource>; 4]);
            side
        });
        if !label.ends_with("rnr") {
            env.receive(1, 4096);
        }
        if label.ends_with("bad rkey") {
            env.denied = Some(AccessError::Denied);
        }
        let mut answers = Vec::new();
        for vector in group {
            let packet = &vector.packet;
            if packet.opcode.is_request() {
                let _ = side.input(&mut env, packet, &packet.payload_len);
                side.run(&mut env, 1000);
                while let Some(sent) = env.sent.pop() {
                    answers.push((sent.op, sent.psn, sent.len, sent.body));
                }
            }
        }
        let captured: Vec<_> = group
            .iter()
            .map(|vector| &vector.packet)
            .filter(|packet| !packet.opcode.is_request())
            .map(|packet| {
                let op = packet.opcode.op();
                (op, packet.bth.psn.get(), packet.payload_len, packet.body)
            })
            .collect();
        // What the memory held is not in the capture.
        let known = |answer: &(_, u32, u32, Body)| match answer.3 {
            Body::AtomicAck(aeth, _) => (answer.0, answer.1, answer.2, Body::Ack(aeth)),
            _ => *answer,
        };
        let answers: Vec<_> = answers.iter().map(known).collect();
        let captured: Vec<_> = captured.iter().map(known).collect();
        // The driver acknowledges a message whose key it could not invalidate.
        if !label.contains("send_inv") {
            assert_eq!(answers, captured, "{label}");
            compared += answers.len();
        }
    }
    assert!(compared > 25, "only {compared} answers");
}
