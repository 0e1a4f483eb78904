// SPDX-License-Identifier: GPL-2.0

//! What several commands read from requests and write to replies.

use kernel::prelude::*;
use rdma::{
    device::{
        Device,
        Get, //
    },
    netlink::{AttrWriter, Attrs},
    netns::Net,
    nldev::device::{
        by_index,
        pid_seen_from_here,
        NetdevInfo, //
    },
    restrack::{
        Entry,
        Owner, //
    },
};

use super::policy::{
    DEV_INDEX,
    DEV_NAME,
    DRIVER_DETAILS,
    NDEV_INDEX,
    NDEV_NAME,
    PORT_INDEX,
    RES_KERN_NAME,
    RES_PID, //
};

/// The device that a request names; `EINVAL` if it names none, or one that is not there.
pub(super) fn device(netns: &Net, attrs: &Attrs<'_>) -> Result<Get> {
    by_index(netns, attrs.require(DEV_INDEX)?).ok_or(EINVAL)
}

/// The port that a request names, if it names one; `EINVAL` if the device has no such port.
pub(super) fn port(device: &Device, attrs: &Attrs<'_>) -> Result<Option<u32>> {
    match attrs.get(PORT_INDEX) {
        Some(port) if !device.has_port(port) => Err(EINVAL),
        port => Ok(port),
    }
}

/// The device and the port that a request must name.
pub(super) fn device_and_port(netns: &Net, attrs: &Attrs<'_>) -> Result<(Get, u32)> {
    let device = device(netns, attrs)?;
    let port = port(&device, attrs)?.ok_or(EINVAL)?;
    Ok((device, port))
}

/// Whether the sender wants to see what drivers use for themselves.
pub(super) fn wants_details(attrs: &Attrs<'_>) -> bool {
    attrs.get(DRIVER_DETAILS).is_some_and(|wanted| wanted != 0)
}

/// Writes which device a reply is about.
pub(super) fn put_device(out: &mut AttrWriter<'_>, device: &Device) -> Result {
    out.put(DEV_INDEX, device.index())?;
    out.put(DEV_NAME, &device.name())
}

/// Writes which network device belongs to a port.
pub(super) fn put_netdev(out: &mut AttrWriter<'_>, netdev: &NetdevInfo) -> Result {
    out.put(NDEV_INDEX, netdev.index)?;
    out.put(NDEV_NAME, netdev.name.as_c_str())
}

/// Writes who made an object: a module by its name, a process by its id. Nothing is written for a
/// process that is gone, or that the reader's pid namespace does not have.
pub(super) fn put_owner(out: &mut AttrWriter<'_>, entry: &Entry) -> Result {
    match entry.owner() {
        Owner::Kernel(name) => out.put_some(RES_KERN_NAME, name),
        Owner::User(task) => {
            let pid = task.map(pid_seen_from_here).filter(|pid| *pid != 0);
            out.put_some(RES_PID, pid)
        }
    }
}
