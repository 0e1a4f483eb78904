// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! What a region grants is guarded by its access lock, which copies hold for reading. The lock may
//! be taken in any context; memory whose pages are fetched on demand is copied after it was
//! released, and closed in a way of its own (see [`OdpMemory::close`]).

use crate::{
    device::{
        Rxe,
        Shared, //
    },
    mem::{
        key_of,
        Fault,
        Work,
        KEY_TAG, //
    },
    pd::PdId,
    wire::ext::Key, //
};
use kernel::{
    bindings,
    error::code,
    new_spinlock_irq,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    cpu_memory::{
        Chunks,
        KernelMemory,
        OdpMemory,
        PageAddr,
        PinnedMemory,
        Prefetch,
        ProcessMemory,
        Sink, //
    },
    device::Device,
    gfp::Gfp,
    id_table::{
        IdTable,
        Published, //
    },
    mr::{
        Access,
        MrKind,
        SgList, //
    },
    new_rwlock_irq,
    provider::{
        self,
        MrOps,
        NewMr,
        Rereg,
        Sge,
        Udata,
        UserRegion, //
    },
    random,
    rwlock::RwLockIrq,
    umem, //
};

/// Rights of peers.
pub(crate) const REMOTE: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// Rights that a region may have.
pub(crate) const SUPPORTED: Access = REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::ON_DEMAND)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT)
    .union(Access::OPTIONAL);

/// Most pages of a fast registration that are advertised.
pub(crate) const MAX_FAST_PAGES: u32 = 512;

/// Most pages that a fast registration may have: more than advertised, but not any number.
const FAST_PAGES_LIMIT: u32 = 1 << 16;

/// An access that somebody asks for.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// The key that was presented.
    pub(crate) key: Key,
    /// Domain of the queue pair.
    pub(crate) pd: PdId,
    /// First byte.
    pub(crate) va: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Rights that it needs.
    pub(crate) need: Access,
}

/// Where the bytes lie.
enum Backing {
    /// Nowhere: the region is gone.
    None,
    /// At kernel addresses.
    Kernel(KernelMemory),
    /// In pinned pages of a process.
    Pinned(PinnedMemory),
    /// In pages of a kernel module.
    Fast(Chunks),
    /// In pages of a process that are fetched on demand.
    OnDemand(Arc<OdpMemory>),
    /// Anywhere in a process.
    Process(Arc<ProcessMemory>),
}

/// The backings whose use may sleep.
enum Sleeping {
    OnDemand(Arc<OdpMemory>),
    Process(Arc<ProcessMemory>),
}

/// Calls the method of a memory that `$work` asks for.
macro_rules! dispatch {
    ($memory:expr, $at:expr, $len:expr, $work:expr, $persist:expr) => {
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
    fn run<S: Sink>(&self, at: u64, len: u64, work: Work<'_, S>) -> Result<u64> {
        match self {
            Self::OnDemand(memory) => dispatch!(memory, at, len, work, memory.write_back(at, len)),
            Self::Process(memory) => dispatch!(memory, at, len, work, Err(EACCES)),
        }
    }
}

impl Backing {
    fn sleeping(&self) -> Option<Sleeping> {
        match self {
            Self::OnDemand(memory) => Some(Sleeping::OnDemand(memory.clone())),
            Self::Process(memory) => Some(Sleeping::Process(memory.clone())),
            _ => None,
        }
    }

    fn run<S: Sink>(&self, at: u64, len: u64, work: Work<'_, S>) -> Result<u64> {
        match self {
            Self::Kernel(memory) => dispatch!(memory, at, len, work, Err(EACCES)),
            Self::Pinned(memory) => dispatch!(memory, at, len, work, memory.write_back(at, len)),
            Self::Fast(memory) => dispatch!(memory, at, len, work, Err(EACCES)),
            _ => Err(EACCES),
        }
    }
}

/// Whether the key of a region may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is.
    Valid,
    /// A fast registration that waits for its next use.
    Free,
    /// Deregistered.
    Closed,
}

