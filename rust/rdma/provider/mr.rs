// SPDX-License-Identifier: GPL-2.0

//! Memory regions. Their memory is allocated here, as the core leaves that to drivers.

use super::{
    handle::AnchorSlot,
    object::{new_object, provided_object},
    Driver, Pd, Sge, Udata,
};
use crate::{
    cpu_memory::{KernelMemory, PageAddr},
    mr::{self, Access, MrKind, SgList},
};
use core::{mem::MaybeUninit, ptr};
use kernel::{
    bindings,
    error::{from_result, to_result},
    ffi::{c_int, c_uint},
    prelude::*,
};

provided_object! {
    /// A memory region.
    Mr: mr::Mr, ib_mr, Mr
}

new_object! {
    /// A region that the driver is about to set up. The core's part is zeroed, but for the device
    /// and the domain.
    NewMr: mr::Mr
}

/// Memory of a process that is to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegion {
    /// Where it starts in the process.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The address by which the device is to know its first byte.
    pub iova: u64,
}

/// What is to change of a registered region of user memory.
pub struct Rereg<'a, D: Driver> {
    /// Other memory.
    pub region: Option<UserRegion>,
    /// Other rights.
    pub access: Option<Access>,
    /// Another domain.
    pub pd: Option<&'a Pd<D>>,
}

fn set_keys(mr: *mut bindings::ib_mr, lkey: u32, rkey: u32) {
    // SAFETY: A live region, whose keys only driver and the consumer that registers it change.
    unsafe {
        (&raw mut (*mr).lkey).write_volatile(lkey);
        (&raw mut (*mr).rkey).write_volatile(rkey);
    }
}

impl NewMr<'_> {
    /// Sets the keys.
    pub fn set_keys(&self, lkey: u32, rkey: u32) {
        set_keys(self.as_raw(), lkey, rkey);
    }
}

impl<D: Driver> Mr<D> {
    /// Sets the keys. For the driver that registers the region, or changes it.
    pub fn set_keys(&self, lkey: u32, rkey: u32) {
        set_keys(self.as_raw(), lkey, rkey);
    }

    /// Cuts a scatter list into pages of the size that the region has, and hands each to
    /// [`MrOps::set_page`]. Sets address and length of the region. Returns how many entries fit.
    pub fn map_pages(&self, list: SgList<'_>) -> Result<u32> {
        let (head, count, offset) = list.into_parts();
        // SAFETY: The region and the list are valid; `set_page` takes this region.
        let ret = unsafe {
            bindings::ib_sg_to_pages(self.as_raw(), head, count, offset, Some(set_page::<D>))
        };
        to_result(ret.min(0)).map(|()| ret as u32)
    }
}

