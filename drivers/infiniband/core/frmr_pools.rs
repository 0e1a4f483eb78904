// SPDX-License-Identifier: GPL-2.0

//! Reuse of fast-registration handles.
//!
//! A handle that is given back waits in its pool's active queue for the next user. At each round
//! of ageing what is left in the inactive queue is destroyed, and the active queue becomes the
//! inactive one. An administrator may ask a pool to keep a number of handles.

use core::cmp::Ordering;
use kernel::prelude::*;
use rdma::{
    device::Device,
    frmr::{
        check_access,
        Ageing,
        FrmrMr,
        Key,
        Pool,
        PoolGuard,
        Pools,
        Queue,
        PAGE_HANDLES, //
    },
    mm::resched_point,
    warn_on_once, //
};

/// Most handles that a pool is to make at once.
const MAX_MISSING: usize = 1 << 20;

/// Seconds between two rounds of ageing until an administrator says otherwise.
pub(crate) const DEFAULT_PERIOD: u32 = 60;

/// The pools' way of ageing and of finding each other.
enum CoreAgeing {}

impl Ageing for CoreAgeing {
    fn age(pool: &Pool) {
        let Some(pools) = Pools::of(pool.device()) else {
            return;
        };
        destroy_inactive(pools, pool);
        let mut locked = pool.lock();
        let excess = excess(&locked);
        if excess > 0 && locked.len(Queue::Active) > 0 {
            locked.deactivate_all();
            drop(locked);
            pool.queue_ageing(pools, pools.period());
        }
    }

    /// A handle may take more blocks than are asked for, up to less than twice as many.
    fn compare(pool: &Key, wanted: &Key) -> Ordering {
        pool.ats()
            .cmp(&wanted.ats())
            .then(pool.access().cmp(&wanted.access()))
            .then(pool.vendor().cmp(&wanted.vendor()))
            .then(pool.kernel_vendor().cmp(&wanted.kernel_vendor()))
            .then(compare_blocks(pool.blocks(), wanted.blocks()))
    }
}

/// How a pool of handles for `has` blocks compares to a wish for `wanted`.
fn compare_blocks(has: usize, wanted: usize) -> Ordering {
    match has.checked_sub(wanted) {
        Some(spare) if spare < wanted || spare == 0 => Ordering::Equal,
        Some(_) => Ordering::Greater,
        None => Ordering::Less,
    }
}

/// Handles of a pool above the number that it is to keep.
fn excess(pool: &PoolGuard<'_>) -> usize {
    let total = pool.len(Queue::Active) + pool.len(Queue::Inactive) + pool.in_use() as usize;
    total.saturating_sub(pool.pinned() as usize)
}

/// Moves handles from a queue into `places`, and returns how many there were.
fn pop_some<'a>(
    pool: &mut PoolGuard<'_>,
    queue: Queue,
    places: impl Iterator<Item = &'a mut u32>,
) -> usize {
    let mut taken = 0;
    for place in places {
        let Some(handle) = pool.pop(queue) else {
            break;
        };
        *place = handle;
        taken += 1;
    }
    taken
}

/// Destroys the inactive handles, as far as the pool need not keep them.
fn destroy_inactive(pools: &Pools, pool: &Pool) {
    // Handles that are destroyed while the lock is not held.
    let mut some = [0u32; 32];
    loop {
        let mut locked = pool.lock();
        if locked.pinned() == 0 {
            let Some(mut page) = locked.pop_page(Queue::Inactive) else {
                return;
            };
            drop(locked);
            pools.driver_destroy(pool.device(), page.handles());
            continue;
        }
        let limit = excess(&locked);
        let count = pop_some(&mut locked, Queue::Inactive, some.iter_mut().take(limit));
        drop(locked);
        if count == 0 {
            return;
        }
        pools.driver_destroy(pool.device(), some.get_mut(..count).unwrap_or(&mut []));
    }
}

/// Destroys up to `count` handles that wait for their use.
fn destroy_active(pools: &Pools, pool: &Pool, count: usize) {
    let mut left = count;
    // Handles that are destroyed while the lock is not held.
    let mut some = [0u32; 32];
    while left > 0 {
        let mut locked = pool.lock();
        let taken = pop_some(&mut locked, Queue::Active, some.iter_mut().take(left));
        drop(locked);
        if taken == 0 {
            return;
        }
        pools.driver_destroy(pool.device(), some.get_mut(..taken).unwrap_or(&mut []));
        left -= taken;
    }
}

/// Destroys all handles of a pool that nobody uses any more.
pub(crate) fn destroy_all(pools: &Pools, pool: &Pool) {
    for queue in [Queue::Active, Queue::Inactive] {
        while let Some(mut page) = pop_page(pool, queue) {
            pools.driver_destroy(pool.device(), page.handles());
        }
    }
}

fn pop_page(pool: &Pool, queue: Queue) -> Option<rdma::frmr::HandleBatch> {
    pool.lock().pop_page(queue)
}

/// Sets the time between two rounds of ageing. `EINVAL` for none, or a device without pools.
pub(crate) fn set_period(device: &Device, seconds: u32) -> Result {
    let pools = Pools::of(device).ok_or(EINVAL)?;
    if seconds == 0 {
        return Err(EINVAL);
    }
    pools.set_period(seconds);
    Ok(())
}

