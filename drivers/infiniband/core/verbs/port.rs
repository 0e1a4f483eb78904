// SPDX-License-Identifier: GPL-2.0

//! Width and speed of ports.

use super::node;
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    link::EthLink,
    printk::warn_plain,
    rate::{Speed, Width},
};

/// Speed in megabits per second that is assumed of an interface that does not tell.
const DEFAULT_SPEED: u32 = bindings::SPEED_1000;

/// Suffix and rate per lane, in units of 100 Mb/s, that sysfs shows.
fn lane_rate(speed: Speed) -> (&'static CStr, i32) {
    match speed {
        Speed::Sdr => (c" SDR", 25),
        Speed::Ddr => (c" DDR", 50),
        Speed::Qdr => (c" QDR", 100),
        Speed::Fdr10 => (c" FDR10", 100),
        Speed::Fdr => (c" FDR", 140),
        Speed::Edr => (c" EDR", 250),
        Speed::Hdr => (c" HDR", 500),
        Speed::Ndr => (c" NDR", 1000),
        Speed::Xdr => (c" XDR", 2000),
    }
}

/// What a port's speed code stands for: an unknown one counts as SDR.
pub(crate) fn speed_name(active_speed: u16) -> &'static CStr {
    lane_rate(Speed::from_raw(active_speed).unwrap_or(Speed::Sdr)).0
}

/// The rate of a port in units of 100 Mb/s; `None` for an unknown width.
pub(crate) fn rate(active_speed: u16, active_width: u8) -> Option<i32> {
    let (_, per_lane) = lane_rate(Speed::from_raw(active_speed).unwrap_or(Speed::Sdr));
    let lanes = Width::from_raw(active_width)?.lanes();
    // At most 2000 times 12.
    Some(per_lane * lanes as i32)
}

/// Links of Ethernet interfaces that do not tell their lanes, by the speed up to which they are
/// assumed.
const BY_SPEED: [(u32, Width, Speed); 8] = [
    (bindings::SPEED_1000, Width::X1, Speed::Sdr),
    (bindings::SPEED_10000, Width::X1, Speed::Fdr10),
    (bindings::SPEED_20000, Width::X4, Speed::Ddr),
    (bindings::SPEED_25000, Width::X1, Speed::Edr),
    (bindings::SPEED_40000, Width::X4, Speed::Fdr10),
    (bindings::SPEED_50000, Width::X2, Speed::Edr),
    (bindings::SPEED_100000, Width::X4, Speed::Edr),
    (bindings::SPEED_200000, Width::X4, Speed::Hdr),
];

/// The InfiniBand width and speed that come closest to an Ethernet link.
fn ib_link(mbps: u32, lanes: u32) -> (Width, Speed) {
    let Some(per_lane) = mbps.checked_div(lanes) else {
        return BY_SPEED
            .into_iter()
            .find(|(up_to, ..)| mbps <= *up_to)
            .map_or((Width::X4, Speed::Ndr), |(_, width, speed)| (width, speed));
    };
    let width = match lanes {
        2 => Width::X2,
        4 => Width::X4,
        8 => Width::X8,
        12 => Width::X12,
        _ => Width::X1,
    };
    let speed = match per_lane {
        bindings::SPEED_5000 => Speed::Ddr,
        bindings::SPEED_10000 => Speed::Fdr10,
        bindings::SPEED_14000 => Speed::Fdr,
        bindings::SPEED_25000 => Speed::Edr,
        bindings::SPEED_50000 => Speed::Hdr,
        bindings::SPEED_100000 => Speed::Ndr,
        _ => Speed::Sdr,
    };
    (width, speed)
}

/// Width and speed of the Ethernet interface of a port, in InfiniBand terms.
///
/// Takes the RTNL lock. `EINVAL` if the port's link is not Ethernet, `ENODEV` if it has no
/// interface.
pub(crate) fn eth_speed(device: &Device, port: u32) -> Result<(Width, Speed)> {
    if node::link_layer(device, port) != bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET {
        return Err(EINVAL);
    }
    let link = EthLink::of_port(device, port)?;
    if let Some(name) = &link.mute_interface {
        warn_plain(fmt!(
            "{} speed is unknown, defaulting to {}\n",
            **name,
            DEFAULT_SPEED
        ));
    }
    Ok(ib_link(link.speed.unwrap_or(DEFAULT_SPEED), link.lanes))
}

#[kernel::macros::kunit_tests(rust_ib_core_port)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_without_lanes() {
        assert!(ib_link(100, 0) == (Width::X1, Speed::Sdr));
        assert!(ib_link(10_000, 0) == (Width::X1, Speed::Fdr10));
        assert!(ib_link(100_000, 0) == (Width::X4, Speed::Edr));
        assert!(ib_link(400_000, 0) == (Width::X4, Speed::Ndr));
    }

    #[test]
    fn ethernet_with_lanes() {
        assert!(ib_link(100_000, 4) == (Width::X4, Speed::Edr));
        assert!(ib_link(100_000, 2) == (Width::X2, Speed::Hdr));
        assert!(ib_link(1_000, 3) == (Width::X1, Speed::Sdr));
    }

    #[test]
    fn rates() {
        assert_eq!(rate(32, 2), Some(1000));
        // An unknown speed counts as SDR, an unknown width as nothing.
        assert_eq!(rate(3, 2), Some(100));
        assert_eq!(rate(32, 3), None);
    }
}
