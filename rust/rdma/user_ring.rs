// SPDX-License-Identifier: GPL-2.0

//! Rings of records in memory that a user process has mapped.
//!
//! The process on the other side may be hostile: it can change any byte at any time. So nothing here
//! forms a reference into the memory. Records are copied once, in or out, by volatile accesses, and
//! an index that the kernel owns is never read back: its master copy is private.
//!
//! # Layout
//!
//! A header of 384 bytes, then the slots. Both their number and their size are powers of two; one
//! slot stays free, so that a full ring differs from an empty one.
//!
//! | offset | 32-bit word |
//! |---|---|
//! | 0 | binary logarithm of the size of a slot |
//! | 4 | number of slots minus one |
//! | 128 | producer index |
//! | 256 | consumer index |
//!
//! UAPI header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use core::{
    mem::{
        align_of,
        offset_of,
        size_of,
        MaybeUninit, //
    },
    ptr::NonNull,
};
use kernel::{
    bindings,
    error::to_result,
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    }, //
};

/// Bytes before the first slot.
const HEADER: usize = 384;

const _: () = {
    assert!(size_of::<bindings::rxe_queue_buf>() == HEADER);
    assert!(offset_of!(bindings::rxe_queue_buf, log2_elem_size) == Field::SlotShift.offset());
    assert!(offset_of!(bindings::rxe_queue_buf, index_mask) == Field::IndexMask.offset());
    assert!(offset_of!(bindings::rxe_queue_buf, producer_index) == Field::Producer.offset());
    assert!(offset_of!(bindings::rxe_queue_buf, consumer_index) == Field::Consumer.offset());
};

/// Words of the header.
#[derive(Clone, Copy)]
enum Field {
    SlotShift,
    IndexMask,
    Producer,
    Consumer,
}

impl Field {
    const fn offset(self) -> usize {
        match self {
            Self::SlotShift => 0,
            Self::IndexMask => 4,
            Self::Producer => 128,
            Self::Consumer => 256,
        }
    }
}

/// Zeroed pages that user space can map.
///
/// The pages of a mapping live as long as the mapping, also when this is gone before.
///
/// # Invariants
///
/// `start` points at `length` bytes of `vmalloc_user`, which this owns. `length` is a multiple of
/// the size of a page.
pub struct UserPages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: The memory is no thread's own.
unsafe impl Send for UserPages {}
// SAFETY: All accesses are volatile or atomic.
unsafe impl Sync for UserPages {}

impl UserPages {
    /// Allocates at least `length` bytes. May sleep. `ENOMEM` also when there are none to allocate.
    pub fn new(length: usize) -> Result<Arc<Self>> {
        let length = length.checked_next_multiple_of(PAGE_SIZE).ok_or(ENOMEM)?;
        // SAFETY: Reads a number.
        let ram = unsafe { bindings::rdma_totalram_pages() };
        // A process may ask for more than there is; the allocator would fill the log about it.
        if length / PAGE_SIZE > ram as usize {
            return Err(ENOMEM);
        }
        // SAFETY: Takes any size; zero gives a null pointer.
        let start = NonNull::new(unsafe { bindings::rdma_vmalloc_user(length) }.cast());
        // INVARIANT: Just allocated.
        let pages = Self {
            start: start.ok_or(ENOMEM)?,
            length,
        };
        Ok(Arc::new(pages, GFP_KERNEL)?)
    }

    /// Bytes, a multiple of the size of a page.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Lets `vma` show the pages from the first one on. May sleep.
    ///
    /// `EINVAL` if the mapping is longer than the memory.
    pub fn map(&self, vma: &VmaNew) -> Result {
        if vma_size(vma) > self.length {
            return Err(EINVAL);
        }
        // SAFETY: The mapping is being made by this thread; the memory comes from `vmalloc_user`.
        to_result(unsafe {
            bindings::remap_vmalloc_range(vma.as_ptr().cast(), self.start.as_ptr().cast(), 0)
        })
    }

    /// The word at `at`.
    ///
    /// # Safety
    ///
    /// `at` must be a multiple of four, with four bytes within the memory.
    unsafe fn word(&self, at: usize) -> &Atomic<u32> {
        // SAFETY: Within the memory and aligned, by the contract; user space writes it like another
        // CPU would.
        unsafe { Atomic::from_ptr(self.start.as_ptr().add(at).cast()) }
    }
}

