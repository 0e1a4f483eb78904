// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use crate::{
    abi::{
        ModifySrqCommand,
        SrqResponse, //
    },
    cq::CqCore,
    device::{
        Rxe,
        Shared, //
    },
    ids::Published,
    mmap::{
        self,
        Offer, //
    },
    pd::{
        PdId,
        XrcdId, //
    },
    proto::wr::RecvWqe,
    wq::Recvs,
    wqe::{
        recv_from_kernel,
        RecvLocal,
        TailPool, //
    }, //
};
use kernel::{
    bindings,
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex,
        SetOnce,
        SpinLockIrq, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use rdma::{
    gfp::Gfp,
    provider::{
        self,
        Handle,
        NewSrq,
        RecvList,
        SrqChange,
        SrqEvent,
        SrqOps,
        Udata, //
    },
    srq::{
        SrqAttr,
        SrqInitAttr, //
    }, //
};

/// Most requests of a queue.
pub(crate) const MAX_WR: u32 = 1 << 20;
/// Most scatter/gather entries of a request.
pub(crate) const MAX_SGE: u32 = 27;

struct State {
    recvs: Recvs,
    /// Memory for requests of a consumer in the kernel.
    tails: Arc<TailPool>,
    /// Tell when fewer requests than this are left; 0 is never.
    limit: u32,
    /// The consumer has destroyed the queue: nothing is taken from it, and it is told of nothing.
    closed: bool,
}

/// What an XRC queue has instead of the queue pairs that take from it: their peers name it.
struct Xrc {
    /// Where targets have to be to reach it.
    domain: XrcdId,
    /// Of its requests, and of the memory that is reached through it.
    pd: PdId,
    cq: Arc<CqCore>,
}

/// What of a shared receive queue the data path holds.
#[pin_data]
pub(crate) struct SrqCore {
    max_sge: u32,
    xrc: Option<Xrc>,
    #[pin]
    state: SpinLockIrq<State>,
    consumer: SetOnce<Handle<provider::Srq<Rxe>>>,
}

/// A request that was taken.
pub(crate) struct Taken {
    pub(crate) wqe: RecvWqe<RecvLocal>,
    /// [`SrqCore::report_limit`] is to be called, when the caller has released its locks.
    pub(crate) limit_reached: bool,
}

impl SrqCore {
    /// Most scatter/gather entries of a request.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Whether a target in `domain` may be asked for this queue.
    pub(crate) fn is_in(&self, domain: XrcdId) -> bool {
        self.xrc.as_ref().is_some_and(|xrc| xrc.domain == domain)
    }

    /// The protection domain of an XRC queue.
    pub(crate) fn pd(&self) -> Option<PdId> {
        self.xrc.as_ref().map(|xrc| xrc.pd)
    }

    /// The completion queue of an XRC queue.
    pub(crate) fn cq(&self) -> Option<&Arc<CqCore>> {
        self.xrc.as_ref().map(|xrc| &xrc.cq)
    }

    /// Takes the next request. Those of a process get their memory from `tails`, which is the
    /// taker's. Any context.
    pub(crate) fn pop(&self, tails: &Arc<TailPool>) -> Option<Taken> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let wqe = state.recvs.pop(self.max_sge, tails)?;
        let limit_reached = state.recvs.len() < state.limit;
        if limit_reached {
            state.limit = 0;
        }
        Some(Taken { wqe, limit_reached })
    }

    /// Whether the consumer has destroyed the queue. Any context.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Ends the queue, of which targets that have found it may still hold a reference, and waits
    /// for those that are executing a packet. May sleep.
    fn close(&self) {
        self.state.lock().closed = true;
        if self.xrc.is_some() {
            rcu::synchronize_rcu();
        }
    }

    /// Tells the consumer that there are fewer requests than it wanted. The caller holds no lock.
    pub(crate) fn report_limit(&self) {
        if let Some(srq) = self.consumer.as_ref().and_then(Handle::get) {
            srq.report(SrqEvent::LimitReached);
        }
    }
}

/// A shared receive queue.
pub(crate) struct Srq {
    core: Arc<SrqCore>,
    number: Published<SrqCore>,
    is_user: bool,
    /// The ring's cookie, of a queue of user space. Serialises changes, too.
    offer: Pin<KBox<Mutex<Option<Offer>>>>,
}

impl Drop for Srq {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl Srq {
    /// What the data path holds.
    pub(crate) fn inner(&self) -> &Arc<SrqCore> {
        &self.core
    }

