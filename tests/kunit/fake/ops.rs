// SPDX-License-Identifier: GPL-2.0

//! The operations that are recorded and that can fail.

use kernel::bindings;

/// An operation of the driver, `enum ib_fake_op`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op(u32);

/// How many there are.
pub(crate) const COUNT: usize = bindings::ib_fake_op_IB_FAKE_OPS as usize;

impl Op {
    pub(crate) fn from_raw(raw: bindings::ib_fake_op) -> Option<Self> {
        ((raw as usize) < COUNT).then_some(Self(raw))
    }

    pub(crate) fn as_raw(self) -> bindings::ib_fake_op {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// All operations.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..COUNT as u32).map(Self)
    }
}

macro_rules! ops {
    ($($name:ident = $raw:ident,)*) => {
        impl Op {
            $(pub(crate) const $name: Self = Self(bindings::$raw);)*

            /// What it is called in files; capitals do not matter.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    _ => "",
                }
            }
        }
    };
}

ops! {
    QUERY_DEVICE = ib_fake_op_IB_FAKE_QUERY_DEVICE,
    QUERY_PORT = ib_fake_op_IB_FAKE_QUERY_PORT,
    GET_PORT_IMMUTABLE = ib_fake_op_IB_FAKE_GET_PORT_IMMUTABLE,
    QUERY_GID = ib_fake_op_IB_FAKE_QUERY_GID,
    ADD_GID = ib_fake_op_IB_FAKE_ADD_GID,
    DEL_GID = ib_fake_op_IB_FAKE_DEL_GID,
    QUERY_PKEY = ib_fake_op_IB_FAKE_QUERY_PKEY,
    MODIFY_DEVICE = ib_fake_op_IB_FAKE_MODIFY_DEVICE,
    MODIFY_PORT = ib_fake_op_IB_FAKE_MODIFY_PORT,
    ENABLE_DRIVER = ib_fake_op_IB_FAKE_ENABLE_DRIVER,
    PROCESS_MAD = ib_fake_op_IB_FAKE_PROCESS_MAD,
    ADD_SUB_DEV = ib_fake_op_IB_FAKE_ADD_SUB_DEV,
    DEL_SUB_DEV = ib_fake_op_IB_FAKE_DEL_SUB_DEV,
    ALLOC_PD = ib_fake_op_IB_FAKE_ALLOC_PD,
    DEALLOC_PD = ib_fake_op_IB_FAKE_DEALLOC_PD,
    CREATE_AH = ib_fake_op_IB_FAKE_CREATE_AH,
    MODIFY_AH = ib_fake_op_IB_FAKE_MODIFY_AH,
    QUERY_AH = ib_fake_op_IB_FAKE_QUERY_AH,
    DESTROY_AH = ib_fake_op_IB_FAKE_DESTROY_AH,
    CREATE_CQ = ib_fake_op_IB_FAKE_CREATE_CQ,
    DESTROY_CQ = ib_fake_op_IB_FAKE_DESTROY_CQ,
    POLL_CQ = ib_fake_op_IB_FAKE_POLL_CQ,
    PEEK_CQ = ib_fake_op_IB_FAKE_PEEK_CQ,
    REQ_NOTIFY_CQ = ib_fake_op_IB_FAKE_REQ_NOTIFY_CQ,
    MODIFY_CQ = ib_fake_op_IB_FAKE_MODIFY_CQ,
    CREATE_QP = ib_fake_op_IB_FAKE_CREATE_QP,
    MODIFY_QP = ib_fake_op_IB_FAKE_MODIFY_QP,
    QUERY_QP = ib_fake_op_IB_FAKE_QUERY_QP,
    DESTROY_QP = ib_fake_op_IB_FAKE_DESTROY_QP,
    POST_SEND = ib_fake_op_IB_FAKE_POST_SEND,
    POST_RECV = ib_fake_op_IB_FAKE_POST_RECV,
    ATTACH_MCAST = ib_fake_op_IB_FAKE_ATTACH_MCAST,
    DETACH_MCAST = ib_fake_op_IB_FAKE_DETACH_MCAST,
    CREATE_SRQ = ib_fake_op_IB_FAKE_CREATE_SRQ,
    MODIFY_SRQ = ib_fake_op_IB_FAKE_MODIFY_SRQ,
    QUERY_SRQ = ib_fake_op_IB_FAKE_QUERY_SRQ,
    DESTROY_SRQ = ib_fake_op_IB_FAKE_DESTROY_SRQ,
    POST_SRQ_RECV = ib_fake_op_IB_FAKE_POST_SRQ_RECV,
    GET_DMA_MR = ib_fake_op_IB_FAKE_GET_DMA_MR,
    ALLOC_MR = ib_fake_op_IB_FAKE_ALLOC_MR,
    MAP_MR_SG = ib_fake_op_IB_FAKE_MAP_MR_SG,
    DEREG_MR = ib_fake_op_IB_FAKE_DEREG_MR,
    ALLOC_XRCD = ib_fake_op_IB_FAKE_ALLOC_XRCD,
    DEALLOC_XRCD = ib_fake_op_IB_FAKE_DEALLOC_XRCD,
    GET_NETDEV = ib_fake_op_IB_FAKE_GET_NETDEV,
    DELLINK = ib_fake_op_IB_FAKE_DELLINK,
}
