// SPDX-License-Identifier: GPL-2.0

//! Regions in dma-bufs of other drivers.
//!
//! The exporter may move the memory, or take it away, whenever it holds the buffer's reservation
//! lock; the state of a region is guarded by that lock.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use crate::{
    device::Device,
    dma::{
        dma_len,
        sg_next, //
    },
    region::Region,
    umem::Access, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SHIFT,
    prelude::*,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// A reference to an open dma-buf.
struct DmaBuf(NonNull<bindings::dma_buf>);

impl DmaBuf {
    /// The dma-buf that the calling process has open as `fd`.
    fn from_fd(fd: i32) -> Result<Self> {
        // SAFETY: Checks the descriptor itself and returns a reference.
        let buf = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        NonNull::new(buf).map(Self).ok_or(EINVAL)
    }

    fn size(&self) -> u64 {
        // SAFETY: Constant field of a referenced buffer.
        unsafe { self.0.as_ref().size as u64 }
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: The reference is owned.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) }
    }
}

/// How a region deals with the exporter's wish to have its memory back.
#[derive(Clone, Copy)]
pub enum Attach {
    /// By operations of the driver's own.
    Driver(*const bindings::dma_buf_attach_ops),
    /// Pinned, and never given back.
    Pinned,
    /// Pinned, and given back at once.
    Revocable,
}

/// Operations table that is only ever read.
struct Ops(bindings::dma_buf_attach_ops);

// SAFETY: Constant.
unsafe impl Sync for Ops {}

static PINNED: Ops = Ops(bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    ..pin_init::zeroed()
});

static REVOCABLE: Ops = Ops(bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate),
});

impl Attach {
    fn ops(self) -> *const bindings::dma_buf_attach_ops {
        match self {
            Self::Driver(ops) => ops,
            Self::Pinned => &PINNED.0,
            Self::Revocable => &REVOCABLE.0,
        }
    }
}

/// # Safety
///
/// Called by an exporter that holds the reservation lock, with an attachment of
/// [`DmaBufUmem::attach`].
unsafe extern "C" fn invalidate(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: The private pointer is the region, which lives as long as its attachment.
    let umem = unsafe { DmaBufUmem::from_raw((*attach).importer_priv.cast()) };
    // SAFETY: The lock is held by the contract.
    unsafe { umem.revoke_locked() }
}

/// A region in a dma-buf, `struct ib_umem_dmabuf`.
///
/// # Invariants
///
/// Wraps an initialised region with an attachment. All else is guarded by the reservation lock of
/// the dma-buf.
#[repr(transparent)]
pub struct DmaBufUmem(Opaque<bindings::ib_umem_dmabuf>);

