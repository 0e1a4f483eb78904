// SPDX-License-Identifier: GPL-2.0

//! Finding and changing GIDs.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::device::Device;
use rdma::event::{Event, PortEvent};
use rdma::gid::{
    Draft, EntryView, Gid, GidAttr, GidTable, GidType, GidTypes, SlotState, TableWriter,
};
use rdma::net::netdev::Mac;
use rdma::net::NetDevice;
use rdma::port::Port;
use rdma::pr_warn_ratelimited;

/// What an entry must be like. Absent conditions hold.
#[derive(Copy, Clone, Default)]
struct Criteria<'a> {
    gid: Option<&'a Gid>,
    gid_type: Option<GidType>,
    /// The inner `None` asks for an entry without a network device.
    netdev: Option<Option<&'a NetDevice>>,
    is_default: Option<bool>,
}

impl Criteria<'_> {
    fn accept(&self, table: &GidTable, index: usize, entry: &EntryView<'_>) -> bool {
        self.gid.is_none_or(|gid| entry.gid() == *gid)
            && self.gid_type.is_none_or(|ty| entry.gid_type() == ty)
            && self.netdev.is_none_or(|netdev| entry.is_of(netdev))
            && self
                .is_default
                .is_none_or(|is_default| table.is_default(index) == is_default)
    }
}

/// The GID at an index. Any context.
///
/// Errors: `EINVAL` for a bad index, `ENODATA` for an empty slot.
#[inline]
pub(crate) fn get(port: &Port<'_>, index: usize) -> Result<ARef<GidAttr>> {
    let table = port.gid_table().ok_or(EINVAL)?;
    if index >= table.len() {
        return Err(EINVAL);
    }
    table
        .get(index, &rcu::read_lock())
        .and_then(|entry| entry.get())
        .ok_or(ENODATA)
}

/// The value of the GID at an index, without a reference. Any context.
///
/// Errors: `EINVAL` for a bad index, `ENOENT` for an empty slot.
pub(crate) fn query(port: &Port<'_>, index: usize) -> Result<Gid> {
    let table = port.gid_table().ok_or(EINVAL)?;
    if index >= table.len() {
        return Err(EINVAL);
    }
    table
        .get(index, &rcu::read_lock())
        .map(|entry| entry.gid())
        .ok_or(ENOENT)
}

/// Finds a GID in the table of a port; the network device matters if there is one. Any context.
///
/// Errors: `ENOENT`.
pub(crate) fn find_by_port(
    port: &Port<'_>,
    gid: &Gid,
    gid_type: GidType,
    netdev: Option<&NetDevice>,
) -> Result<ARef<GidAttr>> {
    let wanted = Criteria {
        gid: Some(gid),
        gid_type: Some(gid_type),
        netdev: netdev.map(Some),
        is_default: None,
    };
    let table = port.gid_table().ok_or(ENOENT)?;
    let guard = rcu::read_lock();
    let found = table
        .iter(&guard)
        .filter(|(index, entry)| wanted.accept(&table, *index, entry))
        .find_map(|(_, entry)| entry.get());
    found.ok_or(ENOENT)
}

/// Finds a GID in the tables of all ports, as [`find_by_port`].
pub(crate) fn find(
    device: &Device,
    gid: &Gid,
    gid_type: GidType,
    netdev: Option<&NetDevice>,
) -> Result<ARef<GidAttr>> {
    Port::all(device)
        .find_map(|port| find_by_port(&port, gid, gid_type, netdev).ok())
        .ok_or(ENOENT)
}

/// Finds the first GID of a value that passes `filter`, which must not sleep. Any context.
///
/// Errors: `ENOENT`.
pub(crate) fn find_by_filter(
    port: &Port<'_>,
    gid: &Gid,
    mut filter: impl FnMut(&GidAttr) -> bool,
) -> Result<ARef<GidAttr>> {
    let table = port.gid_table().ok_or(ENOENT)?;
    let guard = rcu::read_lock();
    let found = table
        .iter(&guard)
        .filter(|(_, entry)| entry.gid() == *gid)
        .filter_map(|(_, entry)| entry.get())
        .find(|attr| filter(attr));
    found.ok_or(ENOENT)
}

