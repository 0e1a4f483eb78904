// SPDX-License-Identifier: GPL-2.0

//! The tables of a port: `gids/`, `pkeys/` and `gid_attrs/`, one file per entry.

use kernel::{
    prelude::*,
    static_lock_class,
    sync::rcu, //
};
use rdma::{
    gid::{
        Gid,
        GidAttr, //
    },
    kobject::GroupList,
    port::Port,
    sysfs::{
        Indexed,
        IndexedFile,
        Output,
        PortData,
        PortGroup, //
    }, //
};

/// A GID. An empty entry shows the zero GID: tools read the table up to its end and give up at an
/// error.
pub(crate) struct Gids;

impl IndexedFile for Gids {
    fn show(port: Port<'_>, index: u32, out: &mut Output<'_>) -> Result {
        let gid = entry(port, index).map_or(Gid::ZERO, |entry| entry.gid());
        out.text(fmt!("{gid}\n"));
        Ok(())
    }
}

/// A partition key.
pub(crate) struct Pkeys;

impl IndexedFile for Pkeys {
    fn show(port: Port<'_>, index: u32, out: &mut Output<'_>) -> Result {
        let pkey = port.query_pkey(u16::try_from(index)?)?;
        out.text(fmt!("{:#06x}\n", pkey.0));
        Ok(())
    }
}

/// The network device of a GID; tools expect `EINVAL` if there is none.
pub(crate) struct Ndevs;

impl IndexedFile for Ndevs {
    fn show(port: Port<'_>, index: u32, out: &mut Output<'_>) -> Result {
        let entry = entry(port, index)?;
        let guard = rcu::read_lock();
        let ndev = entry.ndev_raw(&guard).ok_or(EINVAL)?;
        out.bytes(ndev.name().as_bytes());
        out.bytes(b"\n");
        Ok(())
    }
}

/// The type of a GID; tools expect `EINVAL` for an empty entry.
pub(crate) struct Types;

impl IndexedFile for Types {
    fn show(port: Port<'_>, index: u32, out: &mut Output<'_>) -> Result {
        out.bytes(entry(port, index)?.gid_type().name().to_bytes());
        out.bytes(b"\n");
        Ok(())
    }
}

fn entry(port: Port<'_>, index: u32) -> Result<kernel::sync::aref::ARef<GidAttr>> {
    GidAttr::get(port.device(), port.number(), u16::try_from(index)?).map_err(|_| EINVAL)
}

/// `gids/`.
pub(super) fn gids(len: u32) -> Result<PortGroup<Indexed<Gids>>> {
    PortGroup::indexed(c"gids", len, static_lock_class!())
}

/// `pkeys/`.
pub(super) fn pkeys(len: u16) -> Result<PortGroup<Indexed<Pkeys>>> {
    PortGroup::indexed(c"pkeys", len.into(), static_lock_class!())
}

/// What `gid_attrs/` has.
pub(crate) struct GidAttrs {
    ndevs: PortGroup<Indexed<Ndevs>>,
    types: PortGroup<Indexed<Types>>,
}

impl GidAttrs {
    pub(super) fn new(len: u32) -> Result<Self> {
        Ok(Self {
            ndevs: PortGroup::indexed(c"ndevs", len, static_lock_class!())?,
            types: PortGroup::indexed(c"types", len, static_lock_class!())?,
        })
    }
}

impl PortData for GidAttrs {
    fn groups(&self, list: &mut GroupList) {
        self.ndevs.list(list);
        self.types.list(list);
    }
}
