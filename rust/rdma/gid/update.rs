// SPDX-License-Identifier: GPL-2.0

//! Changing the GIDs of RoCE ports, for those who know network devices and addresses.
//!
//! All functions may sleep. Failures to add are logged by the table; what is not there need not be
//! deleted. So nothing is returned.

use kernel::bindings;

use super::{Gid, GidTypes};
use crate::net::NetDevice;
use crate::port::Port;

/// What to do with a GID.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Add it, unless it is there.
    Add,
    /// Delete it.
    Delete,
}

impl Port<'_> {
    /// Changes the GID of an IP address of a network device, for each type of the port.
    #[inline]
    pub fn change_ip_gid(&self, change: Change, gid: &Gid, netdev: &NetDevice) {
        for gid_type in self.gid_types().iter() {
            let mut gid = *gid;
            let mut attr = bindings::ib_gid_attr {
                ndev: netdev.as_raw(),
                device: self.device().as_raw(),
                gid: bindings::ib_gid {
                    raw: *gid.as_bytes(),
                },
                gid_type: gid_type.as_raw(),
                index: 0,
                port_num: self.number(),
            };
            let (device, port) = (self.device().as_raw(), self.number());
            // SAFETY: Device, port and network device are valid, the rest is on the stack.
            let _ = unsafe {
                match change {
                    Change::Add => {
                        bindings::ib_cache_gid_add(device, port, gid.as_raw_mut(), &mut attr)
                    }
                    Change::Delete => {
                        bindings::ib_cache_gid_del(device, port, gid.as_raw_mut(), &mut attr)
                    }
                }
            };
        }
    }

    /// Changes the default GIDs of a network device, one for each type of `types`.
    #[inline]
    pub fn change_default_gids(&self, change: Change, netdev: &NetDevice, types: GidTypes) {
        let mode = match change {
            Change::Add => bindings::ib_cache_gid_default_mode_IB_CACHE_GID_DEFAULT_MODE_SET,
            Change::Delete => bindings::ib_cache_gid_default_mode_IB_CACHE_GID_DEFAULT_MODE_DELETE,
        };
        // SAFETY: Device, port and network device are valid.
        unsafe {
            bindings::ib_cache_gid_set_default_gid(
                self.device().as_raw(),
                self.number(),
                netdev.as_raw(),
                types.mask() as kernel::ffi::c_ulong,
                mode,
            );
        }
    }

    /// Deletes all GIDs of a network device.
    #[inline]
    pub fn delete_gids_of(&self, netdev: &NetDevice) {
        // SAFETY: Device, port and network device are valid.
        unsafe {
            bindings::ib_cache_gid_del_all_netdev_gids(
                self.device().as_raw(),
                self.number(),
                netdev.as_raw(),
            );
        }
    }
}