/// What a region grants.
struct Grant {
    state: State,
    key: Key,
    pd: PdId,
    access: Access,
    /// Address of the first byte.
    iova: u64,
    /// Bytes.
    length: u64,
    backing: Backing,
}

/// Whether `len` bytes at `va` lie within `length` bytes at `start`; if so, how far from there.
pub(crate) fn offset_within(start: u64, length: u64, va: u64, len: u64) -> Option<u64> {
    let at = va.checked_sub(start)?;
    (len <= length && at <= length - len).then_some(at)
}

impl Grant {
    /// Offset of the first byte, if the access is allowed.
    fn check(&self, asked: &Use) -> Result<u64, Fault> {
        let allowed = self.state == State::Valid
            && self.key == asked.key
            && self.pd == asked.pd
            && self.access.contains(asked.need);
        if !allowed {
            return Err(Fault::Denied);
        }
        match self.backing {
            Backing::Kernel(_) => Ok(asked.va),
            _ => offset_within(self.iova, self.length, asked.va, asked.len).ok_or(Fault::Denied),
        }
    }
}

/// A memory region.
#[pin_data]
pub(crate) struct MrCore {
    index: u32,
    /// Windows that are bound to the region. Grows only while the access lock is held for reading.
    windows: Atomic<i32>,
    #[pin]
    grant: RwLockIrq<Grant>,
    /// The pages of a fast registration that are mapped for its next use. They take the place of the
    /// ones in use when the registration is executed, so mapping never changes what a peer sees.
    #[pin]
    prepared: SpinLockIrq<Option<Chunks>>,
}

/// What a region is made of.
pub(crate) enum Source {
    /// All of the kernel's memory.
    Kernel(KernelMemory),
    /// Pages that a kernel module maps later, at most so many.
    Fast(u32),
    /// Memory of the calling process.
    User {
        /// Where it starts.
        start: u64,
        /// Bytes.
        length: u64,
        /// Address of its first byte.
        iova: u64,
    },
}

impl Source {
    /// The memory, with what is prepared. May sleep.
    fn open(&self, device: &Device, access: Access) -> Result<(Backing, Option<Chunks>)> {
        match *self {
            Self::Kernel(_) => Err(EINVAL),
            Self::Fast(pages) => {
                if pages > FAST_PAGES_LIMIT {
                    return Err(EINVAL);
                }
                let chunks = Chunks::with_room(pages as usize)?;
                let next = Chunks::with_room(pages as usize)?;
                Ok((Backing::Fast(chunks), Some(next)))
            }
            Self::User {
                start,
                length,
                iova,
            } => Ok((open_user(device, start, length, iova, access)?, None)),
        }
    }
}

/// Opens memory of the calling process. May sleep.
///
/// `EINVAL` for a range that is empty or wraps, and for a right to persistence where the memory is
/// not persistent; otherwise the errors of pinning.
fn open_user(
    device: &Device,
    start: u64,
    length: u64,
    iova: u64,
    access: Access,
) -> Result<Backing> {
    let rights = umem::Access::from_bits(access.bits());
    let persistent = access.contains(Access::FLUSH_PERSISTENT);
    if access.contains(Access::ON_DEMAND) && start == 0 && length == u64::MAX {
        if persistent {
            return Err(EINVAL);
        }
        let memory = ProcessMemory::current(rights.writable())?;
        return Ok(Backing::Process(Arc::new(memory, GFP_KERNEL)?));
    }
    let wraps = start.checked_add(length).is_none() || iova.checked_add(length).is_none();
    if length == 0 || wraps {
        return Err(EINVAL);
    }
    if access.contains(Access::ON_DEMAND) {
        let memory = Arc::new(OdpMemory::new(device, start, length, rights)?, GFP_KERNEL)?;
        // Only what is there; the rest comes with its use.
        memory.prefetch(0, length, Prefetch::Present)?;
        return Ok(Backing::OnDemand(memory));
    }
    let memory = PinnedMemory::pin(device, start, length, rights)?;
    if persistent && !memory.is_persistent() {
        return Err(EINVAL);
    }
    Ok(Backing::Pinned(memory))
}

