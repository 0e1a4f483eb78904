// SPDX-License-Identifier: GPL-2.0

//! What is asked of queue pairs: their kind, their attributes, and which of them a call means.

use crate::{
    ah::{AhAttr, XmitSlave},
    async_event::EventHandler,
    device::Device,
    qp::Qp,
    xrcd::Xrcd,
};
use core::ptr;
use kernel::{bindings, prelude::*};

/// Transport service of a queue pair (`IB_QPT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpType(pub(super) bindings::ib_qp_type);

impl QpType {
    /// Reliable connection.
    pub const RC: Self = Self(bindings::ib_qp_type_IB_QPT_RC);
    /// Unreliable connection.
    pub const UC: Self = Self(bindings::ib_qp_type_IB_QPT_UC);
    /// Subnet management, QP0.
    pub const SMI: Self = Self(bindings::ib_qp_type_IB_QPT_SMI);
    /// General services, QP1.
    pub const GSI: Self = Self(bindings::ib_qp_type_IB_QPT_GSI);
    /// XRC initiator: only sends.
    pub const XRC_INI: Self = Self(bindings::ib_qp_type_IB_QPT_XRC_INI);
    /// Unreliable datagram.
    pub const UD: Self = Self(bindings::ib_qp_type_IB_QPT_UD);
    /// XRC target: only receives, for several initiators.
    pub const XRC_TGT: Self = Self(bindings::ib_qp_type_IB_QPT_XRC_TGT);

    /// From the C constant; drivers have values of their own.
    pub fn from_raw(raw: bindings::ib_qp_type) -> Self {
        Self(raw)
    }

    /// To the C constant.
    pub fn as_raw(self) -> bindings::ib_qp_type {
        self.0
    }

    /// Whether the queue pair sends datagrams, each with an address of its own.
    pub fn is_datagram(self) -> bool {
        matches!(
            self.0,
            bindings::ib_qp_type_IB_QPT_UD
                | bindings::ib_qp_type_IB_QPT_GSI
                | bindings::ib_qp_type_IB_QPT_SMI
        )
    }

    /// Whether the queue pair is connected to one peer and has a path of its own.
    pub fn is_connected(self) -> bool {
        matches!(
            self.0,
            bindings::ib_qp_type_IB_QPT_UC
                | bindings::ib_qp_type_IB_QPT_RC
                | bindings::ib_qp_type_IB_QPT_XRC_INI
                | bindings::ib_qp_type_IB_QPT_XRC_TGT
        )
    }
}

/// Which fields of a [`QpAttr`] a call means (`IB_QP_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttrMask(pub(super) u32);

impl AttrMask {
    /// The state to go to.
    pub const STATE: Self = Self(bindings::ib_qp_attr_mask_IB_QP_STATE);
    /// The port.
    pub const PORT: Self = Self(bindings::ib_qp_attr_mask_IB_QP_PORT);
    /// The primary path.
    pub const AV: Self = Self(bindings::ib_qp_attr_mask_IB_QP_AV);
    /// The alternate path.
    pub const ALT_PATH: Self = Self(bindings::ib_qp_attr_mask_IB_QP_ALT_PATH);
    /// First expected sequence number.
    pub const RQ_PSN: Self = Self(bindings::ib_qp_attr_mask_IB_QP_RQ_PSN);
    /// First sequence number to send.
    pub const SQ_PSN: Self = Self(bindings::ib_qp_attr_mask_IB_QP_SQ_PSN);
    /// The state that the consumer believes the queue pair to be in.
    pub const CUR_STATE: Self = Self(bindings::ib_qp_attr_mask_IB_QP_CUR_STATE);
    /// Whether the end of SQD is told.
    pub const EN_SQD_ASYNC_NOTIFY: Self = Self(bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY);
    /// What peers may do.
    pub const ACCESS_FLAGS: Self = Self(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS);
    /// The partition.
    pub const PKEY_INDEX: Self = Self(bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX);
    /// The queue key.
    pub const QKEY: Self = Self(bindings::ib_qp_attr_mask_IB_QP_QKEY);
    /// The MTU of the path.
    pub const PATH_MTU: Self = Self(bindings::ib_qp_attr_mask_IB_QP_PATH_MTU);
    /// The timeout of an acknowledgement.
    pub const TIMEOUT: Self = Self(bindings::ib_qp_attr_mask_IB_QP_TIMEOUT);
    /// The number of retries.
    pub const RETRY_CNT: Self = Self(bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT);
    /// The number of retries while the peer is not ready.
    pub const RNR_RETRY: Self = Self(bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY);
    /// The number of outstanding reads and atomics.
    pub const MAX_QP_RD_ATOMIC: Self = Self(bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC);
    /// The number of outstanding reads and atomics of the peer.
    pub const MAX_DEST_RD_ATOMIC: Self = Self(bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC);
    /// How long a peer waits that found no receive request.
    pub const MIN_RNR_TIMER: Self = Self(bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER);
    /// The state of path migration.
    pub const PATH_MIG_STATE: Self = Self(bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE);
    /// The sizes.
    pub const CAP: Self = Self(bindings::ib_qp_attr_mask_IB_QP_CAP);
    /// The queue pair of the peer.
    pub const DEST_QPN: Self = Self(bindings::ib_qp_attr_mask_IB_QP_DEST_QPN);
    /// The rate limit.
    pub const RATE_LIMIT: Self = Self(bindings::ib_qp_attr_mask_IB_QP_RATE_LIMIT);
    /// What every provider knows.
    pub const STANDARD: Self = Self(bindings::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS);

