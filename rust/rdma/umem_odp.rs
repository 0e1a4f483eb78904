// SPDX-License-Identifier: GPL-2.0

//! Regions whose pages are fetched when they are needed.
//!
//! The pages are not pinned: the kernel may take them back at any time, and says so through an
//! interval notifier of the driver. `umem_mutex` serialises that with the use of the pages. It is
//! taken during reclaim, so nothing may be allocated under it.
//!
//! C headers: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h),
//! [`include/linux/hmm.h`](srctree/include/linux/hmm.h)

use crate::{
    device::Device,
    mm::GrabbedMm,
    region::Region,
    umem::Access, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    static_lock_class,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Milliseconds after which a fault that cannot be settled is given up.
const FAULT_TIMEOUT_MS: u32 = bindings::HMM_RANGE_DEFAULT_TIMEOUT;

/// An entry of a region's page list: a page frame number and flags in the high bits.
#[derive(Clone, Copy)]
pub struct Pfn(usize);

impl Pfn {
    const VALID: usize = bindings::hmm_pfn_flags_HMM_PFN_VALID;
    const WRITE: usize = bindings::hmm_pfn_flags_HMM_PFN_WRITE;
    const ERROR: usize = bindings::hmm_pfn_flags_HMM_PFN_ERROR;
    const MAPPED: usize = bindings::hmm_pfn_flags_HMM_PFN_DMA_MAPPED;
    const FLAGS: usize = bindings::hmm_pfn_flags_HMM_PFN_FLAGS;

    /// Whether there is a page.
    pub fn is_valid(self) -> bool {
        self.0 & Self::VALID != 0
    }

    /// Whether fetching the page has failed.
    pub fn is_error(self) -> bool {
        self.0 & Self::ERROR != 0
    }

    /// Whether the page is mapped for the device.
    pub fn is_mapped(self) -> bool {
        self.0 & Self::MAPPED != 0
    }

    /// Binary logarithm of the size in bytes of the mapping that the page is part of.
    pub fn mapping_shift(self) -> u32 {
        let order = (self.0 >> bindings::hmm_pfn_flags_HMM_PFN_ORDER_SHIFT) & 0x1f;
        order as u32 + PAGE_SHIFT as u32
    }
}

/// What a fault is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Take only pages that are there.
    Snapshot,
    /// Fetch the pages for reading.
    Read,
    /// Fetch the pages for writing.
    Write,
}

impl Fault {
    /// From a driver's access mask and its wish to fault.
    pub fn new(access_mask: u64, fault: bool) -> Self {
        match (fault, access_mask & Pfn::WRITE as u64 != 0) {
            (false, _) => Self::Snapshot,
            (true, false) => Self::Read,
            (true, true) => Self::Write,
        }
    }

    fn flags(self) -> usize {
        let read = bindings::hmm_pfn_flags_HMM_PFN_REQ_FAULT;
        match self {
            Self::Snapshot => 0,
            Self::Read => read,
            Self::Write => read | bindings::hmm_pfn_flags_HMM_PFN_REQ_WRITE,
        }
    }
}

/// How the device reaches the pages; decides who maps them and how the lists are kept.
enum Mapping<'a> {
    /// By kernel addresses: the list holds page frames only.
    Virtual,
    /// By the DMA layer, for this device.
    Dma(&'a Device),
}

impl<'a> Mapping<'a> {
    fn of(device: &'a Device) -> Self {
        if device.uses_virt_dma() {
            Self::Virtual
        } else {
            Self::Dma(device)
        }
    }

    /// Makes empty lists for `pages` system pages in units of `unit` bytes.
    ///
    /// # Safety
    ///
    /// `map` must be writable and without lists.
    unsafe fn alloc(&self, map: *mut bindings::hmm_dma_map, pages: u64, unit: usize) -> Result {
        match self {
            Self::Virtual => {
                let mut list =
                    KVVec::<usize>::with_capacity(pages as usize, GFP_KERNEL | __GFP_NOWARN)?;
                list.resize(pages as usize, 0, GFP_KERNEL)?;
                let (ptr, _, _) = list.into_raw_parts();
                // SAFETY: Writable by the contract.
                unsafe { (*map).pfn_list = ptr.cast() };
                Ok(())
            }
            // SAFETY: Writable by the contract; the device does DMA.
            Self::Dma(device) => to_result(unsafe {
                bindings::hmm_dma_map_alloc(
                    device.dma_device_raw().cast(),
                    map,
                    pages as usize,
                    unit,
                )
            }),
        }
    }

