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

/// Bytes up to the end of the base transport header.
const HEAD_V4: usize = IPV4_LEN + UDP_LEN + BTH_LEN;
const HEAD_V6: usize = IPV6_LEN + UDP_LEN + BTH_LEN;

/// Network header (`IP` bytes), UDP header and base transport header in a row, `N` bytes.
fn join<const IP: usize, const N: usize>(
    ip: &[u8; IP],
    udp: &[u8; UDP_LEN],
    bth: &[u8; BTH_LEN],
) -> [u8; N] {
    const { assert!(IP + UDP_LEN + BTH_LEN == N) };
    let mut head = [0; N];
    head[..IP].copy_from_slice(ip);
    head[IP..IP + UDP_LEN].copy_from_slice(udp);
    head[IP + UDP_LEN..].copy_from_slice(bth);
    head
}

/// Puts ones where something may change on the way; returns what was there.
fn mask_v4(head: &mut [u8; HEAD_V4]) -> [u8; 7] {
    let saved = [
        head[1], head[8], head[10], head[11], head[26], head[27], head[32],
    ];
    put_v4(head, [0xff; 7]);
    saved
}

/// Type of service, time to live, both bytes of the checksum and of that of UDP, congestion bits.
fn put_v4(head: &mut [u8; HEAD_V4], bytes: [u8; 7]) {
    [
        head[1], head[8], head[10], head[11], head[26], head[27], head[32],
    ] = bytes;
}

