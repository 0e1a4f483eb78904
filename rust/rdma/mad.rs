// SPDX-License-Identifier: GPL-2.0

//! Management datagrams.
//!
//! C headers: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h),
//! [`include/rdma/ib_smi.h`](srctree/include/rdma/ib_smi.h)

pub mod agent;
pub mod client;
pub mod glue;
pub mod process;
pub mod recv;
pub mod send;
pub mod smp;
pub mod verbs;
pub mod wire;

use kernel::bindings;

/// An entry of a completion queue.
#[repr(transparent)]
pub struct WorkCompletion(bindings::ib_wc);

impl WorkCompletion {
    /// Borrows an entry.
    ///
    /// # Safety
    ///
    /// `wc` is valid and does not change during `'a`.
    pub unsafe fn from_raw<'a>(wc: *const bindings::ib_wc) -> &'a Self {
        // SAFETY: By this function's contract; the type is transparent.
        unsafe { &*wc.cast() }
    }

    /// The completion of a packet that was delivered without a link.
    pub fn loopback(
        qp: *mut bindings::ib_qp,
        request: &send::SendWr,
        slid: u16,
        port: u32,
        byte_len: usize,
    ) -> Self {
        let mut wc: bindings::ib_wc = pin_init::zeroed();
        wc.__bindgen_anon_1.wr_cqe = request.cqe_raw();
        wc.status = bindings::ib_wc_status_IB_WC_SUCCESS;
        wc.opcode = bindings::ib_wc_opcode_IB_WC_RECV;
        wc.pkey_index = request.pkey_index();
        wc.byte_len = byte_len.try_into().unwrap_or(u32::MAX);
        wc.src_qp = 0;
        wc.qp = qp;
        wc.slid = slid.into();
        wc.port_num = port;
        Self(wc)
    }

    /// The C structure.
    pub fn raw(&self) -> &bindings::ib_wc {
        &self.0
    }

    /// A copy with another index of the partition key.
    pub fn with_pkey_index(&self, index: u16) -> Self {
        let mut wc = self.0;
        wc.pkey_index = index;
        Self(wc)
    }

    /// No error.
    pub fn is_success(&self) -> bool {
        self.0.status == bindings::ib_wc_status_IB_WC_SUCCESS
    }

    /// The packet has a global route header.
    pub fn has_grh(&self) -> bool {
        self.0.wc_flags as u32 & bindings::ib_wc_flags_IB_WC_GRH != 0
    }
}