    /// From the bits of a C caller.
    pub fn from_bits(bits: c_int) -> Self {
        Self(bits as u32)
    }

    /// As C passes it.
    pub fn bits(self) -> c_int {
        self.0 as c_int
    }

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for AttrMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Attributes to be changed, or asked for.
#[repr(transparent)]
pub struct QpAttr(pub(super) bindings::ib_qp_attr);

impl QpAttr {
    /// Views attributes of a C caller.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use it meanwhile, and where the caller's
    /// mask names an address vector, that vector's source GID must be null or a reference that
    /// belongs to it.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_qp_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// Views memory that is about to receive attributes: its address vectors have no source
    /// GID, whatever lies there.
    ///
    /// # Safety
    ///
    /// `ptr` must be writable for `'a`, and nobody else may use it meanwhile.
    pub unsafe fn from_raw_output<'a>(ptr: *mut bindings::ib_qp_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function.
        unsafe {
            (&raw mut (*ptr).ah_attr.grh.sgid_attr).write(ptr::null());
            (&raw mut (*ptr).alt_ah_attr.grh.sgid_attr).write(ptr::null());
            Self::from_raw(ptr)
        }
    }

    /// Attributes that move a queue pair to the error state, with [`AttrMask::STATE`].
    pub fn error_state() -> Self {
        let mut attr: bindings::ib_qp_attr = pin_init::zeroed();
        attr.qp_state = bindings::ib_qp_state_IB_QPS_ERR;
        Self(attr)
    }

    /// No attributes.
    pub fn empty() -> Self {
        Self(pin_init::zeroed())
    }

    /// Whether the state to go to, or reported, is INIT.
    pub fn is_init(&self) -> bool {
        self.0.qp_state == bindings::ib_qp_state_IB_QPS_INIT
    }

    /// Whether the reported state is INIT or later, so that the queue pair has a port.
    pub fn has_port(&self) -> bool {
        self.0.qp_state >= bindings::ib_qp_state_IB_QPS_INIT
    }

    /// The port.
    pub fn port(&self) -> u32 {
        self.0.port_num
    }

    /// The primary path. Only meaningful with [`AttrMask::AV`].
    pub fn av(&mut self) -> &mut AhAttr {
        // SAFETY: By the contract of `from_raw`; the vector is part of `self`.
        unsafe { AhAttr::from_raw(&mut self.0.ah_attr) }
    }

    /// The alternate path. Only meaningful with [`AttrMask::ALT_PATH`].
    pub fn alt_path(&mut self) -> &mut AhAttr {
        // SAFETY: As above.
        unsafe { AhAttr::from_raw(&mut self.0.alt_ah_attr) }
    }

    /// First expected sequence number.
    pub fn rq_psn(&mut self) -> &mut u32 {
        &mut self.0.rq_psn
    }

