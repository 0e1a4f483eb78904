// SPDX-License-Identifier: GPL-2.0

//! What the device family of RDMA netlink shows and changes.
//!
//! Accessors for what a reply tells ([`object`], [`device`], [`stat`], [`frmr`]) and calls for what
//! a request wants done ([`control`], [`link`], [`stat`]). All are safe whichever language the
//! part behind them is in: a device is reached through a [`Get`](crate::device::Get), an object
//! through a [`Held`](object::Held), which the owner waits for before it takes the object apart.

pub mod control;
pub mod device;
pub mod frmr;
pub mod link;
pub mod object;
pub mod stat;
