// SPDX-License-Identifier: GPL-2.0

//! Memory regions (`struct ib_mr`). Their memory is the driver's.

mod access;
mod sg;

pub use access::Access;
pub use sg::{
    PageSetter,
    SgList, //
};

use crate::{
    device::Device,
    object::{c_object, driver_op, track_foreign, Owner},
    pd::Pd,
    udata::Udata,
    usecnt::UseCount,
};
use core::ptr::{self, NonNull};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
};

c_object! {
    /// A memory region.
    pub struct Mr(ib_mr);
}

/// What a region is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MrKind {
    /// Fast registration of whole pages.
    MemReg,
    /// Fast registration of arbitrary segments.
    SgGaps,
    /// Device memory.
    DeviceMemory,
    /// User memory.
    User,
    /// All DMA memory.
    Dma,
    /// Data with protection information.
    Integrity,
    /// A value that this core does not know, for the driver to judge.
    Other(u32),
}

impl MrKind {
    const KNOWN: [(Self, bindings::ib_mr_type); 6] = [
        (Self::MemReg, bindings::ib_mr_type_IB_MR_TYPE_MEM_REG),
        (Self::SgGaps, bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS),
        (Self::DeviceMemory, bindings::ib_mr_type_IB_MR_TYPE_DM),
        (Self::User, bindings::ib_mr_type_IB_MR_TYPE_USER),
        (Self::Dma, bindings::ib_mr_type_IB_MR_TYPE_DMA),
        (Self::Integrity, bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY),
    ];

    /// From the C constant.
    pub fn from_raw(raw: bindings::ib_mr_type) -> Self {
        Self::KNOWN
            .iter()
            .find(|(_, code)| *code == raw)
            .map_or(Self::Other(raw), |(kind, _)| *kind)
    }

    /// To the C constant.
    pub fn as_raw(self) -> bindings::ib_mr_type {
        match self {
            Self::Other(raw) => raw,
            kind => Self::KNOWN
                .iter()
                .find(|(known, _)| *known == kind)
                .map_or(0, |(_, code)| *code),
        }
    }
}

/// Signature attributes of an integrity region, owned until the region takes them over.
pub struct SigAttrs(KBox<bindings::ib_sig_attrs>);

impl SigAttrs {
    /// Allocates empty attributes. May sleep.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new(pin_init::zeroed(), GFP_KERNEL)?))
    }

    fn into_raw(self) -> *mut bindings::ib_sig_attrs {
        KBox::into_raw(self.0)
    }

    /// # Safety
    ///
    /// `ptr` must come from [`Self::into_raw`] or `kmalloc`, and be the caller's.
    unsafe fn from_raw(ptr: NonNull<bindings::ib_sig_attrs>) -> Self {
        // SAFETY: By the contract of this function; `KBox` is `kmalloc` memory.
        Self(unsafe { KBox::from_raw(ptr.as_ptr()) })
    }
}

c_object! {
    /// A region of user space that the driver may be given (`struct ib_sge`), see
    /// [`Mr::driver_advise`].
    pub struct SgeList(ib_sge);
}

