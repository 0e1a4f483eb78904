// SPDX-License-Identifier: GPL-2.0

//! Protection domains (`struct ib_pd`).

use crate::{
    device::Device,
    mr::{Access, Mr},
    object::{c_object, driver_op, DriverObject, TrackedObject, TrackerEntry},
    udata::Udata,
    usecnt::UseCount,
};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
};

c_object! {
    /// A protection domain: what ties queue pairs to the memory that they may touch.
    pub struct Pd(ib_pd);
}

// SAFETY: Transparent over `ib_pd`, which is plain data.
unsafe impl DriverObject for Pd {
    type Raw = bindings::ib_pd;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_pd
    }
}

// SAFETY: `res` is the entry of a domain.
unsafe impl TrackedObject for Pd {
    const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_PD;

    fn tracker_entry(&self) -> *mut bindings::rdma_restrack_entry {
        // SAFETY: The object is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).res }
    }
}

/// Options of a kernel protection domain (`IB_PD_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PdFlags(u32);

impl PdFlags {
    /// No options.
    pub const NONE: Self = Self(0);

    /// Takes the bits of a consumer.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The consumer wants a remote key for all memory.
    pub fn wants_unsafe_global_rkey(self) -> bool {
        self.0 & bindings::ib_pd_flags_IB_PD_UNSAFE_GLOBAL_RKEY != 0
    }
}

impl Pd {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Uses by queue pairs, shared receive queues, regions, windows, work queues and address
    /// handles. The domain's own region is not counted.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    /// The tracker entry, for objects that inherit the owner.
    pub fn owner_entry(&self) -> &TrackerEntry {
        // SAFETY: The entry is initialised at creation and lives as long as the object.
        unsafe { TrackerEntry::from_raw(self.tracker_entry()) }
    }

    /// Key for local access to all DMA memory.
    pub fn local_dma_lkey(&self) -> u32 {
        // SAFETY: Written by the creator before the object is handed out.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, device: &Device, flags: PdFlags) {
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*self.as_raw()).device = device.as_raw();
            (*self.as_raw()).flags = flags.0;
        }
    }

    /// Sets the key for local access to all DMA memory. For the creator.
    pub fn set_local_dma_lkey(&self, key: u32) {
        // SAFETY: The creator has the object for itself.
        unsafe { (*self.as_raw()).local_dma_lkey = key };
    }

    /// Sets the key for remote access to all DMA memory. For the creator.
    pub fn set_unsafe_global_rkey(&self, key: u32) {
        // SAFETY: The creator has the object for itself.
        unsafe { (*self.as_raw()).unsafe_global_rkey = key };
    }

    /// Makes `mr` the domain's own region. For the creator.
    pub fn set_internal_mr(&self, mr: &Mr) {
        // SAFETY: The creator has the object for itself.
        unsafe { (*self.as_raw()).__internal_mr = mr.as_raw() };
    }

    /// Takes the domain's own region away, to be given back to the driver. For the destroyer.
    pub fn take_internal_mr(&self) -> Option<&Mr> {
        // SAFETY: The destroyer has the object for itself; the region lives until it is given
        // back.
        unsafe {
            let slot = &raw mut (*self.as_raw()).__internal_mr;
            let mr = slot.replace(core::ptr::null_mut());
            (!mr.is_null()).then(|| Mr::from_raw(mr))
        }
    }

    /// Asks the driver to set up its part.
    pub fn driver_alloc(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), alloc_pd(self.as_raw(), udata))?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_dealloc(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), dealloc_pd(self.as_raw(), udata))?)
    }

    /// Asks the driver for a region that covers all DMA memory.
    pub fn driver_get_dma_mr(&self, access: Access) -> Result<&Mr> {
        let mr = from_err_ptr(driver_op!(
            self.device(),
            get_dma_mr(self.as_raw(), access.bits())
        )?)?;
        // SAFETY: The driver returned a region, which lives until it is deregistered.
        Ok(unsafe { Mr::from_raw(mr) })
    }
}
