// SPDX-License-Identifier: GPL-2.0

//! One attempt to resolve an address.

use core::net::IpAddr;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::addr::{
    netns_of, with_device_by_index, DevAddr, GidDevAddr, Network, RocePath, SockAddr,
};
use rdma::gid::GidAttr;
use rdma::net::route::{device_of_local, Route};
use rdma::net::NetDevice;
use rdma::netlink::Netns;
use rdma::pr_warn_ratelimited;

use super::netlink;

/// What an attempt takes into account.
#[derive(Copy, Clone)]
pub(super) struct Attempt {
    /// Resolve as seen from the network device of the GID attribute, in its namespace.
    pub(super) by_gid: bool,
    /// The number by which user space answers.
    pub(super) seq: u32,
}

/// Why there is no result yet.
pub(super) enum Unresolved {
    /// The answer may come: ask again later.
    Pending,
    /// There will be none.
    Failed(Error),
}

impl From<Error> for Unresolved {
    fn from(error: Error) -> Self {
        // The routing table and user space say "no data" when an answer is under way.
        if error == ENODATA {
            Self::Pending
        } else {
            Self::Failed(error)
        }
    }
}

/// Where an attempt looks: a namespace, and an interface or 0.
struct Scope<'a> {
    net: &'a Netns,
    interface: i32,
}

impl<'a> Scope<'a> {
    /// That of the caller, or that of the GID's network device.
    fn of(addr: &'a DevAddr, by_gid: bool, guard: &'a rcu::Guard) -> Result<Self> {
        if !by_gid {
            let Some(net) = addr.net() else {
                pr_warn_ratelimited!("addr_resolve: missing namespace\n");
                return Err(EINVAL);
            };
            return Ok(Self {
                net,
                interface: addr.bound_interface(),
            });
        }
        let Some(attr) = addr.gid_attr() else {
            pr_warn_ratelimited!("addr_resolve: missing gid_attr\n");
            return Err(EINVAL);
        };
        let ndev = attr.ndev(guard)?;
        Ok(Self {
            net: netns_of(ndev, guard),
            interface: ndev.ifindex(),
        })
    }
}

/// Takes the near end from the device that has the local address `ip`, or from the interface of
/// the scope if it names one.
fn set_source_by_ip(scope: &Scope<'_>, ip: Option<IpAddr>, addr: &DevAddr) -> Result {
    if scope.interface != 0 {
        return with_device_by_index(scope.net, scope.interface, |dev| addr.set_source(dev));
    }
    let guard = rcu::read_lock();
    let dev = ip
        .and_then(|ip| device_of_local(scope.net, ip, &guard))
        .ok_or(EADDRNOTAVAIL)?;
    addr.set_source(dev);
    Ok(())
}

/// Translates a local address to that of its device. The caller's namespace must be set. May sleep.
///
/// Errors: `ENODEV` if the caller is bound to an interface that is gone, `EADDRNOTAVAIL` if the
/// address is on none.
pub(crate) fn translate(ip: Option<IpAddr>, addr: &DevAddr) -> Result {
    let scope = Scope {
        net: addr.net().ok_or(EINVAL)?,
        interface: addr.bound_interface(),
    };
    set_source_by_ip(&scope, ip, addr)
}

/// Which header carries packets by way of `dev`: only RoCE v2 crosses a gateway on Ethernet.
fn network_of(route: &Route, destination: IpAddr, dev: &NetDevice) -> Network {
    match destination {
        _ if !route.has_gateway() || dev.is_infiniband() => Network::Ib,
        IpAddr::V4(_) => Network::Ipv4,
        IpAddr::V6(_) => Network::Ipv6,
    }
}

/// Stores what the route says of the near end and of the network.
fn set_source(
    scope: &Scope<'_>,
    route: &Route,
    destination: IpAddr,
    addr: &DevAddr,
    guard: &rcu::Guard,
) -> Result {
    let dev = route.device(guard);
    let dev = if route.is_local() {
        // The route of a local address leads to the loopback device, but RDMA runs on the device
        // that has the address.
        let owner = device_of_local(netns_of(dev, guard), destination, guard).ok_or(ENODEV)?;
        set_source_by_ip(scope, Some(destination), addr)?;
        owner
    } else {
        addr.set_source(dev);
        dev
    };
    addr.set_network(network_of(route, destination, dev));
    Ok(())
}

/// Finds the far end's link-layer address.
fn set_destination(
    route: &Route,
    destination: IpAddr,
    addr: &DevAddr,
    seq: u32,
) -> Result<(), Unresolved> {
    if route.is_local() {
        addr.set_destination_to_source();
        return Ok(());
    }
    if route.has_gateway() && addr.network() == Network::Ib {
        netlink::ask(destination, addr.bound_interface(), seq)?;
        return Err(Unresolved::Pending);
    }
    let neighbour = route.neighbour(destination).ok_or(Unresolved::Pending)?;
    let Some(link_addr) = neighbour.link_addr() else {
        neighbour.probe();
        return Err(Unresolved::Pending);
    };
    addr.set_destination(link_addr);
    Ok(())
}

/// Finds the route and stores the near end; returns the route.
fn resolve_source(
    source: &mut SockAddr,
    destination: &SockAddr,
    addr: &DevAddr,
    by_gid: bool,
) -> Result<(Route, IpAddr)> {
    // Addresses of other families have no route.
    let (from, to) = source.ip().zip(destination.ip()).ok_or(EINVAL)?;
    // The guard keeps the namespace of the GID's device and the devices of the route.
    let guard = rcu::read_lock();
    let scope = Scope::of(addr, by_gid, &guard)?;
    let route = Route::lookup(scope.net, from, to, scope.interface)?;
    source.set_ip(route.source());
    addr.set_hop_limit(route.hop_limit());
    set_source(&scope, &route, to, addr, &guard)?;
    Ok((route, to))
}

/// Makes one attempt. May sleep.
pub(super) fn resolve(
    source: &mut SockAddr,
    destination: &SockAddr,
    addr: &DevAddr,
    attempt: Attempt,
) -> Result<(), Unresolved> {
    let outcome = resolve_source(source, destination, addr, attempt.by_gid)
        .map_err(Unresolved::from)
        .and_then(|(route, to)| set_destination(&route, to, addr, attempt.seq));
    if attempt.by_gid {
        // The scope was the GID's; the caller has none of its own.
        addr.reset_scope();
    }
    outcome
}

/// Checks that RoCE packets from `attr` reach the far end of `path` with the header that the path
/// record says; once for each record. May sleep.
///
/// Errors: `EINVAL` for GIDs of different IP versions, a GID without a network device, or a route
/// through a gateway for RoCE v1; those of the routing table.
pub(crate) fn resolve_route(path: &RocePath, attr: Option<ARef<GidAttr>>) -> Result {
    if path.is_resolved() {
        return Ok(());
    }
    let (source, destination) = path.gids();
    let mut source = SockAddr::from(source);
    let destination = SockAddr::from(destination);
    let attr = attr.ok_or(EINVAL)?;
    if source.family() != destination.family() || attr.ndev_raw(&rcu::read_lock()).is_none() {
        return Err(EINVAL);
    }
    let addr = GidDevAddr::new(attr);
    resolve_source(&mut source, &destination, &addr, true)?;
    if addr.network() != Network::Ib && !path.is_roce_v2() {
        return Err(EINVAL);
    }
    path.set_resolved();
    Ok(())
}
