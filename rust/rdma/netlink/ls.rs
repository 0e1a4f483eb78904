// SPDX-License-Identifier: GPL-2.0

//! What the core and the local service of user space tell each other.
//!
//! C header: [`include/uapi/rdma/rdma_netlink.h`](srctree/include/uapi/rdma/rdma_netlink.h)

use kernel::{
    bindings,
    prelude::*, //
};

use crate::gid::Gid;

use super::attr::{
    Attr,
    Kind,
    Policy,
    Raw,
    ReadKind, //
};

impl Kind for Gid {
    // At least a whole GID: a shorter one would leave bytes unset.
    const POLICY: bindings::nla_policy = bindings::nla_policy {
        type_: bindings::NLA_BINARY as u8,
        validation_type: bindings::nla_policy_validation_NLA_VALIDATE_MIN as u8,
        len: size_of::<Gid>() as u16,
        __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1 {
            __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1__bindgen_ty_1 {
                min: size_of::<Gid>() as i16,
                max: 0,
            },
        },
    };
}

impl ReadKind for Gid {
    type Value<'a> = Gid;

    fn read(payload: &[u8]) -> Option<Gid> {
        payload.first_chunk().map(|bytes| Gid::from_bytes(*bytes))
    }
}

/// The GID that user space found.
pub const DGID: Attr<Gid> = Attr::new(bindings::LS_NLA_TYPE_DGID);
/// The IPv4 address to find a GID for, which user space has to understand.
pub const IPV4: Attr<Raw> = Attr::new(bindings::RDMA_NLA_F_MANDATORY | bindings::LS_NLA_TYPE_IPV4);
/// The IPv6 address to find a GID for, which user space has to understand.
pub const IPV6: Attr<Raw> = Attr::new(bindings::RDMA_NLA_F_MANDATORY | bindings::LS_NLA_TYPE_IPV6);

/// The operation that finds a GID for an IP address.
pub const OP_IP_RESOLVE: u32 = bindings::RDMA_NL_LS_OP_IP_RESOLVE;
/// Who answers.
pub const GROUP: u32 = bindings::RDMA_NL_GROUP_LS;
/// In an answer's flags: user space has failed.
pub const FLAG_ERROR: u32 = bindings::RDMA_NL_LS_F_ERR;
/// In a message's flags: it asks for something.
pub const FLAG_REQUEST: u32 = bindings::NLM_F_REQUEST;

/// The attributes of an answer to [`OP_IP_RESOLVE`].
pub static IP_ANSWER: Policy<{ bindings::LS_NLA_TYPE_MAX as usize }> =
    Policy::new([(DGID.id(), <Gid as Kind>::POLICY)]);
