// SPDX-License-Identifier: GPL-2.0

//! User memory regions as drivers see them.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::{
    device::Device,
    dma::{
        map_table,
        sg_next,
        unmap_table,
        DmaExt,
        SgCursor, //
    },
    mm::{
        resched_point,
        PageBatch,
        PinCharge, //
    },
    page_run::{
        self,
        Stretch, //
    },
    region::Region, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

/// Access rights of a memory region, `enum ib_access_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    const WRITABLE: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | bindings::ib_access_flags_IB_ACCESS_MW_BIND;

    /// From the bits that C passes.
    pub fn from_bits(bits: c_int) -> Self {
        Self(bits as u32)
    }

    /// The bits that C passes.
    pub fn bits(self) -> c_int {
        self.0 as c_int
    }

    /// Whether the memory behind the region may be written: by its owner, by a peer, or after a
    /// window has been bound to it.
    pub fn writable(self) -> bool {
        self.0 & Self::WRITABLE != 0
    }

    /// Whether pages are to be fetched when they are needed.
    pub fn on_demand(self) -> bool {
        self.0 & bindings::ib_access_flags_IB_ACCESS_ON_DEMAND != 0
    }

    /// Whether the region promises to lie in huge pages.
    pub fn hugetlb(self) -> bool {
        self.0 & bindings::ib_access_flags_IB_ACCESS_HUGETLB != 0
    }

    /// DMA attributes for memory of these rights.
    fn dma_attrs(self) -> usize {
        let mut attrs = bindings::DMA_ATTR_REQUIRE_COHERENT;
        if self.0 & bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING != 0 {
            attrs |= bindings::DMA_ATTR_WEAK_ORDERING;
        }
        attrs as usize
    }
}

/// How a region holds its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages pinned for the life of the region.
    Pinned,
    /// Pages fetched on demand.
    OnDemand,
    /// Memory of a dma-buf.
    DmaBuf,
}

/// A memory region, `struct ib_umem`.
///
/// # Invariants
///
/// Wraps an initialised `struct ib_umem`. Its identity (device, address, length, rights, kind) is
/// constant; `iova` belongs to the driver that owns the region.
#[repr(transparent)]
pub struct Umem(Opaque<bindings::ib_umem>);