/// What is to change of a region.
pub(crate) struct Change {
    /// Other memory: start, length and address of the first byte.
    pub(crate) memory: Option<(u64, u64, u64)>,
    /// Other rights.
    pub(crate) access: Option<Access>,
    /// Another domain.
    pub(crate) pd: Option<PdId>,
}

impl MrCore {
    fn init(index: u32, grant: Grant, prepared: Option<Chunks>) -> impl PinInit<Self> {
        pin_init!(Self {
            index,
            windows: Atomic::new(0),
            grant <- new_rwlock_irq!(grant, "rxe_mr"),
            prepared <- new_spinlock_irq!(prepared, "rxe_mr_prepared"),
        })
    }

    /// Whether accesses sleep.
    pub(crate) fn may_sleep(&self) -> bool {
        self.grant.read().backing.sleeping().is_some()
    }

    /// Address of the first byte, and bytes, if `key` is the region's.
    pub(crate) fn range(&self, key: Key) -> Option<(u64, u64)> {
        let grant = self.grant.read();
        (grant.state == State::Valid && grant.key == key).then_some((grant.iova, grant.length))
    }

    /// Does `work` on the bytes that `asked` names, if that is allowed.
    pub(crate) fn run<S: Sink>(&self, asked: &Use, work: Work<'_, S>) -> Result<u64, Fault> {
        let grant = self.grant.read();
        let at = grant.check(asked)?;
        if let Work::Check = work {
            return Ok(0);
        }
        let result = match grant.backing.sleeping() {
            None => grant.backing.run(at, asked.len, work),
            Some(memory) => {
                drop(grant);
                memory.run(at, asked.len, work)
            }
        };
        result.map_err(|e| {
            // The region was closed meanwhile, or its memory is not of the kind that was asked for.
            if e == ESHUTDOWN || e == EACCES {
                Fault::Denied
            } else {
                Fault::Failed
            }
        })
    }

    /// Makes the key of a fast registration unusable. When this returns, nobody uses the memory by
    /// it any more.
    pub(crate) fn invalidate(&self, pd: PdId, key: Key) -> Result<(), Fault> {
        let mut grant = self.grant.write();
        let allowed = grant.state != State::Closed
            && grant.key == key
            && grant.pd == pd
            && matches!(grant.backing, Backing::Fast(_))
            && self.windows.load(Relaxed) == 0;
        if !allowed {
            return Err(Fault::Denied);
        }
        grant.state = State::Free;
        Ok(())
    }

    /// Works on the pages for the next use; `EINVAL` if this is no fast registration.
    fn prepare(&self, work: impl FnOnce(&mut Chunks) -> Result) -> Result {
        match &mut *self.prepared.lock() {
            Some(chunks) => work(chunks),
            None => Err(EINVAL),
        }
    }

    /// Starts to map pages of `size` bytes for the next use of a fast registration. Any context.
    pub(crate) fn begin_map(&self, size: u32) -> Result {
        self.prepare(|chunks| chunks.restart(size))
    }

    /// Adds a page; `ENOMEM` if there are too many. Any context.
    pub(crate) fn map_page(&self, page: PageAddr) -> Result {
        self.prepare(|chunks| chunks.push(page))
    }

    /// Ends the mapping of `length` bytes whose first one has the address `iova`. Any context.
    pub(crate) fn end_map(&self, iova: u64, length: u64) -> Result {
        self.prepare(|chunks| chunks.finish(iova, length))
    }

