// SPDX-License-Identifier: GPL-2.0

//! The tables from ids to entries.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::{NotThreadSafe, Opaque}, //
};

use crate::device::Device;

use super::{Entry, EntryRef, Kind};

/// The mark of entries that readers see only when they ask for driver details, `RESTRACK_DD`.
const DETAILS_ONLY: bindings::xa_mark_t = 1;

/// The value that keeps a slot occupied while its entry is away, `XA_ZERO_ENTRY`.
const PLACEHOLDER: *mut c_void = core::ptr::without_provenance_mut(1030);

/// Where a search begins, `XAS_RESTART`.
const RESTART: *mut bindings::xa_node = core::ptr::without_provenance_mut(3);

/// The tables of one device, one per [`Kind`].
#[repr(transparent)]
pub struct Tables([Table; Kind::COUNT]);

impl Tables {
    /// Allocates empty tables.
    pub fn new() -> Result<KBox<Self>> {
        let mut tables = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let first: *mut Table = tables.as_mut_ptr().cast();

        for i in 0..Kind::COUNT {
            // SAFETY: `Tables` is an array of `Kind::COUNT` tables, and all zero is a valid
            // `struct rdma_restrack_root` apart from its xarray, which follows.
            unsafe {
                let root = Table::raw_of(first.add(i));
                root.write_bytes(0, 1);
                bindings::xa_init_flags(&raw mut (*root).xa, bindings::XA_FLAGS_ALLOC);
            }
        }

        // SAFETY: Every element has been initialised.
        Ok(unsafe { tables.assume_init() })
    }

    /// The tables of `device`.
    pub fn of_device(device: &Device) -> &Self {
        // SAFETY: A `Device` is made by `_ib_alloc_device()`, which gives it its tables before
        // anybody else sees it; they are freed with the device.
        unsafe { &*(&raw const (*device.as_raw()).res).read().cast::<Self>() }
    }

    /// Gives the tables to `device`, which has none yet.
    ///
    /// # Safety
    ///
    /// `device` points to a device that nobody else uses yet.
    pub unsafe fn attach(tables: KBox<Self>, device: NonNull<bindings::ib_device>) {
        let raw = KBox::into_raw(tables).cast();
        // SAFETY: The caller vouches for the device.
        unsafe { (&raw mut (*device.as_ptr()).res).write(raw) };
    }

    /// Takes the tables back from `device`.
    ///
    /// # Safety
    ///
    /// `device` points to a device that got its tables from [`Tables::attach`] and whose tables
    /// nobody uses any more.
    pub unsafe fn detach(device: NonNull<bindings::ib_device>) -> Option<KBox<Self>> {
        // SAFETY: The caller vouches for the device.
        let raw = unsafe { (&raw mut (*device.as_ptr()).res).replace(core::ptr::null_mut()) };
        // SAFETY: The pointer came from `KBox::into_raw` in `attach`, and is now forgotten there.
        (!raw.is_null()).then(|| unsafe { KBox::from_raw(raw.cast()) })
    }

    /// The table of the objects of one kind.
    pub fn of(&self, kind: Kind) -> &Table {
        let Tables(tables) = self;
        &tables[kind as usize]
    }

    /// All tables.
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        self.0.iter()
    }
}

/// The entries of one kind of one device by id, `struct rdma_restrack_root`.
///
/// # Invariants
///
/// Every slot is empty, has a placeholder or refers to a living [`Entry`].
#[repr(transparent)]
pub struct Table(Opaque<bindings::rdma_restrack_root>);

// SAFETY: The xarray has its own lock.
unsafe impl Send for Table {}

// SAFETY: The xarray has its own lock.
unsafe impl Sync for Table {}

