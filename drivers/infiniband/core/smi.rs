// SPDX-License-Identifier: GPL-2.0

//! Routing decisions of the subnet management interface.
//!
//! A directed-route packet carries its own path. Each node along it decides
//! from the hop pointer whether the packet is for itself, has to go on, or is
//! malformed; the rules are C14-9 (outbound) and C14-13 (returning) of the
//! InfiniBand architecture specification, volume 1, 14.2.2. They are the same
//! for InfiniBand and Omni-Path.
//!
//! Nothing here calls the kernel, and any packet content is acceptable input.

use kernel::prelude::*;
use rdma::mad::smp::{
    DirectedRoute,
    Direction,
    PATH_ENTRIES, //
};

/// What to do with a packet after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Drop it.
    Discard,
    /// Go on with it.
    Handle,
}

/// Where a received packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    /// Up to the agents of this node.
    Local,
    /// To the send side, as if it had been made here.
    Send,
    /// Out of another port; only switches do that.
    Relay,
}

/// The node that looks at the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// It can forward packets.
    pub(crate) is_switch: bool,
    /// The port that the packet came in by or leaves by.
    pub(crate) port: u32,
}

/// Place of a packet on the directed part of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the node where this direction begins.
    Origin,
    /// At a switch in between.
    Transit,
    /// At the last node of the directed part.
    End,
    /// Past the last node: belongs to the management entity there.
    Delivered,
    /// The hop pointer fits no rule.
    Astray,
}

impl Place {
    fn of(direction: Direction, pointer: u8, count: u8) -> Self {
        let past_end = u16::from(count) + 1;
        match direction {
            Direction::Outbound if count != 0 && pointer == 0 => Self::Origin,
            Direction::Outbound if pointer != 0 && pointer < count => Self::Transit,
            Direction::Outbound if pointer == count => Self::End,
            Direction::Outbound if u16::from(pointer) == past_end => Self::Delivered,
            Direction::Outbound => Self::Astray,
            Direction::Returning if count != 0 && u16::from(pointer) == past_end => Self::Origin,
            Direction::Returning if (2..=count).contains(&pointer) => Self::Transit,
            Direction::Returning if pointer == 1 => Self::End,
            Direction::Returning if pointer == 0 => Self::Delivered,
            Direction::Returning => Self::Astray,
        }
    }
}

fn handle_if(ok: bool) -> Action {
    if ok {
        Action::Handle
    } else {
        Action::Discard
    }
}

/// [`Place`] and the moves along a route.
trait Walk {
    fn place(&self) -> Place;
    /// Rule C14-6: the path vectors bound the number of hops.
    fn length_is_valid(&self) -> bool;
    fn step(&mut self);
    /// Port in the path being walked, at the hop pointer.
    fn current_port(&self) -> Option<u8>;
    /// Port in the path being walked, one step ahead.
    fn next_port(&self) -> Option<u8>;
    /// There is no LID-routed part after this direction's last node.
    fn ends_here(&self) -> bool;
}

impl Walk for DirectedRoute<'_> {
    fn place(&self) -> Place {
        Place::of(self.direction, *self.hop_pointer, self.hop_count)
    }

    fn length_is_valid(&self) -> bool {
        usize::from(self.hop_count) < PATH_ENTRIES
    }

    fn step(&mut self) {
        *self.hop_pointer = match self.direction {
            Direction::Outbound => self.hop_pointer.wrapping_add(1),
            Direction::Returning => self.hop_pointer.wrapping_sub(1),
        };
    }

    fn current_port(&self) -> Option<u8> {
        let hop = usize::from(*self.hop_pointer);
        match self.direction {
            Direction::Outbound => self.initial_path.get(hop).copied(),
            Direction::Returning => self.return_path.get(hop).copied(),
        }
    }

    fn next_port(&self) -> Option<u8> {
        let hop = usize::from(*self.hop_pointer);
        match self.direction {
            Direction::Outbound => self.initial_path.get(hop + 1).copied(),
            Direction::Returning => self.return_path.get(hop.checked_sub(1)?).copied(),
        }
    }

    fn ends_here(&self) -> bool {
        match self.direction {
            Direction::Outbound => self.dlid_permissive,
            Direction::Returning => self.slid_permissive,
        }
    }
}