    /// Executes a fast registration of the pages that were mapped.
    pub(crate) fn register(
        &self,
        pd: PdId,
        key: Key,
        access: Access,
        iova: u64,
    ) -> Result<(), Fault> {
        let mut grant = self.grant.write();
        let allowed = grant.state == State::Free
            && grant.pd == pd
            && (grant.key.0 ^ key.0) & !KEY_TAG == 0
            && SUPPORTED.contains(access);
        if !allowed {
            return Err(Fault::Denied);
        }
        let mut prepared = self.prepared.lock();
        let (Backing::Fast(current), Some(prepared)) = (&mut grant.backing, &mut *prepared) else {
            return Err(Fault::Denied);
        };
        core::mem::swap(current, prepared);
        let length = current.length();
        grant.key = key;
        grant.access = access;
        grant.iova = iova;
        grant.length = length;
        grant.state = State::Valid;
        Ok(())
    }

    /// Fetches pages before they are needed. May sleep.
    ///
    /// `EINVAL` if the region does not allow it or is not of that kind, `EPERM` for writing where it
    /// is for reading, `EFAULT` if the process has no memory there.
    pub(crate) fn prefetch(&self, asked: &Use, kind: Prefetch) -> Result {
        let grant = self.grant.read();
        let at = grant.check(asked).map_err(|_| EINVAL)?;
        let memory = grant.backing.sleeping();
        drop(grant);
        match memory.ok_or(EINVAL)? {
            Sleeping::OnDemand(memory) => memory.prefetch(at, asked.len, kind),
            Sleeping::Process(_) if kind == Prefetch::Present => Ok(()),
            Sleeping::Process(memory) if kind == Prefetch::Write && !memory.writable() => {
                Err(EPERM)
            }
            Sleeping::Process(memory) => memory.prefetch(at, asked.len, kind == Prefetch::Write),
        }
    }

    /// Changes a region of user memory. May sleep.
    ///
    /// `EINVAL` if windows are bound, or for what cannot be registered; `EACCES` if the pages were
    /// not pinned for writing and now shall be writable. Nothing has changed then.
    fn reregister(&self, device: &Device, change: &Change) -> Result {
        let (old_access, kind_ok) = {
            let grant = self.grant.read();
            let user = matches!(
                grant.backing,
                Backing::Pinned(_) | Backing::OnDemand(_) | Backing::Process(_)
            );
            (grant.access, user)
        };
        if !kind_ok {
            return Err(EINVAL);
        }
        let access = change.access.unwrap_or(old_access);
        let mut fresh = match change.memory {
            Some((start, length, iova)) => Some((
                open_user(device, start, length, iova, access)?,
                iova,
                length,
            )),
            None => None,
        };
        let mut grant = self.grant.write();
        if self.windows.load(Relaxed) != 0 || grant.state != State::Valid {
            // The memory that was pinned must not be released under the lock.
            drop(grant);
            return Err(EINVAL);
        }
        match &mut fresh {
            Some((backing, iova, length)) => {
                core::mem::swap(&mut grant.backing, backing);
                grant.iova = *iova;
                grant.length = *length;
            }
            None => grant.allows_rights(access)?,
        }
        grant.access = access;
        if let Some(pd) = change.pd {
            grant.pd = pd;
        }
        drop(grant);
        if let Some((old, _, _)) = fresh {
            old.close();
        }
        Ok(())
    }

    /// Ends the region. When this returns, nobody uses its memory any more. May sleep.
    ///
    /// `EINVAL` if windows are bound.
    fn close(&self) -> Result {
        let mut grant = self.grant.write();
        if self.windows.load(Relaxed) != 0 {
            return Err(EINVAL);
        }
        grant.state = State::Closed;
        let backing = core::mem::replace(&mut grant.backing, Backing::None);
        drop(grant);
        backing.close();
        Ok(())
    }
}

impl Backing {
    /// Waits until the memory is not used any more, and lets go of it. May sleep.
    fn close(self) {
        if let Self::OnDemand(memory) = &self {
            memory.close();
        }
    }
}

