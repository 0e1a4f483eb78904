// SPDX-License-Identifier: GPL-2.0

//! Regions as lists of chunks of equal size.

use super::{
    Piece,
    Rmw,
    Sink, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// The kernel address of a chunk of a fast registration.
///
/// # Invariants
///
/// The chunk is memory that the kernel module which registers it may read and write, until it has
/// invalidated the registration.
#[derive(Clone, Copy)]
pub struct PageAddr(usize);

impl PageAddr {
    /// # Safety
    ///
    /// `addr` must be what a consumer of `ib_map_mr_sg` passes for a device that uses kernel
    /// addresses.
    #[inline]
    pub unsafe fn from_dma(addr: u64) -> Self {
        // INVARIANT: By the contract of `ib_map_mr_sg`.
        Self(addr as usize)
    }

    /// The address as the consumer passed it: a bus address, for a device that does DMA.
    #[inline]
    pub fn dma_address(self) -> u64 {
        self.0 as u64
    }
}

/// Where the bytes of a region lie: an array of chunks, all of the same size, a power of two. The
/// region may start inside the first one and end inside the last one.
///
/// # Invariants
///
/// The part of each chunk that belongs to the region is memory that can be read, and written if
/// `writable`, as long as this exists.
pub struct Chunks {
    list: KVVec<usize>,
    /// Binary logarithm of the size of a chunk.
    shift: u32,
    /// Bytes of the first chunk before the region.
    skip: u64,
    /// Bytes of the region.
    length: u64,
    writable: bool,
}

impl Chunks {
    /// Room for `limit` chunks of a fast registration, which can be filled without allocating. May
    /// sleep.
    pub fn with_room(limit: usize) -> Result<Self> {
        // INVARIANT: No bytes.
        Ok(Self {
            list: KVVec::with_capacity(limit, GFP_KERNEL)?,
            shift: 0,
            skip: 0,
            length: 0,
            writable: true,
        })
    }

    /// Memory that is mapped in `segments`, each a kernel address and a length. The region starts
    /// `skip` bytes into the first one. May sleep.
    ///
    /// # Safety
    ///
    /// The segments must be readable, and writable if `writable`, as long as the result exists.
    pub(super) unsafe fn from_segments(
        segments: impl Iterator<Item = (usize, u64)> + Clone,
        skip: u64,
        length: u64,
        writable: bool,
    ) -> Result<Self> {
        let layout = Layout::new(segments.clone().map(|(_, len)| len));
        let mut list = KVVec::with_capacity(layout.chunks, GFP_KERNEL)?;
        for (i, (addr, len)) in segments.enumerate() {
            for step in layout.cut(i, len) {
                // The first chunk may start before its memory; those bytes are never used.
                list.push(addr.wrapping_add_signed(step as isize), GFP_KERNEL)?;
            }
        }
        // INVARIANT: The chunks cut the segments, by the contract.
        Ok(Self {
            list,
            shift: layout.shift,
            skip: layout.lead.wrapping_add(skip),
            length,
            writable,
        })
    }

    /// Bytes of the region.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether the memory may be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Forgets all chunks; new ones will have `size` bytes. `EINVAL` unless that is a power of two
    /// that either divides the size of a page or is a multiple of it.
    pub fn restart(&mut self, size: u32) -> Result {
        if !size.is_power_of_two() {
            return Err(EINVAL);
        }
        self.list.clear();
        self.shift = size.trailing_zeros();
        self.skip = 0;
        self.length = 0;
        Ok(())
    }

    /// Adds a chunk; `ENOMEM` when there is no room. The region still has no more bytes than
    /// before.
    pub fn push(&mut self, chunk: PageAddr) -> Result {
        self.list.push_within_capacity(chunk.0).map_err(|_| ENOMEM)
    }

    /// Makes the chunks a region of `length` bytes, whose first one is that of address `iova`.
    pub fn finish(&mut self, iova: u64, length: u64) -> Result {
        let size = 1u64 << self.shift;
        let skip = iova & (size - 1);
        let room = (self.list.len() as u64).saturating_mul(size);
        if skip.saturating_add(length) > room {
            return Err(EINVAL);
        }
        // INVARIANT: The chunks are those of `PageAddr`.
        self.skip = skip;
        self.length = length;
        Ok(())
    }

    /// The bytes from `at` on that lie in one chunk, at most `len`; `None` if there are none.
    #[inline]
    fn piece(&self, at: u64, len: usize) -> Option<Piece> {
        let left = self.length.checked_sub(at)?;
        let place = self.skip.wrapping_add(at);
        let inside = place & ((1u64 << self.shift) - 1);
        let chunk = *self.list.get(usize::try_from(place >> self.shift).ok()?)?;
        let left = left.min((1u64 << self.shift) - inside);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        // INVARIANT: Within the region and within one chunk.
        (len > 0).then_some(Piece {
            addr: chunk.wrapping_add(inside as usize),
            len,
            writable: self.writable,
        })
    }

    /// Copies the bytes from `at` on, counted from the start of the region; `EFAULT` if it does not
    /// have so many.
    pub fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let piece = self
                .piece(at.wrapping_add(done as u64), rest.len())
                .ok_or(EFAULT)?;
            let (now, _) = rest.split_at_mut(piece.len);
            piece.read(now);
            sink.take(now);
            done = done.wrapping_add(piece.len);
        }
        Ok(())
    }

    /// Copies to the bytes from `at` on; `EFAULT` if the region does not have so many, `EACCES` if
    /// it must not be written.
    pub fn write(&self, at: u64, from: &[u8]) -> Result {
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
            let piece = self
                .piece(at.wrapping_add(done as u64), rest.len())
                .ok_or(EFAULT)?;
            piece.write(rest)?;
            done = done.wrapping_add(piece.len);
        }
        Ok(())
    }

    /// Executes `op` on eight bytes, atomic for everybody; returns the previous value.
    pub fn rmw(&self, at: u64, op: Rmw) -> Result<u64> {
        self.piece(at, 8).ok_or(EFAULT)?.rmw(op)
    }

    /// Stores eight bytes at once, after all that was written before.
    pub fn store(&self, at: u64, value: u64) -> Result {
        self.piece(at, 8).ok_or(EFAULT)?.store(value)
    }

    /// Writes what the caches have of `len` bytes to persistent memory. The memory must be such.
    pub(super) fn write_back(&self, at: u64, len: u64) -> Result {
        let mut done = 0;
        while done < len {
            let want = usize::try_from(len - done).unwrap_or(usize::MAX);
            let piece = self.piece(at.wrapping_add(done), want).ok_or(EFAULT)?;
            piece.write_back();
            done = done.wrapping_add(piece.len as u64);
        }
        Ok(())
    }
}

