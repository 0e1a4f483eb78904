// SPDX-License-Identifier: GPL-2.0

//! The way to a peer: the route of an address vector, and the UDP source port that stands for a flow.

use core::net::IpAddr;
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        rcu, //
    },
};
use rdma::{
    addr::netns_of,
    device::Device,
    gid::{
        Gid,
        GidAttr,
        GidType, //
    },
    net::route::Route, //
};

use crate::{
    av::{
        address_of,
        vlan_of,
        Av, //
    },
    params,
    tx::Path,
};

impl Path {
    /// What packets to an address vector have in their headers.
    pub(super) fn new(av: &Av, port: u16) -> Self {
        let (source, destination) = av.addresses();
        Self {
            source,
            destination,
            dmac: av.dmac(),
            traffic_class: av.traffic_class(),
            hop_limit: av.hop_limit(),
            port,
        }
    }
}

/// The source GID of an address vector.
///
/// `EADDRNOTAVAIL` if the source is not, or not any more, that of the index; others if there is none.
pub(super) fn source_of(device: &Device, av: &Av) -> Result<ARef<GidAttr>> {
    let gid = GidAttr::get(device, params::PORT, av.sgid_index().into())?;
    let (source, _) = av.addresses();
    if address_of(&gid.gid()) != source {
        return Err(EADDRNOTAVAIL);
    }
    Ok(gid)
}

/// Looks the route of an address vector up, in the namespace and by the interface of its source GID.
/// Any context but hard interrupts.
///
/// Errors are those of [`source_of`] and of routing.
pub(super) fn route(device: &Device, av: &Av) -> Result<Route> {
    let (source, destination) = av.addresses();
    let gid = source_of(device, av)?;
    let guard = rcu::read_lock();
    let netdev = gid.ndev(&guard)?;
    Route::lookup_udp(
        netns_of(netdev, &guard),
        source,
        destination,
        netdev.ifindex(),
    )
}

/// An address of the device.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// The VLAN, if its interface is one.
    pub(super) vlan: Option<u16>,
}

/// Looks an address of the device up.
pub(super) fn own(device: &Device, address: IpAddr) -> Option<Own> {
    let gid = Gid::from(address);
    let gid = GidAttr::find_by_port(device, params::PORT, &gid, GidType::RoceV2, None).ok()?;
    Some(Own {
        vlan: vlan_of(&gid),
    })
}

/// First of the ports that flows are spread over.
const PORT_BASE: u16 = 0xc000;

/// The port of a queue pair that knows no flow yet.
pub(crate) fn port_of_qpn(qpn: u32) -> u16 {
    const GOLDEN_RATIO: u32 = 0x61c8_8647;
    PORT_BASE | (qpn.wrapping_mul(GOLDEN_RATIO) >> 18) as u16
}

/// The port of a connection: from the flow label, or from both queue pairs if there is none.
pub(crate) fn port_of_flow(flow_label: u32, local: u32, remote: u32) -> u16 {
    const LABEL: u64 = 0xf_ffff;
    let label = match flow_label {
        0 => {
            let product = u64::from(local).wrapping_mul(remote.into());
            let product = product ^ product >> 20;
            (product ^ product >> 40) & LABEL
        }
        label => label.into(),
    };
    let folded = (label & 0x3fff) ^ ((label & 0xf_c000) >> 14);
    PORT_BASE | folded as u16
}

#[kernel::macros::kunit_tests(rust_rxe_path)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_dynamic_ones() {
        for qpn in [0, 1, 16, 17, 0x1234, 0xff_ffff] {
            assert!(port_of_qpn(qpn) >= PORT_BASE);
            assert!(port_of_flow(0, qpn, 17) >= PORT_BASE);
        }
        // Both ends of a connection use the same one.
        assert_eq!(port_of_flow(0, 17, 0x400), port_of_flow(0, 0x400, 17));
        assert_eq!(port_of_flow(1, 5, 6), PORT_BASE | 1);
        assert_eq!(port_of_flow(0x4000, 5, 6), PORT_BASE | 1);
    }
}
