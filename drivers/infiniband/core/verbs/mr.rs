// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use crate::classic::notes::{self, Taken};
use kernel::{bindings, prelude::*};
use rdma::{
    mr::{Access, Mr, MrKind, PageSetter, SgList, SgeList, SigAttrs},
    pd::Pd,
    udata::Udata,
    warn_on_once,
};

/// Registers memory of the current process for a kernel module. May sleep.
pub(crate) fn reg_user(pd: &Pd, start: u64, length: u64, iova: u64, access: Access) -> Result<&Mr> {
    let on_demand = u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
    if access.contains(Access::ON_DEMAND) && pd.device().attrs().kernel_cap_flags & on_demand == 0 {
        pr_debug!("ODP support not available\n");
        return Err(EINVAL);
    }
    let mr = Mr::driver_reg_user(pd, start, length, iova, access)?;
    mr.set_up_user(pd, iova, length);
    Ok(mr)
}

/// Tells the driver how memory is going to be used. Nothing to tell is fine.
pub(crate) fn advise(
    pd: &Pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    sges: Option<&SgeList>,
    count: u32,
) -> Result {
    if pd.device().ops().advise_mr.is_none() {
        return Err(EOPNOTSUPP);
    }
    if count == 0 {
        return Ok(());
    }
    Mr::driver_advise(pd, advice, flags, sges.ok_or(EINVAL)?, count)
}

/// Allocates a region for fast registration of up to `max_sg` entries. May sleep.
pub(crate) fn alloc(pd: &Pd, kind: MrKind, max_sg: u32) -> Result<&Mr> {
    let mr = alloc_untraced(pd, kind, max_sg);
    Mr::trace_alloc(pd, kind, max_sg, &mr);
    mr
}

fn alloc_untraced(pd: &Pd, kind: MrKind, max_sg: u32) -> Result<&Mr> {
    if pd.device().ops().alloc_mr.is_none() {
        return Err(EOPNOTSUPP);
    }
    // These have more to allocate and a call of their own.
    if warn_on_once!(kind == MrKind::Integrity) {
        return Err(EINVAL);
    }
    let mr = Mr::driver_alloc(pd, kind, max_sg)?;
    mr.set_up_fast(pd, kind, None);
    Ok(mr)
}

/// Allocates a region for data with protection information. May sleep.
pub(crate) fn alloc_integrity(pd: &Pd, max_data_sg: u32, max_meta_sg: u32) -> Result<&Mr> {
    let mr = alloc_integrity_untraced(pd, max_data_sg, max_meta_sg);
    Mr::trace_alloc_integrity(pd, max_data_sg, max_meta_sg, &mr);
    mr
}

fn alloc_integrity_untraced(pd: &Pd, max_data_sg: u32, max_meta_sg: u32) -> Result<&Mr> {
    let ops = pd.device().ops();
    if ops.alloc_mr_integrity.is_none() || ops.map_mr_sg_pi.is_none() {
        return Err(EOPNOTSUPP);
    }
    if max_meta_sg == 0 {
        return Err(EINVAL);
    }
    let sig_attrs = SigAttrs::new()?;
    let mr = Mr::driver_alloc_integrity(pd, max_data_sg, max_meta_sg)?;
    mr.set_up_fast(pd, MrKind::Integrity, Some(sig_attrs));
    Ok(mr)
}

/// Deregisters a region. May sleep.
///
/// The driver frees the region, so it is taken off the tracker's list before; if the driver
/// refuses, the region stays as it was but unlisted.
pub(crate) fn dereg(mr: &Mr, udata: Option<&Udata>) -> Result {
    mr.trace_dereg();
    let holdings = mr.holdings();
    mr.untrack();
    // Its place in memory may belong to another region as soon as the driver has let go.
    let note = notes::take(mr);
    if let Err(e) = mr.driver_dereg(udata) {
        note.into_iter().for_each(Taken::put_back);
        return Err(e);
    }
    holdings.release();
    Ok(())
}

/// Makes the first entries of a list the content of a region; returns how many fit.
pub(crate) fn map(mr: &Mr, sg: SgList<'_>, page_size: u32) -> Result<u32> {
    if mr.device().ops().map_mr_sg.is_none() {
        return Err(EOPNOTSUPP);
    }
    mr.set_page_size(page_size);
    mr.driver_map(sg)
}

/// Makes lists of data and of protection information the content of a region.
pub(crate) fn map_integrity(
    mr: &Mr,
    data: SgList<'_>,
    meta: SgList<'_>,
    page_size: u32,
) -> Result<u32> {
    if mr.device().ops().map_mr_sg_pi.is_none() || warn_on_once!(mr.kind() != MrKind::Integrity) {
        return Err(EOPNOTSUPP);
    }
    mr.set_page_size(page_size);
    mr.driver_map_integrity(data, meta)
}

/// Gives the pages of the first entries of a list to the driver, which maps a region; returns
/// how many entries fit. The region's range is set, and `sg` told where the mapping ends.
pub(crate) fn map_pages(mr: &Mr, sg: SgList<'_>, setter: PageSetter) -> Result<u32> {
    let skip = sg.offset();
    let (address, length) = sg.segments().next().ok_or(EINVAL)?;
    if skip > length {
        return Err(EINVAL);
    }
    let iova = address.wrapping_add(skip.into());
    mr.set_range(iova, 0);

    let mapped = to_pages(sg.segments(), skip, mr.page_size(), |page| {
        setter.add(mr, page)
    })?;
    mr.set_range(iova, mapped.length);
    sg.set_offset(mapped.offset);
    Ok(mapped.segments)
}

