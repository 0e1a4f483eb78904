// SPDX-License-Identifier: GPL-2.0

//! Completions.

use core::marker::PhantomData;
use kernel::bindings;

/// How a request ended (IBTA 10.8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WcStatus {
    /// Done.
    Success = bindings::ib_wc_status_IB_WC_SUCCESS,
    /// A message is longer than allowed, or than the receive request.
    LocalLength = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
    /// The queue pair cannot process the request.
    LocalQpOperation = bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    /// A scatter/gather entry is not within a valid region.
    LocalProtection = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
    /// The queue pair is in the error state.
    WorkRequestFlushed = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
    /// A window could not be bound.
    MwBind = bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
    /// The answer of the peer makes no sense.
    BadResponse = bindings::ib_wc_status_IB_WC_BAD_RESP_ERR,
    /// A write of the peer hit a region that does not allow it.
    LocalAccess = bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
    /// The peer did not understand the request.
    RemoteInvalidRequest = bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    /// The peer's region does not allow it.
    RemoteAccess = bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
    /// The peer could not do it.
    RemoteOperation = bindings::ib_wc_status_IB_WC_REM_OP_ERR,
    /// The peer did not answer.
    RetryExceeded = bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
    /// The peer had no receive request.
    RnrRetryExceeded = bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
    /// The peer aborted the request.
    RemoteAborted = bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
    /// The queue pair or the device does not work any more.
    Fatal = bindings::ib_wc_status_IB_WC_FATAL_ERR,
    /// No response in time.
    ResponseTimeout = bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR,
    /// Something else.
    General = bindings::ib_wc_status_IB_WC_GENERAL_ERR,
}

/// What kind of request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WcOpcode {
    /// A send.
    Send = bindings::ib_wc_opcode_IB_WC_SEND,
    /// A write.
    RdmaWrite = bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
    /// A read.
    RdmaRead = bindings::ib_wc_opcode_IB_WC_RDMA_READ,
    /// Compare and swap.
    CompareSwap = bindings::ib_wc_opcode_IB_WC_COMP_SWAP,
    /// Fetch and add.
    FetchAdd = bindings::ib_wc_opcode_IB_WC_FETCH_ADD,
    /// A window was bound.
    BindMw = bindings::ib_wc_opcode_IB_WC_BIND_MW,
    /// A key was invalidated.
    LocalInvalidate = bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
    /// A large send that the device segments.
    LargeSend = bindings::ib_wc_opcode_IB_WC_LSO,
    /// A write of eight bytes at once.
    AtomicWrite = bindings::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
    /// A region was registered.
    RegisterMr = bindings::ib_wc_opcode_IB_WC_REG_MR,
    /// Compare and swap under masks.
    MaskedCompareSwap = bindings::ib_wc_opcode_IB_WC_MASKED_COMP_SWAP,
    /// Fetch and add under a mask.
    MaskedFetchAdd = bindings::ib_wc_opcode_IB_WC_MASKED_FETCH_ADD,
    /// A flush of remote memory.
    Flush = bindings::ib_wc_opcode_IB_WC_FLUSH,
    /// A receive.
    Recv = bindings::ib_wc_opcode_IB_WC_RECV,
    /// A receive request that a write with immediate data took.
    RecvRdmaWithImm = bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
}

/// The queue pair that a completion names. It is handed back to the consumer, who owns the queue
/// pair, and never followed here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QpTag(*mut bindings::ib_qp);

// SAFETY: The pointer is only passed on.
unsafe impl Send for QpTag {}

// SAFETY: As above.
unsafe impl Sync for QpTag {}

impl QpTag {
    pub(super) fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp)
    }
}

/// A completion, as a driver keeps it and hands it out.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Wc(bindings::ib_wc);

// SAFETY: The pointers in a completion are only passed on.
unsafe impl Send for Wc {}

// SAFETY: As above.
unsafe impl Sync for Wc {}

