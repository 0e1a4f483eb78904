// SPDX-License-Identifier: GPL-2.0

//! What other parts of the core know about a device.

use super::Device;
use crate::net::NetDevice;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::rcu, //
};

impl Device {
    /// The subnet prefix that the cache has of a port; zero if none.
    #[inline]
    pub fn cached_subnet_prefix(&self, port: u32) -> u64 {
        let mut prefix = 0;
        if self.has_port(port) {
            // SAFETY: The device has the port, and so has its cache.
            unsafe { bindings::ib_get_cached_subnet_prefix(self.as_raw(), port, &mut prefix) };
        }
        prefix
    }

    /// The GID at an index of a port's table. Any context.
    #[inline]
    pub fn gid_at(&self, port: u32, index: i32) -> Result<[u8; 16]> {
        let mut gid: bindings::ib_gid = pin_init::zeroed();
        // SAFETY: The device is valid, and so is the place for the answer.
        to_result(unsafe { bindings::rdma_query_gid(self.as_raw(), port, index, &mut gid) })?;
        // SAFETY: All views of a GID are of 16 bytes.
        Ok(unsafe { gid.raw })
    }
}

/// Whether a network device has an IPv4 address.
pub fn has_ipv4(netdev: &NetDevice) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: The network device is valid, and what it points to is by RCU.
    unsafe {
        let in_dev: *mut bindings::in_device = bindings::__in_dev_get_rcu(netdev.as_raw()).cast();
        !in_dev.is_null() && !(&raw const (*in_dev).ifa_list).read_volatile().is_null()
    }
}

/// The MTU of InfiniBand that fits into one of a network.
pub fn mtu_for(bytes: u32) -> bindings::ib_mtu {
    // SAFETY: Takes any number.
    unsafe { bindings::ib_mtu_int_to_enum(bytes.try_into().unwrap_or(i32::MAX)) }
}