impl Umem {
    /// # Safety
    ///
    /// `umem` must point at a region made by the functions of the core, and the caller must own
    /// it during `'a` (nobody releases it meanwhile).
    #[inline]
    pub unsafe fn from_raw<'a>(umem: *mut bindings::ib_umem) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*umem.cast() }
    }

    /// The wrapped C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_umem {
        self.0.get()
    }

    /// Which of the three kinds of region this is.
    pub fn kind(&self) -> Kind {
        let raw = self.as_raw();
        // SAFETY: Constant bits of a live region.
        let (dmabuf, odp) = unsafe { ((*raw).is_dmabuf() != 0, (*raw).is_odp() != 0) };
        match (dmabuf, odp) {
            (true, _) => Kind::DmaBuf,
            (false, true) => Kind::OnDemand,
            (false, false) => Kind::Pinned,
        }
    }

    /// User address, or offset in the dma-buf.
    pub fn address(&self) -> u64 {
        // SAFETY: Constant field of a live region.
        unsafe { (*self.as_raw()).address as u64 }
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        // SAFETY: Constant field of a live region.
        unsafe { (*self.as_raw()).length as u64 }
    }

    /// Whether the pages were obtained for writing.
    pub fn writable(&self) -> bool {
        // SAFETY: Constant bit of a live region.
        unsafe { (*self.as_raw()).writable() != 0 }
    }

    /// Records the address by which the device will know the region's first byte.
    pub fn set_iova(&self, iova: u64) {
        // SAFETY: The field belongs to the region's owner, who makes this call.
        unsafe { (*self.as_raw()).iova = iova }
    }

    /// Binary logarithm of the page size of an on-demand region; `None` for other kinds.
    pub fn on_demand_page_shift(&self) -> Option<u32> {
        if self.kind() != Kind::OnDemand {
            return None;
        }
        let odp = self.as_raw().cast::<bindings::ib_umem_odp>();
        // SAFETY: On-demand regions are embedded at offset 0 of their own structure.
        Some(unsafe { (*odp).page_shift })
    }

    /// The DMA-mapped memory, in order.
    pub fn dma_segments(&self) -> SgCursor<'_> {
        let raw = self.as_raw();
        // SAFETY: The list is complete before the region is handed out, and stays until it is
        // released.
        unsafe { SgCursor::new((*raw).sgt_append.sgt.sgl, (*raw).sgt_append.sgt.nents) }
    }

    /// Copies `dst.len()` bytes from `offset` (counted from the first page's start) out of the
    /// region's pages; returns how many there were.
    ///
    /// # Safety
    ///
    /// `dst` must be writable for `len` bytes.
    pub unsafe fn copy_out(&self, dst: *mut c_void, len: usize, offset: u64) -> usize {
        let raw = self.as_raw();
        // SAFETY: The page list stays as long as the region; `dst` is promised.
        unsafe {
            bindings::sg_pcopy_to_buffer(
                (*raw).sgt_append.sgt.sgl,
                (*raw).sgt_append.sgt.orig_nents,
                dst,
                len,
                offset as bindings::off_t,
            )
        }
    }

    /// Frees a region of any kind, by the kind's own function.
    ///
    /// # Safety
    ///
    /// The caller must own the region, and must not use it afterwards. `umem` must not be null.
    #[inline]
    pub unsafe fn release(umem: *mut bindings::ib_umem) {
        // SAFETY: A live region by the contract.
        match unsafe { Umem::from_raw(umem) }.kind() {
            // SAFETY: Dma-buf regions are embedded at offset 0 of their own structure.
            Kind::DmaBuf => unsafe { bindings::ib_umem_dmabuf_release(umem.cast()) },
            // SAFETY: On-demand regions are embedded at offset 0 of their own structure.
            Kind::OnDemand => unsafe { bindings::ib_umem_odp_release(umem.cast()) },
            // SAFETY: Owned and of the pinned kind.
            Kind::Pinned => drop(unsafe { PinnedUmem::from_raw(umem) }),
        }
    }
}

/// A region under construction: pages are pinned and recorded, the device does not know them yet.
///
/// # Invariants
///
/// The append table holds exactly the pages that this object has pinned.
pub struct UmemBuilder<'a> {
    umem: ManuallyDrop<KBox<Umem>>,
    device: &'a Device,
}

impl<'a> UmemBuilder<'a> {
    /// A region of no pages yet.
    pub fn new(device: &'a Device, region: Region, access: Access) -> Result<Self> {
        let mut raw: bindings::ib_umem = pin_init::zeroed();
        raw.ibdev = device.as_raw().cast();
        raw.length = region.length() as usize;
        raw.address = region.start() as c_ulong;
        raw.iova = region.start();
        raw.dma_attrs = access.dma_attrs();
        raw.set_writable(access.writable().into());
        let umem = KBox::new(Umem(Opaque::new(raw)), GFP_KERNEL)?;
        // INVARIANT: The table is empty and nothing is pinned.
        Ok(Self {
            umem: ManuallyDrop::new(umem),
            device,
        })
    }

    /// Records the pages of `batch`, of which `more` are still to come, and takes over their pins.
    pub fn append(&mut self, batch: &mut PageBatch, more: u64) -> Result {
        let most = self.device.max_segment() as usize / PAGE_SIZE;
        let number = |page: *mut bindings::page| {
            // SAFETY: Asks for the number of a page that the batch has pinned.
            unsafe { bindings::rdma_page_number(page) as usize }
        };
        if most < page_run::WORTH {
            let count = batch.pages().len();
            return self.append_pages(batch, count, more);
        }
        while let Some(stretch) = page_run::first(batch.pages(), most, number) {
            let (Stretch::Run(pages) | Stretch::Mixed(pages)) = stretch;
            let left = more.saturating_add((batch.pages().len() - pages) as u64);
            match stretch {
                Stretch::Run(_) => self.append_run(batch, pages, most, left)?,
                Stretch::Mixed(_) => self.append_pages(batch, pages, left)?,
            }
        }
        Ok(())
    }

