// SPDX-License-Identifier: GPL-2.0

//! How a network device is related to the one of a port.

use kernel::sync::rcu;
use rdma::net::NetDevice;

/// The place of a slave in its bond.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Role {
    Active,
    Inactive,
    /// Not below this bond, or the bond has no single active slave.
    None,
}

fn role(slave: &NetDevice, bond: Option<&NetDevice>, guard: &rcu::Guard) -> Role {
    match bond.and_then(|bond| bond.bond_active_slave(guard)) {
        Some(active) if active == slave => Role::Active,
        Some(_) => Role::Inactive,
        None => Role::None,
    }
}

/// A relation between the network device of a port ("own") and another one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    /// Any, or even no own device.
    Any,
    /// The IP addresses of the other device are reachable through the port: it is the own device, a
    /// VLAN of it, or above it, unless a bond in between has another active slave.
    CarriesAddresses,
    /// Default GIDs of the port come from the other device: it is the own one and not in a bond, or
    /// the bond above it.
    GivesDefault,
    /// The other device is the own one or above it.
    SameOrAbove,
    /// The other device is a bond above the own one.
    BondAbove,
    /// The own device is a slave that its bond does not use. The other device does not matter.
    InactiveSlave,
}

impl Relation {
    /// Whether the relation holds. `own` is absent if the port has no network device.
    pub(super) fn holds(self, own: Option<&NetDevice>, other: &NetDevice) -> bool {
        let Some(own) = own else {
            return self == Relation::Any;
        };
        let guard = rcu::read_lock();
        match self {
            Relation::Any => true,
            Relation::CarriesAddresses => {
                let real = other.vlan_real_dev(&guard).unwrap_or(other);
                other == own
                    || real == own
                    || (own.has_upper(other, &guard)
                        && role(own, Some(real), &guard) != Role::Inactive)
            }
            Relation::GivesDefault => {
                (other == own && !own.is_bond_slave())
                    || (other.is_bond_master() && own.has_upper(other, &guard))
            }
            Relation::SameOrAbove => own == other || own.has_upper(other, &guard),
            Relation::BondAbove => other.is_bond_master() && own.has_upper(other, &guard),
            Relation::InactiveSlave => role(own, own.master(&guard), &guard) == Role::Inactive,
        }
    }
}
