// SPDX-License-Identifier: GPL-2.0

//! Cutting a list of DMA segments into blocks of a power-of-two size.
//!
//! Uses nothing but `core`, so that it can also be tested on the host.

/// A position in a list of segments.
pub(crate) trait SegmentWalk {
    /// Address and length of the segment that the walk stands in, `None` at the end.
    fn segment(&self) -> Option<(u64, u32)>;

    /// Bytes of that segment that earlier blocks have taken.
    fn consumed(&self) -> u32;

    /// Sets how much of it is taken.
    fn set_consumed(&mut self, bytes: u32);

    /// Leaves it for the start of the next one.
    fn step(&mut self);
}

/// Binary logarithm of the block size: the highest bit of `size`, `None` for no size at all.
pub(crate) fn block_bits(size: usize) -> Option<u32> {
    size.checked_ilog2()
}

/// Takes one block of 2^`bits` bytes from the list and returns the address where its data
/// starts, `None` when the list is used up.
///
/// The data may start inside the block (only the first one of a list does) and the list may end
/// before the block does. A block may span several segments that lie back to back, and its size
/// may exceed what a segment's 32-bit length can tell.
pub(crate) fn take_block<W: SegmentWalk>(walk: &mut W, bits: u32) -> Option<u64> {
    let (addr, _) = walk.segment()?;
    let start = addr.wrapping_add(u64::from(walk.consumed()));
    let size = 1u64.checked_shl(bits)?;
    let mut missing = size - (start & (size - 1));

    while let Some((_, len)) = walk.segment() {
        let available = u64::from(len.saturating_sub(walk.consumed()));
        if available > missing {
            // `missing` is below a 32-bit length here.
            walk.set_consumed(walk.consumed().saturating_add(missing as u32));
            break;
        }
        missing -= available;
        walk.step();
    }
    Some(start)
}