impl DmaBufUmem {
    /// # Safety
    ///
    /// `umem` must point at a region made by this module, and nobody may release it during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(umem: *mut bindings::ib_umem_dmabuf) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*umem.cast() }
    }

    /// The wrapped C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_umem_dmabuf {
        self.0.get()
    }

    /// Attaches `dma_device` to `region` (offset and length) of the dma-buf `fd` of the calling
    /// process.
    ///
    /// Errors: `EINVAL` for a region of no bytes or beyond the buffer; those of the descriptor
    /// and of the exporter.
    ///
    /// # Safety
    ///
    /// `dma_device` must be valid; operations of the driver must outlive the region.
    pub unsafe fn attach(
        device: &Device,
        dma_device: *mut bindings::device,
        region: Region,
        fd: i32,
        access: Access,
        how: Attach,
    ) -> Result<OwnedDmaBufUmem> {
        let buf = DmaBuf::from_fd(fd)?;
        if region.end() > buf.size() || region.length() == 0 {
            return Err(EINVAL);
        }
        let mut raw: KBox<bindings::ib_umem_dmabuf> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        raw.umem.ibdev = device.as_raw().cast();
        raw.umem.length = region.length() as usize;
        raw.umem.address = region.start() as c_ulong;
        raw.umem.set_writable(access.writable().into());
        raw.umem.set_is_dmabuf(1);
        let raw_ptr: *mut bindings::ib_umem_dmabuf = &raw mut *raw;
        // SAFETY: The buffer is referenced and the operations stay; the box does not move what it
        // holds.
        raw.attach = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(
                buf.0.as_ptr(),
                dma_device.cast(),
                how.ops(),
                raw_ptr.cast(),
            )
        })?;
        // The attachment's owner keeps the reference to the buffer.
        core::mem::forget(buf);
        // SAFETY: From a box.
        Ok(OwnedDmaBufUmem(unsafe {
            NonNull::new_unchecked(KBox::into_raw(raw))
        }))
    }

    fn resv(&self) -> *mut bindings::dma_resv {
        // SAFETY: Attachment and buffer live as long as the region.
        unsafe { (*(*(*self.as_raw()).attach).dmabuf).resv }
    }

    /// Takes the reservation lock. May sleep.
    pub fn lock(&self) -> ResvGuard<'_> {
        // SAFETY: The lock lives as long as the region. Without a ticket the call cannot fail.
        unsafe { bindings::dma_resv_lock(self.resv(), null_mut()) };
        ResvGuard(self, NotThreadSafe)
    }

    /// Releases the reservation lock that [`ResvGuard::keep`] has left held.
    ///
    /// # Safety
    ///
    /// The calling thread must hold the lock.
    pub unsafe fn unlock(&self) {
        // SAFETY: Held by the contract.
        unsafe { bindings::dma_resv_unlock(self.resv()) }
    }

    /// Maps the region's part of the buffer, if it is not mapped, and waits until its content is
    /// there. May sleep.
    ///
    /// `EINVAL` for a revoked region, `ETIMEDOUT` and others from the exporter.
    ///
    /// # Safety
    ///
    /// The reservation lock must be held.
    pub unsafe fn map_locked(&self) -> Result {
        let raw = self.as_raw();
        // SAFETY: The state is guarded by the lock.
        unsafe {
            if (*raw).revoked() != 0 {
                return Err(EINVAL);
            }
            if (*raw).sgt.is_null() {
                let sgt = from_err_ptr(bindings::dma_buf_map_attachment(
                    (*raw).attach,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                ))?;
                if let Err(e) = self.trim(sgt) {
                    bindings::dma_buf_unmap_attachment(
                        (*raw).attach,
                        sgt,
                        bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    );
                    return Err(e);
                }
                (*raw).sgt = sgt;
            }
            let left = bindings::dma_resv_wait_timeout(
                self.resv(),
                bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
                false,
                c_long::MAX as c_ulong,
            );
            match left {
                0 => Err(ETIMEDOUT),
                left if left < 0 => Err(Error::from_errno(left as c_int)),
                _ => Ok(()),
            }
        }
    }

    /// Cuts the mapped list down to the pages of the region, in place; [`Self::restore`] undoes
    /// it. `EINVAL` if the exporter has mapped less than the region, which leaves the list as it
    /// was.
    ///
    /// # Safety
    ///
    /// The lock must be held; `sgt` must be this attachment's fresh mapping.
    unsafe fn trim(&self, sgt: *mut bindings::sg_table) -> Result {
        let raw = self.as_raw();
        // SAFETY: Constant fields.
        let region = unsafe { Region::new((*raw).umem.address as u64, (*raw).umem.length as u64) };
        let pages = region
            .and_then(|r| r.enclosing(PAGE_SHIFT as u32))
            .ok_or(EINVAL)?;
        // SAFETY: A well-formed list that nobody else edits while the lock is held.
        let find = |addr: u64| unsafe { segment_at(sgt, addr) };
        let (first, offset, first_index) = find(pages.start()).ok_or(EINVAL)?;
        // A buffer may end inside a page; then there is nothing to cut off.
        let end = match find(pages.end() - 1) {
            Some((last, byte, index)) => Some((last, Some(byte), index)),
            None => region
                .and_then(|r| find(r.end() - 1))
                .map(|(last, _, index)| (last, None, index)),
        };
        let (last, last_byte, last_index) = end.ok_or(EINVAL)?;
        // SAFETY: As above; both entries are longer than what is cut off.
        unsafe {
            let trim = last_byte.map_or(0, |byte| *dma_len(last) - byte - 1);
            *dma_len(last) -= trim;
            (*first).dma_address += u64::from(offset);
            *dma_len(first) -= offset;
            (*raw).first_sg = first;
            (*raw).first_sg_offset = offset as c_ulong;
            (*raw).last_sg = last;
            (*raw).last_sg_trim = trim as c_ulong;
            (*raw).umem.sgt_append.sgt.sgl = first;
            (*raw).umem.sgt_append.sgt.nents = last_index - first_index + 1;
        }
        Ok(())
    }

    /// Gives the list back its full length.
    ///
    /// # Safety
    ///
    /// The lock must be held, and the list must be mapped.
    unsafe fn restore(&self) {
        let raw = self.as_raw();
        // SAFETY: The entries belong to the mapped list; the numbers are those of `trim`.
        unsafe {
            if let Some(first) = NonNull::new((*raw).first_sg) {
                let first = first.as_ptr();
                (*first).dma_address -= (*raw).first_sg_offset as u64;
                *dma_len(first) += (*raw).first_sg_offset as u32;
                (*raw).first_sg = null_mut();
                (*raw).first_sg_offset = 0;
            }
            if let Some(last) = NonNull::new((*raw).last_sg) {
                *dma_len(last.as_ptr()) += (*raw).last_sg_trim as u32;
                (*raw).last_sg = null_mut();
                (*raw).last_sg_trim = 0;
            }
        }
    }

    /// Unmaps the buffer, if it is mapped. The device must not use it any more.
    ///
    /// # Safety
    ///
    /// The reservation lock must be held.
    pub unsafe fn unmap_locked(&self) {
        let raw = self.as_raw();
        // SAFETY: The state is guarded by the lock.
        unsafe {
            if (*raw).sgt.is_null() {
                return;
            }
            self.restore();
            bindings::dma_buf_unmap_attachment(
                (*raw).attach,
                (*raw).sgt,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            );
            (*raw).sgt = null_mut();
        }
    }

    /// Pins the buffer where it is.
    ///
    /// # Safety
    ///
    /// The reservation lock must be held.
    unsafe fn pin_locked(&self) -> Result {
        let raw = self.as_raw();
        // SAFETY: The attachment is live and the lock held.
        unsafe {
            to_result(bindings::dma_buf_pin((*raw).attach))?;
            (*raw).set_pinned(1);
        }
        Ok(())
    }

    /// Takes the region away from the device: tells the driver, unmaps and unpins, once.
    ///
    /// # Safety
    ///
    /// The reservation lock must be held.
    pub unsafe fn revoke_locked(&self) {
        let raw = self.as_raw();
        // SAFETY: The state is guarded by the lock; the callback is the driver's own, with its
        // private pointer.
        unsafe {
            if (*raw).revoked() != 0 {
                return;
            }
            if let Some(revoke) = (*raw).pinned_revoke {
                revoke((*raw).private);
            }
            self.unmap_locked();
            if (*raw).pinned() != 0 {
                bindings::dma_buf_unpin((*raw).attach);
                (*raw).set_pinned(0);
            }
            (*raw).set_revoked(1);
        }
    }

    /// Sets what [`Self::revoke_locked`] is to tell the driver.
    ///
    /// # Safety
    ///
    /// The reservation lock must be held; `revoke` must be callable with `private` until the
    /// region is gone.
    pub unsafe fn set_revoke_locked(
        &self,
        revoke: Option<unsafe extern "C" fn(*mut c_void)>,
        private: *mut c_void,
    ) {
        let raw = self.as_raw();
        // SAFETY: The state is guarded by the lock.
        unsafe {
            (*raw).pinned_revoke = revoke;
            (*raw).private = private;
        }
    }

    /// Revokes the region if that has not happened. May sleep.
    pub fn revoke(&self) {
        let _lock = self.lock();
        // SAFETY: Locked.
        unsafe { self.revoke_locked() }
    }
}