impl Drop for UserPages {
    fn drop(&mut self) {
        // SAFETY: Owned by the type invariant. Mappings hold references to their pages.
        unsafe { bindings::vfree(self.start.as_ptr().cast()) }
    }
}

/// Bytes of a mapping.
pub fn vma_size(vma: &VmaNew) -> usize {
    vma.end().saturating_sub(vma.start())
}

/// Where in the file a mapping starts, in bytes.
pub fn vma_offset(vma: &VmaNew) -> u64 {
    // SAFETY: A live mapping, which the current thread holds locked.
    let pages = unsafe { (*vma.as_ptr()).vm_pgoff };
    (pages as u64).wrapping_mul(PAGE_SIZE as u64)
}

/// Size and number of the slots of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    shift: u32,
    mask: u32,
}

impl Geometry {
    /// Slots are at least a cache line, so that two of them never share one.
    const MIN_SLOT: usize = 64;

    /// For at least `entries` records of `size` bytes each; `None` if the ring would be larger than
    /// its format can tell.
    pub fn new(entries: u32, size: usize) -> Option<Self> {
        let slots = entries.checked_add(1)?.checked_next_power_of_two()?;
        let size = size.max(Self::MIN_SLOT).checked_next_power_of_two()?;
        let this = Self {
            shift: size.trailing_zeros(),
            mask: slots - 1,
        };
        // The size of a mapping is told in 32 bits.
        u32::try_from(this.bytes().checked_next_multiple_of(PAGE_SIZE)?).ok()?;
        Some(this)
    }

    /// Records that fit.
    pub fn capacity(self) -> u32 {
        self.mask
    }

    /// Bytes of a slot.
    pub fn slot_size(self) -> usize {
        1 << self.shift
    }

    /// Bytes of a ring, with its header.
    pub fn bytes(self) -> usize {
        let slots = self.mask as usize + 1;
        slots
            .saturating_mul(self.slot_size())
            .saturating_add(HEADER)
    }

    /// The slot after `index`.
    pub fn next(self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask
    }

    /// Slots from `from` up to `to`, going round.
    pub fn distance(self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }
}

/// A ring in shared memory.
///
/// # Invariants
///
/// The memory has room for the geometry.
struct Ring {
    pages: Arc<UserPages>,
    geometry: Geometry,
}

impl Ring {
    fn new(geometry: Geometry) -> Result<Self> {
        let pages = UserPages::new(geometry.bytes())?;
        // INVARIANT: Just allocated for it.
        let this = Self { pages, geometry };
        this.field(Field::SlotShift).store(geometry.shift, Release);
        this.field(Field::IndexMask).store(geometry.mask, Release);
        Ok(this)
    }

    fn field(&self, field: Field) -> &Atomic<u32> {
        // SAFETY: A word of the header, which is part of the memory by the type invariant.
        unsafe { self.pages.word(field.offset()) }
    }

    /// The index that the other side owns, made a slot of this ring.
    fn theirs(&self, field: Field) -> u32 {
        self.field(field).load(Acquire) & self.geometry.mask
    }

    /// Tells the other side an index of the kernel's, after what was written before.
    fn publish(&self, field: Field, index: u32) {
        self.field(field).store(index, Release)
    }

    /// Start of `length` bytes that lie `at` bytes into a slot; `EINVAL` if they leave the slot or
    /// are no whole 64-bit words.
    fn place(&self, slot: u32, at: usize, length: usize) -> Result<*mut u64> {
        let end = at.checked_add(length).ok_or(EINVAL)?;
        if end > self.geometry.slot_size() || (at | length) % size_of::<u64>() != 0 {
            return Err(EINVAL);
        }
        let slot = (slot & self.geometry.mask) as usize;
        // Does not overflow: less than the bytes of the ring.
        let offset = (slot << self.geometry.shift) + HEADER + at;
        // SAFETY: Within the memory, by the type invariant and the checks above.
        Ok(unsafe { self.pages.start.as_ptr().add(offset) }.cast())
    }

    /// Copies `values` out of a slot.
    fn read_into<T: FromBytes>(
        &self,
        slot: u32,
        at: usize,
        values: &mut [MaybeUninit<T>],
    ) -> Result {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let length = size_of_val(values);
        let from = self.place(slot, at, length)?;
        let to = values.as_mut_ptr().cast::<u64>();
        for i in 0..length / size_of::<u64>() {
            // SAFETY: `from` has `length` bytes and is aligned, since the header, the slots and `at`
            // are multiples of eight. `to` has `length` bytes too.
            unsafe { to.add(i).write_unaligned(from.add(i).read_volatile()) };
        }
        Ok(())
    }

