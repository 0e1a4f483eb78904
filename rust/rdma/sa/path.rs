// SPDX-License-Identifier: GPL-2.0

//! Path records (IBTA volume 1, 15.2.5.16), in the InfiniBand and the Omni-Path form.

use super::{
    opa,
    table::{
        packing_table,
        Record,
        Table, //
    },
    Components,
};
use crate::{
    gid::{
        Gid,
        GidAttr,
        GidType, //
    },
    net::netdev::Mac, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

packing_table! {
    /// The InfiniBand form.
    pub PATH: bindings::sa_path_rec = "sa_path_rec" {
        64 service_id,
        128 dgid,
        128 sgid,
        16 __bindgen_anon_1.ib.dlid,
        16 __bindgen_anon_1.ib.slid,
        1 __bindgen_anon_1.ib.raw_traffic,
        3 _,
        20 flow_label,
        8 hop_limit,
        8 traffic_class,
        1 reversible,
        7 numb_path,
        16 pkey,
        12 qos_class,
        4 sl,
        2 mtu_selector,
        6 mtu,
        2 rate_selector,
        6 rate,
        2 packet_life_time_selector,
        6 packet_life_time,
        8 preference,
        48 _,
    }
}

packing_table! {
    /// The Omni-Path form.
    pub OPA_PATH: bindings::sa_path_rec = "sa_path_rec" {
        64 service_id,
        128 dgid,
        128 sgid,
        32 __bindgen_anon_1.opa.dlid,
        32 __bindgen_anon_1.opa.slid,
        1 __bindgen_anon_1.opa.raw_traffic,
        3 _,
        20 flow_label,
        8 hop_limit,
        8 traffic_class,
        1 reversible,
        7 numb_path,
        16 pkey,
        1 __bindgen_anon_1.opa.l2_8B,
        1 __bindgen_anon_1.opa.l2_10B,
        1 __bindgen_anon_1.opa.l2_9B,
        1 __bindgen_anon_1.opa.l2_16B,
        2 _,
        2 __bindgen_anon_1.opa.qos_type,
        8 __bindgen_anon_1.opa.qos_priority,
        3 _,
        5 sl,
        8 _,
        2 mtu_selector,
        6 mtu,
        2 rate_selector,
        6 rate,
        2 packet_life_time_selector,
        6 packet_life_time,
        8 preference,
    }
}

/// The component: the service.
pub const SERVICE_ID: Components = Components::of([0, 1]);
/// The component: the far end.
pub const DGID: Components = Components::of([2]);
/// The component: the near end.
pub const SGID: Components = Components::of([3]);
/// The component: the traffic class.
pub const TRAFFIC_CLASS: Components = Components::of([10]);
/// The component: whether the path can be used both ways.
pub const REVERSIBLE: Components = Components::of([11]);
/// The component: the partition key.
pub const PKEY: Components = Components::of([13]);
/// The component: the class of service.
pub const QOS_CLASS: Components = Components::of([14]);

/// The forms of a path record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// InfiniBand.
    Ib,
    /// RoCE, of that GID type.
    Roce(GidType),
    /// Omni-Path.
    Opa,
}

/// A path record, `struct sa_path_rec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PathRecord(pub(super) bindings::sa_path_rec);

// SAFETY: Transparent, and of integers and bytes only.
unsafe impl Record for PathRecord {
    type Raw = bindings::sa_path_rec;
    const TABLE: &'static Table<bindings::sa_path_rec> = &PATH;
}

impl PathRecord {
    /// Copies a record of C code.
    ///
    /// # Safety
    ///
    /// `record` is valid for reads.
    pub unsafe fn read(record: *const bindings::sa_path_rec) -> Self {
        // SAFETY: By the contract of this function.
        Self(unsafe { record.read() })
    }

