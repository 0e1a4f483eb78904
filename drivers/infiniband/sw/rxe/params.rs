// SPDX-License-Identifier: GPL-2.0

//! Limits of the devices and of what runs on them.
//!
//! What users see through `ibv_query_device` and the like is the same as that of the C driver, so
//! that programs that were sized for it fit.

use kernel::bindings;
use rdma::{classic::Promises, provider::DeviceAttr};

/// UDP port of RoCE v2 (IBTA annex A17).
pub(crate) const ROCE_PORT: u16 = bindings::ROCE_V2_UDP_DPORT as u16;

/// The only port of a device.
pub(crate) const PORT: u32 = 1;

/// The full-member partition that every port belongs to.
pub(crate) const DEFAULT_PKEY: u16 = bindings::IB_DEFAULT_PKEY_FULL as u16;

/// Q_Key of the general services QP (IBTA 3.5.3).
pub(crate) const GSI_QKEY: u32 = 0x8001_0000;

/// Number of the general services QP.
pub(crate) const GSI_QPN: u32 = 1;

/// Destination QP number of packets to a multicast group.
pub(crate) const MULTICAST_QPN: u32 = 0xff_ffff;

/// Largest message, in bytes.
pub(crate) const MAX_MSG_SIZE: u32 = 1 << 31;

/// Work requests of a send or receive queue.
pub(crate) const MAX_QP_WR: u32 = 1 << 20;

/// Scatter/gather entries of a work request.
pub(crate) const MAX_SGE: u32 = 32;

/// Bytes of inline data, which lie where the scatter/gather entries would be.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * size_of::<bindings::ib_sge>() as u32;

/// Entries of the GID table of a port.
pub(crate) const GID_TABLE_LEN: u32 = 1024;

/// READs and atomics that a QP may have outstanding, on either side.
pub(crate) const MAX_RD_ATOMIC: u32 = 128;

/// Buffers of a QP that may be in the network stack before it pauses.
pub(crate) const INFLIGHT_HIGH: u32 = 64;

/// Buffers of a QP that may remain in the network stack for it to resume.
pub(crate) const INFLIGHT_LOW: u32 = 16;

/// Packets that a QP keeps until its task gets to them. Requests beyond that are dropped, which the
/// peer repairs as any other loss.
pub(crate) const RX_QUEUE_MAX: usize = 4096;

/// Packets or work requests that a task handles before others get their turn.
pub(crate) const TASK_BUDGET: u32 = 1024;

/// As [`TASK_BUDGET`], in a softirq or within the call of a process.
pub(crate) const SOFT_BUDGET: u32 = 128;

/// `IB_DEVICE_*` flags of a device.
pub(crate) const DEVICE_CAPS: u64 = (bindings::ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR
    | bindings::ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR
    | bindings::ib_device_cap_flags_IB_DEVICE_AUTO_PATH_MIG
    | bindings::ib_device_cap_flags_IB_DEVICE_CHANGE_PHY_PORT
    | bindings::ib_device_cap_flags_IB_DEVICE_UD_AV_PORT_ENFORCE
    | bindings::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT
    | bindings::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID
    | bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN
    | bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE
    | bindings::ib_device_cap_flags_IB_DEVICE_XRC
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B
    | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL
    | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT
    | bindings::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE)
    as u64;

/// Indices of memory regions and windows share a space of this size, half for each.
const KEY_SPACE: u32 = 1 << 20;

/// Fills in the limits and capabilities of a device, which are the same for all.
pub(crate) fn fill_device(attr: &mut DeviceAttr) {
    attr.vendor_id = 0xff_ffff;
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 0xffff_f000;
    attr.device_cap_flags = DEVICE_CAPS;
    attr.kernel_cap_flags = u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG)
        | u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING)
        | Promises::BIND_MW
        | Promises::USER_OPS;
    attr.max_qp = (1 << 20) - 16;
    attr.max_qp_wr = MAX_QP_WR;
    attr.max_send_sge = MAX_SGE;
    attr.max_recv_sge = MAX_SGE;
    attr.max_sge_rd = MAX_SGE;
    attr.max_cq = 1 << 20;
    attr.max_cqe = (1 << 15) - 1;
    attr.max_mr = KEY_SPACE / 2 - 1;
    attr.max_mw = KEY_SPACE / 2 - 1;
    attr.max_pd = 1 << 20;
    attr.max_qp_rd_atom = MAX_RD_ATOMIC;
    attr.max_qp_init_rd_atom = MAX_RD_ATOMIC;
    attr.max_res_rd_atom = 0x3f000;
    attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_HCA;
    attr.max_mcast_grp = 8192;
    attr.max_mcast_qp_attach = 56;
    attr.max_total_mcast_qp_attach = 8192 * 56;
    attr.max_ah = (1 << 15) - 1;
    attr.max_srq = (1 << 20) - 0x2_0001;
    attr.max_srq_wr = 1 << 20;
    attr.max_srq_sge = 27;
    attr.max_fast_reg_page_list_len = 512;
    attr.max_pkeys = 64;
    attr.local_ca_ack_delay = 15;
    attr.cq_caps.max_cq_moderation_count = u16::MAX;
    attr.cq_caps.max_cq_moderation_period = u16::MAX;

    let odp = &mut attr.odp_caps;
    let datagrams = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
    odp.general_caps = u64::from(
        bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT
            | bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT_IMPLICIT,
    );
    odp.per_transport_caps.ud_odp_caps = datagrams;
    odp.per_transport_caps.rc_odp_caps = datagrams
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH
        | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE;
}
