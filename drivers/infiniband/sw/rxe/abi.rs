// SPDX-License-Identifier: GPL-2.0

//! Records that the driver shares with its library in user space.
//!
//! UAPI header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h).
//! Work requests lie in rings ([`rdma::user_ring`]): a fixed head, then scatter/gather entries or
//! inline bytes. Fields of a head that the driver does not use are not named.

use core::mem::{
    offset_of,
    size_of, //
};
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::user_ring::UserPages;

/// Network types of an address vector.
pub(crate) const NETWORK_IPV4: u8 = 1;
/// As [`NETWORK_IPV4`].
pub(crate) const NETWORK_IPV6: u8 = 2;

/// An address vector, `struct rxe_av`.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct Av {
    pub(crate) port: u8,
    pub(crate) network_type: u8,
    pub(crate) dmac: [u8; 6],
    pub(crate) dgid: [u8; 16],
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    _pad: u8,
    /// `sockaddr_in` or `sockaddr_in6`.
    pub(crate) source: [u8; 28],
    /// As `source`.
    pub(crate) dest: [u8; 28],
}

/// Head of a send request, `struct rxe_send_wqe`.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct SendHead {
    pub(crate) wr_id: u64,
    /// XRC: number of the shared receive queue at the destination. `reserved` in the header of
    /// 7.3; the library's patches for XRC have it here.
    pub(crate) srq_num: u32,
    /// `enum ib_wr_opcode`
    pub(crate) opcode: u32,
    /// `enum ib_send_flags`
    pub(crate) flags: u32,
    /// Immediate data (network order) or the key to invalidate.
    pub(crate) ex: u32,
    /// See [`RdmaWr`] and its neighbours.
    pub(crate) wr: [u8; 120],
    _status: u32,
    _state: u32,
    _iova: u64,
    _mask: u32,
    _first_psn: u32,
    _last_psn: u32,
    _ack_length: u32,
    _ssn: u32,
    _has_rd_atomic: u32,
    pub(crate) dma: DmaInfo,
}

/// Offset of the status and the state of a send request, which user space may look at.
pub(crate) const SEND_STATUS: usize = 144;

/// Status and state of a send request.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct SendStatus {
    /// `enum ib_wc_status`
    pub(crate) status: u32,
    /// 0 posted, 1 processing, 2 pending, 3 done, 4 in error.
    pub(crate) state: u32,
}

impl SendStatus {
    /// State of a request that was executed.
    pub(crate) const DONE: u32 = 3;
    /// State of a request that failed.
    pub(crate) const ERROR: u32 = 4;
}

/// How much memory a request has, `struct rxe_dma_info`. Of the other fields of the C structure
/// none is the kernel's business: it keeps its cursors to itself.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct DmaInfo {
    /// Bytes of the message.
    pub(crate) length: u32,
    _resid: u32,
    _cur_sge: u32,
    /// Entries that follow.
    pub(crate) num_sge: u32,
    _sge_offset: u32,
    _reserved: u32,
}

/// Parameters of READ and WRITE, at the start of [`SendHead::wr`].
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct RdmaWr {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    _reserved: u32,
}

/// Parameters of a FLUSH. Libraries tell its length as that of the message, in [`DmaInfo::length`],
/// and leave the field here alone.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct FlushWr {
    pub(crate) remote_addr: u64,
    _length: u32,
    pub(crate) rkey: u32,
    /// Placement: 1 global visibility, 2 persistence.
    pub(crate) placement: u8,
    /// Selectivity: 0 a range, 1 the region.
    pub(crate) level: u8,
    _pad: [u8; 6],
}

/// Parameters of an atomic operation.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct AtomicWr {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
    _reserved: u32,
}

/// Parameters of a datagram.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct DatagramWr {
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
    pub(crate) pkey_index: u16,
    _reserved: u16,
    /// Number of the address handle; 0 if the vector follows.
    pub(crate) ah_num: u32,
    _pad: [u32; 4],
    pub(crate) av: Av,
}

/// Parameters of a window binding.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct BindWr {
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) mr_lkey: u32,
    pub(crate) mw_rkey: u32,
    pub(crate) rkey: u32,
    pub(crate) access: u32,
}

/// A scatter/gather entry, `struct rxe_sge`, which is also how the kernel keeps it.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// Head of a receive request, `struct rxe_recv_wqe`.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct RecvHead {
    pub(crate) wr_id: u64,
    _reserved: u64,
    pub(crate) dma: DmaInfo,
}

/// How user space maps a ring, `struct mminfo`.
#[derive(Clone, Copy, FromBytes, IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct MmapInfo {
    offset: u64,
    size: u32,
    _pad: u32,
}

impl MmapInfo {
    /// The cookie of `pages`.
    pub(crate) fn new(offset: u64, pages: &UserPages) -> Result<Self> {
        Ok(Self {
            offset,
            size: pages.length().try_into().map_err(|_| EINVAL)?,
            _pad: 0,
        })
    }
}

/// Answer to the creation of an address handle.
#[derive(Clone, Copy, IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct AhResponse {
    pub(crate) ah_num: u32,
    pub(crate) reserved: u32,
}

/// Answer to the creation and to a resize of a completion queue.
pub(crate) type CqResponse = MmapInfo;

