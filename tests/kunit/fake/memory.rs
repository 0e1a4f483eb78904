// SPDX-License-Identifier: GPL-2.0

//! Memory regions: what a key gives access to.
//!
//! Fake devices have no DMA device, so every bus address is an address of the kernel.

use super::{device::Fake, fabric, objects::Counted, ops::Op};
use kernel::{
    prelude::*,
    sync::{new_spinlock_irq, Arc, SpinLockIrq},
};
use rdma::{
    cpu_memory::{KernelMemory, PageAddr},
    mr::{Access, MrKind, SgList},
    provider::{Mr, MrOps, NewMr, Pd, Udata, UserRegion},
};

/// What a region covers at the moment.
pub(crate) struct Content {
    /// The key's low byte is part of it; nothing while the region is not registered.
    key: Option<u32>,
    access: Access,
    iova: u64,
    len: u64,
    /// All memory, at its own address.
    everything: bool,
    pages: KVVec<u64>,
    page_size: u64,
}

/// A region, as work requests find it by its key.
#[pin_data]
pub(crate) struct Region {
    /// The key without its low byte.
    base: u32,
    pd: u32,
    #[pin]
    content: SpinLockIrq<Content>,
}

/// A piece of the kernel's memory.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}

impl Region {
    /// Calls `f` with the pieces that `addr` and `len` name, if the region has the rights and lies
    /// in the domain.
    pub(crate) fn walk(
        &self,
        key: u32,
        pd: u32,
        need: Access,
        addr: u64,
        len: u32,
        mut f: impl FnMut(Piece),
    ) -> Result {
        let content = self.content.lock();
        if content.key != Some(key) || self.pd != pd || !content.access.contains(need) {
            return Err(EACCES);
        }
        let len = u64::from(len);
        if content.everything {
            addr.checked_add(len).ok_or(EACCES)?;
            f(Piece {
                addr,
                len: len as usize,
            });
            return Ok(());
        }
        let start = addr.checked_sub(content.iova).ok_or(EACCES)?;
        if start.checked_add(len).ok_or(EACCES)? > content.len {
            return Err(EACCES);
        }
        // The first page may begin before the region does.
        let mask = content.page_size.checked_sub(1).ok_or(EACCES)?;
        let mut at = start.checked_add(content.iova & mask).ok_or(EACCES)?;
        let mut left = len;
        while left > 0 {
            let index = at.checked_div(content.page_size).ok_or(EACCES)?;
            let offset = at & mask;
            let page = content.pages.get(index as usize).ok_or(EACCES)?;
            let piece = left.min(content.page_size - offset);
            f(Piece {
                addr: page.wrapping_add(offset),
                len: piece as usize,
            });
            at += piece;
            left -= piece;
        }
        Ok(())
    }

    /// Takes the region's content away, if the key is the current one.
    pub(crate) fn invalidate(&self, key: u32, pd: u32) -> Result {
        let mut content = self.content.lock();
        if content.key != Some(key) || self.pd != pd || content.everything {
            return Err(EACCES);
        }
        content.key = None;
        Ok(())
    }

    /// Makes the region usable under a key.
    pub(crate) fn register(
        &self,
        key: u32,
        pd: u32,
        access: Access,
        iova: u64,
        len: u64,
    ) -> Result {
        let mut content = self.content.lock();
        if key & !0xff != self.base || self.pd != pd || content.key.is_some() || content.everything
        {
            return Err(EACCES);
        }
        content.key = Some(key);
        content.access = access;
        content.iova = iova;
        content.len = len;
        Ok(())
    }
}

/// The regions of a device.
#[pin_data]
pub(crate) struct Regions {
    #[pin]
    list: SpinLockIrq<KVVec<Arc<Region>>>,
}

impl Regions {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock_irq!(KVVec::new()),
        })
    }

    /// The region of a key, registered or not.
    pub(crate) fn find(&self, key: u32) -> Option<Arc<Region>> {
        let list = self.list.lock();
        list.iter()
            .find(|region| region.base == key & !0xff)
            .cloned()
    }

    fn add(&self, region: &Arc<Region>) -> Result {
        // Memory first, as nothing may sleep under the lock.
        loop {
            let wanted = self.list.lock().len() + 1;
            let mut grown = KVVec::with_capacity(wanted.next_power_of_two(), GFP_KERNEL)?;
            let mut list = self.list.lock();
            if list.len() >= grown.capacity() {
                continue;
            }
            for old in list.iter() {
                grown.push(old.clone(), GFP_ATOMIC)?;
            }
            grown.push(region.clone(), GFP_ATOMIC)?;
            let old = core::mem::replace(&mut *list, grown);
            drop(list);
            drop(old);
            return Ok(());
        }
    }

    fn remove(&self, region: &Arc<Region>) {
        self.list.lock().retain(|other| !Arc::ptr_eq(other, region));
    }
}

