// SPDX-License-Identifier: GPL-2.0

//! Memory of a process whose pages are fetched when they are needed.
//!
//! All accesses may sleep. Pages are used under `umem_mutex` only, which the notifier takes before
//! the kernel gives them to somebody else.

use super::{
    pinned::is_persistent,
    FetchedMemory,
    Piece, //
};
use crate::{
    device::Device,
    umem::Access, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*, //
};

/// What a prefetch does with the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Takes note of those that are there.
    Present,
    /// Fetches them for reading.
    Read,
    /// Fetches them for writing.
    Write,
}

/// Most bytes that are used at once, so that the notifier does not wait for long.
const STEP: usize = 16 * PAGE_SIZE;

/// On-demand memory of a process.
///
/// # Invariants
///
/// `odp` is a region of the core with [`OPS`], which this owns. `closed` is used under its
/// `umem_mutex`.
pub struct OdpMemory {
    odp: NonNull<bindings::ib_umem_odp>,
    start: u64,
    length: u64,
    writable: bool,
    closed: UnsafeCell<bool>,
}

// SAFETY: A region may be used and released by any task.
unsafe impl Send for OdpMemory {}
// SAFETY: What changes is guarded by the mutex of the region.
unsafe impl Sync for OdpMemory {}

/// What the notifier calls.
static OPS: Ops = Ops(bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    ..pin_init::zeroed()
});

struct Ops(bindings::mmu_interval_notifier_ops);

// SAFETY: The table is constant.
unsafe impl Sync for Ops {}

/// Forgets the pages of a range.
///
/// # Safety
///
/// Called by the kernel with the notifier of a region that [`OdpMemory`] has made.
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    sequence: c_ulong,
) -> bool {
    // SAFETY: The notifier is part of the region, which lives until it is removed; the range is
    // valid during the call.
    unsafe {
        let odp = kernel::container_of!(notifier, bindings::ib_umem_odp, notifier);
        if (*range).flags & bindings::MMU_NOTIFIER_RANGE_BLOCKABLE == 0 {
            return false;
        }
        let mutex = &raw mut (*odp).umem_mutex;
        bindings::mutex_lock(mutex);
        // Readers without the mutex compare it as one word.
        (&raw mut (*notifier).invalidate_seq).write_volatile(sequence);
        let tree = &raw const (*notifier).interval_tree;
        let start = (*range).start.max((*tree).start);
        let end = (*range).end.min((*tree).last.wrapping_add(1));
        if start < end {
            bindings::ib_umem_odp_unmap_dma_pages(odp, start as u64, end as u64);
        }
        bindings::mutex_unlock(mutex);
    }
    true
}

impl OdpMemory {
    /// Watches `length` bytes of the calling process at `start`. May sleep.
    ///
    /// Errors are those of `ib_umem_odp_get`.
    pub fn new(device: &Device, start: u64, length: u64, access: Access) -> Result<Self> {
        // SAFETY: The device is valid, the operations are static; the call checks the rest.
        let odp = from_err_ptr(unsafe {
            bindings::ib_umem_odp_get(
                device.as_raw(),
                start as c_ulong,
                usize::try_from(length).map_err(|_| EINVAL)?,
                access.bits(),
                &OPS.0,
            )
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            odp: NonNull::new(odp).ok_or(EINVAL)?,
            start,
            length,
            writable: access.writable(),
            closed: UnsafeCell::new(false),
        })
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether the pages may be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    fn mutex(&self) -> *mut bindings::mutex {
        // SAFETY: Field address within a live region.
        unsafe { &raw mut (*self.odp.as_ptr()).umem_mutex }
    }

    /// User address of byte `at`, if `len` bytes from there on belong to the region.
    fn address(&self, at: u64, len: u64) -> Result<u64> {
        let end = at.checked_add(len).ok_or(EFAULT)?;
        if end > self.length {
            return Err(EFAULT);
        }
        self.start.checked_add(at).ok_or(EFAULT)
    }

    /// Takes the mutex. `ESHUTDOWN` after [`Self::close`].
    fn lock(&self) -> Result<Locked<'_>> {
        // SAFETY: The mutex is set up with the region.
        unsafe { bindings::mutex_lock(self.mutex()) };
        self.locked()
    }

