// SPDX-License-Identifier: GPL-2.0

//! Which network device a port belongs to.
//!
//! Each port remembers its network device, with a reference, under a spinlock of its own; a hash
//! finds the port again. Lock order: the port's lock, then that of the hash.

use core::ptr::{
    self,
    NonNull, //
};

use super::{
    Device,
    Get, //
};
use crate::{
    net::NetDevice,
    spinlock::CSpinLock, //
};
use kernel::{
    bindings,
    container_of,
    prelude::*,
    sync::{
        aref::ARef,
        rcu, //
    },
    types::Opaque, //
};

const BUCKETS: usize = 32;

/// Ports by network device, to be searched under RCU.
///
/// # Invariants
///
/// Every node in a bucket lies in the port data of a device that is not yet freed; a node leaves
/// its bucket before, and the memory stays for another grace period.
#[pin_data]
pub struct NetdevHash {
    #[pin]
    lock: Opaque<bindings::spinlock_t>,
    #[pin]
    buckets: Opaque<[bindings::hlist_head; BUCKETS]>,
}

// SAFETY: Writers take the lock, readers use RCU.
unsafe impl Send for NetdevHash {}
// SAFETY: As above.
unsafe impl Sync for NetdevHash {}

impl NetdevHash {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, name and class are static.
            lock <- Opaque::ffi_init(|slot| unsafe {
                bindings::__spin_lock_init(
                    slot,
                    c"rdma_netdevs".as_char_ptr(),
                    kernel::static_lock_class!().as_ptr(),
                )
            }),
            // SAFETY: `slot` is valid for writes; empty buckets are null pointers.
            buckets <- Opaque::ffi_init(|slot: *mut [bindings::hlist_head; BUCKETS]| unsafe {
                ptr::write_bytes(slot, 0, 1)
            }),
        })
    }

    fn lock(&self) -> &CSpinLock {
        // SAFETY: Initialised by `new`.
        unsafe { CSpinLock::from_raw(self.lock.get()) }
    }

    fn bucket(&self, netdev: *mut bindings::net_device) -> *mut bindings::hlist_head {
        // Network devices are at least this far apart.
        let number = (netdev.addr() >> 6) % BUCKETS;
        // SAFETY: The number is less than the length.
        unsafe {
            self.buckets
                .get()
                .cast::<bindings::hlist_head>()
                .add(number)
        }
    }

    /// Brings the hash up to date after the network device of a port changed. Sleeps: a node must
    /// not enter a bucket until readers of the bucket that it left are done.
    ///
    /// # Safety
    ///
    /// `data` is the data of a port of a device that the caller keeps.
    unsafe fn update(&self, data: *mut bindings::ib_port_data) {
        loop {
            let guard = self.lock().lock_irqsave();
            // SAFETY: The lock is held, the data are valid by the caller.
            unsafe {
                let node = &raw mut (*data).ndev_hash_link;
                if bindings::hlist_unhashed(node) {
                    let netdev = (&raw const (*data).netdev).read_volatile();
                    if !netdev.is_null() {
                        bindings::hlist_add_head_rcu(node, self.bucket(netdev));
                    }
                    return;
                }
                bindings::hlist_del_init_rcu(node);
            }
            drop(guard);
            rcu::synchronize_rcu();
        }
    }

    /// Takes the port out of the hash.
    ///
    /// # Safety
    ///
    /// As for `update`.
    unsafe fn forget(&self, data: *mut bindings::ib_port_data) {
        let _guard = self.lock().lock_irqsave();
        // SAFETY: The lock is held, the data are valid by the caller.
        unsafe { bindings::hlist_del_init_rcu(&raw mut (*data).ndev_hash_link) };
    }

    /// Finds a registered device that has a port for `netdev` and that `wanted` accepts. Any
    /// context.
    pub fn find(&self, netdev: &NetDevice, wanted: impl Fn(&Device) -> bool) -> Option<Get> {
        let _rcu = rcu::read_lock();
        // SAFETY: The bucket is valid, and its nodes are by the type invariant and RCU.
        let mut node =
            unsafe { (&raw const (*self.bucket(netdev.as_raw())).first).read_volatile() };
        while !node.is_null() {
            // SAFETY: As above; the node is part of port data.
            unsafe {
                let data: *mut bindings::ib_port_data =
                    container_of!(node, bindings::ib_port_data, ndev_hash_link);
                if (&raw const (*data).netdev).read_volatile() == netdev.as_raw() {
                    let device = Device::from_raw((*data).ib_dev);
                    if wanted(device) {
                        if let Some(get) = device.try_get() {
                            return Some(get);
                        }
                    }
                }
                node = (&raw const (*node).next).read_volatile();
            }
        }
        None
    }
}

