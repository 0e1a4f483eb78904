// SPDX-License-Identifier: GPL-2.0

//! Clients, and which devices they were told of.

use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
    warn_on, //
};
use rdma::{
    client::{
        self,
        Client,
        ClientData,
        NetDevQuery,
        NlInfo, //
    },
    device::{
        clients::Detached,
        Device, //
    },
    registry::{
        self,
        DeviceMark, //
    },
};

/// Tells a client of a device, unless it knows.
///
/// The caller holds a lock on both tables, and the device is registered. That the client does not
/// want the device is no error; the client then is not told when the device goes.
pub(super) fn attach(device: &Device, client: &'static Client) -> Result {
    if !device.is_kverbs_provider() && !client.takes_any_device() {
        return Ok(());
    }
    let mut slots = device.slots_mut();
    let Some(usage) = client.try_use() else {
        // It is being unregistered.
        return Ok(());
    };
    let get = device.try_get().ok_or(ENODEV)?;
    if slots.is_attached(client.id()) {
        // Device and client are being registered at once, and the other thread was faster.
        return Ok(());
    }
    slots.reserve(client.id())?;
    let slots = slots.downgrade();
    match client.add(device) {
        Ok(()) => slots.attach(get, usage),
        Err(_) => device.free_slot(client.id()),
    }
    Ok(())
}

/// Takes a device from a client, if it was told of it. Sleeps.
///
/// No table may be locked, as the client may call back. If another thread is at it, this does not
/// wait for it, see [`wait_detached`].
pub(super) fn detach(device: &Device, id: u32) {
    let clients = &registry::get().clients;
    let Some(Detached { data, get, client }) = device.slots_mut().detach(clients, id) else {
        return;
    };
    client.client().remove(device, data);
    device.free_slot(id);
    drop(get);
    drop(client);
}

/// Waits until no thread is taking a device, which is going, from a client. Sleeps.
///
/// A client may use what older clients and the core have until its callback has returned.
pub(super) fn wait_detached(device: &Device, id: u32) {
    const STEP: Delta = Delta::from_millis(1);

    while device.has_slot(id) {
        fsleep(STEP);
    }
}

/// Registers a client and tells it of all devices. Sleeps.
pub(crate) fn register(client: &'static Client) -> Result {
    let registry = registry::get();
    let told = {
        // Locked for writing, so that no device comes or goes meanwhile.
        let devices = registry.devices.write();
        let mut clients = registry.clients.write();
        clients.insert(client.begin())?;
        let told = devices
            .view()
            .marked(DeviceMark::Registered)
            .try_for_each(|device| attach(device, client));
        drop(clients);
        told
    };
    told.inspect_err(|_| unregister(client))
}

/// Takes all devices from a client. Sleeps. Afterwards none of its callbacks is running.
pub(crate) fn unregister(client: &'static Client) {
    let registry = registry::get();
    let Some(registration) = registry.clients.write().retire(client) else {
        return;
    };
    drop(registration);
    for device in registry.devices.walk_live() {
        detach(&device, client.id());
    }
    // Another thread may be removing a device that is going itself.
    client.wait_unused();
    registry.clients.write().remove(client);
}

/// Replaces what a client keeps for a device. May sleep.
pub(crate) fn set_data(device: &Device, client: &Client, data: Option<ClientData>) {
    warn_on!(data.is_none());
    let data = data.unwrap_or(ClientData::NONE);
    warn_on!(device.set_client_data(client.id(), data).is_err());
}

/// A client's answer to a question for its character device.
fn check_answer(answer: Option<Result>, info: &NlInfo) -> Result {
    let answer = answer.ok_or(EOPNOTSUPP)?;
    // This one says that there is no such client.
    if warn_on!(answer == Err(ENOENT)) {
        return Err(EINVAL);
    }
    answer?;
    // While the client cannot go.
    info.hold_cdev();
    Ok(())
}

fn ask(device: Option<&Device>, name: &CStr, info: &NlInfo) -> Result {
    let clients = &registry::get().clients;
    match device {
        Some(device) => {
            let slots = device.slots();
            let (client, data) = slots
                .attached(clients)
                .find(|(client, _)| client.name().to_bytes() == name.to_bytes())
                .ok_or(ENOENT)?;
            check_answer(client.nl_info(device, data, info), info)
        }
        None => {
            let clients = clients.read();
            let client = clients
                .registered()
                .find(|client| client.name().to_bytes() == name.to_bytes())
                .ok_or(ENOENT)?;
            check_answer(client.global_nl_info(info), info)
        }
    }
}

/// Asks a client for the character device that it has for a device, or for all. Sleeps.
///
/// Loads the client's module if need be. `EOPNOTSUPP` if there is no such client, or if it has no
/// such device.
pub(crate) fn nl_info(device: Option<&Device>, name: &CStr, info: &NlInfo) -> Result {
    let mut answer = ask(device, name, info);
    if answer == Err(ENOENT) {
        client::request_module(name);
        answer = ask(device, name, info);
    }
    match answer {
        Err(err) if err == ENOENT => return Err(EOPNOTSUPP),
        answer => answer?,
    }
    if warn_on!(!info.has_cdev()) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Asks clients for the network device that a connection request is for, until one knows. Sleeps.
///
/// The result, with a reference for the caller, is handed out as `found` turns it into.
pub(crate) fn net_dev_by_params<T>(
    device: &Device,
    query: &NetDevQuery,
    ask: impl Fn(&Client, ClientData) -> Option<T>,
) -> Option<T> {
    if !device.port_caps(query.port()).protocol_ib() {
        return None;
    }
    // As long as it is locked, no client that is asked can go.
    let slots = device.slots();
    let mut attached = slots.attached(&registry::get().clients);
    attached.find_map(|(client, data)| ask(client, data))
}
