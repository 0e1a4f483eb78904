// SPDX-License-Identifier: GPL-2.0

//! The classic calls for the C side; prototypes in `rdma/ib_classic.h` of this project.

use crate::classic::{
    address,
    queue,
    region::{self, Change},
    window, //
};
use core::ptr::NonNull;
use kernel::{bindings, error::from_result, prelude::*};
use rdma::{
    ah::Ah,
    classic::ClassicAhAttr,
    cq::Cq,
    device::Device,
    dma_coherent::CoherentMemory,
    gfp::Gfp,
    gid::Gid,
    mr::{Access, Mr},
    mw::{Mw, MwBind, MwKind},
    network_header::NetworkHeader,
    object::Object,
    pd::Pd,
    phys::PhysBuf,
    qp::Qp,
    wc::Wc,
};

/// Zero or the negative error number.
fn errno(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// A region or an error pointer.
fn mr_or_err(result: Result<&Mr>) -> *mut bindings::ib_mr {
    result.map_or_else(|e| e.to_ptr(), Mr::as_raw)
}

/// Writes a result where the caller has a place for it.
///
/// # Safety
///
/// `place` must be null or writable.
unsafe fn give<T>(place: *mut T, result: Result<T>) -> c_int {
    errno(result.and_then(|value| {
        let place = NonNull::new(place).ok_or(EINVAL)?;
        // SAFETY: By the contract of this function.
        unsafe { place.write(value) };
        Ok(())
    }))
}

/// Where any port of a device has a GID of any type.
///
/// # Safety
///
/// `device` must be valid, `gid` point to a GID, `port_num` and `index` be null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_find_gid(
    device: *mut bindings::ib_device,
    gid: *const bindings::ib_gid,
    port_num: *mut u8,
    index: *mut u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, gid) = unsafe { (Device::from_raw(device), Gid::read(gid)) };
    errno(address::find_gid(device, &gid).map(|found| {
        // SAFETY: As above.
        unsafe {
            if !port_num.is_null() {
                port_num.write(found.0);
            }
            if !index.is_null() {
                index.write(found.1);
            }
        }
    }))
}

/// Makes a vector of today, for `ib_qp_attr`, of a classic one; it has no source GID.
///
/// # Safety
///
/// `device` must be valid, `from` a vector, `to` writable. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_ah_attr_to_rdma(
    device: *mut bindings::ib_device,
    from: *const ClassicAhAttr,
    to: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, from) = unsafe { (Device::from_raw(device), &*from) };
    errno(address::to_attr(device, from).map(|attr| {
        // SAFETY: As above.
        unsafe { attr.write_to(to) }
    }))
}

/// Creates an address handle.
///
/// # Safety
///
/// `pd` must be live, `ah_attr` a vector. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_create_ah(
    pd: *mut bindings::ib_pd,
    ah_attr: *const ClassicAhAttr,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), &*ah_attr) };
    address::create(pd, attr).map_or_else(|e| e.to_ptr(), Object::into_raw)
}

/// Derives the way back to the sender of a datagram.
///
/// # Safety
///
/// `device` must be valid, `wc` a completion, `grh` 40 bytes if the completion says so, `ah_attr`
/// writable. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_init_ah_from_wc(
    device: *mut bindings::ib_device,
    port_num: u32,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    ah_attr: *mut ClassicAhAttr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, wc) = unsafe { (Device::from_raw(device), Wc::from_raw(wc)) };
    let has_header = wc.has_grh() && !grh.is_null();
    // SAFETY: As above.
    let header = has_header.then(|| unsafe { NetworkHeader::read(grh.cast()) });
    // SAFETY: As above.
    unsafe { give(ah_attr, address::init_from_wc(device, port_num, wc, header)) }
}

/// Changes the address of a handle.
///
/// # Safety
///
/// `ah` must be live and the caller's, `ah_attr` a vector. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_modify_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *const ClassicAhAttr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (ah, attr) = unsafe { (Ah::from_raw(ah), &*ah_attr) };
    errno(address::modify(ah, attr))
}

