// SPDX-License-Identifier: GPL-2.0

//! The allocator of sets of statistics, `rdma_alloc_hw_stats_struct()` and its counterpart.

use crate::{
    cleared::cleared,
    gfp::Gfp, //
};
use core::{
    mem::{size_of, ManuallyDrop},
    ptr::NonNull,
};
use kernel::{
    bindings,
    ffi::{c_int, c_ulong},
    prelude::*,
    time::{msecs_to_jiffies, Jiffies},
};

/// The memory of a set; [`HwStats`](super::HwStats) is what others see of it.
///
/// # Invariants
///
/// The set and its bitmap are memory of `kmalloc` and ours.
pub struct StatsMemory(NonNull<bindings::rdma_hw_stats>);

/// Static descriptions of the counters of a set.
///
/// # Invariants
///
/// There is one for each counter, and they outlive all sets that use them.
#[derive(Clone, Copy)]
pub struct StatDescs {
    descs: *const bindings::rdma_stat_desc,
    count: c_int,
}

impl StatDescs {
    /// Takes a driver's table.
    ///
    /// # Safety
    ///
    /// `descs` must have `count` elements and outlive the sets that use it.
    pub unsafe fn from_raw(descs: *const bindings::rdma_stat_desc, count: c_int) -> Self {
        // INVARIANT: By the contract of this function.
        Self { descs, count }
    }
}

/// Zeroed memory of `words` 64-bit words.
fn zeroed_words(words: usize) -> Result<NonNull<u64>> {
    let (ptr, _, _) = cleared::<u64>(words.max(1), Gfp::KERNEL)?.into_raw_parts();
    NonNull::new(ptr).ok_or(ENOMEM)
}

impl StatsMemory {
    /// Allocates a set whose values are read from the hardware when they are older than
    /// `lifespan` milliseconds. May sleep.
    pub fn new(descs: StatDescs, lifespan: c_ulong) -> Result<Self> {
        let count = usize::try_from(descs.count).map_err(|_| EINVAL)?;
        let head = size_of::<bindings::rdma_hw_stats>().div_ceil(size_of::<u64>());
        let stats: NonNull<bindings::rdma_hw_stats> =
            zeroed_words(head.checked_add(count).ok_or(ENOMEM)?)?.cast();
        // INVARIANT: Ours from here on; the bitmap may still be missing.
        let this = Self(stats);
        let disabled = zeroed_words(count.div_ceil(u64::BITS as usize))?;

        let raw = this.0.as_ptr();
        // SAFETY: Nobody else has the set yet.
        unsafe {
            (*raw).is_disabled = disabled.as_ptr().cast();
            (*raw).descs = descs.descs;
            (*raw).num_counters = descs.count;
            (*raw).lifespan = jiffies(lifespan);
            bindings::__mutex_init(
                &raw mut (*raw).lock,
                c"&stats->lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
        }
        Ok(this)
    }

    /// Takes a set over from C; `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// `ptr` must be null or come from [`Self::into_raw`], and be the caller's.
    pub unsafe fn from_raw(ptr: *mut bindings::rdma_hw_stats) -> Option<Self> {
        // INVARIANT: By the contract of this function.
        NonNull::new(ptr).map(Self)
    }

    /// Hands the set to C.
    pub fn into_raw(self) -> *mut bindings::rdma_hw_stats {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

fn jiffies(msecs: c_ulong) -> Jiffies {
    // As in C, where the conversion takes 32 bits.
    msecs_to_jiffies(msecs as u32)
}

impl Drop for StatsMemory {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; `kfree` takes null pointers.
        unsafe {
            bindings::kfree((*self.0.as_ptr()).is_disabled.cast());
            bindings::kfree(self.0.as_ptr().cast());
        }
    }
}
