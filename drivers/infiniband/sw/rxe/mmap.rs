// SPDX-License-Identifier: GPL-2.0

//! How a process gets at the rings of its queues: by cookies, each good for one `mmap`.
//!
//! The answer to the creation of a queue tells offset and size of its ring. The cookie is good until
//! it is used, or until the queue is gone. The memory lives as long as the queue or a mapping.

use crate::{
    abi::MmapInfo,
    device::Rxe, //
};
use kernel::{
    mm::virt::VmaNew,
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
use rdma::{
    provider::{
        self,
        UcontextOps, //
        Udata,
    },
    user_ring::{
        vma_offset,
        vma_size,
        UserPages, //
    }, //
};

/// The context of a process.
pub(crate) struct Ucontext {
    maps: Arc<UserMaps>,
}

#[vtable]
impl UcontextOps<Rxe> for Ucontext {
    type OwnerModule = crate::LocalModule;

    fn alloc(_device: &provider::Device<Rxe>, _udata: Udata<'_>) -> impl PinInit<Self, Error> {
        let make = || {
            Ok::<_, Error>(Self {
                maps: UserMaps::new()?,
            })
        };
        make()
    }

    fn mmap(this: &provider::Ucontext<Rxe>, vma: &VmaNew) -> Result {
        this.maps.map(vma)
    }

    /// Mappings and rings have nothing of the device.
    fn disassociate(_this: &provider::Ucontext<Rxe>) {}
}

/// The rings of the process that makes a call; `EINVAL` for a consumer in the kernel.
pub(crate) fn maps_of(udata: Udata<'_>) -> Result<&Arc<UserMaps>> {
    let context = udata.context::<Rxe>().ok_or(EINVAL)?;
    Ok(&context.maps)
}

/// Rings of a process that wait to be mapped.
#[pin_data]
pub(crate) struct UserMaps {
    #[pin]
    waiting: SpinLock<Waiting>,
}

struct Waiting {
    /// Sorted by offset, as offsets are never used twice.
    entries: KVec<(u64, Arc<UserPages>)>,
    next_offset: u64,
}

impl UserMaps {
    /// None yet. May sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(Waiting {
                    entries: KVec::new(),
                    next_offset: PAGE_SIZE as u64,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets the process map `pages`, once, as long as the result exists. May sleep.
    pub(crate) fn offer(self: &Arc<Self>, pages: &Arc<UserPages>) -> Result<Offer> {
        let mut room = KVec::new();
        loop {
            let mut waiting = self.waiting.lock();
            if waiting.entries.len() < waiting.entries.capacity() {
                let offset = waiting.next_offset;
                let info = MmapInfo::new(offset, pages)?;
                let next = offset.checked_add(pages.length() as u64).ok_or(ENOMEM)?;
                waiting
                    .entries
                    .push_within_capacity((offset, pages.clone()))
                    .map_err(|_| ENOMEM)?;
                waiting.next_offset = next;
                drop(waiting);
                return Ok(Offer {
                    maps: self.clone(),
                    offset,
                    info,
                });
            }
            // Grow without allocating under the lock: move to a larger array that was made before.
            let need = waiting.entries.len().saturating_add(1);
            if room.capacity() >= need {
                for entry in waiting.entries.drain_all() {
                    room.push_within_capacity(entry).map_err(|_| ENOMEM)?;
                }
                core::mem::swap(&mut waiting.entries, &mut room);
                continue;
            }
            drop(waiting);
            room = KVec::with_capacity(need.saturating_mul(2), GFP_KERNEL)?;
        }
    }

    /// Maps the ring that `vma` asks for. Called with the lock of the process's memory held.
    ///
    /// `EINVAL` if no ring waits at the offset or the mapping is longer than the ring; the cookie
    /// is still good in the latter case.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        self.take(vma_offset(vma), vma_size(vma))?.map(vma)
    }

    fn take(&self, offset: u64, size: usize) -> Result<Arc<UserPages>> {
        let mut waiting = self.waiting.lock();
        let find = |entry: &(u64, Arc<UserPages>)| entry.0.cmp(&offset);
        let at = waiting.entries.binary_search_by(find).map_err(|_| EINVAL)?;
        let (_, pages) = waiting.entries.get(at).ok_or(EINVAL)?;
        if size > pages.length() {
            return Err(EINVAL);
        }
        let (_, pages) = waiting.entries.remove(at).map_err(|_| EINVAL)?;
        Ok(pages)
    }

    fn withdraw(&self, offset: u64) {
        // Taken out first and dropped after unlock: the memory may go with it.
        let pages = self.take(offset, 0);
        drop(pages);
    }
}

/// A ring that its process may map. Dropping it withdraws the cookie, if it was not used.
pub(crate) struct Offer {
    maps: Arc<UserMaps>,
    offset: u64,
    info: MmapInfo,
}

impl Offer {
    /// What the process has to know.
    pub(crate) fn info(&self) -> MmapInfo {
        self.info
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.maps.withdraw(self.offset);
    }
}

#[kunit_tests(rust_rxe_mmap)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_good_once() -> Result {
        let maps = UserMaps::new()?;
        let pages = UserPages::new(3 * PAGE_SIZE)?;
        let first = maps.offer(&pages)?;
        let second = maps.offer(&pages)?;
        assert!(first.offset != second.offset);
        // Longer than the ring: refused, but not used up.
        assert!(maps.take(first.offset, 4 * PAGE_SIZE).is_err());
        assert!(maps.take(first.offset.wrapping_add(1), 1).is_err());
        assert!(maps.take(first.offset, 3 * PAGE_SIZE).is_ok());
        assert!(maps.take(first.offset, 3 * PAGE_SIZE).is_err());
        let offset = second.offset;
        drop(second);
        assert!(maps.take(offset, 1).is_err());
        Ok(())
    }

    #[test]
    fn many_wait() -> Result {
        let maps = UserMaps::new()?;
        let pages = UserPages::new(PAGE_SIZE)?;
        let mut offers = KVec::new();
        for _ in 0..100 {
            offers.push(maps.offer(&pages)?, GFP_KERNEL)?;
        }
        for offer in &offers {
            assert!(maps.take(offer.offset, PAGE_SIZE).is_ok());
        }
        drop(offers);
        assert!(maps.waiting.lock().entries.is_empty());
        Ok(())
    }
}
