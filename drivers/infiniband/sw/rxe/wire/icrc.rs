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

    /// From the value that an own copy loop has continued: see [`Icrc::raw`].
    pub(crate) const fn from_raw(crc: u32) -> Self {
        Self(crc)
    }

    /// The CRC so far, for a copy loop that computes it on the way.
    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    /// The last four bytes of the packet.
    pub(crate) const fn finish(self) -> [u8; 4] {
        (!self.0).to_le_bytes()
    }
}

/// The CRC for hosts without a kernel.
#[cfg(test)]
pub(crate) struct TableCrc;

#[cfg(test)]
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

#[cfg(test)]
impl Crc32 for TableCrc {
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, byte| {
            (crc >> 8) ^ Self::TABLE[usize::from(crc as u8 ^ byte)]
        })
    }
}
