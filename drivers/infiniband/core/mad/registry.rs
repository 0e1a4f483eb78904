// SPDX-License-Identifier: GPL-2.0

//! Which agent gets an unsolicited datagram.
//!
//! A port routes requests by class, version of the class and method, in vendor
//! classes by OUI too. Each combination has at most one agent.

use super::agent::Agent;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};
use rdma::mad::{
    agent::Registration,
    wire::{
        method,
        vendor_oui,
        Class,
        Header, //
    }, //
};

/// What datagrams are routed by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    class: Class,
    class_version: u8,
    /// Zero outside the vendor classes.
    oui: [u8; 3],
    /// Without the response bit.
    method: u8,
}

/// The routes of a port.
pub(crate) struct Registry {
    routes: RBTree<Route, Arc<Agent>>,
}

/// Routes that are made, but not yet in a registry.
pub(crate) struct Routes(KVec<RBTreeNode<Route, Arc<Agent>>>);

fn routes_of(registration: &Registration) -> impl Iterator<Item = Route> + '_ {
    let class = registration.class();
    registration.methods().map(move |method| Route {
        class,
        class_version: registration.class_version(),
        oui: if class.is_vendor() {
            registration.oui()
        } else {
            [0; 3]
        },
        method,
    })
}

impl Routes {
    /// The routes that `agent` asked for. May sleep.
    pub(crate) fn new(agent: &Arc<Agent>) -> Result<Self> {
        let mut nodes = KVec::new();
        if let Some(registration) = agent.head().registration() {
            for route in routes_of(registration) {
                nodes.push(
                    RBTreeNode::new(route, agent.clone(), GFP_KERNEL)?,
                    GFP_KERNEL,
                )?;
            }
        }
        Ok(Self(nodes))
    }
}

impl Registry {
    /// Without routes.
    pub(crate) fn new() -> Self {
        Self {
            routes: RBTree::new(),
        }
    }

    /// Adds all routes or none. On a conflict they come back with the method that
    /// has an agent already.
    pub(crate) fn add(
        &mut self,
        agent: &Agent,
        routes: Routes,
    ) -> core::result::Result<(), (u8, Routes)> {
        let taken = agent.head().registration().and_then(|registration| {
            routes_of(registration).find(|route| self.routes.get(route).is_some())
        });
        if let Some(route) = taken {
            return Err((route.method, routes));
        }
        for node in routes.0 {
            let _ = self.routes.insert(node);
        }
        Ok(())
    }

    /// Removes the routes of `agent`, which the caller keeps.
    pub(crate) fn remove(&mut self, agent: &Agent) {
        let routes = agent.head().registration().map(routes_of);
        for route in routes.into_iter().flatten() {
            drop(self.routes.remove_node(&route));
        }
    }

    /// The agent for a request.
    pub(crate) fn find(&self, header: &Header, mad: &[u8]) -> Option<&Arc<Agent>> {
        self.routes.get(&Route {
            class: header.class,
            class_version: header.class_version,
            oui: if header.class.is_vendor() {
                vendor_oui(mad)?
            } else {
                [0; 3]
            },
            method: header.method & !method::RESPONSE_BIT,
        })
    }
}
