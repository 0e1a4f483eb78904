// SPDX-License-Identifier: GPL-2.0

//! XArrays of pointers: id allocation, marks and iteration, which the `kernel` crate's type lacks.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)
//!
//! An [`Xa`] stores pointers and owns nothing behind them, so it is a building block of typed
//! tables in this crate, not something that logic uses.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::gfp::Gfp;
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::types::Opaque;

/// A mark of an entry.
#[derive(Copy, Clone)]
pub enum Mark {
    /// Any entry (as a search filter).
    Present,
    /// `XA_MARK_0`. In an allocating array it is used by the array itself.
    M0,
    /// `XA_MARK_1`.
    M1,
    /// `XA_MARK_2`.
    M2,
}

impl Mark {
    fn raw(self) -> bindings::xa_mark_t {
        match self {
            Mark::Present => 8,
            Mark::M0 => 0,
            Mark::M1 => 1,
            Mark::M2 => 2,
        }
    }
}

/// What an array is for.
#[derive(Copy, Clone)]
pub enum Kind {
    /// The caller chooses the indices.
    Plain,
    /// Ids from 0.
    Alloc,
    /// Ids from 1.
    Alloc1,
    /// Ids from 0, and entries are only stored and removed with interrupts disabled.
    AllocIrq,
}

/// An XArray of `*mut T`.
///
/// # Invariants
///
/// The array is initialised, and all its entries were stored as `*mut T`.
#[repr(transparent)]
#[pin_data]
pub struct Xa<T> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    _entries: PhantomData<*mut T>,
}

// SAFETY: The array has a lock of its own; what the pointers mean is the user's business.
unsafe impl<T> Send for Xa<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for Xa<T> {}

