// SPDX-License-Identifier: GPL-2.0

//! A queue of a fixed size, which needs no memory once it is made.

use kernel::prelude::*;

/// A queue of at most as many elements as it was made for.
pub(crate) struct Ring<T> {
    slots: KVVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// A queue with room for `size` elements. May sleep.
    pub(crate) fn new(size: u32) -> Result<Self> {
        let mut slots = KVVec::with_capacity(size as usize, GFP_KERNEL)?;
        for _ in 0..size {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            head: 0,
            len: 0,
        })
    }

    pub(crate) fn size(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn slot(&mut self, at: usize) -> Option<&mut Option<T>> {
        let size = self.slots.len();
        let at = self.head.checked_add(at)?.checked_rem(size)?;
        self.slots.get_mut(at)
    }

    /// Appends an element; gives it back if there is no room.
    pub(crate) fn push(&mut self, value: T) -> core::result::Result<(), T> {
        if self.len == self.slots.len() {
            return Err(value);
        }
        let end = self.len;
        match self.slot(end) {
            Some(slot) => *slot = Some(value),
            None => return Err(value),
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest element.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slot(0)?.take();
        self.head = (self.head + 1) % self.slots.len();
        self.len -= 1;
        value
    }

    /// Forgets the elements that `keep` does not want.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for _ in 0..self.len {
            if let Some(value) = self.pop() {
                if keep(&value) {
                    let _ = self.push(value);
                }
            }
        }
    }
}
