// SPDX-License-Identifier: GPL-2.0

//! Address ranges that are known not to overflow.
//!
//! Uses nothing but `core`, so that it can also be tested on the host.

/// Bytes of a page, the unit of pinning.
const PAGE: u64 = 4096;

/// A range of 64-bit addresses whose end, rounded up to a page, is still an address.
///
/// # Invariants
///
/// `start + length`, rounded up to whole pages, fits 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    start: u64,
    length: u64,
}

impl Region {
    /// The range of `length` bytes at `start`; `None` if it does not end below 2^64.
    pub const fn new(start: u64, length: u64) -> Option<Self> {
        let Some(end) = start.checked_add(length) else {
            return None;
        };
        if end.checked_next_multiple_of(PAGE).is_none() {
            return None;
        }
        // INVARIANT: Both sums were just checked.
        Some(Self { start, length })
    }

    /// The pages of 2^`shift` bytes that the range touches, as a range of their own; `None` if
    /// they reach beyond the last address.
    pub const fn enclosing(self, shift: u32) -> Option<Self> {
        let Some(page) = 1u64.checked_shl(shift) else {
            return None;
        };
        let start = self.start & !(page - 1);
        // Does not overflow, by the type invariant.
        let end = self.start.wrapping_add(self.length);
        let Some(end) = end.checked_next_multiple_of(page) else {
            return None;
        };
        Self::new(start, end.wrapping_sub(start))
    }

    /// Whether `other` lies within.
    pub const fn contains(self, other: Self) -> bool {
        other.start >= self.start && other.end() <= self.end()
    }

    /// The part of `start..end` that lies within; `None` if there is none.
    pub fn clamp(self, start: u64, end: u64) -> Option<Self> {
        let start = start.max(self.start);
        let end = end.min(self.end());
        match end.checked_sub(start) {
            Some(length) if length > 0 => Self::new(start, length),
            _ => None,
        }
    }

    /// First address after the range.
    pub const fn end(self) -> u64 {
        // Does not overflow, by the type invariant.
        self.start.wrapping_add(self.length)
    }

    /// First address.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Bytes.
    pub const fn length(self) -> u64 {
        self.length
    }

    /// Start of the page that holds the first byte.
    pub const fn first_page(self) -> u64 {
        self.start & !(PAGE - 1)
    }

    /// Distance of the first byte from the start of its page.
    pub const fn page_offset(self) -> u64 {
        self.start & (PAGE - 1)
    }

    /// Pages that the range touches; an empty range that starts inside a page touches it.
    pub const fn pages(self) -> u64 {
        // Neither sum overflows, by the type invariant.
        let end = self.start.wrapping_add(self.length);
        let end_page = end.wrapping_add(PAGE - 1) & !(PAGE - 1);
        end_page.wrapping_sub(self.first_page()) / PAGE
    }
}
