// SPDX-License-Identifier: GPL-2.0

//! Memory windows (IBTA vol. 1, 10.6.7.2): type 1, and type 2 which behaves as 2B.
//!
//! A window grants access to part of a region. Its access lock is taken before that of the region,
//! and held while bytes are copied, so that a window that was invalidated or bound anew is not used
//! any more. Windows on memory that is fetched on demand are checked before the copy only: there
//! the copy ends with the deregistration of the region, which waits for it.

use crate::{
    device::{
        Rxe,
        Shared, //
    },
    mem::{
        key_of,
        Asker,
        Fault,
        Memory,
        Work,
        KEY_TAG, //
    },
    mr::{
        offset_within,
        Binding,
        Use,
        REMOTE,
        SUPPORTED, //
    },
    pd::{
        PdId,
        QpId, //
    },
    wire::ext::Key, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cpu_memory::Sink,
    gfp::Gfp,
    id_table::{
        IdTable,
        Published, //
    },
    mr::Access,
    new_rwlock_irq,
    provider::{
        self,
        MwOps,
        NewMw,
        Udata, //
    },
    random,
    rwlock::RwLockIrq, //
};

/// Rights that a window may have.
const SUPPORTED_WINDOW: Access = SUPPORTED.union(Access::ZERO_BASED);

/// The two kinds of window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bound by a verb to any queue pair of the domain.
    One,
    /// Bound by a request to the queue pair that posts it, once until it is invalidated.
    Two,
}

/// The part of a region that a window shows.
struct Bound {
    region: Binding,
    /// Key of the region.
    region_key: Key,
    access: Access,
    /// Address of the first byte in the region.
    addr: u64,
    length: u64,
    /// The queue pair of a window of type 2.
    qp: Option<QpId>,
}

impl Bound {
    /// Address of the first byte as peers see it.
    fn base(&self) -> u64 {
        if self.access.contains(Access::ZERO_BASED) {
            0
        } else {
            self.addr
        }
    }
}

struct Grant {
    key: Key,
    bound: Option<Bound>,
    /// The window is not bound again: its owner has ended it.
    closed: bool,
}

/// A memory window.
#[pin_data]
pub(crate) struct MwCore {
    pd: PdId,
    kind: Kind,
    #[pin]
    grant: RwLockIrq<Grant>,
}

/// A request to bind a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindRequest {
    /// The window, by its key before.
    pub(crate) window: Key,
    /// The low byte of its key from now on; the rest is not looked at.
    pub(crate) new_key: Key,
    /// The region.
    pub(crate) region: Key,
    /// First byte in the region.
    pub(crate) addr: u64,
    /// Bytes; none unbinds a window of type 1.
    pub(crate) length: u64,
    /// Rights of peers.
    pub(crate) access: Access,
}

impl BindRequest {
    /// Whether a region with these rights at this place can be shown (IBTA C10-73 to C10-75).
    fn suits(&self, rights: Access, iova: u64, length: u64) -> bool {
        let writes = self
            .access
            .intersects(Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC));
        rights.contains(Access::MW_BIND)
            && !rights.contains(Access::ZERO_BASED)
            && (!writes || rights.contains(Access::LOCAL_WRITE))
            && offset_within(iova, length, self.addr, self.length).is_some()
    }
}

impl MwCore {
    /// Address of the first byte, and bytes, if `key` is the window's.
    pub(crate) fn range(&self, key: Key) -> Option<(u64, u64)> {
        let grant = self.grant.read();
        let bound = grant.bound.as_ref().filter(|_| grant.key == key)?;
        Some((bound.base(), bound.length))
    }

    /// Does `work` on the bytes that `asked` names, if that is allowed to the queue pair `qp`.
    pub(crate) fn run<S: Sink>(
        &self,
        qp: QpId,
        asked: &Use,
        work: Work<'_, S>,
    ) -> Result<u64, Fault> {
        let grant = self.grant.read();
        let bound = grant.bound.as_ref().ok_or(Fault::Denied)?;
        let allowed = grant.key == asked.key
            && self.pd == asked.pd
            && bound.qp.is_none_or(|owner| owner == qp)
            && bound.access.contains(asked.need);
        let at = offset_within(bound.base(), bound.length, asked.va, asked.len);
        let at = at.filter(|_| allowed).ok_or(Fault::Denied)?;
        let part = Use {
            key: bound.region_key,
            va: bound.addr.wrapping_add(at),
            // What the region has to allow was looked at when the window was bound.
            need: Access::MW_BIND,
            ..*asked
        };
        if bound.region.mr().may_sleep() {
            let mr = bound.region.region();
            drop(grant);
            mr.run(&part, work)
        } else {
            bound.region.mr().run(&part, work)
        }
    }

