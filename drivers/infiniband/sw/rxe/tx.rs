// SPDX-License-Identifier: GPL-2.0

//! From a described packet to a buffer in the network stack: payload, CRC, UDP and IP headers,
//! route.
//!
//! A packet to the device's own Ethernet address never leaves the driver. It is complete all the
//! same, and takes the receive path of every other packet.

use core::net::IpAddr;

use kernel::prelude::*;
use rdma::{
    crc32::crc32_le,
    gfp::Gfp,
    net::{
        netdev::Mac,
        route::Route,
        skb::{
            Family,
            SkBuff, //
        },
        udp_tunnel::UDP_HEADER_LEN,
    },
};

use crate::{
    av::Av,
    params::ROCE_PORT,
    proto::run::Segment,
    wire::{
        icrc::{
            self,
            Crc32,
            NetworkHeader, //
        },
        packet::ICRC_LEN,
    },
};

/// The kernel's CRC, which uses what the CPU has.
pub(crate) struct KernelCrc;

impl Crc32 for KernelCrc {
    #[inline]
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        crc32_le(crc, bytes)
    }
}

/// Where packets go: all that is needed above the link layer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Own address. Of the same family as `destination`.
    pub(crate) source: IpAddr,
    /// The peer's address.
    pub(crate) destination: IpAddr,
    /// The Ethernet address that the address was resolved to.
    pub(crate) dmac: Mac,
    /// Type of service or traffic class.
    pub(crate) traffic_class: u8,
    /// Time to live or hop limit.
    pub(crate) hop_limit: u8,
    /// UDP source port.
    pub(crate) port: u16,
}

