// SPDX-License-Identifier: GPL-2.0

//! Moving data between the memory of requests.

use super::{
    device::State,
    memory::{Piece, Region},
};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    mr::Access,
    provider::{Sge, WcStatus},
};

/// Most scatter/gather entries of a request.
pub(crate) const MAX_SGE: usize = 16;

/// Most bytes of a request that carries its data itself.
pub(crate) const MAX_INLINE: usize = 256;

/// The memory of a request.
#[derive(Clone, Copy)]
pub(crate) struct Sges {
    list: [Sge; MAX_SGE],
    count: usize,
}

impl Sges {
    /// Copies a list; `EINVAL` if it is longer than `max`.
    pub(crate) fn new(from: &[Sge], max: u32) -> Result<Self> {
        let mut list = [Sge::new(0, 0, 0); MAX_SGE];
        if from.len() > max as usize {
            return Err(EINVAL);
        }
        list.get_mut(..from.len())
            .ok_or(EINVAL)?
            .copy_from_slice(from);
        Ok(Self {
            list,
            count: from.len(),
        })
    }

    /// No memory.
    pub(crate) const NONE: Self = Self {
        list: [Sge::new(0, 0, 0); MAX_SGE],
        count: 0,
    };

    fn iter(&self) -> impl Iterator<Item = &Sge> {
        self.list.iter().take(self.count)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.iter().map(|sge| u64::from(sge.len())).sum()
    }
}

/// Data on its way.
pub(crate) type Message = KVVec<u8>;

/// # Safety
///
/// The consumer's registration says that the memory is readable at this time.
unsafe fn append(message: &mut Message, piece: Piece) {
    let from = piece.addr as usize as *const u8;
    for at in 0..piece.len {
        // SAFETY: By the contract of this function. The bytes may change meanwhile, as those that
        // a device reads may, hence the volatile access.
        let byte = unsafe { from.wrapping_add(at).read_volatile() };
        // There is room, see `read`.
        let _ = message.push_within_capacity(byte);
    }
}

/// # Safety
///
/// The consumer's registration says that the memory is writable at this time.
unsafe fn store(piece: Piece, bytes: &[u8]) {
    let to = piece.addr as usize as *mut u8;
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: By the contract of this function.
        unsafe { to.wrapping_add(at).write_volatile(*byte) };
    }
}

fn local(state: &State, sge: &Sge) -> core::result::Result<Arc<Region>, WcStatus> {
    state
        .regions
        .find(sge.lkey())
        .ok_or(WcStatus::LocalProtection)
}

/// Reads the memory of a local request.
pub(crate) fn gather(
    state: &State,
    pd: u32,
    sges: &Sges,
) -> core::result::Result<Message, WcStatus> {
    let len = usize::try_from(sges.len()).map_err(|_| WcStatus::LocalLength)?;
    let mut message =
        KVVec::with_capacity(len, GFP_KERNEL).map_err(|_| WcStatus::LocalQpOperation)?;
    for sge in sges.iter().filter(|sge| !sge.is_empty()) {
        let region = local(state, sge)?;
        region
            .walk(
                sge.lkey(),
                pd,
                Access::NONE,
                sge.addr(),
                sge.len(),
                |piece| {
                    // SAFETY: The region was registered for this.
                    unsafe { append(&mut message, piece) }
                },
            )
            .map_err(|_| WcStatus::LocalProtection)?;
    }
    Ok(message)
}

/// Writes to the memory of a local request, which is large enough.
pub(crate) fn scatter(
    state: &State,
    pd: u32,
    sges: &Sges,
    bytes: &[u8],
) -> core::result::Result<(), WcStatus> {
    if sges.len() < bytes.len() as u64 {
        return Err(WcStatus::LocalLength);
    }
    let mut rest = bytes;
    for sge in sges.iter() {
        let take = rest.len().min(sge.len() as usize);
        let Some((now, later)) = rest.split_at_checked(take) else {
            break;
        };
        if !now.is_empty() {
            let region = local(state, sge)?;
            write_region(
                &region,
                sge.lkey(),
                pd,
                Access::LOCAL_WRITE,
                sge.addr(),
                now,
            )
            .map_err(|_| WcStatus::LocalProtection)?;
        }
        rest = later;
    }
    Ok(())
}

fn write_region(
    region: &Region,
    key: u32,
    pd: u32,
    need: Access,
    addr: u64,
    bytes: &[u8],
) -> Result {
    let len = u32::try_from(bytes.len())?;
    // All or nothing: look first.
    region.walk(key, pd, need, addr, len, |_| {})?;
    let mut rest = bytes;
    region.walk(key, pd, need, addr, len, |piece| {
        if let Some((now, later)) = rest.split_at_checked(piece.len) {
            // SAFETY: The region was registered for this.
            unsafe { store(piece, now) };
            rest = later;
        }
    })
}

/// Reads memory of the peer.
pub(crate) fn remote_read(
    state: &State,
    pd: u32,
    rkey: u32,
    need: Access,
    addr: u64,
    len: u32,
) -> core::result::Result<Message, WcStatus> {
    let mut message =
        KVVec::with_capacity(len as usize, GFP_KERNEL).map_err(|_| WcStatus::RemoteOperation)?;
    if len == 0 {
        return Ok(message);
    }
    let region = state.regions.find(rkey).ok_or(WcStatus::RemoteAccess)?;
    region
        .walk(rkey, pd, need, addr, len, |piece| {
            // SAFETY: The region was registered for this.
            unsafe { append(&mut message, piece) }
        })
        .map_err(|_| WcStatus::RemoteAccess)?;
    Ok(message)
}

/// Writes to memory of the peer.
pub(crate) fn remote_write(
    state: &State,
    pd: u32,
    rkey: u32,
    need: Access,
    addr: u64,
    bytes: &[u8],
) -> core::result::Result<(), WcStatus> {
    if bytes.is_empty() {
        return Ok(());
    }
    let region = state.regions.find(rkey).ok_or(WcStatus::RemoteAccess)?;
    write_region(&region, rkey, pd, need, addr, bytes).map_err(|_| WcStatus::RemoteAccess)
}
