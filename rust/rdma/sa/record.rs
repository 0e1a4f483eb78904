// SPDX-License-Identifier: GPL-2.0

//! The other records, each with its packing table.
//!
//! IBTA volume 1, 13.4.8.1 (ClassPortInfo) and 15.2.5.

use super::{
    table::{
        packing_table,
        Record,
        Table, //
    },
    Components,
};
use crate::gid::Gid;
use kernel::bindings;

packing_table! {
    /// MCMemberRecord.
    pub MEMBER: bindings::ib_sa_mcmember_rec = "sa_mcmember_rec" {
        128 mgid,
        128 port_gid,
        32 qkey,
        16 mlid,
        2 mtu_selector,
        6 mtu,
        8 traffic_class,
        16 pkey,
        2 rate_selector,
        6 rate,
        2 packet_life_time_selector,
        6 packet_life_time,
        4 sl,
        20 flow_label,
        8 hop_limit,
        4 scope,
        4 join_state,
        1 proxy_join,
        23 _,
    }
}

packing_table! {
    /// ClassPortInfo.
    pub CLASS_PORT_INFO: bindings::ib_class_port_info = "ib_class_port_info" {
        8 base_version,
        8 class_version,
        16 capability_mask,
        32 cap_mask2_resp_time,
        128 redirect_gid,
        32 redirect_tcslfl,
        16 redirect_lid,
        16 redirect_pkey,
        32 redirect_qp,
        32 redirect_qkey,
        128 trap_gid,
        32 trap_tcslfl,
        16 trap_lid,
        16 trap_pkey,
        32 trap_hlqp,
        32 trap_qkey,
    }
}

packing_table! {
    /// ClassPortInfo of Omni-Path.
    pub OPA_CLASS_PORT_INFO: bindings::opa_class_port_info = "opa_class_port_info" {
        8 base_version,
        8 class_version,
        16 cap_mask,
        32 cap_mask2_resp_time,
        128 redirect_gid,
        32 redirect_tc_fl,
        32 redirect_lid,
        32 redirect_sl_qp,
        32 redirect_qkey,
        128 trap_gid,
        32 trap_tc_fl,
        32 trap_lid,
        32 trap_hl_qp,
        32 trap_qkey,
        16 trap_pkey,
        16 redirect_pkey,
        8 trap_sl_rsvd,
        24 _,
    }
}

packing_table! {
    /// GuidInfoRecord.
    pub GUID_INFO: bindings::ib_sa_guidinfo_rec = "sa_guidinfo_rec" {
        16 lid,
        8 block_num,
        8 res1,
        32 res2,
        512 guid_info_list,
    }
}

packing_table! {
    /// ServiceRecord.
    pub SERVICE: bindings::sa_service_rec = "sa_service_rec" {
        64 id,
        128 gid,
        16 pkey,
        16 _,
        32 lease,
        128 key,
        512 name,
        128 data_8,
        128 data_16,
        128 data_32,
        128 data_64,
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident($raw:ident) = $table:ident;) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $name(bindings::$raw);

        // SAFETY: Transparent, and of integers and bytes only.
        unsafe impl Record for $name {
            type Raw = bindings::$raw;
            const TABLE: &'static Table<bindings::$raw> = &$table;
        }

        impl $name {
            /// Copies a record of C code.
            ///
            /// # Safety
            ///
            /// `record` is valid for reads.
            pub unsafe fn read(record: *const bindings::$raw) -> Self {
                // SAFETY: By the contract of this function.
                Self(unsafe { record.read() })
            }

            /// The C structure.
            pub fn raw(&self) -> &bindings::$raw {
                &self.0
            }
        }
    };
}

record! {
    /// What the administration knows of a member of a multicast group, or of a group
    /// (`struct ib_sa_mcmember_rec`).
    Member(ib_sa_mcmember_rec) = MEMBER;
}

record! {
    /// What a management class can do.
    ClassPortInfo(ib_class_port_info) = CLASS_PORT_INFO;
}

record! {
    /// What a management class of Omni-Path can do.
    OpaClassPortInfo(opa_class_port_info) = OPA_CLASS_PORT_INFO;
}

record! {
    /// GUIDs of a port (`struct ib_sa_guidinfo_rec`).
    GuidInfo(ib_sa_guidinfo_rec) = GUID_INFO;
}

record! {
    /// A service that a port offers (`struct sa_service_rec`).
    Service(sa_service_rec) = SERVICE;
}

impl OpaClassPortInfo {
    /// Bits of the response time, below the second capability mask.
    const RESPONSE_TIME_BITS: u32 = 5;
    /// The capability: path records of the Omni-Path form.
    const PATH_RECORDS: u32 = 1 << 26;

    /// Whether the administration answers queries for paths in the Omni-Path form.
    pub fn has_opa_paths(&self) -> bool {
        let mask2 = u32::from_be(self.0.cap_mask2_resp_time) >> Self::RESPONSE_TIME_BITS;
        mask2 & Self::PATH_RECORDS != 0
    }
}

/// How a value of a record has to compare with the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Greater.
    Greater,
    /// Less.
    Less,
    /// Equal.
    Equal,
    /// The greatest there is: any will do.
    Best,
}

impl Selector {
    /// From the two bits on the wire.
    pub const fn from_wire(bits: u8) -> Self {
        match bits {
            0 => Self::Greater,
            1 => Self::Less,
            2 => Self::Equal,
            _ => Self::Best,
        }
    }

