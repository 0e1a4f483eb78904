// SPDX-License-Identifier: GPL-2.0

//! Headers of an unreliable-datagram packet, for drivers that build them in
//! software (special QPs).
//!
//! Which headers a packet has depends on the link: LRH for InfiniBand, Ethernet
//! with an optional VLAN tag for RoCE, then GRH (RoCE v1), IPv4 or IPv6 plus UDP
//! (RoCE v2), and BTH and DETH always. Each header is a table of bit fields.

use kernel::{
    bindings::{
        ib_gid,
        ib_ud_header,
        ib_unpacked_bth,
        ib_unpacked_deth,
        ib_unpacked_eth,
        ib_unpacked_grh,
        ib_unpacked_ip4,
        ib_unpacked_lrh,
        ib_unpacked_udp,
        ib_unpacked_vlan, //
    },
    prelude::*, //
};
use rdma::pack::{
    gid_bytes,
    put_bits,
    NUMBER_BITS, //
};

const LRH_BYTES: usize = 8;
const ETH_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const GRH_BYTES: usize = 40;
const IP4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const BTH_BYTES: usize = 12;
const DETH_BYTES: usize = 8;
const ICRC_BYTES: usize = 4;
const IMMEDIATE_BYTES: usize = 4;

const ETHERTYPE_VLAN: u16 = 0x8100;
const PROTOCOL_UDP: u8 = 17;
/// Next header after a GRH: an InfiniBand transport header.
const NEXT_HEADER_IBA: u8 = 0x1b;
const LNH_IBA_LOCAL: u8 = 2;
const LNH_IBA_GLOBAL: u8 = 3;
const OPCODE_UD_SEND_ONLY: u8 = 0x64;
const OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE: u8 = 0x65;

/// A header of `bytes` bytes. The build fails unless its fields are in order, do
/// not overlap, are numbers and end where the header ends.
const fn header<H, const N: usize>(bytes: usize, fields: [Bits<H>; N]) -> [Bits<H>; N] {
    let mut end = 0;
    let mut i = 0;
    while i < N {
        assert!(fields[i].0 >= end && fields[i].1 <= NUMBER_BITS);
        end = fields[i].0 + fields[i].1;
        i += 1;
    }
    assert!(end == bytes * 8);
    fields
}

/// One field of the header `H`: first bit, number of bits, and its value in
/// the unpacked form. Bits without a field are reserved and zero on the wire.
struct Bits<H>(usize, usize, fn(&H) -> u64);

const LRH: [Bits<ib_unpacked_lrh>; 7] = header(
    LRH_BYTES,
    [
        Bits(0, 4, |h| h.virtual_lane.into()),
        Bits(4, 4, |h| h.link_version.into()),
        Bits(8, 4, |h| h.service_level.into()),
        Bits(14, 2, |h| h.link_next_header.into()),
        Bits(16, 16, |h| u16::from_be(h.destination_lid).into()),
        Bits(37, 11, |h| u16::from_be(h.packet_length).into()),
        Bits(48, 16, |h| u16::from_be(h.source_lid).into()),
    ],
);

const ETH: [Bits<ib_unpacked_eth>; 5] = header(
    ETH_BYTES,
    [
        Bits(0, 32, |h| u32::from_be_bytes(h.dmac_h).into()),
        Bits(32, 16, |h| u16::from_be_bytes(h.dmac_l).into()),
        Bits(48, 16, |h| u16::from_be_bytes(h.smac_h).into()),
        Bits(64, 32, |h| u32::from_be_bytes(h.smac_l).into()),
        Bits(96, 16, |h| u16::from_be(h.type_).into()),
    ],
);

const VLAN: [Bits<ib_unpacked_vlan>; 2] = header(
    VLAN_BYTES,
    [
        Bits(0, 16, |h| u16::from_be(h.tag).into()),
        Bits(16, 16, |h| u16::from_be(h.type_).into()),
    ],
);

