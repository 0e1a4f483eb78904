// SPDX-License-Identifier: GPL-2.0

//! GID tables of ports.
//!
//! Readers walk the slots under RCU and take no lock. Writers, who may sleep, hold the mutex of the
//! table: a [`TableWriter`].

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering, Atomic};
use kernel::sync::{new_mutex, rcu, Arc, ArcBorrow, Mutex, MutexGuard};

use super::entry::{Draft, Entry, EntryView, HwSlots};
use super::GidAttr;

/// When a slot can be used again after its GID was deleted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum Retention {
    /// At once.
    None,
    /// When the last reference to the entry is gone. RoCE needs that: index and hardware context
    /// are in use until then.
    UntilUnused,
}

/// What a writer finds in a slot.
pub enum SlotState<'a> {
    /// Nothing.
    Free,
    /// A GID.
    Valid(EntryView<'a>),
    /// A deleted GID that somebody still holds.
    Retired(EntryView<'a>),
}

/// What writers know of each other.
struct Gate {
    /// No GIDs can be added any more.
    closed: bool,
    /// A GID found no slot, while retired ones were in the way.
    short: bool,
}

/// The GID table of one port.
///
/// # Invariants
///
/// A slot is null or points to an entry of this table that is not freed before the slot is cleared
/// and a grace period has passed; if the entry is valid, the slot owns a reference. Slots change
/// only under `gate`.
#[pin_data]
pub struct GidTable {
    slots: KVec<Atomic<*mut c_void>>,
    defaults: usize,
    retention: Retention,
    hw: HwSlots,
    #[pin]
    gate: Mutex<Gate>,
    /// Held from the question to the driver to the end of storing its answer.
    #[pin]
    refreshing: Mutex<()>,
}

// SAFETY: The slots are atomic, and entries may be used and released from any thread.
unsafe impl Send for GidTable {}
// SAFETY: As above; changes need the mutex.
unsafe impl Sync for GidTable {}

impl GidTable {
    /// Makes an empty table. The first `defaults` slots are for default GIDs only, and default GIDs
    /// go nowhere else.
    pub fn new(
        len: usize,
        defaults: usize,
        retention: Retention,
        hw: HwSlots,
    ) -> Result<Arc<Self>> {
        let mut slots = KVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            slots.push(Atomic::new(ptr::null_mut()), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                slots,
                defaults: defaults.min(len),
                retention,
                hw,
                gate <- new_mutex!(Gate { closed: false, short: false }, "GidTable::gate"),
                refreshing <- new_mutex!((), "GidTable::refreshing"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has the port refreshed by one task at a time, as long as the result exists: an answer of the
    /// driver that is older than another one is not stored after it. May sleep. Taken before
    /// the lock of the table, and before RTNL, which drivers may take to answer.
    pub fn begin_refresh(&self) -> MutexGuard<'_, ()> {
        self.refreshing.lock()
    }

    /// Gives the table to a C structure.
    pub fn into_raw(this: Arc<Self>) -> *mut bindings::ib_gid_table {
        Arc::into_raw(this).cast_mut().cast()
    }

    /// Takes back what [`into_raw`](Self::into_raw) gave away; nothing for a null pointer.
    ///
    /// # Safety
    ///
    /// `table` comes from `into_raw` and is not used as an owner again.
    pub unsafe fn from_raw(table: *mut bindings::ib_gid_table) -> Option<Arc<Self>> {
        // SAFETY: By the contract.
        (!table.is_null()).then(|| unsafe { Arc::from_raw(table.cast_const().cast()) })
    }

    /// Views a table in a C structure; nothing for a null pointer.
    ///
    /// # Safety
    ///
    /// `table` comes from `into_raw`, and its owner keeps it during `'a`.
    #[inline]
    pub unsafe fn borrow_raw<'a>(
        table: *mut bindings::ib_gid_table,
    ) -> Option<ArcBorrow<'a, Self>> {
        // SAFETY: By the contract.
        (!table.is_null()).then(|| unsafe { ArcBorrow::from_raw(table.cast_const().cast()) })
    }

    /// The number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a slot is for default GIDs.
    pub fn is_default(&self, index: usize) -> bool {
        index < self.defaults
    }

    #[inline]
    fn load<'g>(&'g self, index: usize) -> Option<&'g Entry> {
        let slot = self.slots.get(index)?;
        // SAFETY: The slot is a live atomic pointer. The volatile read is a relaxed load, and the
        // address dependency orders what is read through it, as for `rcu_dereference`.
        let entry = unsafe { ptr::from_ref(slot).cast::<*mut Entry>().read_volatile() };
        // SAFETY: By the type invariant; callers hold the mutex or an RCU guard during `'g`.
        unsafe { entry.as_ref() }
    }

    /// The valid GID in a slot.
    #[inline]
    pub fn get<'g>(&'g self, index: usize, _: &'g rcu::Guard) -> Option<EntryView<'g>> {
        self.load(index)
            .filter(|entry| entry.is_valid())
            .map(EntryView::new)
    }

    /// All valid GIDs and their indices.
    pub fn iter<'g>(
        &'g self,
        guard: &'g rcu::Guard,
    ) -> impl Iterator<Item = (usize, EntryView<'g>)> {
        (0..self.len()).filter_map(move |index| Some((index, self.get(index, guard)?)))
    }

    /// Becomes the writer. May sleep.
    pub fn lock(&self) -> TableWriter<'_> {
        TableWriter {
            table: self,
            gate: self.gate.lock(),
        }
    }
}

