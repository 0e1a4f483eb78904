// SPDX-License-Identifier: GPL-2.0

//! Address handles and address vectors.
//!
//! A vector with a global route names its source GID by index. Before a driver sees it, the GID
//! is looked up and its reference put into the vector; afterwards the caller gets the vector back
//! as it was, and the object keeps a reference of its own.

use kernel::{bindings, prelude::*, sync::aref::ARef};
use rdma::{
    ah::{resolve_next_hop, Ah, AhAttr, AhType, Route, Sleepable, XmitSlave},
    device::Device,
    gid::{GidAttr, GidType},
    network_header::{HeaderVersion, NetworkHeader},
    object::{Draft, Object},
    pd::Pd,
    udata::Udata,
    wc::Wc,
};

/// Hop limit of replies whose route is not known.
const MAX_HOP_LIMIT: u8 = 0xff;

/// Protocol number of UDP.
const IPPROTO_UDP: u8 = 17;

/// GUID by which the subnet administration is addressed, whatever port it is on.
const SA_WELL_KNOWN_GUID: u64 = bindings::IB_SA_WELL_KNOWN_GUID as u64;

/// Whether a vector makes sense on a device.
fn check(device: &Device, attr: &AhAttr) -> Result {
    if !device.has_port(attr.port()) {
        return Err(EINVAL);
    }
    let needs_route = device.port_caps(attr.port()).grh_required() || attr.kind() == AhType::Roce;
    if needs_route && !attr.has_grh() {
        return Err(EINVAL);
    }
    match attr.sgid() {
        Some(sgid)
            if sgid.index() != attr.sgid_index().into() || sgid.port_num() != attr.port() =>
        {
            Err(EINVAL)
        }
        _ => Ok(()),
    }
}

/// Checks a vector and puts its source GID in, if it has a route and the GID is not there;
/// tells whether that was so, and the caller has to take it out again. Any context.
///
/// `EINVAL` for a vector that makes no sense or an index outside the table, `ENODATA` for an
/// empty slot.
pub(super) fn fill_sgid(device: &Device, attr: &mut AhAttr) -> Result<bool> {
    check(device, attr)?;
    if !attr.has_grh() || attr.sgid().is_some() {
        return Ok(false);
    }
    let sgid = GidAttr::get(device, attr.port(), attr.sgid_index().into())?;
    drop(attr.replace_sgid(Some(sgid)));
    Ok(true)
}

/// A vector with its source GID in; dropping it restores the vector.
struct Filled<'a> {
    attr: &'a mut AhAttr,
    filled: bool,
}

impl<'a> Filled<'a> {
    fn new(device: &Device, attr: &'a mut AhAttr) -> Result<Self> {
        let filled = fill_sgid(device, attr)?;
        Ok(Self { attr, filled })
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        if self.filled {
            drop(self.attr.replace_sgid(None));
        }
    }
}

/// A reference to the source GID of a vector's route, for the object that the vector is given to.
pub(super) fn route_sgid(attr: &AhAttr) -> Option<ARef<GidAttr>> {
    if !attr.has_grh() {
        return None;
    }
    attr.sgid().map(ARef::from)
}

/// Finds the Ethernet address that a RoCE vector's packets go to. May sleep, up to about a second.
pub(super) fn resolve_dmac(attr: &mut AhAttr) -> Result {
    let dgid = attr.dgid();
    if dgid.is_multicast() {
        attr.set_dmac(dgid.multicast_mac());
        return Ok(());
    }
    resolve_unicast_dmac(attr)
}

fn resolve_unicast_dmac(attr: &mut AhAttr) -> Result {
    let dgid = attr.dgid();
    let sgid = attr.sgid().ok_or(EINVAL)?;
    // RoCE v1 does not use the IP stack: a link-local GID contains the address.
    if dgid.is_link_local() && sgid.gid_type() == GidType::Roce {
        attr.set_dmac(dgid.link_local_mac());
        return Ok(());
    }
    let (mac, hop_limit) = resolve_next_hop(sgid, &dgid)?;
    attr.set_dmac(mac);
    attr.set_hop_limit(hop_limit);
    Ok(())
}

