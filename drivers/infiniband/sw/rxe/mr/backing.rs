// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of regions lie.

use super::{
    OpenMr,
    Prepared,
    Stage, //
};
use crate::mem::{
    Sleeper,
    Sleepers,
    Work, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cpu_memory::{
        Chunks,
        DmaBufMemory,
        FetchedMemory,
        KernelMemory,
        OdpMemory,
        PinnedMemory,
        Prefetch,
        ProcessMemory,
        Sink, //
    },
    device::Device,
    mr::Access,
    umem, //
};

/// Most pages that a fast registration may have: more than advertised, but not any number.
const FAST_PAGES_LIMIT: u32 = 1 << 16;

/// Where the bytes lie.
pub(super) enum Backing {
    /// Nowhere: the region is gone.
    None,
    /// At kernel addresses.
    Kernel(KernelMemory),
    /// In pinned pages of a process.
    Pinned(PinnedMemory),
    /// In pages of a kernel module.
    Fast(Chunks),
    /// In a dma-buf.
    DmaBuf(DmaBufMemory),
    /// In pages of a process that are fetched on demand.
    OnDemand(
        Arc<OdpMemory>,
        #[expect(dead_code, reason = "ends with the region")] Sleeper,
    ),
    /// Anywhere in a process.
    Process(
        Arc<ProcessMemory>,
        #[expect(dead_code, reason = "ends with the region")] Sleeper,
    ),
}

/// The backings whose use may sleep.
pub(super) enum Sleeping {
    OnDemand(Arc<OdpMemory>),
    Process(Arc<ProcessMemory>),
}

/// Calls the method of a memory that `$work` asks for.
macro_rules! dispatch {
    ($memory:expr, $at:expr, $work:expr, $persist:expr) => {
        match $work {
            Work::Check => Ok(0),
            Work::Read(to, sink) => $memory.read($at, to, sink).map(|()| 0),
            Work::Write(from) => $memory.write($at, from).map(|()| 0),
            Work::Atomic(op) => $memory.rmw($at, op),
            Work::Store(value) => $memory.store($at, value).map(|()| 0),
            Work::Persist => $persist.map(|()| 0),
        }
    };
}

impl Sleeping {
    /// Does `work` on `len` bytes from `at` on. May sleep.
    pub(super) fn run<S: Sink>(&self, at: u64, len: u64, work: Work<'_, S>) -> Result<u64> {
        match self {
            Self::OnDemand(memory) => dispatch!(memory, at, work, memory.write_back(at, len)),
            Self::Process(memory) => dispatch!(memory, at, work, Err(EACCES)),
        }
    }

    /// Fetches pages. May sleep.
    pub(super) fn prefetch(&self, at: u64, len: u64, kind: Prefetch) -> Result {
        match self {
            Self::OnDemand(memory) => memory.prefetch(at, len, kind),
            Self::Process(_) if kind == Prefetch::Present => Ok(()),
            Self::Process(memory) if kind == Prefetch::Write && !memory.writable() => Err(EPERM),
            Self::Process(memory) => memory.prefetch(at, len, kind == Prefetch::Write),
        }
    }
}

impl Backing {
    /// The memory, if its use may sleep.
    #[inline]
    pub(super) fn sleeping(&self) -> Option<Sleeping> {
        match self {
            Self::OnDemand(memory, _) => Some(Sleeping::OnDemand(memory.clone())),
            Self::Process(memory, _) => Some(Sleeping::Process(memory.clone())),
            _ => None,
        }
    }

    /// Does `work` on `len` bytes from `at` on, of memory whose use does not sleep.
    #[inline]
    pub(super) fn run<S: Sink>(&self, at: u64, len: u64, work: Work<'_, S>) -> Result<u64> {
        match self {
            Self::Kernel(memory) => dispatch!(memory, at, work, Err(EACCES)),
            Self::Pinned(memory) => dispatch!(memory, at, work, memory.write_back(at, len)),
            Self::Fast(memory) => dispatch!(memory, at, work, Err(EACCES)),
            Self::DmaBuf(memory) => dispatch!(memory, at, work, Err(EACCES)),
            Self::None | Self::OnDemand(..) | Self::Process(..) => Err(EACCES),
        }
    }

    /// Whether the memory is that of a process, which can be registered anew.
    pub(super) fn is_user(&self) -> bool {
        matches!(
            self,
            Self::Pinned(_) | Self::OnDemand(..) | Self::Process(..)
        )
    }

