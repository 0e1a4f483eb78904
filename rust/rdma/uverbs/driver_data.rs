// SPDX-License-Identifier: GPL-2.0

//! The driver's part of a command of user space.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use super::clear_user;
use kernel::{
    bindings,
    prelude::*,
    types::Opaque, //
};

/// Bytes of the kernel that a driver gives out.
#[derive(Clone, Copy)]
pub struct KernelBytes<'a> {
    pub(super) ptr: *const u8,
    pub(super) len: usize,
    _life: core::marker::PhantomData<&'a [u8]>,
}

impl KernelBytes<'_> {
    /// # Safety
    ///
    /// `ptr` must be readable for `len` bytes during the life of the value.
    pub unsafe fn from_raw(ptr: *const c_void, len: usize) -> Self {
        Self {
            ptr: ptr.cast(),
            len,
            _life: core::marker::PhantomData,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Memory of a driver for what user space sends, perhaps not initialised.
pub struct KernelRoom<'a> {
    ptr: *mut u8,
    len: usize,
    _life: core::marker::PhantomData<&'a mut [u8]>,
}

impl KernelRoom<'_> {
    /// # Safety
    ///
    /// `ptr` must be writable for `len` bytes, and exclusive, during the life of the value.
    pub unsafe fn from_raw(ptr: *mut c_void, len: usize) -> Self {
        Self {
            ptr: ptr.cast(),
            len,
            _life: core::marker::PhantomData,
        }
    }
}

/// The driver's own part of a command, `struct ib_udata` within a bundle.
///
/// # Invariants
///
/// Wraps the `driver_udata` of the bundle of a command that the current thread executes.
#[repr(transparent)]
pub struct DriverData(Opaque<bindings::ib_udata>);

/// What is wrong with the driver's part of a command.
#[derive(Clone, Copy)]
pub enum Complaint {
    /// Shorter than this minimum.
    Small(usize),
    /// Bytes set beyond what the kernel knows; the minimum is given.
    Trailing(usize),
    /// The input cannot be read.
    FaultIn,
    /// The answer of this many bytes cannot be written.
    FaultOut(usize),
    /// Bits of a mask set that are not among the valid ones.
    CompMask {
        /// The mask of the request.
        request: u64,
        /// The bits that are known.
        valid: u64,
    },
}

impl DriverData {
    /// # Safety
    ///
    /// `udata` must be the `driver_udata` of the bundle of a command that the current thread
    /// executes for the whole of `'a`.
    pub unsafe fn from_raw<'a>(udata: *mut bindings::ib_udata) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*udata.cast() }
    }

    /// Bytes that user space sends.
    pub fn input_len(&self) -> usize {
        // SAFETY: Written before the driver runs only.
        unsafe { (*self.0.get()).inlen }
    }

    /// Bytes that user space has room for.
    pub fn output_len(&self) -> usize {
        // SAFETY: Written before the driver runs only.
        unsafe { (*self.0.get()).outlen }
    }

    /// Copies the input to `room`: a shorter input is filled up with zeros, a longer one must
    /// have zeros beyond the room (`E2BIG`). `EFAULT` when it cannot be read.
    pub fn copy_struct(&self, room: KernelRoom<'_>) -> Result {
        let known = self.input_len().min(room.len);
        // SAFETY: Written before the driver runs only.
        let from = unsafe { (*self.0.get()).inbuf };
        let rest = self.input_len() - known;
        if rest != 0 {
            // SAFETY: The user's side is checked by the call.
            match unsafe { bindings::check_zeroed_user(from.wrapping_byte_add(known), rest) } {
                0 => return Err(E2BIG),
                e if e < 0 => return Err(Error::from_errno(e)),
                _ => {}
            }
        }
        // SAFETY: `known` bytes of the room, and the rest of it, are writable; the user's side is
        // checked by the call.
        let left = unsafe {
            room.ptr.add(known).write_bytes(0, room.len - known);
            bindings::copy_from_user(room.ptr.cast(), from, known)
        };
        if left == 0 {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// Writes the answer: as much of it as there is room for, and zeros beyond it.
    pub fn respond(&self, answer: KernelBytes<'_>) -> Result {
        let len = answer.len.min(self.output_len());
        // SAFETY: Written before the driver runs only.
        let to = unsafe { (*self.0.get()).outbuf };
        // SAFETY: `len` bytes of the answer are readable; the user's side is checked by the call.
        if unsafe { bindings::copy_to_user(to, answer.ptr.cast(), len) } != 0 {
            return Err(EFAULT);
        }
        match self.output_len() - len {
            0 => Ok(()),
            rest => clear_user((to as u64).wrapping_add(len as u64), rest),
        }
    }

    /// Tells a developer who has switched these messages on what is wrong.
    pub fn complain(&self, what: Complaint) {
        let raw = self.0.get();
        // SAFETY: The bundle around the data is that of the running command, which holds the
        // SRCU read lock of its device.
        unsafe {
            match what {
                Complaint::Small(minimum) => bindings::rdma_udata_dbg_small(raw, minimum),
                Complaint::Trailing(minimum) => bindings::rdma_udata_dbg_trailing(raw, minimum),
                Complaint::FaultIn => bindings::rdma_udata_dbg_fault_in(raw),
                Complaint::FaultOut(len) => bindings::rdma_udata_dbg_fault_out(raw, len),
                Complaint::CompMask { request, valid } => {
                    bindings::rdma_udata_dbg_comp_mask(raw, request, valid)
                }
            }
        }
    }
}
