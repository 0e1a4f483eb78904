// SPDX-License-Identifier: GPL-2.0

//! The RTNL lock and the network devices of all namespaces.
//!
//! C headers: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h),
//! [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::ptr;

use kernel::bindings;
use kernel::container_of;
use kernel::types::NotThreadSafe;

use super::NetDevice;

/// Evidence that this thread holds the RTNL lock.
///
/// While it exists, no network device is registered, unregistered or moved.
///
/// # Invariants
///
/// The lock is held by the thread that made the guard.
pub struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes the lock. May sleep.
    pub fn lock() -> Self {
        // SAFETY: Taking the lock has no precondition but process context.
        unsafe { bindings::rtnl_lock() };
        // INVARIANT: Just taken.
        Self(NotThreadSafe)
    }

    /// Visits every network device of every namespace.
    ///
    /// The list of namespaces is locked during the visits, so `visit` must not create or remove
    /// one.
    pub fn for_each_netdev(&self, mut visit: impl FnMut(&NetDevice)) {
        let namespaces = Namespaces::read();
        let head = namespaces.head();
        // SAFETY: The list is valid and locked.
        let mut net_link = unsafe { (*head).next };
        while !ptr::eq(net_link, head) {
            // SAFETY: Each link of the namespace list is that of a live `struct net`.
            let net: *mut bindings::net = unsafe { container_of!(net_link, bindings::net, list) };
            // SAFETY: `net` is live while the list is locked.
            let dev_head = unsafe { &raw mut (*net).dev_base_head };
            // SAFETY: RTNL protects the list of devices.
            let mut dev_link = unsafe { (*dev_head).next };
            while !ptr::eq(dev_link, dev_head) {
                // SAFETY: Each link of this list is that of a registered device.
                let dev: *mut bindings::net_device =
                    unsafe { container_of!(dev_link, bindings::net_device, dev_list) };
                // SAFETY: The device stays registered while RTNL is held.
                visit(unsafe { NetDevice::from_raw(dev) });
                // SAFETY: As above.
                dev_link = unsafe { (*dev_link).next };
            }
            // SAFETY: As above.
            net_link = unsafe { (*net_link).next };
        }
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { bindings::rtnl_unlock() }
    }
}

/// The read lock of the list of namespaces.
///
/// # Invariants
///
/// `net_rwsem` is held for reading.
struct Namespaces(NotThreadSafe);

impl Namespaces {
    fn read() -> Self {
        // SAFETY: The semaphore is a static of the network core.
        unsafe { bindings::down_read(&raw mut bindings::net_rwsem) };
        // INVARIANT: Just taken.
        Self(NotThreadSafe)
    }

    fn head(&self) -> *mut bindings::list_head {
        &raw mut bindings::net_namespace_list
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { bindings::up_read(&raw mut bindings::net_rwsem) }
    }
}
