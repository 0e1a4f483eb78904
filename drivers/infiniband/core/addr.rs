// SPDX-License-Identifier: GPL-2.0

//! Address resolution: from IP addresses to the link-layer addresses of both ends.
//!
//! [`resolve`] does one attempt; it needs a route, and for a far end on another host the
//! neighbour's address. [`service`] repeats attempts on behalf of those who ask, whenever a
//! neighbour becomes known and once more when the time is over. A far end behind a gateway of an
//! InfiniBand network is asked for from user space ([`netlink`]).
//!
//! Attempts may sleep. Locks: that of the table of requests, which is taken with interrupts
//! disabled and is innermost.

mod netlink;
mod resolve;
mod service;

pub(crate) use netlink::handle_response;
pub(crate) use resolve::{resolve_route, translate};
pub(crate) use service::{cancel, cleanup, find_l2, init, start, Client};
