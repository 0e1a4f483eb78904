// SPDX-License-Identifier: GPL-2.0

//! Memory of a dma-buf, through the mapping for the CPU that its exporter makes.

use super::{
    chunks::Chunks,
    Rmw,
    Sink, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

/// A reference to a dma-buf.
///
/// # Invariants
///
/// Owns one reference.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// The one that the calling process has open.
    fn get(fd: i32) -> Result<Self> {
        // SAFETY: Looks the descriptor up in the current process.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The call returned a reference.
        Ok(Self(NonNull::new(raw).ok_or(EBADF)?))
    }

    fn size(&self) -> u64 {
        // SAFETY: A constant field of a live buffer.
        unsafe { (*self.0.as_ptr()).size as u64 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: The reference is owned.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) }
    }
}

/// A buffer that the CPU uses.
///
/// # Invariants
///
/// The exporter has made the buffer ready for accesses of the CPU in both directions.
struct CpuUse(Buffer);

impl CpuUse {
    fn begin(buffer: Buffer) -> Result<Self> {
        // SAFETY: A live buffer.
        to_result(unsafe {
            bindings::dma_buf_begin_cpu_access(
                buffer.0.as_ptr(),
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            )
        })?;
        Ok(Self(buffer))
    }
}

impl Drop for CpuUse {
    fn drop(&mut self) {
        // SAFETY: Begun when this was made.
        unsafe {
            let _ = bindings::dma_buf_end_cpu_access(
                self.0 .0.as_ptr(),
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            );
        }
    }
}

/// A buffer that is mapped for the CPU.
///
/// # Invariants
///
/// `map` is a mapping of all of the buffer.
struct Mapping {
    map: bindings::iosys_map,
    buffer: CpuUse,
}

impl Mapping {
    fn new(buffer: CpuUse) -> Result<Self> {
        let mut map: bindings::iosys_map = pin_init::zeroed();
        // SAFETY: A live buffer; the map is written on success.
        to_result(unsafe { bindings::dma_buf_vmap_unlocked(buffer.0 .0.as_ptr(), &mut map) })?;
        // INVARIANT: Just mapped.
        Ok(Self { map, buffer })
    }

    /// Start of the buffer, if it is ordinary memory.
    fn start(&self) -> Option<usize> {
        // SAFETY: Both members of the union are pointers.
        let start = unsafe { self.map.__bindgen_anon_1.vaddr } as usize;
        (!self.map.is_iomem && start != 0).then_some(start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Mapped, by the type invariant, and not used any more.
        unsafe { bindings::dma_buf_vunmap_unlocked(self.buffer.0 .0.as_ptr(), &mut self.map) }
    }
}

/// Part of a dma-buf.
pub struct DmaBufMemory {
    // Goes first: it refers to the mapping.
    chunks: Chunks,
    _mapping: Mapping,
}

// SAFETY: A mapping may be used and ended by any task.
unsafe impl Send for DmaBufMemory {}
// SAFETY: It does not change.
unsafe impl Sync for DmaBufMemory {}

impl DmaBufMemory {
    /// Maps `length` bytes from `offset` on of the dma-buf that the calling process has open. May
    /// sleep.
    ///
    /// `EINVAL` if the buffer is shorter or `EOPNOTSUPP` if it is no ordinary memory; otherwise the
    /// errors of the exporter.
    pub fn map(fd: i32, offset: u64, length: u64, writable: bool) -> Result<Self> {
        let buffer = Buffer::get(fd)?;
        let end = offset.checked_add(length).ok_or(EINVAL)?;
        if end > buffer.size() {
            return Err(EINVAL);
        }
        let mapping = Mapping::new(CpuUse::begin(buffer)?)?;
        let start = mapping.start().ok_or(EOPNOTSUPP)?;
        // SAFETY: The exporter keeps the mapping in place until it is unmapped, which happens after
        // the chunks are gone.
        let chunks = unsafe {
            Chunks::from_segments(core::iter::once((start, end)), offset, length, writable)?
        };
        Ok(Self {
            chunks,
            _mapping: mapping,
        })
    }

    /// Whether the memory may be written.
    pub fn writable(&self) -> bool {
        self.chunks.writable()
    }

    /// As [`Chunks::read`].
    pub fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result {
        self.chunks.read(at, to, sink)
    }

    /// As [`Chunks::write`].
    pub fn write(&self, at: u64, from: &[u8]) -> Result {
        self.chunks.write(at, from)
    }

    /// As [`Chunks::rmw`].
    pub fn rmw(&self, at: u64, op: Rmw) -> Result<u64> {
        self.chunks.rmw(at, op)
    }

    /// As [`Chunks::store`].
    pub fn store(&self, at: u64, value: u64) -> Result {
        self.chunks.store(at, value)
    }
}