impl Device {
    /// Binds a port to a network device, or to none. Says whether that was a change.
    ///
    /// The port data must exist, see [`Device::alloc_ports`]. Sleeps.
    pub fn bind_netdev(
        &self,
        hash: &NetdevHash,
        port: u32,
        netdev: Option<&NetDevice>,
    ) -> Result<bool> {
        let data = self.port_data_raw(port);
        if data.is_null() {
            return Err(EINVAL);
        }
        let new = netdev.map_or(ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: The port data are valid as long as the device, and initialised.
        unsafe {
            let guard = CSpinLock::from_raw(&raw mut (*data).netdev_lock).lock_irqsave();
            let old = (&raw const (*data).netdev).read_volatile();
            if old == new {
                return Ok(false);
            }
            bindings::netdev_put(old, &raw mut (*data).netdev_tracker);
            bindings::netdev_hold(new, &raw mut (*data).netdev_tracker, bindings::GFP_ATOMIC);
            (&raw mut (*data).netdev).write_volatile(new);
            drop(guard);
            hash.update(data);
        }
        Ok(true)
    }

    /// Undoes all bindings of the device. Does not sleep.
    pub fn unbind_netdevs(&self, hash: &NetdevHash) {
        for port in self.ports() {
            let data = self.port_data_raw(port);
            if data.is_null() {
                return;
            }
            // SAFETY: The port data are valid as long as the device, and initialised. The network
            // device stays for a grace period after the last reference.
            unsafe {
                let _guard = CSpinLock::from_raw(&raw mut (*data).netdev_lock).lock_irqsave();
                let old = (&raw const (*data).netdev).read_volatile();
                if !old.is_null() {
                    hash.forget(data);
                    (&raw mut (*data).netdev).write_volatile(ptr::null_mut());
                    bindings::netdev_put(old, &raw mut (*data).netdev_tracker);
                }
            }
        }
    }

    /// The network device of a port: what the driver tells, or else the one bound to it.
    ///
    /// Drivers may sleep in their answer.
    pub fn netdev(&self, port: u32) -> Option<ARef<NetDevice>> {
        let data = self.port_data_raw(port);
        if data.is_null() {
            return None;
        }
        if let Some(get_netdev) = self.ops().get_netdev {
            // SAFETY: The device has the port; the driver counts a reference for the caller.
            return unsafe { NetDevice::from_raw_owned(get_netdev(self.as_raw(), port)) };
        }
        // SAFETY: The port data are valid as long as the device, and initialised. The bound
        // network device has a reference of the port as long as the lock is held.
        unsafe {
            let _guard = CSpinLock::from_raw(&raw mut (*data).netdev_lock).lock_irqsave();
            let bound = (&raw const (*data).netdev).read_volatile();
            NetDevice::from_raw_opt(bound).map(ARef::from)
        }
    }

    /// Notes the link state that an event was sent for; returns whether it is news.
    pub fn swap_link_state(&self, port: u32, state: bindings::ib_port_state) -> bool {
        let data = self.port_data_raw(port);
        if data.is_null() {
            return false;
        }
        let _guard = self.cache_lock().write();
        // SAFETY: The port data are valid as long as the device; the lock for the state is held.
        unsafe {
            let last = &raw mut (*data).cache.last_port_state;
            last.replace(state) != state
        }
    }
}

/// A pointer that is only compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetDeviceId(Option<NonNull<bindings::net_device>>);

impl NetDeviceId {
    /// From a C pointer, which may be null.
    pub fn from_raw(netdev: *mut bindings::net_device) -> Self {
        Self(NonNull::new(netdev))
    }

    /// Of a network device, or of none.
    pub fn of(netdev: Option<&NetDevice>) -> Self {
        Self::from_raw(netdev.map_or(ptr::null_mut(), NetDevice::as_raw))
    }
}