    /// Makes a window of type 2 unusable until it is bound again. When this returns, nobody uses
    /// the region by it any more.
    pub(crate) fn invalidate(&self, asker: Asker, key: Key) -> Result<(), Fault> {
        let mut grant = self.grant.write();
        let owner = grant.bound.as_ref().and_then(|bound| bound.qp);
        if self.kind != Kind::Two || grant.key != key || owner != Some(asker.qp) {
            return Err(Fault::Denied);
        }
        let old = grant.bound.take();
        drop(grant);
        drop(old);
        Ok(())
    }

    /// Executes a binding.
    fn bind(&self, memory: &Memory, asker: Asker, request: &BindRequest) -> Result<(), Fault> {
        let mut grant = self.grant.write();
        let zero_based = request.access.contains(Access::ZERO_BASED);
        let allowed = !grant.closed
            && grant.key == request.window
            && self.pd == asker.pd
            && SUPPORTED_WINDOW.contains(request.access)
            && match self.kind {
                Kind::One => !zero_based,
                Kind::Two => grant.bound.is_none() && request.length != 0,
            };
        if !allowed {
            return Err(Fault::Denied);
        }
        let bound = if request.length == 0 {
            None
        } else {
            let mr = memory.region(request.region).ok_or(Fault::Denied)?;
            let suits = |rights, iova, length| request.suits(rights, iova, length);
            Some(Bound {
                region: Binding::new(&mr, request.region, asker.pd, suits)?,
                region_key: request.region,
                access: request.access,
                addr: request.addr,
                length: request.length,
                qp: (self.kind == Kind::Two).then_some(asker.qp),
            })
        };
        grant.key = Key((grant.key.0 & !KEY_TAG) | (request.new_key.0 & KEY_TAG));
        let old = core::mem::replace(&mut grant.bound, bound);
        drop(grant);
        drop(old);
        Ok(())
    }

    /// Ends the window.
    fn close(&self) {
        let mut grant = self.grant.write();
        // A request that has found the window already must not bind it again.
        grant.closed = true;
        let old = grant.bound.take();
        drop(grant);
        drop(old);
    }
}

impl Memory {
    /// Executes a request to bind a window.
    pub(crate) fn bind(&self, asker: Asker, request: &BindRequest) -> Result<(), Fault> {
        let mw = self.window(request.window).ok_or(Fault::Denied)?;
        mw.bind(self, asker, request)
    }
}

/// A window that its owner can use. Dropping it ends the window.
pub(crate) struct Mw {
    mw: Arc<MwCore>,
    key: Key,
    _published: Published<MwCore>,
}

impl Mw {
    /// Makes a window, and lets lookups find it. May sleep. `EBUSY` when there is no index left.
    pub(crate) fn new(table: &Arc<IdTable<MwCore>>, pd: PdId, kind: Kind) -> Result<Self> {
        let slot = table.reserve(Gfp::KERNEL)?;
        let key = key_of(slot.id(), random::byte());
        let mw = Arc::pin_init(
            pin_init!(MwCore {
                pd,
                kind,
                grant <- new_rwlock_irq!(Grant { key, bound: None, closed: false }, "rxe_mw"),
            }),
            GFP_KERNEL,
        )?;
        let published = slot.publish(mw.clone(), Gfp::KERNEL)?;
        Ok(Self {
            mw,
            key,
            _published: published,
        })
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        self.mw.close();
    }
}

/// The rights that peers can have by a window are those that they can have by a region.
const _: () = assert!(SUPPORTED_WINDOW.contains(REMOTE));

#[vtable]
impl MwOps<Rxe> for Mw {
    type OwnerModule = crate::LocalModule;

    fn alloc(
        mw: NewMw<'_>,
        pd: &provider::Pd<Rxe>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        let kind = if mw.is_type_2() { Kind::Two } else { Kind::One };
        let memory = &Shared::of(pd.device()).objects.memory;
        Self::new(&memory.windows, pd.id(), kind).inspect(|new| mw.set_rkey(new.key.0))
    }
}

#[kunit_tests(rust_rxe_mw)]
mod tests {
    use super::*;
    use crate::mr::region_for_test;

    const BASE: u64 = 0x10_0000;
    const LEN: u64 = 0x3000;
    const RIGHTS: Access = Access::LOCAL_WRITE
        .union(Access::MW_BIND)
        .union(Access::REMOTE_WRITE);

    struct Setup {
        memory: Memory,
        asker: Asker,
        mr: crate::mr::Mr,
        region: Key,
    }

