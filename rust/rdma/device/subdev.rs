// SPDX-License-Identifier: GPL-2.0

//! Sub-devices: devices that a driver makes out of another one on request.
//!
//! The list of a parent owns one [`Get`] of the parent per entry. Who takes an entry off the list
//! has to delete the sub-device; the list lock is not held for that, as the deletion waits for
//! users, which may want the lock.

use core::mem::ManuallyDrop;

use super::{
    Device,
    Get, //
};
use kernel::{
    bindings, container_of,
    error::from_err_ptr,
    prelude::*,
    sync::lock::{
        mutex::MutexBackend,
        Guard,
        Lock, //
    },
};

/// The sub-devices of a device, locked.
///
/// # Invariants
///
/// The lock of the list is held. Every entry of the list is a valid device, and owns a count of
/// the parent.
pub struct SubDevices<'p> {
    parent: &'p Device,
    _lock: Guard<'p, (), MutexBackend>,
}

/// A sub-device that was taken off the list of its parent.
pub struct Orphan {
    device: *mut bindings::ib_device,
    parent: Get,
}

impl Orphan {
    /// Has the driver delete the sub-device, and drops the reference on the parent. Sleeps.
    pub fn delete(self) {
        if let Some(del_sub_dev) = self.parent.ops().del_sub_dev {
            // SAFETY: The sub-device was made by `add_sub_dev` and is deleted once, as it was on
            // the list once.
            unsafe { del_sub_dev(self.device) };
        }
    }
}

/// A sub-device that its driver just made.
pub struct NewSubDevice {
    orphan: Orphan,
}

impl Device {
    /// Whether the driver can make and delete sub-devices.
    pub fn can_have_sub_devices(&self) -> bool {
        self.ops().add_sub_dev.is_some() && self.ops().del_sub_dev.is_some()
    }

    /// The device that this one was made out of.
    pub fn parent(&self) -> Option<&Device> {
        // SAFETY: Written before the sub-device enters its parent's list. The parent stays
        // registered as long as a sub-device exists.
        unsafe {
            (*self.as_raw())
                .parent
                .as_mut()
                .map(|parent| Device::from_raw(parent))
        }
    }

    /// Locks the list of sub-devices. Sleeps.
    pub fn sub_devices(&self) -> SubDevices<'_> {
        // SAFETY: Initialised when the device was allocated.
        let lock: &Lock<(), MutexBackend> =
            unsafe { Lock::from_raw((&raw mut (*self.as_raw()).subdev_lock).cast()) };
        SubDevices {
            parent: self,
            // INVARIANT: Just taken.
            _lock: lock.lock(),
        }
    }
}

impl NewSubDevice {
    /// Has the driver of `parent` make a sub-device. May sleep.
    ///
    /// # Safety
    ///
    /// `name` is a string.
    pub unsafe fn create(
        parent: Get,
        kind: bindings::rdma_nl_dev_type,
        name: *const c_char,
    ) -> Result<Self> {
        let add_sub_dev = parent.ops().add_sub_dev.ok_or(EOPNOTSUPP)?;
        // SAFETY: The parent is registered; `name` by the caller.
        let device = from_err_ptr(unsafe { add_sub_dev(parent.as_raw(), kind, name) })?;
        // SAFETY: The driver just made the device; it is not on a list yet.
        unsafe {
            (*device).type_ = kind;
            (*device).parent = parent.as_raw();
        }
        Ok(Self {
            orphan: Orphan { device, parent },
        })
    }

    /// Lets the driver delete it again.
    pub fn into_orphan(self) -> Orphan {
        self.orphan
    }
}

impl SubDevices<'_> {
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: Part of the device.
        unsafe { &raw mut (*self.parent.as_raw()).subdev_list_head }
    }

    /// Adds a new sub-device of this parent at the end of the list.
    pub fn push(&mut self, new: NewSubDevice) {
        let Orphan { device, parent } = new.orphan;
        // INVARIANT: The entry owns the count.
        let _ = ManuallyDrop::new(parent);
        // SAFETY: The entry is on no list, and the lock is held.
        unsafe { bindings::list_add_tail(&raw mut (*device).subdev_list, self.head()) };
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The list is initialised and the lock held.
        unsafe { (*self.head()).next == self.head() }
    }

    fn unlink(&mut self, device: *mut bindings::ib_device) -> Orphan {
        // SAFETY: The caller found the entry on the list, whose lock is held; unlinked entries
        // point to themselves. The count that the entry owned is handed over.
        unsafe {
            let entry = &raw mut (*device).subdev_list;
            bindings::rdma_list_del(entry);
            bindings::INIT_LIST_HEAD(entry);
            Orphan {
                device,
                parent: Get::from_raw(self.parent.as_raw()),
            }
        }
    }

    /// Takes the youngest sub-device off the list.
    pub fn pop(&mut self) -> Option<Orphan> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: The list is not empty, so the last entry is that of a sub-device.
        let device =
            unsafe { container_of!((*self.head()).prev, bindings::ib_device, subdev_list) };
        Some(self.unlink(device))
    }

    /// Takes a sub-device off the list, unless somebody did so before.
    pub fn take(&mut self, device: &Device) -> Option<Orphan> {
        let wanted = device.as_raw();
        // SAFETY: The list is initialised, its entries are valid, and the lock is held.
        let linked = unsafe {
            let entry = &raw mut (*wanted).subdev_list;
            (*entry).next != entry
        };
        linked.then(|| self.unlink(wanted))
    }
}
