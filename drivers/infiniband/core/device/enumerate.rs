// SPDX-License-Identifier: GPL-2.0

//! Finding devices: by index, by network device, or all of them.

use super::netns;
use kernel::bindings;
use rdma::{
    device::{
        Device,
        Get, //
    },
    net::NetDevice,
    netns::NetId,
    registry::{
        self,
        DeviceMark, //
    },
    visit::{
        DumpVisitor,
        RoceVisitor, //
    },
};

/// The device of an index, if it is registered and `net` can see it. Sleeps.
pub(crate) fn by_index(net: NetId, index: u32) -> Option<Get> {
    let devices = registry::get().devices.read();
    let device = devices.view().get(index)?;
    if !netns::can_see(device, net) {
        return None;
    }
    device.try_get()
}

/// A registered device of a driver that has a port for a network device. Any context.
pub(crate) fn by_netdev(netdev: &NetDevice, driver: bindings::rdma_driver_id) -> Option<Get> {
    registry::get().netdevs.find(netdev, |device| {
        driver == bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN || device.driver_id() == driver
    })
}

/// Shows all registered devices that the asking namespace can see, until `visitor` has enough.
/// Sleeps. Returns the last answer.
pub(crate) fn dump(visitor: &DumpVisitor) -> i32 {
    let devices = registry::get().devices.read();
    let net = visitor.net();
    let visible = devices
        .view()
        .marked(DeviceMark::Registered)
        .filter(|device| netns::can_see(device, net));
    let mut answer = 0;
    for (position, device) in (0..).zip(visible) {
        answer = visitor.visit(device, position);
        if answer != 0 {
            break;
        }
    }
    answer
}

/// Shows all RoCE ports of a device, with the network device of each. May sleep.
pub(crate) fn roce_ports(device: &Device, visitor: &RoceVisitor) {
    for port in device.ports() {
        if device.port_caps(port).protocol_roce() {
            let netdev = device.netdev(port);
            visitor.visit(device, port, netdev.as_deref());
        }
    }
}

/// Shows all RoCE ports of all devices that have a GID table. Sleeps.
pub(crate) fn all_roce_ports(visitor: &RoceVisitor) {
    let devices = registry::get().devices.read();
    for device in devices.view().marked(DeviceMark::GidUpdates) {
        roce_ports(device, visitor);
    }
}

/// Says whether [`all_roce_ports`] is to show a device: from when its GID tables are set up until
/// just before they go, which is longer than it is registered. Sleeps.
pub(crate) fn set_gid_updates(device: &Device, on: bool) {
    registry::get()
        .devices
        .write()
        .set_mark(device, DeviceMark::GidUpdates, on);
}