/// The entry of a mapped list that holds the byte at `addr` (counted from the start of the
/// buffer), the place of that byte in it, and its index.
///
/// # Safety
///
/// `sgt` must be a well-formed list that nobody edits meanwhile.
unsafe fn segment_at(
    sgt: *mut bindings::sg_table,
    addr: u64,
) -> Option<(*mut bindings::scatterlist, u32, u32)> {
    // SAFETY: Promised by the caller.
    let (mut sg, nents) = unsafe { ((*sgt).sgl, (*sgt).nents) };
    let mut left = addr;
    for index in 0..nents {
        let entry = NonNull::new(sg)?.as_ptr();
        // SAFETY: An entry of the list.
        let length = unsafe { *dma_len(entry) };
        if left < u64::from(length) {
            return Some((entry, left as u32, index));
        }
        left -= u64::from(length);
        // SAFETY: An entry of the list.
        sg = unsafe { sg_next(entry) };
    }
    None
}

/// The reservation lock is held.
pub struct ResvGuard<'a>(&'a DmaBufUmem, NotThreadSafe);

impl ResvGuard<'_> {
    /// Leaves the lock held, for a caller that unlocks it itself.
    pub fn keep(self) {
        core::mem::forget(self);
    }

    /// Pins and maps the region.
    pub fn pin_and_map(&self) -> Result {
        // SAFETY: Locked.
        unsafe {
            self.0.pin_locked()?;
            self.0.map_locked()
        }
    }
}

impl Drop for ResvGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: Held by the guard.
        unsafe { bindings::dma_resv_unlock(self.0.resv()) }
    }
}

/// A region and the right to end it.
///
/// # Invariants
///
/// Points at a live region of this module that this object owns.
pub struct OwnedDmaBufUmem(NonNull<bindings::ib_umem_dmabuf>);

impl OwnedDmaBufUmem {
    /// # Safety
    ///
    /// `umem` must come from [`Self::into_raw`], and be taken back once.
    pub unsafe fn from_raw(umem: NonNull<bindings::ib_umem_dmabuf>) -> Self {
        // INVARIANT: Promised by the caller.
        Self(umem)
    }

    /// Leaves the region to C.
    pub fn into_raw(self) -> NonNull<bindings::ib_umem_dmabuf> {
        ManuallyDrop::new(self).0
    }
}

impl core::ops::Deref for OwnedDmaBufUmem {
    type Target = DmaBufUmem;

    fn deref(&self) -> &DmaBufUmem {
        // SAFETY: Live by the type invariant.
        unsafe { DmaBufUmem::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedDmaBufUmem {
    fn drop(&mut self) {
        self.revoke();
        let raw = self.0.as_ptr();
        // SAFETY: Owned by the type invariant: attachment, reference to the buffer, and memory.
        unsafe {
            let attach = (*raw).attach;
            let buf = (*attach).dmabuf;
            bindings::dma_buf_detach(buf, attach);
            bindings::dma_buf_put(buf);
            drop(KBox::from_raw(raw));
        }
    }
}
