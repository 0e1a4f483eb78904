// SPDX-License-Identifier: GPL-2.0

//! Regions of physical memory and of all memory.
//!
//! Today's drivers register memory for the kernel by work request only. So a list of buffers
//! becomes a fast-registration region, and a queue pair of the same domain that is connected to
//! itself executes the request. The region is as long as the buffers are, to the byte: nothing
//! here ever stands in for it with a region of all memory.

use super::{
    layout::{capacity, Layout},
    notes::{self, Content, Memory, Note, Reservation},
};
use crate::verbs::mr;
use kernel::{bindings, prelude::*, sync::Arc, types::ScopeGuard};
use rdma::{
    classic::Promises,
    mr::{Access, Mr, MrKind},
    pd::Pd,
    phys::{PhysBuf, PhysMap, PAGE},
    printk::warn_plain,
    self_qp::SelfQp,
};

/// A region of all memory, for the kernel module `owner`. May sleep.
pub(crate) fn get_dma<'a>(pd: &'a Pd, access: Access, owner: &CStr) -> Result<&'a Mr> {
    access.check(pd.device())?;
    let note = Reservation::new()?;
    let mr = pd.driver_get_dma_mr(access)?;
    mr.set_up_dma(pd);
    if access.is_remote() {
        warn_plain(fmt!("{}: enabling unsafe global rkey\n", owner));
    }
    note.fill(
        mr,
        Note {
            access,
            memory: None,
        },
    );
    Ok(mr)
}

/// Whether the device registers memory by work request.
fn check_device(pd: &Pd) -> Result {
    const REGISTERS: u64 = bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
    if pd.device().attrs().device_cap_flags & REGISTERS == 0 {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

impl Content {
    fn new(pd: &Pd, limit: u32, bufs: &[PhysBuf], iova: u64) -> Result<Self> {
        let layout = Layout::of(bufs)?;
        layout.check_iova(iova)?;
        if layout.pages > limit {
            return Err(E2BIG);
        }
        let map = Arc::new(PhysMap::map(pd.device(), bufs)?, GFP_KERNEL)?;
        Ok(Self { map, layout, iova })
    }

    /// Maps this to a region whose keys are void. A registration takes what was mapped since the
    /// one before, so this precedes each.
    fn place(&self, mr: &Mr) -> Result {
        let mapped = mr::map(mr, self.map.entries(), PAGE as u32)?;
        let (_, length) = mr.range();
        if mapped != self.map.count() || length != self.layout.length {
            return Err(EINVAL);
        }
        mr.set_range(self.iova, length);
        Ok(())
    }
}

/// Registers buffers, the first byte of which peers know by `iova`. May sleep.
pub(crate) fn register<'a>(
    pd: &'a Pd,
    bufs: &[PhysBuf],
    access: Access,
    iova: u64,
) -> Result<&'a Mr> {
    let device = pd.device();
    check_device(pd)?;
    access.check(device)?;
    let limit = device.attrs().max_fast_reg_page_list_len;

    let note = Reservation::new()?;
    // Declared before the region, so that it is unmapped after that is gone.
    let content = Content::new(pd, limit, bufs, iova)?;
    let capacity = capacity(content.layout.pages, limit)?;
    let mr = ScopeGuard::new_with_data(mr::alloc(pd, MrKind::MemReg, capacity)?, |mr| {
        let _ = mr::dereg(mr, None);
    });
    content.place(*mr)?;
    SelfQp::new(pd)?.register(*mr, access)?;

    let mr = mr.dismiss();
    note.fill(
        mr,
        Note {
            access,
            memory: Some(Memory {
                content,
                capacity,
                valid: true,
            }),
        },
    );
    Ok(mr)
}

/// What a reregistration changes.
pub(crate) struct Change<'a> {
    /// Buffers and the address of the first byte.
    pub(crate) memory: Option<(&'a [PhysBuf], u64)>,
    /// Domain.
    pub(crate) pd: Option<&'a Pd>,
    /// Rights.
    pub(crate) access: Option<Access>,
}

/// Changes a region of [`register`]. May sleep.
///
/// All that can be refused is refused before the old keys are void; then the region is as it was.
pub(crate) fn reregister(mr: &Mr, change: Change<'_>) -> Result {
    let (old_access, old_content, capacity, valid) = notes::with(mr, |note| {
        let memory = note.memory.as_ref()?;
        let content = memory.content.clone();
        Some((note.access, content, memory.capacity, memory.valid))
    })
    .flatten()
    .ok_or(EINVAL)?;

    let access = change.access.unwrap_or(old_access);
    access.check(mr.device())?;
    let new_pd = change.pd.filter(|pd| !core::ptr::eq(*pd, mr.pd()));
    if let Some(pd) = new_pd {
        if !core::ptr::eq(pd.device(), mr.device()) {
            return Err(EINVAL);
        }
        if !Promises::of(mr.device()).user_ops_take_kernel_objects() {
            return Err(EOPNOTSUPP);
        }
    }
    let content = match change.memory {
        Some((bufs, iova)) => Content::new(mr.pd(), capacity, bufs, iova)?,
        None => old_content.clone(),
    };
    let old_qp = SelfQp::new(mr.pd())?;
    let new_qp = new_pd.map(SelfQp::new).transpose()?;

    if valid {
        old_qp.invalidate(mr.rkey())?;
        notes::with(mr, |note| {
            if let Some(memory) = &mut note.memory {
                memory.valid = false;
            }
        });
    }
    if let Some(pd) = new_pd {
        mr.driver_move(pd)?;
    }
    content.place(mr)?;
    mr.renew_key();
    new_qp.as_ref().unwrap_or(&old_qp).register(mr, access)?;

    // The memory before is unmapped at the end of this function, with the last reference to it.
    notes::with(mr, |note| {
        note.access = access;
        if let Some(memory) = &mut note.memory {
            memory.content = content;
            memory.valid = true;
        }
    });
    Ok(())
}

/// What [`query`] tells of a region.
pub(crate) struct Attributes {
    /// Rights.
    pub(crate) access: Access,
    /// First address and bytes.
    pub(crate) range: (u64, u64),
}

/// Rights and range of a region that the classic calls made. Any context.
pub(crate) fn query(mr: &Mr) -> Result<Attributes> {
    notes::with(mr, |note| Attributes {
        access: note.access,
        range: match &note.memory {
            Some(memory) => (memory.content.iova, memory.content.layout.length),
            None => (0, u64::MAX),
        },
    })
    .ok_or(EOPNOTSUPP)
}
