// SPDX-License-Identifier: GPL-2.0

//! What the poll context of a queue has for itself.

use super::{
    CqBuilder,
    WcBatch, //
};
use core::mem::MaybeUninit;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
        Atomic, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Memory of the poll context, at the place where `struct ib_cq` has its array of completions.
///
/// # Invariants
///
/// `turns` is the number of callbacks of the soft interrupt that may still touch the queue.
#[repr(C)]
pub(super) struct Scratch {
    wcs: [MaybeUninit<bindings::ib_wc>; CqBuilder::BATCH],
    turns: Atomic<u32>,
}

impl Scratch {
    /// Memory for a new queue, as its field `wc` wants it.
    pub(super) fn alloc() -> Result<*mut bindings::ib_wc> {
        // INVARIANT: No callback yet.
        let scratch = KBox::new(
            Self {
                wcs: [const { MaybeUninit::uninit() }; CqBuilder::BATCH],
                turns: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        Ok(KBox::into_raw(scratch).cast())
    }

    /// # Safety
    ///
    /// `wc` must come from [`Self::alloc`] and is gone afterwards.
    pub(super) unsafe fn free(wc: *mut bindings::ib_wc) {
        // SAFETY: Made by `alloc` as a box of this type.
        drop(unsafe { KBox::<Self>::from_raw(wc.cast()) });
    }

    /// The array for completions.
    ///
    /// # Safety
    ///
    /// `wc` must come from [`Self::alloc`] and not be freed during `'a`, in which nobody else may
    /// use the array.
    pub(super) unsafe fn batch<'a>(wc: *mut bindings::ib_wc) -> WcBatch<'a> {
        // SAFETY: Valid and exclusive by the contract; only the array is borrowed, not the counter
        // beside it.
        let wcs = unsafe { &mut (*wc.cast::<Self>()).wcs };
        WcBatch { wcs }
    }

    /// # Safety
    ///
    /// `wc` must come from [`Self::alloc`] and not be freed during `'a`.
    unsafe fn turns<'a>(wc: *mut bindings::ib_wc) -> &'a Atomic<u32> {
        // SAFETY: Valid by the contract, and only used atomically.
        unsafe { &(*wc.cast::<Self>()).turns }
    }

    /// Runs a callback of the soft interrupt, for the end of which [`Self::settle`] waits.
    ///
    /// The soft interrupt's own protocol does not do: a callback says that it is complete, arms
    /// the queue and looks whether completions came meanwhile, in this order so that none is
    /// lost. Whoever disables the poller waits for the first of these steps only.
    ///
    /// # Safety
    ///
    /// `wc` must come from [`Self::alloc`], of a queue whose poller is scheduled.
    pub(super) unsafe fn turn<R>(wc: *mut bindings::ib_wc, callback: impl FnOnce() -> R) -> R {
        // SAFETY: While the poller is scheduled nobody frees the queue.
        //
        // INVARIANT: Counted from before the callback completes the poller, which orders this
        // before whatever sees that, to after its last use of the queue.
        unsafe { Self::turns(wc) }.fetch_add(1, Relaxed);
        let result = callback();
        // SAFETY: The queue stays while this callback is counted.
        unsafe { Self::turns(wc) }.fetch_sub(1, Release);
        result
    }

    /// Waits for callbacks that have completed the poller but not yet returned. May sleep.
    ///
    /// # Safety
    ///
    /// `wc` must come from [`Self::alloc`], of a queue whose poller has been disabled.
    pub(super) unsafe fn settle(wc: *mut bindings::ib_wc) {
        const STEP: Delta = Delta::from_micros(100);

        // SAFETY: The queue is being freed by the caller and lives until then.
        while unsafe { Self::turns(wc) }.load(Acquire) != 0 {
            fsleep(STEP);
        }
    }
}
