// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::sysfs`].

use crate::sysfs::{
    self,
    CompatPorts,
    DeviceField,
    DeviceStatFile,
    OwnPort,
    OwnPorts, //
};
use kernel::{
    bindings,
    error::from_result,
    prelude::*, //
};
use rdma::{
    device::Device,
    kobject::Dir,
    sysfs::{
        published_port,
        Access,
        CoreDevice,
        DeviceAttribute,
        DeviceStats,
        PortDir,
        StaticGroup,
        StaticList, //
    }, //
};

static DEVICE_FILES: [DeviceAttribute<DeviceField>; 5] = [
    DeviceAttribute::new(c"node_type", Access::ReadOnly, DeviceField::NodeType),
    DeviceAttribute::new(c"node_guid", Access::ReadOnly, DeviceField::NodeGuid),
    DeviceAttribute::new(
        c"sys_image_guid",
        Access::ReadOnly,
        DeviceField::SysImageGuid,
    ),
    DeviceAttribute::new(c"fw_ver", Access::ReadOnly, DeviceField::FwVer),
    DeviceAttribute::new(c"node_desc", Access::ReadWrite, DeviceField::NodeDesc),
];

static DEVICE_LIST: StaticList<6> = StaticList::new(&DEVICE_FILES);

/// The files that every device has; device registration makes it the first of the device's groups.
#[no_mangle]
pub(crate) static ib_dev_attr_group: StaticGroup = StaticGroup::new(&DEVICE_LIST);

/// Makes the directories of the ports.
///
/// # Safety
///
/// Called once per appearance, by device registration and by the creation of a compat device, when
/// `coredev` is in sysfs. [`ib_free_port_attrs`] follows before it is taken out.
#[export]
pub(crate) unsafe extern "C" fn ib_setup_port_attrs(
    coredev: *mut bindings::ib_core_device,
) -> c_int {
    // SAFETY: By the caller.
    let core = unsafe { CoreDevice::from_raw(coredev) };
    from_result(|| sysfs::set_up_ports(core).map(|()| 0))
}

/// Removes the directories of the ports.
///
/// # Safety
///
/// Called once after [`ib_setup_port_attrs`]; no client uses the port directories any more.
#[export]
pub(crate) unsafe extern "C" fn ib_free_port_attrs(coredev: *mut bindings::ib_core_device) {
    // SAFETY: By the caller. The directories were made for the same kind of appearance.
    unsafe {
        let core = CoreDevice::from_raw(coredev);
        match core.own() {
            Some(_) => drop(OwnPorts::take(core)),
            None => drop(CompatPorts::take(core)),
        }
    }
}

/// Prepares the statistics of a device.
///
/// # Safety
///
/// Called by device registration, before the device is in sysfs.
#[export]
pub(crate) unsafe extern "C" fn ib_setup_device_attrs(ibdev: *mut bindings::ib_device) -> c_int {
    // SAFETY: By the caller; the appearance is part of the device.
    let core = unsafe { CoreDevice::from_raw(Device::from_raw(ibdev).coredev_raw()) };
    from_result(|| {
        sysfs::set_up_device(core.own().ok_or(EINVAL)?)?;
        Ok(0)
    })
}

/// Frees the statistics of a device.
///
/// # Safety
///
/// Called when the device is freed, with what [`ib_setup_device_attrs`] gave it.
#[export]
pub(crate) unsafe extern "C" fn ib_device_release_hw_stats(
    data: *mut bindings::hw_stats_device_data,
) {
    // SAFETY: By the caller.
    drop(unsafe { DeviceStats::<DeviceStatFile>::from_raw(data) });
}

/// The statistics of a port, or null.
///
/// # Safety
///
/// Called by netlink, which holds a reference to the registered device.
#[export]
pub(crate) unsafe extern "C" fn ib_get_hw_stats_port(
    ibdev: *mut bindings::ib_device,
    port_num: u32,
) -> *mut bindings::rdma_hw_stats {
    // SAFETY: By the caller.
    published_port(unsafe { Device::from_raw(ibdev) }, port_num)
        .and_then(|port| port.stats())
        .map_or(core::ptr::null_mut(), |stats| stats.as_raw())
}

/// Adds files of a client to the directory of a port.
///
/// # Safety
///
/// Called by a client, in its add callback; `groups` is a list of port attributes that stays until
/// [`ib_port_unregister_client_groups`].
#[export]
pub(crate) unsafe extern "C" fn ib_port_register_client_groups(
    ibdev: *mut bindings::ib_device,
    port_num: u32,
    groups: *mut *const bindings::attribute_group,
) -> c_int {
    // SAFETY: By the caller.
    let port = published_port(unsafe { Device::from_raw(ibdev) }, port_num);
    from_result(|| {
        // SAFETY: By the caller.
        unsafe { port.ok_or(EINVAL)?.kobject().create_groups(groups.cast())? };
        Ok(0)
    })
}

/// Removes files of a client from the directory of a port.
///
/// # Safety
///
/// Called by a client, in its remove callback at the latest, after
/// [`ib_port_register_client_groups`] with the same arguments.
#[export]
pub(crate) unsafe extern "C" fn ib_port_unregister_client_groups(
    ibdev: *mut bindings::ib_device,
    port_num: u32,
    groups: *mut *const bindings::attribute_group,
) {
    // SAFETY: By the caller.
    unsafe {
        if let Some(port) = published_port(Device::from_raw(ibdev), port_num) {
            port.kobject().remove_groups(groups.cast());
        }
    }
}

/// Device and port that a directory belongs to.
///
/// # Safety
///
/// Called by a driver, in the functions of its own port files: `kobj` is the directory of a port of
/// a device in its own namespace, and the result has room.
#[export]
pub(crate) unsafe extern "C" fn ib_port_sysfs_get_ibdev_kobj(
    kobj: *mut bindings::kobject,
    port_num: *mut u32,
) -> *mut bindings::ib_device {
    // SAFETY: By the caller.
    unsafe {
        let dir = Dir::<PortDir<OwnPort>>::from_kobj(kobj);
        port_num.write(dir.number());
        dir.device().as_raw()
    }
}