    /// The guard of the mutex, which the caller has just taken.
    fn locked(&self) -> Result<Locked<'_>> {
        let guard = Locked(self);
        // SAFETY: Used under the mutex.
        if unsafe { *self.closed.get() } {
            return Err(ESHUTDOWN);
        }
        Ok(guard)
    }

    /// Makes no more accesses possible; those under way are over when this returns, apart from
    /// waiting for pages, which will not be used. May sleep.
    pub fn close(&self) {
        // SAFETY: The mutex is set up with the region, and guards the field.
        unsafe {
            bindings::mutex_lock(self.mutex());
            *self.closed.get() = true;
            bindings::mutex_unlock(self.mutex());
        }
    }

    /// Lets the core look up, and with a `fault` fetch, the pages of some bytes.
    fn map(&self, address: u64, len: u64, kind: Prefetch) -> Result<Locked<'_>> {
        let write = kind == Prefetch::Write;
        let mask = if write {
            bindings::hmm_pfn_flags_HMM_PFN_WRITE as u64
        } else {
            0
        };
        // SAFETY: A live region. The mutex is held on success.
        let pages = unsafe {
            bindings::ib_umem_odp_map_dma_and_lock(
                self.odp.as_ptr(),
                address,
                len,
                mask,
                kind != Prefetch::Present,
            )
        };
        if pages < 0 {
            to_result(pages)?;
        }
        self.locked()
    }

    /// Holds the pages of some bytes. `EFAULT` if the process has none there, or not such ones.
    fn hold(&self, address: u64, len: u64, write: bool) -> Result<Locked<'_>> {
        let guard = self.lock()?;
        if guard.has_pages(address, len, write) {
            return Ok(guard);
        }
        drop(guard);
        let kind = if write {
            Prefetch::Write
        } else {
            Prefetch::Read
        };
        let guard = self.map(address, len, kind)?;
        if guard.has_pages(address, len, write) {
            Ok(guard)
        } else {
            Err(EFAULT)
        }
    }

    /// Makes pages ready. May sleep.
    ///
    /// `EFAULT` if the bytes do not belong to the region or the process has none there; `EPERM` for
    /// writing if the region is not for that.
    pub fn prefetch(&self, at: u64, len: u64, kind: Prefetch) -> Result {
        let address = self.address(at, len)?;
        if kind == Prefetch::Write && !self.writable {
            return Err(EPERM);
        }
        if len == 0 {
            return Ok(());
        }
        drop(self.map(address, len, kind)?);
        Ok(())
    }

    /// Writes what the caches have of `len` bytes to the medium; `EACCES` if some of the memory is
    /// not persistent.
    pub fn write_back(&self, at: u64, len: u64) -> Result {
        let len = usize::try_from(len).map_err(|_| EFAULT)?;
        self.visit(at, len, false, |_, piece| {
            if !is_persistent(piece.addr, piece.len) {
                return Err(EACCES);
            }
            piece.write_back();
            Ok(())
        })
    }
}

/// Offsets count from the start of the region.
impl FetchedMemory for OdpMemory {
    fn visit(
        &self,
        at: u64,
        len: usize,
        write: bool,
        mut visit: impl FnMut(usize, Piece) -> Result,
    ) -> Result {
        let address = self.address(at, len as u64)?;
        if write && !self.writable {
            return Err(EACCES);
        }
        let mut done = 0usize;
        while done < len {
            let step = (len - done).min(STEP);
            let address = address.wrapping_add(done as u64);
            let guard = self.hold(address, step as u64, write)?;
            let mut inside = 0;
            while inside < step {
                let piece = guard
                    .piece(address.wrapping_add(inside as u64), step - inside, write)
                    .ok_or(EFAULT)?;
                visit(done.wrapping_add(inside), piece)?;
                inside = inside.wrapping_add(piece.len);
            }
            done = done.wrapping_add(step);
        }
        Ok(())
    }
}

impl Drop for OdpMemory {
    fn drop(&mut self) {
        // SAFETY: Owned by the type invariant. May sleep, as all that own such memory know.
        unsafe { bindings::ib_umem_odp_release(self.odp.as_ptr()) }
    }
}

/// `umem_mutex` is held.
struct Locked<'a>(&'a OdpMemory);

impl Locked<'_> {
    /// The entry of the page list for a user address.
    fn pfn(&self, address: u64) -> Option<usize> {
        let raw = self.0.odp.as_ptr();
        // SAFETY: The notifier's interval is constant; the list has an entry for each of its pages,
        // which are those of the system for a device without DMA, and is locked.
        unsafe {
            let tree = &raw const (*raw).notifier.interval_tree;
            let address = usize::try_from(address).ok()?;
            if address < (*tree).start || address > (*tree).last {
                return None;
            }
            let index = (address - (*tree).start) >> PAGE_SHIFT;
            Some((*raw).map.pfn_list.add(index).read())
        }
    }

    /// Whether the page of `address` can be used as asked.
    fn usable(pfn: usize, write: bool) -> bool {
        let mut need = bindings::hmm_pfn_flags_HMM_PFN_VALID;
        if write {
            need |= bindings::hmm_pfn_flags_HMM_PFN_WRITE;
        }
        pfn & need == need && pfn & bindings::hmm_pfn_flags_HMM_PFN_ERROR == 0
    }

    fn has_pages(&self, address: u64, len: u64, write: bool) -> bool {
        let first = address & !(PAGE_SIZE as u64 - 1);
        let end = address.saturating_add(len);
        (first..end)
            .step_by(PAGE_SIZE)
            .all(|page| self.pfn(page).is_some_and(|pfn| Self::usable(pfn, write)))
    }

    /// The bytes at `address` that lie in one page.
    fn piece(&self, address: u64, len: usize, write: bool) -> Option<Piece> {
        let pfn = self.pfn(address)?;
        if !Self::usable(pfn, write) {
            return None;
        }
        let inside = address as usize & (PAGE_SIZE - 1);
        // SAFETY: The entry is valid.
        let page = unsafe { bindings::rdma_hmm_pfn_to_virt(pfn as c_ulong) };
        // INVARIANT: The page stays that of the process until the mutex is released.
        Some(Piece {
            addr: (page as usize).wrapping_add(inside),
            len: len.min(PAGE_SIZE - inside),
            writable: write,
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: Held by the guard.
        unsafe { bindings::mutex_unlock(self.0.mutex()) }
    }
}