impl Table {
    /// Views a C table.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for `'a` and fulfils the invariants of [`Table`].
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_restrack_root) -> &'a Self {
        // SAFETY: `Table` is transparent.
        unsafe { &*ptr.cast() }
    }

    fn raw_of(this: *mut Self) -> *mut bindings::rdma_restrack_root {
        this.cast()
    }

    fn xa(&self) -> *mut bindings::xarray {
        // SAFETY: Only an address is computed, inside the table.
        unsafe { &raw mut (*self.0.get()).xa }
    }

    /// Locks the table: until the guard goes, no entry comes or leaves. A spinlock: no sleeping.
    pub fn lock(&self) -> TableGuard<'_> {
        // SAFETY: The xarray is initialised.
        unsafe { bindings::xa_lock(self.xa()) };
        TableGuard {
            table: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The head of an xarray is a word that may be read at any time.
        unsafe { (&raw const (*self.xa()).xa_head).read_volatile() }.is_null()
    }

    /// Adds `entry` under its own id. `details_only` hides it from ordinary dumps. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the id is in use, `ENOMEM`.
    pub fn insert(&self, entry: &Entry, details_only: bool) -> Result {
        let guard = self.lock();
        let index = entry.id() as usize;

        // SAFETY: The lock is held; it is released only while memory is allocated. INVARIANT: by
        // the contract of `Entry`, the entry stays alive until it has left the table.
        to_result(unsafe {
            bindings::__xa_insert(
                self.xa(),
                index,
                entry.as_raw().cast(),
                bindings::GFP_KERNEL,
            )
        })?;
        if details_only {
            // SAFETY: The lock is held, so that nobody sees the entry without its mark.
            unsafe { bindings::__xa_set_mark(self.xa(), index, DETAILS_ONLY) };
        }
        drop(guard);
        Ok(())
    }

    /// Adds `entry` under the next free id, which it gets. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if all ids are in use, `ENOMEM`.
    pub fn insert_cyclic(&self, entry: &Entry) -> Result {
        const ALL_IDS: bindings::xa_limit = bindings::xa_limit {
            min: 0,
            max: u32::MAX,
        };

        let _guard = self.lock();
        // SAFETY: The lock is held, which also covers `next_id`, and the id is written before the
        // entry can be found. INVARIANT: as in `insert`.
        let ret = unsafe {
            bindings::__xa_alloc_cyclic(
                self.xa(),
                &raw mut (*entry.as_raw()).id,
                entry.as_raw().cast(),
                ALL_IDS,
                &raw mut (*self.0.get()).next_id,
                bindings::GFP_KERNEL,
            )
        };
        // One means that the ids wrapped around.
        to_result(ret.min(0))
    }

    fn exchange(&self, id: u32, old: *mut c_void, new: *mut c_void) -> *mut c_void {
        let _guard = self.lock();
        // SAFETY: The lock is held; `new` is a placeholder or a living entry.
        unsafe { bindings::__xa_cmpxchg(self.xa(), id as usize, old, new, bindings::GFP_KERNEL) }
    }

    /// Puts a placeholder where `entry` is. Tells whether it was there. May sleep.
    pub fn park(&self, entry: &Entry) -> bool {
        let this = entry.as_raw().cast();
        self.exchange(entry.id(), this, PLACEHOLDER) == this
    }

    /// Puts `entry` back where its placeholder is. Tells whether the slot was its own. May sleep.
    pub fn unpark(&self, entry: &Entry) -> bool {
        self.exchange(entry.id(), PLACEHOLDER, entry.as_raw().cast())
            .is_null()
    }

    /// Empties the slot of `entry`. Tells whether the entry was in it, rather than a placeholder.
    pub fn remove(&self, entry: &Entry) -> bool {
        // SAFETY: The xarray is initialised; it takes its lock.
        let old = unsafe { bindings::xa_erase(self.xa(), entry.id() as usize) };
        old == entry.as_raw().cast()
    }

    /// Whether ordinary dumps leave out the entry in slot `id`.
    pub fn is_details_only(&self, id: u32) -> bool {
        // SAFETY: The xarray is initialised.
        unsafe { bindings::xa_get_mark(self.xa(), id as usize, DETAILS_ONLY) }
    }

    /// A reference to the entry with this `id`, unless its object is on the way out.
    pub fn get(&self, id: u32) -> Option<EntryRef> {
        let _guard = self.lock();
        // SAFETY: The xarray is initialised; placeholders read as null.
        let found = NonNull::new(unsafe { bindings::xa_load(self.xa(), id as usize) })?;
        // SAFETY: By the type invariants, what the slot refers to lives as long as it is there,
        // which the lock covers.
        unsafe { Entry::from_raw(found.as_ptr().cast()) }.get()
    }

    /// References to the entries from id `start` on, without the lock held in between. Objects
    /// that come or go meanwhile may be missed; none is seen twice.
    pub fn readers(&self, start: u32) -> Readers<'_> {
        Readers {
            table: self,
            next: Some(start),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: The xarray is initialised, and nobody uses it any more.
        unsafe { bindings::xa_destroy(self.xa()) };
    }
}

/// A locked [`Table`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct TableGuard<'a> {
    table: &'a Table,
    _not_send: NotThreadSafe,
}

impl TableGuard<'_> {
    /// The entries from id `start` on, in the order of the ids.
    pub fn iter_from(&self, start: u32) -> Iter<'_> {
        Iter {
            xas: bindings::xa_state {
                xa: self.table.xa(),
                xa_index: start as usize,
                xa_shift: 0,
                xa_sibs: 0,
                xa_offset: 0,
                xa_pad: 0,
                xa_node: RESTART,
                xa_alloc: core::ptr::null_mut(),
                xa_update: None,
                xa_lru: core::ptr::null_mut(),
            },
            _guard: PhantomData,
        }
    }
}

impl Drop for TableGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The guard stands for the lock.
        unsafe { bindings::xa_unlock(self.table.xa()) };
    }
}

/// An entry met by [`Iter`].
pub struct Found<'a> {
    /// The id under which the table has it.
    pub id: u32,
    /// The entry, whose last reference may be gone.
    pub entry: &'a Entry,
    /// Whether ordinary dumps leave it out.
    pub details_only: bool,
}

/// Walks a locked table.
pub struct Iter<'a> {
    xas: bindings::xa_state,
    _guard: PhantomData<&'a TableGuard<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        loop {
            // SAFETY: The state belongs to a table whose lock is held for `'a`.
            let found = unsafe { bindings::xas_find(&mut self.xas, u32::MAX as usize) };
            if found == PLACEHOLDER {
                continue;
            }
            let found = NonNull::new(found)?;
            return Some(Found {
                // The search stops at the highest `u32`.
                id: self.xas.xa_index as u32,
                // SAFETY: By the invariants of `Table`, the entry is alive while it is in the
                // table, and the lock keeps it there for `'a`.
                entry: unsafe { Entry::from_raw(found.as_ptr().cast()) },
                // SAFETY: The state stands at the slot just found.
                details_only: unsafe { bindings::xas_get_mark(&self.xas, DETAILS_ONLY) },
            });
        }
    }
}

/// Walks a table with a reference to one entry at a time.
pub struct Readers<'a> {
    table: &'a Table,
    next: Option<u32>,
}

impl Iterator for Readers<'_> {
    type Item = EntryRef;

    fn next(&mut self) -> Option<EntryRef> {
        let start = self.next?;
        let guard = self.table.lock();

        for Found { id, entry, .. } in guard.iter_from(start) {
            self.next = id.checked_add(1);
            if let Some(held) = entry.get() {
                return Some(held);
            }
        }
        self.next = None;
        None
    }
}
