// SPDX-License-Identifier: GPL-2.0

//! Tables that give numbers to objects and find the objects again.
//!
//! Lookups take no lock, may happen in any context, and return a counted reference. An object gets
//! its number in two steps, so that nobody finds it before it is complete:
//!
//! | state | type | dropped |
//! |---|---|---|
//! | a number is set aside | [`Reservation`] | number free again |
//! | lookups find the object | [`Published`] | lookups fail from now on, number free again |
//!
//! The table's own reference to an object goes after a grace period, in softirq context; so the
//! destructor of an object that is in a table must not sleep, and a module that uses tables has to
//! call [`rcu_barrier`](kernel::sync::rcu::rcu_barrier) when it exits.

use crate::{
    gfp::Gfp,
    rcu_box::RcuBox,
    xarray::{
        Kind,
        Xa, //
    }, //
};
use core::{
    ops::RangeInclusive,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};

/// A table of counted objects, by number.
///
/// # Invariants
///
/// Each entry of the array is the value of an [`RcuBox`] that the array owns. Entries are stored
/// and removed with interrupts disabled.
#[pin_data(PinnedDrop)]
pub struct IdTable<T: Send + Sync + 'static> {
    #[pin]
    entries: Xa<Arc<T>>,
    first: u32,
    last: u32,
    /// Where the search for a free number starts, so that numbers are not soon used again.
    next: Atomic<u32>,
}

impl<T: Send + Sync> IdTable<T> {
    /// An empty table that gives out the numbers of `range`. May sleep.
    pub fn new(range: RangeInclusive<u32>) -> Result<Arc<Self>> {
        let (low, high) = range.into_inner();
        Arc::pin_init(
            pin_init!(Self {
                entries <- Xa::new(Kind::AllocIrq),
                first: low,
                last: high,
                next: Atomic::new(low),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets a number aside. Sleeps if `gfp` allows, may be called in any context otherwise.
    ///
    /// `EBUSY` when all numbers are in use, `ENOMEM`.
    pub fn reserve(self: &Arc<Self>, gfp: Gfp) -> Result<Reservation<T>> {
        let start = self.next.load(Relaxed).clamp(self.first, self.last);
        let id = match self.entries.alloc_irqsave(start, self.last, gfp) {
            Err(e) if e == EBUSY => self.entries.alloc_irqsave(self.first, self.last, gfp),
            result => result,
        }?;
        self.next.store(id.wrapping_add(1), Relaxed);
        Ok(Reservation {
            table: self.clone(),
            id,
        })
    }

    /// Sets a certain number aside, which may lie outside the table's range. Otherwise as
    /// [`Self::reserve`].
    ///
    /// `EBUSY` when it is in use.
    pub fn reserve_at(self: &Arc<Self>, id: u32, gfp: Gfp) -> Result<Reservation<T>> {
        let id = self.entries.alloc_irqsave(id, id, gfp)?;
        Ok(Reservation {
            table: self.clone(),
            id,
        })
    }

    /// The object of number `id`. Any context.
    #[inline]
    pub fn get(&self, id: u32) -> Option<Arc<T>> {
        let _guard = rcu::read_lock();
        let entry = self.entries.load(id as usize)?;
        // SAFETY: By the type invariant the value of a box, which lives until all readers that may
        // have found it are done.
        Some(unsafe { entry.as_ref() }.clone())
    }

    /// Whether there are neither objects nor reservations.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[pinned_drop]
impl<T: Send + Sync> PinnedDrop for IdTable<T> {
    fn drop(self: Pin<&mut Self>) {
        // Reservations and published objects hold references to the table, so there are none.
        self.entries.clear();
    }
}

/// A number that is set aside for an object.
pub struct Reservation<T: Send + Sync + 'static> {
    table: Arc<IdTable<T>>,
    id: u32,
}

impl<T: Send + Sync> Reservation<T> {
    /// The number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Lets lookups find `object`. Any context if `gfp` does not allow to sleep.
    pub fn publish(self, object: Arc<T>, gfp: Gfp) -> Result<Published<T>> {
        let entry = RcuBox::into_raw(RcuBox::new(object, gfp.flags())?);
        // INVARIANT: The value of a box, which the array takes.
        self.table.entries.store_reserved(self.id as usize, entry);
        Ok(Published(self))
    }
}

impl<T: Send + Sync> Drop for Reservation<T> {
    fn drop(&mut self) {
        let entry = self.table.entries.erase_irqsave(self.id as usize);
        // SAFETY: By the invariant of the table a box that the array owned, until here.
        drop(entry.map(|entry| unsafe { RcuBox::from_raw(entry) }));
    }
}

/// An object that lookups find. Dropping it may happen in any context.
pub struct Published<T: Send + Sync + 'static>(Reservation<T>);

impl<T: Send + Sync> Published<T> {
    /// The number.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Lets lookups find `object` instead. Those that are under way may still find the other one.
    /// Any context if `gfp` does not allow to sleep.
    pub fn replace(&self, object: Arc<T>, gfp: Gfp) -> Result {
        let entry = RcuBox::into_raw(RcuBox::new(object, gfp.flags())?);
        let old: Option<NonNull<Arc<T>>> = self
            .0
            .table
            .entries
            .store_reserved(self.id() as usize, entry);
        // SAFETY: By the invariant of the table a box that the array owned, until here.
        drop(old.map(|old| unsafe { RcuBox::from_raw(old) }));
        Ok(())
    }
}

#[kunit_tests(rust_rdma_id_table)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cyclic_and_bounded() -> Result {
        let table = IdTable::<u32>::new(16..=18)?;
        let first = table.reserve(Gfp::KERNEL)?;
        assert_eq!(first.id(), 16);
        drop(first);
        let ids = [
            table.reserve(Gfp::KERNEL)?,
            table.reserve(Gfp::KERNEL)?,
            table.reserve(Gfp::ATOMIC)?,
        ];
        assert_eq!(ids.each_ref().map(Reservation::id), [17, 18, 16]);
        assert_eq!(table.reserve(Gfp::KERNEL).err(), Some(EBUSY));
        assert_eq!(table.reserve_at(1, Gfp::KERNEL)?.id(), 1);
        assert_eq!(table.reserve_at(17, Gfp::KERNEL).err(), Some(EBUSY));
        drop(ids);
        assert!(table.is_empty());
        Ok(())
    }

    #[test]
    fn only_published_objects_are_found() -> Result {
        let table = IdTable::<u32>::new(1..=10)?;
        let slot = table.reserve(Gfp::KERNEL)?;
        let id = slot.id();
        assert!(table.get(id).is_none());
        let published = slot.publish(Arc::new(7, GFP_KERNEL)?, Gfp::KERNEL)?;
        let found = table.get(id).ok_or(ENOENT)?;
        assert_eq!(*found, 7);
        published.replace(Arc::new(8, GFP_KERNEL)?, Gfp::ATOMIC)?;
        assert_eq!(table.get(id).map(|found| *found), Some(8));
        drop(published);
        assert!(table.get(id).is_none());
        // What was found stays.
        assert_eq!(*found, 7);
        Ok(())
    }
}
