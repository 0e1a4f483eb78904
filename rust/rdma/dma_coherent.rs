// SPDX-License-Identifier: GPL-2.0

//! Memory that the CPU and a device share without synchronisation.
//!
//! C headers: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{device::Device, gfp::Gfp};
use core::{ffi::c_void, ptr::NonNull};
use kernel::{bindings, prelude::*};

/// Zeroed, page-aligned memory with its address for the device. Dropping it does nothing: it ends
/// with [`Self::free`].
///
/// # Invariants
///
/// `cpu` and `handle` are what the allocator of the device gave for `size` bytes.
pub struct CoherentMemory {
    cpu: NonNull<c_void>,
    handle: u64,
    size: usize,
}

/// Whether the device is software, whose DMA addresses are kernel addresses.
fn is_software(device: &Device) -> bool {
    // SAFETY: The device is live.
    unsafe { bindings::ib_uses_virt_dma(device.as_raw()) }
}

impl CoherentMemory {
    /// Allocates `size` bytes. Sleeps if `gfp` allows it.
    pub fn alloc(device: &Device, size: usize, gfp: Gfp) -> Result<Self> {
        if size == 0 {
            return Err(EINVAL);
        }
        let mut handle = 0;
        let cpu = if is_software(device) {
            // SAFETY: Any size and flags are fine.
            let cpu = unsafe {
                bindings::alloc_pages_exact_noprof(size, gfp.as_raw() | bindings::__GFP_ZERO)
            };
            handle = cpu.addr() as u64;
            cpu
        } else {
            // SAFETY: The device is live and does DMA through this one.
            unsafe {
                bindings::rdma_dma_alloc_coherent(
                    (*device.as_raw()).dma_device,
                    size,
                    &mut handle,
                    gfp.as_raw(),
                )
            }
        };
        // INVARIANT: Just allocated.
        Ok(Self {
            cpu: NonNull::new(cpu).ok_or(ENOMEM)?,
            handle,
            size,
        })
    }

    /// Address for the device.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Hands the memory to C.
    pub fn into_raw(self) -> *mut c_void {
        self.cpu.as_ptr()
    }

    /// Takes memory back from C.
    ///
    /// # Safety
    ///
    /// `cpu` must come from [`Self::into_raw`] of memory of that size and handle, and be the
    /// caller's.
    pub unsafe fn from_raw(cpu: NonNull<c_void>, handle: u64, size: usize) -> Self {
        // INVARIANT: By the contract of this function.
        Self { cpu, handle, size }
    }

    /// Frees the memory, of the same device. Process context.
    pub fn free(self, device: &Device) {
        if is_software(device) {
            // SAFETY: By the type invariant.
            unsafe { bindings::free_pages_exact(self.cpu.as_ptr(), self.size) };
        } else {
            // SAFETY: By the type invariant.
            unsafe {
                bindings::rdma_dma_free_coherent(
                    (*device.as_raw()).dma_device,
                    self.size,
                    self.cpu.as_ptr(),
                    self.handle,
                )
            };
        }
    }
}