    /// Records the first `count` pages of `batch` as they are; at most `left` entries follow.
    fn append_pages(&mut self, batch: &mut PageBatch, count: usize, left: u64) -> Result {
        let raw = self.umem.as_raw();
        let pages = batch.pages().get_mut(..count).ok_or(EINVAL)?;
        // SAFETY: The table is this object's own, without an end yet; the pages are valid. On
        // failure the table keeps what it had.
        to_result(unsafe {
            bindings::sg_alloc_append_table_from_pages(
                &mut (*raw).sgt_append,
                pages.as_mut_ptr(),
                count as c_uint,
                0,
                count * PAGE_SIZE,
                self.device.max_segment(),
                left.min(u64::from(u32::MAX)) as c_uint,
                bindings::GFP_KERNEL,
            )
        })?;
        // INVARIANT: The pins have moved from the batch to the table.
        batch.disown(count);
        Ok(())
    }

    /// Records the first `count` pages of `batch`, which lie one after another and are no more than
    /// `limit`: the first one as any, the others as the growth of its entry, as far as an entry may
    /// grow, to `limit` pages. At most `left` entries follow for other pages.
    fn append_run(
        &mut self,
        batch: &mut PageBatch,
        count: usize,
        limit: usize,
        left: u64,
    ) -> Result {
        let raw = self.umem.as_raw();
        // SAFETY: This object's own field.
        let empty = unsafe { (*raw).sgt_append.prv.is_null() };
        // In a table with entries the first page may fill up the last one, and the run need more.
        let own = if empty { 0 } else { count - 1 };
        self.append_pages(batch, 1, left.saturating_add(own as u64))?;
        // SAFETY: The call above has left the entry of the first page there, of whole pages and
        // not above the limit.
        let entry = unsafe { &mut *(*raw).sgt_append.prv };
        let room = limit.saturating_sub(entry.length as usize / PAGE_SIZE);
        let grown = room.min(count - 1);
        // Does not overflow, as the limit is in bytes of the same type.
        entry.length = entry.length.wrapping_add((grown * PAGE_SIZE) as c_uint);
        // INVARIANT: The entry covers these pages now, and they count as the table's.
        batch.disown(grown);
        Ok(())
    }

    /// Maps the pages for the device. The region keeps `charge` until it is released.
    pub fn map(self, charge: PinCharge) -> Result<PinnedUmem> {
        let raw = self.umem.as_raw();
        // SAFETY: This object's own field.
        let last = NonNull::new(unsafe { (*raw).sgt_append.prv }).ok_or(EINVAL)?;
        // SAFETY: The table is complete and this object's own, and this its last entry.
        unsafe {
            bindings::sg_mark_end(last.as_ptr());
            map_table(self.device, &mut (*raw).sgt_append.sgt, (*raw).dma_attrs)?;
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the box is moved out once.
        let umem = unsafe { ManuallyDrop::take(&mut this.umem) };
        // INVARIANT: Mapped, pinned, charged.
        Ok(PinnedUmem {
            umem: ManuallyDrop::new(umem),
            charge: Some(charge),
        })
    }
}

impl Drop for UmemBuilder<'_> {
    fn drop(&mut self) {
        // SAFETY: Not mapped; the pages in the table are pinned by the type invariant. Nothing can
        // have written to them through the device.
        unsafe { unpin_table(self.umem.as_raw(), false) };
        // SAFETY: Dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.umem) };
    }
}

/// A pinned and mapped region.
///
/// Dropping it unmaps and unpins the pages and returns the charge. That may take long and sleeps.
///
/// # Invariants
///
/// The table holds pinned pages that are mapped for the device.
pub struct PinnedUmem {
    umem: ManuallyDrop<KBox<Umem>>,
    charge: Option<PinCharge>,
}