/// A memory region.
pub(crate) struct FakeMr {
    pub(crate) region: Arc<Region>,
    max_pages: usize,
    counted: Counted,
}

impl FakeMr {
    fn new(pd: &Pd<Fake>, mr: NewMr<'_>, by: Op, content: Content, max_pages: u32) -> Result<Self> {
        let device = pd.device();
        let base = fabric::next_id() << 8;
        let key = base | 1;
        let content = Content {
            key: content.everything.then_some(key),
            pages: KVVec::with_capacity(max_pages as usize, GFP_KERNEL)?,
            ..content
        };
        let region = Arc::pin_init(
            try_pin_init!(Region {
                base,
                pd: pd.id,
                content <- new_spinlock_irq!(content),
            }? Error),
            GFP_KERNEL,
        )?;
        device.state.regions.add(&region)?;
        mr.set_keys(key, key);
        Ok(Self {
            region,
            max_pages: max_pages as usize,
            counted: Counted::new(device, by),
        })
    }

    fn new_dma(pd: &Pd<Fake>, mr: NewMr<'_>, access: Access) -> Result<Self> {
        let args = [pd.id.into(), access.bits() as u64, 0];
        pd.device().state.script.enter(Op::GET_DMA_MR, args)?;
        let content = Content {
            access,
            everything: true,
            ..Content::none()
        };
        Self::new(pd, mr, Op::GET_DMA_MR, content, 0)
    }

    fn new_fast(pd: &Pd<Fake>, mr: NewMr<'_>, kind: MrKind, max_sg: u32) -> Result<Self> {
        let args = [pd.id.into(), kind.as_raw().into(), max_sg.into()];
        let state = &pd.device().state;
        state.script.enter(Op::ALLOC_MR, args)?;
        if kind != MrKind::MemReg || max_sg > state.config.max_fast_reg_pages {
            return Err(EINVAL);
        }
        Self::new(pd, mr, Op::ALLOC_MR, Content::none(), max_sg)
    }
}

impl Content {
    const fn none() -> Self {
        Self {
            key: None,
            access: Access::NONE,
            iova: 0,
            len: 0,
            everything: false,
            pages: KVVec::new(),
            page_size: 0,
        }
    }
}

impl Drop for FakeMr {
    fn drop(&mut self) {
        self.counted.state.regions.remove(&self.region);
        // A request that has found the region gets nowhere with it.
        let pages = {
            let mut content = self.region.content.lock();
            content.key = None;
            core::mem::replace(&mut content.pages, KVVec::new())
        };
        drop(pages);
    }
}

#[vtable]
impl MrOps<Fake> for FakeMr {
    fn dma(
        pd: &Pd<Fake>,
        mr: NewMr<'_>,
        access: Access,
        _memory: KernelMemory,
    ) -> impl PinInit<Self, Error> {
        Self::new_dma(pd, mr, access)
    }

    fn alloc(pd: &Pd<Fake>, mr: NewMr<'_>, kind: MrKind, max_sg: u32) -> impl PinInit<Self, Error> {
        Self::new_fast(pd, mr, kind, max_sg)
    }

    /// There are no users in user space. The operation is there because the core asks for it.
    fn register_user(
        _pd: &Pd<Fake>,
        _mr: NewMr<'_>,
        _region: &UserRegion,
        _access: Access,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Err::<Self, Error>(EOPNOTSUPP)
    }

    fn map_sg(this: &Mr<Fake>, list: SgList<'_>) -> Result<u32> {
        this.device()
            .state
            .script
            .enter(Op::MAP_MR_SG, [this.core().lkey().into(), 0, 0])?;
        {
            let mut content = this.region.content.lock();
            content.pages.clear();
            content.page_size = this.core().page_size().into();
        }
        this.map_pages(list)
    }

    fn set_page(this: &Mr<Fake>, page: PageAddr) -> Result {
        let mut content = this.region.content.lock();
        if content.pages.len() == this.max_pages {
            return Err(ENOMEM);
        }
        content
            .pages
            .push(page.dma_address(), GFP_ATOMIC)
            .map_err(|_| ENOMEM)
    }

    fn deregister(this: &Mr<Fake>, _udata: Udata<'_>) -> Result {
        this.device()
            .state
            .script
            .enter(Op::DEREG_MR, [this.core().lkey().into(), 0, 0])
    }
}