const GRH: [Bits<ib_unpacked_grh>; 10] = header(
    GRH_BYTES,
    [
        Bits(0, 4, |h| h.ip_version.into()),
        Bits(4, 8, |h| h.traffic_class.into()),
        Bits(12, 20, |h| u32::from_be(h.flow_label).into()),
        Bits(32, 16, |h| u16::from_be(h.payload_length).into()),
        Bits(48, 8, |h| h.next_header.into()),
        Bits(56, 8, |h| h.hop_limit.into()),
        Bits(64, 64, |h| gid_half(&h.source_gid, 0)),
        Bits(128, 64, |h| gid_half(&h.source_gid, 1)),
        Bits(192, 64, |h| gid_half(&h.destination_gid, 0)),
        Bits(256, 64, |h| gid_half(&h.destination_gid, 1)),
    ],
);

const IP4: [Bits<ib_unpacked_ip4>; 11] = header(
    IP4_BYTES,
    [
        Bits(0, 4, |h| h.ver.into()),
        Bits(4, 4, |h| h.hdr_len.into()),
        Bits(8, 8, |h| h.tos.into()),
        Bits(16, 16, |h| u16::from_be(h.tot_len).into()),
        Bits(32, 16, |h| u16::from_be(h.id).into()),
        Bits(48, 16, |h| u16::from_be(h.frag_off).into()),
        Bits(64, 8, |h| h.ttl.into()),
        Bits(72, 8, |h| h.protocol.into()),
        Bits(80, 16, |h| u16::from_be(h.check).into()),
        Bits(96, 32, |h| u32::from_be(h.saddr).into()),
        Bits(128, 32, |h| u32::from_be(h.daddr).into()),
    ],
);

const UDP: [Bits<ib_unpacked_udp>; 4] = header(
    UDP_BYTES,
    [
        Bits(0, 16, |h| u16::from_be(h.sport).into()),
        Bits(16, 16, |h| u16::from_be(h.dport).into()),
        Bits(32, 16, |h| u16::from_be(h.length).into()),
        Bits(48, 16, |h| u16::from_be(h.csum).into()),
    ],
);

const BTH: [Bits<ib_unpacked_bth>; 9] = header(
    BTH_BYTES,
    [
        Bits(0, 8, |h| h.opcode.into()),
        Bits(8, 1, |h| h.solicited_event.into()),
        Bits(9, 1, |h| h.mig_req.into()),
        Bits(10, 2, |h| h.pad_count.into()),
        Bits(12, 4, |h| h.transport_header_version.into()),
        Bits(16, 16, |h| u16::from_be(h.pkey).into()),
        Bits(40, 24, |h| u32::from_be(h.destination_qpn).into()),
        Bits(64, 1, |h| h.ack_req.into()),
        Bits(72, 24, |h| u32::from_be(h.psn).into()),
    ],
);

const DETH: [Bits<ib_unpacked_deth>; 2] = header(
    DETH_BYTES,
    [
        Bits(0, 32, |h| u32::from_be(h.qkey).into()),
        Bits(40, 24, |h| u32::from_be(h.source_qpn).into()),
    ],
);

fn gid_half(gid: &ib_gid, half: usize) -> u64 {
    gid_bytes(gid)
        .iter()
        .skip(half * 8)
        .take(8)
        .fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

/// What a packet consists of.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes after the headers, without padding and ICRC.
    pub(crate) payload_bytes: i32,
    /// Local route header.
    pub(crate) lrh: bool,
    /// Ethernet header.
    pub(crate) eth: bool,
    /// VLAN tag.
    pub(crate) vlan: bool,
    /// Global route header. Ignored if there is an IP header.
    pub(crate) grh: bool,
    /// Version of the IP header, 0 for none.
    pub(crate) ip_version: i32,
    /// UDP header.
    pub(crate) udp: bool,
    /// Immediate data.
    pub(crate) immediate: bool,
}

impl Shape {
    /// Payload plus `headers`, cut to the size of a length field. Drivers pass
    /// payloads that fit.
    fn length(&self, headers: usize) -> u32 {
        // Header sums are far below the limits of i32.
        self.payload_bytes.wrapping_add(headers as i32) as u32
    }
}

