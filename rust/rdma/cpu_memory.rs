// SPDX-License-Identifier: GPL-2.0

//! Memory of regions that the CPU copies on behalf of a device which has no DMA.
//!
//! Others change this memory at any time: the process that registered it, or the kernel module that
//! did. So no reference into it is ever formed; it is copied by `memcpy` of the kernel, which is
//! opaque to the compiler, or accessed by atomics.
//!
//! Such devices exist on 64-bit machines only, where all memory has a kernel address.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/linux/libnvdimm.h`](srctree/include/linux/libnvdimm.h)

mod chunks;
mod dmabuf;
mod odp;
mod pinned;
mod process;
#[cfg(CONFIG_KUNIT = "y")]
pub mod testing;

pub use chunks::{
    Chunks,
    PageAddr, //
};
pub use dmabuf::DmaBufMemory;
pub use odp::{
    OdpMemory,
    Prefetch, //
};
pub use pinned::PinnedMemory;
pub use process::ProcessMemory;

use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Release, //
    }, //
};

/// What becomes of bytes between their copy out of a region and the return of the call, e.g. a
/// checksum that wants them while they are in the cache.
pub trait Sink {
    /// Takes the next bytes, in order.
    fn take(&mut self, bytes: &[u8]);
}

impl<F: FnMut(&[u8])> Sink for F {
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        self(bytes)
    }
}

/// An operation on eight aligned bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rmw {
    /// Store `swap` if the value is `compare`.
    CompareSwap {
        /// The value expected.
        compare: u64,
        /// The value to store then.
        swap: u64,
    },
    /// Add, modulo 2^64.
    FetchAdd(u64),
}

/// A stretch of memory at a kernel address.
///
/// # Invariants
///
/// The bytes at `addr` can be read, and written if `writable`, as long as the piece is used by the
/// function that was handed it.
#[derive(Clone, Copy)]
pub struct Piece {
    addr: usize,
    len: usize,
    writable: bool,
}

impl Piece {
    /// Copies the first bytes out.
    #[inline]
    fn read(self, to: &mut [u8]) {
        let len = to.len().min(self.len);
        // SAFETY: Readable by the type invariant. Who writes to it meanwhile makes the value of the
        // copied bytes unknown, no more: the compiler cannot look into the call.
        unsafe {
            bindings::memcpy(to.as_mut_ptr().cast(), self.addr as *const c_void, len);
        }
    }

    /// Copies to the first bytes; `EACCES` if they must not be written.
    #[inline]
    fn write(self, from: &[u8]) -> Result {
        if !self.writable {
            return Err(EACCES);
        }
        let len = from.len().min(self.len);
        // SAFETY: Writable by the type invariant; otherwise as in `read`.
        unsafe {
            bindings::memcpy(self.addr as *mut c_void, from.as_ptr().cast(), len);
        }
        Ok(())
    }

    /// The first eight bytes as one word; `EACCES` if they must not be written, `EINVAL` if they are
    /// not aligned.
    fn word(&self) -> Result<&Atomic<u64>> {
        if !self.writable {
            return Err(EACCES);
        }
        if self.len < 8 || self.addr % 8 != 0 {
            return Err(EINVAL);
        }
        // SAFETY: Writable by the type invariant, and aligned. Other accesses are those of the
        // memory's owner, which the hardware makes coherent with ours.
        Ok(unsafe { Atomic::from_ptr(self.addr as *mut u64) })
    }

    /// Executes `op`, atomic for everybody; returns the previous value.
    fn rmw(self, op: Rmw) -> Result<u64> {
        let word = self.word()?;
        Ok(match op {
            Rmw::CompareSwap { compare, swap } => match word.cmpxchg(compare, swap, Full) {
                Ok(old) | Err(old) => old,
            },
            Rmw::FetchAdd(value) => word.fetch_add(value, Full),
        })
    }

    /// Stores eight bytes at once, after all that was written before.
    fn store(self, value: u64) -> Result {
        self.word()?.store(value, Release);
        Ok(())
    }

    /// Writes what is in the caches to persistent memory.
    fn write_back(self) {
        // SAFETY: Readable by the type invariant; the call only touches caches.
        unsafe { bindings::arch_wb_cache_pmem(self.addr as *mut c_void, self.len) }
    }
}

/// Memory whose pages are held for each access alone. All accesses may sleep.
///
/// Errors: `EFAULT` if the memory does not have the bytes or they cannot be fetched, `EACCES` if
/// they must not be written.
pub trait FetchedMemory {
    /// Visits `len` bytes from `at` on, in pieces, each with its offset from there, holding the
    /// pages meanwhile.
    fn visit(
        &self,
        at: u64,
        len: usize,
        write: bool,
        visit: impl FnMut(usize, Piece) -> Result,
    ) -> Result;

    /// Copies the bytes from `at` on.
    fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result {
        self.visit(at, to.len(), false, |done, piece| {
            let end = done.wrapping_add(piece.len);
            let to = to.get_mut(done..end).ok_or(EFAULT)?;
            piece.read(to);
            sink.take(to);
            Ok(())
        })
    }

    /// Copies to the bytes from `at` on.
    fn write(&self, at: u64, from: &[u8]) -> Result {
        self.visit(at, from.len(), true, |done, piece| {
            piece.write(from.get(done..).ok_or(EFAULT)?)
        })
    }

    /// Executes `op` on eight bytes, atomic for everybody; returns the previous value.
    fn rmw(&self, at: u64, op: Rmw) -> Result<u64> {
        let mut old = 0;
        self.visit(at, 8, true, |_, piece| {
            old = piece.rmw(op)?;
            Ok(())
        })?;
        Ok(old)
    }

    /// Stores eight bytes at once, after all that was written before.
    fn store(&self, at: u64, value: u64) -> Result {
        self.visit(at, 8, true, |_, piece| piece.store(value))
    }
}

/// All memory of the kernel, at its virtual addresses.
///
/// Whoever may use it may use everything.
pub struct KernelMemory(());

impl KernelMemory {
    /// # Safety
    ///
    /// Accesses must only be made on behalf of kernel modules that were given the right to it, by
    /// `ib_get_dma_mr` or the key of a protection domain; and they promise for each address that it
    /// is theirs.
    #[inline]
    pub unsafe fn new() -> Self {
        Self(())
    }

    fn piece(&self, at: u64, len: usize) -> Result<Piece> {
        at.checked_add(len as u64).ok_or(EFAULT)?;
        // INVARIANT: Promised to `new`.
        Ok(Piece {
            addr: at as usize,
            len,
            writable: true,
        })
    }

    /// Copies the bytes at address `at`.
    pub fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result {
        self.piece(at, to.len())?.read(to);
        sink.take(to);
        Ok(())
    }

    /// Copies to address `at`.
    pub fn write(&self, at: u64, from: &[u8]) -> Result {
        self.piece(at, from.len())?.write(from)
    }

    /// Executes `op`, atomic for everybody; returns the previous value.
    pub fn rmw(&self, at: u64, op: Rmw) -> Result<u64> {
        self.piece(at, 8)?.rmw(op)
    }

    /// Stores eight bytes at once, after all that was written before.
    pub fn store(&self, at: u64, value: u64) -> Result {
        self.piece(at, 8)?.store(value)
    }
}
