// SPDX-License-Identifier: GPL-2.0

//! Regions in dma-bufs for drivers.

use crate::umem_dmabuf::{
    pin,
    Locked, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    region::Region,
    umem::Access,
    umem_dmabuf::{
        Attach,
        DmaBufUmem,
        OwnedDmaBufUmem, //
    },
};

/// What C expects of a function that returns a region.
fn to_ptr(result: Result<OwnedDmaBufUmem>) -> *mut bindings::ib_umem_dmabuf {
    match result {
        Ok(umem) => umem.into_raw().as_ptr(),
        Err(e) => e.to_ptr(),
    }
}

/// Attaches a device to a dma-buf; its own DMA device if `dma_device` is `None`.
///
/// # Safety
///
/// As for [`ib_umem_dmabuf_get`].
unsafe fn attach(
    device: *mut bindings::ib_device,
    dma_device: Option<*mut bindings::device>,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    how: Attach,
) -> Result<OwnedDmaBufUmem> {
    let region = Region::new(offset as u64, size as u64).ok_or(EINVAL)?;
    // SAFETY: The device is registered.
    let device = unsafe { Device::from_raw(device) };
    let dma_device = dma_device.unwrap_or(device.dma_device_raw().cast());
    // SAFETY: Devices and operations are the driver's own.
    unsafe {
        DmaBufUmem::attach(
            device,
            dma_device,
            region,
            fd,
            Access::from_bits(access),
            how,
        )
    }
}

/// A region that the driver maps and unmaps itself, as its operations are told.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device and static operations.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get(
    device: *mut bindings::ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    ops: *const bindings::dma_buf_attach_ops,
) -> *mut bindings::ib_umem_dmabuf {
    // SAFETY: Promised by the caller.
    to_ptr(unsafe { attach(device, None, offset, size, fd, access, Attach::Driver(ops)) })
}

/// A pinned and mapped region.
///
/// # Safety
///
/// Called by drivers in a user command, with a registered device.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned(
    device: *mut bindings::ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut bindings::ib_umem_dmabuf {
    // SAFETY: Promised by the caller.
    let umem = unsafe { attach(device, None, offset, size, fd, access, Attach::Pinned) };
    to_ptr(umem.and_then(|umem| pin(umem, Locked::No)))
}

/// [`ib_umem_dmabuf_get_pinned`] for another device that does the DMA.
///
/// # Safety
///
/// As for [`ib_umem_dmabuf_get_pinned`]; `dma_device` must outlive the region.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned_with_dma_device(
    device: *mut bindings::ib_device,
    dma_device: *mut bindings::device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut bindings::ib_umem_dmabuf {
    let how = Attach::Pinned;
    // SAFETY: Promised by the caller.
    let umem = unsafe { attach(device, Some(dma_device), offset, size, fd, access, how) };
    to_ptr(umem.and_then(|umem| pin(umem, Locked::No)))
}

/// A pinned and mapped region that the exporter can revoke, with the reservation lock held.
///
/// # Safety
///
/// As for [`ib_umem_dmabuf_get_pinned`]; the caller sets a revoke callback and unlocks.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned_revocable_and_lock(
    device: *mut bindings::ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut bindings::ib_umem_dmabuf {
    // SAFETY: Promised by the caller.
    let umem = unsafe { attach(device, None, offset, size, fd, access, Attach::Revocable) };
    to_ptr(umem.and_then(|umem| pin(umem, Locked::Yes)))
}

/// Sets the callback of a revocation.
///
/// # Safety
///
/// Called by drivers with their region and the reservation lock held.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_set_revoke_locked(
    umem_dmabuf: *mut bindings::ib_umem_dmabuf,
    revoke: Option<unsafe extern "C" fn(*mut c_void)>,
    priv_: *mut c_void,
) {
    // SAFETY: Owned and locked by the caller, whose callback it is.
    unsafe { DmaBufUmem::from_raw(umem_dmabuf).set_revoke_locked(revoke, priv_) }
}

/// Maps a region.
///
/// # Safety
///
/// Called by drivers with their region and the reservation lock held.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_map_pages(
    umem_dmabuf: *mut bindings::ib_umem_dmabuf,
) -> c_int {
    // SAFETY: Owned and locked by the caller.
    match unsafe { DmaBufUmem::from_raw(umem_dmabuf).map_locked() } {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Unmaps a region.
///
/// # Safety
///
/// Called by drivers with their region and the reservation lock held, when the device no longer
/// uses it.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_unmap_pages(
    umem_dmabuf: *mut bindings::ib_umem_dmabuf,
) {
    // SAFETY: Owned and locked by the caller.
    unsafe { DmaBufUmem::from_raw(umem_dmabuf).unmap_locked() }
}

/// Takes the reservation lock of a region.
///
/// # Safety
///
/// Called by drivers with their region.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke_lock(
    umem_dmabuf: *mut bindings::ib_umem_dmabuf,
) {
    // SAFETY: Owned by the caller.
    unsafe { DmaBufUmem::from_raw(umem_dmabuf) }.lock().keep()
}

/// Releases the reservation lock of a region.
///
/// # Safety
///
/// Called by drivers with their region and the reservation lock held.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke_unlock(
    umem_dmabuf: *mut bindings::ib_umem_dmabuf,
) {
    // SAFETY: Owned and locked by the caller.
    unsafe { DmaBufUmem::from_raw(umem_dmabuf).unlock() }
}

/// Takes a region away from its device.
///
/// # Safety
///
/// Called by drivers with their region, without the reservation lock.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke(umem_dmabuf: *mut bindings::ib_umem_dmabuf) {
    // SAFETY: Owned by the caller.
    unsafe { DmaBufUmem::from_raw(umem_dmabuf) }.revoke()
}

/// Ends a region.
///
/// # Safety
///
/// Called by `ib_umem_release` with a region that its driver has given up.
#[export]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_release(umem_dmabuf: *mut bindings::ib_umem_dmabuf) {
    if let Some(umem) = NonNull::new(umem_dmabuf) {
        // SAFETY: Owned by the caller, who gives it up.
        drop(unsafe { OwnedDmaBufUmem::from_raw(umem) });
    }
}
