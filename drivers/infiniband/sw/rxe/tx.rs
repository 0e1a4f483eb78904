// SPDX-License-Identifier: GPL-2.0

//! From a described packet to a buffer in the network stack: payload, CRC, UDP and IP headers,
//! route.
//!
//! A packet to an address of the device itself never leaves the driver. It is complete all the same,
//! and takes the receive path of every other packet.

use core::net::IpAddr;

use kernel::prelude::*;
use rdma::{
    crc32::crc32_le,
    gfp::Gfp,
    net::{
        frag::FragPool,
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
        packet::BTH_LEN, //
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

/// The headers below the transport that the packets of a path have in common.
pub(crate) struct Frame {
    bytes: [u8; Frame::MAX],
    family: Family,
}

impl Frame {
    const MAX: usize = 40 + UDP_HEADER_LEN;

    /// The headers for a path. `None` if its addresses are of different families.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        const DONT_FRAGMENT: [u8; 2] = [0x40, 0];
        const UDP: u8 = kernel::bindings::IPPROTO_UDP as u8;
        let mut bytes = [0; Self::MAX];
        match (path.source, path.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes[0] = 0x45;
                bytes[1] = path.traffic_class;
                bytes[6..8].copy_from_slice(&DONT_FRAGMENT);
                bytes[8] = path.hop_limit;
                bytes[9] = UDP;
                bytes[12..16].copy_from_slice(&source.octets());
                bytes[16..20].copy_from_slice(&destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes[0] = 0x60 | path.traffic_class >> 4;
                bytes[1] = path.traffic_class << 4;
                bytes[6] = UDP;
                bytes[7] = path.hop_limit;
                bytes[8..24].copy_from_slice(&source.octets());
                bytes[24..40].copy_from_slice(&destination.octets());
            }
            _ => return None,
        }
        let family = match path.source {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        };
        // No checksum of UDP: the packet has a better one.
        if let Some(udp) = bytes.get_mut(family.header_len()..) {
            for (to, from) in udp
                .iter_mut()
                .zip([path.port.to_be_bytes(), ROCE_PORT.to_be_bytes()].as_flattened())
            {
                *to = *from;
            }
        }
        Some(Self { bytes, family })
    }

    /// The family.
    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// Bytes of the headers.
    fn len(&self) -> usize {
        self.family.header_len() + UDP_HEADER_LEN
    }

    /// Bytes of the packet of a segment, from the IP header on.
    pub(crate) fn packet_len(&self, segment: &Segment) -> usize {
        self.len() + segment.wire_len()
    }

    /// Writes the headers of a packet with `len` bytes of transport, apart from the IPv4 checksum.
    /// `id` tells IPv4 packets apart. `None` if the packet is too long.
    fn write(&self, to: &mut [u8], len: usize, id: u16) -> Option<()> {
        let udp_len = u16::try_from(UDP_HEADER_LEN + len).ok()?;
        let [a, b] = udp_len.to_be_bytes();
        match self.family {
            Family::V4 => {
                let total = udp_len.checked_add(20)?.to_be_bytes();
                let to = to.first_chunk_mut::<28>()?;
                *to = *self.bytes.first_chunk()?;
                [to[2], to[3]] = total;
                [to[4], to[5]] = id.to_be_bytes();
                [to[24], to[25]] = [a, b];
            }
            Family::V6 => {
                let to = to.first_chunk_mut::<48>()?;
                *to = self.bytes;
                [to[4], to[5]] = [a, b];
                [to[44], to[45]] = [a, b];
            }
        }
        Some(())
    }
}

/// Why there is no packet.
pub(crate) enum NoPacket<E> {
    /// No memory, or a packet that UDP cannot carry: as if it were lost on the way.
    Lost,
    /// The payload could not be had.
    Payload(E),
}

/// Makes a packet, complete from the IP header on, with `headroom` bytes in front of it; in memory
/// of `pool`, if there is one and it has some. `fill` has to write the whole payload.
pub(crate) fn assemble<E>(
    frame: &Frame,
    segment: &Segment,
    id: u16,
    headroom: usize,
    pool: Option<&mut FragPool>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<SkBuff, NoPacket<E>> {
    let len = segment.wire_len();
    let total = frame.len() + len;
    let lost = |_| NoPacket::Lost;

    let pooled = pool.and_then(|pool| SkBuff::new_in(pool, headroom, total).ok());
    let mut skb = match pooled {
        Some(skb) => skb,
        None => SkBuff::new(headroom, total, Gfp::ATOMIC).map_err(lost)?,
    };
    let packet = skb.put(total).map_err(lost)?;
    frame.write(packet, len, id).ok_or(NoPacket::Lost)?;
    let headers = segment.headers.as_bytes();
    let (to_headers, rest) = packet
        .get_mut(frame.len()..)
        .and_then(|transport| transport.split_at_mut_checked(headers.len()))
        .ok_or(NoPacket::Lost)?;
    match (
        to_headers.first_chunk_mut::<BTH_LEN>(),
        headers.first_chunk(),
    ) {
        // Most packets have no more, and constant lengths are copied in place.
        (Some(to), Some(bth)) if headers.len() == BTH_LEN => *to = *bth,
        _ => to_headers.copy_from_slice(headers),
    }
    let (payload, rest) = rest
        .split_at_mut_checked(segment.len as usize)
        .ok_or(NoPacket::Lost)?;
    if !payload.is_empty() {
        fill(payload).map_err(NoPacket::Payload)?;
    }
    // What follows the padding is the CRC.
    for byte in rest.iter_mut().take(segment.pad()) {
        *byte = 0;
    }
    icrc::seal::<KernelCrc>(frame.family == Family::V6, packet).ok_or(NoPacket::Lost)?;
    skb.set_ip_header(frame.family);
    Ok(skb)
}

/// Takes IP and UDP header off a packet that [`assemble`] has made, as the network stack does before
/// it hands a packet to a socket.
pub(crate) fn strip(frame: &Frame, skb: &mut SkBuff) -> Result {
    skb.pull(frame.len())
}

/// The route that a sender used last, with the headers of the packets that take it. Owned by one sender,
/// so without a lock.
#[derive(Default)]
pub(crate) struct RouteCache(Option<Cached>);

struct Cached {
    av: Av,
    /// UDP source port.
    port: u16,
    route: Route,
    frame: Frame,
}

impl RouteCache {
    /// Whether the route for an address vector is in the cache and holds.
    pub(crate) fn has(&self, av: &Av) -> bool {
        self.0
            .as_ref()
            .is_some_and(|cached| cached.av == *av && cached.route.is_valid())
    }

    /// The route for an address vector and the headers for it and a UDP source port, from the cache as
    /// long as they hold.
    pub(crate) fn get(
        &mut self,
        av: &Av,
        port: u16,
        lookup: impl FnOnce() -> Result<(Route, Frame)>,
    ) -> Result<(&Route, &Frame)> {
        // Whether packets to a group come back to the host changes with its members, of which the
        // route does not tell.
        let has = !av.is_multicast() && self.has(av);
        if !has || self.0.as_ref().is_some_and(|cached| cached.port != port) {
            self.0 = None;
            let (route, frame) = lookup()?;
            self.0 = Some(Cached {
                av: *av,
                port,
                route,
                frame,
            });
        }
        let cached = self.0.as_ref().ok_or(ENETUNREACH)?;
        Ok((&cached.route, &cached.frame))
    }

    /// Forgets the route.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// As [`icrc_is_right`], of a packet from the IP header on that nobody else has.
pub(crate) fn icrc_is_right_in_place(family: Family, packet: &mut [u8]) -> bool {
    icrc::check_in_place::<KernelCrc>(family == Family::V6, packet)
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
