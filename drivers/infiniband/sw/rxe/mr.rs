// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! What a region grants is guarded by its access lock, which copies hold for reading. The lock may
//! be taken in any context; memory whose pages are fetched on demand is copied after it was
//! released, and closed in a way of its own (see [`Backing::close`]).

mod backing;
mod verbs;

use crate::{
    mem::{
        Fault,
        Sleepers,
        Work,
        KEY_TAG, //
    },
    pd::PdId,
    wire::ext::Key, //
};
use backing::Backing;
use kernel::{
    new_spinlock_irq,
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
        PageAddr,
        Prefetch,
        Sink, //
    },
    device::Device,
    mr::Access,
    new_rwlock_irq,
    rwlock::RwLockIrq, //
};
pub(crate) use verbs::Mr;

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
    /// Windows that are bound to the region. Grows only while the access lock is held for reading.
    windows: Atomic<i32>,
    #[pin]
    grant: RwLockIrq<Grant>,
    /// The pages of a fast registration that are mapped for its next use.
    #[pin]
    prepared: SpinLockIrq<Option<Prepared>>,
}

/// Pages for the next use of a fast registration. They take the place of the ones in use when the
/// registration is executed, so mapping never changes what a peer sees.
struct Prepared {
    chunks: Chunks,
    stage: Stage,
}

/// How far pages are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// None are: the next use is of the pages of the last one.
    Nothing,
    /// Not all are.
    Started,
    /// All are.
    Complete,
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

/// Memory that is going to be a region.
struct OpenMr {
    backing: Backing,
    prepared: Option<Prepared>,
    access: Access,
    iova: u64,
    length: u64,
}

impl OpenMr {
    fn of(backing: Backing, access: Access, iova: u64, length: u64) -> Self {
        Self {
            backing,
            prepared: None,
            access,
            iova,
            length,
        }
    }

    fn into_core(self, key: Key, pd: PdId) -> Result<Arc<MrCore>> {
        let grant = Grant {
            state: match self.backing {
                // The key comes with each registration.
                Backing::Fast(_) => State::Free,
                _ => State::Valid,
            },
            key,
            pd,
            access: self.access,
            iova: self.iova,
            length: self.length,
            backing: self.backing,
        };
        let prepared = self.prepared;
        Arc::pin_init(
            pin_init!(MrCore {
                windows: Atomic::new(0),
                grant <- new_rwlock_irq!(grant, "rxe_mr"),
                prepared <- new_spinlock_irq!(prepared, "rxe_mr_prepared"),
            }),
            GFP_KERNEL,
        )
    }
}

impl MrCore {
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

    /// Works on the pages for the next use; `EINVAL` if this is no fast registration. What fails
    /// leaves no pages that could be registered.
    fn prepare(&self, stage: Stage, work: impl FnOnce(&mut Chunks) -> Result) -> Result {
        let mut prepared = self.prepared.lock();
        let Some(prepared) = &mut *prepared else {
            return Err(EINVAL);
        };
        prepared.stage = Stage::Started;
        work(&mut prepared.chunks)?;
        prepared.stage = stage;
        Ok(())
    }

    /// Starts to map pages of `size` bytes for the next use of a fast registration. Any context.
    pub(crate) fn begin_map(&self, size: u32) -> Result {
        self.prepare(Stage::Started, |chunks| chunks.restart(size))
    }

    /// Adds a page; `ENOMEM` if there are too many. Any context.
    pub(crate) fn map_page(&self, page: PageAddr) -> Result {
        self.prepare(Stage::Started, |chunks| chunks.push(page))
    }

    /// Ends the mapping of `length` bytes whose first one has the address `iova`. Any context.
    pub(crate) fn end_map(&self, iova: u64, length: u64) -> Result {
        self.prepare(Stage::Complete, |chunks| chunks.finish(iova, length))
    }

