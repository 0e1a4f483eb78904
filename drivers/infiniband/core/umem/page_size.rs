// SPDX-License-Identifier: GPL-2.0

//! The best device page size for a mapped region.
//!
//! Uses nothing but `core`, so that it can also be tested on the host.

/// The part of a region that decides over its page size.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Address by which the device knows the first byte.
    pub(crate) iova: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Distance of the first byte from the start of the first segment.
    pub(crate) offset: u64,
}

/// The best of the `supported` page sizes (one bit each), 0 when none fits.
///
/// `segments` are bus address and length of the region's DMA segments in order. A page size fits
/// if every byte has the same place within its page in device and in bus addresses, and pages do
/// not reach over a gap between segments. The best one that fits is the largest, but not larger
/// than it takes to hold the whole region in one page. A region whose end is not an address has
/// none.
pub(crate) fn best(
    supported: u64,
    layout: Layout,
    segments: impl Iterator<Item = (u64, u32)>,
) -> u64 {
    let Some(last) = layout
        .length
        .checked_sub(1)
        .and_then(|l| layout.iova.checked_add(l))
    else {
        return 0;
    };

    // Each set bit of `obstacles` rules out the page sizes above it.
    //
    // Address bits above the highest one that changes within the region are constant, so a page
    // that spans them all holds everything: the smallest such size is the largest of use.
    let span_bits = (layout.iova ^ last).checked_ilog2().map_or(1, |b| b + 1);
    let mut obstacles = u64::MAX.checked_shl(span_bits).unwrap_or(0) & supported;

    let mut offset = layout.offset;
    let mut va = layout.iova;
    // End of the run of contiguous segments so far; `None` before the first and behind one that
    // ends with the address space.
    let mut run_end = None;
    for (i, (addr, len)) in segments.enumerate() {
        if i == 0 || run_end != Some(addr) {
            // A run's place within a page must agree in both address spaces.
            obstacles |= addr.wrapping_add(offset) ^ va;
            // Behind a gap a new page has to begin.
            if i != 0 {
                obstacles |= va;
            }
        }
        run_end = addr.checked_add(u64::from(len));
        va = va.wrapping_add(u64::from(len)).wrapping_sub(offset);
        offset = 0;
    }

    let fits = if obstacles == 0 {
        supported
    } else {
        supported & (obstacles ^ obstacles.wrapping_sub(1))
    };
    fits.checked_ilog2().map_or(0, |b| 1 << b)
}
