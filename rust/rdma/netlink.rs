// SPDX-License-Identifier: GPL-2.0

//! RDMA netlink: attributes, messages, requests, command tables, sockets.
//!
//! Everything a netlink command needs is a safe type here:
//!
//! * [`Attr`] ties an attribute's number to the type of its payload, so that the
//!   policy, the reader and the writer of an attribute cannot disagree;
//! * [`Attrs`] are the attributes of a request after validation, read from a byte
//!   slice with every length checked;
//! * [`Message`] and [`Nest`] take back what they wrote unless they are ended;
//! * [`Request`] and [`Dump`] are the two ways in which user space asks;
//! * [`Table`] lists the commands of a client: who may call one, how strictly its
//!   attributes are parsed, what answers it.
//!
//! C headers: `include/net/netlink.h`, `include/rdma/rdma_netlink.h`,
//! `include/uapi/rdma/rdma_netlink.h`.

mod attr;
mod command;
pub mod ls;
mod msg;
mod request;
mod transport;

pub use self::attr::{
    Addr,
    Attr,
    AttrIter,
    Attrs,
    Kind,
    Nested,
    Policy,
    Raw,
    ReadKind,
    ReplyOnly,
    Strictness,
    Text,
    TextBuf,
    WriteKind, //
};
pub use self::command::{
    DumpHandler,
    Family,
    Handler,
    Table, //
};
pub use self::msg::{
    AttrWriter,
    Header,
    Message,
    Nest,
    SkBuff, //
};
pub use self::request::{
    Dump,
    Progress,
    Request, //
};
pub use self::transport::{
    has_listeners,
    multicast,
    unicast,
    unicast_wait,
    Client,
    CommandRef,
    Inbound,
    InboundMessage,
    KernelSocket,
    RawTable,
    Receiver,
    Verdict, //
};

pub use crate::netns::Net as Netns;

use kernel::bindings;

/// The message type of an operation of a client.
///
/// The client's number is in bits 10 to 15, the operation in bits 0 to 9.
pub const fn message_type(client: u32, op: u32) -> u32 {
    (client << 10).wrapping_add(op)
}

/// The client of a message type.
pub const fn client_of(message_type: u16) -> u32 {
    (message_type as u32 >> 10) & 0x3f
}

/// The operation of a message type.
pub const fn op_of(message_type: u16) -> u32 {
    message_type as u32 & 0x3ff
}

/// The iWARP port mapper.
pub const CLIENT_IWCM: u32 = bindings::RDMA_NL_IWCM;
/// The path record and address resolver of user space ("local service").
pub const CLIENT_LS: u32 = bindings::RDMA_NL_LS;
/// Devices, links, resources and statistics.
pub const CLIENT_NLDEV: u32 = bindings::RDMA_NL_NLDEV;
/// Operations of the port mapper.
pub const IWCM_OPS: u32 = bindings::RDMA_NL_IWPM_NUM_OPS;
/// Operations of the local service.
pub const LS_OPS: u32 = bindings::RDMA_NL_LS_NUM_OPS;
/// Operations on devices.
pub const NLDEV_OPS: u32 = bindings::rdma_nldev_command_RDMA_NLDEV_NUM_OPS;
/// How many client numbers there are.
pub const NUM_CLIENTS: usize = bindings::RDMA_NL_NUM_CLIENTS as usize;

/// Who listens for device and netdev notifications.
pub const GROUP_NOTIFY: u32 = bindings::RDMA_NL_GROUP_NOTIFY;
