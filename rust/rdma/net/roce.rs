// SPDX-License-Identifier: GPL-2.0

//! What a RoCE port takes from the interface that it is bound to, as far as drivers may ask.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use super::NetDevice;
use crate::device::Device;

/// The interface of a port, unless it has none (any more). May sleep.
pub fn netdev_of(device: &Device, port: u32) -> Option<ARef<NetDevice>> {
    // SAFETY: The device is valid; a bad port gives null.
    let netdev = unsafe { bindings::ib_device_get_netdev(device.as_raw(), port) };
    // SAFETY: Null, or a hold that was taken for us.
    unsafe { NetDevice::from_raw_owned(netdev) }
}

/// Speed of a lane (`IB_SPEED_*`) and number of lanes (`IB_WIDTH_*`) that come next to what the
/// interface says of itself. Takes the RTNL lock. `ENODEV` without an interface.
pub fn eth_speed(device: &Device, port: u32) -> Result<(u16, u8)> {
    let (mut speed, mut width) = (0, 0);
    // SAFETY: The device is valid, and both results have room.
    to_result(unsafe {
        bindings::ib_get_eth_speed(device.as_raw(), port, &mut speed, &mut width)
    })?;
    Ok((speed, width))
}
