// SPDX-License-Identifier: GPL-2.0

//! From allocation over registration to unregistration and back.

use super::{
    client,
    compat,
    name,
    subdev,
    CLASS, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::aref::ARef,
    types::ScopeGuard,
    warn_on, //
};
use rdma::{
    device::{
        alloc::UnregisterWork,
        ops::{
            Deallocation,
            DmaDevice,
            Notice, //
        },
        stage::Stage,
        Device,
        Get, //
    },
    netns::{
        self,
        Net, //
    },
    registry::{
        self,
        DeviceMark, //
    },
};

/// User commands that every driver is taken to support, as it always was.
const USER_COMMANDS: u64 = {
    const COMMANDS: [bindings::ib_uverbs_write_cmds; 30] = [
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_MW,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_PD,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ATTACH_MCAST,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CLOSE_XRCD,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_AH,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_CQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_QP,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_SRQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_XSRQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_MW,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_PD,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEREG_MR,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_AH,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_CQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_QP,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_SRQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DETACH_MCAST,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_GET_CONTEXT,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_QP,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_SRQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_QP,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_XRCD,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_DEVICE,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_PORT,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_QP,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_SRQ,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REG_MR,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REREG_MR,
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_RESIZE_CQ,
    ];

    let mut mask = 0;
    let mut i = 0;
    while i < COMMANDS.len() {
        mask |= 1u64 << COMMANDS[i];
        i += 1;
    }
    mask
};

/// What registration installs, in this order; unregistration removes it in the reverse one.
const STAGES: [Stage; 6] = [
    Stage::GidCache,
    Stage::Attributes,
    Stage::Cgroup,
    Stage::Counters,
    Stage::DriverModel,
    Stage::Ports,
];

/// What an administrator reads in the log when a stage fails.
fn complaint(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::GidCache => Some("Couldn't set up InfiniBand P_Key/GID cache"),
        Stage::Ports => Some("Couldn't register device with driver model"),
        _ => None,
    }
}

/// Makes a device of `size` bytes, of which the driver gets the first reference. May sleep.
///
/// In shared mode the device belongs to the initial namespace whatever the driver asks for: some
/// drivers do not know better.
pub(crate) fn alloc(size: usize, net: &Net) -> Option<&'static Device> {
    let net = if netns::is_shared_mode() {
        Net::init()
    } else {
        net
    };
    let device = Device::alloc::<UnregisterNow>(size, net, &CLASS, USER_COMMANDS);
    warn_on!(device.is_none() && size < size_of::<bindings::ib_device>());
    device
}

/// Ends the life of a device that is not registered; it may be half registered. Sleeps.
///
/// The device stays in the table until the last operation of its driver has returned, which
/// [`unregister_driver`] relies on.
pub(crate) fn dealloc(device: &Device) {
    // Until the end of this function.
    let _hold = device.hold();

    device.dealloc_driver();
    let registry = registry::get();
    let entry = registry.devices.write().remove(device);
    drop(entry);
    device.unbind_netdevs(&registry.netdevs);

    warn_on!(!device.compat_devices().is_empty());
    warn_on!(!device.has_no_slots());
    warn_on!(device.use_count() != 0);
    device.clean_restrack();
    let first_reference = device.claim();
    warn_on!(first_reference.is_none());
}

/// Gathers what only the driver knows.
fn setup(device: &Device) -> Result {
    device.note_kverbs_provider();
    setup_ports(device)
        .inspect_err(|_| dev_warn!(device.as_dev(), "Couldn't create per-port data\n"))?;
    device
        .load_attrs()
        .inspect_err(|_| dev_warn!(device.as_dev(), "Couldn't query the device attributes\n"))
}

fn setup_ports(device: &Device) -> Result {
    // Not for a switch, whose single port is number 0.
    if warn_on!(device.phys_port_cnt() == 0 || device.phys_port_cnt() == u32::MAX) {
        return Err(EINVAL);
    }
    device.alloc_ports()?;
    for port in device.ports() {
        device.load_immutable(port)?;
        let no_mad_size = device
            .immutable(port)
            .is_some_and(|immutable| immutable.max_mad_size == 0);
        if warn_on!(!device.port_caps(port).ib_mad() && !no_mad_size) {
            return Err(EINVAL);
        }
    }
    Ok(())
}

fn uninstall_all(device: &Device) {
    for stage in STAGES.into_iter().rev() {
        device.uninstall(stage);
    }
}