    /// # Safety
    ///
    /// `map` must hold lists that [`Self::alloc`] has made, without mapped pages.
    unsafe fn free(&self, map: *mut bindings::hmm_dma_map) {
        match self {
            // SAFETY: Allocated by `KVVec`, whose memory is `kvfree`'s.
            Self::Virtual => unsafe { bindings::kvfree((*map).pfn_list.cast()) },
            // SAFETY: Made for this device.
            Self::Dma(device) => unsafe {
                bindings::hmm_dma_map_free(device.dma_device_raw().cast(), map)
            },
        }
    }

    /// Unmaps the page of unit `index`; `true` if it was mapped.
    ///
    /// # Safety
    ///
    /// `map` must hold lists that reach to `index`, and be locked.
    unsafe fn unmap(&self, map: *mut bindings::hmm_dma_map, index: usize) -> bool {
        match self {
            Self::Virtual => false,
            // SAFETY: Promised by the caller.
            Self::Dma(device) => unsafe {
                bindings::hmm_dma_unmap_pfn(device.dma_device_raw().cast(), map, index)
            },
        }
    }
}

/// A process, by its thread group's id.
struct Tgid(NonNull<bindings::pid>);

impl Tgid {
    fn current() -> Result<Self> {
        // SAFETY: The current task is valid; a reference is returned.
        let pid = unsafe {
            bindings::get_task_pid(bindings::get_current(), bindings::pid_type_PIDTYPE_TGID)
        };
        NonNull::new(pid).map(Self).ok_or(EINVAL)
    }

    fn into_raw(self) -> *mut bindings::pid {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Tgid {
    fn drop(&mut self) {
        // SAFETY: The reference is owned.
        unsafe { bindings::put_pid(self.0.as_ptr()) }
    }
}

/// The address space of a region's owner, kept alive together with the owner.
pub struct Owner {
    mm: NonNull<bindings::mm_struct>,
    task: NonNull<bindings::task_struct>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: Both references are owned. The last user of the address space must not tear it
        // down here, where a driver may hold locks that the tear-down takes.
        unsafe {
            bindings::mmput_async(self.mm.as_ptr());
            bindings::put_task_struct(self.task.as_ptr());
        }
    }
}

/// A living address space.
struct LiveMm(NonNull<bindings::mm_struct>);

impl LiveMm {
    /// # Safety
    ///
    /// `mm` must be kept as an object, at least by `mmgrab`.
    unsafe fn get(mm: *mut bindings::mm_struct) -> Option<Self> {
        let mm = NonNull::new(mm)?;
        // SAFETY: The object is there by the contract.
        let alive = unsafe { bindings::mmget_not_zero(mm.as_ptr()) };
        // Made only then: dropping it gives the reference back.
        alive.then(|| Self(mm))
    }
}

impl Drop for LiveMm {
    fn drop(&mut self) {
        // SAFETY: The reference is owned.
        unsafe { bindings::mmput(self.0.as_ptr()) }
    }
}

/// The driver's interval notifier operations.
pub type NotifierOps = *const bindings::mmu_interval_notifier_ops;

/// An on-demand region, `struct ib_umem_odp`.
///
/// # Invariants
///
/// Wraps an initialised region. The notifier's interval is constant, and the page list has an
/// entry for each system page of it.
#[repr(transparent)]
pub struct OdpUmem(Opaque<bindings::ib_umem_odp>);

impl OdpUmem {
    /// # Safety
    ///
    /// `odp` must point at a region from this module, and nobody may release it during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(odp: *mut bindings::ib_umem_odp) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*odp.cast() }
    }