/// Finds the Ethernet address for a RoCE vector without a source GID. May sleep, up to about a
/// second. A hop limit that is there stays.
pub(crate) fn resolve_next_hop_of(device: &Device, attr: &mut AhAttr) -> Result {
    let hop_limit = attr.hop_limit();
    let filled = Filled::new(device, attr)?;
    resolve_dmac(filled.attr)?;
    if hop_limit != 0 {
        filled.attr.set_hop_limit(hop_limit);
    }
    Ok(())
}

fn create_filled(
    pd: &Pd,
    attr: &mut AhAttr,
    sleepable: Sleepable,
    slave: &XmitSlave,
    udata: Option<&Udata>,
) -> Result<Object<Ah>> {
    sleepable.check_context();
    let device = pd.device();
    if udata.is_none() && device.ops().create_ah.is_none() {
        return Err(EOPNOTSUPP);
    }

    let ah = Draft::<Ah>::new(device, sleepable.gfp())?;
    ah.set_up(pd, attr);
    drop(ah.replace_sgid(route_sgid(attr)));
    if let Err(e) = ah.driver_create(attr, sleepable, slave, udata) {
        drop(ah.replace_sgid(None));
        return Err(e);
    }
    pd.uses().acquire().keep();
    Ok(ah.finish())
}

/// Creates a handle for a kernel module, whose vector has the Ethernet address of the next hop if
/// it is a RoCE one. Sleeps only if it may.
pub(crate) fn create(pd: &Pd, attr: &mut AhAttr, sleepable: Sleepable) -> Result<Object<Ah>> {
    let filled = Filled::new(pd.device(), attr)?;
    let slave = XmitSlave::select(pd.device(), filled.attr, sleepable.gfp())?;
    create_filled(pd, filled.attr, sleepable, &slave, None)
}

/// Creates a handle for user space, which leaves the Ethernet address of the next hop to us. May
/// sleep.
pub(crate) fn create_user(pd: &Pd, attr: &mut AhAttr, udata: Option<&Udata>) -> Result<Object<Ah>> {
    let filled = Filled::new(pd.device(), attr)?;
    if filled.attr.kind() == AhType::Roce {
        resolve_dmac(filled.attr)?;
    }
    create_filled(pd, filled.attr, Sleepable::YES, &XmitSlave::NONE, udata)
}

/// Creates a handle by which the sender of a received datagram is answered. May sleep.
pub(crate) fn create_from_wc(
    pd: &Pd,
    port: u32,
    wc: &Wc,
    header: Option<NetworkHeader>,
) -> Result<Object<Ah>> {
    let mut attr = AhAttr::new();
    init_from_wc(pd.device(), port, wc, header, &mut attr)?;
    create(pd, &mut attr, Sleepable::YES)
}

/// Sends elsewhere. If the driver refuses, the handle keeps its address and its source GID.
pub(crate) fn modify(ah: &Ah, attr: &mut AhAttr) -> Result {
    if ah.kind() != attr.kind() {
        return Err(EINVAL);
    }
    let filled = Filled::new(ah.device(), attr)?;
    ah.driver_modify(filled.attr)?;
    drop(ah.replace_sgid(route_sgid(filled.attr)));
    Ok(())
}

/// Asks for the address.
pub(crate) fn query(ah: &Ah, attr: &mut AhAttr) -> Result {
    ah.driver_query(attr)
}

/// Destroys a handle. Sleeps only if it may.
pub(crate) fn destroy(ah: Object<Ah>, sleepable: Sleepable) -> Result {
    sleepable.check_context();
    ah.driver_destroy(sleepable)?;
    drop(ah.pd_uses().reclaim());
    drop(ah.replace_sgid(None));
    ah.free();
    Ok(())
}

/// What precedes the payload of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NetworkType {
    /// A global route header on InfiniBand.
    Ib,
    /// A global route header in an Ethernet frame.
    RoceV1,
    /// IPv4 and UDP.
    Ipv4,
    /// IPv6 and UDP.
    Ipv6,
}

