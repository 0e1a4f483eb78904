// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that stays pinned.

use super::{
    chunks::Chunks,
    Rmw,
    Sink, //
};
use crate::{
    device::Device,
    dma::sg_next,
    umem::{
        Access,
        Umem, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*, //
};

/// The entries of a scatter list, each with kernel address and length.
#[derive(Clone)]
struct Segments {
    sg: *mut bindings::scatterlist,
    left: u32,
}

impl Iterator for Segments {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let sg = NonNull::new(self.sg)?.as_ptr();
        // SAFETY: An entry of the list that the maker of this vouches for.
        let item = unsafe { (bindings::sg_virt(sg) as usize, (*sg).length.into()) };
        // SAFETY: As above.
        self.sg = unsafe { sg_next(sg) };
        Some(item)
    }
}

/// Pinned memory of a process.
///
/// # Invariants
///
/// `umem` is a pinned region of the core, which this owns; the chunks are its pages.
pub struct PinnedMemory {
    umem: NonNull<bindings::ib_umem>,
    chunks: Chunks,
    persistent: bool,
}

// SAFETY: A region may be used and released by any task.
unsafe impl Send for PinnedMemory {}
// SAFETY: It does not change.
unsafe impl Sync for PinnedMemory {}

/// A region that is released unless it is kept.
struct Unused(NonNull<bindings::ib_umem>);

impl Drop for Unused {
    fn drop(&mut self) {
        // SAFETY: Owned.
        unsafe { bindings::ib_umem_release(self.0.as_ptr()) }
    }
}

impl PinnedMemory {
    /// Pins `length` bytes of the calling process at `start`. May sleep.
    ///
    /// Errors are those of `ib_umem_get_va`, and `ENOMEM`.
    pub fn pin(device: &Device, start: u64, length: u64, access: Access) -> Result<Self> {
        // SAFETY: The device is valid; the call checks the rest.
        let umem = from_err_ptr(unsafe {
            bindings::ib_umem_get_attr_or_va(
                device.as_raw(),
                core::ptr::null(),
                0,
                start as c_ulong as u64,
                usize::try_from(length).map_err(|_| EINVAL)?,
                access.bits(),
            )
        })?;
        let umem = Unused(NonNull::new(umem).ok_or(EINVAL)?);
        let raw = umem.0.as_ptr();
        // SAFETY: A region of the pinned kind, whose list is complete and constant.
        let segments = unsafe {
            Segments {
                sg: (*raw).sgt_append.sgt.sgl,
                left: (*raw).sgt_append.sgt.orig_nents,
            }
        };
        // SAFETY: A live region.
        let writable = unsafe { Umem::from_raw(raw) }.writable();
        let persistent = segments
            .clone()
            .all(|(addr, len)| is_persistent(addr, len as usize));
        let skip = start & (PAGE_SIZE as u64 - 1);
        // SAFETY: The pages are pinned as long as the region, which outlives the chunks.
        let chunks = unsafe { Chunks::from_segments(segments, skip, length, writable)? };
        let umem = core::mem::ManuallyDrop::new(umem).0;
        // INVARIANT: The region is owned, no longer by the guard.
        Ok(Self {
            umem,
            chunks,
            persistent,
        })
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.chunks.length()
    }

    /// Whether the pages were pinned for writing.
    pub fn writable(&self) -> bool {
        self.chunks.writable()
    }

    /// Whether all of it is persistent memory.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// As [`Chunks::read`].
    #[inline]
    pub fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result {
        self.chunks.read(at, to, sink)
    }

    /// As [`Chunks::write`].
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> Result {
        self.chunks.write(at, from)
    }

    /// As [`Chunks::rmw`].
    pub fn rmw(&self, at: u64, op: Rmw) -> Result<u64> {
        self.chunks.rmw(at, op)
    }

    /// As [`Chunks::store`].
    pub fn store(&self, at: u64, value: u64) -> Result {
        self.chunks.store(at, value)
    }

    /// Writes what the caches have of `len` bytes to the medium; `EACCES` if the memory is not
    /// persistent.
    pub fn write_back(&self, at: u64, len: u64) -> Result {
        if !self.persistent {
            return Err(EACCES);
        }
        self.chunks.write_back(at, len)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // SAFETY: Owned by the type invariant; may sleep, as all that own such memory know.
        unsafe { bindings::ib_umem_release(self.umem.as_ptr()) }
    }
}

/// Whether the memory at a kernel address is persistent.
pub(super) fn is_persistent(addr: usize, len: usize) -> bool {
    // SAFETY: Only computes, and looks the address up.
    let found = unsafe {
        bindings::region_intersects(
            bindings::rdma_virt_to_phys(addr as *const c_void),
            len,
            bindings::IORESOURCE_MEM as c_ulong,
            bindings::IORES_DESC_PERSISTENT_MEMORY as c_ulong,
        )
    };
    found == bindings::REGION_INTERSECTS as c_int
}
