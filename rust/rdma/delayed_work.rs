// SPDX-License-Identifier: GPL-2.0

//! Changing and cancelling delayed work items of the `kernel` crate.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! A queued item owns one count of its [`Arc`], which its handler gets.

use crate::workqueue::WorkQueue;
use kernel::{
    bindings,
    sync::Arc,
    time::Jiffies,
    workqueue::{
        HasDelayedWork,
        Work,
        WorkItem, //
    },
};

fn raw<T, const ID: u64>(item: *const T) -> *mut bindings::delayed_work
where
    T: HasDelayedWork<T, ID>,
{
    // SAFETY: Callers pass pointers to live items.
    let work = unsafe { T::raw_get_work(item.cast_mut()) };
    // SAFETY: `work` points into the live item. By the contract of
    // `HasDelayedWork` it is the first member of a delayed work.
    unsafe { Work::raw_get(work) }.cast()
}

/// Queues `item` to run after `delay`, or changes the delay if it is queued
/// already. Any context.
pub fn rearm<T, const ID: u64>(queue: &WorkQueue, item: Arc<T>, delay: Jiffies)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID>,
{
    let ptr = Arc::into_raw(item);
    // SAFETY: The item is live, as its count is ours; the queue is live, too.
    let was_queued = unsafe {
        bindings::mod_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
            queue.as_raw(),
            raw::<T, ID>(ptr),
            delay,
        )
    };
    if was_queued {
        // SAFETY: The queued item has the count of its first queueing, so this
        // one is still ours.
        drop(unsafe { Arc::from_raw(ptr) });
    }
}

/// Takes `item` off its queue; says whether it was queued. The handler may be
/// running. Any context in which the count of the item may be dropped.
pub fn cancel<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID>,
{
    let ptr = Arc::as_ptr(item);
    // SAFETY: The item is live.
    let was_queued = unsafe { bindings::cancel_delayed_work(raw::<T, ID>(ptr)) };
    if was_queued {
        // SAFETY: The count of the queued item comes back with it.
        drop(unsafe { Arc::from_raw(ptr) });
    }
    was_queued
}