/// Operations of memory regions.
#[vtable]
pub trait MrOps<D: Driver>: Sized + Send + Sync + 'static {
    /// A region of all DMA memory. A driver that copies by itself reaches it through `memory`. May
    /// sleep.
    fn dma(
        _pd: &Pd<D>,
        _mr: NewMr<'_>,
        _access: Access,
        _memory: KernelMemory,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// A region for fast registration, of at most `max_sg` pages or entries. May sleep.
    fn alloc(
        _pd: &Pd<D>,
        _mr: NewMr<'_>,
        _kind: MrKind,
        _max_sg: u32,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// A region of memory of the current process. May sleep.
    fn register_user(
        _pd: &Pd<D>,
        _mr: NewMr<'_>,
        _region: &UserRegion,
        _access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// A region of a dma-buf that the current process has open; `start` is the offset in it.
    /// May sleep.
    fn register_dmabuf(
        _pd: &Pd<D>,
        _mr: NewMr<'_>,
        _region: &UserRegion,
        _fd: i32,
        _access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// Completes a region whose driver's part is initialised. May sleep.
    fn registered(_this: &Mr<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// Changes a region of user memory in place. `EOPNOTSUPP` where it cannot. May sleep.
    fn reregister(_this: &Mr<D>, _change: &Rereg<'_, D>, _udata: Udata<'_>) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Takes the entries of a mapped list as the content of the region, usually by
    /// [`Mr::map_pages`]. Returns how many fit. Any context.
    fn map_sg(_this: &Mr<D>, _list: SgList<'_>) -> Result<u32> {
        Err(EOPNOTSUPP)
    }

    /// Appends a page to the region. Called by [`Mr::map_pages`]. `ENOMEM` if it is full.
    fn set_page(_this: &Mr<D>, _page: PageAddr) -> Result {
        Err(ENOMEM)
    }

    /// What a process is going to do with some memory. May sleep.
    fn advise(_pd: &Pd<D>, _advice: u32, _flags: u32, _sges: &[Sge]) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The last look before the driver's part is dropped and the region freed. If this fails, the
    /// region stays. May sleep.
    fn deregister(_this: &Mr<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }
}

/// A page of a region.
///
/// # Safety
///
/// `mr` is a region of the driver.
unsafe extern "C" fn set_page<D: Driver>(mr: *mut bindings::ib_mr, address: u64) -> c_int {
    // SAFETY: By the contract of this function.
    let this = unsafe { Mr::from_raw(mr) };
    // SAFETY: The address comes from the list of a consumer that maps it.
    let page = unsafe { PageAddr::from_dma(address) };
    match D::Mr::set_page(this, page) {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Makes a region.
///
/// # Safety
///
/// `pd` must be a live domain of the driver; `init` must not keep what it gets.
unsafe fn make<'a, D: Driver, I: PinInit<D::Mr, Error>>(
    pd: *mut bindings::ib_pd,
    udata: Udata<'_>,
    init: impl FnOnce(&'a Pd<D>, NewMr<'a>) -> I,
) -> *mut bindings::ib_mr {
    let make = || {
        let memory = KBox::<MaybeUninit<Mr<D>>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        let memory = KBox::into_raw(memory);
        let raw: *mut bindings::ib_mr = memory.cast();
        // SAFETY: Fresh, zeroed memory, which is a valid `ib_mr`; the domain is live.
        let result = unsafe {
            (*raw).device = (*pd).device;
            (*raw).pd = pd;
            let new = init(Pd::from_raw(pd), NewMr(mr::Mr::from_raw(raw)));
            Mr::<D>::create(raw, new, |this| D::Mr::registered(this, udata))
        };
        if let Err(e) = result {
            // SAFETY: From `into_raw` above, and nobody else has it.
            drop(unsafe { KBox::from_raw(memory) });
            return Err(e);
        }
        Ok(raw)
    };
    make().unwrap_or_else(|e: Error| e.to_ptr())
}

/// # Safety
///
/// Called by the core with a live domain.
pub(super) unsafe extern "C" fn get_dma_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    access: c_int,
) -> *mut bindings::ib_mr {
    let access = Access::from_bits(access);
    // SAFETY: By the contract of the operation: whoever gets the keys of such a region may use all
    // memory.
    unsafe {
        make::<D, _>(pd, Udata::from_raw(ptr::null_mut()), |pd, mr| {
            D::Mr::dma(pd, mr, access, KernelMemory::new())
        })
    }
}

/// # Safety
///
/// Called by the core with a live domain.
pub(super) unsafe extern "C" fn alloc_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    max_sg: u32,
) -> *mut bindings::ib_mr {
    let kind = MrKind::from_raw(kind);
    // SAFETY: By the contract of the operation.
    unsafe {
        make::<D, _>(pd, Udata::from_raw(ptr::null_mut()), |pd, mr| {
            D::Mr::alloc(pd, mr, kind, max_sg)
        })
    }
}

/// # Safety
///
/// Called by the core with a live domain.
pub(super) unsafe extern "C" fn reg_user_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut bindings::ib_dmah,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    if !dmah.is_null() {
        // No driver of this framework makes DMA handles.
        return EOPNOTSUPP.to_ptr();
    }
    let region = UserRegion {
        start,
        length,
        iova,
    };
    let access = Access::from_bits(access);
    // SAFETY: By the contract of the operation.
    unsafe {
        let udata = Udata::from_raw(udata);
        make::<D, _>(pd, udata, |pd, mr| {
            D::Mr::register_user(pd, mr, &region, access, udata)
        })
    }
}

/// # Safety
///
/// Called by uverbs with a live domain.
pub(super) unsafe extern "C" fn reg_user_mr_dmabuf<D: Driver>(
    pd: *mut bindings::ib_pd,
    offset: u64,
    length: u64,
    iova: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut bindings::ib_dmah,
    bundle: *mut bindings::uverbs_attr_bundle,
) -> *mut bindings::ib_mr {
    if !dmah.is_null() {
        return EOPNOTSUPP.to_ptr();
    }
    let region = UserRegion {
        start: offset,
        length,
        iova,
    };
    let access = Access::from_bits(access);
    // SAFETY: By the contract of the operation.
    unsafe {
        let udata = Udata::from_bundle(bundle);
        make::<D, _>(pd, udata, |pd, mr| {
            D::Mr::register_dmabuf(pd, mr, &region, fd, access, udata)
        })
    }
}

/// # Safety
///
/// Called by uverbs with live objects.
pub(super) unsafe extern "C" fn rereg_user_mr<D: Driver>(
    mr: *mut bindings::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    let has = |flag: u32| flags as u32 & flag != 0;
    let change = Rereg {
        region: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(UserRegion {
            start,
            length,
            iova,
        }),
        access: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
            .then(|| Access::from_bits(access)),
        pd: (has(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD) && !pd.is_null()).then(|| {
            // SAFETY: By the contract of the operation.
            unsafe { Pd::from_raw(pd) }
        }),
    };
    // SAFETY: By the contract of the operation.
    match unsafe { D::Mr::reregister(Mr::from_raw(mr), &change, Udata::from_raw(udata)) } {
        // Null is "changed in place".
        Ok(()) => ptr::null_mut(),
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn dereg_mr<D: Driver>(
    mr: *mut bindings::ib_mr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the memory comes from `make`.
    from_result(|| unsafe {
        D::Mr::deregister(Mr::from_raw(mr), Udata::from_raw(udata))?;
        Mr::<D>::drop_data(mr);
        drop(KBox::<MaybeUninit<Mr<D>>>::from_raw(mr.cast()));
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with a live object and a valid list.
pub(super) unsafe extern "C" fn map_mr_sg<D: Driver>(
    mr: *mut bindings::ib_mr,
    head: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let list = SgList::from_raw(head, count, offset);
        let mapped = D::Mr::map_sg(Mr::from_raw(mr), list)?;
        Ok(mapped.try_into().unwrap_or(c_int::MAX))
    })
}

/// # Safety
///
/// Called by uverbs with a live domain and a list of the length given.
pub(super) unsafe extern "C" fn advise_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut bindings::ib_sge,
    count: u32,
    _bundle: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: By the contract of the operation; `Sge` is transparent.
    from_result(|| unsafe {
        let sges: &[Sge] = if count == 0 || list.is_null() {
            &[]
        } else {
            core::slice::from_raw_parts(list.cast(), count as usize)
        };
        D::Mr::advise(Pd::from_raw(pd), advice, flags, sges)?;
        Ok(0)
    })
}