/// Lets the pool for a user's key keep `handles`, and makes as many of them as are missing. May
/// sleep.
///
/// Errors: `EINVAL` for a device without pools, `ENOMEM` if more than [`MAX_MISSING`] are missing,
/// those of the access check and of the driver. The pool is as it was then.
pub(crate) fn set_pinned(device: &Device, key: &Key, handles: u32) -> Result {
    let pools = Pools::of(device).ok_or(EINVAL)?;
    check_access(device, key.access())?;
    let key = pools.driver_key(device, key)?;
    let pool = pools.find_or_add::<CoreAgeing>(device, &key)?;

    let (missing, before) = {
        let mut locked = pool.lock();
        let total =
            locked.len(Queue::Active) + locked.len(Queue::Inactive) + locked.in_use() as usize;
        let missing = (handles as usize).saturating_sub(total);
        if missing > MAX_MISSING {
            return Err(ENOMEM);
        }
        let before = locked.pinned();
        locked.set_pinned(handles);
        (missing, before)
    };
    let done = add_handles(pools, pool, &key, missing).inspect_err(|_| {
        let mut locked = pool.lock();
        // Somebody else may have wanted yet another number.
        if locked.pinned() == handles {
            locked.set_pinned(before);
        }
    });
    // The ageing adapts to the new number.
    pool.requeue_ageing(pools, 0);
    done
}

/// Makes `count` handles for a pool, or none. May sleep.
fn add_handles(pools: &Pools, pool: &Pool, key: &Key, count: usize) -> Result {
    let mut left = count;
    add_pages(pools, pool, key, &mut left)
        .inspect_err(|_| destroy_active(pools, pool, count.saturating_sub(left)))
}

/// Makes `left` handles, a queue page at a time, and counts down.
fn add_pages(pools: &Pools, pool: &Pool, key: &Key, left: &mut usize) -> Result {
    let device = pool.device();
    let mut buffer = KVec::from_elem(0u32, PAGE_HANDLES.min(*left), GFP_KERNEL)?;
    while *left > 0 {
        resched_point();
        let now = buffer.len().min(*left);
        let handles = buffer.get_mut(..now).ok_or(EINVAL)?;
        pools.driver_create(device, key, handles)?;
        let pushed = {
            let mut locked = pool.lock();
            handles
                .iter()
                .take_while(|handle| locked.push(Queue::Active, **handle).is_ok())
                .count()
        };
        if let Some(rest) = handles.get_mut(pushed..) {
            pools.driver_destroy(device, rest);
        }
        *left -= pushed;
        if pushed != now {
            return Err(ENOMEM);
        }
    }
    Ok(())
}

/// Gives `mr` a handle for its key. May sleep.
pub(crate) fn take(device: &Device, mr: &FrmrMr) -> Result {
    let Some(pools) = Pools::of(device) else {
        warn_on_once!(true);
        return Err(EINVAL);
    };
    let pool = pools.find_or_add::<CoreAgeing>(device, &mr.key())?;
    let ready = {
        let mut locked = pool.lock();
        let handle = locked
            .pop(Queue::Active)
            .or_else(|| locked.pop(Queue::Inactive));
        if handle.is_some() {
            locked.count_taken();
        }
        handle
    };
    let handle = match ready {
        Some(handle) => handle,
        None => {
            let mut new = [0u32];
            pools.driver_create(device, &pool.key(), &mut new)?;
            pool.lock().count_taken();
            let [handle] = new;
            handle
        }
    };
    mr.set(pool, handle);
    Ok(())
}

/// Takes the handle of `mr` back into its pool.
pub(crate) fn give_back(device: &Device, mr: &FrmrMr) {
    let (Some(pools), Some(pool)) = (Pools::of(device), mr.pool()) else {
        warn_on_once!(true);
        return;
    };
    let (pushed, first) = {
        let mut locked = pool.lock();
        locked.count_returned();
        let pushed = locked.push(Queue::Active, mr.handle());
        (pushed, locked.len(Queue::Active) == 1)
    };
    if pushed.is_err() {
        pools.driver_destroy(device, &mut [mr.handle()]);
    } else if first {
        pool.queue_ageing(pools, pools.period());
    }
}

/// The handle of `mr` does not come back to its pool.
pub(crate) fn drop_handle(mr: &FrmrMr) {
    if let Some(pool) = mr.pool() {
        pool.lock().count_returned();
    }
}

#[kernel::prelude::kunit_tests(rust_ib_core_frmr_pools)]
mod tests {
    use super::*;

    #[test]
    fn blocks_up_to_twice() {
        assert_eq!(compare_blocks(8, 8), Ordering::Equal);
        assert_eq!(compare_blocks(15, 8), Ordering::Equal);
        assert_eq!(compare_blocks(16, 8), Ordering::Greater);
        assert_eq!(compare_blocks(7, 8), Ordering::Less);
        assert_eq!(compare_blocks(0, 0), Ordering::Equal);
        assert_eq!(compare_blocks(1, 0), Ordering::Greater);
    }
}
