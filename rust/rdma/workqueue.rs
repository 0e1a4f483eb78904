// SPDX-License-Identifier: GPL-2.0

//! Work queues that a module owns.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! Work items are those of `kernel::workqueue`; [`WorkQueue`] derefs to its `Queue`.

use core::ops::Deref;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::Arc;
use kernel::time::Jiffies;
use kernel::workqueue::{HasDelayedWork, HasWork, Queue, Work, WorkItem};

/// Runs each item on the CPU that queues it. Without one of the other kinds, the kernel wants one
/// of `PERCPU` and `UNBOUND`.
pub const PERCPU: u32 = bindings::wq_flags_WQ_PERCPU;
/// Runs items on any CPU.
pub const UNBOUND: u32 = bindings::wq_flags_WQ_UNBOUND;
/// Runs items in a softirq of the CPU that queues them, soon; they must not sleep. With `PERCPU`.
pub const BH: u32 = bindings::wq_flags_WQ_BH;
/// Makes progress when memory is short.
pub const MEM_RECLAIM: u32 = bindings::wq_flags_WQ_MEM_RECLAIM;
/// Uses the high-priority workers.
pub const HIGHPRI: u32 = bindings::wq_flags_WQ_HIGHPRI;
/// Shows the queue in sysfs.
pub const SYSFS: u32 = bindings::wq_flags_WQ_SYSFS;
/// One item at a time, in the order of queueing.
pub const ORDERED: u32 = UNBOUND | bindings::wq_flags___WQ_ORDERED;

/// An owned work queue. Dropping it drains and destroys it. Creation and drop may sleep.
///
/// # Invariants
///
/// `0` points to a live work queue that nobody else destroys.
pub struct WorkQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues are used from any thread.
unsafe impl Send for WorkQueue {}
// SAFETY: As above.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// Makes a queue; `flags` are constants of this module, `max_active` of 0 is the default.
    pub fn new(name: &CStr, flags: u32, max_active: i32) -> Result<Self> {
        let max_active = if flags & ORDERED == ORDERED {
            1
        } else {
            max_active
        };
        // SAFETY: The format takes the one string that is passed.
        let wq = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                flags,
                max_active,
                name.as_char_ptr(),
            )
        };
        // INVARIANT: Made above, and only `drop` destroys it.
        NonNull::new(wq).map(Self).ok_or(ENOMEM)
    }

    /// Makes a queue whose items run one at a time, in order.
    pub fn new_ordered(name: &CStr, flags: u32) -> Result<Self> {
        Self::new(name, flags | ORDERED, 1)
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.0.as_ptr()
    }

    /// Has a delayed item run in `delay` jiffies, whether it waits for another time already or not.
    /// Any context in which its reference may be dropped.
    ///
    /// An item that runs now runs once more, unless it is being cancelled: then it stays cancelled.
    /// (`mod_delayed_work()` would not tell if it has queued the item, so whose the reference is.)
    pub fn reschedule<T, const ID: u64>(&self, mut item: Arc<T>, delay: Jiffies)
    where
        T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID> + Send + Sync + 'static,
    {
        loop {
            cancel_delayed::<T, ID>(&item);
            match self.enqueue_delayed::<_, ID>(item, delay) {
                Ok(()) => return,
                // Somebody else has queued it since then.
                Err(back) if is_pending::<T, ID>(&back) => item = back,
                Err(_) => return,
            }
        }
    }

    /// Waits until what is queued now has run.
    pub fn flush(&self) {
        // SAFETY: The queue is live by the type invariant.
        unsafe { bindings::__flush_workqueue(self.as_raw()) }
    }

    /// Waits until the queue is empty, items that requeue themselves included.
    pub fn drain(&self) {
        // SAFETY: The queue is live by the type invariant.
        unsafe { bindings::drain_workqueue(self.as_raw()) }
    }
}

/// The `delayed_work` of an item.
///
/// # Safety
///
/// `item` is live.
unsafe fn raw_delayed<T, const ID: u64>(item: *const T) -> *mut bindings::delayed_work
where
    T: HasDelayedWork<T, ID>,
{
    // SAFETY: The item is live by the contract; its work is the field of a `delayed_work` by that
    // of `HasDelayedWork`.
    unsafe {
        let work = Work::raw_get(T::raw_get_work(item.cast_mut()));
        container_of!(work, bindings::delayed_work, work)
    }
}

/// Whether an item waits, on a queue or for its time.
fn is_pending<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: HasWork<T, ID>,
{
    const PENDING: i64 = 1 << bindings::work_bits_WORK_STRUCT_PENDING_BIT;
    let raw = core::ptr::from_ref(&**item).cast_mut();
    // SAFETY: The item is live, and so is the work in it, whose data are an atomic variable.
    let data = unsafe {
        let work = Work::raw_get(T::raw_get_work(raw));
        Atomic::<i64>::from_ptr(&raw mut (*work).data.counter).load(Relaxed)
    };
    data & PENDING != 0
}

