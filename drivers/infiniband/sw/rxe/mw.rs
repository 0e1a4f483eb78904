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
    /// Whether accesses sleep.
    pub(crate) fn may_sleep(&self) -> bool {
        let grant = self.grant.read();
        let bound = grant.bound.as_ref();
        bound.is_some_and(|bound| bound.region.mr().may_sleep())
    }

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
        let allowed = grant.key == request.window
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
        let old = self.grant.write().bound.take();
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
                grant <- new_rwlock_irq!(Grant { key, bound: None }, "rxe_mw"),
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
