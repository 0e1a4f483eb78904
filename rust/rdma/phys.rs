// SPDX-License-Identifier: GPL-2.0

//! Physical memory, mapped for a device.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Device,
    dma::{map_table, unmap_table},
    gfp::Gfp,
    mr::SgList,
};
use core::ptr;
use kernel::{bindings, error::to_result, prelude::*};

/// Bytes of a page.
pub const PAGE: u64 = 1 << bindings::PAGE_SHIFT;

/// A stretch of physical memory (`struct ib_phys_buf`).
pub type PhysBuf = bindings::ib_phys_buf;

/// Whether the whole range has pages that the kernel manages.
fn is_memory(buf: &PhysBuf) -> bool {
    let Some(last) = buf
        .size
        .checked_sub(1)
        .and_then(|more| buf.addr.checked_add(more))
    else {
        return false;
    };
    // SAFETY: The helper takes any number.
    (buf.addr / PAGE..=last / PAGE).all(|pfn| unsafe { bindings::rdma_pfn_valid(pfn as usize) })
}

/// Physical memory that a device reads and writes; unmapped when dropped.
///
/// # Invariants
///
/// The table is mapped for the device, which outlives this.
pub struct PhysMap {
    device: *const Device,
    table: bindings::sg_table,
}

// SAFETY: The table belongs to this alone, and a device may be used from any task.
unsafe impl Send for PhysMap {}

// SAFETY: Nothing changes it between creation and drop.
unsafe impl Sync for PhysMap {}

impl PhysMap {
    /// Maps the buffers, in this order, in both directions. May sleep.
    ///
    /// The caller keeps the device until this is dropped, as it does for the region that this is
    /// for. `EINVAL` for an empty buffer, one of 4 GiB or more, or one that is not memory.
    pub fn map(device: &Device, bufs: &[PhysBuf]) -> Result<Self> {
        if bufs.is_empty() || !bufs.iter().all(is_memory) {
            return Err(EINVAL);
        }
        let mut table: bindings::sg_table = pin_init::zeroed();
        // SAFETY: The table is ours.
        to_result(unsafe {
            bindings::sg_alloc_table(&mut table, u32::try_from(bufs.len())?, Gfp::KERNEL.as_raw())
        })?;
        let mut table = kernel::types::ScopeGuard::new_with_data(table, |mut table| {
            // SAFETY: Allocated above.
            unsafe { bindings::sg_free_table(&mut table) }
        });

        let mut entry = table.sgl;
        for buf in bufs {
            if entry.is_null() {
                return Err(EINVAL);
            }
            let size = u32::try_from(buf.size)?;
            let offset = (buf.addr % PAGE) as u32;
            // SAFETY: The table has an entry for each buffer, and the pages exist.
            unsafe {
                let page = bindings::rdma_pfn_to_page((buf.addr / PAGE) as usize);
                bindings::sg_set_page(entry, page, size, offset);
                entry = bindings::sg_next(entry);
            }
        }
        // SAFETY: The table is well-formed, unmapped, and stays until it is unmapped.
        unsafe { map_table(device, &mut *table, 0) }?;
        // INVARIANT: Just mapped.
        Ok(Self {
            device: ptr::from_ref(device),
            table: table.dismiss(),
        })
    }

    /// The mapped entries, all of them from their first byte on.
    pub fn entries(&self) -> SgList<'_> {
        // SAFETY: By the type invariant the table has that many mapped entries.
        unsafe { SgList::from_raw(self.table.sgl, self.table.nents as c_int, ptr::null_mut()) }
    }

    /// Number of mapped entries.
    pub fn count(&self) -> u32 {
        self.table.nents
    }
}

impl Drop for PhysMap {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            unmap_table(&*self.device, &mut self.table, 0);
            bindings::sg_free_table(&mut self.table);
        }
    }
}
