// SPDX-License-Identifier: GPL-2.0

//! Walking a DMA-mapped scatter list in the blocks that a device's page tables take.

pub(crate) mod blocks;

use blocks::{
    take_block,
    SegmentWalk, //
};
use rdma::block_iter::BlockIter;

impl SegmentWalk for BlockIter {
    #[inline]
    fn segment(&self) -> Option<(u64, u32)> {
        BlockIter::segment(self).map(|s| (s.addr, s.len))
    }

    #[inline]
    fn consumed(&self) -> u32 {
        BlockIter::consumed(self)
    }

    #[inline]
    fn set_consumed(&mut self, bytes: u32) {
        BlockIter::set_consumed(self, bytes)
    }

    #[inline]
    fn step(&mut self) {
        BlockIter::step(self)
    }
}

/// Moves `iter` to its next block. `false` when there is none.
pub(crate) fn advance(iter: &mut BlockIter) -> bool {
    let bits = iter.block_bits();
    match take_block(iter, bits) {
        Some(addr) => {
            iter.publish(addr);
            true
        }
        None => false,
    }
}

#[kernel::prelude::kunit_tests(rust_ib_core_iter)]
mod tests {
    use super::blocks::*;

    struct Walk<'a> {
        segments: &'a [(u64, u32)],
        consumed: u32,
    }

    impl SegmentWalk for Walk<'_> {
        fn segment(&self) -> Option<(u64, u32)> {
            self.segments.first().copied()
        }

        fn consumed(&self) -> u32 {
            self.consumed
        }

        fn set_consumed(&mut self, bytes: u32) {
            self.consumed = bytes;
        }

        fn step(&mut self) {
            self.segments = self.segments.get(1..).unwrap_or(&[]);
            self.consumed = 0;
        }
    }

    fn count(segments: &[(u64, u32)], bits: u32) -> usize {
        let mut walk = Walk {
            segments,
            consumed: 0,
        };
        let mut n = 0;
        while take_block(&mut walk, bits).is_some() {
            n += 1;
        }
        n
    }

    #[test]
    fn block_within_and_across_segments() {
        assert_eq!(count(&[(0x1000, 0x2000)], 12), 2);
        assert_eq!(count(&[(0x1000, 0x1000), (0x2000, 0x1000)], 13), 2);
        assert_eq!(count(&[(0x2000, 0x1000), (0x3000, 0x1000)], 13), 1);
    }

    #[test]
    fn block_of_4_gib_and_more() {
        const L: u32 = 0xffff_f000;
        let list = [
            (0x1_0000_0000, L),
            (0x1_ffff_f000, L),
            (0x2_ffff_e000, L),
            (0x3_ffff_d000, L),
            (0x4_ffff_c000, L),
            (0x5_ffff_b000, 0x5000),
        ];
        assert_eq!(count(&list, 32), 5);
        assert_eq!(count(&list, 34), 2);
        assert_eq!(count(&list, 63), 1);
    }

    #[test]
    fn no_block_size() {
        assert_eq!(block_bits(0), None);
        assert_eq!(count(&[(0x1000, 0x1000)], 64), 0);
    }
}