/// How segments are cut into chunks of one size: the largest that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Binary logarithm of the size.
    shift: u32,
    /// Bytes of the first chunk before the first segment.
    lead: u64,
    /// Number of chunks.
    chunks: usize,
}

impl Layout {
    /// No chunk is larger than this, so that sums of places do not overflow.
    const MAX_SHIFT: u32 = 40;

    /// `segments` are lengths; all but the last one are multiples of a page.
    fn new(segments: impl Iterator<Item = u64>) -> Self {
        let mut end = 0u64;
        let mut first_seam = None;
        let mut apart = 0u64;
        // Seams between segments must also be seams between chunks: all are as far apart as a
        // multiple of the size.
        for len in segments {
            if end != 0 {
                let first = *first_seam.get_or_insert(end);
                apart |= end.wrapping_sub(first);
            }
            end = end.saturating_add(len);
        }
        let shift = if apart == 0 {
            Self::MAX_SHIFT
        } else {
            apart.trailing_zeros().min(Self::MAX_SHIFT)
        };
        let size = 1u64 << shift;
        let lead = size.wrapping_sub(first_seam.unwrap_or(0) & (size - 1)) & (size - 1);
        Self {
            shift,
            lead,
            chunks: end.saturating_add(lead).div_ceil(size) as usize,
        }
    }

    /// Distances of the chunks of segment `i`, of `len` bytes, from its start.
    fn cut(self, i: usize, len: u64) -> impl Iterator<Item = i64> {
        let start = if i == 0 {
            (self.lead as i64).wrapping_neg()
        } else {
            0
        };
        (start..len.min(i64::MAX as u64) as i64).step_by(1usize << self.shift)
    }
}

/// Segments must be whole pages, apart from the last one.
const _: () = assert!(PAGE_SIZE >= 8);

#[kunit_tests(rust_rdma_chunks)]
mod tests {
    use super::*;

    fn no_sink(_: &[u8]) {}

    /// A region of the given segments of a buffer, from `skip` on.
    fn region(
        memory: &KVVec<u8>,
        segments: &[(usize, u64)],
        skip: u64,
        length: u64,
        writable: bool,
    ) -> Result<Chunks> {
        let base = memory.as_ptr() as usize;
        let list = segments.iter().map(move |&(at, len)| (base + at, len));
        // SAFETY: The buffer outlives the region in all tests, and is used through it only.
        unsafe { Chunks::from_segments(list, skip, length, writable) }
    }

    fn buffer() -> Result<KVVec<u8>> {
        let mut memory = KVVec::with_capacity(8 * PAGE_SIZE, GFP_KERNEL)?;
        for i in 0..8 * PAGE_SIZE {
            memory.push((i / PAGE_SIZE * 31 + i) as u8, GFP_KERNEL)?;
        }
        Ok(memory)
    }

    #[test]
    fn layout_takes_the_largest_chunk() {
        let p = PAGE_SIZE as u64;
        let layout = |segments: &[u64]| Layout::new(segments.iter().copied());
        assert_eq!(layout(&[5 * p]).chunks, 1);
        assert_eq!(layout(&[p, 5 * p]).chunks, 2);
        assert_eq!(layout(&[p, p, p]).shift, p.trailing_zeros());
        assert_eq!(
            layout(&[p, 4 * p, 8 * p, 4 * p]).shift,
            (4 * p).trailing_zeros()
        );
        assert_eq!(layout(&[p, 4 * p, 8 * p, 4 * p]).lead, 3 * p);
        assert_eq!(layout(&[p, 4 * p, 8 * p, 4 * p]).chunks, 5);
        assert_eq!(layout(&[]).chunks, 0);
    }

