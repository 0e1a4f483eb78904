// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the driver answers itself.

use super::{Device, Driver};
use crate::mad::wire::MAD_SIZE;
use kernel::{bindings, ffi::c_int};

/// A management datagram that came by a port, or that a local client asks about.
pub struct MadRequest<'a> {
    /// The port.
    pub port: u32,
    /// The management key need not be right.
    pub ignore_mkey: bool,
    /// The base management key need not be right.
    pub ignore_bkey: bool,
    /// The datagram.
    pub mad: &'a [u8; MAD_SIZE],
    wc: *const bindings::ib_wc,
}

impl MadRequest<'_> {
    /// LID and queue pair of the sender, if it came over the wire.
    pub fn source(&self) -> Option<(u32, u32)> {
        if self.wc.is_null() {
            return None;
        }
        // SAFETY: Null or valid by the contract of the operation.
        Some(unsafe { ((*self.wc).slid, (*self.wc).src_qp) })
    }
}

/// Room for the answer.
pub struct MadReply<'a> {
    /// The bytes; the driver writes all of the answer.
    pub mad: &'a mut [u8; MAD_SIZE],
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadOutcome {
    /// It is not for the driver.
    Passed,
    /// The driver has answered it; the answer is to be sent.
    Replied,
    /// The driver is done with it.
    Consumed,
    /// The driver could not process it; it is dropped.
    Failed,
}

/// # Safety
///
/// Called by the core for the driver's device, with a datagram and room for one; the completion
/// may be null.
pub(super) unsafe extern "C" fn process_mad<D: Driver>(
    device: *mut bindings::ib_device,
    flags: c_int,
    port: u32,
    wc: *const bindings::ib_wc,
    _grh: *const bindings::ib_grh,
    mad: *const bindings::ib_mad,
    reply: *mut bindings::ib_mad,
    _reply_size: *mut usize,
    _reply_pkey_index: *mut u16,
) -> c_int {
    let has = |flag: u32| flags as u32 & flag != 0;
    // SAFETY: By the contract of the operation; both datagrams have at least this size.
    let outcome = unsafe {
        let request = MadRequest {
            port,
            ignore_mkey: has(bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY),
            ignore_bkey: has(bindings::ib_process_mad_flags_IB_MAD_IGNORE_BKEY),
            mad: &*mad.cast(),
            wc,
        };
        let mut reply = MadReply {
            mad: &mut *reply.cast(),
        };
        D::process_mad(Device::from_raw(device), &request, &mut reply)
    };
    const SUCCESS: u32 = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
    let bits = match outcome {
        MadOutcome::Passed => SUCCESS,
        MadOutcome::Replied => SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_REPLY,
        MadOutcome::Consumed => SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED,
        MadOutcome::Failed => bindings::ib_mad_result_IB_MAD_RESULT_FAILURE,
    };
    bits as c_int
}