/// Advances a packet that `node` is about to send.
pub(crate) fn prepare_send(route: &mut DirectedRoute<'_>, node: Node) -> Action {
    if !route.length_is_valid() {
        return Action::Discard;
    }
    match route.place() {
        Place::Origin => {
            route.step();
            handle_if(route.current_port().map(u32::from) == Some(node.port))
        }
        Place::Transit if node.is_switch => {
            route.step();
            handle_if(route.current_port().map(u32::from) == Some(node.port))
        }
        Place::End => {
            route.step();
            handle_if(node.is_switch || route.ends_here())
        }
        Place::Delivered => Action::Handle,
        Place::Transit | Place::Astray => Action::Discard,
    }
}

/// Checks a packet that `node` received, and records on an outbound one the
/// port that it came in by.
///
/// `port_count` is the number of external ports of the node. The hop pointer
/// stays where the sender left it unless the packet is the node's own.
pub(crate) fn accept(route: &mut DirectedRoute<'_>, node: Node, port_count: u32) -> Action {
    if !route.length_is_valid() {
        return Action::Discard;
    }
    match (route.direction, route.place()) {
        // The sender's own step is missing.
        (Direction::Outbound, Place::Origin) => Action::Discard,
        (Direction::Outbound, Place::Transit) if node.is_switch => {
            record_entry(route, node.port);
            handle_if(
                route
                    .next_port()
                    .is_some_and(|port| u32::from(port) <= port_count),
            )
        }
        (Direction::Outbound, Place::End) => {
            if route.hop_count != 0 {
                record_entry(route, node.port);
            }
            handle_if(node.is_switch || route.ends_here())
        }
        (Direction::Returning, Place::Origin) => {
            route.step();
            handle_if(route.current_port().map(u32::from) == Some(node.port))
        }
        (Direction::Returning, Place::Transit) if node.is_switch => handle_if(
            route
                .next_port()
                .is_some_and(|port| u32::from(port) <= port_count),
        ),
        (Direction::Returning, Place::End) if route.ends_here() => {
            route.step();
            Action::Handle
        }
        (Direction::Returning, Place::End) => handle_if(node.is_switch),
        (_, Place::Delivered) => Action::Handle,
        (_, Place::Transit | Place::Astray) => Action::Discard,
    }
}

fn record_entry(route: &mut DirectedRoute<'_>, port: u32) {
    let hop = usize::from(*route.hop_pointer);
    if let Some(entry) = route.return_path.get_mut(hop) {
        // The path vector has room for port numbers of one byte only.
        *entry = (port & 0xff) as u8;
    }
}

/// Where a packet that passed [`accept`] goes.
pub(crate) fn next_stop(route: &DirectedRoute<'_>) -> Forward {
    match (route.direction, route.place()) {
        (_, Place::Transit) => Forward::Relay,
        (Direction::Outbound, Place::End) if route.ends_here() => Forward::Send,
        (Direction::Outbound, Place::Delivered) => Forward::Send,
        (Direction::Returning, Place::End) if !route.ends_here() => Forward::Send,
        _ => Forward::Local,
    }
}

/// The port that a switch forwards a packet out of; none if the hop pointer
/// leaves the path.
pub(crate) fn exit_port(route: &DirectedRoute<'_>) -> Option<u8> {
    route.next_port()
}

/// The packet is an outbound one for the management entity of this node.
#[cfg_attr(not(part_mad), expect(dead_code))]
pub(crate) fn is_for_local_agent(route: &DirectedRoute<'_>) -> bool {
    route.direction == Direction::Outbound
        && u16::from(*route.hop_pointer) == u16::from(route.hop_count) + 1
}

