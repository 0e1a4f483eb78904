// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC (IBTA vol. 1, 7.8.1; RoCEv2: annex A17): over everything that no router
//! changes. What may change on the way counts as ones.

use super::packet::BTH_LEN;

/// CRC-32 of the little-endian kind (polynomial 0xedb88320), without inversion at either end: the
/// kernel's `crc32_le`.
pub(crate) trait Crc32 {
    /// Continues `crc` over `bytes`.
    fn update(crc: u32, bytes: &[u8]) -> u32;
}

/// CRC of the eight bytes of ones that stand for the local route header, from a seed of ones.
const AFTER_LRH: u32 = 0xdebb_20e3;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// The network header in front of a packet. Both kinds are without options or extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetworkHeader<'a> {
    /// IPv4.
    V4(&'a [u8; IPV4_LEN]),
    /// IPv6.
    V6(&'a [u8; IPV6_LEN]),
}

/// A CRC in progress: started with the headers, then fed with what follows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Icrc(u32);

impl Icrc {
    /// Over the network header, the UDP header and the base transport header.
    pub(crate) fn start<C: Crc32>(
        network: NetworkHeader<'_>,
        udp: &[u8; UDP_LEN],
        bth: &[u8; BTH_LEN],
    ) -> Self {
        let mut crc = AFTER_LRH;
        match network {
            NetworkHeader::V4(ip) => {
                let mut ip = *ip;
                ip[1] = 0xff; // type of service
                ip[8] = 0xff; // time to live
                ip[10] = 0xff; // checksum
                ip[11] = 0xff;
                crc = C::update(crc, &ip);
            }
            NetworkHeader::V6(ip) => {
                let mut ip = *ip;
                ip[0] |= 0x0f; // traffic class and flow label
                ip[1] = 0xff;
                ip[2] = 0xff;
                ip[3] = 0xff;
                ip[7] = 0xff; // hop limit
                crc = C::update(crc, &ip);
            }
        }
        let mut rest = [0; UDP_LEN + BTH_LEN];
        let (to_udp, to_bth) = rest.split_at_mut(UDP_LEN);
        to_udp.copy_from_slice(udp);
        to_bth.copy_from_slice(bth);
        rest[6] = 0xff; // UDP checksum
        rest[7] = 0xff;
        rest[UDP_LEN + 4] = 0xff; // congestion bits and reserved
        Self(C::update(crc, &rest))
    }

    /// Continues over extended headers, payload and padding.
    pub(crate) fn update<C: Crc32>(self, bytes: &[u8]) -> Self {
        Self(C::update(self.0, bytes))
    }

    /// The last four bytes of the packet.
    pub(crate) const fn finish(self) -> [u8; 4] {
        (!self.0).to_le_bytes()
    }
}

/// RC FLUSH.
const FLUSH: u8 = 0x1c;

/// The CRC of a packet that is sent. `covered` is the packet from the base transport header to the
/// padding. `None` if it is shorter than that header.
///
/// A FLUSH is special: all of Linux' drivers that know it take the transport headers a second time
/// as its payload, which it does not have, and drop what the specification says. They are the ones
/// to talk to, so it is sent as they expect it.
pub(crate) fn of_packet<C: Crc32>(
    network: NetworkHeader<'_>,
    udp: &[u8; UDP_LEN],
    covered: &[u8],
) -> Option<[u8; 4]> {
    let crc = by_specification::<C>(network, udp, covered)?;
    Some(match covered.first() {
        Some(&FLUSH) => crc.update::<C>(covered).finish(),
        _ => crc.finish(),
    })
}

/// Whether the CRC at the end of a received packet (from the base transport header on) is right.
/// That of a FLUSH may be either of the two.
pub(crate) fn check<C: Crc32>(
    network: NetworkHeader<'_>,
    udp: &[u8; UDP_LEN],
    packet: &[u8],
) -> bool {
    let Some((covered, icrc)) = packet.split_last_chunk::<4>() else {
        return false;
    };
    let Some(crc) = by_specification::<C>(network, udp, covered) else {
        return false;
    };
    crc.finish() == *icrc
        || (covered.first() == Some(&FLUSH) && crc.update::<C>(covered).finish() == *icrc)
}

fn by_specification<C: Crc32>(
    network: NetworkHeader<'_>,
    udp: &[u8; UDP_LEN],
    covered: &[u8],
) -> Option<Icrc> {
    let (bth, rest) = covered.split_first_chunk::<BTH_LEN>()?;
    Some(Icrc::start::<C>(network, udp, bth).update::<C>(rest))
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_icrc))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    /// The CRC bit by bit: slow, but a second opinion.
    struct BitCrc;

    impl Crc32 for BitCrc {
        fn update(crc: u32, bytes: &[u8]) -> u32 {
            bytes.iter().fold(crc, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 }
                })
            })
        }
    }

    const IPV4: [u8; 20] = [
        0x45, 0x20, 0x00, 0x34, 0xfa, 0xd2, 0x40, 0x00, 0x40, 0x11, 0x2b, 0xb2, 0x0a, 0x09, 0x00,
        0x01, 0x0a, 0x09, 0x00, 0x02,
    ];
    const UDP: [u8; 8] = [0xc1, 0x21, 0x12, 0xb7, 0x00, 0x20, 0x00, 0x00];
    /// RC SEND only, 5 bytes.
    const BTH: [u8; 12] = [
        0x04, 0x30, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0xff, 0xff, 0xf2,
    ];
    const PAYLOAD: [u8; 8] = [0x00, 0x07, 0x0e, 0x15, 0x1c, 0x00, 0x00, 0x00];

    #[test]
    fn a_packet_of_ipv4() {
        let start = Icrc::start::<BitCrc>(NetworkHeader::V4(&IPV4), &UDP, &BTH);
        let whole = start.update::<BitCrc>(&PAYLOAD);
        assert_eq!(whole.finish(), [0x97, 0x51, 0x0f, 0xec]);
        // In pieces, as a copy loop does it.
        let pieces = start.update::<BitCrc>(&PAYLOAD[..3]);
        assert_eq!(pieces.update::<BitCrc>(&PAYLOAD[3..]), whole);
    }

    #[test]
    fn what_routers_change_does_not_count() {
        let before = Icrc::start::<BitCrc>(NetworkHeader::V4(&IPV4), &UDP, &BTH);
        let (mut ip, mut udp, mut bth) = (IPV4, UDP, BTH);
        for (place, byte) in ip.iter_mut().enumerate() {
            if [1, 8, 10, 11].contains(&place) {
                *byte ^= 0x5a;
            }
        }
        udp[6] = 1;
        bth[4] = 0xc0;
        let after = Icrc::start::<BitCrc>(NetworkHeader::V4(&ip), &udp, &bth);
        assert_eq!(before, after);
        ip[19] ^= 1;
        let other = Icrc::start::<BitCrc>(NetworkHeader::V4(&ip), &udp, &bth);
        assert!(before != other);
    }

    #[test]
    fn a_packet_of_ipv6() {
        let mut ip = [0; 40];
        ip[0] = 0x62;
        ip[5] = 0x20;
        ip[6] = 0x11;
        ip[7] = 0x40;
        for (place, last) in [(8, 1), (24, 2)] {
            ip[place] = 0xfd;
            ip[place + 3] = 0x09;
            ip[place + 15] = last;
        }
        let udp = [0xe3, 0x41, 0x12, 0xb7, 0x00, 0x20, 0x00, 0x00];
        let mut bth = BTH;
        bth[7] = 0x17;
        let crc = Icrc::start::<BitCrc>(NetworkHeader::V6(&ip), &udp, &bth);
        let crc = crc.update::<BitCrc>(&PAYLOAD);
        assert_eq!(crc.finish(), [0x60, 0x21, 0xff, 0x19]);
        ip[1] = 0x7f;
        ip[7] = 3;
        let other = Icrc::start::<BitCrc>(NetworkHeader::V6(&ip), &udp, &bth);
        assert_eq!(other.update::<BitCrc>(&PAYLOAD), crc);
    }

    #[test]
    fn a_flush_may_have_either() {
        let udp = [0xc1, 0x21, 0x12, 0xb7, 0x00, 0x2c, 0x00, 0x00];
        let ip = [
            0x45, 0x20, 0x00, 0x40, 0xcb, 0x61, 0x40, 0x00, 0x40, 0x11, 0x5b, 0x17, 0x0a, 0x09,
            0x00, 0x01, 0x0a, 0x09, 0x00, 0x02,
        ];
        let ip = NetworkHeader::V4(&ip);
        let mut packet = [
            0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00, 0x0b, // BTH
            0x00, 0x00, 0x00, 0x01, // FETH
            0x00, 0x00, 0x00, 0x00, 0x1b, 0x85, 0xb0, 0x40, 0x00, 0x00, 0x02, 0x32, 0x00, 0x00,
            0x02, 0x00, // RETH
            0xbc, 0x12, 0x27, 0xbc,
        ];
        let covered = &packet[..32];
        assert_eq!(
            of_packet::<BitCrc>(ip, &udp, covered),
            Some([0xbc, 0x12, 0x27, 0xbc])
        );
        assert!(check::<BitCrc>(ip, &udp, &packet));
        let plain = by_specification::<BitCrc>(ip, &udp, covered).map(Icrc::finish);
        packet[32..].copy_from_slice(&plain.unwrap_or_default());
        assert!(check::<BitCrc>(ip, &udp, &packet));
        packet[31] ^= 1;
        assert!(!check::<BitCrc>(ip, &udp, &packet));
        assert!(!check::<BitCrc>(ip, &udp, &packet[..15]));
        // Of others only one is right.
        packet[0] = 0x0c;
        let twice = by_specification::<BitCrc>(ip, &udp, &packet[..32])
            .map(|crc| crc.update::<BitCrc>(&packet[..32]).finish());
        packet[32..].copy_from_slice(&twice.unwrap_or_default());
        assert!(!check::<BitCrc>(ip, &udp, &packet));
    }

    #[test]
    fn the_absent_header_is_eight_ones() {
        assert_eq!(BitCrc::update(0xffff_ffff, &[0xff; 8]), AFTER_LRH);
    }
}