    #[test]
    fn bytes_come_from_their_segments() -> Result {
        let memory = buffer()?;
        let p = PAGE_SIZE;
        // Out of order, with a gap, starting inside the first page.
        let segments = [(3 * p, p as u64), (0, 2 * p as u64), (5 * p, 2 * p as u64)];
        let mut flat = KVVec::new();
        for &(at, len) in &segments {
            flat.extend_from_slice(&memory[at..at + len as usize], GFP_KERNEL)?;
        }
        let length = (5 * p - 100 - 7) as u64;
        let chunks = region(&memory, &segments, 100, length, false)?;
        for (at, len) in [
            (0, 1),
            (0, p),
            (1, 2 * p),
            (p - 101, 3),
            (2 * p, 2 * p),
            (length as usize - 1, 1),
            (0, length as usize),
        ] {
            let mut to = KVVec::from_elem(0u8, len, GFP_KERNEL)?;
            let mut seen = 0;
            chunks.read(at as u64, &mut to, &mut |bytes: &[u8]| seen += bytes.len())?;
            assert_eq!(seen, len);
            assert!(to[..] == flat[100 + at..100 + at + len]);
        }
        let mut to = [0u8; 2];
        assert_eq!(
            chunks.read(length - 1, &mut to, &mut no_sink).err(),
            Some(EFAULT)
        );
        assert_eq!(
            chunks.read(length, &mut to, &mut no_sink).err(),
            Some(EFAULT)
        );
        assert_eq!(
            chunks.read(u64::MAX, &mut to, &mut no_sink).err(),
            Some(EFAULT)
        );
        assert_eq!(chunks.write(0, &to).err(), Some(EACCES));
        assert_eq!(chunks.rmw(0, Rmw::FetchAdd(1)).err(), Some(EACCES));
        Ok(())
    }

    #[test]
    fn writes_and_atomics_reach_the_memory() -> Result {
        let memory = buffer()?;
        let p = PAGE_SIZE;
        let chunks = region(
            &memory,
            &[(p, p as u64), (0, p as u64)],
            0,
            2 * p as u64,
            true,
        )?;
        chunks.write(p as u64 - 2, &[1, 2, 3, 4])?;
        let mut to = [0u8; 4];
        chunks.read(p as u64 - 2, &mut to, &mut no_sink)?;
        assert_eq!(to, [1, 2, 3, 4]);

        chunks.store(8, 5)?;
        assert_eq!(chunks.rmw(8, Rmw::FetchAdd(u64::MAX))?, 5);
        let swap = |compare, swap| chunks.rmw(8, Rmw::CompareSwap { compare, swap });
        assert_eq!(swap(5, 9)?, 4);
        assert_eq!(swap(4, 9)?, 4);
        assert_eq!(swap(9, 9)?, 9);
        assert_eq!(chunks.store(4, 0).err(), Some(EINVAL));
        // Eight bytes that lie in two chunks.
        assert_eq!(chunks.store(p as u64 - 4, 0).err(), Some(EINVAL));
        assert_eq!(chunks.store(2 * p as u64 - 4, 0).err(), Some(EINVAL));
        assert_eq!(chunks.store(2 * p as u64, 0).err(), Some(EFAULT));
        Ok(())
    }

    #[test]
    fn fast_registration_of_other_page_sizes() -> Result {
        let memory = buffer()?;
        let base = (memory.as_ptr() as usize) as u64;
        for size in [512u32, PAGE_SIZE as u32, 2 * PAGE_SIZE as u32] {
            let mut chunks = Chunks::with_room(2)?;
            chunks.restart(size)?;
            let size = size as usize;
            for at in [2 * size, 0] {
                // SAFETY: The buffer outlives the region and is used through it only.
                chunks.push(unsafe { PageAddr::from_dma(base + at as u64) })?;
            }
            // SAFETY: Not used.
            assert_eq!(
                chunks.push(unsafe { PageAddr::from_dma(base) }).err(),
                Some(ENOMEM)
            );
            let iova = 0xabcd_0000_0000 + 24;
            assert!(chunks.finish(iova, 2 * size as u64).is_err());
            chunks.finish(iova, 2 * size as u64 - 30)?;
            let mut to = KVVec::from_elem(0u8, 2 * size - 30, GFP_KERNEL)?;
            chunks.read(0, &mut to, &mut no_sink)?;
            assert!(to[..size - 24] == memory[2 * size + 24..3 * size]);
            assert!(to[size - 24..] == memory[..size - 6]);
        }
        assert!(Chunks::with_room(1)?.restart(3000).is_err());
        assert!(Chunks::with_room(1)?.restart(0).is_err());
        Ok(())
    }
}
