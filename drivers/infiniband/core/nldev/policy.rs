// SPDX-License-Identifier: GPL-2.0

//! The attributes of the device family, in the order of their numbers.
//!
//! One list says what each attribute carries. From it come the typed constants that requests are
//! read and replies are written with, and the policy that the netlink core checks requests by.
//!
//! What the attributes mean is told in `include/uapi/rdma/rdma_netlink.h`.

use kernel::bindings;
use rdma::netlink::{
    Addr,
    Attr,
    Kind as _,
    Nested,
    Policy,
    Raw,
    ReplyOnly,
    Text, //
};

/// Limits of texts in requests, terminator not counted. A text that the kernel alone writes is
/// limited to one character.
const REPLY_TEXT: u16 = 1;
const ANY_LENGTH: u16 = 0;
const DEVICE_NAME_MAX: u16 = bindings::IB_DEVICE_NAME_MAX as u16;
const NETDEV_NAME_MAX: u16 = bindings::IFNAMSIZ as u16;
const CHARDEV_TYPE_MAX: u16 = bindings::RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE as u16;

/// Attribute numbers are less than this.
const NUM_ATTRS: usize = bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_MAX as usize;

/// The number of an attribute, by its name without prefix or by its whole name.
macro_rules! number {
    ($name:ident) => {
        kernel::macros::paste!(bindings::[<rdma_nldev_attr_RDMA_NLDEV_ATTR_ $name>])
    };
    ($name:ident $number:ident) => {
        kernel::macros::paste!(bindings::[<rdma_nldev_attr_ $number>])
    };
}

macro_rules! attributes {
    ($($name:ident: $kind:ty $(= $number:ident)?;)*) => {
        $(pub(super) const $name: Attr<$kind> = Attr::new(number!($name $($number)?));)*

        /// What a request's attributes must satisfy.
        pub(super) static POLICY: Policy<NUM_ATTRS> =
            Policy::new([$(($name.id(), <$kind>::POLICY)),*]);
    };
}

