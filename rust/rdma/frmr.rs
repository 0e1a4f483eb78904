// SPDX-License-Identifier: GPL-2.0

//! Pools of fast-registration handles of a device.
//!
//! Pools lie in a tree under a lock for readers and writers; they are only added, until the
//! device goes. The handles of a pool lie in two queues under the pool's spinlock. None of these
//! locks is taken from interrupts.
//!
//! nldev reads the same structures, so they are the C ones.
//!
//! C headers: [`include/rdma/frmr_pools.h`](srctree/include/rdma/frmr_pools.h),
//! [`drivers/infiniband/core/frmr_pools.h`](srctree/drivers/infiniband/core/frmr_pools.h)

mod handles;

use handles::HandlePage;
pub use handles::{
    HandleBatch,
    Key,
    PAGE_HANDLES, //
};

use crate::{
    clist,
    device::Device,
    rwlock::RwLockIrq,
    spinlock::{
        CSpinLock,
        CSpinLockGuard, //
    },
    workqueue::WorkQueue, //
};
use core::{
    cmp::Ordering,
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    static_lock_class,
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
    types::Opaque, //
};

/// One of the two queues of a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Handles given back lately.
    Active,
    /// Handles that nobody has asked for since the last round of ageing.
    Inactive,
}

/// A pool of handles, `struct ib_frmr_pool`.
///
/// # Invariants
///
/// Wraps a pool that is set up. Key and device are constant.
#[repr(transparent)]
pub struct Pool(Opaque<bindings::ib_frmr_pool>);

impl Pool {
    /// # Safety
    ///
    /// `pool` must be set up and stay for the whole of `'a`.
    pub unsafe fn from_raw<'a>(pool: *mut bindings::ib_frmr_pool) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*pool.cast() }
    }

    fn as_raw(&self) -> *mut bindings::ib_frmr_pool {
        self.0.get()
    }

    /// What the handles are good for.
    pub fn key(&self) -> Key {
        // SAFETY: Constant field.
        unsafe { Key::from_raw(&raw const (*self.as_raw()).key) }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Constant field; pools go before their device.
        unsafe { Device::from_raw((*self.as_raw()).device.cast()) }
    }

    /// Locks the queues and the counters.
    pub fn lock(&self) -> PoolGuard<'_> {
        // SAFETY: Set up with the pool.
        let lock = unsafe { CSpinLock::from_raw(&raw mut (*self.as_raw()).lock) };
        PoolGuard {
            pool: self,
            _lock: lock.lock(),
        }
    }

    /// Ages the pool after `delay`, unless that is due already.
    pub fn queue_ageing(&self, pools: &Pools, delay: Jiffies) {
        // SAFETY: Work and work queue are set up.
        unsafe {
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                pools.work_queue(),
                &raw mut (*self.as_raw()).aging_work,
                delay as c_ulong,
            );
        }
    }

    /// Ages the pool after `delay`, whenever it was due before.
    pub fn requeue_ageing(&self, pools: &Pools, delay: Jiffies) {
        // SAFETY: Work and work queue are set up.
        unsafe {
            bindings::mod_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                pools.work_queue(),
                &raw mut (*self.as_raw()).aging_work,
                delay as c_ulong,
            );
        }
    }
}

/// Handles of a pool that are in use, and such numbers.
///
/// The queues and counters of a pool are locked.
pub struct PoolGuard<'a> {
    pool: &'a Pool,
    _lock: CSpinLockGuard<'a>,
}

