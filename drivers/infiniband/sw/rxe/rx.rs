// SPDX-License-Identifier: GPL-2.0

//! Received packets: from the socket to the queue of the queue pair that they are for.
//!
//! Runs in bottom halves for packets of the wire, and in the task of the sender for packets to the
//! own address. Whatever fails a check is dropped without an answer, since nothing is known yet
//! about who sent it.

use kernel::sync::{
    rcu,
    Arc, //
};
use rdma::{
    gfp::Gfp,
    gid::{
        Gid,
        GidAttr,
        GidType, //
    },
    net::{
        skb::SkBuff,
        udp_tunnel::{
            Receiver,
            UDP_HEADER_LEN, //
        },
        NetDevice, //
    },
    provider::{
        Device,
        DeviceRef, //
    },
};

use crate::{
    counters::Counter,
    device::{
        Rxe,
        Shared, //
    },
    params,
    qp::QpCore,
    tx,
    wire::{
        opcode::Service,
        packet::Label, //
    },
};

/// Takes the packets of the sockets of all namespaces.
pub(crate) struct RoceReceiver;

impl Receiver for RoceReceiver {
    fn receive(mut skb: SkBuff) {
        let guard = rcu::read_lock();
        let Some(netdev) = skb.device(&guard) else {
            return;
        };
        if let Some(device) = device_on(netdev, &guard) {
            skb.set_vlan(netdev.vlan_id());
            from_wire(&device, netdev, skb);
        }
    }
}

/// The device that has a link on an interface. A VLAN without a link of its own is served by that of
/// the interface below.
fn device_on(netdev: &NetDevice, guard: &rcu::Guard) -> Option<DeviceRef<Rxe>> {
    Device::on_netdev(netdev).or_else(|| Device::on_netdev(netdev.vlan_real_dev(guard)?))
}

/// A packet whose form is right.
struct Arrival {
    skb: SkBuff,
    label: Label,
    /// Bytes from the IP header on, which is what the counters count.
    wire_len: usize,
    source: Gid,
    destination: Gid,
}

/// The addresses of an IP header as GIDs, source first.
fn addresses(ip: &[u8]) -> Option<(Gid, Gid)> {
    if let Ok(ip) = <&[u8; 20]>::try_from(ip) {
        let [.., a, b, c, d, e, f, g, h] = *ip;
        Some((Gid::from_v4([a, b, c, d]), Gid::from_v4([e, f, g, h])))
    } else {
        let ip = ip.first_chunk::<40>()?;
        let (_, addresses) = ip.split_last_chunk::<32>()?;
        let (source, destination) = addresses.split_first_chunk::<16>()?;
        let destination = destination.first_chunk::<16>()?;
        Some((Gid::from_bytes(*source), Gid::from_bytes(*destination)))
    }
}

impl Arrival {
    /// Looks at the form of a packet, whose data start with the base transport header.
    #[inline]
    fn new(mut skb: SkBuff) -> Option<Self> {
        if skb.paged_len() != 0 {
            skb.linearize().ok()?;
        }
        let label = Label::of(skb.head()).ok()?;
        let ip = skb.ip_header()?;
        let wire_len = ip.len() + UDP_HEADER_LEN + skb.len();
        let (source, destination) = addresses(ip)?;
        Some(Self {
            label,
            wire_len,
            source,
            destination,
            skb,
        })
    }

    #[inline]
    fn icrc_is_right(&mut self) -> bool {
        if let Some(family) = self.skb.family() {
            // Often nobody else has the packet.
            if let Some(packet) = self.skb.packet_mut() {
                return tx::icrc_is_right_in_place(family, packet);
            }
        }
        match (self.skb.ip_header(), self.skb.udp_header()) {
            (Some(ip), Some(udp)) => tx::icrc_is_right(ip, udp, self.skb.head()),
            _ => false,
        }
    }

    /// Whether the partition and queue keys let the packet in.
    #[inline]
    fn keys_fit(&self, shared: &Shared, qp: &QpCore) -> bool {
        // Full members only: the low 15 bits are the partition (IBTA 10.9.3).
        if (self.label.pkey ^ params::DEFAULT_PKEY) & 0x7fff != 0 || self.label.pkey & 0x7fff == 0 {
            shared.count_bad_pkey();
            return false;
        }
        match self.label.qkey {
            Some(qkey) if qkey != qp.qkey() => {
                shared.count_bad_qkey();
                false
            }
            _ => true,
        }
    }

