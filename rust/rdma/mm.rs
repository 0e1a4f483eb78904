// SPDX-License-Identifier: GPL-2.0

//! Address spaces of user processes: long-term pins and their accounting.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use crate::{
    cleared::cleared,
    gfp::Gfp, //
};
use core::{
    mem::ManuallyDrop,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SHIFT,
    prelude::*, //
};

/// Whether the calling task may lock memory at all.
pub fn can_lock_memory() -> bool {
    // SAFETY: Reads limits and capabilities of the current task only.
    unsafe { bindings::can_do_mlock() }
}

/// Lets others run after a stretch of a long loop. Process context.
#[inline]
pub fn resched_point() {
    // SAFETY: Callers are in process context, without spinlocks.
    unsafe { bindings::rdma_cond_resched() }
}

/// An address space that is kept as an object (not as living memory), `mmgrab`.
///
/// # Invariants
///
/// Owns one `mm_count` reference.
pub struct GrabbedMm(NonNull<bindings::mm_struct>);

// SAFETY: The reference may be dropped by any task.
unsafe impl Send for GrabbedMm {}
// SAFETY: Only atomics of the object are used through it.
unsafe impl Sync for GrabbedMm {}

impl GrabbedMm {
    /// The address space of the calling task. `None` in a kernel thread.
    pub fn current() -> Option<Self> {
        // SAFETY: `current` is valid, and its `mm` does not change under the task itself.
        let mm = NonNull::new(unsafe { (*bindings::get_current()).mm })?;
        // SAFETY: The current task's mm is alive.
        unsafe { bindings::mmgrab(mm.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Some(Self(mm))
    }

    /// Takes over a reference that was given away with [`Self::into_raw`].
    ///
    /// # Safety
    ///
    /// `mm` must come from [`Self::into_raw`], and be taken back once.
    pub(crate) unsafe fn from_raw(mm: *mut bindings::mm_struct) -> Option<Self> {
        // INVARIANT: The reference travels in the pointer.
        NonNull::new(mm).map(Self)
    }

    pub(crate) fn into_raw(self) -> *mut bindings::mm_struct {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The address space, if it is still alive.
    pub fn live(&self) -> Option<LiveMm> {
        // SAFETY: The object is valid.
        let alive = unsafe { bindings::mmget_not_zero(self.0.as_ptr()) };
        // INVARIANT: The reference was just taken. Made only then: dropping it gives it back.
        alive.then(|| LiveMm(self.0))
    }
}

/// An address space that is kept alive, `mmget`.
///
/// # Invariants
///
/// Owns one `mm_users` reference.
pub struct LiveMm(NonNull<bindings::mm_struct>);

impl LiveMm {
    /// The C structure.
    pub(crate) fn as_raw(&self) -> *mut bindings::mm_struct {
        self.0.as_ptr()
    }
}

impl Drop for LiveMm {
    fn drop(&mut self) {
        // SAFETY: The reference is owned by the type invariant. The last user must not tear the
        // address space down here, where its owner may not expect it.
        unsafe { bindings::mmput_async(self.0.as_ptr()) }
    }
}

impl Drop for GrabbedMm {
    fn drop(&mut self) {
        // SAFETY: The reference is owned by the type invariant.
        unsafe { bindings::mmdrop(self.0.as_ptr()) }
    }
}

/// Pages charged to an address space as pinned (`pinned_vm`), against RLIMIT_MEMLOCK.
///
/// Dropping it returns the pages to the address space they were charged to, whichever task
/// drops it.
///
/// # Invariants
///
/// `pages` are counted in `mm.pinned_vm`.
pub struct PinCharge {
    mm: GrabbedMm,
    pages: u64,
}

impl PinCharge {
    /// Charges `pages` to the calling task's address space.
    ///
    /// Fails with `ENOMEM` over RLIMIT_MEMLOCK without CAP_IPC_LOCK, with `EFAULT` in a kernel
    /// thread.
    pub fn new(pages: u64) -> Result<Self> {
        let mm = GrabbedMm::current().ok_or(EFAULT)?;
        // SAFETY: The mm is alive; the helper is one atomic addition.
        let total = unsafe { bindings::rdma_mm_pinned_add(mm.0.as_ptr(), pages as i64) } as u64;
        // INVARIANT: Just counted; from here on dropping undoes it.
        let charge = Self { mm, pages };
        // SAFETY: Reads a limit of the current task.
        let limit = (unsafe { bindings::rdma_memlock_limit() } >> PAGE_SHIFT) as u64;
        // SAFETY: Asks about the current task's credentials.
        if total > limit && !unsafe { bindings::capable(bindings::CAP_IPC_LOCK as c_int) } {
            return Err(ENOMEM);
        }
        Ok(charge)
    }

    /// Gives the charge away to a C object that keeps the mm pointer and can tell `pages`.
    pub(crate) fn into_raw(self) -> *mut bindings::mm_struct {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, so the field is moved out once.
        unsafe { core::ptr::read(&this.mm) }.into_raw()
    }

    /// Takes back what [`Self::into_raw`] gave away.
    ///
    /// # Safety
    ///
    /// `mm` must come from [`Self::into_raw`] of a charge of `pages`, and be taken back once.
    pub(crate) unsafe fn from_raw(mm: *mut bindings::mm_struct, pages: u64) -> Option<Self> {
        // SAFETY: Promised by the caller.
        let mm = unsafe { GrabbedMm::from_raw(mm) }?;
        // INVARIANT: Promised by the caller.
        Some(Self { mm, pages })
    }
}

impl Drop for PinCharge {
    fn drop(&mut self) {
        // SAFETY: The mm object is alive by the reference; the pages are counted in it by the
        // type invariant.
        unsafe { bindings::rdma_mm_pinned_add(self.mm.0.as_ptr(), -(self.pages as i64)) };
    }
}

/// A batch of page pointers, the unit in which user memory is pinned.
///
/// Small batches need no allocation.
///
/// # Invariants
///
/// The slots in `pinned` point at pages that carry a pin which the batch owns.
pub struct PageBatch {
    small: [*mut bindings::page; Self::SMALL],
    large: KVec<*mut bindings::page>,
    pinned: Range<usize>,
}

impl PageBatch {
    const SMALL: usize = 32;
    /// Pages in a full batch. Pinning a batch may disable interrupts for as long as it takes to
    /// walk its page table entries, so it must not be too large.
    const LARGE: usize = 1024;

    /// A batch for a region of `pages`.
    pub fn new(pages: u64) -> Result<Self> {
        let large = if pages > Self::SMALL as u64 {
            cleared(pages.min(Self::LARGE as u64) as usize, Gfp::KERNEL)?
        } else {
            KVec::new()
        };
        Ok(Self {
            small: [core::ptr::null_mut(); Self::SMALL],
            large,
            pinned: 0..0,
        })
    }

    fn slots(&mut self) -> &mut [*mut bindings::page] {
        if self.large.is_empty() {
            &mut self.small
        } else {
            &mut self.large
        }
    }

    /// Pins up to `wanted` pages of the calling task from the user address `start` on, for the
    /// long term, to be written if `write`. Returns how many were pinned; at least one.
    ///
    /// May sleep and fault memory in. The batch must be empty.
    pub fn pin(&mut self, start: u64, wanted: u64, write: bool) -> Result<usize> {
        if !self.pinned.is_empty() {
            return Err(EBUSY);
        }
        let mut flags = bindings::FOLL_LONGTERM;
        if write {
            flags |= bindings::FOLL_WRITE;
        }
        let slots = self.slots();
        let count = wanted.min(slots.len() as u64) as c_int;
        // SAFETY: `slots` has room for `count` pointers; flags are those of a plain long-term pin.
        let ret = unsafe {
            bindings::pin_user_pages_fast(start as usize, count, flags, slots.as_mut_ptr())
        };
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        if ret == 0 {
            return Err(EFAULT);
        }
        // INVARIANT: The call has filled and pinned that many slots.
        self.pinned = 0..ret as usize;
        Ok(ret as usize)
    }

    /// The pinned pages.
    pub(crate) fn pages(&mut self) -> &mut [*mut bindings::page] {
        let pinned = self.pinned.clone();
        self.slots().get_mut(pinned).unwrap_or(&mut [])
    }

    /// Leaves the pins of the first `count` pages to whoever has recorded them.
    pub(crate) fn disown(&mut self, count: usize) {
        // INVARIANT: A part of what it was.
        self.pinned.start = self.pinned.end.min(self.pinned.start.saturating_add(count));
    }
}

impl Drop for PageBatch {
    fn drop(&mut self) {
        let pages = self.pages();
        if !pages.is_empty() {
            // SAFETY: The pages carry pins that the batch owns by the type invariant.
            unsafe { bindings::unpin_user_pages(pages.as_mut_ptr(), pages.len()) };
        }
    }
}
