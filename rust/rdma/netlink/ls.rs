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

/// A path record as user space packs it.
pub struct PathRecord<'a> {
    /// What the path is good for, `IB_PATH_*`.
    pub flags: u32,
    /// The record, as it is on the wire.
    pub record: &'a [u8; PathRecord::BYTES],
}

impl PathRecord<'_> {
    /// Bytes of the record.
    pub const BYTES: usize = 64;
    const FLAGS: usize = 4;
    const RECORD: usize = 8;

    /// The path is the one to use.
    pub const PRIMARY: u32 = bindings::IB_PATH_PRIMARY;
    /// The path leads from here to there.
    pub const OUTBOUND: u32 = bindings::IB_PATH_OUTBOUND;
}

impl Kind for PathRecord<'_> {
    // At least a whole record: a shorter one would be read beyond its end.
    const POLICY: bindings::nla_policy = bindings::nla_policy {
        type_: bindings::NLA_BINARY as u8,
        validation_type: bindings::nla_policy_validation_NLA_VALIDATE_MIN as u8,
        len: size_of::<bindings::ib_path_rec_data>() as u16,
        __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1 {
            __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1__bindgen_ty_1 {
                min: size_of::<bindings::ib_path_rec_data>() as i16,
                max: 0,
            },
        },
    };
}

impl ReadKind for PathRecord<'_> {
    type Value<'a> = PathRecord<'a>;

    fn read(payload: &[u8]) -> Option<PathRecord<'_>> {
        let flags = payload.first_chunk::<{ PathRecord::FLAGS }>()?;
        Some(PathRecord {
            flags: u32::from_ne_bytes(*flags),
            record: payload.get(PathRecord::RECORD..)?.first_chunk()?,
        })
    }
}

/// A path that user space found.
pub const PATH_RECORD: Attr<PathRecord<'static>> = Attr::new(bindings::LS_NLA_TYPE_PATH_RECORD);
/// How long the kernel is to wait for answers, in milliseconds.
pub const TIMEOUT: Attr<u32> = Attr::new(bindings::LS_NLA_TYPE_TIMEOUT);

const fn asked(id: u32) -> u32 {
    bindings::RDMA_NLA_F_MANDATORY | id
}

/// Asked for: the service, in the byte order of the host.
pub const ASK_SERVICE_ID: Attr<Raw> = Attr::new(asked(bindings::LS_NLA_TYPE_SERVICE_ID));
/// Asked for: the far end.
pub const ASK_DGID: Attr<Raw> = Attr::new(asked(bindings::LS_NLA_TYPE_DGID));
/// Asked for: the near end.
pub const ASK_SGID: Attr<Raw> = Attr::new(asked(bindings::LS_NLA_TYPE_SGID));
/// Asked for: the traffic class.
pub const ASK_TCLASS: Attr<u8> = Attr::new(asked(bindings::LS_NLA_TYPE_TCLASS));
/// Asked for: the partition key.
pub const ASK_PKEY: Attr<u16> = Attr::new(asked(bindings::LS_NLA_TYPE_PKEY));
/// Asked for: the class of service.
pub const ASK_QOS_CLASS: Attr<u16> = Attr::new(asked(bindings::LS_NLA_TYPE_QOS_CLASS));

/// The operation that finds a path.
pub const OP_RESOLVE: u32 = bindings::RDMA_NL_LS_OP_RESOLVE;

/// What a path is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// Both ways.
    All,
    /// From here to there only.
    Unidirectional,
}

/// The family header of [`OP_RESOLVE`], `struct rdma_ls_resolve_header`.
pub struct ResolveHeader([u8; ResolveHeader::BYTES]);

impl ResolveHeader {
    const BYTES: usize = size_of::<bindings::rdma_ls_resolve_header>();
    const NAME: usize = bindings::LS_DEVICE_NAME_MAX as usize;

    /// Asks for a path from a port of the device of that name.
    pub fn new(device: &[u8], port: u32, path_use: PathUse) -> Self {
        let mut bytes = [0; Self::BYTES];
        let name = device.iter().take(Self::NAME - 1);
        let tail = [
            // The message has eight bits for the number.
            port as u8,
            match path_use {
                PathUse::All => bindings::LS_RESOLVE_PATH_USE_ALL,
                PathUse::Unidirectional => bindings::LS_RESOLVE_PATH_USE_UNIDIRECTIONAL,
            } as u8,
        ];
        for (to, from) in bytes.iter_mut().zip(name) {
            *to = *from;
        }
        for (to, from) in bytes.iter_mut().skip(Self::NAME).zip(tail) {
            *to = from;
        }
        Self(bytes)
    }

    /// The header.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

const fn at_most(len: usize) -> bindings::nla_policy {
    bindings::nla_policy {
        type_: bindings::NLA_BINARY as u8,
        validation_type: 0,
        len: len as u16,
        __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1 {
            nested_policy: core::ptr::null(),
        },
    }
}

/// The attributes of an answer to [`OP_RESOLVE`], and of the request to change the timeout.
pub static PATH_ANSWER: Policy<{ bindings::LS_NLA_TYPE_MAX as usize }> = Policy::new([
    (PATH_RECORD.id(), <PathRecord<'_> as Kind>::POLICY),
    (TIMEOUT.id(), <u32 as Kind>::POLICY),
    (
        bindings::LS_NLA_TYPE_SERVICE_ID as u16,
        <u64 as Kind>::POLICY,
    ),
    (
        bindings::LS_NLA_TYPE_DGID as u16,
        at_most(size_of::<bindings::rdma_nla_ls_gid>()),
    ),
    (
        bindings::LS_NLA_TYPE_SGID as u16,
        at_most(size_of::<bindings::rdma_nla_ls_gid>()),
    ),
    (bindings::LS_NLA_TYPE_TCLASS as u16, <u8 as Kind>::POLICY),
    (bindings::LS_NLA_TYPE_PKEY as u16, <u16 as Kind>::POLICY),
    (
        bindings::LS_NLA_TYPE_QOS_CLASS as u16,
        <u16 as Kind>::POLICY,
    ),
]);
