// SPDX-License-Identifier: GPL-2.0

//! What the core needs of the network stack.

pub mod frag;
pub mod frame;
pub mod membership;
pub mod netdev;
pub mod netevent;
pub mod notifier;
pub mod pernet;
pub mod roce;
pub mod route;
pub mod rtnl;
pub mod skb;
pub mod train;
pub mod udp_tunnel;

pub use netdev::NetDevice;
pub use rtnl::Rtnl;
