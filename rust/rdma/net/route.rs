// SPDX-License-Identifier: GPL-2.0

//! Routes and neighbours.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h),
//! [`include/net/neighbour.h`](srctree/include/net/neighbour.h)

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::container_of;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::time::Jiffies;

use crate::net::skb::{Family, SkBuff};
use crate::net::NetDevice;
use crate::netlink::Netns;

/// The longest link-layer address, in bytes.
pub const MAX_ADDR_LEN: usize = bindings::MAX_ADDR_LEN as usize;

/// A link-layer address as the network stack keeps it; shorter ones are padded.
pub type LinkAddr = [u8; MAX_ADDR_LEN];

/// The kernel's tick counter. It wraps.
pub fn jiffies() -> Jiffies {
    // SAFETY: The counter is a word that may be read at any time.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// The route to a destination, and the source address that goes with it.
///
/// # Invariants
///
/// `dst` is a counted reference to a route of the family of `source`.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    source: IpAddr,
    /// What an IPv6 route is compared with to learn whether it still holds.
    cookie: u32,
}

// SAFETY: The count of a route is atomic, and any thread may release it.
unsafe impl Send for Route {}
// SAFETY: The methods only read what routing lets everybody read.
unsafe impl Sync for Route {}

/// What the routing tables are asked for besides the addresses.
#[derive(Copy, Clone, Default)]
struct Selector {
    oif: i32,
    proto: u8,
}

impl Route {
    /// Looks a route up in `net`, leaving by the interface `oif` unless that is 0. An unspecified
    /// `source` lets the routing table choose one.
    ///
    /// Usable in any context but hard interrupts. Errors: those of the routing table; `EINVAL` if
    /// the two addresses are of different families.
    pub fn lookup(net: &Netns, source: IpAddr, destination: IpAddr, oif: i32) -> Result<Self> {
        Self::select(net, source, destination, Selector { oif, proto: 0 })
    }

    /// As [`lookup`](Self::lookup), for packets of UDP.
    pub fn lookup_udp(net: &Netns, source: IpAddr, destination: IpAddr, oif: i32) -> Result<Self> {
        let proto = bindings::IPPROTO_UDP as u8;
        Self::select(net, source, destination, Selector { oif, proto })
    }