/// A line of the listing that user space gets.
pub(crate) struct TableEntry {
    pub(crate) gid: Gid,
    pub(crate) gid_type: GidType,
    pub(crate) index: u32,
    pub(crate) port: u32,
    /// The index of the network device, if there is one.
    pub(crate) ifindex: Option<i32>,
}

/// Lists the GIDs of all ports. `sink` must not sleep; its error ends the listing.
pub(crate) fn list(device: &Device, mut sink: impl FnMut(TableEntry) -> Result) -> Result<usize> {
    let mut count: usize = 0;
    for port in Port::all(device) {
        let Some(table) = port.gid_table() else {
            continue;
        };
        let guard = rcu::read_lock();
        for (index, entry) in table.iter(&guard) {
            sink(TableEntry {
                gid: entry.gid(),
                gid_type: entry.gid_type(),
                index: u32::try_from(index)?,
                port: port.number(),
                ifindex: entry.netdev(&guard).map(NetDevice::ifindex),
            })?;
            count = count.wrapping_add(1);
        }
    }
    Ok(count)
}

/// The VLAN id, if any, and the source MAC address for packets of a GID. Any context.
///
/// Errors: `ENODEV` without a network device.
pub(crate) fn l2_fields(attr: &GidAttr) -> Result<(Option<u16>, Mac)> {
    let guard = rcu::read_lock();
    let netdev = attr.ndev_raw(&guard).ok_or(ENODEV)?;
    Ok((netdev.effective_vlan_id(&guard), netdev.mac()))
}

/// The two kinds of RoCE GIDs: one for each type that comes from the MAC address and has a reserved
/// slot, and those that come from IP addresses.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    Ip,
}

fn notify(port: &Port<'_>) {
    Event::of_port(port.device(), port.number(), PortEvent::GidChange).deliver();
}

/// Publishes a GID in a free slot. The caller has seen that the slot is free.
fn publish(
    port: &Port<'_>,
    writer: &mut TableWriter<'_>,
    index: usize,
    gid: &Gid,
    gid_type: GidType,
    netdev: Option<&NetDevice>,
) -> Result {
    let table = port.gid_table().ok_or(ENODEV)?;
    let draft = Draft::new(
        table.into(),
        port.device().hold(),
        port.number(),
        u16::try_from(index)?,
        gid,
        gid_type,
        netdev.map(ARef::from),
    )?;
    writer.publish(draft)
}

/// Adds a GID unless it is there. Says whether it did.
fn insert(
    port: &Port<'_>,
    writer: &mut TableWriter<'_>,
    gid: &Gid,
    gid_type: GidType,
    netdev: &NetDevice,
    origin: Origin,
) -> Result<bool> {
    let same = Criteria {
        gid_type: Some(gid_type),
        netdev: Some(Some(netdev)),
        // An address may have the value of the default GID. That is one GID then, the default one.
        gid: (origin == Origin::Ip).then_some(gid),
        is_default: (origin == Origin::Default).then_some(true),
    };
    let (mut free, mut retired) = (None, false);
    for (index, slot) in writer.slots() {
        let fits = writer.table().is_default(index) == (origin == Origin::Default);
        match slot {
            SlotState::Valid(entry) if same.accept(writer.table(), index, &entry) => {
                return Ok(false);
            }
            SlotState::Free if fits => free = free.or(Some(index)),
            SlotState::Retired(_) if fits => retired = true,
            _ => {}
        }
    }
    let Some(index) = free else {
        if retired {
            writer.want_slot();
        }
        return Err(ENOSPC);
    };
    publish(port, writer, index, gid, gid_type, Some(netdev)).inspect_err(|_| {
        dev_err!(
            port.device().as_dev(),
            "GID add failed port={} index={}\n",
            port.number(),
            index
        );
    })?;
    Ok(true)
}