/// Registers a device: gives it its name, shows it to clients and to user space. Sleeps.
///
/// After an error the caller has to [`dealloc`] the device. `ENFILE` if a literal name is taken.
/// If other threads may unregister the device, it may be gone when this returns.
pub(crate) fn register(device: &Device, name: &CStr, dma_device: DmaDevice) -> Result {
    name::assign(device, name)?;
    device.set_dma_device(dma_device);
    setup(device)?;

    let unwind = ScopeGuard::new(|| uninstall_all(device));
    for stage in STAGES {
        device.install(stage).inspect_err(|_| {
            if let Some(complaint) = complaint(stage) {
                dev_warn!(device.as_dev(), "{}\n", complaint);
            }
        })?;
    }
    let (get, enabled) = enable(device)?;
    // From here on it is `unregister`, of this or another thread, that undoes the stages.
    unwind.dismiss();

    if let Err(err) = enabled {
        // The caller is to free the device. Another thread that unregisters it waits for `get`, so
        // it learns that, too.
        let held_back = device.hold_back_dealloc();
        drop(get);
        unregister(device);
        drop(held_back);
        return Err(err);
    }
    device.allow_uevents();
    announce(device);
    drop(get);
    Ok(())
}

/// Tells user space of a new device: a uevent, then netlink events for the device and for each
/// port that has a network device.
fn announce(device: &Device) {
    // No rename in between.
    let _devices = registry::get().devices.read();
    device.uevent_add();
    if device.notify(0, Notice::Register).is_err() {
        return;
    }
    for port in device.ports() {
        if device.netdev(port).is_some() && device.notify(port, Notice::NetdevAttach).is_err() {
            return;
        }
    }
}

/// Makes a device visible to clients and lookups. Sleeps.
///
/// The reference that comes with the result keeps it registered even if there was an error, so
/// that nobody can unregister it before the caller has dealt with that.
pub(super) fn enable(device: &Device) -> Result<(Get, Result)> {
    let registry = registry::get();
    let get = device.activate()?;
    let mut devices = registry.devices.write();
    devices.set_mark(device, DeviceMark::Registered, true);
    // The mark stays as long as the lock is held in whichever way.
    let devices = devices.downgrade();

    let attach_clients = || {
        let clients = registry.clients.read();
        let result = clients
            .registered()
            .try_for_each(|client| client::attach(device, client));
        result
    };
    let result = device
        .enable_driver()
        .and_then(|()| attach_clients())
        .and_then(|()| compat::add_for_device(&devices, device));
    drop(devices);
    Ok((get, result))
}

/// Takes a device from clients and lookups, waits for all references to it, and removes its compat
/// devices. Sleeps. The caller holds the registration lock.
pub(super) fn disable(device: &Device) {
    let registry = registry::get();
    warn_on!(device.use_count() == 0);
    registry
        .devices
        .write()
        .set_mark(device, DeviceMark::Registered, false);
    // None can come any more: sub-devices are only accepted by registered devices.
    subdev::delete_all(device);

    // The youngest client first. A client that comes now does not see the device.
    let end = registry.clients.read().end_id();
    for id in (0..end).rev() {
        client::detach(device, id);
        // The client may be going itself, and its thread be faster.
        client::wait_detached(device, id);
    }
    device.clean_cq_pools();
    device.deactivate();
    // New ones are only made for registered devices, by threads that lock the table of devices.
    device.compat_devices().remove_all();
}

/// Unregisters a device, and frees it if that is the core's business. Sleeps.
///
/// The caller holds a memory reference, no registration reference. Any number of threads may do
/// this at once: all return when it is done.
pub(crate) fn unregister(device: &Device) {
    let device = device.hold();
    // So that their deletion does not happen under the registration lock of their parent.
    subdev::delete_all(&device);

    let _registration = device.lock_registration();
    if device.use_count() == 0 {
        return;
    }
    disable(&device);
    let _ = device.notify(0, Notice::Unregister);
    device.unbind_netdevs(&registry::get().netdevs);
    uninstall_all(&device);

    if device.deallocation() == Deallocation::ByCore {
        // Of the driver, of the table, and of this thread.
        warn_on!(device.memory_count() < 3);
        dealloc(&device);
    }
}

/// Unregisters a device that the caller has a reference on. Sleeps.
pub(crate) fn unregister_and_put(get: Get) {
    warn_on!(get.deallocation() == Deallocation::ByCaller);
    let device = get.hold();
    drop(get);
    unregister(&device);
}

/// Unregisters all devices of a driver. Sleeps.
///
/// On return no thread is in an operation of the driver any more, provided that it makes no new
/// devices meanwhile.
pub(crate) fn unregister_driver(driver: bindings::rdma_driver_id) {
    for device in registry::get().devices.walk() {
        if device.driver_id() != driver {
            continue;
        }
        warn_on!(device.deallocation() == Deallocation::ByCaller);
        unregister(&device);
    }
}

/// Unregisters a device later, from a work queue. Any context that can queue work.
pub(crate) fn unregister_queued(device: &Device) {
    warn_on!(device.use_count() == 0);
    warn_on!(device.deallocation() == Deallocation::ByCaller);
    device.queue_unregister();
}

/// The work that [`unregister_queued`] queues.
struct UnregisterNow;

impl UnregisterWork for UnregisterNow {
    fn run(device: ARef<Device>) {
        unregister(&device);
    }
}