impl Grant {
    /// Whether the memory can be used with other rights; see [`MrCore::reregister`].
    fn allows_rights(&self, access: Access) -> Result {
        let writable = match &self.backing {
            Backing::Pinned(memory) => memory.writable(),
            Backing::OnDemand(memory) => memory.writable(),
            Backing::Process(memory) => memory.writable(),
            _ => return Err(EINVAL),
        };
        if umem::Access::from_bits(access.bits()).writable() && !writable {
            return Err(EACCES);
        }
        // How the memory is held cannot change with the rights alone.
        if access.contains(Access::ON_DEMAND) != self.access.contains(Access::ON_DEMAND) {
            return Err(EINVAL);
        }
        if access.contains(Access::FLUSH_PERSISTENT) {
            let persistent = match &self.backing {
                Backing::Pinned(memory) => memory.is_persistent(),
                _ => self.access.contains(Access::FLUSH_PERSISTENT),
            };
            if !persistent {
                return Err(EINVAL);
            }
        }
        Ok(())
    }
}

/// A window is bound to a region.
///
/// # Invariants
///
/// Counted in `windows`.
pub(crate) struct Binding(Arc<MrCore>);

impl Binding {
    /// Binds to `mr` if `allowed` says so, which gets rights, first address and length.
    pub(crate) fn new(
        mr: &Arc<MrCore>,
        key: Key,
        pd: PdId,
        allowed: impl FnOnce(Access, u64, u64) -> bool,
    ) -> Result<Self, Fault> {
        let grant = mr.grant.read();
        let valid = grant.state == State::Valid
            && grant.key == key
            && grant.pd == pd
            && !matches!(grant.backing, Backing::Kernel(_));
        if !valid || !allowed(grant.access, grant.iova, grant.length) {
            return Err(Fault::Denied);
        }
        mr.windows.fetch_add(1, Relaxed);
        // INVARIANT: Just counted, under the lock.
        Ok(Self(mr.clone()))
    }

    /// The region.
    pub(crate) fn mr(&self) -> &MrCore {
        &self.0
    }

    /// A reference to the region that outlives the binding.
    pub(crate) fn region(&self) -> Arc<MrCore> {
        self.0.clone()
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.0.windows.fetch_sub(1, Relaxed);
    }
}

/// A region that its owner can use. Dropping it ends the region; may sleep then.
pub(crate) struct Mr {
    mr: Arc<MrCore>,
    key: Key,
    _published: Published<MrCore>,
}

impl Mr {
    /// Makes a region, and lets lookups find it. May sleep.
    ///
    /// `EOPNOTSUPP` for unknown rights, `EBUSY` when there is no index left, otherwise the errors of
    /// the memory.
    pub(crate) fn new(
        table: &Arc<IdTable<MrCore>>,
        device: &Device,
        pd: PdId,
        access: Access,
        source: Source,
    ) -> Result<Self> {
        if !SUPPORTED.contains(access) {
            return Err(EOPNOTSUPP);
        }
        let (iova, length) = match source {
            Source::User { iova, length, .. } => (iova, length),
            _ => (0, 0),
        };
        let (state, access) = match source {
            // Rights come with each registration.
            Source::Fast(_) => (State::Free, REMOTE),
            _ => (State::Valid, access),
        };
        let (backing, prepared) = match source {
            Source::Kernel(memory) => (Backing::Kernel(memory), None),
            source => source.open(device, access)?,
        };
        let slot = table.reserve(Gfp::KERNEL)?;
        let key = key_of(slot.id(), random::byte());
        let grant = Grant {
            state,
            key,
            pd,
            access,
            iova,
            length,
            backing,
        };
        let mr = Arc::pin_init(MrCore::init(slot.id(), grant, prepared), GFP_KERNEL)?;
        let published = slot.publish(mr.clone(), Gfp::KERNEL)?;
        Ok(Self {
            mr,
            key,
            _published: published,
        })
    }

