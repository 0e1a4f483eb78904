// SPDX-License-Identifier: GPL-2.0

//! The verbs of regions.

use super::{
    Change,
    MrCore,
    OpenMr,
    Use,
    SUPPORTED, //
};
use crate::{
    device::{
        Rxe,
        Shared, //
    },
    ids::{
        IdTable,
        Published, //
    },
    mem::key_of,
    pd::PdId,
    wire::ext::Key, //
};
use kernel::{
    bindings,
    error::code,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cpu_memory::{
        KernelMemory,
        PageAddr,
        Prefetch, //
    },
    gfp::Gfp,
    mr::{
        Access,
        MrKind,
        SgList, //
    },
    provider::{
        self,
        MrOps,
        NewMr,
        Rereg,
        Sge,
        Udata,
        UserRegion, //
    },
    random, //
};

/// A region that its owner can use. Dropping it ends the region; may sleep then.
pub(crate) struct Mr {
    core: Arc<MrCore>,
    key: Key,
    _published: Published<MrCore>,
}

impl Mr {
    /// Makes a region of memory that was opened, and lets lookups find it. May sleep. `EBUSY` when
    /// there is no index left.
    pub(super) fn new(table: &Arc<IdTable<MrCore>>, pd: PdId, open: OpenMr) -> Result<Self> {
        let slot = table.reserve(Gfp::KERNEL)?;
        let key = key_of(slot.id(), random::byte());
        let core = open.into_core(key, pd)?;
        let published = slot.publish(core.clone(), Gfp::KERNEL)?;
        Ok(Self {
            core,
            key,
            _published: published,
        })
    }

    /// The key at creation.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) fn key(&self) -> Key {
        self.key
    }

    fn in_domain(pd: &provider::Pd<Rxe>, mr: NewMr<'_>, open: OpenMr) -> Result<Self> {
        let table = &Shared::of(pd.device()).objects.memory.regions;
        let this = Self::new(table, pd.id(), open)?;
        mr.set_keys(this.key.0, this.key.0);
        Ok(this)
    }

    /// What the data path holds.
    pub(crate) fn inner(&self) -> &Arc<MrCore> {
        &self.core
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Nothing is left to do if the owner closed the region. Windows that are bound keep what
        // they need until they go.
        let _ = self.core.close();
    }
}

/// `EOPNOTSUPP` for rights that no region can have.
fn check_rights(access: Access) -> Result {
    if SUPPORTED.contains(access) {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
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
        check_rights(access)?;
        Self::in_domain(pd, mr, OpenMr::kernel(memory, access))
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
        Self::in_domain(pd, mr, OpenMr::fast(max_sg)?)
    }

    fn register_user(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        region: &UserRegion,
        access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        check_rights(access)?;
        let sleepers = &Shared::of(pd.device()).objects.memory.sleepers;
        let device = pd.device().core();
        let (start, length) = (region.start, region.length);
        let open = OpenMr::user(device, sleepers, start, length, region.iova, access)?;
        Self::in_domain(pd, mr, open)
    }

    fn register_dmabuf(
        pd: &provider::Pd<Rxe>,
        mr: NewMr<'_>,
        region: &UserRegion,
        fd: i32,
        access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        check_rights(access)?;
        let open = OpenMr::dmabuf(fd, region.start, region.length, region.iova, access)?;
        Self::in_domain(pd, mr, open)
    }

    fn reregister(this: &provider::Mr<Rxe>, change: &Rereg<'_, Rxe>, _udata: Udata<'_>) -> Result {
        change.access.map_or(Ok(()), check_rights)?;
        let change = Change {
            memory: change
                .region
                .map(|region| (region.start, region.length, region.iova)),
            access: change.access,
            pd: change.pd.map(|pd| pd.id()),
        };
        let device = this.device();
        let sleepers = &Shared::of(device).objects.memory.sleepers;
        this.core.reregister(device.core(), sleepers, &change)
    }

    fn map_sg(this: &provider::Mr<Rxe>, list: SgList<'_>) -> Result<u32> {
        let inner = this.inner();
        inner.begin_map(this.core().page_size())?;
        let mapped = this.map_pages(list)?;
        let (iova, length) = this.core().range();
        inner.end_map(iova, length)?;
        Ok(mapped)
    }

    fn set_page(this: &provider::Mr<Rxe>, page: PageAddr) -> Result {
        this.inner().map_page(page)
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
        this.inner().close()
    }
}
