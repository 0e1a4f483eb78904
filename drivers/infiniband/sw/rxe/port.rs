// SPDX-License-Identifier: GPL-2.0

//! What a port derives from its network interface: MTU, GUID, state.

use core::num::NonZero;

use kernel::{
    bindings,
    sync::rcu, //
};
use rdma::{
    net::{
        netdev::{
            self,
            Mac, //
        },
        NetDevice, //
    },
    provider::{
        Mtu,
        PhysState, //
    },
};

/// Room for the headers of a packet: IPv6, UDP, all headers of the transport, ICRC.
const MAX_HEADERS: u32 = 80;

/// The largest MTU whose packets fit an interface of `mtu` bytes; the smallest one if none does.
pub(crate) fn mtu(mtu: u32) -> Mtu {
    Mtu::fitting(mtu.saturating_sub(MAX_HEADERS)).unwrap_or(Mtu::B256)
}

/// The EUI-64 of a MAC address, in network order.
pub(crate) fn guid(mac: Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// The GUID of the node on `netdev`, whose address is `mac`.
///
/// The connection manager tells the two ends of a connection by it, and takes a queue pair with
/// the GUID and number of another one for the same. So nodes of interfaces that share the address
/// of the one below them have to differ.
pub(crate) fn node_guid(netdev: &NetDevice, mac: Mac) -> [u8; 8] {
    match number_at_address(netdev) {
        Some(number) => numbered_guid(mac, number),
        None => guid(mac),
    }
}

/// An identifier of local scope (the "universal" bit of the MAC address is not inverted) with a
/// number in the middle, as the kernel's IPv6 makes them.
fn numbered_guid(mac: Mac, number: NonZero<u16>) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    let [high, low] = number.get().to_be_bytes();
    [a, b, c, high, low, d, e, f]
}

/// What tells an interface from others with its address, if there are such by design.
fn number_at_address(netdev: &NetDevice) -> Option<NonZero<u16>> {
    /// Above the numbers that ipvlan gives its first 61,440 slaves.
    const VLAN: u16 = 0xf000;

    let guard = rcu::read_lock();
    let below = netdev.first_lower(&guard)?;
    if below.hw_addr() != netdev.hw_addr() {
        return None;
    }
    match netdev.vlan_id() {
        Some(id) => NonZero::new(VLAN | id),
        None => netdev.dev_id(),
    }
}

/// A locally administered address, for interfaces without one: the connection manager wants GUIDs
/// that differ.
pub(crate) fn random_mac() -> Mac {
    let [a, b, c, d, e, f] = netdev::random_bytes();
    [a & !1 | 2, b, c, d, e, f]
}

/// Whether the port of an interface is active.
pub(crate) fn is_active(netdev: &NetDevice) -> bool {
    netdev.is_running() && netdev.carrier_ok()
}

/// State (`IB_PORT_*`) and state of the link of a port, which are those of its interface.
pub(crate) fn states(netdev: &NetDevice) -> (u32, PhysState) {
    if is_active(netdev) {
        (bindings::ib_port_state_IB_PORT_ACTIVE, PhysState::LinkUp)
    } else if netdev.is_running() {
        (bindings::ib_port_state_IB_PORT_DOWN, PhysState::Polling)
    } else {
        (bindings::ib_port_state_IB_PORT_DOWN, PhysState::Disabled)
    }
}

#[kernel::macros::kunit_tests(rust_rxe_port)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    #[test]
    fn mtu_leaves_room_for_headers() {
        assert_eq!(mtu(1500), Mtu::B1024);
        assert_eq!(mtu(9000), Mtu::B4096);
        assert_eq!(mtu(1024 + 80), Mtu::B1024);
        assert_eq!(mtu(1024 + 79), Mtu::B512);
        assert_eq!(mtu(0), Mtu::B256);
    }

    #[test]
    fn guid_of_a_mac() {
        let guid = guid([0x52, 0x54, 0, 1, 2, 3]);
        assert_eq!(guid, [0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3]);
    }

    #[test]
    fn numbered_guids_differ_from_each_other_and_from_the_plain_one() {
        let mac = [0x52, 0x54, 0, 1, 2, 3];
        let number = |n| NonZero::new(n).ok_or(EINVAL);
        assert_eq!(
            number(0x102).map(|n| numbered_guid(mac, n)),
            Ok([0x52, 0x54, 0, 1, 2, 1, 2, 3])
        );
        assert_ne!(number(0xfffe).map(|n| numbered_guid(mac, n)), Ok(guid(mac)));
    }
}