impl PoolGuard<'_> {
    fn queue(&self, which: Queue) -> *mut bindings::frmr_queue {
        let raw = self.pool.as_raw();
        // SAFETY: Field addresses within a live pool.
        unsafe {
            match which {
                Queue::Active => &raw mut (*raw).queue,
                Queue::Inactive => &raw mut (*raw).inactive_queue,
            }
        }
    }

    /// Handles in a queue.
    pub fn len(&self, which: Queue) -> usize {
        // SAFETY: Locked.
        unsafe { (*self.queue(which)).ci }
    }

    /// Adds a handle; `ENOMEM` leaves the queue as it was.
    pub fn push(&mut self, which: Queue, handle: u32) -> Result {
        let queue = self.queue(which);
        // SAFETY: Locked. All pages but the last are full, so the last has a free slot unless its
        // number is a multiple of the pages' size.
        unsafe {
            let slot = (*queue).ci % PAGE_HANDLES;
            let page = match clist::last(&raw mut (*queue).pages_list) {
                Some(link) if slot != 0 => {
                    kernel::container_of!(link, bindings::frmr_handles_page, list)
                }
                _ => {
                    let page = HandlePage::new()?.into_raw();
                    clist::push_back(&raw mut (*page).list, &raw mut (*queue).pages_list);
                    (*queue).num_pages = (*queue).num_pages.wrapping_add(1);
                    page
                }
            };
            (&raw mut (*page).handles)
                .cast::<u32>()
                .add(slot)
                .write(handle);
            (*queue).ci += 1;
        }
        Ok(())
    }

    /// Takes the handle that was added last.
    pub fn pop(&mut self, which: Queue) -> Option<u32> {
        let queue = self.queue(which);
        // SAFETY: Locked; see `push` for where the last handle is.
        unsafe {
            let left = (*queue).ci.checked_sub(1)?;
            let link = clist::last(&raw mut (*queue).pages_list)?;
            let page = kernel::container_of!(link, bindings::frmr_handles_page, list);
            let slot = left % PAGE_HANDLES;
            let handle = (&raw const (*page).handles).cast::<u32>().add(slot).read();
            (*queue).ci = left as c_ulong;
            if slot == 0 {
                clist::remove(link);
                (*queue).num_pages = (*queue).num_pages.wrapping_sub(1);
                drop(NonNull::new(page).map(HandlePage));
            }
            Some(handle)
        }
    }

    /// Takes the first page of handles.
    pub fn pop_page(&mut self, which: Queue) -> Option<HandleBatch> {
        let queue = self.queue(which);
        // SAFETY: Locked; see `push` for how many handles a page holds.
        unsafe {
            let link = clist::first(&raw mut (*queue).pages_list)?;
            let page = kernel::container_of!(link, bindings::frmr_handles_page, list);
            let count = (*queue).ci.min(PAGE_HANDLES);
            clist::remove(link);
            (*queue).num_pages = (*queue).num_pages.wrapping_sub(1);
            (*queue).ci -= count as c_ulong;
            Some(HandleBatch {
                page: HandlePage(NonNull::new(page)?),
                count,
            })
        }
    }

    /// Moves all active handles to the inactive queue, without allocating more than they have.
    pub fn deactivate_all(&mut self) {
        // All pages of a queue but the last are full: fill the last one before others follow it.
        while self.len(Queue::Inactive) % PAGE_HANDLES != 0 {
            let Some(handle) = self.pop(Queue::Active) else {
                return;
            };
            // There is a free slot, so this does not allocate.
            if self.push(Queue::Inactive, handle).is_err() {
                return;
            }
        }
        let (from, to) = (self.queue(Queue::Active), self.queue(Queue::Inactive));
        // SAFETY: Locked.
        unsafe {
            clist::append_all(&raw mut (*from).pages_list, &raw mut (*to).pages_list);
            (*to).num_pages = (*to).num_pages.wrapping_add((*from).num_pages);
            (*to).ci += (*from).ci;
            (*from).num_pages = 0;
            (*from).ci = 0;
        }
    }

    /// Handles that users have.
    pub fn in_use(&self) -> u32 {
        // SAFETY: Locked.
        unsafe { (*self.pool.as_raw()).in_use }
    }

    /// Handles that the pool is to keep, in use or not.
    pub fn pinned(&self) -> u32 {
        // SAFETY: Locked.
        unsafe { (*self.pool.as_raw()).pinned_handles }
    }

    /// Sets how many handles the pool is to keep.
    pub fn set_pinned(&mut self, handles: u32) {
        // SAFETY: Locked.
        unsafe { (*self.pool.as_raw()).pinned_handles = handles }
    }

    /// One more handle is in use.
    pub fn count_taken(&mut self) {
        let raw = self.pool.as_raw();
        // SAFETY: Locked.
        unsafe {
            (*raw).in_use = (*raw).in_use.saturating_add(1);
            (*raw).max_in_use = (*raw).max_in_use.max((*raw).in_use);
        }
    }

    /// One handle less is in use.
    pub fn count_returned(&mut self) {
        let raw = self.pool.as_raw();
        // SAFETY: Locked.
        unsafe { (*raw).in_use = (*raw).in_use.saturating_sub(1) }
    }
}

