// SPDX-License-Identifier: GPL-2.0

//! On-demand regions for drivers.

use crate::umem_odp;
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    region::Region,
    umem::Access,
    umem_odp::{
        new,
        new_child,
        new_implicit,
        Fault,
        OdpUmem, //
    },
    warn_on_once, //
};

/// What C expects of a function that returns a region.
fn to_ptr(result: Result<NonNull<bindings::ib_umem_odp>>) -> *mut bindings::ib_umem_odp {
    match result {
        Ok(odp) => odp.as_ptr(),
        Err(e) => e.to_ptr(),
    }
}

/// A region that stands for the whole address space of the calling process.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_alloc_implicit(
    device: *mut bindings::ib_device,
    access: c_int,
) -> *mut bindings::ib_umem_odp {
    let access = Access::from_bits(access);
    if access.hugetlb() {
        return EINVAL.to_ptr();
    }
    // SAFETY: The device is registered.
    to_ptr(new_implicit(unsafe { Device::from_raw(device) }, access))
}

/// Part of an implicit region.
///
/// # Safety
///
/// Called by drivers with an implicit region that nobody releases meanwhile, and static
/// operations.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_alloc_child(
    root_umem: *mut bindings::ib_umem_odp,
    addr: c_ulong,
    size: usize,
    ops: *const bindings::mmu_interval_notifier_ops,
) -> *mut bindings::ib_umem_odp {
    // SAFETY: Kept by the caller.
    let root = unsafe { OdpUmem::from_raw(root_umem) };
    if !root.is_implicit() {
        warn_on_once!(true);
        return EINVAL.to_ptr();
    }
    let Some(region) = Region::new(addr as u64, size as u64) else {
        return EOVERFLOW.to_ptr();
    };
    // SAFETY: The operations are static.
    to_ptr(unsafe { new_child(root, region, ops) })
}

/// A region of the calling process.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device and static operations.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_get(
    device: *mut bindings::ib_device,
    addr: c_ulong,
    size: usize,
    access: c_int,
    ops: *const bindings::mmu_interval_notifier_ops,
) -> *mut bindings::ib_umem_odp {
    let access = Access::from_bits(access);
    if !access.on_demand() {
        warn_on_once!(true);
        return EINVAL.to_ptr();
    }
    let Some(region) = Region::new(addr as u64, size as u64) else {
        return EOVERFLOW.to_ptr();
    };
    // SAFETY: The device is registered; the operations are static.
    to_ptr(unsafe { new(Device::from_raw(device), region, access, ops) })
}

/// Ends a region.
///
/// # Safety
///
/// Called by drivers with a region that they own and whose pages the device no longer uses.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_release(umem_odp: *mut bindings::ib_umem_odp) {
    // SAFETY: Owned by the caller, who gives it up.
    unsafe { OdpUmem::release(umem_odp) }
}

/// Fetches pages; on success `umem_mutex` stays held and the number of pages is returned.
///
/// # Safety
///
/// Called by drivers with a region that nobody releases meanwhile, without its mutex.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_map_dma_and_lock(
    umem_odp: *mut bindings::ib_umem_odp,
    start_offset: u64,
    bcnt: u64,
    access_mask: u64,
    fault: bool,
) -> c_int {
    // SAFETY: Kept by the caller.
    let odp = unsafe { OdpUmem::from_raw(umem_odp) };
    let fault = Fault::new(access_mask, fault);
    match umem_odp::map_and_lock(odp, start_offset, bcnt, fault) {
        Ok(pages) => pages as c_int,
        Err(e) => e.to_errno(),
    }
}

/// Forgets the pages of a range.
///
/// # Safety
///
/// Called by drivers with a region that nobody releases meanwhile, and its mutex held; the
/// device must not use the pages any more.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_odp_unmap_dma_pages(
    umem_odp: *mut bindings::ib_umem_odp,
    start_offset: u64,
    bound: u64,
) {
    // SAFETY: Kept and locked by the caller.
    unsafe { OdpUmem::from_raw(umem_odp).unmap_locked(start_offset, bound) }
}
