// SPDX-License-Identifier: GPL-2.0

//! The management datagram layer.
//!
//! Each port with management has the queue pairs QP0 (subnet management) and QP1
//! (general services). Clients register as agents of one of them, send datagrams
//! and get those that their registration or their transaction ids ask for.
//!
//! * [`port`]: opening and closing of ports;
//! * [`agent`] and [`registry`]: who gets what;
//! * [`flight`] and [`send`]: datagrams that are under way;
//! * [`receive`]: what happens to a datagram that came in;
//! * [`local`]: directed-route packets that do not leave the node.
//!
//! Segmented transfers are in [`crate::mad_rmpp`], the answers of the driver's own
//! agents in [`crate::agent`].

pub(crate) mod agent;
pub(crate) mod flight;
mod local;
mod matching;
pub(crate) mod port;
mod receive;
mod registry;
pub(crate) mod send;

use kernel::prelude::*;
use rdma::mad::glue;

/// Starts the layer; devices that exist already are opened. May sleep.
pub(crate) fn init() -> Result {
    glue::register_client::<port::Client>().map_err(|_| {
        pr_err!("Couldn't register ib_mad client\n");
        EINVAL
    })
}

/// Ends the layer. May sleep.
pub(crate) fn cleanup() {
    glue::unregister_client();
}