/// Takes a delayed item off its queue unless it runs already; says whether it was waiting. Any
/// context in which its reference may be dropped.
pub fn cancel_delayed<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID> + Send + Sync + 'static,
{
    let raw = core::ptr::from_ref(&**item);
    // SAFETY: The item is live.
    let was_waiting = unsafe { bindings::cancel_delayed_work(raw_delayed(raw)) };
    reclaim(item, was_waiting)
}

/// As [`cancel_delayed`], and waits until it does not run either. May sleep.
pub fn cancel_delayed_sync<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID> + Send + Sync + 'static,
{
    let raw = core::ptr::from_ref(&**item);
    // SAFETY: The item is live.
    let was_waiting = unsafe { bindings::cancel_delayed_work_sync(raw_delayed(raw)) };
    reclaim(item, was_waiting)
}

/// Takes an item off its queue and waits until it does not run either; says whether it was waiting.
/// It may be queued again at once, unless its user sees to that. May sleep.
pub fn cancel_sync<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID> + Send + Sync + 'static,
{
    let raw = core::ptr::from_ref(&**item).cast_mut();
    // SAFETY: The item is live, and so is the work in it.
    let was_waiting = unsafe { bindings::cancel_work_sync(Work::raw_get(T::raw_get_work(raw))) };
    reclaim(item, was_waiting)
}

/// Drops the reference that the queue held.
fn reclaim<T>(item: &Arc<T>, was_waiting: bool) -> bool {
    if was_waiting {
        // SAFETY: The queue had been given a reference and will not run the item for it.
        drop(unsafe { Arc::from_raw(core::ptr::from_ref(&**item)) });
    }
    was_waiting
}

impl Deref for WorkQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: Live by the type invariant, as long as `self`.
        unsafe { Queue::from_raw(self.as_raw().cast()) }
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant, and never used again.
        unsafe { bindings::destroy_workqueue(self.as_raw()) }
    }
}

#[kunit_tests(rust_rdma_workqueue)]
mod tests {
    use super::*;
    use crate::completion::Completion;
    use kernel::time::msecs_to_jiffies;
    use kernel::workqueue::DelayedWork;
    use kernel::{impl_has_delayed_work, new_delayed_work};

    /// In milliseconds.
    const HOUR: u32 = 3_600_000;

    /// Sets itself anew in an hour, each time that it runs.
    #[pin_data]
    struct Item {
        queue: WorkQueue,
        #[pin]
        runs: Completion,
        #[pin]
        may_end: Completion,
        #[pin]
        timer: DelayedWork<Item>,
        #[pin]
        end: DelayedWork<Item, 1>,
    }

    impl_has_delayed_work! {
        impl HasDelayedWork<Item> for Item { self.timer }
        impl HasDelayedWork<Item, 1> for Item { self.end }
    }

    impl WorkItem for Item {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            this.runs.complete();
            this.may_end.wait();
            this.queue
                .reschedule::<_, 0>(this.clone(), msecs_to_jiffies(HOUR));
        }
    }

    impl WorkItem<1> for Item {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            this.may_end.complete();
        }
    }

    fn item() -> Result<Arc<Item>> {
        Arc::pin_init(
            try_pin_init!(Item {
                queue: WorkQueue::new(c"test", UNBOUND, 0)?,
                runs <- Completion::new(),
                may_end <- Completion::new(),
                timer <- new_delayed_work!("test::timer"),
                end <- new_delayed_work!("test::end"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// No queue has a reference any more.
    fn is_alone(item: Arc<Item>) -> bool {
        Arc::into_unique_or_drop(item).is_some()
    }

    #[test]
    fn the_last_time_counts() -> Result {
        let item = item()?;
        item.queue
            .reschedule::<_, 0>(item.clone(), msecs_to_jiffies(HOUR));
        item.queue.reschedule::<_, 0>(item.clone(), 0);
        item.runs.wait();
        item.may_end.complete();
        item.queue.flush();
        assert!(cancel_delayed::<_, 0>(&item));
        assert!(!cancel_delayed::<_, 0>(&item));
        assert!(is_alone(item));
        Ok(())
    }

    #[test]
    fn cancelled_while_it_runs() -> Result {
        let item = item()?;
        item.queue.reschedule::<_, 0>(item.clone(), 0);
        item.runs.wait();
        // It goes on, and sets itself anew, when somebody is waiting for its end.
        item.queue
            .reschedule::<_, 1>(item.clone(), msecs_to_jiffies(50));
        cancel_delayed_sync::<_, 0>(&item);
        item.queue.flush();
        assert!(is_alone(item));
        Ok(())
    }
}