/// Reads the address of a handle.
///
/// # Safety
///
/// `ah` must be live, `ah_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_query_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *mut ClassicAhAttr,
) -> c_int {
    // SAFETY: By the contract of this function.
    unsafe { give(ah_attr, address::query(Ah::from_raw(ah))) }
}

/// Allocates memory that CPU and device share.
///
/// # Safety
///
/// `device` must be valid, `dma_handle` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_dma_alloc_coherent(
    device: *mut bindings::ib_device,
    size: usize,
    dma_handle: *mut u64,
    flag: bindings::gfp_t,
) -> *mut c_void {
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(device) };
    match CoherentMemory::alloc(device, size, Gfp::from_c(flag)) {
        Ok(memory) => {
            // SAFETY: By the contract of this function.
            unsafe { dma_handle.write(memory.handle()) };
            memory.into_raw()
        }
        Err(_) => core::ptr::null_mut(),
    }
}

/// Gives such memory back.
///
/// # Safety
///
/// The arguments must be those of an allocation of this device, which nobody uses any more.
/// Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_dma_free_coherent(
    device: *mut bindings::ib_device,
    size: usize,
    cpu_addr: *mut c_void,
    dma_handle: u64,
) {
    let Some(cpu) = NonNull::new(cpu_addr) else {
        return;
    };
    // SAFETY: By the contract of this function.
    unsafe { CoherentMemory::from_raw(cpu, dma_handle, size).free(Device::from_raw(device)) };
}

/// A region that covers all memory.
///
/// # Safety
///
/// `pd` must be live, `caller` the name of a module. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_get_dma_mr(
    pd: *mut bindings::ib_pd,
    mr_access_flags: c_int,
    caller: *const c_char,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let (pd, caller) = unsafe { (Pd::from_raw(pd), CStr::from_char_ptr(caller)) };
    mr_or_err(region::get_dma(
        pd,
        Access::from_bits(mr_access_flags),
        caller,
    ))
}

/// The buffers that a caller names. `EINVAL` for none.
///
/// # Safety
///
/// `array` must be null or have `count` entries that stay and do not change during `'a`.
unsafe fn phys_bufs<'a>(array: *const PhysBuf, count: c_int) -> Result<&'a [PhysBuf]> {
    let count = usize::try_from(count)?;
    if array.is_null() || count == 0 {
        return Err(EINVAL);
    }
    // SAFETY: By the contract of this function.
    Ok(unsafe { core::slice::from_raw_parts(array, count) })
}

/// The address of the first byte that a caller names.
///
/// # Safety
///
/// `iova_start` must be null or readable.
unsafe fn iova(iova_start: *const u64) -> Result<u64> {
    // SAFETY: By the contract of this function.
    unsafe { iova_start.as_ref() }.copied().ok_or(EINVAL)
}

/// Registers a list of physical buffers as one region.
///
/// # Safety
///
/// `pd` must be live, `phys_buf_array` have that many entries, `iova_start` be readable. Process
/// context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_reg_phys_mr(
    pd: *mut bindings::ib_pd,
    phys_buf_array: *const PhysBuf,
    num_phys_buf: c_int,
    mr_access_flags: c_int,
    iova_start: *mut u64,
) -> *mut bindings::ib_mr {
    let register = || {
        // SAFETY: By the contract of this function.
        let (pd, bufs, iova) = unsafe {
            (
                Pd::from_raw(pd),
                phys_bufs(phys_buf_array, num_phys_buf)?,
                iova(iova_start)?,
            )
        };
        region::register(pd, bufs, Access::from_bits(mr_access_flags), iova)
    };
    mr_or_err(register())
}