    /// Copies `values` into a slot.
    fn write_from<T: IntoBytes>(&self, slot: u32, at: usize, values: &[T]) -> Result {
        let length = size_of_val(values);
        let to = self.place(slot, at, length)?;
        let from = values.as_ptr().cast::<u64>();
        for i in 0..length / size_of::<u64>() {
            // SAFETY: `to` has `length` bytes and is aligned, as in `read_into`; `from` has `length`
            // bytes, all initialised as `T` has no padding.
            unsafe { to.add(i).write_volatile(from.add(i).read_unaligned()) };
        }
        Ok(())
    }

    fn read<T: FromBytes>(&self, slot: u32, at: usize) -> Result<T> {
        let mut value = MaybeUninit::uninit();
        self.read_into(slot, at, core::slice::from_mut(&mut value))?;
        // SAFETY: All its bytes were written, and any bytes are a valid `T`.
        Ok(unsafe { value.assume_init() })
    }
}

/// A ring that user space fills and the kernel empties: work requests.
///
/// A record is taken in two steps: [`Self::take`] lets the kernel copy it, [`Self::release`] tells
/// user space that its slot is free again.
pub struct WorkRing {
    ring: Ring,
    /// Oldest slot that is not released. The master copy of the consumer index.
    oldest: u32,
    /// Slots that are taken and not released.
    taken: u32,
}

/// A record that was just taken from a [`WorkRing`].
pub struct Slot<'a> {
    ring: &'a Ring,
    index: u32,
}

impl Slot<'_> {
    /// Copies a `T` that lies `at` bytes into the record.
    ///
    /// `EINVAL` if it reaches beyond the slot, or is not made of whole 64-bit words.
    pub fn read<T: FromBytes>(&self, at: usize) -> Result<T> {
        self.ring.read(self.index, at)
    }

    /// Copies as many `T` as `values` has room for; errors as those of [`Self::read`].
    pub fn read_slice<T: FromBytes + IntoBytes>(&self, at: usize, values: &mut [T]) -> Result {
        // SAFETY: The elements stay initialised, as only bytes are written to them, and any bytes
        // are a valid `T`.
        let values = unsafe {
            core::slice::from_raw_parts_mut(
                values.as_mut_ptr().cast::<MaybeUninit<T>>(),
                values.len(),
            )
        };
        self.ring.read_into(self.index, at, values)
    }

    /// Number of the slot, for [`WorkRing::write`].
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl WorkRing {
    /// An empty ring. May sleep.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Ok(Self {
            ring: Ring::new(geometry)?,
            oldest: 0,
            taken: 0,
        })
    }

    /// The memory, to be mapped.
    pub fn pages(&self) -> &Arc<UserPages> {
        &self.ring.pages
    }

    /// Size and number of the slots.
    pub fn geometry(&self) -> Geometry {
        self.ring.geometry
    }

    fn next_slot(&self) -> u32 {
        self.oldest.wrapping_add(self.taken) & self.ring.geometry.mask
    }

    /// Records that user space has posted and that are not taken yet.
    ///
    /// Never more than there can be, whatever user space writes to its index.
    pub fn pending(&self) -> u32 {
        let posted = self
            .ring
            .geometry
            .distance(self.next_slot(), self.ring.theirs(Field::Producer));
        posted.min(self.ring.geometry.capacity().saturating_sub(self.taken))
    }

    /// Records that are not released, taken or not.
    pub fn used(&self) -> u32 {
        self.taken.saturating_add(self.pending())
    }

    /// Takes the next record.
    pub fn take(&mut self) -> Option<Slot<'_>> {
        if self.pending() == 0 {
            return None;
        }
        let index = self.next_slot();
        self.taken = self.taken.saturating_add(1);
        Some(Slot {
            ring: &self.ring,
            index,
        })
    }

    /// Gives the oldest `count` records that were taken back to user space; fewer if there are not
    /// so many.
    pub fn release(&mut self, count: u32) {
        let count = count.min(self.taken);
        self.taken = self.taken.saturating_sub(count);
        self.oldest = self.oldest.wrapping_add(count) & self.ring.geometry.mask;
        self.ring.publish(Field::Consumer, self.oldest);
    }

    /// Takes all records and gives them back unread.
    pub fn discard(&mut self) {
        self.oldest = self.ring.theirs(Field::Producer);
        self.taken = 0;
        self.ring.publish(Field::Consumer, self.oldest);
    }

    /// Writes a `T`, `at` bytes into a slot, for user space to see. The kernel never reads it back.
    pub fn write<T: IntoBytes>(&self, slot: u32, at: usize, value: &T) -> Result {
        self.ring.write_from(slot, at, core::slice::from_ref(value))
    }

    /// Does what a process does: writes a record and moves its index.
    #[cfg(CONFIG_KUNIT = "y")]
    pub fn post_for_test(&self, slot: u32, pieces: &[(usize, &[u64])]) -> Result {
        for (at, words) in pieces {
            self.ring.write_from(slot, *at, words)?;
        }
        self.ring
            .publish(Field::Producer, self.ring.geometry.next(slot));
        Ok(())
    }

    /// Moves the records that are not taken to `other`, a ring of another size that was never used,
    /// and then changes places with it.
    ///
    /// Does not sleep. The caller keeps this ring from being used during the call, and drops the
    /// other one where it may sleep. `EINVAL` if there are more records than the other ring has room
    /// for, or some are taken; both are as before then.
    pub fn change_places(&mut self, other: &mut Self) -> Result {
        if self.taken != 0 {
            return Err(EINVAL);
        }
        let pending = self.pending();
        if pending > other.ring.geometry.capacity() {
            return Err(EINVAL);
        }
        move_records(&self.ring, self.oldest, pending, &other.ring)?;
        self.oldest = self.oldest.wrapping_add(pending) & self.ring.geometry.mask;
        self.ring.publish(Field::Consumer, self.oldest);
        other.ring.publish(Field::Producer, pending);
        core::mem::swap(self, other);
        Ok(())
    }
}

