// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers: 24 bits, compared modulo 2^24 (IBTA vol. 1, 9.7.2).

/// A packet sequence number.
///
/// # Invariants
///
/// The value is below 2^24.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Psn(u32);

/// Numbers in one turn.
const MODULUS: u32 = 1 << 24;
const MASK: u32 = MODULUS - 1;
/// A number less than this ahead of another one is after it, else before it.
const HALF: u32 = MODULUS / 2;

impl Psn {
    /// Numbers that may be under way at once, so that the peer can tell new ones from old ones.
    pub(crate) const WINDOW: u32 = HALF;

    /// From the low 24 bits of `value`.
    pub(crate) const fn new(value: u32) -> Self {
        // INVARIANT: The mask keeps 24 bits.
        Self(value & MASK)
    }

    /// The number, below 2^24.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` packets later.
    pub(crate) const fn add(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The number `n` packets earlier.
    pub(crate) const fn sub(self, n: u32) -> Self {
        Self::new(self.0.wrapping_sub(n))
    }

    /// The next number.
    pub(crate) const fn next(self) -> Self {
        self.add(1)
    }

    /// The previous number.
    pub(crate) const fn prev(self) -> Self {
        self.sub(1)
    }

    /// How many packets `self` is ahead of `base`, `0..2^24`.
    pub(crate) const fn ahead_of(self, base: Self) -> u32 {
        self.0.wrapping_sub(base.0) & MASK
    }

    /// Whether `self` comes before `other` in the half turn around it.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        self.ahead_of(other) >= HALF
    }

    /// Whether `self` is one of the `n` numbers from `first` on.
    pub(crate) const fn is_within(self, first: Self, n: u32) -> bool {
        self.ahead_of(first) < n
    }
}

/// A message sequence number: counts finished requests modulo 2^24, in an AETH (IBTA vol. 1,
/// 9.7.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Msn(Psn);

impl Msn {
    /// From the low 24 bits of `value`.
    pub(crate) const fn new(value: u32) -> Self {
        Self(Psn::new(value))
    }

    /// The number, below 2^24.
    pub(crate) const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number after one more message.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.next())
    }
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_psn))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        assert_eq!(Psn::new(0x00ff_ffff).next().get(), 0);
        assert_eq!(Psn::new(0).prev().get(), 0x00ff_ffff);
        assert_eq!(Psn::new(0x1234_5678).get(), 0x0034_5678);
        assert_eq!(Psn::new(0x00ff_fff0).add(0x20).get(), 0x10);
        assert_eq!(Psn::new(0x10).sub(0x20).get(), 0x00ff_fff0);
        assert_eq!(Psn::new(5).ahead_of(Psn::new(0x00ff_fffb)), 10);
        assert_eq!(Msn::new(0x00ff_ffff).next().get(), 0);
    }

    #[test]
    fn order_holds_across_the_wrap() {
        for base in [0, 1, 0x7f_ffff, 0x80_0000, 0xff_ffff] {
            let base = Psn::new(base);
            for n in [1, 2, 127, 128, HALF - 1] {
                let later = base.add(n);
                assert!(!later.is_before(base));
                assert!(base.is_before(later));
            }
            assert!(!base.is_before(base));
            assert!(base.add(HALF).is_before(base));
        }
    }

    #[test]
    fn windows_are_half_open() {
        let first = Psn::new(0xff_fffe);
        assert!(first.is_within(first, 1));
        assert!(Psn::new(1).is_within(first, 4));
        assert!(!Psn::new(2).is_within(first, 4));
        assert!(!first.prev().is_within(first, 4));
        assert!(!first.is_within(first, 0));
    }
}