    fn setup(rights: Access) -> Result<Setup> {
        let memory = Memory::new()?;
        let asker = Asker {
            pd: PdId::new(),
            qp: QpId::new(),
        };
        let (mr, region) = region_for_test(&memory.regions, asker.pd, rights, (BASE, LEN))?;
        Ok(Setup {
            memory,
            asker,
            mr,
            region,
        })
    }

    impl Setup {
        fn window(&self, kind: Kind) -> Result<Mw> {
            Mw::new(&self.memory.windows, self.asker.pd, kind)
        }

        fn request(&self, mw: &Mw) -> BindRequest {
            BindRequest {
                window: mw.key,
                new_key: Key(mw.key.0 ^ 1),
                region: self.region,
                addr: BASE + 0x800,
                length: 0x1000,
                access: Access::REMOTE_WRITE,
            }
        }

        fn write(&self, key: Key, va: u64, len: u32) -> Result<(), Fault> {
            let need = Access::REMOTE_WRITE;
            let target = self.memory.open_remote(self.asker, key, va, len, need)?;
            target.write(0, &[7; 16][..len.min(16) as usize])
        }
    }

    #[test]
    fn window_that_was_found_before_its_end_is_not_bound() -> Result {
        let setup = setup(RIGHTS)?;
        for kind in [Kind::One, Kind::Two] {
            let mw = setup.window(kind)?;
            let request = setup.request(&mw);
            let found = setup.memory.window(mw.key).ok_or(ENOENT)?;
            drop(mw);
            let bound = found.bind(&setup.memory, setup.asker, &request);
            assert_eq!(bound, Err(Fault::Denied));
        }
        assert_eq!(setup.mr.inner().close_for_test(), Ok(()));
        Ok(())
    }

    #[test]
    fn window_shows_its_own_range_only() -> Result {
        let setup = setup(RIGHTS)?;
        let mw = setup.window(Kind::Two)?;
        let key = setup.request(&mw).new_key;
        // Not bound yet.
        assert_eq!(setup.write(mw.key, BASE + 0x800, 1), Err(Fault::Denied));
        let request = setup.request(&mw);
        assert_eq!(setup.memory.bind(setup.asker, &request), Ok(()));
        assert_eq!(setup.write(key, BASE + 0x800, 16), Ok(()));
        assert_eq!(setup.write(key, BASE + 0x17f0, 16), Ok(()));
        // In the region, but not in the window.
        assert_eq!(setup.write(key, BASE, 16), Err(Fault::Denied));
        assert_eq!(setup.write(key, BASE + 0x7ff, 2), Err(Fault::Denied));
        assert_eq!(setup.write(key, BASE + 0x17f1, 16), Err(Fault::Denied));
        assert_eq!(setup.write(key, u64::MAX, 2), Err(Fault::Denied));
        // The key of before.
        assert_eq!(setup.write(mw.key, BASE + 0x800, 1), Err(Fault::Denied));
        // Another right.
        let need = Access::REMOTE_READ;
        let open = setup
            .memory
            .open_remote(setup.asker, key, BASE + 0x800, 1, need);
        assert!(open.is_err());
        // Another queue pair.
        let stranger = Asker {
            qp: QpId::new(),
            ..setup.asker
        };
        let need = Access::REMOTE_WRITE;
        assert!(setup
            .memory
            .open_remote(stranger, key, BASE + 0x800, 1, need)
            .is_err());
        Ok(())
    }

    #[test]
    fn illegal_binds_are_refused() -> Result {
        let setup = setup(RIGHTS)?;
        let two = setup.window(Kind::Two)?;
        let one = setup.window(Kind::One)?;
        let good = setup.request(&two);
        let bind = |asker, request: BindRequest| setup.memory.bind(asker, &request);
        let refused = [
            BindRequest {
                window: Key(good.window.0 ^ 2),
                ..good
            },
            BindRequest {
                region: Key(good.region.0 ^ 2),
                ..good
            },
            BindRequest { length: 0, ..good },
            BindRequest {
                length: LEN,
                ..good
            },
            BindRequest {
                addr: BASE - 1,
                ..good
            },
            // Ends that wrap.
            BindRequest {
                length: u64::MAX,
                ..good
            },
            BindRequest {
                addr: u64::MAX - 1,
                length: 4,
                ..good
            },
            BindRequest {
                access: Access::from_bits(1 << 19),
                ..good
            },
            BindRequest {
                window: one.key,
                access: Access::REMOTE_WRITE | Access::ZERO_BASED,
                ..good
            },
        ];
        for request in refused {
            assert_eq!(bind(setup.asker, request), Err(Fault::Denied));
        }
        let stranger = Asker {
            pd: PdId::new(),
            ..setup.asker
        };
        assert_eq!(bind(stranger, good), Err(Fault::Denied));
        assert_eq!(bind(setup.asker, good), Ok(()));
        // Type 2 is bound once.
        let again = BindRequest {
            window: good.new_key,
            ..good
        };
        assert_eq!(bind(setup.asker, again), Err(Fault::Denied));
        Ok(())
    }

