// SPDX-License-Identifier: GPL-2.0

//! Sub-devices: made on request of netlink, deleted on request or with their parent.
//!
//! Who takes a sub-device off the list of its parent deletes it. The list is not locked meanwhile,
//! because the deletion waits for users of the sub-device, and one of them may be a thread that
//! waits for the list.

use kernel::prelude::*;
use rdma::{
    device::{
        subdev::NewSubDevice,
        Device,
        Get, //
    },
    registry::{
        self,
        DeviceMark, //
    },
};

/// Adds a sub-device, which `create` makes, to a device. Sleeps.
///
/// `EOPNOTSUPP` if the driver has none, `EINVAL` if the parent is not registered.
pub(crate) fn add(parent: &Device, create: impl FnOnce(Get) -> Result<NewSubDevice>) -> Result {
    if !parent.can_have_sub_devices() {
        return Err(EOPNOTSUPP);
    }
    let new = create(parent.try_get().ok_or(EINVAL)?)?;
    {
        let mut list = parent.sub_devices();
        // The parent loses the mark before it empties its list for the last time.
        if registry::get()
            .devices
            .has_mark(parent, DeviceMark::Registered)
        {
            list.push(new);
            return Ok(());
        }
    }
    new.into_orphan().delete();
    Err(EINVAL)
}

/// Deletes a sub-device that the caller has a reference on. Sleeps.
///
/// `EOPNOTSUPP` if it is no sub-device, `ENODEV` if it is being deleted.
pub(crate) fn delete(device: Get) -> Result {
    let parent = device.parent().ok_or(EOPNOTSUPP)?;
    let orphan = parent.sub_devices().take(&device).ok_or(ENODEV)?;
    // The deletion waits for all references.
    drop(device);
    orphan.delete();
    Ok(())
}

/// Deletes all sub-devices of a device, the youngest first. Sleeps.
pub(super) fn delete_all(parent: &Device) {
    loop {
        let Some(orphan) = parent.sub_devices().pop() else {
            return;
        };
        orphan.delete();
    }
}
