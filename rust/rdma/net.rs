// SPDX-License-Identifier: GPL-2.0

//! What the core needs of the network stack.

pub mod frame;
pub mod membership;
pub mod netdev;
pub mod netevent;
pub mod notifier;
pub mod route;
pub mod rtnl;

pub use netdev::NetDevice;
pub use rtnl::Rtnl;
