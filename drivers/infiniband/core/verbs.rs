// SPDX-License-Identifier: GPL-2.0

//! Verbs: life and use of the objects that consumers of a device work with.
//!
//! | module | objects |
//! |---|---|
//! | [`pd`], [`mr`], [`ah`], [`cq`], [`srq`], [`xrcd`], [`wq`] | one kind each |
//! | [`qp_create`], [`qp_modify`], [`qp_state`], [`mcast`], [`drain`] | queue pairs |
//! | [`node`], [`port`], [`rate`], [`event_str`] | what devices, links and events are |
//!
//! `ib_uverbs` creates some user objects on its own, with the same drivers' operations and the
//! same use counts, so the counts are kept exactly as it expects them.
//!
//! Lock order: the target lock of an XRC domain (sleeps), then the lock of the device's list of
//! shared handles (interrupts off). Nothing else here is locked: creation and destruction of an
//! object are its owner's to serialise.

pub(crate) mod ah;
pub(crate) mod cq;
pub(crate) mod drain;
pub(crate) mod event_str;
pub(crate) mod mcast;
pub(crate) mod mr;
pub(crate) mod node;
pub(crate) mod pd;
pub(crate) mod port;
pub(crate) mod qp_create;
pub(crate) mod qp_modify;
pub(crate) mod qp_state;
pub(crate) mod rate;
pub(crate) mod srq;
pub(crate) mod wq;
pub(crate) mod xrcd;
