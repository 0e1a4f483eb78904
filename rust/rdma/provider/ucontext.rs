// SPDX-License-Identifier: GPL-2.0

//! Contexts of processes that have opened a device.

use super::{handle::AnchorSlot, object::provided_object, Driver, Udata};
use crate::{device::Device as CoreDevice, object::c_object};
use kernel::{bindings, error::from_result, ffi::c_int, mm::virt::VmaNew, prelude::*};

c_object! {
    /// The core's part of a context.
    pub struct CoreUcontext(ib_ucontext);
}

impl CoreUcontext {
    /// The device.
    pub fn device(&self) -> &CoreDevice {
        // SAFETY: Set at creation; the device outlives its contexts.
        unsafe { CoreDevice::from_raw((*self.as_raw()).device) }
    }
}

provided_object! {
    /// The context of a process that has opened the device.
    Ucontext: CoreUcontext, ib_ucontext, Ucontext
}

/// Operations of contexts. A driver without them (see [`Absent`](super::Absent)) has no users in
/// user space.
#[vtable]
pub trait UcontextOps<D: Driver>: Sized + Send + Sync + 'static {
    /// Sets up the driver's part. May sleep.
    fn alloc(_device: &super::Device<D>, _udata: Udata<'_>) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    /// Completes a context whose driver's part is initialised. May sleep.
    fn allocated(_this: &Ucontext<D>, _udata: Udata<'_>) -> Result {
        Ok(())
    }

    /// The process is gone, and all its objects are; the driver's part is dropped after this.
    fn dealloc(_this: &Ucontext<D>) {}

    /// Maps memory of the driver. Called with the lock of the process's memory held.
    fn mmap(_this: &Ucontext<D>, _vma: &VmaNew) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The device leaves while the process still has it open. A driver that implements this,
    /// even with an empty body, can be unregistered at any time.
    fn disassociate(_this: &Ucontext<D>) {}
}

/// # Safety
///
/// Called by the core with a new object, for the driver's device.
pub(super) unsafe extern "C" fn alloc_ucontext<D: Driver>(
    context: *mut bindings::ib_ucontext,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; the device is set.
    from_result(|| unsafe {
        let udata = Udata::from_raw(udata);
        let device = super::Device::from_raw((*context).device);
        let init = D::Ucontext::alloc(device, udata);
        Ucontext::<D>::create(context, init, |this| D::Ucontext::allocated(this, udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the last time with this object.
pub(super) unsafe extern "C" fn dealloc_ucontext<D: Driver>(context: *mut bindings::ib_ucontext) {
    // SAFETY: By the contract of the operation.
    unsafe {
        D::Ucontext::dealloc(Ucontext::from_raw(context));
        Ucontext::<D>::drop_data(context);
    }
}

/// # Safety
///
/// Called by uverbs with a live context and the area that `mmap` is making.
pub(super) unsafe extern "C" fn mmap<D: Driver>(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    // SAFETY: By the contract of the operation; the lock of the memory is held for writing.
    from_result(|| unsafe {
        D::Ucontext::mmap(Ucontext::from_raw(context), VmaNew::from_raw(vma))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by uverbs with a live context.
pub(super) unsafe extern "C" fn disassociate_ucontext<D: Driver>(
    context: *mut bindings::ib_ucontext,
) {
    // SAFETY: By the contract of the operation.
    D::Ucontext::disassociate(unsafe { Ucontext::from_raw(context) })
}
