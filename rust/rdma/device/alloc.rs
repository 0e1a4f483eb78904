// SPDX-License-Identifier: GPL-2.0

//! The memory of a device: how it is made, and what happens when its last reference is gone.

use core::ptr::NonNull;

use super::Device;
use crate::{
    class::Class,
    netns::Net,
    registry,
    subsystem::Shared,
    xarray::{
        Kind,
        Xa, //
    },
};
use kernel::{
    bindings,
    container_of,
    prelude::*,
    static_lock_class,
    sync::aref::ARef, //
};

/// What runs when a device that was queued for unregistration gets its turn.
pub trait UnregisterWork {
    /// Runs on the queue, in process context.
    fn run(device: ARef<Device>);
}

/// # Safety
///
/// Called by a work queue with the `unregistration_work` of a device, for which
/// [`Device::queue_unregister`] left a reference.
unsafe extern "C" fn run_work<W: UnregisterWork>(work: *mut bindings::work_struct) {
    // SAFETY: By the caller.
    let device = unsafe {
        let raw = container_of!(work, bindings::ib_device, unregistration_work);
        ARef::from_raw(NonNull::new_unchecked(raw.cast()))
    };
    W::run(device)
}

/// Fills the part of a device, or of a compat device, that the driver model knows.
///
/// # Safety
///
/// `coredev` is zeroed memory for one object, part of an allocation whose `device` owns it;
/// `groups` is a null-terminated list that stays as long as the object.
pub(crate) unsafe fn init_coredev(
    coredev: *mut bindings::ib_core_device,
    device: *mut bindings::ib_device,
    net: &Net,
    class: &'static Class,
    groups: *mut *const bindings::attribute_group,
) {
    // SAFETY: By the caller.
    unsafe {
        (*coredev).dev.class = class.as_raw();
        (*coredev).dev.groups = groups;
        bindings::device_initialize(&raw mut (*coredev).dev);
        (*coredev).owner = device;
        bindings::INIT_LIST_HEAD(&raw mut (*coredev).port_list);
        bindings::write_pnet(&raw mut (*coredev).rdma_net, net.as_raw());
    }
}

impl Device {
    /// Makes a device with `size` bytes for the structure of the driver, which begins with it. May
    /// sleep.
    ///
    /// `cmd_mask` are the user commands that work without the driver's help. The first reference
    /// is the driver's; [`Device::claim`] takes it back.
    #[inline]
    pub fn alloc<W: UnregisterWork>(
        size: usize,
        net: &Net,
        class: &'static Class,
        cmd_mask: u64,
    ) -> Option<&'static Device> {
        if size < size_of::<bindings::ib_device>() {
            return None;
        }
        // SAFETY: The memory is zeroed, large enough and ours. Names and classes are static.
        unsafe {
            let raw: *mut bindings::ib_device =
                bindings::ib_device_kzalloc(size, bindings::GFP_KERNEL).cast();
            NonNull::new(raw)?;
            if bindings::rdma_restrack_init(raw) != 0 {
                bindings::kfree(raw.cast());
                return None;
            }
            init_coredev(
                Device::from_raw(raw).coredev_raw(),
                raw,
                net,
                class,
                (&raw mut (*raw).groups).cast(),
            );
            init_locks(raw);
            init_tables(raw);
            bindings::init_completion(&raw mut (*raw).unreg_completion);
            bindings::init_work_with_key(
                &raw mut (*raw).unregistration_work,
                Some(run_work::<W>),
                false,
                c"rdma_unregister".as_char_ptr(),
                static_lock_class!().as_ptr(),
            );
            (*raw).uverbs_cmd_mask = cmd_mask;
            Device::from_raw(raw).note_owned();
            Some(Device::from_raw(raw))
        }
    }

    /// Queues the unregistration, unless it is queued. Any context.
    #[inline]
    pub fn queue_unregister(&self) {
        let device = self.hold();
        // SAFETY: The work was initialised with the device; its reference goes with it.
        let queued = unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                Shared::Unregister.raw(),
                &raw mut (*self.as_raw()).unregistration_work,
            )
        };
        if queued {
            let _ = ARef::into_raw(device);
        }
    }

    /// Frees what tracks the resources of the device, which has none any more.
    #[inline]
    pub fn clean_restrack(&self) {
        // SAFETY: Made in `alloc`; takes a root that is gone, too.
        unsafe {
            if !(*self.as_raw()).res.is_null() {
                bindings::rdma_restrack_clean(self.as_raw());
            }
        }
    }
}