impl Mr {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: Set at creation; the region keeps the domain in use.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }

    /// Local key.
    pub fn lkey(&self) -> u32 {
        // SAFETY: The object is valid.
        unsafe { (*self.as_raw()).lkey }
    }

    /// Remote key.
    pub fn rkey(&self) -> u32 {
        // SAFETY: The object is valid.
        unsafe { (*self.as_raw()).rkey }
    }

    /// First address and length of the registration.
    pub fn range(&self) -> (u64, u64) {
        // SAFETY: Only the consumer that maps the region writes it.
        unsafe { ((*self.as_raw()).iova, (*self.as_raw()).length) }
    }

    /// Whether the keys have to be invalidated before the region is registered again.
    pub fn needs_invalidation(&self) -> bool {
        // SAFETY: Only the consumer that uses the region writes it.
        unsafe { (*self.as_raw()).need_inval }
    }

    /// Notes whether they have to. For the consumer that uses the region.
    pub fn set_needs_invalidation(&self, needed: bool) {
        // SAFETY: As above.
        unsafe { (*self.as_raw()).need_inval = needed };
    }

    /// Counts up the low byte of both keys, which is the consumer's to choose. For the consumer
    /// that registers the region.
    pub fn renew_key(&self) {
        const CONSUMER: u32 = 0xff;
        let low = self.lkey().wrapping_add(1) & CONSUMER;
        // SAFETY: As above.
        unsafe {
            (*self.as_raw()).lkey = (self.lkey() & !CONSUMER) | low;
            (*self.as_raw()).rkey = (self.rkey() & !CONSUMER) | low;
        }
    }

    /// What tells this region from all others while it exists.
    pub fn identity(&self) -> usize {
        self.as_raw().addr()
    }

    /// What the region is for.
    pub fn kind(&self) -> MrKind {
        // SAFETY: Set at creation.
        MrKind::from_raw(unsafe { (*self.as_raw()).type_ })
    }

    /// Bytes per page of a fast registration; a power of two.
    pub fn page_size(&self) -> u32 {
        // SAFETY: Only the consumer that maps the region writes it.
        unsafe { (*self.as_raw()).page_size }
    }

    /// Sets the page size of the next fast registration. For the consumer that maps.
    pub fn set_page_size(&self, bytes: u32) {
        // SAFETY: The consumer has the region for itself while it maps.
        unsafe { (*self.as_raw()).page_size = bytes };
    }

    /// Sets first address and length of a registration. For the one that maps.
    pub fn set_range(&self, iova: u64, length: u64) {
        // SAFETY: The consumer has the region for itself while it maps.
        unsafe {
            (*self.as_raw()).iova = iova;
            (*self.as_raw()).length = length;
        }
    }

    /// Fills in a region that covers all DMA memory and belongs to the domain itself, which
    /// therefore does not count as a use of it. For the creator.
    pub fn set_up_internal(&self, pd: &Pd) {
        let mr = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*mr).device = pd.device().as_raw();
            (*mr).pd = pd.as_raw();
            (*mr).type_ = MrKind::Dma.as_raw();
            (*mr).__bindgen_anon_1.uobject = core::mem::ManuallyDrop::new(ptr::null_mut());
            (*mr).need_inval = false;
        }
    }

    /// Fills in a region that covers all DMA memory and that a consumer asked for, counts it as a
    /// use of the domain and lists it. For the creator.
    pub fn set_up_dma(&self, pd: &Pd) {
        self.set_up_internal(pd);
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*self.as_raw()).dm = ptr::null_mut();
            (*self.as_raw()).sig_attrs = ptr::null_mut();
        }
        self.attach(pd);
    }

    /// Fills in a region of user memory, counts it as a use of the domain and lists it. For the
    /// creator.
    pub fn set_up_user(&self, pd: &Pd, iova: u64, length: u64) {
        let mr = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*mr).device = pd.device().as_raw();
            (*mr).type_ = MrKind::User.as_raw();
            (*mr).pd = pd.as_raw();
            (*mr).dm = ptr::null_mut();
            (*mr).iova = iova;
            (*mr).length = length;
        }
        self.attach(pd);
    }

    /// Fills in a region for fast registration, counts it as a use of the domain and lists it.
    /// For the creator.
    pub fn set_up_fast(&self, pd: &Pd, kind: MrKind, sig_attrs: Option<SigAttrs>) {
        let mr = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*mr).device = pd.device().as_raw();
            (*mr).pd = pd.as_raw();
            (*mr).dm = ptr::null_mut();
            (*mr).__bindgen_anon_1.uobject = core::mem::ManuallyDrop::new(ptr::null_mut());
            (*mr).need_inval = false;
            (*mr).type_ = kind.as_raw();
            (*mr).sig_attrs = sig_attrs.map_or(ptr::null_mut(), SigAttrs::into_raw);
        }
        self.attach(pd);
    }

    fn attach(&self, pd: &Pd) {
        pd.uses().acquire().keep();
        // SAFETY: The entry is that of a live region that is not listed, and device and domain
        // are set.
        unsafe {
            track_foreign(
                &raw mut (*self.as_raw()).res,
                bindings::rdma_restrack_type_RDMA_RESTRACK_MR,
                Owner::SameAs(pd.owner_entry()),
            );
        }
    }

    /// Moves the region to another domain of the device, with the operation that the driver has
    /// for user space. For the consumer that uses the region; nobody may use it meanwhile. May
    /// sleep.
    pub fn driver_move(&self, pd: &Pd) -> Result {
        let old = self.pd();
        let moved = driver_op!(
            self.device(),
            rereg_user_mr(
                self.as_raw(),
                bindings::ib_mr_rereg_flags_IB_MR_REREG_PD as kernel::ffi::c_int,
                0,
                0,
                0,
                0,
                pd.as_raw(),
                ptr::null_mut()
            )
        )?;
        // A new region instead of this one is for user space only.
        if !from_err_ptr(moved)?.is_null() {
            return Err(EOPNOTSUPP);
        }
        pd.uses().acquire().keep();
        // SAFETY: The region is live, and its entry listed. The old domain is in use until the
        // last reader of the entry that may have seen it is gone.
        unsafe {
            (&raw mut (*self.as_raw()).pd).write_volatile(pd.as_raw());
            bindings::rdma_restrack_sync(&raw mut (*self.as_raw()).res);
        }
        drop(old.uses().reclaim());
        Ok(())
    }

    /// Takes the region off the tracker's list, after the last reader. It cannot come back.
    pub fn untrack(&self) {
        // SAFETY: The region is live and its entry initialised.
        unsafe { bindings::rdma_restrack_del(&raw mut (*self.as_raw()).res) };
    }

    /// What the region holds, to be released when the driver has let go of it.
    pub fn holdings(&self) -> MrHoldings<'_> {
        // SAFETY: Set at creation. The use counts are those of live objects, which the region
        // keeps in use.
        unsafe {
            let mr = self.as_raw();
            let dm = (*mr).dm;
            let dmah = (*mr).dmah;
            MrHoldings {
                pd: self.pd(),
                dm: (!dm.is_null()).then(|| UseCount::from_raw(&raw mut (*dm).usecnt)),
                dmah: (!dmah.is_null()).then(|| UseCount::from_raw(&raw mut (*dmah).usecnt)),
                sig_attrs: NonNull::new((*mr).sig_attrs),
            }
        }
    }

    /// Asks the driver to register user memory of the current process.
    pub fn driver_reg_user(
        pd: &Pd,
        start: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<&Self> {
        let mr = from_err_ptr(driver_op!(
            pd.device(),
            reg_user_mr(
                pd.as_raw(),
                start,
                length,
                iova,
                access.bits(),
                ptr::null_mut(),
                ptr::null_mut()
            )
        )?)?;
        // SAFETY: The driver returned a region, which lives until it is deregistered.
        Ok(unsafe { Self::from_raw(mr) })
    }

    /// Asks the driver for a region for fast registration.
    pub fn driver_alloc(pd: &Pd, kind: MrKind, max_sg: u32) -> Result<&Self> {
        let mr = from_err_ptr(driver_op!(
            pd.device(),
            alloc_mr(pd.as_raw(), kind.as_raw(), max_sg)
        )?)?;
        // SAFETY: As above.
        Ok(unsafe { Self::from_raw(mr) })
    }

    /// Asks the driver for an integrity region.
    pub fn driver_alloc_integrity(pd: &Pd, max_data_sg: u32, max_meta_sg: u32) -> Result<&Self> {
        let mr = from_err_ptr(driver_op!(
            pd.device(),
            alloc_mr_integrity(pd.as_raw(), max_data_sg, max_meta_sg)
        )?)?;
        // SAFETY: As above.
        Ok(unsafe { Self::from_raw(mr) })
    }

    /// Asks the driver to deregister. The region must not be used after success.
    pub fn driver_dereg(&self, udata: Option<&Udata>) -> Result {
        let device = self.device();
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(device, dereg_mr(self.as_raw(), udata))?)
    }

    /// Tells the driver of the intended use of memory.
    pub fn driver_advise(
        pd: &Pd,
        advice: bindings::ib_uverbs_advise_mr_advice,
        flags: u32,
        sges: &SgeList,
        count: u32,
    ) -> Result {
        to_result(driver_op!(
            pd.device(),
            advise_mr(
                pd.as_raw(),
                advice,
                flags,
                sges.as_raw(),
                count,
                ptr::null_mut()
            )
        )?)
    }

    /// Asks the driver to check the protection information of a finished transfer.
    pub fn driver_check_status(&self, mask: u32, status: &mut bindings::ib_mr_status) -> Result {
        to_result(driver_op!(
            self.device(),
            check_mr_status(self.as_raw(), mask, status)
        )?)
    }

    /// Asks the driver to map the first entries of a list; returns how many fit.
    pub fn driver_map(&self, sg: SgList<'_>) -> Result<u32> {
        let (head, nents, offset) = sg.into_parts();
        let ret = driver_op!(self.device(), map_mr_sg(self.as_raw(), head, nents, offset))?;
        to_result(ret.min(0)).map(|()| ret as u32)
    }

    /// Asks the driver to map lists of data and of protection information. Passes on what the
    /// driver returns: 0, or a count of those drivers that count.
    pub fn driver_map_integrity(&self, data: SgList<'_>, meta: SgList<'_>) -> Result<u32> {
        let (data, data_nents, data_offset) = data.into_parts();
        let (meta, meta_nents, meta_offset) = meta.into_parts();
        let ret = driver_op!(
            self.device(),
            map_mr_sg_pi(
                self.as_raw(),
                data,
                data_nents,
                data_offset,
                meta,
                meta_nents,
                meta_offset
            )
        )?;
        to_result(ret.min(0)).map(|()| ret as u32)
    }

    /// Allocates a region for fast registration through the core.
    pub fn alloc(pd: &Pd, kind: MrKind, max_sg: u32) -> Result<&Self> {
        // SAFETY: The domain is live.
        let mr = unsafe { bindings::ib_alloc_mr(pd.as_raw(), kind.as_raw(), max_sg) };
        let mr = from_err_ptr(mr)?;
        // SAFETY: The core returned a region, which lives until it is deregistered.
        Ok(unsafe { Self::from_raw(mr) })
    }

    /// Allocates an integrity region through the core.
    pub fn alloc_integrity(pd: &Pd, max_data_sg: u32, max_meta_sg: u32) -> Result<&Self> {
        // SAFETY: The domain is live.
        let mr = from_err_ptr(unsafe {
            bindings::ib_alloc_mr_integrity(pd.as_raw(), max_data_sg, max_meta_sg)
        })?;
        // SAFETY: As above.
        Ok(unsafe { Self::from_raw(mr) })
    }

    /// Deregisters through the core. The region must not be used after success.
    pub fn dereg(&self) -> Result {
        // SAFETY: The region is live, and the caller gives it up.
        to_result(unsafe { bindings::ib_dereg_mr_user(self.as_raw(), ptr::null_mut()) })
    }

    /// Trace point: a region is deregistered.
    #[inline]
    pub fn trace_dereg(&self) {
        // SAFETY: The region is live.
        unsafe { bindings::trace_mr_dereg(self.as_raw()) };
    }

    /// Trace point: a region was, or was not, allocated.
    #[inline]
    pub fn trace_alloc(pd: &Pd, kind: MrKind, max_sg: u32, mr: &Result<&Self>) {
        // SAFETY: The domain is live; the trace point takes error pointers.
        unsafe {
            bindings::trace_mr_alloc(pd.as_raw(), kind.as_raw(), max_sg, Self::ptr_or_err(mr))
        };
    }

    /// Trace point: an integrity region was, or was not, allocated.
    #[inline]
    pub fn trace_alloc_integrity(pd: &Pd, data_sg: u32, meta_sg: u32, mr: &Result<&Self>) {
        // SAFETY: As above.
        unsafe {
            bindings::trace_mr_integ_alloc(pd.as_raw(), data_sg, meta_sg, Self::ptr_or_err(mr))
        };
    }

    fn ptr_or_err(mr: &Result<&Self>) -> *mut bindings::ib_mr {
        match mr {
            Ok(mr) => mr.as_raw(),
            Err(e) => e.to_ptr(),
        }
    }
}

/// What a region keeps in use and owns, noted before the driver frees it.
pub struct MrHoldings<'a> {
    pd: &'a Pd,
    dm: Option<&'a UseCount>,
    dmah: Option<&'a UseCount>,
    sig_attrs: Option<NonNull<bindings::ib_sig_attrs>>,
}

impl MrHoldings<'_> {
    /// Gives everything back. For the one that has destroyed the region.
    pub fn release(self) {
        drop(self.pd.uses().reclaim());
        drop(self.dm.map(UseCount::reclaim));
        drop(self.dmah.map(UseCount::reclaim));
        if let Some(attrs) = self.sig_attrs {
            // SAFETY: The region, which owned the attributes, is gone.
            drop(unsafe { SigAttrs::from_raw(attrs) });
        }
    }
}