    /// Executes a fast registration of the pages that were mapped, or again of those of the last one
    /// if none were mapped since.
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
        match prepared.stage {
            Stage::Complete => {
                core::mem::swap(current, &mut prepared.chunks);
                prepared.stage = Stage::Nothing;
            }
            Stage::Nothing => (),
            Stage::Started => return Err(Fault::Denied),
        }
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
        memory.ok_or(EINVAL)?.prefetch(at, asked.len, kind)
    }

    /// Moves the region to another domain; `EINVAL` if windows are bound.
    fn move_to(&self, pd: PdId) -> Result {
        let mut grant = self.grant.write();
        if self.windows.load(Relaxed) != 0 || grant.state == State::Closed {
            return Err(EINVAL);
        }
        grant.pd = pd;
        Ok(())
    }

    /// Changes a region: memory and rights only of one of user memory, the domain of any. May sleep.
    ///
    /// `EINVAL` if windows are bound, or for what cannot be registered; `EACCES` if the pages were
    /// not pinned for writing and now shall be writable. Nothing has changed then.
    fn reregister(&self, device: &Device, sleepers: &Arc<Sleepers>, change: &Change) -> Result {
        if let (None, None, Some(pd)) = (change.memory, change.access, change.pd) {
            return self.move_to(pd);
        }
        let old_access = {
            let grant = self.grant.read();
            if !grant.backing.is_user() {
                return Err(EINVAL);
            }
            grant.access
        };
        let access = change.access.unwrap_or(old_access);
        let mut fresh = match change.memory {
            Some((start, length, iova)) => {
                let backing = Backing::user(device, sleepers, start, length, iova, access)?;
                Some((backing, iova, length))
            }
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
            None => grant.backing.allows(grant.access, access)?,
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

    /// As the owner's verb, for tests.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn close_for_test(&self) -> Result {
        self.close()
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

/// A region of the pages of the tests, for fast registration under the tag `tag`.
#[cfg(CONFIG_KUNIT = "y")]
pub(crate) fn region_for_test(
    table: &Arc<rdma::id_table::IdTable<MrCore>>,
    pd: PdId,
    access: Access,
    (iova, length): (u64, u64),
) -> Result<(Mr, Key)> {
    use rdma::cpu_memory::testing;
    let mr = Mr::new(table, pd, OpenMr::fast(testing::PAGES as u32)?)?;
    let key = Key(mr.key().0 ^ 1);
    mr.inner().begin_map(kernel::page::PAGE_SIZE as u32)?;
    for i in 0..testing::PAGES {
        mr.inner().map_page(testing::page(i))?;
    }
    mr.inner().end_map(iova, length)?;
    mr.inner()
        .register(pd, key, access, iova)
        .map_err(|_| EINVAL)?;
    Ok((mr, key))
}

#[kunit_tests(rust_rxe_mr)]
mod tests {
    use super::*;
    use crate::mem::{
        Asker,
        Memory, //
    };
    use crate::pd::QpId;

    const LEN: u64 = 3 * 4096 + 100;
    const BASE: u64 = 0x7f00_0000_0010;

    fn no_sink(_: &[u8]) {}

    #[test]
    fn ranges() {
        let within = offset_within;
        assert_eq!(within(BASE, LEN, BASE, LEN), Some(0));
        assert_eq!(within(BASE, LEN, BASE + LEN - 1, 1), Some(LEN - 1));
        assert_eq!(within(BASE, LEN, BASE + LEN, 0), Some(LEN));
        assert_eq!(within(BASE, LEN, BASE, LEN + 1), None);
        assert_eq!(within(BASE, LEN, BASE - 1, 1), None);
        assert_eq!(within(BASE, LEN, BASE + LEN, 1), None);
        // Sums that wrap.
        assert_eq!(within(BASE, LEN, BASE, u64::MAX), None);
        assert_eq!(within(BASE, LEN, u64::MAX, 2), None);
        assert_eq!(within(u64::MAX - 15, 15, u64::MAX - 1, 1), Some(14));
        assert_eq!(within(u64::MAX - 15, 15, u64::MAX - 1, 2), None);
        assert_eq!(within(0, u64::MAX, u64::MAX - 1, 1), Some(u64::MAX - 1));
    }

    #[test]
    fn access_needs_key_domain_rights_and_range() -> Result {
        let memory = Memory::new()?;
        let (pd, other) = (PdId::new(), PdId::new());
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let (mr, key) = region_for_test(&memory.regions, pd, access, (BASE, LEN))?;
        let asker = Asker {
            pd,
            qp: QpId::new(),
        };
        let open =
            |asker, key, va, len, need| memory.open_remote(asker, key, va, len, need).map(|_| ());
        let read = Access::REMOTE_READ;
        assert_eq!(open(asker, key, BASE, 100, read), Ok(()));
        assert_eq!(
            open(asker, Key(key.0 ^ 2), BASE, 100, read),
            Err(Fault::Denied)
        );
        assert_eq!(
            open(asker, Key(key.0 ^ 0x100), BASE, 100, read),
            Err(Fault::Denied)
        );
        assert_eq!(
            open(Asker { pd: other, ..asker }, key, BASE, 1, read),
            Err(Fault::Denied)
        );
        assert_eq!(
            open(asker, key, BASE, 8, Access::REMOTE_ATOMIC),
            Err(Fault::Denied)
        );
        assert_eq!(open(asker, key, BASE - 1, 1, read), Err(Fault::Denied));
        assert_eq!(open(asker, key, BASE + LEN, 1, read), Err(Fault::Denied));
        assert_eq!(open(asker, key, u64::MAX, 2, read), Err(Fault::Denied));
        drop(mr);
        assert_eq!(open(asker, key, BASE, 100, read), Err(Fault::Denied));
        Ok(())
    }

    #[test]
    fn target_ends_with_the_key() -> Result {
        let memory = Memory::new()?;
        let pd = PdId::new();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let (mr, key) = region_for_test(&memory.regions, pd, access, (BASE, LEN))?;
        let asker = Asker {
            pd,
            qp: QpId::new(),
        };
        let need = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let target = memory.open_remote(asker, key, BASE + 4090, 20, need);
        let target = target.map_err(|_| EINVAL)?;
        let mut bytes = [0; 8];
        assert_eq!(target.write(4, &[1, 2, 3, 4, 5, 6, 7, 8]), Ok(()));
        assert_eq!(target.read(4, &mut bytes, &mut no_sink), Ok(()));
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8]);
        // Within the region, but not within the grant.
        assert_eq!(target.write(13, &bytes), Err(Fault::Denied));
        assert_eq!(target.write(u64::MAX, &bytes), Err(Fault::Denied));

        assert_eq!(
            memory.invalidate(
                Asker {
                    pd: PdId::new(),
                    ..asker
                },
                key
            ),
            Err(Fault::Denied)
        );
        assert_eq!(memory.invalidate(asker, Key(key.0 ^ 2)), Err(Fault::Denied));
        assert_eq!(target.write(4, &bytes), Ok(()));
        assert_eq!(memory.invalidate(asker, key), Ok(()));
        assert_eq!(target.write(4, &bytes), Err(Fault::Denied));
        assert_eq!(target.read(4, &mut bytes, &mut no_sink), Err(Fault::Denied));

        // The next use has another key, so the old grant stays dead.
        let again = Key(key.0 ^ 3);
        assert!(mr.inner().register(pd, again, access, BASE).is_ok());
        assert_eq!(target.write(4, &bytes), Err(Fault::Denied));
        // Only a free one can be registered.
        assert_eq!(
            mr.inner().register(pd, key, access, BASE),
            Err(Fault::Denied)
        );
        Ok(())
    }

    #[test]
    fn pages_are_registered_again_unless_mapped_anew() -> Result {
        use rdma::cpu_memory::testing;
        let memory = Memory::new()?;
        let pd = PdId::new();
        let asker = Asker {
            pd,
            qp: QpId::new(),
        };
        let need = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let access = need | Access::LOCAL_WRITE;
        let (mr, key) = region_for_test(&memory.regions, pd, access, (BASE, LEN))?;
        let mr = mr.inner();
        let put = |key, byte| {
            let target = memory.open_remote(asker, key, BASE, 1, need);
            target.and_then(|target| target.write(0, &[byte]))
        };
        let get = |key| {
            let mut byte = [0];
            let target = memory.open_remote(asker, key, BASE, 1, need);
            let read = target.and_then(|target| target.read(0, &mut byte, &mut no_sink));
            read.map(|()| byte[0])
        };
        assert_eq!(put(key, 1), Ok(()));
        // Twice, as the pages of the use before the last one must not come back either.
        let mut last = key;
        for flip in [2, 4, 6] {
            assert_eq!(memory.invalidate(asker, last), Ok(()));
            last = Key(key.0 ^ flip);
            assert_eq!(mr.register(pd, last, access, BASE), Ok(()));
            assert_eq!(mr.range(last), Some((BASE, LEN)));
            assert_eq!(get(last), Ok(1));
        }

        // Half of a mapping is none.
        assert_eq!(memory.invalidate(asker, last), Ok(()));
        mr.begin_map(kernel::page::PAGE_SIZE as u32)?;
        mr.map_page(testing::page(1))?;
        assert_eq!(
            mr.register(pd, key, access, BASE & !0xfff),
            Err(Fault::Denied)
        );
        assert!(mr.end_map(BASE & !0xfff, LEN).is_err());
        assert_eq!(
            mr.register(pd, key, access, BASE & !0xfff),
            Err(Fault::Denied)
        );
        mr.begin_map(kernel::page::PAGE_SIZE as u32)?;
        mr.map_page(testing::page(1))?;
        mr.end_map(BASE & !0xfff, 4096)?;
        assert_eq!(mr.register(pd, key, access, BASE & !0xfff), Ok(()));
        assert_eq!(put(key, 2), Ok(()));
        assert_eq!(memory.invalidate(asker, key), Ok(()));
        assert_eq!(mr.register(pd, last, access, BASE & !0xfff), Ok(()));
        assert_eq!(get(last), Ok(2));
        Ok(())
    }

    #[test]
    fn registration_checks_domain_and_key() -> Result {
        let memory = Memory::new()?;
        let pd = PdId::new();
        let mr = Mr::new(&memory.regions, pd, OpenMr::fast(2)?)?;
        let key = mr.key();
        let register = |pd, key, access| mr.inner().register(pd, key, access, 0);
        assert_eq!(register(PdId::new(), key, REMOTE), Err(Fault::Denied));
        assert_eq!(register(pd, Key(key.0 ^ 0x100), REMOTE), Err(Fault::Denied));
        assert_eq!(register(pd, key, Access::ZERO_BASED), Err(Fault::Denied));
        assert_eq!(register(pd, Key(key.0 ^ 0xff), REMOTE), Ok(()));
        assert!(OpenMr::fast(u32::MAX).is_err());
        Ok(())
    }
}
