// SPDX-License-Identifier: GPL-2.0

//! How far the registration of a device has come.
//!
//! Each stage is a fact about the device that is recorded in it, so a stage can only be entered
//! once and only be left by one thread, whatever order the caller takes them in. The record lies
//! in `ib_device.rcu_head`, which nobody needs before the device is freed.

use core::ptr::NonNull;

use super::{
    Device,
    Get, //
};
use crate::{
    completion::Completion,
    refcount::{
        refcount_from_raw,
        RefcountExt, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            ordering::Full,
            Atomic, //
        },
        lock::{
            mutex::MutexBackend,
            Guard,
            Lock, //
        },
        Refcount, //
    },
};

/// A stage of the registration, in the order of entering.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The GID table and the cache of each port.
    GidCache,
    /// The list of attribute groups. Stays until the device is freed.
    Attributes,
    /// The entry of the rdma cgroup controller.
    Cgroup,
    /// The counters of each port. Stay until the device is freed.
    Counters,
    /// The device in the driver model, with its uevents held back.
    DriverModel,
    /// The ports in sysfs.
    Ports,
    /// References can be had ([`Device::activate`]).
    Active,
}

/// Where it is recorded that the driver still has the reference it got from [`Device::alloc`].
const OWNED: usize = Stage::Active as usize + 1;

const _: () = assert!(size_of::<bindings::callback_head>() > OWNED);

impl Device {
    fn flag(&self, index: usize) -> &Atomic<i8> {
        // SAFETY: The record has a byte for each stage (asserted above), zeroed by `alloc` and
        // only accessed here before the device is freed.
        unsafe {
            Atomic::from_ptr(
                (&raw mut (*self.as_raw()).callback_head)
                    .cast::<i8>()
                    .add(index),
            )
        }
    }

    pub(super) fn note_owned(&self) {
        self.flag(OWNED).xchg(1, Full);
    }

    /// Takes over the reference that the driver has had since [`Device::alloc`]; only the first
    /// call gets it.
    pub fn claim(&self) -> Option<ARef<Device>> {
        if self.flag(OWNED).xchg(0, Full) == 0 {
            return None;
        }
        // SAFETY: The reference exists, as it was not claimed before.
        Some(unsafe { ARef::from_raw(NonNull::from(self)) })
    }

