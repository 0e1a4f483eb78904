// SPDX-License-Identifier: GPL-2.0

//! Points in time, in jiffies.
//!
//! C header: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h)

use kernel::{
    bindings,
    time::Jiffies, //
};

/// Nanoseconds of the monotonic clock. Any context.
#[inline]
pub fn monotonic_nanos() -> u64 {
    // SAFETY: The clock may always be read. It starts at zero.
    unsafe { bindings::ktime_get() as u64 }
}

/// The least number of jiffies that a delay of `nanos` is certainly over after.
#[inline]
pub fn jiffies_to_cover(nanos: u64) -> Jiffies {
    // SAFETY: Only converts a number, rounding down; the running jiffy counts for nothing.
    unsafe { bindings::nsecs_to_jiffies(nanos) }.saturating_add(1)
}

/// A point in time on the jiffies clock, which wraps: two of them compare
/// rightly if they are less than half its range apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Jiffies);

impl Deadline {
    /// The present.
    #[inline]
    pub fn now() -> Self {
        // SAFETY: The counter is always readable; it changes at any time, so it
        // is read once and whole.
        Self(unsafe { (&raw const bindings::jiffies).read_volatile() })
    }

    /// `delay` from now.
    #[inline]
    pub fn after(delay: Jiffies) -> Self {
        Self(Self::now().0.wrapping_add(delay))
    }

    /// `delay` after this point.
    #[inline]
    pub fn later(self, delay: Jiffies) -> Self {
        Self(self.0.wrapping_add(delay))
    }

    /// Whether this is an earlier point than `other`.
    #[inline]
    pub fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as isize) < 0
    }

    /// Whether the point is reached.
    #[inline]
    pub fn has_passed(self) -> bool {
        !Self::now().is_before(self)
    }

    /// How far away the point is; 0 once it is reached.
    #[inline]
    pub fn remaining(self) -> Jiffies {
        let left = self.0.wrapping_sub(Self::now().0);
        if (left as isize) < 0 {
            0
        } else {
            left
        }
    }

    /// The counter at that point, for traces.
    #[inline]
    pub fn as_jiffies(self) -> Jiffies {
        self.0
    }
}