    #[test]
    fn rights_of_the_region_count() -> Result {
        for (rights, access, allowed) in [
            (Access::MW_BIND, Access::REMOTE_READ, true),
            (Access::MW_BIND, Access::REMOTE_WRITE, false),
            (Access::MW_BIND, Access::REMOTE_ATOMIC, false),
            (Access::LOCAL_WRITE, Access::REMOTE_READ, false),
            (RIGHTS, Access::REMOTE_ATOMIC, true),
        ] {
            let setup = setup(rights)?;
            let mw = setup.window(Kind::Two)?;
            let request = BindRequest {
                access,
                ..setup.request(&mw)
            };
            assert_eq!(setup.memory.bind(setup.asker, &request).is_ok(), allowed);
        }
        Ok(())
    }

    #[test]
    fn invalidation_and_rebinding() -> Result {
        let setup = setup(RIGHTS)?;
        let two = setup.window(Kind::Two)?;
        let request = setup.request(&two);
        let key = request.new_key;
        assert!(setup.memory.invalidate(setup.asker, two.key).is_err());
        assert_eq!(setup.memory.bind(setup.asker, &request), Ok(()));
        let need = Access::REMOTE_WRITE;
        let target = setup
            .memory
            .open_remote(setup.asker, key, BASE + 0x800, 8, need);
        let target = target.map_err(|_| EINVAL)?;
        assert_eq!(target.write(0, &[1; 8]), Ok(()));
        // A region with windows can be neither invalidated nor closed.
        assert!(setup.memory.invalidate(setup.asker, setup.region).is_err());
        assert_eq!(setup.mr.inner().close_for_test().err(), Some(EINVAL));

        let stranger = Asker {
            qp: QpId::new(),
            ..setup.asker
        };
        assert!(setup.memory.invalidate(stranger, key).is_err());
        assert_eq!(setup.memory.invalidate(setup.asker, key), Ok(()));
        assert_eq!(target.write(0, &[1; 8]), Err(Fault::Denied));
        assert!(setup.memory.invalidate(setup.asker, key).is_err());

        // The same key byte again is fine.
        let same = BindRequest {
            window: key,
            new_key: key,
            ..request
        };
        assert_eq!(setup.memory.bind(setup.asker, &same), Ok(()));
        drop(two);
        assert_eq!(setup.memory.invalidate(setup.asker, setup.region), Ok(()));

        Ok(())
    }

    #[test]
    fn type_one_is_bound_by_verbs() -> Result {
        let setup = setup(RIGHTS)?;
        let one = setup.window(Kind::One)?;
        let first = setup.request(&one);
        assert_eq!(setup.memory.bind(setup.asker, &first), Ok(()));
        assert!(setup.memory.invalidate(setup.asker, first.new_key).is_err());
        let second = BindRequest {
            window: first.new_key,
            new_key: Key(first.new_key.0 ^ 3),
            addr: BASE,
            ..first
        };
        assert_eq!(setup.memory.bind(setup.asker, &second), Ok(()));
        assert_eq!(setup.write(second.new_key, BASE, 8), Ok(()));
        assert_eq!(
            setup.write(first.new_key, BASE + 0x800, 8),
            Err(Fault::Denied)
        );
        let unbind = BindRequest {
            window: second.new_key,
            new_key: Key(second.new_key.0 ^ 7),
            length: 0,
            ..first
        };
        assert_eq!(setup.memory.bind(setup.asker, &unbind), Ok(()));
        assert_eq!(setup.write(unbind.new_key, BASE, 8), Err(Fault::Denied));
        assert_eq!(setup.mr.inner().close_for_test(), Ok(()));
        Ok(())
    }

    #[test]
    fn zero_based_window() -> Result {
        let setup = setup(RIGHTS)?;
        let mw = setup.window(Kind::Two)?;
        let request = BindRequest {
            access: Access::REMOTE_WRITE | Access::ZERO_BASED,
            ..setup.request(&mw)
        };
        assert_eq!(setup.memory.bind(setup.asker, &request), Ok(()));
        assert_eq!(setup.write(request.new_key, 0, 16), Ok(()));
        assert_eq!(setup.write(request.new_key, 0xff8, 8), Ok(()));
        assert_eq!(setup.write(request.new_key, 0xff9, 8), Err(Fault::Denied));
        assert_eq!(
            setup.write(request.new_key, BASE + 0x800, 8),
            Err(Fault::Denied)
        );
        Ok(())
    }
}