    fn enter(&self, stage: Stage) -> Result {
        if self.flag(stage as usize).xchg(1, Full) == 0 {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    fn leave(&self, stage: Stage) -> bool {
        self.flag(stage as usize).xchg(0, Full) != 0
    }

    /// Enters a stage. Sleeps. `EBUSY` if the device is in it.
    #[inline]
    pub fn install(&self, stage: Stage) -> Result {
        self.enter(stage)?;
        let raw = self.as_raw();
        // SAFETY: The device is valid, and no other thread is in this stage. Its port data exist
        // (`alloc_ports` is checked by `GidCache`, on which the others follow).
        let ret = unsafe {
            match stage {
                Stage::GidCache if (*raw).port_data.is_null() => EINVAL.to_errno(),
                Stage::GidCache => bindings::ib_cache_setup_one(raw),
                Stage::Attributes => {
                    (*raw).groups[0] = &raw const bindings::ib_dev_attr_group;
                    (*raw).groups[1] = (*raw).ops.device_group;
                    bindings::ib_setup_device_attrs(raw)
                }
                Stage::Cgroup => {
                    bindings::ib_device_register_rdmacg(raw);
                    0
                }
                Stage::Counters => {
                    bindings::rdma_counter_init(raw);
                    0
                }
                Stage::DriverModel => {
                    bindings::dev_set_uevent_suppress(self.dev_raw(), 1);
                    let ret = bindings::device_add(self.dev_raw());
                    if ret != 0 {
                        bindings::dev_set_uevent_suppress(self.dev_raw(), 0);
                    }
                    ret
                }
                Stage::Ports => bindings::ib_setup_port_attrs(self.coredev_raw()),
                Stage::Active => EINVAL.to_errno(),
            }
        };
        to_result(ret).inspect_err(|_| {
            self.leave(stage);
        })
    }

    /// Leaves a stage, if the device is in it. Sleeps.
    #[inline]
    pub fn uninstall(&self, stage: Stage) {
        if !self.leave(stage) {
            return;
        }
        // SAFETY: The stage was entered, and nobody else leaves it.
        unsafe {
            match stage {
                Stage::GidCache => bindings::ib_cache_cleanup_one(self.as_raw()),
                Stage::Cgroup => bindings::ib_device_unregister_rdmacg(self.as_raw()),
                Stage::DriverModel => {
                    bindings::device_del(self.dev_raw());
                    bindings::dev_set_uevent_suppress(self.dev_raw(), 0);
                }
                Stage::Ports => bindings::ib_free_port_attrs(self.coredev_raw()),
                Stage::Attributes | Stage::Counters | Stage::Active => {}
            }
        }
    }

    /// Lets the uevents of the device out.
    pub fn allow_uevents(&self) {
        // SAFETY: The embedded device is valid.
        unsafe { bindings::dev_set_uevent_suppress(self.dev_raw(), 0) };
    }

    /// Sends a uevent that says that the device came. May sleep.
    pub fn uevent_add(&self) {
        // SAFETY: The embedded device is valid.
        unsafe {
            bindings::kobject_uevent(
                &raw mut (*self.dev_raw()).kobj,
                bindings::kobject_action_KOBJ_ADD,
            )
        };
    }

    /// Sends a uevent that says that the device goes. May sleep.
    pub fn uevent_remove(&self) {
        // SAFETY: The embedded device is valid.
        unsafe {
            bindings::kobject_uevent(
                &raw mut (*self.dev_raw()).kobj,
                bindings::kobject_action_KOBJ_REMOVE,
            )
        };
    }

    fn refcount(&self) -> &Refcount {
        // SAFETY: Part of the device.
        unsafe { refcount_from_raw(&raw mut (*self.as_raw()).refcount) }
    }

    /// The number of registration references; zero when the device is not registered.
    pub fn use_count(&self) -> u32 {
        self.refcount().read()
    }

    /// The number of memory references.
    pub fn memory_count(&self) -> u32 {
        // SAFETY: Part of the device; a `kref` is a `refcount_t`.
        unsafe { refcount_from_raw((&raw mut (*self.dev_raw()).kobj.kref.refcount).cast()).read() }
    }

    /// Makes registration references available, and returns one. `EBUSY` if they are.
    ///
    /// Another one belongs to the registration itself, see [`Device::deactivate`].
    pub fn activate(&self) -> Result<Get> {
        self.enter(Stage::Active)?;
        self.refcount().set(2);
        // SAFETY: One of the two just made.
        Ok(unsafe { Get::from_raw(self.as_raw()) })
    }

    /// Drops the reference of the registration, and waits until all are gone. Sleeps.
    pub fn deactivate(&self) {
        if !self.leave(Stage::Active) {
            return;
        }
        // SAFETY: The stage owned a reference.
        drop(unsafe { Get::from_raw(self.as_raw()) });
        // SAFETY: Initialised by `alloc`.
        unsafe { Completion::from_raw(&raw mut (*self.as_raw()).unreg_completion) }.wait();
    }

    pub(super) fn put(&self) {
        if self.refcount().dec_and_test() {
            // SAFETY: Initialised by `alloc`; the waiter holds a memory reference.
            unsafe { Completion::from_raw(&raw mut (*self.as_raw()).unreg_completion) }.complete();
        }
    }

    /// Takes the lock that makes registration and unregistration of the device exclude each other.
    pub fn lock_registration(&self) -> RegistrationLock<'_> {
        // SAFETY: Initialised by `alloc`.
        let lock: &Lock<(), MutexBackend> =
            unsafe { Lock::from_raw((&raw mut (*self.as_raw()).unregistration_lock).cast()) };
        RegistrationLock { _lock: lock.lock() }
    }
}

/// No other thread unregisters or moves the device.
pub struct RegistrationLock<'d> {
    _lock: Guard<'d, (), MutexBackend>,
}
