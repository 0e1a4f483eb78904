// SPDX-License-Identifier: GPL-2.0

//! How physical buffers make one region.

use kernel::prelude::*;
use rdma::phys::{PhysBuf, PAGE};

/// What a list of buffers amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Pages that the buffers touch; those of one page that meet in it count twice.
    pub(crate) pages: u32,
    /// Bytes in all.
    pub(crate) length: u64,
    /// Bytes of the first page before the first buffer.
    pub(crate) offset: u64,
}

impl Layout {
    /// Checks the rules for a region without gaps: all but the first buffer begin, and all but
    /// the last end, on a page boundary.
    pub(crate) fn of(bufs: &[PhysBuf]) -> Result<Self> {
        let first = bufs.first().ok_or(EINVAL)?;
        let mut layout = Self {
            pages: 0,
            length: 0,
            offset: first.addr % PAGE,
        };
        let last = bufs.len().wrapping_sub(1);
        for (at, buf) in bufs.iter().enumerate() {
            let end = buf.addr.checked_add(buf.size).ok_or(EINVAL)?;
            let begins_well = at == 0 || buf.addr % PAGE == 0;
            let ends_well = at == last || end % PAGE == 0;
            if buf.size == 0 || !begins_well || !ends_well {
                return Err(EINVAL);
            }
            let pages = end.div_ceil(PAGE).wrapping_sub(buf.addr / PAGE);
            layout.pages = u32::try_from(pages)
                .ok()
                .and_then(|pages| layout.pages.checked_add(pages))
                .ok_or(E2BIG)?;
            layout.length = layout.length.checked_add(buf.size).ok_or(EINVAL)?;
        }
        Ok(layout)
    }

    /// Whether peers may know the first byte by `iova`.
    pub(crate) fn check_iova(&self, iova: u64) -> Result {
        let fits = iova.checked_add(self.length).is_some() && iova % PAGE == self.offset;
        fits.then_some(()).ok_or(EINVAL)
    }
}

/// Pages that a region is made for: a reregistration may need a few more than the first
/// registration, but not more than the device has.
pub(crate) fn capacity(pages: u32, limit: u32) -> Result<u32> {
    if limit == 0 {
        return Err(EOPNOTSUPP);
    }
    if pages > limit {
        return Err(E2BIG);
    }
    Ok(pages
        .checked_next_power_of_two()
        .unwrap_or(limit)
        .min(limit))
}

#[kernel::macros::kunit_tests(rust_ib_core_classic_layout)]
mod tests {
    use super::*;

    fn of(bufs: &[(u64, u64)]) -> Result<Layout> {
        let mut list = KVec::new();
        for (addr, size) in bufs {
            list.push(
                PhysBuf {
                    addr: *addr,
                    size: *size,
                },
                GFP_KERNEL,
            )?;
        }
        Layout::of(&list)
    }

    #[test]
    fn ragged_ends_only() {
        let layout = Layout {
            pages: 4,
            length: 0x2200,
            offset: 0xf00,
        };
        assert!(of(&[(0x1f00, 0x100), (0x8000, 0x2000), (0x3000, 0x100)]) == Ok(layout));
        assert!(of(&[(0x1000, 0x100), (0x8000, 0x1000)]) == Err(EINVAL));
        assert!(of(&[(0x1000, 0x1000), (0x8100, 0x1000)]) == Err(EINVAL));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(of(&[]) == Err(EINVAL));
        assert!(of(&[(0x1000, 0)]) == Err(EINVAL));
        assert!(of(&[(u64::MAX - 0xfff, 0x1001)]) == Err(EINVAL));
        assert!(of(&[(0, u64::MAX)]) == Err(E2BIG));
    }

    #[test]
    fn the_address_has_the_offset_of_the_buffer() {
        let layout = of(&[(0x1f00, 0x100)]);
        assert!(layout.is_ok_and(|l| l.check_iova(0x7f00).is_ok()));
        assert!(layout.is_ok_and(|l| l.check_iova(0x7000).is_err()));
        let long = of(&[(0, 0x2000)]);
        assert!(long.is_ok_and(|l| l.check_iova(u64::MAX - 0xfff).is_err()));
    }

    #[test]
    fn room_to_grow_within_the_device() {
        assert!(capacity(3, 512) == Ok(4));
        assert!(capacity(300, 500) == Ok(500));
        assert!(capacity(501, 500) == Err(E2BIG));
        assert!(capacity(1, 0) == Err(EOPNOTSUPP));
    }
}
