// SPDX-License-Identifier: GPL-2.0

//! Compat devices: for each device and each namespace that is not the device's own, in shared mode.
//!
//! Who adds one holds the table of devices and the table of namespaces, and has seen that the device
//! is registered. Device, namespace or mode stop asking for it before they remove theirs, so
//! nothing can be added after the removal.

use super::CLASS;
use kernel::prelude::*;
use rdma::{
    device::{
        Device,
        Name, //
    },
    netns::{
        self,
        NetId,
        RdmaNet, //
    },
    registry::{
        self,
        DeviceMark,
        Devices,
        Nets, //
    },
};

/// Adds the compat device of a device for a namespace, if it has to have one.
fn add(_devices: &Devices<'_>, _nets: &Nets<'_>, device: &Device, net: &RdmaNet) -> Result {
    if !netns::is_shared_mode() || net.net().id() == NetId::of(device) {
        return Ok(());
    }
    device.compat_devices().add(&CLASS, net)
}

/// Adds those of a device.
pub(super) fn add_for_device(devices: &Devices<'_>, device: &Device) -> Result {
    let nets = registry::get().nets.read();
    let result = nets
        .iter()
        .try_for_each(|net| add(devices, &nets, device, net));
    result
}

/// Adds those of a namespace.
pub(super) fn add_for_net(net: &RdmaNet) -> Result {
    let registry = registry::get();
    let devices = registry.devices.read();
    let result = devices
        .view()
        .marked(DeviceMark::Registered)
        .try_for_each(|device| add(&devices, &registry.nets.read(), device, net));
    result
}

fn add_all() -> Result {
    let devices = registry::get().devices.read();
    let result = devices
        .view()
        .marked(DeviceMark::Registered)
        .try_for_each(|device| add_for_device(&devices, device));
    result
}

fn remove_all() {
    let registry = registry::get();
    let devices = registry.devices.read();
    for device in devices.view().iter() {
        let _nets = registry.nets.read();
        device.compat_devices().remove_all();
    }
}

/// Gives the compat devices of a device its new name. One that cannot have it is logged and keeps
/// the old one.
pub(super) fn rename(device: &Device, name: &Name) {
    device.compat_devices().rename(name);
}

/// Changes the sharing mode. Sleeps. `EBUSY` if there is any namespace but the initial one.
pub(crate) fn set_shared_mode(shared: bool) -> Result {
    {
        let nets = registry::get().nets.write();
        if netns::is_shared_mode() == shared {
            return Ok(());
        }
        if !nets.is_empty() {
            return Err(EBUSY);
        }
        netns::set_shared_mode(&nets, shared);
    }
    // Namespaces made since see the new mode.
    if shared {
        add_all().inspect_err(|_| remove_all())
    } else {
        remove_all();
        Ok(())
    }
}
