// SPDX-License-Identifier: GPL-2.0

//! Completions, as the two kinds of consumer see them.

use crate::{
    abi,
    proto::wr::{
        RecvWc,
        SendWc,
        Status,
        WcOp, //
    },
    wire::packet::SendEnd, //
};
use kernel::bindings;
use rdma::provider::{
    QpTag,
    Wc,
    WcOpcode,
    WcStatus, //
};

/// What the consumer learns of a request that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    wr_id: u64,
    status: Status,
    opcode: WcOpcode,
    byte_len: u32,
    end: SendEnd,
    src_qp: u32,
    grh: bool,
    solicited: bool,
    arrival: Option<Arrival>,
}

/// How a received message came, for consumers in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `RDMA_NETWORK_IPV4` or `RDMA_NETWORK_IPV6`.
    pub(crate) network_type: u8,
    /// The VLAN of the network device.
    pub(crate) vlan: Option<u16>,
}

impl WcOp {
    fn opcode(self) -> WcOpcode {
        match self {
            Self::Send => WcOpcode::Send,
            Self::Write => WcOpcode::RdmaWrite,
            Self::Read => WcOpcode::RdmaRead,
            Self::CompareSwap => WcOpcode::CompareSwap,
            Self::FetchAdd => WcOpcode::FetchAdd,
            Self::AtomicWrite => WcOpcode::AtomicWrite,
            Self::Flush => WcOpcode::Flush,
            Self::RegMr => WcOpcode::RegisterMr,
            Self::LocalInvalidate => WcOpcode::LocalInvalidate,
            Self::BindMw => WcOpcode::BindMw,
        }
    }
}

impl Status {
    fn wc_status(self) -> WcStatus {
        match self {
            Self::Success => WcStatus::Success,
            Self::LocLen => WcStatus::LocalLength,
            Self::LocQpOp => WcStatus::LocalQpOperation,
            Self::LocProt => WcStatus::LocalProtection,
            Self::WrFlush => WcStatus::WorkRequestFlushed,
            Self::MwBind => WcStatus::MwBind,
            Self::BadResp => WcStatus::BadResponse,
            Self::RemInvReq => WcStatus::RemoteInvalidRequest,
            Self::RemAccess => WcStatus::RemoteAccess,
            Self::RemOp => WcStatus::RemoteOperation,
            Self::RetryExc => WcStatus::RetryExceeded,
            Self::RnrRetryExc => WcStatus::RnrRetryExceeded,
            Self::Fatal => WcStatus::Fatal,
        }
    }
}

impl Completion {
    /// Of a request of the send queue.
    pub(crate) fn of_send(wc: &SendWc) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.op.opcode(),
            byte_len: wc.byte_len,
            end: SendEnd::Plain,
            src_qp: 0,
            grh: false,
            solicited: false,
            arrival: None,
        }
    }

    /// Of a receive request.
    pub(crate) fn of_recv(wc: &RecvWc, arrival: Option<Arrival>) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: if wc.by_write {
                WcOpcode::RecvRdmaWithImm
            } else {
                WcOpcode::Recv
            },
            byte_len: wc.byte_len,
            end: wc.end,
            src_qp: wc.src_qp,
            grh: wc.grh,
            solicited: wc.solicited,
            arrival,
        }
    }

    /// Whether the request did not end well.
    pub(super) fn is_error(&self) -> bool {
        self.status != Status::Success
    }

    /// Whether a consumer that waits for solicited ones only is to be told.
    pub(super) fn is_solicited(&self) -> bool {
        self.solicited || self.is_error()
    }

    /// The entry for user space.
    pub(super) fn to_user(self, qpn: u32) -> abi::Cqe {
        let (ex, ex_flag) = match self.end {
            SendEnd::Plain => (0, 0),
            SendEnd::Imm(imm) => (
                u32::from_ne_bytes(imm.0),
                bindings::ib_wc_flags_IB_WC_WITH_IMM,
            ),
            SendEnd::Invalidate(key) => (key.0, abi::WC_INVALIDATED),
        };
        let grh_flag = if self.grh {
            bindings::ib_wc_flags_IB_WC_GRH
        } else {
            0
        };
        abi::Cqe {
            wr_id: self.wr_id,
            status: self.status.wc_status() as u32,
            opcode: self.opcode as u32,
            vendor_err: 0,
            byte_len: self.byte_len,
            ex,
            qp_num: qpn,
            src_qp: self.src_qp,
            flags: ex_flag | grh_flag,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            port_num: 1,
            reserved: 0,
        }
    }

    /// The entry for a consumer in the kernel.
    pub(super) fn to_kernel(self, qp: QpTag) -> Wc {
        let mut wc = Wc::new(self.wr_id, qp, self.opcode, self.status.wc_status())
            .len(self.byte_len)
            .source_qp(self.src_qp)
            .port(1);
        wc = match self.end {
            SendEnd::Plain => wc,
            SendEnd::Imm(imm) => wc.imm_data(u32::from_ne_bytes(imm.0)),
            SendEnd::Invalidate(key) => wc.invalidated(key.0),
        };
        if self.grh {
            wc = wc.grh();
        }
        if let Some(arrival) = self.arrival {
            wc = wc.network_type(arrival.network_type);
            if let Some(vlan) = arrival.vlan {
                wc = wc.vlan(vlan);
            }
        }
        wc
    }
}