    fn select(net: &Netns, source: IpAddr, destination: IpAddr, by: Selector) -> Result<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Self::lookup_v4(net, source, destination, by)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Self::lookup_v6(net, source, destination, by)
            }
            _ => Err(EINVAL),
        }
    }

    fn lookup_v4(
        net: &Netns,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        by: Selector,
    ) -> Result<Self> {
        let mut flow: bindings::flowi4 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = by.oif;
        flow.__fl_common.flowic_proto = by.proto;
        flow.saddr = u32::from_ne_bytes(source.octets());
        flow.daddr = u32::from_ne_bytes(destination.octets());
        // SAFETY: The namespace is live, the flow is initialised, and no socket is needed.
        let rt = from_err_ptr(unsafe {
            bindings::ip_route_output_flow(net.as_raw(), &mut flow, ptr::null())
        })?;
        // SAFETY: A route starts with its `dst`; the lookup returned it with a reference.
        let dst = NonNull::new(unsafe { &raw mut (*rt).dst }).ok_or(ENETUNREACH)?;
        // INVARIANT: An IPv4 route and an IPv4 address.
        Ok(Self {
            dst,
            source: IpAddr::V4(Ipv4Addr::from(flow.saddr.to_ne_bytes())),
            cookie: 0,
        })
    }

    fn lookup_v6(
        net: &Netns,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        by: Selector,
    ) -> Result<Self> {
        let mut flow: bindings::flowi6 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = by.oif;
        flow.__fl_common.flowic_proto = by.proto;
        flow.saddr.in6_u.u6_addr8 = source.octets();
        flow.daddr.in6_u.u6_addr8 = destination.octets();
        // SAFETY: The namespace is live, the flow is initialised; no socket and no other final
        // destination.
        let dst = from_err_ptr(unsafe {
            bindings::ip6_dst_lookup_flow(net.as_raw(), ptr::null(), &mut flow, ptr::null())
        })?;
        let dst = NonNull::new(dst).ok_or(ENETUNREACH)?;
        let source = if source.is_unspecified() {
            // SAFETY: All bytes of the union are initialised.
            Ipv6Addr::from(unsafe { flow.saddr.in6_u.u6_addr8 })
        } else {
            source
        };
        // SAFETY: An IPv6 route, of which the lookup returned a reference.
        let cookie = unsafe { bindings::rt6_get_cookie(bindings::dst_rt6_info(dst.as_ptr())) };
        // INVARIANT: An IPv6 route and an IPv6 address.
        Ok(Self {
            dst,
            source: IpAddr::V6(source),
            cookie,
        })
    }

    /// Whether the tables would still give this route. Any context.
    pub fn is_valid(&self) -> bool {
        // SAFETY: The route is live by the type invariant.
        unsafe { !bindings::dst_check(self.dst.as_ptr(), self.cookie).is_null() }
    }

    /// Bytes to leave free in front of an IP header that is sent this way, for the link layer.
    pub fn headroom(&self) -> usize {
        let guard = rcu::read_lock();
        // SAFETY: The guard protects the device.
        unsafe { bindings::LL_RESERVED_SPACE(self.device(&guard).as_raw()) as usize }
    }

    /// Sends a packet, complete from the IP header on (see [`SkBuff::set_ip_header`]); the stack
    /// fills in the checksum of an IPv4 header. Any context but hard interrupts.
    ///
    /// Errors: those of the network stack; `ENOBUFS` if a queue was full. The packet is gone either
    /// way.
    pub fn send(&self, skb: SkBuff) -> Result {
        let guard = rcu::read_lock();
        // SAFETY: The guard protects the device, and so its namespace.
        let net = unsafe { bindings::dev_net(self.device(&guard).as_raw()) };
        let family = skb.family().ok_or(EINVAL)?;
        let skb = skb.into_raw().as_ptr();
        // SAFETY: The packet is ours and given away; it gets a reference of its own on the route,
        // which is live. There is no socket.
        let ret = unsafe {
            bindings::skb_dst_set(skb, bindings::dst_clone(self.dst.as_ptr()));
            match family {
                Family::V4 => bindings::ip_local_out(net.cast(), ptr::null_mut(), skb),
                Family::V6 => bindings::ip6_local_out(net.cast(), ptr::null_mut(), skb),
            }
        };
        match ret {
            ret if ret < 0 => kernel::error::to_result(ret),
            ret if ret == bindings::NET_XMIT_DROP as i32 => Err(ENOBUFS),
            _ => Ok(()),
        }
    }

    /// The source address to use.
    pub fn source(&self) -> IpAddr {
        self.source
    }

    /// The hop limit (TTL) of packets on this route.
    pub fn hop_limit(&self) -> i32 {
        // SAFETY: The route is live and of that family by the type invariant.
        unsafe {
            match self.source {
                IpAddr::V4(_) => bindings::ip4_dst_hoplimit(self.dst.as_ptr()),
                IpAddr::V6(_) => bindings::ip6_dst_hoplimit(self.dst.as_ptr()),
            }
        }
    }

    fn v6_flags(&self) -> u32 {
        // SAFETY: The caller has seen that this is an IPv6 route; it is live.
        unsafe { (*bindings::dst_rt6_info(self.dst.as_ptr())).rt6i_flags }
    }

    /// Whether the destination is an address of this host.
    pub fn is_local(&self) -> bool {
        match self.source {
            IpAddr::V4(_) => {
                // SAFETY: The route is live and an IPv4 one.
                let kind = unsafe { (*bindings::dst_rtable(self.dst.as_ptr())).rt_type };
                u32::from(kind) == bindings::RTN_LOCAL
            }
            IpAddr::V6(_) => self.v6_flags() & bindings::RTF_LOCAL != 0,
        }
    }

    /// Whether the next hop is a gateway.
    pub fn has_gateway(&self) -> bool {
        match self.source {
            // SAFETY: The route is live and an IPv4 one.
            IpAddr::V4(_) => unsafe {
                (*bindings::dst_rtable(self.dst.as_ptr())).rt_uses_gateway != 0
            },
            IpAddr::V6(_) => self.v6_flags() & bindings::RTF_GATEWAY != 0,
        }
    }

    /// The device that packets leave by.
    pub fn device<'g>(&self, _: &'g rcu::Guard) -> &'g NetDevice {
        // SAFETY: A route always has a device (a dead one that of the void), which RCU protects
        // against being freed when the route changes over; the field is read once.
        unsafe {
            let dev = (&raw const (*self.dst.as_ptr()).__bindgen_anon_1.dev).read_volatile();
            NetDevice::from_raw(dev.cast())
        }
    }

    /// The neighbour that packets to `destination` go to first. May allocate; does not sleep.
    pub fn neighbour(&self, destination: IpAddr) -> Option<Neighbour<'_>> {
        let octets = match destination {
            IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
            IpAddr::V6(addr) => addr.octets(),
        };
        let addr: *const u8 = match destination {
            IpAddr::V4(_) => &raw const octets[12],
            IpAddr::V6(_) => octets.as_ptr(),
        };
        // SAFETY: The route is live, and `addr` holds an address of its family.
        let neigh = unsafe { bindings::dst_neigh_lookup(self.dst.as_ptr(), addr.cast()) };
        // INVARIANT: The lookup took a reference.
        NonNull::new(neigh).map(|neigh| Neighbour { neigh, route: self })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's.
        unsafe { bindings::dst_release(self.dst.as_ptr()) };
    }
}