    /// First sequence number to send.
    pub fn sq_psn(&mut self) -> &mut u32 {
        &mut self.0.sq_psn
    }

    /// Tells the driver which bonding slave the primary path uses.
    pub fn set_xmit_slave(&mut self, slave: &XmitSlave) {
        self.0.xmit_slave = slave.as_raw();
    }
}

/// What a consumer asks for when it creates a queue pair.
#[repr(transparent)]
pub struct QpInitAttr(pub(super) bindings::ib_qp_init_attr);

impl QpInitAttr {
    /// Takes the request of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use it meanwhile, the objects that it names
    /// must be live objects of the same device, and the handler must be callable as long as the
    /// queue pair exists.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_qp_init_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// An empty request, as the place for the result of a query.
    pub fn empty() -> Self {
        Self(pin_init::zeroed())
    }

    /// Transport service.
    pub fn kind(&self) -> QpType {
        QpType(self.0.qp_type)
    }

    /// Whether the consumer wants contexts of the RDMA READ/WRITE API.
    pub fn wants_rdma_contexts(&self) -> bool {
        self.0.cap.max_rdma_ctxs != 0
    }

    /// Number of contexts of the RDMA READ/WRITE API.
    pub fn rdma_contexts(&self) -> u32 {
        self.0.cap.max_rdma_ctxs
    }

    /// The port that the connection is going to use.
    pub fn port(&self) -> u32 {
        self.0.port_num
    }

    /// Number of send requests.
    pub fn max_send_wr(&self) -> u32 {
        self.0.cap.max_send_wr
    }

    /// Sets the number of send requests.
    pub fn set_max_send_wr(&mut self, count: u32) {
        self.0.cap.max_send_wr = count;
    }

    /// Largest number of SG entries of a send request.
    pub fn max_send_sge(&self) -> u32 {
        self.0.cap.max_send_sge
    }

    /// Whether the queue pair transfers data with protection information.
    pub fn wants_integrity(&self) -> bool {
        const INTEGRITY: u32 = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
        self.0.create_flags & INTEGRITY != 0
    }

    /// The XRC domain of a target.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        // SAFETY: Null or live by the contract of `from_raw`.
        (!self.0.xrcd.is_null()).then(|| unsafe { Xrcd::from_raw(self.0.xrcd) })
    }

    /// Where events go.
    pub fn event_handler(&self) -> EventHandler {
        // SAFETY: By the contract of `from_raw`.
        unsafe { EventHandler::from_raw(self.0.event_handler, self.0.qp_context) }
    }

    /// Tells what a queue pair was created with: handler, context and the queues that it is built
    /// on. For the answer to a query.
    pub fn set_owner(&mut self, qp: &Qp) {
        let qp = qp.as_raw();
        // SAFETY: The queue pair is live; these are set at creation.
        unsafe {
            self.0.event_handler = (*qp).registered_event_handler;
            self.0.qp_context = (*qp).qp_context;
            self.0.send_cq = (*qp).send_cq;
            self.0.recv_cq = (*qp).recv_cq;
            self.0.srq = (*qp).srq;
        }
    }

    /// Enlarges the request by what the RDMA READ/WRITE API needs on `device`.
    #[inline]
    pub fn reserve_rdma_contexts(&mut self, device: &Device) {
        // SAFETY: Both are valid.
        unsafe { bindings::rdma_rw_init_qp(device.as_raw(), &mut self.0) };
    }
}

/// What one more user of an XRC target asks for.
#[repr(transparent)]
pub struct QpOpenAttr(pub(super) bindings::ib_qp_open_attr);

impl QpOpenAttr {
    /// Takes the request of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, and the handler must be callable as long as the handle
    /// exists.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::ib_qp_open_attr) -> &'a Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Transport service.
    pub fn kind(&self) -> QpType {
        QpType(self.0.qp_type)
    }

    /// Number of the queue pair.
    pub fn number(&self) -> u32 {
        self.0.qp_num
    }

    /// Where events go.
    pub fn event_handler(&self) -> EventHandler {
        // SAFETY: By the contract of `from_raw`.
        unsafe { EventHandler::from_raw(self.0.event_handler, self.0.qp_context) }
    }
}