impl<T> Xa<T> {
    /// Makes an empty array.
    pub fn new(kind: Kind) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes.
            xa <- Opaque::ffi_init(|slot| unsafe { Self::init_raw(slot, kind) }),
            _entries: PhantomData,
        })
    }

    /// Initialises the array of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for writes, and no array in use lies there.
    pub unsafe fn init_raw(ptr: *mut bindings::xarray, kind: Kind) {
        // SAFETY: These only return constants.
        let flags = unsafe {
            match kind {
                Kind::Plain => 0,
                Kind::Alloc => bindings::xa_flags_alloc(),
                Kind::Alloc1 => bindings::xa_flags_alloc1(),
                Kind::AllocIrq => bindings::xa_flags_alloc_irq(),
            }
        };
        // SAFETY: Promised by the caller.
        unsafe { bindings::xa_init_flags(ptr, flags) };
    }

    /// Views the array of a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised array that outlives `'a`, whose entries all are `*mut T`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::xarray) -> &'a Self {
        // SAFETY: The type is transparent over the array.
        unsafe { &*ptr.cast() }
    }

    fn raw(&self) -> *mut bindings::xarray {
        self.xa.get()
    }

    /// The entry at `index`.
    pub fn load(&self, index: usize) -> Option<NonNull<T>> {
        // SAFETY: The array is initialised by the type invariant.
        NonNull::new(unsafe { bindings::xa_load(self.raw(), index) }.cast())
    }

    /// Stores an entry and returns the earlier one. Sleeps if `gfp` allows.
    pub fn store(&self, index: usize, entry: NonNull<T>, gfp: Gfp) -> Result<Option<NonNull<T>>> {
        // SAFETY: The array is initialised by the type invariant.
        let old =
            unsafe { bindings::xa_store(self.raw(), index, entry.as_ptr().cast(), gfp.as_raw()) };
        // SAFETY: `old` is what an XArray function returned.
        to_result(unsafe { bindings::xa_err(old) })?;
        Ok(NonNull::new(old.cast()))
    }

    /// Stores an entry at a free index, `EBUSY` if it is taken (or reserved).
    pub fn insert(&self, index: usize, entry: NonNull<T>, gfp: Gfp) -> Result {
        // SAFETY: The array is initialised by the type invariant.
        to_result(unsafe {
            bindings::xa_insert(self.raw(), index, entry.as_ptr().cast(), gfp.as_raw())
        })
    }

    /// Keeps an index busy, and its memory allocated, without an entry that readers see.
    pub fn reserve(&self, index: usize, gfp: Gfp) -> Result {
        // SAFETY: The array is initialised by the type invariant.
        to_result(unsafe { bindings::xa_reserve(self.raw(), index, gfp.as_raw()) })
    }

    /// Gives up an index that is reserved; an entry stored there meanwhile stays.
    pub fn release(&self, index: usize) {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_release(self.raw(), index) }
    }

    /// Stores `new` if the entry is `old` (a null pointer stands for none); returns what was there.
    pub fn compare_exchange(
        &self,
        index: usize,
        old: *mut T,
        new: *mut T,
        gfp: Gfp,
    ) -> Result<Option<NonNull<T>>> {
        // SAFETY: The array is initialised by the type invariant.
        let was = unsafe {
            bindings::xa_cmpxchg(self.raw(), index, old.cast(), new.cast(), gfp.as_raw())
        };
        // SAFETY: `was` is what an XArray function returned.
        to_result(unsafe { bindings::xa_err(was) })?;
        Ok(NonNull::new(was.cast()))
    }

    /// Removes the entry at `index` and returns it. Does not allocate.
    pub fn erase(&self, index: usize) -> Option<NonNull<T>> {
        // SAFETY: The array is initialised by the type invariant.
        NonNull::new(unsafe { bindings::xa_erase(self.raw(), index) }.cast())
    }

    /// Stores `entry` (a null pointer reserves) at the lowest free id of `min..=max`; `EBUSY` when
    /// full.
    pub fn alloc(&self, entry: *mut T, min: u32, max: u32, gfp: Gfp) -> Result<u32> {
        let mut id = 0;
        // SAFETY: The array is initialised by the type invariant, `id` is valid for writes.
        to_result(unsafe {
            bindings::xa_alloc(self.raw(), &mut id, entry.cast(), max, min, gfp.as_raw())
        })?;
        Ok(id)
    }

    /// As [`Xa::alloc`], but searches from `*next` on and wraps, so that ids are not soon reused.
    /// The caller serialises calls with the same `next`.
    pub fn alloc_cyclic(
        &self,
        entry: *mut T,
        min: u32,
        max: u32,
        next: &mut u32,
        gfp: Gfp,
    ) -> Result<u32> {
        let mut id = 0;
        // SAFETY: The array is initialised by the type invariant, `id` and `next` are valid.
        let ret = unsafe {
            bindings::xa_alloc_cyclic(
                self.raw(),
                &mut id,
                entry.cast(),
                max,
                min,
                next,
                gfp.as_raw(),
            )
        };
        // A positive result says that the ids wrapped.
        if ret < 0 {
            to_result(ret)?;
        }
        Ok(id)
    }

    /// Calls `f` under the lock of the array, with interrupts disabled.
    fn locked_irq<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: The array is initialised by the type invariant.
        let flags = unsafe { bindings::xa_lock_irqsave(self.raw()) };
        let result = f();
        // SAFETY: Locked above.
        unsafe { bindings::xa_unlock_irqrestore(self.raw(), flags) };
        result
    }

    /// Reserves the lowest free id of `min..=max` of an array of [`Kind::AllocIrq`], in any context
    /// that `gfp` is for; `EBUSY` when full.
    pub fn alloc_irqsave(&self, min: u32, max: u32, gfp: Gfp) -> Result<u32> {
        let mut id = 0;
        let limit = bindings::xa_limit { max, min };
        // SAFETY: The array is initialised by the type invariant and locked; `id` is valid. The
        // lock is dropped for an allocation that may sleep, in the way that the array's kind asks.
        to_result(self.locked_irq(|| unsafe {
            bindings::__xa_alloc(
                self.raw(),
                &mut id,
                core::ptr::null_mut(),
                limit,
                gfp.as_raw(),
            )
        }))?;
        Ok(id)
    }

    /// Stores an entry at an index that is reserved or has an entry, and returns what was there. For
    /// arrays of [`Kind::AllocIrq`], in any context; needs no memory.
    pub fn store_reserved(&self, index: usize, entry: NonNull<T>) -> Option<NonNull<T>> {
        // SAFETY: The array is initialised by the type invariant and locked.
        NonNull::new(self.locked_irq(|| unsafe {
            bindings::__xa_store(
                self.raw(),
                index,
                entry.as_ptr().cast(),
                Gfp::ATOMIC.as_raw(),
            )
            .cast()
        }))
    }

    /// As [`Xa::erase`], for arrays of [`Kind::AllocIrq`], in any context.
    pub fn erase_irqsave(&self, index: usize) -> Option<NonNull<T>> {
        let old = self.locked_irq(|| {
            // SAFETY: The array is initialised by the type invariant and locked.
            unsafe { bindings::__xa_erase(self.raw(), index) }
        });
        NonNull::new(old.cast())
    }

    /// The first entry with `mark` at `from` or later, with its index.
    pub fn find(&self, from: usize, mark: Mark) -> Option<(usize, NonNull<T>)> {
        let mut index = from;
        // SAFETY: The array is initialised by the type invariant, `index` is valid.
        let entry = unsafe { bindings::xa_find(self.raw(), &mut index, usize::MAX, mark.raw()) };
        NonNull::new(entry.cast()).map(|entry| (index, entry))
    }

    /// As [`Xa::find`], but also finds an index with `mark` whose entry is empty: in an allocating
    /// array, one that is reserved.
    pub fn find_slot(&self, from: usize, mark: Mark) -> Option<(usize, Option<NonNull<T>>)> {
        /// `XAS_RESTART`: the walk starts at the top.
        const RESTART: *mut bindings::xa_node = core::ptr::without_provenance_mut(3);
        /// `XA_RETRY_ENTRY`: the node is being replaced.
        const RETRY: usize = (256 << 2) | 2;

        let mut state = bindings::xa_state {
            xa: self.raw(),
            xa_index: from,
            xa_node: RESTART,
            ..pin_init::zeroed()
        };
        let _guard = rcu::read_lock();
        loop {
            // SAFETY: `state` walks an initialised array, and RCU is held.
            let entry = unsafe {
                match mark {
                    Mark::Present => bindings::xas_find(&mut state, usize::MAX),
                    mark => bindings::xas_find_marked(&mut state, usize::MAX, mark.raw()),
                }
            };
            // SAFETY: Only looks at the value.
            if unsafe { bindings::xa_is_zero(entry) } {
                return Some((state.xa_index, None));
            }
            if entry.addr() == RETRY {
                state.xa_node = RESTART;
                continue;
            }
            return NonNull::new(entry.cast()).map(|entry| (state.xa_index, Some(entry)));
        }
    }

    /// Removes the entry at `index` from the sight of readers, but in an allocating array keeps the
    /// index reserved. Does not need memory where there was an entry.
    pub fn hide(&self, index: usize, gfp: Gfp) -> Result<Option<NonNull<T>>> {
        // SAFETY: The array is initialised by the type invariant.
        let old =
            unsafe { bindings::xa_store(self.raw(), index, core::ptr::null_mut(), gfp.as_raw()) };
        // SAFETY: `old` is what an XArray function returned.
        to_result(unsafe { bindings::xa_err(old) })?;
        Ok(NonNull::new(old.cast()))
    }

    /// Walks the entries with `mark` in the order of their indices. Entries stored or removed
    /// meanwhile may or may not be seen, as in C.
    pub fn iter(&self, mark: Mark) -> Iter<'_, T> {
        Iter {
            xa: self,
            next: Some(0),
            mark,
        }
    }

    /// Whether the entry at `index` has `mark`.
    pub fn has_mark(&self, index: usize, mark: Mark) -> bool {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_get_mark(self.raw(), index, mark.raw()) }
    }

    /// Marks the entry at `index`, if there is one.
    pub fn set_mark(&self, index: usize, mark: Mark) {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_set_mark(self.raw(), index, mark.raw()) }
    }

    /// Takes the mark off the entry at `index`.
    pub fn clear_mark(&self, index: usize, mark: Mark) {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_clear_mark(self.raw(), index, mark.raw()) }
    }

    /// Whether there is no entry, reserved ones counted.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_empty(self.raw()) }
    }

    /// Frees the array's memory; it is empty and usable afterwards.
    pub fn clear(&self) {
        // SAFETY: The array is initialised by the type invariant.
        unsafe { bindings::xa_destroy(self.raw()) }
    }
}

/// See [`Xa::iter`].
pub struct Iter<'a, T> {
    xa: &'a Xa<T>,
    next: Option<usize>,
    mark: Mark,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = (usize, NonNull<T>);

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.xa.find(self.next?, self.mark);
        self.next = found.and_then(|(index, _)| index.checked_add(1));
        found
    }
}