    /// The region.
    pub(crate) fn mr(&self) -> &Arc<MrCore> {
        &self.mr
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Nothing is left to do if the owner closed the region. Windows that are bound keep what
        // they need until they go.
        let _ = self.mr.close();
    }
}

impl Mr {
    fn in_domain(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        access: Access,
        source: Source,
    ) -> Result<Self> {
        let table = &Shared::of(pd.device()).objects.memory.regions;
        let this = Self::new(table, pd.device().core(), pd.id(), access, source)?;
        mr.set_keys(this.key.0, this.key.0);
        Ok(this)
    }
}

/// How an advice is to be followed; `EOPNOTSUPP` for an unknown one.
fn prefetch_kind(advice: u32) -> Result<Prefetch> {
    use bindings::*;
    #[expect(non_upper_case_globals, reason = "constants of C")]
    match advice {
        ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH => Ok(Prefetch::Read),
        ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => Ok(Prefetch::Write),
        ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
            Ok(Prefetch::Present)
        }
        _ => Err(code::EOPNOTSUPP),
    }
}

#[vtable]
impl MrOps<Rxe> for Mr {
    type OwnerModule = crate::LocalModule;

    fn dma(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        access: Access,
        memory: KernelMemory,
    ) -> impl PinInit<Self, Error> {
        Self::in_domain(pd, mr, access, Source::Kernel(memory))
    }

    fn alloc(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        kind: MrKind,
        max_sg: u32,
    ) -> impl PinInit<Self, Error> {
        if kind != MrKind::MemReg {
            return Err(EINVAL);
        }
        mr.set_page_size(PAGE_SIZE as u32);
        Self::in_domain(pd, mr, Access::NONE, Source::Fast(max_sg))
    }

    fn register_user(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        region: &UserRegion,
        access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        let source = Source::User {
            start: region.start,
            length: region.length,
            iova: region.iova,
        };
        Self::in_domain(pd, mr, access, source)
    }

    fn reregister(this: &provider::Mr<Rxe>, change: &Rereg<'_, Rxe>, _udata: Udata<'_>) -> Result {
        if change
            .access
            .is_some_and(|access| !SUPPORTED.contains(access))
        {
            return Err(EOPNOTSUPP);
        }
        let change = Change {
            memory: change
                .region
                .map(|region| (region.start, region.length, region.iova)),
            access: change.access,
            pd: change.pd.map(|pd| pd.id()),
        };
        this.mr.reregister(this.device().core(), &change)
    }

    fn map_sg(this: &provider::Mr<Rxe>, list: SgList<'_>) -> Result<u32> {
        this.mr.begin_map(this.core().page_size())?;
        let mapped = this.map_pages(list)?;
        let (iova, length) = this.core().range();
        this.mr.end_map(iova, length)?;
        Ok(mapped)
    }

    fn set_page(this: &provider::Mr<Rxe>, page: PageAddr) -> Result {
        this.mr.map_page(page)
    }

    fn advise(pd: &provider::Pd<Rxe>, advice: u32, flags: u32, sges: &[Sge]) -> Result {
        let kind = prefetch_kind(advice)?;
        let memory = &Shared::of(pd.device()).objects.memory;
        let wait = flags & bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH != 0;
        for sge in sges {
            let key = Key(sge.lkey());
            let mr = memory.region(key).ok_or(EINVAL)?;
            let asked = Use {
                key,
                pd: pd.id(),
                va: sge.addr(),
                len: sge.len().into(),
                need: Access::NONE,
            };
            match mr.prefetch(&asked, kind) {
                // Without the flag this is only a wish.
                Err(e) if wait || e == EINVAL || e == EPERM => return Err(e),
                _ => (),
            }
        }
        Ok(())
    }

    fn deregister(this: &provider::Mr<Rxe>, _udata: Udata<'_>) -> Result {
        this.mr.close()
    }
}
