// SPDX-License-Identifier: GPL-2.0

//! GIDs as addresses of hosts and groups.
//!
//! A GID is laid out as an IPv6 address; RoCE v2 over IPv4 uses IPv4-mapped ones
//! (IBTA annex A17).

use crate::{gid::Gid, net::netdev::Mac};

impl Gid {
    /// The IPv4 address of an IPv4-mapped GID.
    pub fn to_ipv4(&self) -> Option<[u8; 4]> {
        match *self.as_bytes() {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// Whether this is a group: `ff00::/8`, or a mapped class D address.
    pub fn is_multicast(&self) -> bool {
        self.as_bytes()[0] == 0xff || matches!(self.to_ipv4(), Some([0xe0..=0xef, ..]))
    }

    /// Whether this is in `fe80::/64`.
    pub fn is_link_local(&self) -> bool {
        matches!(*self.as_bytes(), [0xfe, 0x80, 0, 0, 0, 0, 0, 0, ..])
    }

    /// The Ethernet address inside the EUI-64 of a link-local GID.
    pub fn link_local_mac(&self) -> Mac {
        let [.., a, b, c, _, _, d, e, f] = *self.as_bytes();
        [a ^ 2, b, c, d, e, f]
    }

    /// The Ethernet address that frames to this group are sent to (RFC 1112, RFC 2464).
    pub fn multicast_mac(&self) -> Mac {
        if let Some([_, b, c, d]) = self.to_ipv4() {
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        } else {
            let [.., a, b, c, d] = *self.as_bytes();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

#[kernel::macros::kunit_tests(rust_rdma_gid_addr)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};

    fn mapped(a: u8, b: u8, c: u8, d: u8) -> Gid {
        Gid::from(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    }

    #[test]
    fn groups() {
        let v6 = Gid::from_bytes([
            0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78,
        ]);
        assert!(v6.is_multicast());
        assert_eq!(v6.multicast_mac(), [0x33, 0x33, 0x12, 0x34, 0x56, 0x78]);
        let v4 = mapped(239, 129, 2, 3);
        assert!(v4.is_multicast());
        assert_eq!(v4.multicast_mac(), [0x01, 0x00, 0x5e, 0x01, 2, 3]);
        assert!(!mapped(10, 0, 0, 1).is_multicast());
    }

    #[test]
    fn link_local() {
        let gid = Gid::from_bytes([
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x52, 0x54, 0, 0xff, 0xfe, 1, 2, 3,
        ]);
        assert!(gid.is_link_local());
        assert_eq!(gid.link_local_mac(), [0x50, 0x54, 0, 1, 2, 3]);
        assert_eq!(gid.interface_id(), 0x5254_00ff_fe01_0203);
    }
}