/// The packet is a returning one for the management entity of this node.
#[cfg_attr(not(part_mad), expect(dead_code))]
pub(crate) fn is_for_local_manager(route: &DirectedRoute<'_>) -> bool {
    route.direction == Direction::Returning && *route.hop_pointer == 0
}

#[kunit_tests(rust_ib_core_smi)]
mod tests {
    use super::*;

    /// A packet of which only the route matters.
    struct Packet {
        pointer: u8,
        initial: [u8; PATH_ENTRIES],
        ret: [u8; PATH_ENTRIES],
    }

    impl Packet {
        fn new(pointer: u8) -> Self {
            let mut initial = [0; PATH_ENTRIES];
            initial[1] = 1;
            initial[2] = 2;
            initial[3] = 3;
            Self {
                pointer,
                initial,
                ret: [0; PATH_ENTRIES],
            }
        }

        fn route(
            &mut self,
            direction: Direction,
            count: u8,
            permissive: bool,
        ) -> DirectedRoute<'_> {
            DirectedRoute {
                direction,
                hop_count: count,
                hop_pointer: &mut self.pointer,
                initial_path: &self.initial,
                return_path: &mut self.ret,
                dlid_permissive: permissive,
                slid_permissive: permissive,
            }
        }
    }

    const HCA: Node = Node {
        is_switch: false,
        port: 1,
    };
    const SWITCH: Node = Node {
        is_switch: true,
        port: 2,
    };

    #[test]
    fn request_leaves_its_source() {
        let mut packet = Packet::new(0);
        let mut route = packet.route(Direction::Outbound, 2, true);
        assert_eq!(prepare_send(&mut route, HCA), Action::Handle);
        assert_eq!(packet.pointer, 1);
    }

    #[test]
    fn request_leaves_by_the_named_port_only() {
        let mut packet = Packet::new(0);
        let mut route = packet.route(Direction::Outbound, 2, true);
        assert_eq!(prepare_send(&mut route, SWITCH), Action::Discard);
    }

    #[test]
    fn switch_records_the_entry_port() {
        let mut packet = Packet::new(1);
        let mut route = packet.route(Direction::Outbound, 2, true);
        assert_eq!(accept(&mut route, SWITCH, 8), Action::Handle);
        assert_eq!(next_stop(&route), Forward::Relay);
        assert_eq!(exit_port(&route), Some(2));
        assert_eq!(packet.ret[1], 2);
    }

    #[test]
    fn adapters_do_not_forward() {
        let mut packet = Packet::new(1);
        let mut route = packet.route(Direction::Outbound, 2, true);
        assert_eq!(accept(&mut route, HCA, 2), Action::Discard);
    }

    #[test]
    fn loopback_of_no_hops_is_delivered() {
        let mut packet = Packet::new(0);
        let mut route = packet.route(Direction::Outbound, 0, true);
        assert_eq!(prepare_send(&mut route, HCA), Action::Handle);
        assert!(u16::from(*route.hop_pointer) == u16::from(route.hop_count) + 1);
    }

    #[test]
    fn overlong_route_is_refused() {
        let mut packet = Packet::new(0);
        let mut route = packet.route(Direction::Outbound, 64, true);
        assert_eq!(prepare_send(&mut route, HCA), Action::Discard);
        assert_eq!(accept(&mut route, HCA, 1), Action::Discard);
    }

    #[test]
    fn no_content_leads_out_of_the_path() {
        for direction in [Direction::Outbound, Direction::Returning] {
            for pointer in 0..=u8::MAX {
                for count in 0..=u8::MAX {
                    let mut packet = Packet::new(pointer);
                    let mut route = packet.route(direction, count, pointer % 2 == 0);
                    let _ = exit_port(&route);
                    let _ = next_stop(&route);
                    let _ = accept(&mut route, SWITCH, 36);
                    let _ = prepare_send(&mut route, SWITCH);
                    assert!(usize::from(count) < PATH_ENTRIES || packet.pointer == pointer);
                }
            }
        }
    }
}