/// Answer to the creation of a queue pair.
#[derive(Clone, Copy, IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct QpResponse {
    pub(crate) recv: MmapInfo,
    pub(crate) send: MmapInfo,
}

/// Answer to the creation of a shared receive queue.
#[derive(Clone, Copy, IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct SrqResponse {
    pub(crate) queue: MmapInfo,
    pub(crate) srq_num: u32,
    pub(crate) reserved: u32,
}

/// Command to change a shared receive queue.
#[derive(Clone, Copy, FromBytes)]
#[repr(C)]
pub(crate) struct ModifySrqCommand {
    /// User address of the [`MmapInfo`] to be filled in when the ring is replaced.
    pub(crate) mmap_info_addr: u64,
}

/// A completion, as `struct ib_uverbs_wc`.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct Cqe {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    /// Immediate data (network order) or the key that was invalidated.
    pub(crate) ex: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) flags: u32,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
    pub(crate) port_num: u8,
    pub(crate) reserved: u8,
}

/// Flags of a completion that carries the key that was invalidated.
///
/// Programs look for libibverbs' `IBV_WC_WITH_INV`, 8, which has another value
/// than the kernel's `IB_WC_WITH_INVALIDATE`, 4. The C driver hands out the latter
/// alone, so it is there for who has learned to expect it: to libibverbs it is
/// `IBV_WC_IP_CSUM_OK`, which says nothing outside raw packet queue pairs.
pub(crate) const WC_INVALIDATED: u32 = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE | 1 << 3;

/// Bytes of a completion slot.
pub(crate) const CQE_SLOT: usize = 64;

/// Compares sizes and offsets with those of the header.
macro_rules! assert_layout {
    ($ours:ident = $theirs:ident { $($field:ident = $c_field:ident),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$ours>() == size_of::<bindings::$theirs>());
            $(assert!(offset_of!($ours, $field) == offset_of!(bindings::$theirs, $c_field));)*
        };
    };
}

assert_layout!(Av = rxe_av {
    network_type = network_type,
    dmac = dmac,
    dgid = grh,
    source = sgid_addr,
    dest = dgid_addr,
});
assert_layout!(SendHead = rxe_send_wqe {
    wr_id = wr,
    _status = status,
    _state = state,
    _iova = iova,
    _mask = mask,
    _first_psn = first_psn,
    _has_rd_atomic = has_rd_atomic,
    dma = dma,
});
assert_layout!(DmaInfo = rxe_dma_info {
    length = length,
    num_sge = num_sge,
    _sge_offset = sge_offset,
});
assert_layout!(Sge = rxe_sge { addr = addr, length = length, lkey = lkey });
assert_layout!(RecvHead = rxe_recv_wqe { wr_id = wr_id, dma = dma });
assert_layout!(MmapInfo = mminfo { offset = offset, size = size });
assert_layout!(AhResponse = rxe_create_ah_resp { ah_num = ah_num });
assert_layout!(CqResponse = rxe_resize_cq_resp {});
assert_layout!(QpResponse = rxe_create_qp_resp { recv = rq_mi, send = sq_mi });
assert_layout!(SrqResponse = rxe_create_srq_resp { queue = mi, srq_num = srq_num });
assert_layout!(ModifySrqCommand = rxe_modify_srq_cmd { mmap_info_addr = mmap_info_addr });
assert_layout!(Cqe = ib_uverbs_wc {
    wr_id = wr_id,
    status = status,
    opcode = opcode,
    byte_len = byte_len,
    ex = ex,
    qp_num = qp_num,
    src_qp = src_qp,
    flags = wc_flags,
    pkey_index = pkey_index,
    port_num = port_num,
});

/// The same numbers once more, as they are in the libraries that are out there.
const _: () = {
    assert!(size_of::<Av>() == 88 && offset_of!(Av, dmac) == 2);
    assert!(size_of::<bindings::rxe_send_wr>() == 144);
    assert!(offset_of!(SendHead, srq_num) == offset_of!(bindings::rxe_send_wr, reserved));
    assert!(offset_of!(SendHead, opcode) == 12 && offset_of!(SendHead, flags) == 16);
    assert!(offset_of!(SendHead, ex) == 20 && offset_of!(SendHead, wr) == 24);
    assert!(size_of::<SendHead>() == 208 && offset_of!(SendHead, dma) == 184);
    assert!(offset_of!(SendHead, _status) == SEND_STATUS);
    assert!(offset_of!(SendHead, _state) == SEND_STATUS + offset_of!(SendStatus, state));
    assert!(size_of::<DmaInfo>() == 24 && size_of::<Sge>() == 16);
    assert!(size_of::<RecvHead>() == 40 && offset_of!(RecvHead, dma) == 16);
    assert!(size_of::<MmapInfo>() == 16 && size_of::<AhResponse>() == 8);
    assert!(size_of::<QpResponse>() == 32 && size_of::<SrqResponse>() == 24);
    assert!(offset_of!(SrqResponse, srq_num) == 16);
    assert!(size_of::<Cqe>() == 48 && size_of::<Cqe>() <= CQE_SLOT);
    assert!(offset_of!(FlushWr, placement) == 16 && offset_of!(AtomicWr, rkey) == 24);
    assert!(offset_of!(DatagramWr, ah_num) == 12 && offset_of!(DatagramWr, av) == 32);
    assert!(offset_of!(BindWr, mr_lkey) == 16 && size_of::<DatagramWr>() == 120);
};