    /// Whether the memory can be used with `access` instead of `old`.
    ///
    /// `EACCES` if the memory was not got for writing and now shall be written; `EINVAL` if it is
    /// held in a way that does not fit the rights.
    pub(super) fn allows(&self, old: Access, access: Access) -> Result {
        let (writable, persistent) = match self {
            Self::Pinned(memory) => (memory.writable(), memory.is_persistent()),
            Self::OnDemand(memory, _) => {
                (memory.writable(), old.contains(Access::FLUSH_PERSISTENT))
            }
            Self::Process(memory, _) => (memory.writable(), false),
            _ => return Err(EINVAL),
        };
        if umem::Access::from_bits(access.bits()).writable() && !writable {
            return Err(EACCES);
        }
        let kind_changes = access.contains(Access::ON_DEMAND) != old.contains(Access::ON_DEMAND);
        if kind_changes || (access.contains(Access::FLUSH_PERSISTENT) && !persistent) {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Waits until the memory is not used any more, and lets go of it. May sleep.
    pub(super) fn close(self) {
        if let Self::OnDemand(memory, _) = &self {
            memory.close();
        }
    }

    /// Opens memory of the calling process. May sleep.
    ///
    /// `EINVAL` for a range that is empty or wraps, and for a right to persistence where the memory
    /// is not persistent; otherwise the errors of pinning.
    pub(super) fn user(
        device: &Device,
        sleepers: &Arc<Sleepers>,
        start: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Self> {
        let rights = umem::Access::from_bits(access.bits());
        let persistent = access.contains(Access::FLUSH_PERSISTENT);
        if access.contains(Access::ON_DEMAND) && start == 0 && length == u64::MAX {
            // Addresses are those of the process.
            if persistent || iova != 0 {
                return Err(EINVAL);
            }
            let memory = ProcessMemory::current(rights.writable())?;
            let memory = Arc::new(memory, GFP_KERNEL)?;
            return Ok(Self::Process(memory, sleepers.announce()));
        }
        let wraps = start.checked_add(length).is_none() || iova.checked_add(length).is_none();
        if length == 0 || wraps {
            return Err(EINVAL);
        }
        if access.contains(Access::ON_DEMAND) {
            let memory = OdpMemory::new(device, start, length, rights)?;
            let memory = Arc::new(memory, GFP_KERNEL)?;
            // Only what is there; the rest comes with its use.
            memory.prefetch(0, length, Prefetch::Present)?;
            return Ok(Self::OnDemand(memory, sleepers.announce()));
        }
        let memory = PinnedMemory::pin(device, start, length, rights)?;
        if persistent && !memory.is_persistent() {
            return Err(EINVAL);
        }
        Ok(Self::Pinned(memory))
    }
}

impl OpenMr {
    /// All of the kernel's memory.
    pub(super) fn kernel(memory: KernelMemory, access: Access) -> Self {
        Self::of(Backing::Kernel(memory), access, 0, 0)
    }

    /// A fast registration of at most `pages` pages. May sleep.
    pub(super) fn fast(pages: u32) -> Result<Self> {
        if pages > FAST_PAGES_LIMIT {
            return Err(EINVAL);
        }
        let room = || Chunks::with_room(pages as usize);
        let mut this = Self::of(Backing::Fast(room()?), Access::NONE, 0, 0);
        this.prepared = Some(Prepared {
            chunks: room()?,
            stage: Stage::Nothing,
        });
        Ok(this)
    }

    /// Memory of the calling process. May sleep; errors as those of [`Backing::user`].
    pub(super) fn user(
        device: &Device,
        sleepers: &Arc<Sleepers>,
        start: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Self> {
        let backing = Backing::user(device, sleepers, start, length, iova, access)?;
        Ok(Self::of(backing, access, iova, length))
    }

    /// Part of a dma-buf that the calling process has open. May sleep.
    ///
    /// `EINVAL` for a range that is empty or wraps, `EOPNOTSUPP` for rights that such memory cannot
    /// have; otherwise the errors of the exporter.
    pub(super) fn dmabuf(
        fd: i32,
        offset: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Self> {
        if length == 0 || iova.checked_add(length).is_none() {
            return Err(EINVAL);
        }
        if access.intersects(Access::ON_DEMAND.union(Access::FLUSH_PERSISTENT)) {
            return Err(EOPNOTSUPP);
        }
        let writable = umem::Access::from_bits(access.bits()).writable();
        let memory = DmaBufMemory::map(fd, offset, length, writable)?;
        Ok(Self::of(Backing::DmaBuf(memory), access, iova, length))
    }
}
