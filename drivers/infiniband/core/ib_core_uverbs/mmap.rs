// SPDX-License-Identifier: GPL-2.0

//! Mapping device memory into user space.

use core::ptr::NonNull;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};
use rdma::{
    user_mmap::{
        Layout,
        MmapContext,
        MmapEntry,
        NewEntry,
        NewVma,
        UmapPriv, //
    },
    warn_once, //
};

/// Maps `size` bytes from page frame `pfn` on; ib_uverbs sees to it that the mapping goes when
/// the device does.
///
/// Errors: `EINVAL` unless the mapping is shared and of exactly this size, `ENOMEM`, `EAGAIN`.
pub(crate) fn map_io(
    context: &MmapContext,
    vma: &NewVma,
    pfn: usize,
    size: usize,
    prot: bindings::pgprot_t,
    entry: Option<NonNull<bindings::rdma_user_mmap_entry>>,
) -> Result {
    if !vma.is_shared() || vma.size() != size {
        return Err(EINVAL);
    }
    if !vma.maps(context.file()) {
        warn_once!("device memory mapped through a foreign file\n");
        return Err(EINVAL);
    }
    let private = UmapPriv::new()?;
    vma.map_io(pfn, prot)?;
    private.attach(vma, entry);
    Ok(())
}

/// A reference to the entry that starts at page offset `pgoff`.
pub(crate) fn get_pgoff(context: &MmapContext, pgoff: u64) -> Option<MmapEntry> {
    context.get(u32::try_from(pgoff).ok()?)
}

/// A reference to the entry that `vma` maps as a whole, and shared.
pub(crate) fn get(context: &MmapContext, vma: &NewVma) -> Option<MmapEntry> {
    if !vma.is_shared() {
        return None;
    }
    get_pgoff(context, vma.pgoff()).filter(|entry| entry.size() == vma.size())
}

/// Pages for `length` bytes, as many as page offsets can tell.
pub(crate) fn pages(length: usize) -> Result<u32> {
    u32::try_from(length.div_ceil(PAGE_SIZE)).map_err(|_| ENOMEM)
}

/// Finds a free range of `pages` page offsets that begins within `min..=max` for `entry`, and lets
/// user space find it there. `ENOMEM` without such a range, or memory.
pub(crate) fn insert(
    context: &MmapContext,
    entry: &NewEntry,
    pages: u32,
    min: u32,
    max: u32,
) -> Result {
    let layout = context.lock_layout();
    let start = claim_range(&layout, entry, pages, min, max)?;
    layout.publish(entry, start);
    Ok(())
}

/// Claims all slots of the first free range, and returns its start.
fn claim_range(
    layout: &Layout<'_>,
    entry: &NewEntry,
    pages: u32,
    min: u32,
    max: u32,
) -> Result<u32> {
    // An entry without pages is known to nobody and takes no room.
    let Some(more) = pages.checked_sub(1) else {
        return Ok(min);
    };
    let mut from = min;
    loop {
        let start = layout.claim(entry, from, max)?;
        let Some(last) = start.checked_add(more) else {
            layout.unclaim(start, 1);
            return Err(ENOMEM);
        };
        // The next slot is beyond the last one unless `more` is 0, so this cannot overflow then.
        let blocked = match more {
            0 => None,
            _ => layout.next_taken(start + 1).filter(|(at, _)| *at <= last),
        };
        let Some((_, end)) = blocked else {
            for done in 0..more {
                if let Err(e) = layout.extend(entry, start + 1 + done) {
                    layout.unclaim(start, done + 1);
                    return Err(e);
                }
            }
            return Ok(start);
        };
        layout.unclaim(start, 1);
        from = u32::try_from(end)
            .ok()
            .filter(|f| *f <= max)
            .ok_or(ENOMEM)?;
    }
}
