// SPDX-License-Identifier: GPL-2.0

//! Static rates of address vectors (IBTA vol. 1, 9.11.1).

/// Rate of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rate {
    /// Code in an address vector and in path records.
    code: u32,
    /// Multiple of 2.5 Gb/s, rounded down.
    mult: i32,
    /// Megabits per second.
    mbps: i32,
}

const fn rate(code: u32, mult: i32, mbps: i32) -> Rate {
    Rate { code, mult, mbps }
}

/// Code of "as fast as the port".
const PORT_CURRENT: u32 = 0;

/// All rates but "as fast as the port", by code.
const RATES: [Rate; 23] = [
    rate(2, 1, 2_500),
    rate(3, 4, 10_000),
    rate(4, 12, 30_000),
    rate(5, 2, 5_000),
    rate(6, 8, 20_000),
    rate(7, 16, 40_000),
    rate(8, 24, 60_000),
    rate(9, 32, 80_000),
    rate(10, 48, 120_000),
    rate(11, 6, 14_062),
    rate(12, 22, 56_250),
    rate(13, 45, 112_500),
    rate(14, 67, 168_750),
    rate(15, 10, 25_781),
    rate(16, 40, 103_125),
    rate(17, 80, 206_250),
    rate(18, 120, 309_375),
    rate(19, 11, 28_125),
    rate(20, 20, 53_125),
    rate(21, 160, 425_000),
    rate(22, 240, 637_500),
    rate(23, 320, 850_000),
    rate(25, 640, 1_700_000),
];

fn by_code(code: u32) -> Option<Rate> {
    RATES.into_iter().find(|rate| rate.code == code)
}

/// The rate as a multiple of 2.5 Gb/s.
pub(crate) fn to_mult(code: u32) -> Option<i32> {
    by_code(code).map(|rate| rate.mult)
}

/// The rate in megabits per second.
pub(crate) fn to_mbps(code: u32) -> Option<i32> {
    by_code(code).map(|rate| rate.mbps)
}

/// The code of a multiple of 2.5 Gb/s; "as fast as the port" for one that has no code.
pub(crate) fn from_mult(mult: i32) -> u32 {
    RATES
        .into_iter()
        .find(|rate| rate.mult == mult)
        .map_or(PORT_CURRENT, |rate| rate.code)
}

#[kernel::macros::kunit_tests(rust_ib_core_rate)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_multiples_are_unique() {
        for rate in RATES {
            assert_eq!(from_mult(rate.mult), rate.code);
            assert_eq!(to_mult(rate.code), Some(rate.mult));
        }
    }

    #[test]
    fn unknown_rates() {
        assert_eq!(to_mult(PORT_CURRENT), None);
        assert_eq!(to_mbps(1), None);
        assert_eq!(to_mbps(24), None);
        assert_eq!(from_mult(3), PORT_CURRENT);
        assert_eq!(from_mult(-1), PORT_CURRENT);
    }
}
