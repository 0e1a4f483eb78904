// SPDX-License-Identifier: GPL-2.0

//! The chain of network events.
//!
//! C header: [`include/net/netevent.h`](srctree/include/net/netevent.h)

use kernel::bindings;
use kernel::ffi::{c_int, c_ulong, c_void};

use super::notifier::Chain;

/// Something about a neighbour changed.
pub struct NeighbourUpdate;

/// The chain of network events, of which [`NeighbourUpdate`] is passed on. Called in any context,
/// with the neighbour's lock possibly held.
pub struct Netevent;

// SAFETY: The functions are those of one chain.
unsafe impl Chain for Netevent {
    type Event<'a> = NeighbourUpdate;

    unsafe fn register(nb: *mut bindings::notifier_block) -> c_int {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::register_netevent_notifier(nb) }
    }

    unsafe fn unregister(nb: *mut bindings::notifier_block) {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::unregister_netevent_notifier(nb) };
    }

    unsafe fn event<'a>(action: c_ulong, _: *mut c_void) -> Option<Self::Event<'a>> {
        (action == bindings::netevent_notif_type_NETEVENT_NEIGH_UPDATE as c_ulong)
            .then_some(NeighbourUpdate)
    }
}
