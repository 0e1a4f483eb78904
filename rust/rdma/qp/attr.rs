// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, one by one.

use super::{AttrMask, QpAttr, QpInitAttr, QpType};
use crate::mr::Access;
use kernel::bindings;

/// State of a queue pair (IBTA 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum QpState {
    /// Nothing may be posted.
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Receives may be posted.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Ready to receive.
    Rtr = bindings::ib_qp_state_IB_QPS_RTR,
    /// Ready to send.
    Rts = bindings::ib_qp_state_IB_QPS_RTS,
    /// The send queue drains.
    Sqd = bindings::ib_qp_state_IB_QPS_SQD,
    /// The send queue has failed.
    Sqe = bindings::ib_qp_state_IB_QPS_SQE,
    /// Everything is flushed.
    Err = bindings::ib_qp_state_IB_QPS_ERR,
}

impl QpState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// From the C constant; nothing for a number that is no state.
    pub fn from_raw(raw: bindings::ib_qp_state) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u32 == raw)
    }

    /// To the C constant.
    pub const fn as_raw(self) -> bindings::ib_qp_state {
        self as u32
    }
}

/// Whether a queue pair of a kind may go from one state to another with these attributes, as the
/// core's table tells (IBTA 10.3.1, 11.2.5.2). Drivers ask this before they change anything.
pub fn transition(from: QpState, to: QpState, kind: QpType, mask: AttrMask) -> bool {
    // SAFETY: The function only looks at a table.
    unsafe { bindings::ib_modify_qp_is_ok(from.as_raw(), to.as_raw(), kind.0, mask.0) }
}

/// Sizes of a queue pair.
pub type QpCap = bindings::ib_qp_cap;

/// Declares getters and setters of plain fields.
macro_rules! fields {
    ($type:ident: $($(#[$doc:meta])* $get:ident, $set:ident: $ty:ty = $($field:ident).+;)*) => {
        impl $type {
            $(
                $(#[$doc])*
                pub fn $get(&self) -> $ty {
                    self.0.$($field).+
                }

                /// Sets this field.
                pub fn $set(&mut self, value: $ty) {
                    self.0.$($field).+ = value;
                }
            )*
        }
    };
}

fields! { QpAttr:
    /// The MTU of the path, encoded.
    path_mtu, set_path_mtu: u32 = path_mtu;
    /// The state of path migration, `IB_MIG_*`.
    path_mig_state, set_path_mig_state: u32 = path_mig_state;
    /// The queue key.
    qkey, set_qkey: u32 = qkey;
    /// First expected sequence number.
    rq_psn_value, set_rq_psn: u32 = rq_psn;
    /// First sequence number to send.
    sq_psn_value, set_sq_psn: u32 = sq_psn;
    /// The queue pair of the peer.
    dest_qp_num, set_dest_qp_num: u32 = dest_qp_num;
    /// Index of the partition key.
    pkey_index, set_pkey_index: u16 = pkey_index;
    /// Index of the partition key of the alternate path.
    alt_pkey_index, set_alt_pkey_index: u16 = alt_pkey_index;
    /// Whether the end of SQD is told.
    en_sqd_async_notify, set_en_sqd_async_notify: u8 = en_sqd_async_notify;
    /// Whether the send queue is draining.
    sq_draining, set_sq_draining: u8 = sq_draining;
    /// Outstanding reads and atomics.
    max_rd_atomic, set_max_rd_atomic: u8 = max_rd_atomic;
    /// Outstanding reads and atomics of the peer.
    max_dest_rd_atomic, set_max_dest_rd_atomic: u8 = max_dest_rd_atomic;
    /// How long a peer waits that found no receive request, encoded.
    min_rnr_timer, set_min_rnr_timer: u8 = min_rnr_timer;
    /// The port.
    port_num, set_port_num: u32 = port_num;
    /// The timeout of an acknowledgement, as an exponent of 4.096 us.
    timeout, set_timeout: u8 = timeout;
    /// The number of retries.
    retry_cnt, set_retry_cnt: u8 = retry_cnt;
    /// The number of retries while the peer is not ready; 7 is no limit.
    rnr_retry, set_rnr_retry: u8 = rnr_retry;
    /// The port of the alternate path.
    alt_port_num, set_alt_port_num: u32 = alt_port_num;
    /// The timeout of the alternate path.
    alt_timeout, set_alt_timeout: u8 = alt_timeout;
    /// The rate limit in kbit/s.
    rate_limit, set_rate_limit: u32 = rate_limit;
}

impl QpAttr {
    /// The state to go to, or reported; nothing for a number that is no state.
    pub fn state(&self) -> Option<QpState> {
        QpState::from_raw(self.0.qp_state)
    }

    /// Sets the state to go to, or reported.
    pub fn set_state(&mut self, state: QpState) {
        self.0.qp_state = state.as_raw();
    }

    /// The state that the consumer believes the queue pair to be in.
    pub fn cur_state(&self) -> Option<QpState> {
        QpState::from_raw(self.0.cur_qp_state)
    }

    /// Sets the state that the queue pair is in.
    pub fn set_cur_state(&mut self, state: QpState) {
        self.0.cur_qp_state = state.as_raw();
    }

    /// What peers may do.
    pub fn access(&self) -> Access {
        Access::from_bits(self.0.qp_access_flags)
    }

    /// Sets what peers may do.
    pub fn set_access(&mut self, access: Access) {
        self.0.qp_access_flags = access.bits();
    }

    /// The sizes.
    pub fn cap(&self) -> QpCap {
        self.0.cap
    }

    /// Sets the sizes.
    pub fn set_cap(&mut self, cap: QpCap) {
        self.0.cap = cap;
    }
}

fields! { QpInitAttr:
    /// Whether all sends are reported (`IB_SIGNAL_ALL_WR`), or those that ask for it.
    sig_type, set_sig_type: u32 = sq_sig_type;
    /// `IB_QP_CREATE_*`.
    create_flags, set_create_flags: u32 = create_flags;
    /// The number that a raw queue pair pretends to have.
    source_qpn, set_source_qpn: u32 = source_qpn;
}

impl QpInitAttr {
    /// The sizes.
    pub fn cap(&self) -> QpCap {
        self.0.cap
    }

    /// Sets the sizes, those that the consumer gets.
    pub fn set_cap(&mut self, cap: QpCap) {
        self.0.cap = cap;
    }

    /// Whether all sends are reported, not only those that ask for it.
    pub fn signals_all(&self) -> bool {
        self.0.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR
    }

    /// Sets the transport service.
    pub fn set_kind(&mut self, kind: QpType) {
        self.0.qp_type = kind.0;
    }
}