/// What became of a list of segments, see [`to_pages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    /// Number of whole segments.
    pub(crate) segments: u32,
    /// Bytes of the segment after these that were mapped as well.
    pub(crate) offset: u32,
    /// Bytes in all.
    pub(crate) length: u64,
}

/// Splits the longest possible prefix of `segments` into pages.
///
/// Each segment is a bus address and a length; the first `skip` bytes of the first one are left
/// out. A region is one range of addresses without gaps, so a segment ends the prefix if it does
/// not begin, or the one before does not end, on a page boundary, unless it continues that one.
///
/// `set_page` is called with the address of each page, and fails when the region is full. That
/// is an error only if nothing at all was mapped.
///
/// `page_size` is a power of two.
pub(crate) fn to_pages(
    segments: impl Iterator<Item = (u64, u32)>,
    skip: u32,
    page_size: u32,
    mut set_page: impl FnMut(u64) -> Result,
) -> Result<Mapped> {
    let page_mask = !u64::from(page_size).wrapping_sub(1);
    let page_mask = if page_size == 0 { 0 } else { page_mask };
    let mut skip = skip;
    let mut mapped = Mapped {
        segments: 0,
        offset: 0,
        length: 0,
    };
    let mut previous_end: Option<u64> = None;

    for (address, length) in segments {
        let start = address.wrapping_add(skip.into());
        let end = address.wrapping_add(length.into());
        let mut page = start & page_mask;

        // The page that the segment begins in is already there if it continues the last one.
        let mut needed = true;
        if let Some(previous_end) = previous_end {
            if previous_end & !page_mask != 0 || start != page {
                if previous_end != start {
                    break;
                }
                page = page.wrapping_add(page_size.into());
                needed = page < end;
            }
        }

        while needed {
            if let Err(full) = set_page(page) {
                let done = page.saturating_sub(start);
                // Within the segment, whose length has 32 bits.
                mapped.offset = skip.wrapping_add(done as u32);
                mapped.length = mapped.length.wrapping_add(done);
                if mapped.segments == 0 && mapped.offset == 0 {
                    return Err(full);
                }
                return Ok(mapped);
            }
            page = page.wrapping_add(page_size.into());
            needed = page < end;
        }

        mapped.length = mapped.length.wrapping_add(length.wrapping_sub(skip).into());
        mapped.segments = mapped.segments.wrapping_add(1);
        previous_end = Some(end);
        skip = 0;
    }
    Ok(mapped)
}

#[kernel::macros::kunit_tests(rust_ib_core_mr)]
mod tests {
    use super::*;

    /// Runs [`to_pages`] with 4 KiB pages and room for `room` of them.
    fn run(segments: &[(u64, u32)], skip: u32, room: usize) -> (Result<Mapped>, KVec<u64>) {
        let mut pages = KVec::new();
        let result = to_pages(segments.iter().copied(), skip, 4096, |page| {
            if pages.len() == room {
                return Err(ENOMEM);
            }
            Ok(pages.push(page, GFP_KERNEL)?)
        });
        (result, pages)
    }

    fn mapped(segments: u32, offset: u32, length: u64) -> Result<Mapped> {
        Ok(Mapped {
            segments,
            offset,
            length,
        })
    }

    #[test]
    fn aligned_segments() {
        let (got, pages) = run(&[(0x1000, 0x2000), (0x8000, 0x1000)], 0, 8);
        assert!(got == mapped(2, 0, 0x3000));
        assert!(pages[..] == [0x1000, 0x2000, 0x8000]);
    }

    #[test]
    fn a_gap_ends_the_prefix() {
        let (got, pages) = run(&[(0x1000, 0x800), (0x8000, 0x1000)], 0, 8);
        assert!(got == mapped(1, 0, 0x800));
        assert!(pages[..] == [0x1000]);
    }

    #[test]
    fn continued_segments_share_a_page() {
        let (got, pages) = run(&[(0x1000, 0x800), (0x1800, 0x1000)], 0, 8);
        assert!(got == mapped(2, 0, 0x1800));
        assert!(pages[..] == [0x1000, 0x2000]);
    }

    #[test]
    fn a_full_region_tells_how_far_it_reaches() {
        let (got, pages) = run(&[(0x1800, 0x2000)], 0, 1);
        assert!(got == mapped(0, 0x800, 0x800));
        assert!(pages[..] == [0x1000]);
        let (got, _) = run(&[(0x1000, 0x1000), (0x8000, 0x3000)], 0, 3);
        assert!(got == mapped(1, 0x2000, 0x3000));
        let (got, _) = run(&[(0x1000, 0x1000)], 0, 0);
        assert!(got.is_err());
    }

    #[test]
    fn leading_bytes_are_skipped() {
        let (got, pages) = run(&[(0x1000, 0x2000)], 0x1800, 8);
        assert!(got == mapped(1, 0, 0x800));
        assert!(pages[..] == [0x2000]);
    }
}