/// Copies `count` records from slot `first` on to the first slots of `to`, as many bytes of each as
/// both rings have.
fn move_records(from: &Ring, first: u32, count: u32, to: &Ring) -> Result {
    const STEP: usize = Geometry::MIN_SLOT;
    let size = from.geometry.slot_size().min(to.geometry.slot_size());
    for i in 0..count {
        for at in (0..size).step_by(STEP) {
            let piece: [u64; STEP / size_of::<u64>()] = from.read(first.wrapping_add(i), at)?;
            to.write_from(i, at, &piece)?;
        }
    }
    Ok(())
}

/// The other side has not made room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A ring that the kernel fills and user space empties: completions.
pub struct ReportRing {
    ring: Ring,
    /// The master copy of the producer index.
    next: u32,
}

impl ReportRing {
    /// An empty ring. May sleep.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Ok(Self {
            ring: Ring::new(geometry)?,
            next: 0,
        })
    }

    /// The memory, to be mapped.
    pub fn pages(&self) -> &Arc<UserPages> {
        &self.ring.pages
    }

    /// Size and number of the slots.
    pub fn geometry(&self) -> Geometry {
        self.ring.geometry
    }

    /// Records that user space has not taken, as far as its index can be trusted.
    pub fn used(&self) -> u32 {
        self.ring
            .geometry
            .distance(self.ring.theirs(Field::Consumer), self.next)
    }

    /// Up to where user space says that it has taken records.
    pub fn taken_to(&self) -> u32 {
        self.ring.theirs(Field::Consumer)
    }

    /// Adds a record.
    pub fn push<T: IntoBytes>(&mut self, value: &T) -> Result<(), Full> {
        let after = self.ring.geometry.next(self.next);
        if after == self.ring.theirs(Field::Consumer) {
            return Err(Full);
        }
        self.ring
            .write_from(self.next, 0, core::slice::from_ref(value))
            .map_err(|_| Full)?;
        self.next = after;
        self.ring.publish(Field::Producer, after);
        Ok(())
    }

    /// Moves the records to a ring of another size, as [`WorkRing::change_places`].
    pub fn change_places(&mut self, other: &mut Self) -> Result {
        let used = self.used();
        if used > other.ring.geometry.capacity() {
            return Err(EINVAL);
        }
        let first = self.ring.theirs(Field::Consumer);
        move_records(&self.ring, first, used, &other.ring)?;
        self.ring.publish(Field::Consumer, self.next);
        other.next = used;
        other.ring.publish(Field::Producer, used);
        core::mem::swap(self, other);
        Ok(())
    }
}

#[kunit_tests(rust_rdma_user_ring)]
mod tests {
    use super::*;

    fn work(entries: u32) -> Result<WorkRing> {
        WorkRing::new(Geometry::new(entries, 64).ok_or(EINVAL)?)
    }

