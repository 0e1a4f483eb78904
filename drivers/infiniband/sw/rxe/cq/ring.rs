// SPDX-License-Identifier: GPL-2.0

//! Completions that wait for a consumer in the kernel.

use crate::proto::env::CqOverflow;
use kernel::prelude::*;

/// Entries of a queue in the kernel.
pub(super) struct KernelRing<T> {
    slots: KVVec<T>,
    first: usize,
    used: usize,
    capacity: usize,
}

impl<T: Copy> KernelRing<T> {
    /// Room for `entries`. May sleep.
    pub(super) fn new(entries: u32) -> Result<Self> {
        let capacity = entries as usize;
        Ok(Self {
            slots: KVVec::with_capacity(capacity, GFP_KERNEL)?,
            first: 0,
            used: 0,
            capacity,
        })
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, entry: T) -> Result<(), CqOverflow> {
        if self.used >= self.capacity {
            return Err(CqOverflow);
        }
        let at = self.first.wrapping_add(self.used) % self.capacity.max(1);
        match self.slots.get_mut(at) {
            Some(slot) => *slot = entry,
            // The slots are used one after another, so this is the next one.
            None => self
                .slots
                .push_within_capacity(entry)
                .map_err(|_| CqOverflow)?,
        }
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Moves the entries to `other`, which is empty, and changes places with it; `EINVAL` if they do
    /// not fit.
    pub(super) fn change_places(&mut self, other: &mut Self) -> Result {
        if self.used > other.capacity {
            return Err(EINVAL);
        }
        while let Some(entry) = self.pop() {
            other.push(entry).map_err(|_| EINVAL)?;
        }
        core::mem::swap(self, other);
        Ok(())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<T> {
        let entry = *self.slots.get(self.first).filter(|_| self.used > 0)?;
        self.first = self.first.wrapping_add(1) % self.capacity.max(1);
        self.used = self.used.saturating_sub(1);
        Some(entry)
    }
}

#[kunit_tests(rust_rxe_cq_ring)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_bounded_and_in_order() -> Result {
        let mut ring = KernelRing::new(3)?;
        assert_eq!(ring.pop(), None);
        for round in 0..5u64 {
            for i in 0..3 {
                assert!(ring.push(round * 3 + i).is_ok());
            }
            assert!(ring.push(99).is_err());
            for i in 0..3 {
                assert_eq!(ring.pop(), Some(round * 3 + i));
            }
            // Start the next round at another slot.
            assert!(ring.push(7).is_ok());
            assert_eq!(ring.pop(), Some(7));
            assert_eq!(ring.pop(), None);
        }
        Ok(())
    }

    #[test]
    fn resize_keeps_entries() -> Result {
        let mut ring = KernelRing::new(3)?;
        for i in 0..4u64 {
            assert!(ring.push(i).is_ok());
            if i == 0 {
                ring.pop();
            }
        }
        assert!(ring.change_places(&mut KernelRing::new(2)?).is_err());
        ring.change_places(&mut KernelRing::new(5)?)?;
        assert!(ring.push(4).is_ok());
        assert!(ring.push(5).is_ok());
        assert!(ring.push(6).is_err());
        for i in 1..6 {
            assert_eq!(ring.pop(), Some(i));
        }
        assert_eq!(ring.pop(), None);
        Ok(())
    }
}
