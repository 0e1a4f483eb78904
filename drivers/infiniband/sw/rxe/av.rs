// SPDX-License-Identifier: GPL-2.0

//! Address vectors: where packets go, and where they come from.

use crate::abi;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::rcu, //
};
use rdma::{
    ah::AhAttr,
    gid::{
        Gid,
        GidAttr, //
    },
    net::netdev::Mac, //
};

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Av {
    source: IpAddr,
    destination: IpAddr,
    verified: bool,
    sgid_index: u8,
    dmac: Mac,
    traffic_class: u8,
    hop_limit: u8,
    flow_label: u32,
    vlan: Option<u16>,
}

/// The address that a GID stands for.
pub(crate) fn address_of(gid: &Gid) -> IpAddr {
    match gid.to_ipv4() {
        Some(octets) => IpAddr::V4(octets.into()),
        None => IpAddr::V6((*gid.as_bytes()).into()),
    }
}

/// The VLAN whose interface a GID belongs to, if it is one.
pub(crate) fn vlan_of(gid: &GidAttr) -> Option<u16> {
    let guard = rcu::read_lock();
    gid.ndev(&guard).ok()?.vlan_id()
}

/// The address in a socket address of `network_type`.
fn socket_address(network_type: u8, bytes: &[u8; 28]) -> Option<IpAddr> {
    /// Where the address lies: after family, port and (IPv6) flow information.
    const V4_AT: usize = 4;
    /// As [`V4_AT`].
    const V6_AT: usize = 8;
    match network_type {
        abi::NETWORK_IPV4 => {
            let octets: &[u8; 4] = bytes.get(V4_AT..)?.first_chunk()?;
            Some(IpAddr::V4(Ipv4Addr::from(*octets)))
        }
        abi::NETWORK_IPV6 => {
            let octets: &[u8; 16] = bytes.get(V6_AT..)?.first_chunk()?;
            Some(IpAddr::V6(Ipv6Addr::from(*octets)))
        }
        _ => None,
    }
}

impl Av {
    /// From the attributes of a path, which the core has checked.
    ///
    /// `EINVAL` unless there are a global route and a source GID of RoCE v2.
    pub(crate) fn from_attr(attr: &AhAttr) -> Result<Self> {
        let sgid = attr.sgid().filter(|_| attr.has_grh()).ok_or(EINVAL)?;
        if sgid.raw_gid_type() != bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP {
            return Err(EINVAL);
        }
        let (source, destination) = (address_of(&sgid.gid()), address_of(&attr.dgid()));
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(EINVAL);
        }
        Ok(Self {
            source,
            destination,
            verified: true,
            sgid_index: attr.sgid_index(),
            dmac: attr.dmac().ok_or(EINVAL)?,
            traffic_class: attr.traffic_class(),
            hop_limit: attr.hop_limit(),
            flow_label: attr.flow_label(),
            vlan: vlan_of(sgid),
        })
    }

    /// From a request of an old library, which puts the whole vector into it. `None` if it makes no
    /// sense. Whether the source is an address of this host remains to be seen.
    pub(crate) fn from_user(av: &abi::Av) -> Option<Self> {
        if av.port != 1 {
            return None;
        }
        Some(Self {
            source: socket_address(av.network_type, &av.source)?,
            destination: socket_address(av.network_type, &av.dest)?,
            verified: false,
            sgid_index: av.sgid_index,
            dmac: av.dmac,
            traffic_class: av.traffic_class,
            hop_limit: av.hop_limit,
            flow_label: av.flow_label,
            vlan: None,
        })
    }

    /// Source and destination, both of the same family.
    pub(crate) fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.source, self.destination)
    }

    /// Whether the destination is a group.
    pub(crate) fn is_multicast(&self) -> bool {
        self.destination.is_multicast()
    }

    /// Whether the source is known to be that of [`Self::sgid_index`]. If not, the sender has to
    /// look: user space may claim anything.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    /// Index of the source GID.
    pub(crate) fn sgid_index(&self) -> u8 {
        self.sgid_index
    }

    /// Ethernet address of the next hop.
    pub(crate) fn dmac(&self) -> Mac {
        self.dmac
    }

    /// Traffic class.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    /// Hop limit.
    pub(crate) fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// The VLAN of the source's interface, if that is one and the vector does not come from an old
    /// library.
    pub(crate) fn vlan(&self) -> Option<u16> {
        self.vlan
    }

    /// Flow label, 20 bits.
    pub(crate) fn flow_label(&self) -> u32 {
        self.flow_label
    }
}

#[kunit_tests(rust_rxe_av)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses() {
        let mut bytes = [0u8; 28];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = i as u8;
        }
        let v4 = IpAddr::V4(Ipv4Addr::new(4, 5, 6, 7));
        assert_eq!(socket_address(abi::NETWORK_IPV4, &bytes), Some(v4));
        let v6 = Ipv6Addr::from([8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]);
        assert_eq!(
            socket_address(abi::NETWORK_IPV6, &bytes),
            Some(IpAddr::V6(v6))
        );
        assert_eq!(socket_address(0, &bytes), None);
        assert_eq!(socket_address(3, &bytes), None);
    }
}