/// # Safety
///
/// `raw` is a device that nobody else uses yet.
unsafe fn init_locks(raw: *mut bindings::ib_device) {
    // SAFETY: By the caller; names and classes are static.
    unsafe {
        bindings::__spin_lock_init(
            &raw mut (*raw).qp_open_list_lock,
            c"qp_open_list_lock".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__spin_lock_init(
            &raw mut (*raw).cq_pools_lock,
            c"cq_pools_lock".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::rwlock_init(
            &raw mut (*raw).cache_lock,
            c"cache_lock".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__init_rwsem(
            &raw mut (*raw).event_handler_rwsem,
            c"event_handler_rwsem".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__init_rwsem(
            &raw mut (*raw).client_data_rwsem,
            c"client_data_rwsem".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__mutex_init(
            &raw mut (*raw).unregistration_lock,
            c"unregistration_lock".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__mutex_init(
            &raw mut (*raw).compat_devs_mutex,
            c"compat_devs_mutex".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::__mutex_init(
            &raw mut (*raw).subdev_lock,
            c"subdev_lock".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
    }
}

/// # Safety
///
/// `raw` is a device that nobody else uses yet.
unsafe fn init_tables(raw: *mut bindings::ib_device) {
    // SAFETY: By the caller.
    unsafe {
        // Allocating, so that a slot without data still can be marked.
        Xa::<c_void>::init_raw(&raw mut (*raw).client_data, Kind::Alloc);
        Xa::<c_void>::init_raw(&raw mut (*raw).compat_devs, Kind::Alloc);
        bindings::INIT_LIST_HEAD(&raw mut (*raw).event_handler_list);
        bindings::INIT_LIST_HEAD(&raw mut (*raw).subdev_list_head);
        bindings::INIT_LIST_HEAD(&raw mut (*raw).subdev_list);
        let pools: *mut bindings::list_head = (&raw mut (*raw).cq_pools).cast();
        for i in 0..(*raw).cq_pools.len() {
            bindings::INIT_LIST_HEAD(pools.add(i));
        }
    }
}

/// Frees a device.
///
/// # Safety
///
/// The last reference on the device is gone.
#[inline]
pub(crate) unsafe fn release(raw: *mut bindings::ib_device) {
    // SAFETY: Nobody but readers under RCU can reach the device any more, so what they cannot
    // reach is freed at once, and the rest after a grace period.
    unsafe {
        let device = Device::from_raw(raw);
        device.unbind_netdevs(&registry::get().netdevs);
        kernel::warn_on!(device.use_count() != 0);
        if !(*raw).hw_stats_data.is_null() {
            bindings::ib_device_release_hw_stats((*raw).hw_stats_data);
        }
        if !(*raw).port_data.is_null() {
            bindings::ib_cache_release_one(raw);
            bindings::rdma_counter_release(raw);
            device.free_ports();
        }
        bindings::mutex_destroy(&raw mut (*raw).subdev_lock);
        bindings::mutex_destroy(&raw mut (*raw).unregistration_lock);
        bindings::mutex_destroy(&raw mut (*raw).compat_devs_mutex);
        bindings::xa_destroy(&raw mut (*raw).compat_devs);
        bindings::xa_destroy(&raw mut (*raw).client_data);
        bindings::kvfree_call_rcu((&raw mut (*raw).callback_head).cast(), raw.cast());
    }
}
