// SPDX-License-Identifier: GPL-2.0

//! The verbs of completion queues.

use super::{
    CqCore,
    Entries,
    KernelRing,
    Moderation,
    Wish,
    MAX_CQE, //
};
use crate::{
    abi,
    device::Rxe,
    mmap::{
        self,
        Offer, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use rdma::{
    provider::{
        self,
        CqOps,
        CqRequest,
        NewCq,
        Notify,
        Udata,
        WcSlots, //
    },
    user_ring::{
        Geometry,
        ReportRing, //
    }, //
};

/// A completion queue.
pub(crate) struct Cq {
    core: Arc<CqCore>,
    /// The ring's cookie, of a queue of user space.
    offer: Pin<KBox<Mutex<Option<Offer>>>>,
}

/// Room for `entries` completions of user space. `EINVAL` for none or too many.
fn user_ring(entries: u32) -> Result<ReportRing> {
    check_entries(entries)?;
    let geometry = Geometry::new(entries, abi::CQE_SLOT).ok_or(EINVAL)?;
    ReportRing::new(geometry)
}

fn check_entries(entries: u32) -> Result {
    if entries == 0 || entries > MAX_CQE {
        return Err(EINVAL);
    }
    Ok(())
}

impl Cq {
    /// What the data path holds.
    pub(crate) fn inner(&self) -> &Arc<CqCore> {
        &self.core
    }

    fn new(
        device: &provider::Device<Rxe>,
        cq: NewCq<'_>,
        request: &CqRequest,
        udata: Udata<'_>,
    ) -> Result<Self> {
        if request.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        check_entries(request.entries)?;
        if request.vector as i32 >= device.core().num_comp_vectors() {
            return Err(EINVAL);
        }
        let (entries, offer) = if udata.is_user() {
            if udata.output_len() < size_of::<abi::CqResponse>() {
                return Err(EINVAL);
            }
            let ring = user_ring(request.entries)?;
            let offer = mmap::maps_of(udata)?.offer(ring.pages())?;
            cq.set_entries(ring.geometry().capacity());
            (Entries::User(ring), Some(offer))
        } else {
            // As many as a ring in shared memory would have.
            let geometry = Geometry::new(request.entries, abi::CQE_SLOT).ok_or(EINVAL)?;
            cq.set_entries(geometry.capacity());
            (Entries::Kernel(KernelRing::new(geometry.capacity())?), None)
        };
        let core = CqCore::new(entries)?;
        Ok(Self {
            core,
            offer: KBox::pin_init(new_mutex!(offer, "rxe_cq_offer"), GFP_KERNEL)?,
        })
    }

    /// Replaces the entries of a queue in the kernel by others of another number.
    fn replace_entries(&self, entries: u32) -> Result<u32> {
        check_entries(entries)?;
        let geometry = Geometry::new(entries, abi::CQE_SLOT).ok_or(EINVAL)?;
        let mut fresh = KernelRing::new(geometry.capacity())?;
        let result = self.core.with_entries(|entries| match entries {
            Entries::Kernel(ring) => ring.change_places(&mut fresh),
            Entries::User(_) => Err(EINVAL),
        });
        // The old entries go after unlock.
        result.map(|()| geometry.capacity())
    }

    /// Replaces the ring by one of another size.
    fn replace_ring(&self, entries: u32, udata: Udata<'_>) -> Result<u32> {
        let mut fresh = user_ring(entries)?;
        let geometry = fresh.geometry();
        let new_offer = mmap::maps_of(udata)?.offer(fresh.pages())?;
        let mut offer = self.offer.lock();
        udata.respond(&new_offer.info())?;
        self.core.with_entries(|entries| match entries {
            Entries::User(ring) => ring.change_places(&mut fresh),
            Entries::Kernel(_) => Err(EINVAL),
        })?;
        *offer = Some(new_offer);
        Ok(geometry.capacity())
    }
}

#[vtable]
impl CqOps<Rxe> for Cq {
    type OwnerModule = crate::LocalModule;

    fn create(
        device: &provider::Device<Rxe>,
        cq: NewCq<'_>,
        request: &CqRequest,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, cq, request, udata)
    }

    fn created(this: &provider::Cq<Rxe>, udata: Udata<'_>) -> Result {
        if let Some(offer) = &*this.offer.lock() {
            udata.respond(&offer.info())?;
        }
        this.core.connect(this.handle()?);
        Ok(())
    }

    fn poll(this: &provider::Cq<Rxe>, slots: &mut WcSlots<'_>) -> Result {
        this.core.with_entries(|entries| {
            let Entries::Kernel(ring) = entries else {
                // User space takes its completions from the ring.
                return Err(EINVAL);
            };
            while slots.room() > 0 {
                let Some(wc) = ring.pop() else { break };
                if !slots.push(&wc) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn peek(this: &provider::Cq<Rxe>, limit: u32) -> Result<u32> {
        Ok(this.core.with_entries(|entries| entries.len()).min(limit))
    }

    fn request_notify(this: &provider::Cq<Rxe>, notify: Notify) -> Result<bool> {
        let wish = if notify.solicited_only {
            Wish::Solicited
        } else {
            Wish::Next
        };
        let waiting = this.core.arm(wish);
        Ok(notify.report_missed && waiting)
    }

    fn moderate(this: &provider::Cq<Rxe>, count: u16, period: u16) -> Result {
        this.core.moderate(Moderation::new(count, period));
        Ok(())
    }

    fn resize(this: &provider::Cq<Rxe>, entries: u32, udata: Udata<'_>) -> Result {
        let entries = if udata.is_user() {
            if udata.output_len() < size_of::<abi::CqResponse>() {
                return Err(EINVAL);
            }
            this.replace_ring(entries, udata)?
        } else {
            this.replace_entries(entries)?
        };
        this.set_entries(entries);
        Ok(())
    }
}