impl Path {
    /// The family.
    pub(crate) fn family(&self) -> Family {
        match self.source {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

/// The IP header of a packet of UDP, as it is sent but for the checksum.
enum IpHeader {
    V4([u8; 20]),
    V6([u8; 40]),
}

impl IpHeader {
    /// The header for a UDP datagram of `len` bytes. `id` tells IPv4 packets apart.
    fn new(path: &Path, len: u16, id: u16) -> Option<Self> {
        const DONT_FRAGMENT: [u8; 2] = [0x40, 0];
        const UDP: u8 = kernel::bindings::IPPROTO_UDP as u8;
        match (path.source, path.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = [0; 20];
                let total = len.checked_add(20)?;
                header[0] = 0x45;
                header[1] = path.traffic_class;
                header[2..4].copy_from_slice(&total.to_be_bytes());
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[6..8].copy_from_slice(&DONT_FRAGMENT);
                header[8] = path.hop_limit;
                header[9] = UDP;
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                Some(IpHeader::V4(header))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = [0; 40];
                header[0] = 0x60 | path.traffic_class >> 4;
                header[1] = path.traffic_class << 4;
                header[4..6].copy_from_slice(&len.to_be_bytes());
                header[6] = UDP;
                header[7] = path.hop_limit;
                header[8..24].copy_from_slice(&source.octets());
                header[24..40].copy_from_slice(&destination.octets());
                Some(IpHeader::V6(header))
            }
            _ => None,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            IpHeader::V4(header) => header,
            IpHeader::V6(header) => header,
        }
    }

    fn for_crc(&self) -> NetworkHeader<'_> {
        match self {
            IpHeader::V4(header) => NetworkHeader::V4(header),
            IpHeader::V6(header) => NetworkHeader::V6(header),
        }
    }
}

/// The UDP header of a packet on `path` with `len` bytes, the header included.
fn udp_header(path: &Path, len: u16) -> [u8; UDP_HEADER_LEN] {
    let [a, b] = path.port.to_be_bytes();
    let [c, d] = ROCE_PORT.to_be_bytes();
    let [e, f] = len.to_be_bytes();
    // No checksum: the packet has a better one.
    [a, b, c, d, e, f, 0, 0]
}

/// Why there is no packet.
pub(crate) enum NoPacket<E> {
    /// No memory, or a packet that UDP cannot carry: as if it were lost on the way.
    Lost,
    /// The payload could not be had.
    Payload(E),
}

/// Makes a packet, complete from the IP header on, with `headroom` bytes in front of it. `fill` has
/// to write the whole payload.
pub(crate) fn assemble<E>(
    path: &Path,
    segment: &Segment,
    id: u16,
    headroom: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<SkBuff, NoPacket<E>> {
    let family = path.family();
    let len = segment.wire_len();
    let lost = |_| NoPacket::Lost;

    let udp_len = u16::try_from(UDP_HEADER_LEN + len).map_err(|_| NoPacket::Lost)?;
    let ip = IpHeader::new(path, udp_len, id).ok_or(NoPacket::Lost)?;
    let udp = udp_header(path, udp_len);

    let room = headroom + family.header_len() + UDP_HEADER_LEN;
    let mut skb = SkBuff::new(room, len, Gfp::ATOMIC).map_err(lost)?;
    let packet = skb.put(len).map_err(lost)?;
    let headers = segment.headers.as_bytes();
    let (to_headers, rest) = packet
        .split_at_mut_checked(headers.len())
        .ok_or(NoPacket::Lost)?;
    to_headers.copy_from_slice(headers);
    let (payload, rest) = rest
        .split_at_mut_checked(segment.len as usize)
        .ok_or(NoPacket::Lost)?;
    if !payload.is_empty() {
        fill(payload).map_err(NoPacket::Payload)?;
    }
    rest.fill(0);

    let (covered, to_icrc) = packet
        .split_at_mut_checked(len - ICRC_LEN)
        .ok_or(NoPacket::Lost)?;
    let icrc = icrc::of_packet::<KernelCrc>(ip.for_crc(), &udp, covered).ok_or(NoPacket::Lost)?;
    to_icrc.copy_from_slice(&icrc);

    skb.push(UDP_HEADER_LEN)
        .map_err(lost)?
        .copy_from_slice(&udp);
    skb.push(family.header_len())
        .map_err(lost)?
        .copy_from_slice(ip.as_bytes());
    skb.set_ip_header(family);
    Ok(skb)
}

/// Takes IP and UDP header off a packet that [`assemble`] has made, as the network stack does before
/// it hands a packet to a socket.
pub(crate) fn strip(path: &Path, skb: &mut SkBuff) -> Result {
    skb.pull(path.family().header_len() + UDP_HEADER_LEN)
}

/// The route that a sender used last. Owned by one sender, so without a lock.
#[derive(Default)]
pub(crate) struct RouteCache(Option<(Av, Route)>);

impl RouteCache {
    /// The route for an address vector, from the cache as long as it holds.
    pub(crate) fn get(
        &mut self,
        av: &Av,
        lookup: impl FnOnce(&Av) -> Result<Route>,
    ) -> Result<&Route> {
        let holds = self
            .0
            .as_ref()
            .is_some_and(|(cached, route)| cached == av && route.is_valid());
        if !holds {
            self.0 = None;
            self.0 = Some((*av, lookup(av)?));
        }
        self.0.as_ref().map(|(_, route)| route).ok_or(ENETUNREACH)
    }

    /// Forgets the route.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Whether the ICRC at the end of a packet is right. `packet` starts with the base transport
/// header, `ip` is the IP header and `udp` the one between them.
pub(crate) fn icrc_is_right(ip: &[u8], udp: &[u8; UDP_HEADER_LEN], packet: &[u8]) -> bool {
    let network = if let Ok(ip) = <&[u8; 20]>::try_from(ip) {
        NetworkHeader::V4(ip)
    } else if let Ok(ip) = <&[u8; 40]>::try_from(ip) {
        NetworkHeader::V6(ip)
    } else {
        return false;
    };
    icrc::check::<KernelCrc>(network, udp, packet)
}