/// As [`mask_v4`].
fn mask_v6(head: &mut [u8; HEAD_V6]) -> [u8; 8] {
    let saved = [
        head[0], head[1], head[2], head[3], head[7], head[46], head[47], head[52],
    ];
    let first = saved[0] | 0x0f;
    put_v6(head, [first, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    saved
}

/// Traffic class and flow label, hop limit, both bytes of the checksum of UDP, congestion bits.
fn put_v6(head: &mut [u8; HEAD_V6], bytes: [u8; 8]) {
    [
        head[0], head[1], head[2], head[3], head[7], head[46], head[47], head[52],
    ] = bytes;
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
        let crc = match network {
            NetworkHeader::V4(ip) => {
                let mut head: [u8; HEAD_V4] = join(ip, udp, bth);
                mask_v4(&mut head);
                C::update(AFTER_LRH, &head)
            }
            NetworkHeader::V6(ip) => {
                let mut head: [u8; HEAD_V6] = join(ip, udp, bth);
                mask_v6(&mut head);
                C::update(AFTER_LRH, &head)
            }
        };
        Self(crc)
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

/// Writes the CRC of a packet that is sent into its last four bytes. `packet` is all of it, from
/// the network header on. `None` if it is too short for its headers.
///
/// One walk over memory is enough, as what may change on the way is made ones for that time.
///
/// A FLUSH is special: all of Linux' drivers that know it take the transport headers a second time
/// as its payload, which it does not have, and drop what the specification says. They are the ones
/// to talk to, so it is sent as they expect it.
pub(crate) fn seal<C: Crc32>(is_v6: bool, packet: &mut [u8]) -> Option<()> {
    let (covered, icrc) = packet.split_last_chunk_mut::<4>()?;
    let crc = in_place::<C>(is_v6, covered)?;
    let transport = transport(is_v6, covered)?;
    *icrc = match transport.first() {
        Some(&FLUSH) => crc.update::<C>(transport).finish(),
        _ => crc.finish(),
    };
    Some(())
}

/// The CRC of a packet without its last four bytes, from the network header on.
#[inline]
fn in_place<C: Crc32>(is_v6: bool, covered: &mut [u8]) -> Option<Icrc> {
    let crc = if is_v6 {
        let saved = mask_v6(covered.first_chunk_mut()?);
        let crc = C::update(AFTER_LRH, covered);
        put_v6(covered.first_chunk_mut()?, saved);
        crc
    } else {
        let saved = mask_v4(covered.first_chunk_mut()?);
        let crc = C::update(AFTER_LRH, covered);
        put_v4(covered.first_chunk_mut()?, saved);
        crc
    };
    Some(Icrc(crc))
}

/// What follows the UDP header.
#[inline]
fn transport(is_v6: bool, packet: &[u8]) -> Option<&[u8]> {
    packet.get(if is_v6 { IPV6_LEN } else { IPV4_LEN } + UDP_LEN..)
}

/// As [`check`], of a packet that nobody else looks at: in one walk, as [`seal`].
pub(crate) fn check_in_place<C: Crc32>(is_v6: bool, packet: &mut [u8]) -> bool {
    let Some((covered, icrc)) = packet.split_last_chunk_mut::<4>() else {
        return false;
    };
    let Some(crc) = in_place::<C>(is_v6, covered) else {
        return false;
    };
    if crc.finish() == *icrc {
        return true;
    }
    transport(is_v6, covered).is_some_and(|transport| {
        transport.first() == Some(&FLUSH) && crc.update::<C>(transport).finish() == *icrc
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

    /// What is computed in place is what is computed of parts, and the headers stay as they are.
    #[test]
    fn sealing_in_place_leaves_all_but_the_end() {
        let udp = [0xe3, 0x41, 0x12, 0xb7, 0x00, 0x20, 0x12, 0x34];
        for (is_v6, opcode) in [(false, 0x04), (true, 0x04), (false, FLUSH), (true, FLUSH)] {
            let below = if is_v6 { IPV6_LEN } else { IPV4_LEN };
            let mut packet = [0; IPV6_LEN + UDP_LEN + BTH_LEN + 20 + 4];
            for (value, byte) in (3..).zip(&mut packet) {
                *byte = value;
            }
            packet[below..below + UDP_LEN].copy_from_slice(&udp);
            packet[below + UDP_LEN] = opcode;
            let mut bytes = packet;
            assert!(seal::<BitCrc>(is_v6, &mut bytes).is_some());
            let (covered, icrc) = bytes.split_at(packet.len() - 4);
            assert_eq!(covered, &packet[..packet.len() - 4]);
            let ip = &packet[..below];
            let network = match (ip.try_into(), ip.try_into()) {
                (Ok(ip), _) => NetworkHeader::V4(ip),
                (_, Ok(ip)) => NetworkHeader::V6(ip),
                _ => return,
            };
            let transport = &covered[below + UDP_LEN..];
            let mut crc = by_specification::<BitCrc>(network, &udp, transport);
            if opcode == FLUSH {
                crc = crc.map(|crc| crc.update::<BitCrc>(transport));
            }
            assert_eq!(
                crc.map(Icrc::finish).as_ref().map(|crc| &crc[..]),
                Some(icrc)
            );
            assert!(check::<BitCrc>(network, &udp, &bytes[below + UDP_LEN..]));
        }
        assert!(seal::<BitCrc>(false, &mut [0; HEAD_V4 + 3]).is_none());
        assert!(seal::<BitCrc>(true, &mut [0; HEAD_V6 + 3]).is_none());
    }

    #[test]
    fn a_flush_may_have_either() {
        let udp = [0xc1, 0x21, 0x12, 0xb7, 0x00, 0x2c, 0x00, 0x00];
        let header = [
            0x45, 0x20, 0x00, 0x40, 0xcb, 0x61, 0x40, 0x00, 0x40, 0x11, 0x5b, 0x17, 0x0a, 0x09,
            0x00, 0x01, 0x0a, 0x09, 0x00, 0x02,
        ];
        let ip = NetworkHeader::V4(&header);
        // Nothing if the two ways to look do not agree, or the packet was changed.
        let right = |packet: &[u8; 36]| {
            let mut whole = [0; 20 + UDP_LEN + 36];
            whole[..20].copy_from_slice(&header);
            whole[20..28].copy_from_slice(&udp);
            whole[28..].copy_from_slice(packet);
            let before = whole;
            let apart = check::<BitCrc>(ip, &udp, packet);
            let agree = check_in_place::<BitCrc>(false, &mut whole) == apart;
            (agree && whole == before).then_some(apart)
        };
        let mut packet = [
            0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00, 0x0b, // BTH
            0x00, 0x00, 0x00, 0x01, // FETH
            0x00, 0x00, 0x00, 0x00, 0x1b, 0x85, 0xb0, 0x40, 0x00, 0x00, 0x02, 0x32, 0x00, 0x00,
            0x02, 0x00, // RETH
            0xbc, 0x12, 0x27, 0xbc,
        ];
        let covered = &packet[..32];
        assert_eq!(right(&packet), Some(true));
        let plain = by_specification::<BitCrc>(ip, &udp, covered).map(Icrc::finish);
        packet[32..].copy_from_slice(&plain.unwrap_or_default());
        assert_eq!(right(&packet), Some(true));
        packet[31] ^= 1;
        assert_eq!(right(&packet), Some(false));
        assert!(!check::<BitCrc>(ip, &udp, &packet[..15]));
        // Of others only one is right.
        packet[0] = 0x0c;
        let twice = by_specification::<BitCrc>(ip, &udp, &packet[..32])
            .map(|crc| crc.update::<BitCrc>(&packet[..32]).finish());
        packet[32..].copy_from_slice(&twice.unwrap_or_default());
        assert_eq!(right(&packet), Some(false));
    }

    #[test]
    fn the_absent_header_is_eight_ones() {
        assert_eq!(BitCrc::update(0xffff_ffff, &[0xff; 8]), AFTER_LRH);
    }
}
