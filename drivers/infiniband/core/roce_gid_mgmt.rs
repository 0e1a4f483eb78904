// SPDX-License-Identifier: GPL-2.0

//! GIDs of RoCE ports, from the network devices and IP addresses of all namespaces.
//!
//! A port has GIDs of two origins:
//!
//! * *default* GIDs, link-local from the MAC address: of its own network device, or of the bond above
//!   it instead;
//! * *IP* GIDs: of its network device and of those above it (VLAN, macvlan, bond ...), as long as
//!   the device is not an inactive slave of the bond.
//!
//! Three notifiers tell what happens. Handling takes locks that must not be taken under RTNL, so each
//! event becomes a [`plan`] on one ordered work queue. Plans hold the network devices that they name,
//! and the order makes sure that the plan of an unregistration, which deletes all GIDs of a device,
//! comes after all others of that device.

use core::net::IpAddr;
use core::pin::Pin;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use rdma::device::Device;
use rdma::gid::update::Change;
use rdma::gid::Gid;
use rdma::module_state::ModuleState;
use rdma::net::netdev::RegState;
use rdma::net::notifier::{
    AddrChange, AddrEvent, Handler, Inet, Inet6, Netdev, NetdevEvent, Registration,
};
use rdma::net::rtnl::Rtnl;
use rdma::net::NetDevice;
use rdma::port::{roce, Port};
use rdma::pr_warn_ratelimited;
use rdma::workqueue::WorkQueue;

mod plan;
mod relation;

use plan::Plan;
use relation::Relation;

/// The ordered queue, as a handler of events.
#[derive(Clone)]
struct EventQueue(Arc<WorkQueue>);

impl EventQueue {
    /// Queues `work`. What is lost for lack of memory comes back with the next event of the device.
    fn spawn(&self, flags: kernel::alloc::Flags, work: impl FnOnce() + Send + 'static) {
        if self.0.try_spawn(flags, work).is_err() {
            pr_warn_ratelimited!("no memory for a netdevice event, GIDs may be out of date\n");
        }
    }

    fn address(&self, event: AddrEvent<'_>) {
        if !event.dev.may_carry_roce() {
            return;
        }
        let netdev = ARef::from(event.dev);
        let gid = Gid::from(event.addr);
        let change = match event.change {
            AddrChange::Add => Change::Add,
            AddrChange::Remove => Change::Delete,
        };
        self.spawn(GFP_ATOMIC, move || {
            roce::for_each_port(|port, port_netdev| {
                if Relation::CarriesAddresses.holds(port_netdev, &netdev) {
                    port.change_ip_gid(change, &gid, &netdev);
                }
            });
        });
    }
}

impl Handler<Netdev> for EventQueue {
    fn notify(&self, event: NetdevEvent<'_>) {
        if let Some(plan) = Plan::of(&event) {
            self.spawn(GFP_KERNEL, move || plan.execute());
        }
    }
}

impl Handler<Inet> for EventQueue {
    fn notify(&self, event: AddrEvent<'_>) {
        self.address(event);
    }
}

impl Handler<Inet6> for EventQueue {
    fn notify(&self, event: AddrEvent<'_>) {
        self.address(event);
    }
}

/// The registered notifiers. They are dropped in this order, then the queue, which runs what is
/// left.
#[pin_data]
struct Management {
    #[pin]
    netdev: Registration<Netdev, EventQueue>,
    #[pin]
    inet6: Registration<Inet6, EventQueue>,
    #[pin]
    inet: Registration<Inet, EventQueue>,
    queue: EventQueue,
}

static MANAGEMENT: ModuleState<Pin<KBox<Management>>> = ModuleState::new();

/// Starts to listen. May sleep.
pub(crate) fn init() -> Result {
    let queue = EventQueue(Arc::new(
        WorkQueue::new_ordered(c"gid-cache-wq", 0)?,
        GFP_KERNEL,
    )?);
    let management = KBox::try_pin_init(
        try_pin_init!(Management {
            inet <- Registration::new(queue.clone()),
            inet6 <- Registration::new(queue.clone()),
            // The last one: it reports all devices that exist, with the addresses that they have by
            // then, and the other two tell what changes afterwards.
            netdev <- Registration::new(queue.clone()),
            queue,
        }? Error),
        GFP_KERNEL,
    )?;
    MANAGEMENT.set(management);
    Ok(())
}

/// Stops listening; nothing is left in the queue afterwards. May sleep.
pub(crate) fn cleanup() {
    drop(MANAGEMENT.take());
}

/// Adds the GIDs of all IP addresses that a network device has.
fn add_ip_gids(port: &Port<'_>, netdev: &NetDevice) {
    if netdev.reg_state() >= RegState::Unregistering {
        return;
    }
    let mut addresses: KVec<IpAddr> = KVec::new();
    if netdev.ip_addresses(&mut addresses).is_err() {
        pr_warn_ratelimited!("no memory for all addresses of a netdevice, GIDs are missing\n");
    }
    for addr in addresses {
        port.change_ip_gid(Change::Add, &Gid::from(addr), netdev);
    }
}

fn scan(port: &Port<'_>, port_netdev: Option<&NetDevice>) {
    Rtnl::lock().for_each_netdev(|netdev| {
        if Relation::GivesDefault.holds(port_netdev, netdev) {
            port.change_default_gids(Change::Add, netdev, port.gid_types());
        }
        if Relation::CarriesAddresses.holds(port_netdev, netdev) {
            add_ip_gids(port, netdev);
        }
    });
}

/// Adds the GIDs of all related network devices to all ports of a device. May sleep, takes RTNL.
pub(crate) fn rescan_device(device: &Device) {
    roce::for_each_port_of(device, |port, netdev| scan(&port, netdev));
}

/// Adds the GIDs of all related network devices to a port. May sleep, takes RTNL.
pub(crate) fn rescan_port(port: &Port<'_>) {
    if !port.caps().protocol_roce() {
        return;
    }
    if let Some(netdev) = port.netdev() {
        scan(port, Some(&netdev));
    }
}