    fn new(
        device: &provider::Device<Rxe>,
        srq: NewSrq<'_>,
        request: &mut SrqInitAttr,
        udata: Udata<'_>,
    ) -> Result<Self> {
        let is_user = udata.is_user();
        if is_user && udata.output_len() < size_of::<SrqResponse>() {
            return Err(EINVAL);
        }
        let xrc = match request.kind() {
            bindings::ib_srq_type_IB_SRQT_BASIC => None,
            bindings::ib_srq_type_IB_SRQT_XRC => Some(Xrc {
                domain: srq.xrcd(device).ok_or(EINVAL)?.id(),
                pd: srq.pd(device).id(),
                cq: srq.cq(device).ok_or(EINVAL)?.inner().clone(),
            }),
            _ => return Err(EOPNOTSUPP),
        };
        let mut attr = request.attr();
        if attr.max_wr == 0 || attr.max_wr > MAX_WR || attr.max_sge > MAX_SGE {
            return Err(EINVAL);
        }
        attr.max_sge = attr.max_sge.max(1);
        let state = make_state(attr.max_wr, attr.max_sge, is_user, attr.srq_limit)?;
        let offer = match state.recvs.pages() {
            Some(pages) => Some(mmap::maps_of(udata)?.offer(&pages)?),
            None => None,
        };
        attr.max_wr = state.recvs.capacity();
        let slot = Shared::of(device).objects.srqs.reserve(Gfp::KERNEL)?;
        request.set_attr(attr);
        let core = Arc::pin_init(
            pin_init!(SrqCore {
                max_sge: attr.max_sge,
                xrc,
                state <- new_spinlock_irq!(state, "rxe_srq"),
                consumer: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        let offer = KBox::pin_init(new_mutex!(offer, "rxe_srq_offer"), GFP_KERNEL)?;
        let number = slot.publish(core.clone(), Gfp::KERNEL)?;
        srq.set_number(number.id());
        Ok(Self {
            core,
            number,
            is_user,
            offer,
        })
    }

    /// Replaces the ring by one with room for `max_wr` requests; `EINVAL` if there are more already.
    fn resize(&self, max_wr: u32, limit: Option<u32>, udata: Udata<'_>) -> Result {
        let mut offer = self.offer.lock();
        let mut fresh = make_state(max_wr, self.core.max_sge, self.is_user, limit.unwrap_or(0))?;
        let new_offer = match fresh.recvs.pages() {
            Some(pages) => {
                let offer = mmap::maps_of(udata)?.offer(&pages)?;
                let command = udata.read::<ModifySrqCommand>()?;
                let at = usize::try_from(command.mmap_info_addr).map_err(|_| EFAULT)?;
                let info = offer.info();
                UserSlice::new(UserPtr::from_addr(at), size_of_val(&info))
                    .writer()
                    .write_slice(info.as_bytes())?;
                Some(offer)
            }
            None => None,
        };
        let mut state = self.core.state.lock();
        let wanted = limit.unwrap_or(state.limit);
        if wanted > fresh.recvs.capacity() {
            return Err(EINVAL);
        }
        state.recvs.change_places(&mut fresh.recvs)?;
        core::mem::swap(&mut state.tails, &mut fresh.tails);
        state.limit = wanted;
        drop(state);
        *offer = new_offer;
        Ok(())
    }
}

/// An empty queue. May sleep.
fn make_state(max_wr: u32, max_sge: u32, is_user: bool, limit: u32) -> Result<State> {
    let recvs = Recvs::new(max_wr, max_sge, is_user)?;
    // Whoever takes requests of a process brings the memory for them.
    let tails = if is_user { 0 } else { recvs.capacity() };
    if limit > recvs.capacity() {
        return Err(EINVAL);
    }
    Ok(State {
        recvs,
        tails: TailPool::new(tails, max_sge as usize)?,
        limit,
        closed: false,
    })
}

#[vtable]
impl SrqOps<Rxe> for Srq {
    type OwnerModule = crate::LocalModule;

    fn create(
        device: &provider::Device<Rxe>,
        srq: NewSrq<'_>,
        request: &mut SrqInitAttr,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, srq, request, udata)
    }

    fn created(this: &provider::Srq<Rxe>, udata: Udata<'_>) -> Result {
        if let Some(offer) = &*this.offer.lock() {
            udata.respond(&SrqResponse {
                queue: offer.info(),
                srq_num: this.number.id(),
                reserved: 0,
            })?;
        }
        this.core.consumer.populate(this.handle()?);
        Ok(())
    }

    fn modify(this: &provider::Srq<Rxe>, change: &SrqChange, udata: Udata<'_>) -> Result {
        if let Some(max_wr) = change.max_wr {
            if max_wr == 0 || max_wr > MAX_WR {
                return Err(EINVAL);
            }
            return this.resize(max_wr, change.limit, udata);
        }
        if let Some(limit) = change.limit {
            let mut state = this.core.state.lock();
            if limit > state.recvs.capacity() {
                return Err(EINVAL);
            }
            state.limit = limit;
        }
        Ok(())
    }

    fn query(this: &provider::Srq<Rxe>) -> Result<SrqAttr> {
        let state = this.core.state.lock();
        Ok(SrqAttr {
            max_wr: state.recvs.capacity(),
            max_sge: this.core.max_sge,
            srq_limit: state.limit,
        })
    }

    fn post_recv(this: &provider::Srq<Rxe>, list: &mut RecvList<'_>) -> Result {
        if this.is_user {
            return Err(EINVAL);
        }
        for wr in list.by_ref() {
            let tails = this.core.state.lock().tails.clone();
            let wqe = recv_from_kernel(&wr, this.core.max_sge, &tails)?;
            let result = this.core.state.lock().recvs.push(wqe);
            // The request goes after unlock.
            result.map_err(|_| ENOMEM)?;
        }
        Ok(())
    }
}