/// Resets `header` and presets what follows from the `shape` of the packet.
///
/// Addresses, keys, numbers and the present flags of the other headers are for
/// the caller to fill in. UDP needs an IP header: `EINVAL` otherwise.
pub(crate) fn init(header: &mut ib_ud_header, shape: Shape) -> Result {
    *header = pin_init::zeroed();

    let ip4 = shape.ip_version == 4;
    let ip6 = shape.ip_version == 6;
    if shape.udp && !ip4 && !ip6 {
        return Err(EINVAL);
    }
    let grh = shape.grh && shape.ip_version == 0;
    let udp_bytes = if shape.udp { UDP_BYTES } else { 0 };
    let transport_bytes = BTH_BYTES + DETH_BYTES + ICRC_BYTES;

    if shape.lrh {
        let grh_bytes = if grh { GRH_BYTES } else { 0 };
        let bytes = shape.length(LRH_BYTES + grh_bytes + transport_bytes + 3);
        header.lrh.link_next_header = if grh { LNH_IBA_GLOBAL } else { LNH_IBA_LOCAL };
        // In words.
        header.lrh.packet_length = ((bytes / 4) as u16).to_be();
    }
    if shape.vlan {
        header.eth.type_ = ETHERTYPE_VLAN.to_be();
    }
    if ip6 || grh {
        let bytes = shape.length(udp_bytes + transport_bytes + 3) & !3;
        header.grh.ip_version = 6;
        header.grh.payload_length = (bytes as u16).to_be();
        header.grh.next_header = if shape.udp {
            PROTOCOL_UDP
        } else {
            NEXT_HEADER_IBA
        };
    }
    if ip4 {
        let bytes = shape.length(IP4_BYTES + udp_bytes + transport_bytes);
        header.ip4.ver = 4;
        header.ip4.hdr_len = (IP4_BYTES / 4) as u8;
        header.ip4.tot_len = (bytes as u16).to_be();
        header.ip4.protocol = PROTOCOL_UDP;
    }
    if shape.udp {
        header.udp.length = (shape.length(UDP_BYTES + transport_bytes) as u16).to_be();
    }
    header.bth.opcode = if shape.immediate {
        OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE
    } else {
        OPCODE_UD_SEND_ONLY
    };
    header.bth.pad_count = (shape.payload_bytes.wrapping_neg() & 3) as u8;

    header.lrh_present = shape.lrh.into();
    header.eth_present = shape.eth.into();
    header.vlan_present = shape.vlan.into();
    header.grh_present = (grh || ip6).into();
    header.ipv4_present = ip4.into();
    header.udp_present = shape.udp.into();
    header.immediate_present = shape.immediate.into();
    Ok(())
}

/// Bytes of the headers that `header` says are present.
pub(crate) fn packed_len(header: &ib_ud_header) -> usize {
    [
        (header.lrh_present, LRH_BYTES),
        (header.eth_present, ETH_BYTES),
        (header.vlan_present, VLAN_BYTES),
        (header.grh_present, GRH_BYTES),
        (header.ipv4_present, IP4_BYTES),
        (header.udp_present, UDP_BYTES),
        (1, BTH_BYTES),
        (1, DETH_BYTES),
        (header.immediate_present, IMMEDIATE_BYTES),
    ]
    .iter()
    .filter(|(present, _)| *present != 0)
    .map(|(_, bytes)| bytes)
    .sum()
}

/// Writes the present headers to `wire`, which is [`packed_len`] bytes long.
///
/// Returns the number of bytes written.
pub(crate) fn pack(header: &ib_ud_header, wire: &mut [u8]) -> usize {
    let mut out = Writer { wire, len: 0 };
    if header.lrh_present != 0 {
        out.put::<LRH_BYTES, _>(&LRH, &header.lrh);
    }
    if header.eth_present != 0 {
        out.put::<ETH_BYTES, _>(&ETH, &header.eth);
    }
    if header.vlan_present != 0 {
        out.put::<VLAN_BYTES, _>(&VLAN, &header.vlan);
    }
    if header.grh_present != 0 {
        out.put::<GRH_BYTES, _>(&GRH, &header.grh);
    }
    if header.ipv4_present != 0 {
        out.put::<IP4_BYTES, _>(&IP4, &header.ip4);
    }
    if header.udp_present != 0 {
        out.put::<UDP_BYTES, _>(&UDP, &header.udp);
    }
    out.put::<BTH_BYTES, _>(&BTH, &header.bth);
    out.put::<DETH_BYTES, _>(&DETH, &header.deth);
    if header.immediate_present != 0 {
        // Kept in network byte order.
        out.bytes(&header.immediate_data.to_ne_bytes());
    }
    out.len
}

