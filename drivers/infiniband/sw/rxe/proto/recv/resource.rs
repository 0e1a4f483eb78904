// SPDX-License-Identifier: GPL-2.0

//! What the responder remembers about requests that it has answered with more than an
//! acknowledgement, so that it can answer them again (IBTA vol. 1, 9.7.5.1.3): values, never
//! packets and never references to memory.

use crate::proto::env::Slots;
use crate::wire::ext::Reth;
use crate::wire::psn::Psn;

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Saved {
    /// The data at this place. A repeated READ fetches it again.
    Read(Reth),
    /// The value that an atomic operation found.
    Atomic(u64),
    /// That it was done.
    Done,
}

/// A request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resource {
    /// The first sequence number of the answer.
    pub(super) first: Psn,
    /// Packets of the answer.
    pub(super) packets: u32,
    pub(super) saved: Saved,
}

/// The requests last answered, as many as the peer may have outstanding.
pub(super) struct Resources<S> {
    slots: Option<S>,
    next: usize,
}

impl<S: Slots<Option<Resource>>> Resources<S> {
    /// Without memory: nothing can be kept.
    pub(super) const fn new() -> Self {
        Self {
            slots: None,
            next: 0,
        }
    }

    /// Gives other memory; the old is returned.
    pub(super) fn replace(&mut self, slots: S) -> Option<S> {
        let old = self.slots.replace(slots);
        self.clear();
        old
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        if let Some(slots) = &mut self.slots {
            for slot in slots.iter_mut() {
                *slot = None;
            }
        }
        self.next = 0;
    }

    /// Whether anything can be kept.
    pub(super) fn has_room(&self) -> bool {
        self.slots.as_ref().is_some_and(|slots| !slots.is_empty())
    }

    /// Keeps an answer, in the place of the oldest.
    pub(super) fn save(&mut self, resource: Resource) {
        let Some(slots) = &mut self.slots else {
            return;
        };
        if let Some(slot) = slots.get_mut(self.next) {
            *slot = Some(resource);
        }
        self.next = match self.next + 1 {
            next if next < slots.len() => next,
            _ => 0,
        };
    }

    /// The answer that has a sequence number.
    pub(super) fn find(&self, psn: Psn) -> Option<Resource> {
        self.slots
            .as_ref()?
            .iter()
            .flatten()
            .find(|resource| psn.is_within(resource.first, resource.packets))
            .copied()
    }
}
