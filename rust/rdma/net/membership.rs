// SPDX-License-Identifier: GPL-2.0

//! Membership of network devices in multicast groups.
//!
//! C headers: [`include/linux/igmp.h`](srctree/include/linux/igmp.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use super::{
    NetDevice,
    Rtnl, //
};
use crate::gid::Gid;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::aref::ARef, //
};

/// What was joined.
enum Joined {
    /// A group of IPv4, address in network order.
    Ipv4(u32),
    /// A group of IPv6.
    Ipv6(bindings::in6_addr),
    /// None: the device has no such protocol. It only lets the frames of the group in.
    Filter([u8; 6]),
}

/// The membership of a network device in the group of a multicast GID. Dropping it leaves the
/// group; may sleep then.
///
/// As long as it exists, the device receives frames of the group, the network stack accepts its
/// packets, and routers and switches learn of the membership.
pub struct Membership {
    netdev: ARef<NetDevice>,
    joined: Joined,
}

impl Membership {
    /// Joins the group. May sleep; takes RTNL.
    pub fn join(netdev: &NetDevice, group: &Gid) -> Result<Self> {
        let raw = netdev.as_raw();
        let _rtnl = Rtnl::lock();
        let joined = match group.to_ipv4() {
            Some(address) => {
                let address = u32::from_ne_bytes(address);
                // SAFETY: The device is valid and RTNL is held, as both calls ask for.
                unsafe {
                    let in_dev = bindings::rdma_in_dev_get_rtnl(raw);
                    (!in_dev.is_null()).then(|| {
                        bindings::ip_mc_inc_group(in_dev, address);
                        Joined::Ipv4(address)
                    })
                }
            }
            None => {
                let mut address: bindings::in6_addr = pin_init::zeroed();
                address.in6_u.u6_addr8 = *group.as_bytes();
                // SAFETY: The device is valid and RTNL is held.
                match to_result(unsafe { bindings::ipv6_dev_mc_inc(raw, &address) }) {
                    Ok(()) => Some(Joined::Ipv6(address)),
                    Err(e) if e == EINVAL || e == ENODEV || e == EAFNOSUPPORT => None,
                    Err(e) => return Err(e),
                }
            }
        };
        let joined = match joined {
            Some(joined) => joined,
            None => {
                let mac = group.multicast_mac();
                // SAFETY: The device is valid, and so is the address.
                to_result(unsafe { bindings::dev_mc_add(raw.cast(), mac.as_ptr()) })?;
                Joined::Filter(mac)
            }
        };
        Ok(Self {
            netdev: netdev.into(),
            joined,
        })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let raw = self.netdev.as_raw();
        let _rtnl = Rtnl::lock();
        // SAFETY: The device is held and RTNL is; what was joined is left once. The groups of a
        // device that is being unregistered are gone already.
        unsafe {
            match &self.joined {
                Joined::Ipv4(address) => {
                    let in_dev = bindings::rdma_in_dev_get_rtnl(raw);
                    if !in_dev.is_null() {
                        bindings::__ip_mc_dec_group(in_dev, *address, bindings::GFP_KERNEL);
                    }
                }
                Joined::Ipv6(address) => {
                    let _ = bindings::ipv6_dev_mc_dec(raw, address);
                }
                Joined::Filter(mac) => {
                    let _ = bindings::dev_mc_del(raw.cast(), mac.as_ptr());
                }
            }
        }
    }
}