    /// The wrapped C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_umem_odp {
        self.0.get()
    }

    fn device(&self) -> &Device {
        // SAFETY: A region keeps its device.
        unsafe { Device::from_raw((*self.as_raw()).umem.ibdev.cast()) }
    }

    /// Whether the region only stands for the whole address space, without pages of its own.
    pub fn is_implicit(&self) -> bool {
        // SAFETY: Constant field.
        unsafe { (*self.as_raw()).is_implicit_odp }
    }

    /// Binary logarithm of the size of the region's pages.
    pub fn page_shift(&self) -> u32 {
        // SAFETY: Constant field.
        unsafe { (*self.as_raw()).page_shift }
    }

    /// The addresses that the region's notifier watches. Nothing for an implicit region.
    pub fn interval(&self) -> Option<Region> {
        if self.is_implicit() {
            return None;
        }
        // SAFETY: Constant once the notifier is in place.
        let (start, last) = unsafe {
            let tree = &raw const (*self.as_raw()).notifier.interval_tree;
            ((*tree).start as u64, (*tree).last as u64)
        };
        Region::new(start, last.wrapping_sub(start).checked_add(1)?)
    }

    /// The owner's address space, while both are alive.
    pub fn owner(&self) -> Option<Owner> {
        let raw = self.as_raw();
        // SAFETY: The region holds the id; the call returns a reference.
        let task = NonNull::new(unsafe {
            bindings::get_pid_task((*raw).tgid, bindings::pid_type_PIDTYPE_PID)
        })?;
        // SAFETY: The notifier keeps the mm as an object.
        match unsafe { LiveMm::get((*raw).umem.owning_mm) } {
            Some(mm) => Some(Owner {
                mm: ManuallyDrop::new(mm).0,
                task,
            }),
            None => {
                // SAFETY: The reference is owned.
                unsafe { bindings::put_task_struct(task.as_ptr()) };
                None
            }
        }
    }

    /// First entry of the page list for `range`, which lies in the interval.
    fn list_at(&self, range: Region) -> Option<*mut c_ulong> {
        let interval = self.interval()?;
        if !interval.contains(range) {
            return None;
        }
        let index = (range.start() - interval.start()) >> PAGE_SHIFT;
        // SAFETY: The list has an entry for each page of the interval.
        Some(unsafe { (*self.as_raw()).map.pfn_list.add(index as usize) })
    }

    /// Writes what is known of the pages of `range` to the page list. Returns the sequence number
    /// by which [`OdpGuard::is_current`] tells whether it is still true.
    ///
    /// `owner` keeps the address space. May sleep; must not be called under `umem_mutex`.
    pub fn fault(&self, range: Region, fault: Fault, _owner: &Owner) -> Result<usize> {
        let list = self.list_at(range).ok_or(EFAULT)?;
        let raw = self.as_raw();
        let mut hmm = bindings::hmm_range {
            // SAFETY: Field address within a live region.
            notifier: unsafe { &raw mut (*raw).notifier },
            start: range.start() as c_ulong,
            end: range.end() as c_ulong,
            hmm_pfns: list,
            default_flags: fault.flags() as c_ulong,
            ..pin_init::zeroed()
        };
        // SAFETY: The notifier is in place, the mm alive, and the list has room for the range.
        to_result(unsafe {
            bindings::hmm_range_fault_unlocked_timeout(
                &mut hmm,
                msecs_to_jiffies(FAULT_TIMEOUT_MS) as c_ulong,
            )
        })?;
        Ok(hmm.notifier_seq)
    }

    /// Takes `umem_mutex`. May sleep.
    pub fn lock(&self) -> OdpGuard<'_> {
        // SAFETY: The mutex is set up with the region.
        unsafe { bindings::mutex_lock(&raw mut (*self.as_raw()).umem_mutex) };
        OdpGuard(self)
    }

    /// Forgets the pages of `start..end`, as far as they belong to the region, and tells the
    /// kernel which of them the device may have written. The device must not use them any more.
    ///
    /// # Safety
    ///
    /// `umem_mutex` must be held.
    pub unsafe fn unmap_locked(&self, start: u64, end: u64) {
        let raw = self.as_raw();
        let shift = self.page_shift();
        let Some(interval) = self.interval() else {
            return;
        };
        let Some(range) = interval.clamp(start, end) else {
            return;
        };
        let mapping = Mapping::of(self.device());
        let first = (range.start() - interval.start()) >> shift;
        let last = (range.end() - 1 - interval.start()) >> shift;
        // SAFETY: The list is as long as the interval, and locked.
        unsafe {
            let map = &raw mut (*raw).map;
            for index in first as usize..=last as usize {
                let entry = (*map).pfn_list.add(index);
                let pfn = *entry;
                if mapping.unmap(map, index) {
                    if pfn & Pfn::WRITE != 0 {
                        bindings::rdma_pfn_set_dirty(pfn);
                    }
                    (*raw).npages = (*raw).npages.wrapping_sub(1);
                }
                *entry &= !(Pfn::FLAGS as c_ulong);
            }
        }
    }

    /// Ends a region. May sleep, and waits for the notifier.
    ///
    /// # Safety
    ///
    /// `odp` must be owned by the caller, and is gone afterwards. The device must not use its
    /// pages any more.
    pub unsafe fn release(odp: *mut bindings::ib_umem_odp) {
        // SAFETY: Live by the contract.
        let this = unsafe { OdpUmem::from_raw(odp) };
        if !this.is_implicit() {
            let guard = this.lock();
            // SAFETY: Locked.
            unsafe { this.unmap_locked(0, u64::MAX) };
            drop(guard);
            // SAFETY: The notifier was put in place when the region was made; the lists hold no
            // mapped pages now.
            unsafe {
                bindings::mmu_interval_notifier_remove(&raw mut (*odp).notifier);
                Mapping::of(this.device()).free(&raw mut (*odp).map);
            }
        } else {
            // SAFETY: An implicit region holds its own reference.
            drop(unsafe { GrabbedMm::from_raw((*odp).umem.owning_mm) });
        }
        // SAFETY: The region holds a reference on the id, and was allocated as a box.
        unsafe {
            bindings::put_pid((*odp).tgid);
            drop(KBox::from_raw(odp.cast::<OdpUmem>()));
        }
    }
}

