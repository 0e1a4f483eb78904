// SPDX-License-Identifier: GPL-2.0

//! What an event of a network device means for the GIDs of ports.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::gid::update::Change;
use rdma::net::netdev::RegState;
use rdma::net::notifier::{NetdevChange, NetdevEvent};
use rdma::net::NetDevice;
use rdma::port::{roce, Port};
use rdma::pr_warn_ratelimited;

use super::add_ip_gids;
use super::relation::Relation;

/// What to do with the GIDs of a network device in the table of a port.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Action {
    /// Add those of its IP addresses.
    AddIps,
    /// Add those of its IP addresses and of the devices above it.
    AddIpsAndUppers,
    /// Delete all.
    DeleteAll,
    /// Delete all, and those of the devices above it.
    DeleteAllAndUppers,
    /// Add its default GIDs.
    AddDefaults,
    /// Delete its default GIDs.
    DeleteDefaults,
    /// Delete the default GIDs of the port's own device.
    DeleteOwnDefaults,
}

/// `action` on `netdev`, at all ports whose device is related to `about`.
struct Step {
    relation: Relation,
    about: ARef<NetDevice>,
    action: Action,
    netdev: ARef<NetDevice>,
}

impl Step {
    fn new(relation: Relation, action: Action, netdev: &NetDevice) -> Self {
        Self::about(netdev, relation, action, netdev)
    }

    fn about(about: &NetDevice, relation: Relation, action: Action, netdev: &NetDevice) -> Self {
        Step {
            relation,
            about: about.into(),
            action,
            netdev: netdev.into(),
        }
    }

    fn execute(&self) {
        roce::for_each_port(|port, own| {
            if self.relation.holds(own, &self.about) {
                self.action.execute(&port, own, &self.netdev);
            }
        });
    }
}

/// The steps that follow from an event, in order. They hold the devices that they name.
pub(super) struct Plan([Option<Step>; 3]);

impl Plan {
    /// Makes the plan; nothing if the event does not matter.
    pub(super) fn of(event: &NetdevEvent<'_>) -> Option<Plan> {
        let dev = event.dev;
        if !dev.may_carry_roce() {
            return None;
        }
        let steps = match event.change {
            NetdevChange::Register | NetdevChange::Up => [
                Some(Step::new(
                    Relation::InactiveSlave,
                    Action::DeleteOwnDefaults,
                    dev,
                )),
                Some(Step::new(Relation::GivesDefault, Action::AddDefaults, dev)),
                Some(Step::new(Relation::CarriesAddresses, Action::AddIps, dev)),
            ],
            NetdevChange::Unregister if dev.reg_state() < RegState::Unregistered => [
                Some(Step::new(Relation::Any, Action::DeleteAll, dev)),
                None,
                None,
            ],
            NetdevChange::ChangeAddr => {
                let delete = Step::new(Relation::CarriesAddresses, Action::DeleteAll, dev);
                if dev.reg_state() == RegState::Registered {
                    [
                        Some(delete),
                        Some(Step::new(Relation::GivesDefault, Action::AddDefaults, dev)),
                        Some(Step::new(Relation::CarriesAddresses, Action::AddIps, dev)),
                    ]
                } else {
                    [Some(delete), None, None]
                }
            }
            NetdevChange::ChangeUpper {
                upper,
                linking: true,
            } => [
                Some(Step::about(
                    upper,
                    Relation::BondAbove,
                    Action::DeleteDefaults,
                    dev,
                )),
                Some(Step::new(Relation::BondAbove, Action::AddDefaults, upper)),
                Some(Step::new(
                    Relation::CarriesAddresses,
                    Action::AddIpsAndUppers,
                    upper,
                )),
            ],
            NetdevChange::ChangeUpper {
                upper,
                linking: false,
            } => [
                Some(Step::about(
                    dev,
                    Relation::SameOrAbove,
                    Action::DeleteAllAndUppers,
                    upper,
                )),
                Some(Step::new(Relation::CarriesAddresses, Action::AddIps, dev)),
                None,
            ],
            NetdevChange::BondingFailover => [
                Some(Step::new(
                    Relation::SameOrAbove,
                    Action::DeleteAllAndUppers,
                    dev,
                )),
                Some(Step::new(Relation::BondAbove, Action::AddDefaults, dev)),
                Some(Step::new(
                    Relation::CarriesAddresses,
                    Action::AddIpsAndUppers,
                    dev,
                )),
            ],
            _ => return None,
        };
        Some(Plan(steps))
    }

    /// Carries the plan out. May sleep.
    pub(super) fn execute(&self) {
        self.0.iter().flatten().for_each(Step::execute);
    }
}

/// A device and all devices above it.
fn with_uppers(netdev: &NetDevice) -> KVec<ARef<NetDevice>> {
    let mut list = KVec::new();
    let mut complete = list.push(netdev.into(), GFP_KERNEL).is_ok();
    let guard = rcu::read_lock();
    netdev.for_each_upper(&guard, |upper| {
        complete &= list.push(upper.into(), GFP_ATOMIC).is_ok();
    });
    drop(guard);
    if !complete {
        pr_warn_ratelimited!("no memory for all uppers of a netdevice, GIDs are out of date\n");
    }
    list
}

impl Action {
    fn execute(self, port: &Port<'_>, own: Option<&NetDevice>, netdev: &NetDevice) {
        match self {
            Action::AddIps => add_ip_gids(port, netdev),
            Action::AddIpsAndUppers => {
                for netdev in with_uppers(netdev) {
                    add_ip_gids(port, &netdev);
                }
            }
            Action::DeleteAll => port.delete_gids_of(netdev),
            Action::DeleteAllAndUppers => {
                for netdev in with_uppers(netdev) {
                    port.delete_gids_of(&netdev);
                }
            }
            Action::AddDefaults => {
                port.change_default_gids(Change::Add, netdev, port.gid_types());
            }
            Action::DeleteDefaults => {
                port.change_default_gids(Change::Delete, netdev, port.gid_types());
            }
            Action::DeleteOwnDefaults => {
                if let Some(own) = own {
                    port.change_default_gids(Change::Delete, own, port.gid_types());
                }
            }
        }
    }
}