impl PinnedUmem {
    /// Hands the region to C, which gives it back to [`Umem::release`].
    pub fn into_raw(self) -> *mut bindings::ib_umem {
        let mut this = ManuallyDrop::new(self);
        let raw = this.umem.as_raw();
        let mm = this
            .charge
            .take()
            .map_or(core::ptr::null_mut(), PinCharge::into_raw);
        // SAFETY: The region is still this function's own.
        unsafe { (*raw).owning_mm = mm };
        raw
    }

    /// # Safety
    ///
    /// `umem` must come from [`Self::into_raw`] and be taken back once.
    unsafe fn from_raw(umem: *mut bindings::ib_umem) -> Self {
        // SAFETY: Allocated as a box by `UmemBuilder::new`.
        let umem = unsafe { KBox::from_raw(umem.cast::<Umem>()) };
        // The pages that were charged follow from the address. They must not be computed from
        // `iova`, which the driver may have set to any offset inside a page since.
        let pages = Region::new(umem.address(), umem.length()).map_or(0, Region::pages);
        // SAFETY: The mm was put there by `into_raw`, for that many pages.
        let charge = unsafe { PinCharge::from_raw((*umem.as_raw()).owning_mm, pages) };
        // INVARIANT: As it was when handed out.
        Self {
            umem: ManuallyDrop::new(umem),
            charge,
        }
    }
}

impl Drop for PinnedUmem {
    fn drop(&mut self) {
        let raw = self.umem.as_raw();
        // SAFETY: The region is this object's own and mapped by the type invariant; the device
        // outlives its regions.
        unsafe {
            unmap_table(
                Device::from_raw((*raw).ibdev.cast()),
                &mut (*raw).sgt_append.sgt,
                (*raw).dma_attrs,
            );
            unpin_table(raw, self.umem.writable());
            ManuallyDrop::drop(&mut self.umem);
        }
    }
}

/// Entries after which the release of a long list lets others run.
const RELEASE_BATCH: u32 = 4096;

/// Unpins all pages of a region's table, marks them dirty if `dirty`, and frees the table.
///
/// # Safety
///
/// The table must be the caller's own, hold pinned pages, and not be mapped any more.
unsafe fn unpin_table(umem: *mut bindings::ib_umem, dirty: bool) {
    // SAFETY: The caller owns the region.
    let (mut sg, count) = unsafe {
        (
            (*umem).sgt_append.sgt.sgl,
            (*umem).sgt_append.sgt.orig_nents,
        )
    };
    for i in 1..=count {
        let Some(entry) = NonNull::new(sg) else { break };
        let entry = entry.as_ptr();
        // SAFETY: One of the `count` entries of the list; its pages are pinned.
        unsafe {
            let page = ((*entry).page_link & !0x3) as *mut bindings::page;
            let pages = ((*entry).length as usize).div_ceil(PAGE_SIZE);
            bindings::unpin_user_page_range_dirty_lock(page, pages, dirty);
        }
        if i % RELEASE_BATCH == 0 {
            resched_point();
        }
        // SAFETY: An entry of a well-formed list.
        sg = unsafe { sg_next(entry) };
    }
    // SAFETY: The table is the caller's own and no longer refers to pins.
    unsafe { bindings::sg_free_append_table(&mut (*umem).sgt_append) };
}

/// Pins part of a dma-buf as a region, which the caller then owns.
pub fn pin_dmabuf(
    device: &Device,
    offset: u64,
    length: u64,
    fd: i32,
    access: Access,
) -> Result<NonNull<bindings::ib_umem>> {
    // SAFETY: The device is live; the function checks its other arguments itself.
    let umem = from_err_ptr(unsafe {
        bindings::ib_umem_dmabuf_get_pinned(
            device.as_raw(),
            offset as c_ulong,
            length as usize,
            fd,
            access.bits(),
        )
    })?;
    // The region is the first member.
    NonNull::new(umem.cast()).ok_or(EINVAL)
}