/// Adds a RoCE GID and tells the handlers of the device. May sleep.
///
/// A GID that is there already is a success without effect. Errors: `EINVAL` for the zero GID (IBTA
/// 4.1.1), `ENOSPC` if the table is full (of GIDs that are deleted but held: it is added later),
/// `ENODEV` if the device goes away, those of the driver.
pub(crate) fn add(
    port: &Port<'_>,
    gid: &Gid,
    gid_type: GidType,
    netdev: &NetDevice,
    origin: Origin,
) -> Result {
    if gid.is_zero() {
        return Err(EINVAL);
    }
    let table = port.gid_table().ok_or(ENODEV)?;
    let mut writer = table.lock();
    if writer.is_closed() {
        return Err(ENODEV);
    }
    let added = insert(port, &mut writer, gid, gid_type, netdev, origin);
    drop(writer);
    match added {
        Ok(true) => notify(port),
        Ok(false) => {}
        Err(error) => {
            pr_warn_ratelimited!("unable to add gid {} error={}\n", gid, error.to_errno());
            return Err(error);
        }
    }
    Ok(())
}

fn remove(port: &Port<'_>, wanted: &Criteria<'_>, all: bool) -> bool {
    let Some(table) = port.gid_table() else {
        return false;
    };
    let mut writer = table.lock();
    let mut removed = false;
    for index in 0..table.len() {
        let matches = match writer.slot(index) {
            SlotState::Valid(entry) => wanted.accept(&table, index, &entry),
            _ => false,
        };
        if matches {
            removed |= writer.retire(index);
            if !all {
                break;
            }
        }
    }
    drop(writer);
    if removed {
        notify(port);
    }
    removed
}

/// Deletes the GID of an IP address. May sleep.
///
/// Errors: `EINVAL` if there is none.
pub(crate) fn delete(
    port: &Port<'_>,
    gid: &Gid,
    gid_type: GidType,
    netdev: Option<&NetDevice>,
) -> Result {
    let wanted = Criteria {
        gid: Some(gid),
        gid_type: Some(gid_type),
        netdev: Some(netdev),
        is_default: Some(false),
    };
    remove(port, &wanted, false).then_some(()).ok_or(EINVAL)
}

/// Deletes the default GID of a type, if it is that of `netdev`. May sleep.
///
/// Errors: `EINVAL` if there is none.
fn delete_default(port: &Port<'_>, gid_type: GidType, netdev: &NetDevice) -> Result {
    let wanted = Criteria {
        gid: None,
        gid_type: Some(gid_type),
        netdev: Some(Some(netdev)),
        is_default: Some(true),
    };
    remove(port, &wanted, false).then_some(()).ok_or(EINVAL)
}

/// Deletes all GIDs of a network device. May sleep.
pub(crate) fn delete_all(port: &Port<'_>, netdev: &NetDevice) {
    let wanted = Criteria {
        netdev: Some(Some(netdev)),
        ..Criteria::default()
    };
    remove(port, &wanted, true);
}

/// Brings a slot of a table that copies the hardware's up to date. A GID that has not changed keeps
/// its entry, and the zero GID is an empty slot.
pub(crate) fn mirror(
    port: &Port<'_>,
    writer: &mut TableWriter<'_>,
    index: usize,
    gid: &Gid,
    netdev: Option<&NetDevice>,
) -> Result {
    if let SlotState::Valid(entry) = writer.slot(index) {
        if entry.gid() == *gid && entry.is_of(netdev) {
            return Ok(());
        }
        writer.retire(index);
    }
    if gid.is_zero() {
        return Ok(());
    }
    publish(port, writer, index, gid, GidType::Ib, netdev)
}

/// The default GID of a network device: link-local, with the interface identifier of the MAC address.
/// Nothing for a device without one.
fn default_gid(netdev: &NetDevice) -> Option<Gid> {
    netdev.eui64().map(Gid::link_local)
}

/// Adds (`set`) or deletes the default GIDs of a network device. May sleep.
///
/// Failures are logged by [`add`]; what is not there need not be deleted.
pub(crate) fn set_defaults(port: &Port<'_>, netdev: &NetDevice, types: GidTypes, set: bool) {
    for gid_type in types.iter() {
        let _ = match (set, default_gid(netdev)) {
            (true, Some(gid)) => add(port, &gid, gid_type, netdev, Origin::Default),
            (true, None) => Err(EINVAL),
            (false, _) => delete_default(port, gid_type, netdev),
        };
    }
}