    /// What a user process does: writes a record and moves its index.
    fn post(ring: &WorkRing, at: u32, value: u64) -> Result {
        ring.write(at, 0, &value)?;
        ring.ring.publish(Field::Producer, ring.geometry().next(at));
        Ok(())
    }

    #[test]
    fn geometry_rounds_up() -> Result {
        let geometry = Geometry::new(10, 208).ok_or(EINVAL)?;
        assert_eq!(geometry.capacity(), 15);
        assert_eq!(geometry.slot_size(), 256);
        assert_eq!(geometry.bytes(), 384 + 16 * 256);
        // One slot always stays free.
        assert_eq!(Geometry::new(16, 8).ok_or(EINVAL)?.capacity(), 31);
        assert_eq!(Geometry::new(16, 8).ok_or(EINVAL)?.slot_size(), 64);
        assert!(Geometry::new(u32::MAX, 64).is_none());
        assert!(Geometry::new(1 << 30, 1024).is_none());
        assert!(Geometry::new(1 << 20, 720).is_some());
        Ok(())
    }

    #[test]
    fn records_come_in_order_and_round_the_end() -> Result {
        let mut ring = work(3)?;
        for i in 0..20u32 {
            post(&ring, i % 4, 100 + u64::from(i))?;
            assert_eq!(ring.pending(), 1);
            let value: u64 = ring.take().ok_or(EINVAL)?.read(0)?;
            assert_eq!(value, 100 + u64::from(i));
            assert!(ring.take().is_none());
            ring.release(1);
        }
        Ok(())
    }

    #[test]
    fn index_of_user_space_is_bounded() -> Result {
        let mut ring = work(7)?;
        for index in [7, 8, 12, 0xffff_ffff, 0x8000_0003] {
            ring.ring.publish(Field::Producer, index);
            assert!(ring.pending() <= 7);
            // A process cannot move the kernel's own index.
            ring.ring.publish(Field::Consumer, 0xdead_beef);
            while ring.take().is_some() {}
            assert!(ring.used() <= 7);
            ring.release(u32::MAX);
            assert_eq!(ring.taken, 0);
            assert_eq!(ring.oldest, index & 7);
        }
        Ok(())
    }

    #[test]
    fn record_cannot_leave_its_slot() -> Result {
        let mut ring = work(1)?;
        post(&ring, 0, 1)?;
        let slot = ring.take().ok_or(EINVAL)?;
        assert!(slot.read::<u64>(56).is_ok());
        assert!(slot.read::<u64>(64).is_err());
        assert!(slot.read::<[u64; 2]>(56).is_err());
        assert!(slot.read::<u64>(usize::MAX - 7).is_err());
        assert!(slot.read::<u64>(4).is_err());
        let mut list = [0u64; 9];
        assert!(slot.read_slice(0, &mut list).is_err());
        assert!(slot.read_slice(0, &mut list[..8]).is_ok());
        Ok(())
    }

    #[test]
    fn reports_stop_when_full() -> Result {
        let mut ring = ReportRing::new(Geometry::new(3, 8).ok_or(EINVAL)?)?;
        for i in 0..3u64 {
            assert!(ring.push(&i).is_ok());
        }
        assert_eq!(ring.push(&3u64), Err(Full));
        assert_eq!(ring.used(), 3);
        ring.ring.publish(Field::Consumer, 1);
        assert!(ring.push(&3u64).is_ok());
        assert_eq!(ring.push(&4u64), Err(Full));
        Ok(())
    }

    #[test]
    fn resize_keeps_records() -> Result {
        let mut ring = ReportRing::new(Geometry::new(3, 8).ok_or(EINVAL)?)?;
        // Start at a slot other than the first.
        for i in 0..2u64 {
            assert!(ring.push(&i).is_ok());
        }
        ring.ring.publish(Field::Consumer, 2);
        for i in 2..5u64 {
            assert!(ring.push(&i).is_ok());
        }
        let mut other = ReportRing::new(Geometry::new(1, 8).ok_or(EINVAL)?)?;
        assert!(ring.change_places(&mut other).is_err());
        assert_eq!(ring.used(), 3);
        let mut other = ReportRing::new(Geometry::new(15, 8).ok_or(EINVAL)?)?;
        ring.change_places(&mut other)?;
        assert_eq!(ring.used(), 3);
        assert_eq!(other.used(), 0);
        for i in 0..3u32 {
            assert_eq!(ring.ring.read::<u64>(i, 0)?, u64::from(i) + 2);
        }
        Ok(())
    }
}