/// Changes such a region.
///
/// # Safety
///
/// `mr` must be live and not in use; what the mask selects must be as for
/// `ib_classic_reg_phys_mr()`. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_rereg_phys_mr(
    mr: *mut bindings::ib_mr,
    mr_rereg_mask: c_int,
    pd: *mut bindings::ib_pd,
    phys_buf_array: *const PhysBuf,
    num_phys_buf: c_int,
    mr_access_flags: c_int,
    iova_start: *mut u64,
) -> c_int {
    let mask = mr_rereg_mask as u32;
    let wants = |flag: u32| mask & flag != 0;
    let change = || {
        if mask == 0 || mask & !bindings::ib_mr_rereg_flags_IB_MR_REREG_SUPPORTED != 0 {
            return Err(EINVAL);
        }
        let mut change = Change {
            memory: None,
            pd: None,
            access: None,
        };
        if wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS) {
            // SAFETY: By the contract of this function.
            let memory = unsafe { (phys_bufs(phys_buf_array, num_phys_buf)?, iova(iova_start)?) };
            change.memory = Some(memory);
        }
        if wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD) {
            let pd = NonNull::new(pd).ok_or(EINVAL)?;
            // SAFETY: By the contract of this function.
            change.pd = Some(unsafe { Pd::from_raw(pd.as_ptr()) });
        }
        if wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS) {
            change.access = Some(Access::from_bits(mr_access_flags));
        }
        // SAFETY: By the contract of this function.
        region::reregister(unsafe { Mr::from_raw(mr) }, change)
    };
    errno(change())
}

/// Reads the attributes of a region of the classic calls.
///
/// # Safety
///
/// `mr` must be live, `mr_attr` null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_query_mr(
    mr: *mut bindings::ib_mr,
    mr_attr: *mut bindings::ib_mr_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let mr = unsafe { Mr::from_raw(mr) };
    let attr = region::query(mr).map(|found| bindings::ib_mr_attr {
        pd: mr.pd().as_raw(),
        device_virt_addr: found.range.0,
        size: found.range.1,
        mr_access_flags: found.access.bits(),
        lkey: mr.lkey(),
        rkey: mr.rkey(),
    });
    // SAFETY: As above.
    unsafe { give(mr_attr, attr) }
}

/// Allocates a memory window.
///
/// # Safety
///
/// `pd` must be live. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_alloc_mw(
    pd: *mut bindings::ib_pd,
    r#type: bindings::ib_mw_type,
) -> *mut bindings::ib_mw {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    MwKind::from_raw(r#type)
        .ok_or(EINVAL)
        .and_then(|kind| window::alloc(pd, kind))
        .map_or_else(|e| e.to_ptr(), Object::into_raw)
}

/// Posts the request that binds a window.
///
/// # Safety
///
/// `qp` and `mw` must be live, `mw_bind` null or a request whose region is null or live.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_bind_mw(
    qp: *mut bindings::ib_qp,
    mw: *mut bindings::ib_mw,
    mw_bind: *const bindings::ib_mw_bind,
) -> c_int {
    if mw_bind.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By the contract of this function.
    let (qp, mw, bind) = unsafe {
        (
            Qp::from_raw(qp),
            Mw::from_raw(mw),
            MwBind::from_raw(mw_bind),
        )
    };
    errno(window::bind(qp, mw, bind))
}

/// Gives a window back.
///
/// # Safety
///
/// `mw` must be live and the caller's. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_dealloc_mw(mw: *mut bindings::ib_mw) -> c_int {
    // SAFETY: By the contract of this function.
    errno(window::dealloc(unsafe { Object::<Mw>::from_raw(mw) }))
}

/// Changes the number of entries of a completion queue.
///
/// # Safety
///
/// `cq` must be live. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_resize_cq(
    cq: *mut bindings::ib_cq,
    cqe: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(queue::resize(unsafe { Cq::from_raw(cq) }, cqe))
}

/// Counts completions without taking them.
///
/// # Safety
///
/// `cq` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_classic_peek_cq(
    cq: *mut bindings::ib_cq,
    wc_cnt: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    let cq = unsafe { Cq::from_raw(cq) };
    from_result(|| Ok(c_int::try_from(queue::peek(cq, wc_cnt)?)?))
}