struct Writer<'a> {
    wire: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put<const N: usize, H>(&mut self, fields: &[Bits<H>], header: &H) {
        self.bytes(&packed::<N, H>(fields, header));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(room) = self.wire.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }
}

/// The wire form of one header.
fn packed<const N: usize, H>(fields: &[Bits<H>], header: &H) -> [u8; N] {
    let mut wire = [0; N];
    for Bits(first, size, value) in fields {
        // The fields lie within their header, see `header`.
        let _ = put_bits(&mut wire, *first, *size, value(header));
    }
    wire
}

/// Checksum of the IPv4 header, in network byte order: always of a header of
/// five words, whatever `hdr_len` says, and as if `check` were zero.
pub(crate) fn ip4_checksum(ip4: &ib_unpacked_ip4) -> u16 {
    let header = ib_unpacked_ip4 {
        ver: 4,
        hdr_len: (IP4_BYTES / 4) as u8,
        check: 0,
        ..*ip4
    };
    let wire = packed::<IP4_BYTES, _>(&IP4, &header);
    let sum = wire
        .chunks_exact(2)
        .map(|pair| {
            pair.iter()
                .fold(0, |word, byte| (word << 8) | u32::from(*byte))
        })
        .sum::<u32>();
    // Ten words: two folds are enough.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_be()
}

#[kunit_tests(rust_ib_core_ud_header)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            payload_bytes: 256,
            lrh: true,
            eth: false,
            vlan: false,
            grh: false,
            ip_version: 0,
            udp: false,
            immediate: false,
        }
    }

    #[test]
    fn ib_packet() -> Result {
        let mut header: ib_ud_header = pin_init::zeroed();
        init(&mut header, shape())?;
        header.lrh.service_level = 3;
        header.lrh.destination_lid = 0x1234u16.to_be();
        header.deth.source_qpn = 1u32.to_be();
        assert_eq!(packed_len(&header), LRH_BYTES + BTH_BYTES + DETH_BYTES);
        let mut wire = [0xaa; 28];
        assert_eq!(pack(&header, &mut wire), 28);
        assert_eq!(wire[..4], [0x00, 0x32, 0x12, 0x34]);
        // (8 + 12 + 8 + 256 + 4) / 4 words.
        assert_eq!(wire[4..8], [0, 72, 0, 0]);
        assert_eq!(wire[8], 0x64);
        assert_eq!(wire[24..], [0, 0, 0, 1]);
        Ok(())
    }

    #[test]
    fn udp_needs_ip() {
        let mut header: ib_ud_header = pin_init::zeroed();
        let udp = Shape {
            udp: true,
            ..shape()
        };
        assert!(init(&mut header, udp).is_err());
        assert!(init(
            &mut header,
            Shape {
                ip_version: 5,
                ..udp
            }
        )
        .is_err());
        assert!(init(
            &mut header,
            Shape {
                ip_version: 6,
                ..udp
            }
        )
        .is_ok());
    }

    #[test]
    fn checksum_of_rfc1071_style_header() {
        let mut ip4: ib_unpacked_ip4 = pin_init::zeroed();
        ip4.tot_len = 0x0073u16.to_be();
        ip4.frag_off = 0x4000u16.to_be();
        ip4.ttl = 0x40;
        ip4.protocol = PROTOCOL_UDP;
        ip4.check = 0x1111;
        ip4.saddr = 0xc0a8_0001u32.to_be();
        ip4.daddr = 0xc0a8_00c7u32.to_be();
        assert_eq!(u16::from_be(ip4_checksum(&ip4)), 0xb861);
    }
}
