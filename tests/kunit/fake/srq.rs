// SPDX-License-Identifier: GPL-2.0

//! Receive queues, shared or not.

use super::{
    device::Fake,
    engine,
    objects::Counted,
    ops::Op,
    ring::Ring,
    transfer::{Sges, MAX_SGE},
};
use kernel::{
    prelude::*,
    sync::{new_spinlock_irq, Arc, SetOnce, SpinLockIrq},
};
use rdma::{
    provider::{Device, Handle, NewSrq, RecvList, RecvWr, Srq, SrqChange, SrqEvent, SrqOps, Udata},
    srq::{SrqAttr, SrqInitAttr},
};

/// A receive request.
#[derive(Clone, Copy)]
pub(crate) struct Recv {
    pub(crate) wr_id: u64,
    pub(crate) sges: Sges,
}

impl Recv {
    pub(crate) fn new(wr: &RecvWr<'_>, max_sge: u32) -> Result<Self> {
        Ok(Self {
            wr_id: wr.wr_id(),
            sges: Sges::new(wr.sges(), max_sge)?,
        })
    }
}

struct Inner {
    ring: Ring<Recv>,
    limit: u32,
    max_sge: u32,
}

/// A shared receive queue, as queue pairs know it.
#[pin_data]
pub(crate) struct Shared {
    #[pin]
    inner: SpinLockIrq<Inner>,
    pub(crate) pd: u32,
    handle: SetOnce<Handle<Srq<Fake>>>,
}

impl Shared {
    /// Takes the oldest request, and tells the consumer if the limit is reached.
    pub(crate) fn take(&self) -> Option<Recv> {
        let (recv, reached) = {
            let mut inner = self.inner.lock();
            let recv = inner.ring.pop();
            let reached = (inner.ring.len() as u32) < inner.limit;
            if reached {
                inner.limit = 0;
            }
            (recv, reached)
        };
        if reached {
            if let Some(srq) = self.handle.as_ref().and_then(Handle::get) {
                srq.report(SrqEvent::LimitReached);
            }
        }
        recv
    }
}

/// A shared receive queue.
pub(crate) struct FakeSrq {
    pub(crate) shared: Arc<Shared>,
    _counted: Counted,
}

impl FakeSrq {
    fn new(device: &Device<Fake>, srq: NewSrq<'_>, request: &mut SrqInitAttr) -> Result<Self> {
        let attr = request.attr();
        let args = [
            attr.max_wr.into(),
            attr.max_sge.into(),
            request.kind().into(),
        ];
        device.state.script.enter(Op::CREATE_SRQ, args)?;
        if attr.max_wr == 0 || attr.max_wr > 1 << 14 || attr.max_sge as usize > MAX_SGE {
            return Err(EINVAL);
        }
        let ring = Ring::new(attr.max_wr)?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                inner <- new_spinlock_irq!(Inner {
                    ring,
                    limit: attr.srq_limit,
                    max_sge: attr.max_sge,
                }),
                pd: srq.pd(device).id,
                handle: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        if request.xrcd().is_some() {
            srq.set_number(super::fabric::next_id());
        }
        Ok(Self {
            shared,
            _counted: Counted::new(device, Op::CREATE_SRQ),
        })
    }
}

#[vtable]
impl SrqOps<Fake> for FakeSrq {
    fn create(
        device: &Device<Fake>,
        srq: NewSrq<'_>,
        request: &mut SrqInitAttr,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, srq, request)
    }

    fn created(this: &Srq<Fake>, _udata: Udata<'_>) -> Result {
        this.shared.handle.populate(this.handle()?);
        Ok(())
    }

    fn modify(this: &Srq<Fake>, change: &SrqChange, _udata: Udata<'_>) -> Result {
        let args = [
            change.max_wr.unwrap_or(0).into(),
            change.limit.unwrap_or(0).into(),
            0,
        ];
        this.device().state.script.enter(Op::MODIFY_SRQ, args)?;
        if change.max_wr.is_some() {
            return Err(EINVAL);
        }
        let mut inner = this.shared.inner.lock();
        if let Some(limit) = change.limit {
            if limit as usize > inner.ring.size() {
                return Err(EINVAL);
            }
            inner.limit = limit;
        }
        Ok(())
    }

    fn query(this: &Srq<Fake>) -> Result<SrqAttr> {
        this.device().state.script.enter(Op::QUERY_SRQ, [0; 3])?;
        let inner = this.shared.inner.lock();
        Ok(SrqAttr {
            max_wr: inner.ring.size() as u32,
            max_sge: inner.max_sge,
            srq_limit: inner.limit,
        })
    }

    fn destroy(this: &Srq<Fake>, _udata: Udata<'_>) -> Result {
        this.device().state.script.enter(Op::DESTROY_SRQ, [0; 3])
    }

    fn post_recv(this: &Srq<Fake>, list: &mut RecvList<'_>) -> Result {
        for wr in list.by_ref() {
            let args = [wr.wr_id(), wr.sges().len() as u64, 0];
            this.device().state.script.enter(Op::POST_SRQ_RECV, args)?;
            let mut inner = this.shared.inner.lock();
            let recv = Recv::new(&wr, inner.max_sge)?;
            inner.ring.push(recv).map_err(|_| ENOMEM)?;
        }
        engine::retry(&this.device().state);
        Ok(())
    }
}
