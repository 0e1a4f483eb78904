// SPDX-License-Identifier: GPL-2.0

//! What a port derives from its network interface: MTU, GUID, state.

use kernel::bindings;
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
}
