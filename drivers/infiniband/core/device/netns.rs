// SPDX-License-Identifier: GPL-2.0

//! Devices and network namespaces: who may see a device, and how it moves.

use super::{
    compat,
    lifecycle,
    name, //
};
use kernel::{
    prelude::*,
    warn_on, //
};
use rdma::{
    device::{
        Device,
        Get,
        Name, //
    },
    netns::{
        self,
        Net,
        NetId,
        Requester, //
    },
    registry::{
        self,
        DevicesMut, //
    },
};

pub(crate) use super::compat::set_shared_mode;

/// Whether a namespace can see a device.
pub(crate) fn can_see(device: &Device, net: NetId) -> bool {
    netns::is_shared_mode() || NetId::of(device) == net
}

/// Whether the current task may send raw packets through a device.
///
/// What counts is the user namespace that owns the device's network namespace; in shared mode, where
/// no namespace owns a device, that of the initial one.
pub(crate) fn has_raw_cap(device: &Device) -> bool {
    if netns::is_shared_mode() {
        Net::init().has_cap_net_raw()
    } else {
        device.with_net(Net::has_cap_net_raw)
    }
}

/// Why a device moves.
enum Move<'a> {
    /// Somebody wants it, and perhaps a new name.
    Requested(Option<&'a Name>),
    /// Its namespace dies; it has to go, under whatever name.
    Refuge,
}

/// Gives a device that is disabled its new namespace and name.
fn settle(
    devices: &mut DevicesMut<'_>,
    device: &Device,
    from: NetId,
    to: NetId,
    why: &Move<'_>,
) -> Result {
    let named = match why {
        Move::Requested(requested) => name::for_move(devices.view(), device, to, *requested),
        Move::Refuge => name::for_refuge(devices.view(), device, to),
    };
    let renamed = named.and_then(|name| {
        devices.set_net(device, to);
        devices.rename(device, &name)
    });
    match (renamed, why) {
        (Ok(()), _) => Ok(()),
        (Err(err), Move::Requested(_)) => {
            devices.set_net(device, from);
            Err(err)
        }
        (Err(err), Move::Refuge) => {
            // The old namespace will not be there any more, so move without the name.
            devices.set_net(device, to);
            pr_warn!(
                "{}: no name for the device of a dying namespace: {}\n",
                device.name(),
                err.to_errno()
            );
            warn_on!(true);
            Ok(())
        }
    }
}

/// Moves a registered device from one namespace to another. Sleeps.
///
/// The caller has a memory reference, no registration reference. `ENODEV` if the device is not (any
/// more) registered in `from`. `EEXIST` if the name is taken in `to`, `EBUSY` if the device has
/// sub-devices; both are found before anything is torn down.
fn relocate(device: &Device, from: NetId, to: NetId, why: &Move<'_>) -> Result {
    let registry = registry::get();
    let _registration = device.lock_registration();
    if device.use_count() == 0 || NetId::of(device) != from {
        return Err(ENODEV);
    }
    if let Move::Requested(requested) = why {
        name::for_move(registry.devices.write().view(), device, to, *requested)?;
        // They hold references that would have to be waited for.
        if !device.sub_devices().is_empty() {
            return Err(EBUSY);
        }
    }

    device.uevent_remove();
    lifecycle::disable(device);
    let settled = settle(&mut registry.devices.write(), device, from, to, why);
    if settled.is_err() {
        dev_warn!(
            device.as_dev(),
            "Couldn't rename device after namespace change\n"
        );
    }
    // Whatever came of it, the device is to be usable again.
    let (get, enabled) = lifecycle::enable(device)?;
    if enabled.is_err() {
        dev_warn!(
            device.as_dev(),
            "Couldn't re-enable device after namespace change\n"
        );
    }
    device.uevent_add();
    drop(get);
    settled.and(enabled)
}

/// Moves a device to the namespace of a file descriptor, on the request of netlink. Sleeps.
///
/// Takes the reference of the caller. A move to where the device is only renames it. Errors that a
/// user can do something about come with a text.
pub(crate) fn set_netns(
    device: Get,
    fd: u32,
    name: Option<&CStr>,
    requester: &Requester<'_>,
) -> Result {
    let net = fd
        .try_into()
        .map_err(|_| EBADF)
        .and_then(Net::from_fd)
        .inspect_err(|_| requester.explain(c"Invalid target net namespace fd"))?;
    if !requester.may_administer(&net) {
        requester.explain(c"Missing CAP_NET_ADMIN in the target net namespace");
        return Err(EPERM);
    }

    let explain_name = |err: &Error| {
        if *err == EEXIST {
            requester.explain(c"Device name already exists in the target net namespace");
        } else if *err == EINVAL && name.is_some() {
            requester.explain(c"Unable to use requested device name in the target net namespace");
        }
    };

    if NetId::of(&device) == net.id() {
        return match name {
            Some(name) => super::name::rename(&device, name).inspect_err(explain_name),
            None => Ok(()),
        };
    }
    if netns::is_shared_mode() {
        requester.explain(c"Cannot change net namespace of RDMA device in shared netns mode");
        return Err(EOPNOTSUPP);
    }
    // Users are not waited for, so it must be possible to take the device from them.
    if !device.can_disassociate() {
        requester.explain(c"Device does not support namespace changes (no disassociate support)");
        return Err(EOPNOTSUPP);
    }

    let name = name.map(Name::new).transpose()?;
    let hold = device.hold();
    drop(device);
    relocate(
        &hold,
        NetId::current(),
        net.id(),
        &Move::Requested(name.as_ref()),
    )
    .inspect_err(explain_name)
}

/// A namespace is being made. Sleeps.
pub(crate) fn init_net(net: &Net) -> Result {
    let rdma = net.rdma();
    rdma.open_socket(net)?;
    if net == Net::init() {
        return Ok(());
    }
    registry::get()
        .nets
        .insert(rdma)
        .inspect_err(|_| rdma.close_socket())?;
    compat::add_for_net(rdma).inspect_err(|_| exit_net(net))
}

/// A namespace goes: its compat devices are removed, and its devices return to the initial one.
/// Sleeps.
pub(crate) fn exit_net(net: &Net) {
    let rdma = net.rdma();
    if net == Net::init() {
        rdma.close_socket();
        return;
    }
    let registry = registry::get();
    // The number stays taken until nothing bears it any more.
    warn_on!(registry.nets.write().hide(rdma).is_err());
    for device in registry.devices.walk() {
        device.compat_devices().remove(rdma);
        if NetId::of(&device) != net.id() {
            continue;
        }
        match relocate(&device, net.id(), Net::init().id(), &Move::Refuge) {
            Ok(()) => {}
            // It went by itself.
            Err(err) if err == ENODEV => {}
            Err(err) => {
                pr_warn!(
                    "Failed to move RDMA device {} to init_net on netns exit: {}\n",
                    device.name(),
                    err.to_errno()
                );
                warn_on!(true);
            }
        }
    }
    rdma.close_socket();
    registry.nets.remove(rdma);
}
