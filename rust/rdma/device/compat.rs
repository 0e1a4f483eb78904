// SPDX-License-Identifier: GPL-2.0

//! Compat devices: the view of a device that other network namespaces have in shared mode.
//!
//! Each is a `struct device` of its own with the same name and ports. For a namespace it is there
//! or not, and both changes happen from beginning to end under the lock of the device's compat
//! devices: who finds one gone knows that nothing of it is left.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use super::{
    alloc,
    Device,
    Name, //
};
use crate::{
    class::Class,
    gfp::Gfp,
    netns::RdmaNet,
    xarray::{
        Mark,
        Xa, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::lock::{
        mutex::MutexBackend,
        Guard,
        Lock, //
    },
};

/// A compat device.
#[repr(C)]
struct Compat {
    coredev: bindings::ib_core_device,
    /// Those of the device, without the one of hardware counters.
    groups: [*const bindings::attribute_group; 4],
}

/// The compat devices of a device, locked.
///
/// # Invariants
///
/// The lock is held. Each entry of the array is a complete compat device that the array owns.
pub struct CompatDevices<'d> {
    device: &'d Device,
    _lock: Guard<'d, (), MutexBackend>,
}

/// A compat device that is in the driver model; taken out of it when dropped.
///
/// # Invariants
///
/// The pointer is an initialised compat device with one reference of ours; `added` and `ports` say
/// what else there is of it.
struct Owned {
    compat: NonNull<Compat>,
    added: bool,
    ports: bool,
}

impl Owned {
    fn coredev(&self) -> *mut bindings::ib_core_device {
        self.compat.as_ptr().cast()
    }

    fn dev(&self) -> *mut bindings::device {
        // SAFETY: Valid by the type invariant.
        unsafe { &raw mut (*self.coredev()).dev }
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant; `compat_release` frees the memory.
        unsafe {
            if self.ports {
                bindings::ib_free_port_attrs(self.coredev());
            }
            if self.added {
                bindings::device_del(self.dev());
            }
            bindings::put_device(self.dev());
        }
    }
}

/// Frees a compat device.
///
/// # Safety
///
/// Called by the driver model when the last reference on a compat device is dropped.
#[inline]
unsafe extern "C" fn compat_release(dev: *mut bindings::device) {
    // SAFETY: The device is at offset 0 of what `add` allocated.
    unsafe { bindings::kfree(dev.cast()) }
}

impl Device {
    fn compat_xa(&self) -> &Xa<Compat> {
        // SAFETY: Initialised when the device was allocated; only this module stores entries.
        unsafe { Xa::from_raw(&raw mut (*self.as_raw()).compat_devs) }
    }

    /// Locks the compat devices. Sleeps.
    pub fn compat_devices(&self) -> CompatDevices<'_> {
        // SAFETY: Initialised when the device was allocated.
        let lock: &Lock<(), MutexBackend> =
            unsafe { Lock::from_raw((&raw mut (*self.as_raw()).compat_devs_mutex).cast()) };
        CompatDevices {
            device: self,
            // INVARIANT: Just taken.
            _lock: lock.lock(),
        }
    }
}

impl CompatDevices<'_> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.device.compat_xa().find(0, Mark::Present).is_none()
    }

    /// Makes the compat device for a namespace, unless there is one. Sleeps.
    #[inline]
    pub fn add(&mut self, class: &'static Class, net: &RdmaNet) -> Result {
        let xa = self.device.compat_xa();
        let id = net.id() as usize;
        if xa.load(id).is_some() {
            return Ok(());
        }
        let device = self.device.as_raw();
        // SAFETY: Only allocates.
        let raw = unsafe {
            bindings::ib_device_kzalloc(size_of::<Compat>(), bindings::GFP_KERNEL).cast::<Compat>()
        };
        let compat = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: The memory is zeroed and ours, the device is valid.
        unsafe {
            let raw = compat.as_ptr();
            let coredev = &raw mut (*raw).coredev;
            (*raw).groups = (*device).groups;
            let hw_stats = usize::from((*device).hw_stats_attr_index);
            if hw_stats != 0 {
                if let Some(group) = (*raw).groups.get_mut(hw_stats..) {
                    // Groups are listed up to the first null.
                    group.fill(core::ptr::null());
                }
            }
            (*coredev).dev.parent = (*self.device.dev_raw()).parent;
            alloc::init_coredev(
                coredev,
                device,
                net.net(),
                class,
                (&raw mut (*raw).groups).cast(),
            );
            (*coredev).dev.release = Some(compat_release);
        }
        // INVARIANT: `init_coredev` took the first reference.
        let mut owned = Owned {
            compat,
            added: false,
            ports: false,
        };
        // SAFETY: The device is initialised; the format takes one string.
        unsafe {
            let name = self.device.name();
            to_result(bindings::dev_set_name(
                owned.dev(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            ))?;
            to_result(bindings::device_add(owned.dev()))?;
            owned.added = true;
            to_result(bindings::ib_setup_port_attrs(owned.coredev()))?;
            owned.ports = true;
        }
        xa.store(id, compat, Gfp::KERNEL)?;
        // INVARIANT: The array owns the complete device.
        let _ = ManuallyDrop::new(owned);
        Ok(())
    }

    fn take(&mut self, id: usize) -> Option<Owned> {
        let compat = self.device.compat_xa().erase(id)?;
        // INVARIANT: The array owned the complete device.
        Some(Owned {
            compat,
            added: true,
            ports: true,
        })
    }

    /// Removes the compat device of a namespace, if there is one. Sleeps.
    #[inline]
    pub fn remove(&mut self, net: &RdmaNet) {
        drop(self.take(net.id() as usize));
    }

    /// Removes all. Sleeps.
    #[inline]
    pub fn remove_all(&mut self) {
        while let Some((id, _)) = self.device.compat_xa().find(0, Mark::Present) {
            drop(self.take(id));
        }
    }

    /// Gives all a new name. One that cannot have it is logged and keeps its old one. Sleeps.
    pub fn rename(&mut self, name: &Name) {
        for (_, compat) in self.device.compat_xa().iter(Mark::Present) {
            // SAFETY: By the type invariant the entry is a device of the driver model.
            unsafe {
                let dev = &raw mut (*compat.as_ptr()).coredev.dev;
                if bindings::device_rename(dev, name.as_char_ptr()) != 0 {
                    let dev: &kernel::device::Device = kernel::device::Device::from_raw(dev);
                    dev_warn!(dev, "Fail to rename compatdev to new name {}\n", name);
                }
            }
        }
    }
}
