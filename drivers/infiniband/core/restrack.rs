// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: the life of an entry.
//!
//! An entry goes through these states, driven by the owner of the object:
//!
//! | State   | In the table  | References       | Left by                                      |
//! |---------|---------------|------------------|----------------------------------------------|
//! | new     | no            | the owner's      | [`add`], [`put`] when the creation fails     |
//! | tracked | yes           | owner + readers  | [`begin_del`], [`sync`], [`del`]             |
//! | parked  | a placeholder | none             | [`commit_del`], [`abort_del`]                |
//! | dead    | no            | none             | -                                            |
//!
//! A driver takes an object apart only in the parked or dead state, that is, when no dump can be
//! looking at it. An object that is not to be tracked goes the same way without the table.
//!
//! All functions but [`get`], [`get_by_id`] and [`count`] are the owner's, who calls one at a time.
//! Those that wait for readers or touch the table may sleep.

mod names;

use kernel::{bindings, do_once_lite, pr_warn_once, prelude::*, warn_on};
use rdma::{
    device::Device,
    restrack::{
        current_task,
        Entry,
        EntryRef,
        Kind,
        Owner,
        QpIdentity,
        Table,
        Tables, //
    }, //
};

/// Where an entry belongs.
enum Home<'a> {
    /// In this table.
    Table(&'a Table),
    /// In none, by the creator's wish.
    Nowhere,
}

/// Finds the place for `entry`. Warns and gives [`None`] if the object has no device or is of an
/// unknown type: there is no table then.
fn home(entry: &Entry) -> Option<Home<'_>> {
    if !entry.is_tracked() {
        return Some(Home::Nowhere);
    }
    match entry.table() {
        Some(table) => Some(Home::Table(table)),
        None => {
            warn_of_homeless(entry);
            None
        }
    }
}

#[cold]
fn warn_of_homeless(entry: &Entry) {
    if entry.kind().is_none() {
        pr_warn_once!("Wrong resource tracking type {}\n", entry.raw_kind());
    }
    warn_on!(true);
}

/// An entry that no reader holds or can find, while the table keeps its id for it.
struct Parked<'a> {
    entry: &'a Entry,
    home: Home<'a>,
}

impl<'a> Parked<'a> {
    /// Hides `entry` and waits for its readers.
    fn park(entry: &'a Entry, home: Home<'a>) -> Self {
        if let Home::Table(table) = home {
            warn_on!(!table.park(entry));
        }
        drain(entry);
        Self { entry, home }
    }

    /// Lets readers find the entry again.
    fn resume(self) {
        self.entry.revive();
        if let Home::Table(table) = self.home {
            warn_on!(!table.unpark(self.entry));
        }
    }
}

/// Gives up the owner's reference and waits until all others are gone too.
fn drain(entry: &Entry) {
    put(entry);
    entry.wait_unused();
}

/// Allocates the tables of a device.
pub(crate) fn init() -> Result<KBox<Tables>> {
    Tables::new()
}

/// Frees the tables of a device. Entries left in them are a fault of whoever created them.
pub(crate) fn clean(tables: KBox<Tables>) {
    for table in tables.iter() {
        warn_on!(!table.is_empty());
    }
}

/// Counts the objects of a kind that a dump would show.
pub(crate) fn count(device: &Device, kind: Kind, show_details: bool) -> u32 {
    let guard = Tables::of_device(device).of(kind).lock();
    let shown = guard
        .iter_from(0)
        .filter(|found| show_details || !found.details_only)
        .count();
    u32::try_from(shown).unwrap_or(u32::MAX)
}

/// Names the creator of an object: the kernel module `caller` or, without one, the current
/// process.
pub(crate) fn set_name(entry: &Entry, caller: Option<&CStr>) {
    match caller {
        Some(name) => entry.set_kernel_owner(names::intern(name)),
        None => entry.set_user_owner(current_task()),
    }
}

/// Gives `entry` the creator of `parent`.
pub(crate) fn parent_name(entry: &Entry, parent: &Entry) {
    match parent.owner() {
        Owner::Kernel(Some(name)) => entry.set_kernel_owner(names::intern(name)),
        Owner::Kernel(None) => {}
        Owner::User(Some(task)) => entry.set_user_owner(task.into()),
        Owner::User(None) => do_once_lite! {
            warn_on!(true);
        },
    }
}

/// The key of a queue pair: its number, to which the port is added for the management queue
/// pairs, whose numbers 0 and 1 exist once per port.
fn qp_key(qp: QpIdentity) -> u32 {
    match qp.qp_type {
        bindings::ib_qp_type_IB_QPT_SMI | bindings::ib_qp_type_IB_QPT_GSI => {
            qp.number | qp.port.wrapping_shl(24)
        }
        _ => qp.number,
    }
}

