// SPDX-License-Identifier: GPL-2.0

//! Work completions (`struct ib_wc`), as far as the core reads them.

use crate::gid::NO_VLAN;
use kernel::bindings;

/// A completion that a consumer has polled.
#[repr(transparent)]
pub struct Wc(bindings::ib_wc);

impl Wc {
    /// Takes a completion of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a` and not be written meanwhile.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::ib_wc) -> &'a Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    fn has(&self, flag: bindings::ib_wc_flags) -> bool {
        self.0.wc_flags & flag as i32 != 0
    }

    /// Whether a global route header precedes the payload.
    pub fn has_grh(&self) -> bool {
        self.has(bindings::ib_wc_flags_IB_WC_GRH)
    }

    /// VLAN of the packet, if the provider told.
    pub fn vlan(&self) -> Option<u16> {
        self.has(bindings::ib_wc_flags_IB_WC_WITH_VLAN)
            .then_some(self.0.vlan_id)
            .filter(|vlan| *vlan != NO_VLAN)
    }

    /// Kind of the network header (`RDMA_NETWORK_*`), if the provider told.
    pub fn network_type(&self) -> Option<bindings::rdma_network_type> {
        self.has(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE)
            .then_some(self.0.network_hdr_type.into())
    }

    /// Service level.
    pub fn service_level(&self) -> u8 {
        self.0.sl
    }

    /// LID of the sender.
    pub fn source_lid(&self) -> u32 {
        self.0.slid
    }

    /// Low bits of the LID that the packet was sent to.
    pub fn dlid_path_bits(&self) -> u8 {
        self.0.dlid_path_bits
    }
}