/// `umem_mutex` of a region is held.
pub struct OdpGuard<'a>(&'a OdpUmem);

impl OdpGuard<'_> {
    /// Whether the page list still tells what it told when [`OdpUmem::fault`] returned `sequence`.
    pub fn is_current(&self, sequence: usize) -> bool {
        // SAFETY: A word; changes of it to another value happen under the mutex, which the
        // driver's notifier takes.
        let now =
            unsafe { (&raw const (*self.0.as_raw()).notifier.invalidate_seq).read_volatile() };
        now == sequence
    }

    /// The entries of `range`, one for each of the region's own pages.
    pub fn pfns(&self, range: Region) -> impl Iterator<Item = Pfn> + '_ {
        let step = 1usize << (self.0.page_shift().saturating_sub(PAGE_SHIFT as u32));
        let list = self.0.list_at(range);
        (0..range.pages() as usize)
            .step_by(step)
            .filter_map(move |i| {
                // SAFETY: The list has an entry for each page of the range, and is locked.
                list.map(|list| Pfn(unsafe { *list.add(i) }))
            })
    }

    /// Leaves the mutex held, for a caller that unlocks it itself.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for OdpGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: Held by the guard.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.as_raw()).umem_mutex) };
    }
}

/// Memory for a region, with what all kinds of it share.
fn alloc(device: &Device, writable: bool, page_shift: u32, tgid: Tgid) -> Result<OdpBox> {
    let mut raw: KBox<bindings::ib_umem_odp> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
    raw.umem.ibdev = device.as_raw().cast();
    raw.umem.set_writable(writable.into());
    raw.umem.set_is_odp(1);
    raw.page_shift = page_shift;
    raw.tgid = tgid.into_raw();
    let raw = KBox::into_raw(raw);
    // SAFETY: The memory does not move any more.
    unsafe {
        bindings::__mutex_init(
            &raw mut (*raw).umem_mutex,
            c"umem_odp->umem_mutex".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
    }
    // SAFETY: From a box.
    Ok(OdpBox(unsafe { NonNull::new_unchecked(raw) }))
}

/// A region that no notifier watches yet. Dropping it frees the memory and the id.
struct OdpBox(NonNull<bindings::ib_umem_odp>);

impl OdpBox {
    fn into_raw(self) -> NonNull<bindings::ib_umem_odp> {
        ManuallyDrop::new(self).0
    }

    /// Makes the page lists and puts the notifier in place.
    ///
    /// # Safety
    ///
    /// `mm` must be alive; `ops` must outlive the region.
    unsafe fn watch(
        self,
        device: &Device,
        region: Region,
        mm: *mut bindings::mm_struct,
        ops: NotifierOps,
    ) -> Result<NonNull<bindings::ib_umem_odp>> {
        let raw = self.0.as_ptr();
        // SAFETY: The region is this function's own.
        let shift = unsafe { (*raw).page_shift };
        let interval = region.enclosing(shift).ok_or(EOVERFLOW)?;
        if interval.length() == 0 {
            return Err(EINVAL);
        }
        let mapping = Mapping::of(device);
        // SAFETY: The region is this function's own and has no lists yet; the mm is alive.
        unsafe {
            (*raw).umem.length = region.length() as usize;
            (*raw).umem.address = region.start() as c_ulong;
            (*raw).umem.owning_mm = mm;
            (*raw).notifier.ops = ops;
            // The notifier takes the mutex, during reclaim too: lockdep should know from the
            // start.
            bindings::rdma_reclaim_lock_hint(&raw mut (*raw).umem_mutex);

            let map = &raw mut (*raw).map;
            mapping.alloc(map, interval.length() / PAGE_SIZE as u64, 1 << shift)?;
            let inserted = to_result(bindings::mmu_interval_notifier_insert(
                &raw mut (*raw).notifier,
                mm,
                interval.start() as c_ulong,
                interval.length() as c_ulong,
                ops,
            ));
            if let Err(e) = inserted {
                mapping.free(map);
                return Err(e);
            }
        }
        Ok(self.into_raw())
    }
}

impl Drop for OdpBox {
    fn drop(&mut self) {
        // SAFETY: The region is owned and unwatched; it holds a reference on the id.
        unsafe {
            bindings::put_pid(self.0.as_ref().tgid);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// A region that stands for the whole address space of the calling process.
pub fn new_implicit(device: &Device, access: Access) -> Result<NonNull<bindings::ib_umem_odp>> {
    let mm = GrabbedMm::current().ok_or(EINVAL)?;
    let odp = alloc(
        device,
        access.writable(),
        PAGE_SHIFT as u32,
        Tgid::current()?,
    )?
    .into_raw();
    // SAFETY: New, and this function's own. No notifier keeps the mm, so the region does.
    unsafe {
        (*odp.as_ptr()).umem.owning_mm = mm.into_raw();
        (*odp.as_ptr()).is_implicit_odp = true;
    }
    Ok(odp)
}

/// Part of an implicit region, with pages.
///
/// `EFAULT` when the address space is gone.
///
/// # Safety
///
/// `ops` must outlive the region.
pub unsafe fn new_child(
    root: &OdpUmem,
    region: Region,
    ops: NotifierOps,
) -> Result<NonNull<bindings::ib_umem_odp>> {
    // SAFETY: Constant fields of a live region, which holds its mm and its owner's id.
    let (mm, tgid, writable) = unsafe {
        let raw = root.as_raw();
        let tgid = bindings::rdma_get_pid((*raw).tgid);
        (
            LiveMm::get((*raw).umem.owning_mm),
            NonNull::new(tgid).map(Tgid).ok_or(EINVAL)?,
            (*raw).umem.writable() != 0,
        )
    };
    let mm = mm.ok_or(EFAULT)?;
    let device = root.device();
    let odp = alloc(device, writable, PAGE_SHIFT as u32, tgid)?;
    // SAFETY: The mm is alive; the operations are promised.
    unsafe { odp.watch(device, region, mm.0.as_ptr(), ops) }
}

/// A region of the calling process.
///
/// # Safety
///
/// `ops` must outlive the region.
pub unsafe fn new(
    device: &Device,
    region: Region,
    access: Access,
    ops: NotifierOps,
) -> Result<NonNull<bindings::ib_umem_odp>> {
    // A device that uses kernel addresses has no page table for which the size would matter, and
    // its driver looks each system page up by itself.
    let shift = if access.hugetlb() && !device.uses_virt_dma() {
        // SAFETY: Returns a constant.
        unsafe { bindings::rdma_huge_page_shift() }
    } else {
        PAGE_SHIFT as u32
    };
    // SAFETY: The current task's mm is alive while the task runs here.
    let mm = NonNull::new(unsafe { (*bindings::get_current()).mm }).ok_or(EINVAL)?;
    let odp = alloc(device, access.writable(), shift, Tgid::current()?)?;
    // SAFETY: The mm is alive; the operations are promised.
    unsafe { odp.watch(device, region, mm.as_ptr(), ops) }
}
