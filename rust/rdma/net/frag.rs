// SPDX-License-Identifier: GPL-2.0

//! Memory for the buffers of packets that is used again.
//!
//! Each allocation of the kernel is set to zero where that is configured, and goes back to it when the
//! packet is freed. A [`FragPool`] keeps its pages: a buffer has a reference on the page that it is
//! part of, and when the pool holds the last one all of the page is free again. What the last packets
//! left there is never sent, as a sender writes all that it sends.
//!
//! The network stack frees such buffers by their pages alone, whether the pool still exists or not.
//!
//! The part of a buffer that describes it comes from what the network stack keeps for softirqs on each
//! CPU, if it is made there: received packets go back there when they are dropped.

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::prelude::*;

use crate::gfp::Gfp;
use crate::softirq;

/// Pages of an allocation, as a power of two.
const ORDER: u32 = 3;
/// Bytes of an allocation.
pub const CHUNK: usize = kernel::page::PAGE_SIZE << ORDER;
/// Allocations that are looked at before a new one is made. They are used in turn, so that the next one
/// is that which was given out first: if it is not free yet, few others are.
const TRIES: usize = 4;

/// A compound page.
///
/// # Invariants
///
/// The page is valid, with a reference that belongs to this value; `start` is its first byte.
struct Chunk {
    page: NonNull<bindings::page>,
    start: NonNull<u8>,
}

impl Chunk {
    fn new() -> Option<Self> {
        // One page for all its pieces; without trying hard, as there are other ways.
        let gfp = Gfp::NOWAIT.as_raw()
            | 1 << bindings::___GFP_COMP_BIT
            | 1 << bindings::___GFP_NOWARN_BIT
            | 1 << bindings::___GFP_NORETRY_BIT
            | 1 << bindings::___GFP_NOMEMALLOC_BIT;
        // SAFETY: Plain allocation.
        let page = NonNull::new(unsafe { bindings::rdma_alloc_pages(gfp, ORDER) })?;
        // SAFETY: The page is new and, by its flags, of the memory that is always mapped.
        let start = unsafe { bindings::rdma_page_address(page.as_ptr()) }.cast();
        // INVARIANT: The reference is that of the allocation.
        Some(Self {
            page,
            start: NonNull::new(start)?,
        })
    }

    /// Whether nobody else has a reference on any part.
    fn is_free(&self) -> bool {
        // SAFETY: The page is valid.
        unsafe { bindings::rdma_page_ref_count(self.page.as_ptr()) == 1 }
    }

    /// A reference for somebody who frees it with `page_frag_free`.
    fn share(&self) {
        // SAFETY: The page is valid and has a reference.
        unsafe { bindings::rdma_page_ref_inc(self.page.as_ptr()) };
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: The reference belongs to this value.
        unsafe { bindings::page_frag_free(self.start.as_ptr().cast()) };
    }
}

/// Pages for buffers.
pub struct FragPool {
    /// In the order in which they are used, cyclically.
    chunks: KVec<Chunk>,
    /// How many there may be; there is room for them.
    limit: usize,
    /// Where pieces are taken from.
    current: usize,
    /// Bytes of the current chunk that have been taken.
    used: usize,
}

// SAFETY: Pages may be used and freed by any thread.
unsafe impl Send for FragPool {}

impl FragPool {
    /// A pool without pages, which come as they are needed, at most `limit` times [`CHUNK`] bytes. May
    /// sleep.
    pub fn new(limit: usize) -> Result<Self> {
        Ok(Self {
            chunks: KVec::with_capacity(limit, GFP_KERNEL)?,
            limit,
            current: 0,
            used: CHUNK,
        })
    }

    /// A piece of `size` bytes, which belongs to the caller with a reference on its page. Nothing if
    /// there is no memory, or so many packets are on their way that the pool keeps no more.
    pub(super) fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        if size > CHUNK - self.used {
            self.turn(size)?;
        }
        let chunk = self.chunks.get(self.current)?;
        chunk.share();
        // SAFETY: `used + size` is at most the size of the chunk, checked above.
        let piece = unsafe { chunk.start.add(self.used) };
        self.used += size;
        Some(piece)
    }

    /// Goes on to a chunk that is free.
    #[cold]
    fn turn(&mut self, size: usize) -> Option<()> {
        if size > CHUNK {
            return None;
        }
        let count = self.chunks.len();
        let after = |step: usize| (self.current + step).checked_rem(count).unwrap_or(0);
        let next = after(1);
        let is_free = |at: &usize| self.chunks.get(*at).is_some_and(Chunk::is_free);
        // The current one as well, if all that was taken from it is back already.
        let free = (0..=TRIES.min(count)).map(after).find(is_free);
        self.current = match free {
            Some(at) if at == self.current => at,
            Some(at) => {
                // Those that are passed over stay in front of what was used before.
                self.chunks.swap(next, at);
                next
            }
            None if count < self.limit => {
                let at = count.min(self.current + 1);
                self.chunks.insert_within_capacity(at, Chunk::new()?).ok()?;
                at
            }
            None => return None,
        };
        self.used = 0;
        Some(())
    }
}

/// Makes a buffer in `size` bytes of a pool, all but what the kernel's part at the end needs.
///
/// Null if there is no memory.
pub(super) fn build(pool: &mut FragPool, room: u32) -> *mut bindings::sk_buff {
    // SAFETY: Only computes.
    let size = unsafe { bindings::rdma_skb_frag_size(room) };
    let Some(piece) = pool.take(size as usize) else {
        return ptr::null_mut();
    };
    let data = piece.as_ptr().cast();
    // SAFETY: The piece has `size` bytes, which is what a buffer with `room` takes, and a reference on
    // its page, which the buffer takes over. What belongs to softirqs is used where that is allowed.
    let skb = unsafe {
        if softirq::is_own() {
            bindings::napi_build_skb(data, size)
        } else {
            bindings::build_skb(data, size)
        }
    };
    if skb.is_null() {
        // SAFETY: The reference is still ours.
        unsafe { bindings::page_frag_free(data) };
    }
    skb
}