    /// Whether the queue pair takes packets like this one in its state, and from this sender.
    #[inline]
    fn fits(&self, qp: &QpCore) -> bool {
        qp.takes(
            self.label.opcode.service(),
            self.label.opcode.is_request(),
            &self.source,
            &self.destination,
        )
    }
}

/// A packet of the wire.
fn from_wire(device: &Device<Rxe>, netdev: &NetDevice, skb: SkBuff) {
    let Some(arrival) = Arrival::new(skb) else {
        return;
    };
    // The addresses of connections are compared with those of the queue pair, which has a
    // reference on its GID.
    let connected = arrival.label.opcode.service() != Service::Ud;
    if !connected && !arrival.destination.is_multicast() {
        let gid = GidAttr::find_by_port(
            device.core(),
            params::PORT,
            &arrival.destination,
            GidType::RoceV2,
            Some(netdev),
        );
        if gid.is_err() {
            return;
        }
    }
    deliver(&device.shared, arrival, true);
}

/// A packet to an own address, with its headers already taken off.
pub(crate) fn from_own(shared: &Arc<Shared>, mut skb: SkBuff, vlan: Option<u16>) {
    skb.set_vlan(vlan);
    if let Some(arrival) = Arrival::new(skb) {
        deliver(shared, arrival, false);
    }
}

fn deliver(shared: &Arc<Shared>, mut arrival: Arrival, check_icrc: bool) {
    match arrival.label.dest_qp {
        params::MULTICAST_QPN => deliver_to_group(shared, arrival, check_icrc),
        qpn => {
            let Some(qp) = shared.qps.get(qpn) else {
                return;
            };
            if !arrival.fits(&qp) || !arrival.keys_fit(shared, &qp) {
                return;
            }
            if check_icrc && !arrival.icrc_is_right() {
                return;
            }
            count(shared, &arrival);
            let is_request = arrival.label.opcode.is_request();
            qp.enqueue(arrival.skb, is_request);
        }
    }
}

/// Gives each member of a group a share of the packet.
fn deliver_to_group(shared: &Arc<Shared>, mut arrival: Arrival, check_icrc: bool) {
    let Some(members) = shared.mcast.members(&arrival.destination) else {
        return;
    };
    if check_icrc && !arrival.icrc_is_right() {
        return;
    }
    count(shared, &arrival);
    for qp in members.iter() {
        if !arrival.fits(qp) || !arrival.keys_fit(shared, qp) {
            continue;
        }
        // Datagrams may be lost, so a member that gets no share does not matter.
        if let Ok(skb) = arrival.skb.share(Gfp::ATOMIC) {
            qp.enqueue(skb, true);
        }
    }
}

fn count(shared: &Shared, arrival: &Arrival) {
    shared.counters.add(Counter::ReceivedPackets, 1);
    shared
        .counters
        .add(Counter::ReceivedBytes, arrival.wire_len as u64);
}

#[kernel::macros::kunit_tests(rust_rxe_rx)]
mod tests {
    use super::*;
    use core::net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr, //
    };

    #[test]
    fn addresses_of_both_families() {
        let mut v4 = [0u8; 20];
        v4[12..16].copy_from_slice(&[10, 9, 0, 1]);
        v4[16..20].copy_from_slice(&[10, 9, 0, 2]);
        let (source, destination) = addresses(&v4).unwrap();
        let gid = |last| Gid::from(IpAddr::V4(Ipv4Addr::new(10, 9, 0, last)));
        assert!(source == gid(1) && destination == gid(2));

        let mut v6 = [0u8; 40];
        v6[8] = 0xfd;
        v6[24] = 0xfe;
        let (source, destination) = addresses(&v6).unwrap();
        let gid = |first| Gid::from(IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)));
        assert!(source == gid(0xfd00) && destination == gid(0xfe00));
        assert!(addresses(&[0; 39]).is_none());
    }
}