fn add_qp(table: &Table, entry: &Entry, qp: QpIdentity) -> Result {
    if qp.number >> 24 != 0 || qp.port >> 8 != 0 {
        do_once_lite! {
            pr_warn!("QP number 0x{:0X} and port 0x{:0X}\n", qp.number, qp.port);
            warn_on!(true);
        };
    }
    add_fixed(
        table,
        entry,
        qp_key(qp),
        qp.qp_type >= bindings::ib_qp_type_IB_QPT_DRIVER,
    )
}

fn add_fixed(table: &Table, entry: &Entry, id: u32, details_only: bool) -> Result {
    entry.set_id(id);
    table
        .insert(entry, details_only)
        .inspect_err(|_| entry.set_id(0))
}

/// Publishes an object. If that fails, for lack of memory or because the id is taken by an object
/// that is still parked, the object works but is not shown.
pub(crate) fn add(entry: &Entry) {
    let added = match home(entry) {
        None => return,
        Some(Home::Nowhere) => Ok(()),
        Some(Home::Table(table)) => {
            // Most kinds have no number of their own; both lookups would ask for the kind again.
            if !matches!(entry.kind(), Some(Kind::Qp | Kind::Counter)) {
                table.insert_cyclic(entry)
            } else if let Some(qp) = entry.qp_identity() {
                add_qp(table, entry, qp)
            } else if let Some(id) = entry.counter_id() {
                add_fixed(table, entry, id, false)
            } else {
                Ok(())
            }
        }
    };

    if added.is_ok() {
        entry.set_valid(true);
    }
}

/// Takes a reference for C code; it fails if the object is on the way out.
pub(crate) fn get(entry: &Entry) -> bool {
    entry.try_get()
}

/// Finds an object by its id.
pub(crate) fn get_by_id(device: &Device, kind: Kind, id: u32) -> Option<EntryRef> {
    Tables::of_device(device).of(kind).get(id)
}

/// Drops a reference; tells whether it was the last one. The entry is the caller's no more.
pub(crate) fn put(entry: &Entry) -> bool {
    let last = entry.put();
    if last {
        // An entry that was never added, or is dead, has no other moment to let its process go.
        if !entry.is_valid() {
            entry.put_task();
        }
        entry.signal_unused();
    }
    last
}

/// Waits until every reader that may have seen the old state of the object is gone. New ones see
/// it as it is at the time of the call. For changes that readers have no lock against.
pub(crate) fn sync(entry: &Entry) {
    if !entry.is_valid() {
        return;
    }
    if let Some(Home::Table(table)) = home(entry) {
        if warn_on!(table.is_details_only(entry.id())) {
            return;
        }
        Parked::park(entry, Home::Table(table)).resume();
    }
}

/// Takes an object out for good and waits for its readers.
pub(crate) fn del(entry: &Entry) {
    if entry.is_valid() {
        if let Some(Home::Table(table)) = home(entry) {
            warn_on!(!table.remove(entry));
        }
        entry.set_valid(false);
        drain(entry);
    }
    entry.put_task();
}

/// Hides an object whose destruction is about to be tried, and waits for its readers. Its id stays
/// taken; an object that gets the same one meanwhile is not shown.
pub(crate) fn begin_del(entry: &Entry) {
    if entry.is_valid() {
        if let Some(home) = home(entry) {
            Parked::park(entry, home);
        }
    }
}

/// Shows an object again whose destruction failed.
pub(crate) fn abort_del(entry: &Entry) {
    if entry.is_valid() {
        if let Some(home) = home(entry) {
            Parked { entry, home }.resume();
        }
    }
}

/// Frees the id of an object that was destroyed, and lets its creator go.
pub(crate) fn commit_del(entry: &Entry) {
    if entry.is_valid() {
        if let Some(Home::Table(table)) = home(entry) {
            table.remove(entry);
        }
        entry.set_valid(false);
    }
    entry.put_task();
}

#[kunit_tests(rust_ib_core_restrack)]
mod tests {
    use super::*;

    fn key(number: u32, port: u32, qp_type: bindings::ib_qp_type) -> u32 {
        qp_key(QpIdentity {
            number,
            port,
            qp_type,
        })
    }

    #[test]
    fn management_queue_pairs_are_told_apart_by_port() {
        assert_eq!(key(0, 1, bindings::ib_qp_type_IB_QPT_SMI), 0x0100_0000);
        assert_eq!(key(1, 2, bindings::ib_qp_type_IB_QPT_GSI), 0x0200_0001);
        assert_eq!(key(1, 255, bindings::ib_qp_type_IB_QPT_GSI), 0xff00_0001);
    }

    #[test]
    fn ordinary_queue_pairs_keep_their_number() {
        assert_eq!(key(0x11, 1, bindings::ib_qp_type_IB_QPT_RC), 0x11);
        assert_eq!(key(0xff_ffff, 2, bindings::ib_qp_type_IB_QPT_UD), 0xff_ffff);
    }

    #[test]
    fn kinds_have_the_numbers_of_the_header() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Kind::from_raw(number as u32), Some(kind));
        }
        assert_eq!(Kind::from_raw(Kind::COUNT as u32), None);
        assert_eq!(Kind::from_raw(u32::MAX), None);
    }
}