/// What the pools do by themselves.
pub trait Ageing {
    /// Ages a pool. Process context.
    fn age(pool: &Pool);

    /// How `pool` compares to what is searched for.
    fn compare(pool: &Key, wanted: &Key) -> Ordering;
}

/// # Safety
///
/// Called by the work queue with the work of a live pool.
unsafe extern "C" fn ageing_shim<A: Ageing>(work: *mut bindings::work_struct) {
    // SAFETY: The work lies in the delayed work of a pool.
    unsafe {
        let work = kernel::container_of!(work, bindings::delayed_work, work);
        let pool = kernel::container_of!(work, bindings::ib_frmr_pool, aging_work);
        A::age(Pool::from_raw(pool));
    }
}

/// A pool that is in no tree.
struct NewPool(NonNull<bindings::ib_frmr_pool>);

impl NewPool {
    fn new<A: Ageing>(device: &Device, key: &Key) -> Result<Self> {
        let mut raw: KBox<bindings::ib_frmr_pool> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        raw.key = key.0;
        raw.device = device.as_raw().cast();
        let raw = KBox::into_raw(raw);
        // SAFETY: The memory does not move any more.
        unsafe {
            clist::init(&raw mut (*raw).queue.pages_list);
            clist::init(&raw mut (*raw).inactive_queue.pages_list);
            bindings::__spin_lock_init(
                &raw mut (*raw).lock,
                c"frmr_pool->lock".as_char_ptr(),
                static_lock_class!().as_ptr(),
            );
            bindings::rdma_init_delayed_work(&raw mut (*raw).aging_work, Some(ageing_shim::<A>));
        }
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }

    fn into_raw(self) -> *mut bindings::ib_frmr_pool {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for NewPool {
    fn drop(&mut self) {
        // SAFETY: Allocated as a box, owned, and known to nobody.
        unsafe { drop(KBox::from_raw(self.0.as_ptr())) }
    }
}

/// The pools of a device, `struct ib_frmr_pools`.
///
/// # Invariants
///
/// Wraps the pools of a live device; the tree is changed under its lock.
#[repr(transparent)]
pub struct Pools(Opaque<bindings::ib_frmr_pools>);

impl Pools {
    /// The pools of `device`, `None` if its driver uses none.
    pub fn of(device: &Device) -> Option<&Self> {
        // SAFETY: Set before the driver uses its pools, and cleared after that only.
        let pools = unsafe { (*device.as_raw()).frmr_pools };
        // SAFETY: Set up by `create`.
        unsafe { pools.cast::<Self>().as_ref() }
    }

    fn as_raw(&self) -> *mut bindings::ib_frmr_pools {
        self.0.get()
    }

    /// Gives `device` pools with the operations of its driver.
    ///
    /// # Safety
    ///
    /// `ops` must outlive the pools; the device must have none, and its driver not use them yet.
    pub unsafe fn create(
        device: &Device,
        ops: *const bindings::ib_frmr_pool_ops,
        period: u32,
    ) -> Result {
        let mut raw: KBox<bindings::ib_frmr_pools> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        let queue = WorkQueue::new_ordered(c"frmr_aging_wq", crate::workqueue::MEM_RECLAIM)?;
        raw.pool_ops = ops;
        raw.aging_wq = queue.as_raw();
        raw.aging_period_sec = period;
        core::mem::forget(queue);
        let raw = KBox::into_raw(raw);
        // SAFETY: The memory does not move any more; the device's field is the driver's to set.
        unsafe {
            bindings::rwlock_init(
                &raw mut (*raw).rb_lock,
                c"frmr_pools->rb_lock".as_char_ptr(),
                static_lock_class!().as_ptr(),
            );
            (*device.as_raw()).frmr_pools = raw.cast();
        }
        Ok(())
    }

    /// Ends the pools of `device`: stops the ageing of each, lets `empty` take its handles, and
    /// frees it. May sleep.
    ///
    /// # Safety
    ///
    /// Nobody may use the pools any more.
    pub unsafe fn destroy(device: &Device, empty: impl Fn(&Self, &Pool)) {
        let Some(pools) = Self::of(device) else {
            return;
        };
        let raw = pools.as_raw();
        // SAFETY: Nobody else uses tree, pools, or work queue by the contract.
        unsafe {
            while let Some(node) = NonNull::new((*raw).rb_root.rb_node) {
                let node = node.as_ptr();
                bindings::rb_erase(node, &raw mut (*raw).rb_root);
                let pool = kernel::container_of!(node, bindings::ib_frmr_pool, node);
                bindings::cancel_delayed_work_sync(&raw mut (*pool).aging_work);
                empty(pools, Pool::from_raw(pool));
                drop(KBox::from_raw(pool));
            }
            bindings::destroy_workqueue((*raw).aging_wq);
            (*device.as_raw()).frmr_pools = null_mut();
            drop(KBox::from_raw(raw));
        }
    }

    fn lock(&self) -> &RwLockIrq {
        // SAFETY: Set up with the pools.
        unsafe { RwLockIrq::from_raw(&raw mut (*self.as_raw()).rb_lock) }
    }

    fn work_queue(&self) -> *mut bindings::workqueue_struct {
        // SAFETY: Constant field.
        unsafe { (*self.as_raw()).aging_wq }
    }

    /// Time between two rounds of ageing.
    pub fn period(&self) -> Jiffies {
        // SAFETY: A word that others may change at any time.
        let seconds = unsafe { (&raw const (*self.as_raw()).aging_period_sec).read_volatile() };
        msecs_to_jiffies(seconds.saturating_mul(1000))
    }

    /// Sets the time between two rounds of ageing, and starts one such time for each pool now.
    pub fn set_period(&self, seconds: u32) {
        let raw = self.as_raw();
        // SAFETY: A word that others may read at any time.
        unsafe { (&raw mut (*raw).aging_period_sec).write_volatile(seconds) };
        let delay = self.period();
        let _lock = self.lock().read();
        // SAFETY: The tree does not change under the lock, and pools stay.
        unsafe {
            let mut node = bindings::rb_first(&raw const (*raw).rb_root);
            while !node.is_null() {
                let pool = kernel::container_of!(node, bindings::ib_frmr_pool, node);
                Pool::from_raw(pool).requeue_ageing(self, delay);
                node = bindings::rb_next(node);
            }
        }
    }

    /// Where `wanted` is in the tree, or would be: the pool, or the parent and the link to it.
    ///
    /// # Safety
    ///
    /// The lock must be held.
    unsafe fn search<A: Ageing>(
        &self,
        wanted: &Key,
    ) -> core::result::Result<&Pool, (*mut bindings::rb_node, *mut *mut bindings::rb_node)> {
        let mut parent = null_mut();
        // SAFETY: The tree does not change under the lock; its nodes are those of pools, which
        // stay.
        unsafe {
            let mut link = &raw mut (*self.as_raw()).rb_root.rb_node;
            while !(*link).is_null() {
                parent = *link;
                let pool = kernel::container_of!(parent, bindings::ib_frmr_pool, node);
                let pool = Pool::from_raw(pool);
                match A::compare(&pool.key(), wanted) {
                    Ordering::Less => link = &raw mut (*parent).rb_left,
                    Ordering::Greater => link = &raw mut (*parent).rb_right,
                    Ordering::Equal => return Ok(pool),
                }
            }
            Err((parent, link))
        }
    }

    /// The pool for `key`.
    pub fn find<A: Ageing>(&self, key: &Key) -> Option<&Pool> {
        let _lock = self.lock().read();
        // SAFETY: Locked.
        unsafe { self.search::<A>(key) }.ok()
    }

    /// The pool for `key`, a new one if there is none. May sleep.
    pub fn find_or_add<A: Ageing>(&self, device: &Device, key: &Key) -> Result<&Pool> {
        if let Some(pool) = self.find::<A>(key) {
            return Ok(pool);
        }
        let new = NewPool::new::<A>(device, key)?;
        let _lock = self.lock().write();
        // SAFETY: Locked; the new pool's node is in no tree.
        unsafe {
            match self.search::<A>(key) {
                Ok(pool) => Ok(pool),
                Err((parent, link)) => {
                    let raw = new.into_raw();
                    let node = &raw mut (*raw).node;
                    bindings::rb_link_node(node, parent, link);
                    bindings::rb_insert_color(node, &raw mut (*self.as_raw()).rb_root);
                    Ok(Pool::from_raw(raw))
                }
            }
        }
    }

    fn ops(&self) -> &bindings::ib_frmr_pool_ops {
        // SAFETY: Constant operations of the driver.
        unsafe { &*(*self.as_raw()).pool_ops }
    }

    /// Lets the driver make a handle for each place in `handles`. May sleep.
    pub fn driver_create(&self, device: &Device, key: &Key, handles: &mut [u32]) -> Result {
        let op = self.ops().create_frmrs.ok_or(EOPNOTSUPP)?;
        let mut key = key.0;
        // SAFETY: The driver's operation on its own device, with room for as many handles.
        to_result(unsafe {
            op(
                device.as_raw(),
                &mut key,
                handles.as_mut_ptr(),
                handles.len() as u32,
            )
        })
    }

    /// Lets the driver destroy `handles`. May sleep.
    pub fn driver_destroy(&self, device: &Device, handles: &mut [u32]) {
        if let (Some(op), false) = (self.ops().destroy_frmrs, handles.is_empty()) {
            // SAFETY: The driver's operation on its own device and handles.
            unsafe { op(device.as_raw(), handles.as_mut_ptr(), handles.len() as u32) }
        }
    }

    /// The key by which the driver itself would search for a user's key.
    pub fn driver_key(&self, device: &Device, key: &Key) -> Result<Key> {
        let Some(op) = self.ops().build_key else {
            return Ok(*key);
        };
        let mut out: bindings::ib_frmr_key = pin_init::zeroed();
        // SAFETY: The driver's operation on its own device.
        to_result(unsafe { op(device.as_raw(), &key.0, &mut out) })?;
        Ok(Key(out))
    }
}

/// Whether `device` takes memory regions with these access rights.
pub fn check_access(device: &Device, access: c_int) -> Result {
    // SAFETY: A live device.
    to_result(unsafe { bindings::rdma_check_mr_access(device.as_raw(), access as c_uint) })
}

/// The handle of a region, as the region's driver sees it.
///
/// # Invariants
///
/// Wraps a `struct ib_mr` that its driver is working on.
#[repr(transparent)]
pub struct FrmrMr(Opaque<bindings::ib_mr>);

impl FrmrMr {
    /// # Safety
    ///
    /// `mr` must be the calling driver's for the whole of `'a`.
    pub unsafe fn from_raw<'a>(mr: *mut bindings::ib_mr) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*mr.cast() }
    }

    /// What the handle has to be good for.
    pub fn key(&self) -> Key {
        // SAFETY: Set by the driver.
        unsafe { Key::from_raw(&raw const (*self.0.get()).frmr.key) }
    }

    /// The handle.
    pub fn handle(&self) -> u32 {
        // SAFETY: Set by `set`.
        unsafe { (*self.0.get()).frmr.handle }
    }

    /// The pool that the handle is from.
    pub fn pool(&self) -> Option<&Pool> {
        // SAFETY: Set by `set`; pools outlive the handles taken from them.
        unsafe { (*self.0.get()).frmr.pool.cast::<Pool>().as_ref() }
    }

    /// Sets handle and pool.
    pub fn set(&self, pool: &Pool, handle: u32) {
        // SAFETY: The fields are the core's.
        unsafe {
            (*self.0.get()).frmr.pool = pool.as_raw();
            (*self.0.get()).frmr.handle = handle;
        }
    }
}