attributes! {
    DEV_INDEX: u32;
    DEV_NAME: Text<DEVICE_NAME_MAX>;
    PORT_INDEX: u32;
    CAP_FLAGS: ReplyOnly<u64>;
    FW_VERSION: Text<REPLY_TEXT>;
    NODE_GUID: u64;
    SYS_IMAGE_GUID: u64;
    SUBNET_PREFIX: u64;
    LID: u32;
    SM_LID: u32;
    LMC: u8;
    PORT_STATE: u8;
    PORT_PHYS_STATE: u8;
    DEV_NODE_TYPE: u8;
    RES_SUMMARY: Nested;
    RES_SUMMARY_ENTRY: Nested;
    RES_SUMMARY_ENTRY_NAME: Text<REPLY_TEXT>;
    RES_SUMMARY_ENTRY_CURR: u64;
    RES_QP: Nested;
    RES_QP_ENTRY: Nested;
    RES_LQPN: u32;
    RES_RQPN: u32;
    RES_RQ_PSN: u32;
    RES_SQ_PSN: u32;
    RES_PATH_MIG_STATE: u8;
    RES_TYPE: u8;
    RES_STATE: u8;
    RES_PID: u32;
    RES_KERN_NAME: Text<REPLY_TEXT>;
    RES_CM_ID: Nested;
    RES_CM_ID_ENTRY: Nested;
    RES_PS: u32;
    RES_SRC_ADDR: Addr;
    RES_DST_ADDR: Addr;
    RES_CQ: Nested;
    RES_CQ_ENTRY: Nested;
    RES_CQE: u32;
    RES_USECNT: u64;
    RES_POLL_CTX: u8;
    RES_MR: Nested;
    RES_MR_ENTRY: Nested;
    RES_RKEY: u32;
    RES_LKEY: u32;
    RES_IOVA: u64;
    RES_MRLEN: u64;
    RES_PD: Nested;
    RES_PD_ENTRY: Nested;
    RES_LOCAL_DMA_LKEY: u32;
    RES_UNSAFE_GLOBAL_RKEY: u32;
    NDEV_INDEX: u32;
    NDEV_NAME: Text<NETDEV_NAME_MAX>;
    DRIVER: Nested;
    DRIVER_ENTRY: Nested;
    DRIVER_STRING: Text<REPLY_TEXT>;
    DRIVER_PRINT_TYPE: u8;
    DRIVER_S32: i32;
    DRIVER_U32: u32;
    DRIVER_S64: i64;
    DRIVER_U64: u64;
    RES_PDN: u32;
    RES_CQN: u32;
    RES_MRN: u32;
    RES_CM_IDN: u32;
    RES_CTXN: u32;
    LINK_TYPE: Text<NETDEV_NAME_MAX>;
    NETNS_MODE: u8 = RDMA_NLDEV_SYS_ATTR_NETNS_MODE;
    DEV_PROTOCOL: Text<REPLY_TEXT>;
    NET_NS_FD: u32 = RDMA_NLDEV_NET_NS_FD;
    CHARDEV_TYPE: Text<CHARDEV_TYPE_MAX>;
    CHARDEV_NAME: Text<REPLY_TEXT>;
    CHARDEV_ABI: u64;
    CHARDEV: u64;
    UVERBS_DRIVER_ID: u32;
    STAT_MODE: u32;
    STAT_RES: u32;
    STAT_AUTO_MODE_MASK: u32;
    STAT_COUNTER: Nested;
    STAT_COUNTER_ENTRY: Nested;
    STAT_COUNTER_ID: u32;
    STAT_HWCOUNTERS: Nested;
    STAT_HWCOUNTER_ENTRY: Nested;
    STAT_HWCOUNTER_ENTRY_NAME: Text<ANY_LENGTH>;
    STAT_HWCOUNTER_ENTRY_VALUE: u64;
    DEV_DIM: u8;
    RES_RAW: Raw;
    RES_CTX: Nested;
    RES_CTX_ENTRY: Nested;
    RES_SRQ: Nested;
    RES_SRQ_ENTRY: Nested;
    RES_SRQN: u32;
    MIN_RANGE: u32;
    MAX_RANGE: u32;
    COPY_ON_FORK: u8 = RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK;
    STAT_HWCOUNTER_INDEX: u32;
    STAT_HWCOUNTER_DYNAMIC: u8;
    PRIVILEGED_QKEY_MODE: u8 = RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE;
    DRIVER_DETAILS: u8;
    RES_SUBTYPE: Text<REPLY_TEXT>;
    DEV_TYPE: u8;
    PARENT_NAME: Text<ANY_LENGTH>;
    NAME_ASSIGN_TYPE: u8;
    EVENT_TYPE: u8;
    MONITOR_MODE: ReplyOnly<u8> = RDMA_NLDEV_SYS_ATTR_MONITOR_MODE;
    STAT_OPCOUNTER_ENABLED: u8;
    FRMR_POOLS: Nested;
    FRMR_POOL_ENTRY: Nested;
    FRMR_POOL_KEY: Nested;
    FRMR_POOL_KEY_ATS: u8;
    FRMR_POOL_KEY_ACCESS_FLAGS: u32;
    FRMR_POOL_KEY_VENDOR_KEY: u64;
    FRMR_POOL_KEY_NUM_DMA_BLOCKS: u64;
    FRMR_POOL_QUEUE_HANDLES: u32;
    FRMR_POOL_MAX_IN_USE: u64;
    FRMR_POOL_IN_USE: u64;
    FRMR_POOLS_AGING_PERIOD: u32;
    FRMR_POOL_PINNED_HANDLES: u32;
    FRMR_POOL_KEY_KERNEL_VENDOR_KEY: u64;
    RES_SUMMARY_ENTRY_MAX: u64;
}