impl Wc {
    /// The completion of the request `wr_id` of a queue pair.
    pub fn new(wr_id: u64, qp: QpTag, opcode: WcOpcode, status: WcStatus) -> Self {
        let mut wc: bindings::ib_wc = pin_init::zeroed();
        wc.__bindgen_anon_1.wr_id = wr_id;
        wc.qp = qp.0;
        wc.opcode = opcode as u32;
        wc.status = status as u32;
        Self(wc)
    }

    fn flag(mut self, flag: bindings::ib_wc_flags) -> Self {
        self.0.wc_flags |= flag as i32;
        self
    }

    /// The queue pair that the completion is of.
    pub fn tag(&self) -> QpTag {
        QpTag(self.0.qp)
    }

    /// The status as the number of C.
    pub fn status(&self) -> u32 {
        self.0.status
    }

    /// Whether the request did not end well.
    pub fn is_error(&self) -> bool {
        self.0.status != WcStatus::Success as u32
    }

    /// Bytes that were transferred.
    pub fn len(mut self, bytes: u32) -> Self {
        self.0.byte_len = bytes;
        self
    }

    /// The reason of an error, in the driver's own numbers.
    pub fn vendor_error(mut self, error: u32) -> Self {
        self.0.vendor_err = error;
        self
    }

    /// Immediate data, in network order as it came.
    pub fn imm_data(mut self, data: u32) -> Self {
        self.0.ex.imm_data = data;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_IMM)
    }

    /// The peer invalidated this key.
    pub fn invalidated(mut self, rkey: u32) -> Self {
        self.0.ex.invalidate_rkey = rkey;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE)
    }

    /// The queue pair of the sender.
    pub fn source_qp(mut self, number: u32) -> Self {
        self.0.src_qp = number;
        self
    }

    /// A global route header precedes the payload of a datagram.
    pub fn grh(self) -> Self {
        self.flag(bindings::ib_wc_flags_IB_WC_GRH)
    }

    /// Index of the partition key, for QP1.
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.0.pkey_index = index;
        self
    }

    /// The LID of the sender, its service level, and the low bits of the receiver's LID.
    pub fn path(mut self, source_lid: u32, service_level: u8, path_bits: u8) -> Self {
        self.0.slid = source_lid;
        self.0.sl = service_level;
        self.0.dlid_path_bits = path_bits;
        self
    }

    /// The port that the datagram came by.
    pub fn port(mut self, port: u32) -> Self {
        self.0.port_num = port;
        self
    }

    /// The Ethernet address of the sender.
    pub fn source_mac(mut self, mac: [u8; 6]) -> Self {
        self.0.smac = mac;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_SMAC)
    }

    /// The VLAN.
    pub fn vlan(mut self, vlan: u16) -> Self {
        self.0.vlan_id = vlan;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_VLAN)
    }

    /// Kind of the network header, `RDMA_NETWORK_*`.
    pub fn network_type(mut self, network_type: u8) -> Self {
        self.0.network_hdr_type = network_type;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE)
    }

    /// The C structure, for the layouts that a driver shares with user space.
    pub fn raw(&self) -> &bindings::ib_wc {
        &self.0
    }
}

/// Room of a consumer that polls.
pub struct WcSlots<'a> {
    next: *mut bindings::ib_wc,
    room: u32,
    used: u32,
    _slots: PhantomData<&'a mut bindings::ib_wc>,
}

impl WcSlots<'_> {
    /// # Safety
    ///
    /// `first` must be writable for `room` completions for `'a`; they may be uninitialised.
    pub(super) unsafe fn from_raw(first: *mut bindings::ib_wc, room: u32) -> Self {
        Self {
            next: first,
            room,
            used: 0,
            _slots: PhantomData,
        }
    }

    /// How many more completions there is room for.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// How many completions were handed out.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Hands out a completion; returns false, and does nothing, if there is no room.
    #[must_use = "a completion that does not fit is lost if the driver forgets it"]
    pub fn push(&mut self, wc: &Wc) -> bool {
        if self.room == 0 {
            return false;
        }
        // SAFETY: There is room by the contract of `from_raw`.
        unsafe {
            self.next.write(wc.0);
            self.next = self.next.add(1);
        }
        self.room -= 1;
        self.used += 1;
        true
    }
}
