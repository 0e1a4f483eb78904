// SPDX-License-Identifier: GPL-2.0

//! The requests that the send side works on, in the order in which they were posted.

use crate::proto::env::Slots;
use crate::proto::wr::{SendWqe, Status};
use crate::wire::psn::Psn;
use core::marker::PhantomData;

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing was sent.
    Queued,
    /// It has its sequence numbers, and at least the first packet was offered to the network.
    Started {
        /// Of the first packet.
        first: Psn,
        /// How many it takes, at least 1. For a READ those of the response.
        packets: u32,
    },
    /// It has ended, but those before it may have not.
    Done(Status),
}

/// A request in the window.
#[derive(Debug)]
pub(crate) struct Entry<L> {
    pub(super) wqe: SendWqe<L>,
    pub(super) phase: Phase,
}

/// A ring of requests. Positions count from the oldest one.
///
/// # Invariants
///
/// `len` is at most the number of slots, `head` below it (or 0). The `len` slots from `head` on,
/// cyclically, are `Some`, the others `None`.
pub(super) struct Window<L, S: Slots<Option<Entry<L>>>> {
    slots: S,
    head: usize,
    len: usize,
    _entry: PhantomData<L>,
}

impl<L, S: Slots<Option<Entry<L>>>> Window<L, S> {
    /// An empty window in this memory.
    pub(super) fn new(mut slots: S) -> Self {
        for slot in slots.iter_mut() {
            *slot = None;
        }
        // INVARIANT: All slots are empty.
        Self {
            slots,
            head: 0,
            len: 0,
            _entry: PhantomData,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= self.slots.len()
    }

    /// The slot of a position, which need not be taken. Below twice the number of slots.
    fn slot(&self, position: usize) -> usize {
        let slot = self.head + position;
        if slot >= self.slots.len() {
            slot - self.slots.len()
        } else {
            slot
        }
    }

    pub(super) fn get(&self, position: usize) -> Option<&Entry<L>> {
        if position >= self.len {
            return None;
        }
        self.slots.get(self.slot(position))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Entry<L>> {
        if position >= self.len {
            return None;
        }
        let slot = self.slot(position);
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Adds a request as the youngest, if `fetch` has one; says whether there is one more. `fetch`
    /// is not asked if the window is full.
    pub(super) fn push_from(&mut self, fetch: impl FnOnce() -> Option<SendWqe<L>>) -> bool {
        let slot = self.slot(self.len);
        let Some(slot) = self.slots.get_mut(slot).filter(|slot| slot.is_none()) else {
            return false;
        };
        let Some(wqe) = fetch() else {
            return false;
        };
        *slot = Some(Entry {
            wqe,
            phase: Phase::Queued,
        });
        // INVARIANT: The slot after the last one is taken now.
        self.len += 1;
        true
    }

    /// Drops the oldest request, where it is; says whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let Some(slot) = self.slots.get_mut(self.head).filter(|slot| slot.is_some()) else {
            return false;
        };
        *slot = None;
        // INVARIANT: The window starts one slot later and is one shorter.
        self.head = self.slot(1);
        self.len -= 1;
        true
    }

    /// The position of the request that has a sequence number.
    pub(super) fn find(&self, psn: Psn) -> Option<usize> {
        (0..self.len).find(|position| {
            matches!(
                self.get(*position).map(|entry| entry.phase),
                Some(Phase::Started { first, packets }) if psn.is_within(first, packets)
            )
        })
    }
}
