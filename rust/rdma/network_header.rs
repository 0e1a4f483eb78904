// SPDX-License-Identifier: GPL-2.0

//! The network header in front of a received datagram.

use crate::gid::Gid;
use core::net::{IpAddr, Ipv4Addr};
use kernel::bindings;

/// The 40 bytes in front of the payload of a received datagram: a global route header, an IPv6
/// header, or 20 undefined bytes and an IPv4 header.
#[derive(Clone, Copy)]
pub struct NetworkHeader([u8; 40]);

/// Which header it is, as far as the bytes tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderVersion {
    /// Neither.
    Unknown,
    /// IPv4.
    V4,
    /// IPv6, or a global route header.
    V6,
}

impl NetworkHeader {
    /// Wraps the bytes.
    pub fn new(bytes: [u8; 40]) -> Self {
        Self(bytes)
    }

    /// Copies a header of C.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for reading 40 bytes.
    pub unsafe fn read(ptr: *const bindings::rdma_network_hdr) -> Self {
        // SAFETY: By the contract of this function; bytes need no alignment.
        Self(unsafe { ptr.cast::<[u8; 40]>().read() })
    }

    fn ipv4(&self) -> &[u8] {
        self.0.get(20..).unwrap_or(&[])
    }

    fn address<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        for (to, from) in out.iter_mut().zip(self.0.iter().skip(at)) {
            *to = *from;
        }
        out
    }

    /// Guesses the version from the bytes.
    ///
    /// The first 20 bytes mean nothing before an IPv4 header and may look like version 6, so an
    /// IPv4 header is believed if it has no options, which RoCE v2 forbids, and its checksum is
    /// right.
    pub fn version(&self) -> HeaderVersion {
        let Some(&first) = self.ipv4().first() else {
            return HeaderVersion::Unknown;
        };
        if self.0[0] >> 4 != 6 {
            return if first >> 4 == 4 {
                HeaderVersion::V4
            } else {
                HeaderVersion::Unknown
            };
        }
        if first & 0x0f == 5 && self.ipv4_checksum_is_right() {
            HeaderVersion::V4
        } else {
            HeaderVersion::V6
        }
    }

    fn ipv4_checksum_is_right(&self) -> bool {
        const CHECKSUM_WORD: usize = 5;
        let mut sum = 0u32;
        let mut stored = 0u32;
        for (i, pair) in self.ipv4().chunks_exact(2).enumerate() {
            let word = pair.iter().fold(0u32, |w, b| w << 8 | u32::from(*b));
            if i == CHECKSUM_WORD {
                stored = word;
            } else {
                // Ten words of 16 bits cannot overflow 32 bits.
                sum += word;
            }
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !sum & 0xffff == stored
    }

    /// Protocol of what follows, for an IPv6 or global route header.
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Flow label (20 bits), for an IPv6 or global route header.
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes(self.address(0)) & 0xf_ffff
    }

    /// Traffic class, for an IPv6 or global route header.
    pub fn traffic_class(&self) -> u8 {
        // Version, class and flow label are 4, 8 and 20 bits.
        let [class, ..] = (u32::from_be_bytes(self.address(0)) << 4).to_be_bytes();
        class
    }

    /// Source and destination of an IPv4 header, as GIDs.
    pub fn ipv4_gids(&self) -> (Gid, Gid) {
        (
            Gid::from(IpAddr::V4(Ipv4Addr::from(self.address::<4>(32)))),
            Gid::from(IpAddr::V4(Ipv4Addr::from(self.address::<4>(36)))),
        )
    }

    /// Source and destination of an IPv6 or global route header.
    pub fn grh_gids(&self) -> (Gid, Gid) {
        (
            Gid::from_bytes(self.address(8)),
            Gid::from_bytes(self.address(24)),
        )
    }
}

#[kernel::macros::kunit_tests(rust_rdma_network_header)]
mod tests {
    use super::*;

    #[test]
    fn header_versions() {
        // 10.0.0.1 to 10.0.0.2, UDP, no options.
        const V4: [u8; 20] = [
            0x45, 0, 0, 0x1c, 0, 1, 0, 0, 64, 17, 0x66, 0xce, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let mut bytes = [0; 40];
        for (to, from) in bytes.iter_mut().skip(20).zip(V4) {
            *to = from;
        }
        assert!(NetworkHeader::new(bytes).version() == HeaderVersion::V4);
        // Garbage that looks like version 6 in front.
        bytes[0] = 0x60;
        assert!(NetworkHeader::new(bytes).version() == HeaderVersion::V4);
        bytes[30] ^= 1;
        assert!(NetworkHeader::new(bytes).version() == HeaderVersion::V6);
        bytes[0] = 0;
        bytes[20] = 0;
        assert!(NetworkHeader::new(bytes).version() == HeaderVersion::Unknown);
    }
}