/// The right to change a table.
pub struct TableWriter<'t> {
    table: &'t GidTable,
    gate: MutexGuard<'t, Gate>,
}

impl TableWriter<'_> {
    /// What is in a slot.
    pub fn slot(&self, index: usize) -> SlotState<'_> {
        match self.table.load(index) {
            None => SlotState::Free,
            Some(entry) if entry.is_valid() => SlotState::Valid(EntryView::new(entry)),
            Some(entry) => SlotState::Retired(EntryView::new(entry)),
        }
    }

    /// All slots in order.
    pub fn slots(&self) -> impl Iterator<Item = (usize, SlotState<'_>)> {
        (0..self.table.len()).map(|index| (index, self.slot(index)))
    }

    /// The table.
    pub fn table(&self) -> &GidTable {
        self.table
    }

    /// Refuses GIDs from now on.
    pub fn close(&mut self) {
        self.gate.closed = true;
    }

    /// Whether the table was closed.
    pub fn is_closed(&self) -> bool {
        self.gate.closed
    }

    /// Notes that a GID found no slot because retired ones are still held: when one of them becomes
    /// free, the GIDs of the port are looked for again.
    pub fn want_slot(&mut self) {
        self.gate.short = true;
    }

    /// Whether that was noted since the last call, and still matters.
    pub(super) fn take_want(&mut self) -> bool {
        core::mem::take(&mut self.gate.short) && !self.gate.closed
    }

    /// Publishes an entry, after telling the driver if it has to know. The slot has to be free.
    ///
    /// Errors: `ENODEV` if the table was closed, `EBUSY` if the slot is taken, those of the driver.
    pub fn publish(&mut self, mut draft: Draft) -> Result {
        if self.gate.closed {
            return Err(ENODEV);
        }
        let slot = self.table.slots.get(draft.index()).ok_or(EINVAL)?;
        if self.table.load(draft.index()).is_some() {
            return Err(EBUSY);
        }
        if self.table.hw == HwSlots::Driver {
            draft.add_to_hw()?;
        }
        // INVARIANT: The slot gets the reference of the draft.
        slot.store(draft.validate().as_ptr().cast(), ordering::Release);
        Ok(())
    }

    /// Deletes the GID in a slot, if there is one. Says whether there was.
    pub fn retire(&mut self, index: usize) -> bool {
        let Some(entry) = self.table.load(index).filter(|entry| entry.is_valid()) else {
            return false;
        };
        let entry = NonNull::from(entry);
        // SAFETY: The slot's reference keeps the entry.
        unsafe { entry.as_ref() }.retire(self.table.hw);
        if self.table.retention == Retention::None {
            self.release_slot(index, entry);
        }
        // SAFETY: The reference of the slot is given away.
        unsafe { Entry::put_locked(entry, self) };
        true
    }

    /// Clears a slot if it still belongs to `entry`.
    pub(super) fn release_slot(&self, index: usize, entry: NonNull<Entry>) {
        if let Some(slot) = self.table.slots.get(index) {
            if ptr::eq(slot.load(ordering::Relaxed), entry.as_ptr().cast()) {
                slot.store(ptr::null_mut(), ordering::Release);
            }
        }
    }

    /// A reference to the valid GID in a slot.
    pub fn get(&self, index: usize) -> Option<kernel::sync::aref::ARef<GidAttr>> {
        match self.slot(index) {
            SlotState::Valid(view) => view.get(),
            _ => None,
        }
    }
}
