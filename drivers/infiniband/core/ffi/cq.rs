// SPDX-License-Identifier: GPL-2.0

//! Completion queues for kernel users.

use crate::cq;
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device::Device,
    poll_cq::{
        trace_alloc,
        trace_alloc_error,
        CqBuilder,
        OwnedCq,
        PollContext,
        PollCq, //
    },
    warn_on_once, //
};

/// Handles completions in the caller's context; a budget of -1 is no limit.
///
/// # Safety
///
/// Called by the user of a queue, who sees to it that no two such calls run at the same time.
#[export]
pub(crate) unsafe extern "C" fn ib_process_cq_direct(
    cq: *mut bindings::ib_cq,
    budget: c_int,
) -> c_int {
    // SAFETY: The caller's queue is live.
    cq::process_direct(unsafe { PollCq::from_raw(cq) }, u32::try_from(budget).ok()) as c_int
}

/// Makes a queue that is polled in `poll_ctx`.
///
/// # Safety
///
/// Called by kernel users with a registered device (or one whose registration runs) and the name
/// of the calling module, from a context that may sleep.
#[export]
pub(crate) unsafe extern "C" fn __ib_alloc_cq(
    dev: *mut bindings::ib_device,
    private: *mut c_void,
    nr_cqe: c_int,
    comp_vector: c_int,
    poll_ctx: bindings::ib_poll_context,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    if nr_cqe == 0 {
        warn_on_once!(true);
        return EINVAL.to_ptr();
    }
    // SAFETY: The caller holds the device.
    let device = unsafe { Device::from_raw(dev) };
    let alloc = || -> Result<OwnedCq> {
        let context = PollContext::from_raw(poll_ctx)?;
        // SAFETY: The name lies in the calling module, which ends its queues before it goes.
        let mut cq =
            unsafe { CqBuilder::new(device, private, comp_vector as u32, context, caller)? };
        cq.create(nr_cqe)?;
        Ok(cq::start(cq, device))
    };
    match alloc() {
        Ok(cq) => {
            trace_alloc(&cq, nr_cqe, comp_vector, poll_ctx);
            cq.into_raw().as_ptr()
        }
        Err(e) => {
            trace_alloc_error(nr_cqe, comp_vector, poll_ctx, e);
            e.to_ptr()
        }
    }
}

/// [`__ib_alloc_cq`] on a vector that the core picks.
///
/// # Safety
///
/// As for [`__ib_alloc_cq`].
#[export]
pub(crate) unsafe extern "C" fn __ib_alloc_cq_any(
    dev: *mut bindings::ib_device,
    private: *mut c_void,
    nr_cqe: c_int,
    poll_ctx: bindings::ib_poll_context,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    // SAFETY: The caller holds the device.
    let vector = cq::any_vector(unsafe { Device::from_raw(dev) });
    // SAFETY: The caller's promises are the same.
    unsafe { __ib_alloc_cq(dev, private, nr_cqe, vector, poll_ctx, caller) }
}

/// Ends a queue. One that is still in use is kept, with a warning.
///
/// # Safety
///
/// Called by the user that made the queue, from a context that may sleep.
#[export]
pub(crate) unsafe extern "C" fn ib_free_cq(cq: *mut bindings::ib_cq) {
    let Some(cq) = NonNull::new(cq) else { return };
    // SAFETY: Live until it is freed.
    if cq::is_unused(unsafe { PollCq::from_raw(cq.as_ptr()) }) {
        // SAFETY: Made by `__ib_alloc_cq`, and given up by its owner.
        cq::free(unsafe { OwnedCq::from_raw(cq) });
    }
}

/// Frees the shared queues of a device.
///
/// # Safety
///
/// Called by the device registry once no user of the device is left.
#[export]
pub(crate) unsafe extern "C" fn ib_cq_pool_cleanup(dev: *mut bindings::ib_device) {
    // SAFETY: The registry's device is alive.
    cq::cleanup(unsafe { Device::from_raw(dev) })
}

/// Claims completions of a shared queue; a hint of -1 lets the core choose the vector.
///
/// # Safety
///
/// Called by kernel users with a registered device, from a context that may sleep.
#[export]
pub(crate) unsafe extern "C" fn ib_cq_pool_get(
    dev: *mut bindings::ib_device,
    nr_cqe: c_uint,
    comp_vector_hint: c_int,
    poll_ctx: bindings::ib_poll_context,
) -> *mut bindings::ib_cq {
    // SAFETY: The caller holds the device.
    let device = unsafe { Device::from_raw(dev) };
    let hint = u32::try_from(comp_vector_hint).ok();
    match PollContext::from_raw(poll_ctx).and_then(|c| cq::get(device, nr_cqe, hint, c)) {
        Ok(cq) => cq.as_ptr(),
        Err(e) => e.to_ptr(),
    }
}

/// Gives claimed completions back.
///
/// # Safety
///
/// Called with a queue from [`ib_cq_pool_get`], whose completions have all come.
#[export]
pub(crate) unsafe extern "C" fn ib_cq_pool_put(cq: *mut bindings::ib_cq, nr_cqe: c_uint) {
    // SAFETY: Shared queues live as long as their device, which the caller still uses.
    cq::put(unsafe { PollCq::from_raw(cq) }, nr_cqe)
}