/// An entry of a neighbour table.
///
/// # Invariants
///
/// `neigh` is a counted reference.
pub struct Neighbour<'a> {
    neigh: NonNull<bindings::neighbour>,
    route: &'a Route,
}

impl Neighbour<'_> {
    /// The neighbour's link-layer address, if it is known now.
    ///
    /// State and address are read under the neighbour's lock: the state turns valid before the
    /// address is written.
    pub fn link_addr(&self) -> Option<LinkAddr> {
        let neigh = self.neigh.as_ptr();
        let guard = rcu::read_lock();
        let dev = self.route.device(&guard);
        let mut addr = [0; MAX_ADDR_LEN];
        // SAFETY: The neighbour is live, and its lock is initialised.
        unsafe { bindings::read_lock_bh(&raw mut (*neigh).lock) };
        // SAFETY: Locked just now.
        let state = unsafe { (&raw const (*neigh).nud_state).read_volatile() };
        let valid = u32::from(state) & NUD_VALID != 0;
        if valid {
            // SAFETY: The buffer has room for the longest address, and the device is protected.
            unsafe {
                bindings::neigh_ha_snapshot(addr.as_mut_ptr().cast(), neigh, dev.as_raw().cast())
            };
        }
        // SAFETY: Locked above.
        unsafe { bindings::read_unlock_bh(&raw mut (*neigh).lock) };
        valid.then_some(addr)
    }

    /// Starts the neighbour discovery unless it runs already.
    pub fn probe(&self) {
        // SAFETY: The neighbour is live; no packet waits for the answer.
        unsafe { bindings::neigh_event_send(self.neigh.as_ptr(), ptr::null_mut()) };
    }
}

impl Drop for Neighbour<'_> {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's.
        unsafe { bindings::neigh_release(self.neigh.as_ptr()) };
    }
}

/// The states in which a neighbour's address may be used.
const NUD_VALID: u32 = bindings::NUD_PERMANENT
    | bindings::NUD_NOARP
    | bindings::NUD_REACHABLE
    | bindings::NUD_PROBE
    | bindings::NUD_STALE
    | bindings::NUD_DELAY;

/// The device of `net` that has the local address `addr`.
pub fn device_of_local<'g>(
    net: &Netns,
    addr: IpAddr,
    guard: &'g rcu::Guard,
) -> Option<&'g NetDevice> {
    match addr {
        IpAddr::V4(addr) => {
            let addr = u32::from_ne_bytes(addr.octets());
            // SAFETY: The namespace is live; the guard protects the device that is returned.
            unsafe {
                NetDevice::from_raw_opt(bindings::__ip_dev_find(net.as_raw(), addr, false).cast())
            }
        }
        IpAddr::V6(addr) => device_of_local_v6(net, addr, guard),
    }
}

fn device_of_local_v6<'g>(net: &Netns, addr: Ipv6Addr, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
    let mut raw: bindings::in6_addr = pin_init::zeroed();
    raw.in6_u.u6_addr8 = addr.octets();
    // SAFETY: The namespace is live; its list of devices is walked under RCU.
    let head = unsafe { &raw mut (*net.as_raw()).dev_base_head };
    // SAFETY: As above.
    let mut link = unsafe { (&raw const (*head).next).read_volatile() };
    while !ptr::eq(link, head) {
        // SAFETY: Each link of this list is that of a device that the guard protects.
        let dev = unsafe { container_of!(link, bindings::net_device, dev_list) };
        // SAFETY: Namespace, address and device are valid.
        if unsafe { bindings::ipv6_chk_addr(net.as_raw(), &raw, dev.cast(), 1) } != 0 {
            // SAFETY: The guard protects the device.
            return Some(unsafe { NetDevice::from_raw(dev) });
        }
        // SAFETY: As above.
        link = unsafe { (&raw const (*link).next).read_volatile() };
    }
    None
}