impl NetworkType {
    /// From the C constant (`RDMA_NETWORK_*`).
    pub(crate) fn from_raw(raw: bindings::rdma_network_type) -> Option<Self> {
        Some(match raw {
            bindings::rdma_network_type_RDMA_NETWORK_IB => Self::Ib,
            bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 => Self::RoceV1,
            bindings::rdma_network_type_RDMA_NETWORK_IPV4 => Self::Ipv4,
            bindings::rdma_network_type_RDMA_NETWORK_IPV6 => Self::Ipv6,
            _ => return None,
        })
    }

    /// Tells by the header itself what a RoCE port received.
    fn of_header(header: &NetworkHeader) -> Self {
        if header.version() == HeaderVersion::V4 {
            Self::Ipv4
        } else if header.next_header() == IPPROTO_UDP {
            Self::Ipv6
        } else {
            Self::RoceV1
        }
    }

    fn gid_type(self) -> GidType {
        match self {
            Self::Ib => GidType::Ib,
            Self::RoceV1 => GidType::Roce,
            Self::Ipv4 | Self::Ipv6 => GidType::RoceV2,
        }
    }

    /// Source and destination.
    pub(crate) fn gids(self, header: &NetworkHeader) -> (rdma::gid::Gid, rdma::gid::Gid) {
        match self {
            Self::Ipv4 => header.ipv4_gids(),
            Self::Ib | Self::RoceV1 | Self::Ipv6 => header.grh_gids(),
        }
    }
}

/// Fills an empty vector with the way back to the sender of a datagram. May sleep, up to about a
/// second on RoCE.
///
/// `header` is there if the completion says so. `EPROTOTYPE` if it is not on a RoCE port,
/// `ENOENT` if the GID that the datagram was sent to is not ours (any more).
pub(crate) fn init_from_wc(
    device: &Device,
    port: u32,
    wc: &Wc,
    header: Option<NetworkHeader>,
    attr: &mut AhAttr,
) -> Result {
    Sleepable::YES.check_context();
    let caps = device.port_caps(port);
    attr.set_kind(AhType::of_port(device, port));
    attr.set_service_level(wc.service_level());
    attr.set_port(port);

    if !caps.protocol_roce() {
        attr.set_lid(wc.source_lid(), wc.dlid_path_bits());
    }
    let Some(header) = header else {
        return if caps.protocol_roce() {
            Err(EPROTOTYPE)
        } else {
            Ok(())
        };
    };

    let network = if !caps.eth_ah() {
        NetworkType::Ib
    } else if let Some(told) = wc.network_type() {
        NetworkType::from_raw(told).ok_or(EINVAL)?
    } else if caps.protocol_ib() {
        NetworkType::Ib
    } else {
        NetworkType::of_header(&header)
    };
    // The sender's GID is where the answer goes, and ours where it comes from.
    let (dgid, our_gid) = network.gids(&header);

    let sgid = if caps.protocol_roce() {
        let (vlan, gid_type) = (wc.vlan(), network.gid_type());
        GidAttr::find_by_filter(device, port, &our_gid, |entry| {
            entry.gid_type() == gid_type
                && entry
                    .l2_fields()
                    .is_ok_and(|(entry_vlan, _)| entry_vlan == vlan)
        })?
    } else if our_gid.interface_id() == SA_WELL_KNOWN_GUID {
        GidAttr::get(device, port, 0)?
    } else {
        GidAttr::find_by_port(device, port, &our_gid, GidType::Ib, None)?
    };

    let route = Route {
        dgid: Some(dgid),
        flow_label: header.flow_label(),
        hop_limit: MAX_HOP_LIMIT,
        traffic_class: header.traffic_class(),
    };
    attr.set_route(&route, sgid);
    if !caps.protocol_roce() {
        return Ok(());
    }
    resolve_unicast_dmac(attr).inspect_err(|_| drop(attr.replace_sgid(None)))
}
