// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: keeping a device's view of user pages true.
//!
//! Every function here may sleep and runs in process context.

use kernel::prelude::*;
use rdma::{
    region::Region,
    umem_odp::{
        Fault,
        OdpUmem, //
    },
    warn_once, //
};

/// Fetches the pages of `length` bytes at `start` and, on success, returns how many of the
/// region's own pages these are, with `umem_mutex` held: the page list stays true until the
/// caller releases it.
///
/// Errors: `EFAULT` outside the region; `EINVAL` when the owner is gone, or a page is smaller
/// than the region was registered for; otherwise why a page cannot be had.
pub(crate) fn map_and_lock(odp: &OdpUmem, start: u64, length: u64, fault: Fault) -> Result<u32> {
    let shift = odp.page_shift();
    let interval = odp.interval().ok_or(EFAULT)?;
    let range = Region::new(start, length)
        .filter(|r| interval.contains(*r))
        .and_then(|r| r.enclosing(shift))
        .ok_or(EFAULT)?;
    let owner = odp.owner().ok_or(EINVAL)?;
    loop {
        let sequence = odp.fault(range, fault, &owner)?;
        let locked = odp.lock();
        if !locked.is_current(sequence) {
            // The kernel took some of the pages back meanwhile.
            continue;
        }
        let mut pages = 0u32;
        for pfn in locked.pfns(range) {
            if fault != Fault::Snapshot && (pfn.is_error() || !pfn.is_valid()) {
                warn_once!("page fault succeeded without a page\n");
            }
            if pfn.is_valid() && !pfn.is_mapped() && pfn.mapping_shift() < shift {
                return Err(EINVAL);
            }
            pages = pages.wrapping_add(1);
        }
        locked.keep();
        return Ok(pages);
    }
}