    /// Whether `actual` is what was wanted.
    pub const fn admits(self, actual: u8, wanted: u8) -> bool {
        match self {
            Self::Greater => actual > wanted,
            Self::Less => actual < wanted,
            Self::Equal => actual == wanted,
            Self::Best => true,
        }
    }
}

/// Ways of being in a group, one bit each: full member, non-member, send-only non-member and
/// send-only full member (IBTA volume 1, 15.2.5.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinState(pub u8);

impl JoinState {
    /// Not at all.
    pub const NONE: Self = Self(0);
    /// How many ways there are.
    pub const WAYS: usize = 4;

    /// The numbers of the ways that are set.
    pub fn ways(self) -> impl Iterator<Item = usize> {
        (0..Self::WAYS).filter(move |way| self.0 & (1 << way) != 0)
    }

    /// Whether all of `other` is set.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is set in both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is set in either.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Without what is set in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The components of a [`Member`].
pub mod member {
    use super::Components;

    /// The group.
    pub const MGID: Components = Components::of([0]);
    /// The member.
    pub const PORT_GID: Components = Components::of([1]);
    pub(super) const QKEY: Components = Components::of([2]);
    pub(super) const MLID: Components = Components::of([3]);
    pub(super) const MTU_SELECTOR: Components = Components::of([4]);
    pub(super) const MTU: Components = Components::of([5]);
    pub(super) const TRAFFIC_CLASS: Components = Components::of([6]);
    pub(super) const PKEY: Components = Components::of([7]);
    pub(super) const RATE_SELECTOR: Components = Components::of([8]);
    pub(super) const RATE: Components = Components::of([9]);
    pub(super) const LIFE_TIME_SELECTOR: Components = Components::of([10]);
    pub(super) const LIFE_TIME: Components = Components::of([11]);
    pub(super) const SL: Components = Components::of([12]);
    pub(super) const FLOW_LABEL: Components = Components::of([13]);
    pub(super) const HOP_LIMIT: Components = Components::of([14]);
    pub(super) const SCOPE: Components = Components::of([15]);

    /// Group, member and way of being in it: what leaving needs.
    pub const LEAVE: Components = Components::of([0, 1, 16]);
}

impl Member {
    /// A record of a group of which only the GID is known.
    pub fn of_group(mgid: Gid) -> Self {
        let mut raw: bindings::ib_sa_mcmember_rec = pin_init::zeroed();
        raw.mgid.raw = *mgid.as_bytes();
        Self(raw)
    }

    /// The group.
    pub fn mgid(&self) -> Gid {
        Gid::from_bytes(*crate::pack::gid_bytes(&self.0.mgid))
    }

    /// The member.
    pub fn port_gid(&self) -> Gid {
        Gid::from_bytes(*crate::pack::gid_bytes(&self.0.port_gid))
    }

    /// The LID of the group.
    pub fn mlid(&self) -> u16 {
        u16::from_be(self.0.mlid)
    }

    /// The partition key.
    pub fn pkey(&self) -> u16 {
        u16::from_be(self.0.pkey)
    }

    /// The service level.
    pub fn sl(&self) -> u8 {
        self.0.sl
    }

    /// The static rate.
    pub fn rate(&self) -> u8 {
        self.0.rate
    }

    /// The flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32::from_be(self.0.flow_label)
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.0.hop_limit
    }

    /// The traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.0.traffic_class
    }

    /// The ways of being in the group.
    pub fn join_state(&self) -> JoinState {
        JoinState(self.0.join_state)
    }

    /// The same record with other ways of being in the group.
    pub fn with_join_state(mut self, state: JoinState) -> Self {
        self.0.join_state = state.0;
        self
    }

    /// Whether a group with this record is what `wanted` asks for, as far as `components` say so.
    /// Group and ways of being in it are not looked at.
    pub fn satisfies(&self, wanted: &Self, components: Components) -> bool {
        let (have, want) = (&self.0, &wanted.0);
        let same = |component, equal: bool| !components.has(component) || equal;
        let within = |selector, value, bits, actual, wanted| {
            !components.has(selector)
                || !components.has(value)
                || Selector::from_wire(bits).admits(actual, wanted)
        };
        same(member::PORT_GID, self.port_gid() == wanted.port_gid())
            && same(member::QKEY, have.qkey == want.qkey)
            && same(member::MLID, have.mlid == want.mlid)
            && within(
                member::MTU_SELECTOR,
                member::MTU,
                want.mtu_selector,
                have.mtu,
                want.mtu,
            )
            && same(
                member::TRAFFIC_CLASS,
                have.traffic_class == want.traffic_class,
            )
            && same(member::PKEY, have.pkey == want.pkey)
            && within(
                member::RATE_SELECTOR,
                member::RATE,
                want.rate_selector,
                have.rate,
                want.rate,
            )
            && within(
                member::LIFE_TIME_SELECTOR,
                member::LIFE_TIME,
                want.packet_life_time_selector,
                have.packet_life_time,
                want.packet_life_time,
            )
            && same(member::SL, have.sl == want.sl)
            && same(member::FLOW_LABEL, have.flow_label == want.flow_label)
            && same(member::HOP_LIMIT, have.hop_limit == want.hop_limit)
            && same(member::SCOPE, have.scope == want.scope)
    }
}