    /// The form; one that no release has defined counts as InfiniBand, as in C.
    pub fn form(&self) -> Form {
        match self.0.rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1 => Form::Roce(GidType::Roce),
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2 => Form::Roce(GidType::RoceV2),
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA => Form::Opa,
            _ => Form::Ib,
        }
    }

    /// Unpacks a record of the Omni-Path form.
    pub fn unpack_opa(wire: &[u8]) -> Result<Self> {
        let mut record = Self(pin_init::zeroed());
        // SAFETY: The record is writable.
        unsafe { OPA_PATH.unpack(wire, &mut record.0) }?;
        record.0.rec_type = bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA;
        Ok(record)
    }

    /// Packs a record of the Omni-Path form.
    pub fn pack_opa(&self, wire: &mut [u8]) -> Result {
        // SAFETY: The record is readable.
        unsafe { OPA_PATH.pack(&self.0, wire) }
    }

    /// The same path in the InfiniBand form: LIDs that do not fit are in the GIDs.
    pub fn opa_to_ib(&self) -> Self {
        // SAFETY: Every view of the union is integers.
        let from = unsafe { self.0.__bindgen_anon_1.opa };
        let ends = opa::to_ib(
            opa::End {
                gid: Gid::from_bytes(opa::bytes(&self.0.sgid)),
                lid: u32::from_be(from.slid),
            },
            opa::End {
                gid: Gid::from_bytes(opa::bytes(&self.0.dgid)),
                lid: u32::from_be(from.dlid),
            },
        );
        let mut to = *self;
        to.0.rec_type = bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB;
        to.0.sgid.raw = *ends.source.gid.as_bytes();
        to.0.dgid.raw = *ends.destination.gid.as_bytes();
        to.0.__bindgen_anon_1 = pin_init::zeroed();
        to.0.__bindgen_anon_1.ib = bindings::sa_path_rec_ib {
            // Those that do not fit are zero here.
            dlid: (ends.destination.lid as u16).to_be(),
            slid: (ends.source.lid as u16).to_be(),
            raw_traffic: from.raw_traffic,
        };
        to
    }

    /// The same path in the Omni-Path form: LIDs are taken from the GIDs that have one.
    pub fn ib_to_opa(&self) -> Self {
        // SAFETY: Every view of the union is integers.
        let from = unsafe { self.0.__bindgen_anon_1.ib };
        let (sgid, dgid) = (opa::bytes(&self.0.sgid), opa::bytes(&self.0.dgid));
        let mut to = *self;
        to.0.rec_type = bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA;
        to.0.__bindgen_anon_1 = pin_init::zeroed();
        to.0.__bindgen_anon_1.opa = bindings::sa_path_rec_opa {
            dlid: opa::lid_of(Gid::from_bytes(dgid), u16::from_be(from.dlid)).to_be(),
            slid: opa::lid_of(Gid::from_bytes(sgid), u16::from_be(from.slid)).to_be(),
            raw_traffic: from.raw_traffic,
            ..pin_init::zeroed()
        };
        to
    }

    /// Notes what user space says the path is good for.
    pub fn set_flags(&mut self, flags: u32) {
        self.0.flags = flags;
    }

    /// The near end.
    pub fn sgid(&self) -> Gid {
        Gid::from_bytes(opa::bytes(&self.0.sgid))
    }

    /// The far end.
    pub fn dgid(&self) -> Gid {
        Gid::from_bytes(opa::bytes(&self.0.dgid))
    }

    /// LID of the near end; 0 of a form without.
    pub fn slid(&self) -> u32 {
        // SAFETY: The form says which view of the union is meant.
        unsafe {
            match self.form() {
                Form::Ib => u16::from_be(self.0.__bindgen_anon_1.ib.slid).into(),
                Form::Opa => u32::from_be(self.0.__bindgen_anon_1.opa.slid),
                Form::Roce(_) => 0,
            }
        }
    }

    /// LID of the far end; 0 of a form without.
    pub fn dlid(&self) -> u32 {
        // SAFETY: The form says which view of the union is meant.
        unsafe {
            match self.form() {
                Form::Ib => u16::from_be(self.0.__bindgen_anon_1.ib.dlid).into(),
                Form::Opa => u32::from_be(self.0.__bindgen_anon_1.opa.dlid),
                Form::Roce(_) => 0,
            }
        }
    }

    /// The service.
    pub fn service_id(&self) -> u64 {
        u64::from_be(self.0.service_id)
    }

    /// Whether the path can be used both ways.
    pub fn is_reversible(&self) -> bool {
        self.0.reversible != 0
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

    /// The partition key.
    pub fn pkey(&self) -> u16 {
        u16::from_be(self.0.pkey)
    }

    /// The class of service.
    pub fn qos_class(&self) -> u16 {
        u16::from_be(self.0.qos_class)
    }

    /// The service level.
    pub fn sl(&self) -> u8 {
        self.0.sl
    }

    /// The static rate.
    pub fn rate(&self) -> u8 {
        self.0.rate
    }
}

/// A RoCE path record of C code, whose route is looked up in place.
pub struct RoceRoute<'a>(&'a mut bindings::sa_path_rec);

impl<'a> RoceRoute<'a> {
    /// Borrows a record.
    ///
    /// # Safety
    ///
    /// `record` is valid and not used otherwise for `'a`, and its form is RoCE.
    pub unsafe fn from_raw(record: *mut bindings::sa_path_rec) -> Self {
        // SAFETY: By the contract of this function.
        Self(unsafe { &mut *record })
    }

    /// Finds the MAC address of the next hop, starting at `attr` if there is one. Sleeps.
    #[inline]
    pub fn resolve(&mut self, attr: Option<&GidAttr>) -> Result<Mac> {
        let attr = attr.map_or(core::ptr::null(), GidAttr::as_raw);
        // SAFETY: The record is valid, the GID null or referenced.
        to_result(unsafe { bindings::roce_resolve_route_from_path(self.0, attr) })?;
        // SAFETY: The form says which view of the union is meant.
        Ok(unsafe { self.0.__bindgen_anon_1.roce.dmac })
    }
}
