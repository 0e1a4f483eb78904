// SPDX-License-Identifier: GPL-2.0

//! Ports and their network devices.

use super::enumerate;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::{
        netdev::NetDeviceId,
        ops::Notice,
        Device, //
    },
    event::{
        Event,
        PortEvent, //
    },
    net::{
        notifier::{
            Handler,
            Netdev,
            NetdevChange,
            NetdevEvent, //
        },
        NetDevice, //
    },
    registry, //
};

/// Binds a port to a network device, or to none, and tells listeners on netlink. Sleeps.
///
/// Drivers may do so before they register the device; then nobody is told. The caller makes sure
/// that the network device is not being unregistered.
pub(crate) fn bind(device: &Device, netdev: Option<&NetDevice>, port: u32) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    device.alloc_ports()?;
    let registry = registry::get();
    if !device.bind_netdev(&registry.netdevs, port, netdev)? {
        return Ok(());
    }
    // With a reference, the device stays in the namespace that is told.
    if let Some(device) = device.try_get() {
        let what = match netdev {
            Some(_) => Notice::NetdevAttach,
            None => Notice::NetdevDetach,
        };
        let _ = device.notify(port, what);
    }
    Ok(())
}

/// The first port of a device that has this network device (or none). May sleep.
pub(crate) fn port_of(device: &Device, netdev: NetDeviceId) -> Result<u32> {
    device
        .ports()
        .find(|&port| NetDeviceId::of(device.netdev(port).as_deref()) == netdev)
        .ok_or(ENOENT)
}

/// Sends an event if the link of a network device is up now and was not when the last one was
/// sent, or the other way round. May sleep.
pub(crate) fn dispatch_link_state(device: &Device, netdev: &NetDevice) {
    let Ok(port) = port_of(device, NetDeviceId::of(Some(netdev))) else {
        return;
    };
    let (state, event) = if netdev.is_running() && netdev.carrier_ok() {
        (bindings::ib_port_state_IB_PORT_ACTIVE, PortEvent::Active)
    } else {
        (bindings::ib_port_state_IB_PORT_DOWN, PortEvent::Err)
    };
    if device.swap_link_state(port, state) {
        Event::of_port(device, port, event).dispatch();
    }
}

/// Follows network devices: state and name of the link.
pub(super) struct LinkWatch;

impl LinkWatch {
    /// The link went up, went down, or changed.
    fn link_changed(netdev: &NetDevice, event: bindings::netdev_cmd) {
        // With bonding, the drivers that can do it report the state of the link themselves.
        if netdev.is_lag_master() || netdev.is_lag_port() {
            return;
        }
        let Some(device) =
            enumerate::by_netdev(netdev, bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN)
        else {
            return;
        };
        if !device.report_port_event(netdev, event as usize) {
            dispatch_link_state(&device, netdev);
        }
    }

    fn renamed(netdev: &NetDevice) {
        let Some(device) =
            enumerate::by_netdev(netdev, bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN)
        else {
            return;
        };
        if let Ok(port) = port_of(&device, NetDeviceId::of(Some(netdev))) {
            let _ = device.notify(port, Notice::NetdevRename);
        }
    }
}

impl Handler<Netdev> for LinkWatch {
    fn notify(&self, event: NetdevEvent<'_>) {
        match event.change {
            NetdevChange::Up => Self::link_changed(event.dev, bindings::netdev_cmd_NETDEV_UP),
            NetdevChange::Down => Self::link_changed(event.dev, bindings::netdev_cmd_NETDEV_DOWN),
            NetdevChange::Change => {
                Self::link_changed(event.dev, bindings::netdev_cmd_NETDEV_CHANGE)
            }
            NetdevChange::ChangeName => Self::renamed(event.dev),
            _ => {}
        }
    }
}
