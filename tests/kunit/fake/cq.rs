// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{device::Fake, objects::Counted, ops::Op, ring::Ring};
use kernel::{
    prelude::*,
    sync::{new_spinlock_irq, Arc, SetOnce, SpinLockIrq},
};
use rdma::provider::{
    Cq, CqEvent, CqOps, CqRequest, Device, Handle, NewCq, Notify, QpTag, Udata, Wc, WcSlots,
};

struct Inner {
    ring: Ring<Wc>,
    armed: Option<Notify>,
}

/// The queue, as queue pairs know it.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    inner: SpinLockIrq<Inner>,
    handle: SetOnce<Handle<Cq<Fake>>>,
}

impl Queue {
    /// Adds a completion and tells the consumer if it wants to know. The caller holds no lock.
    pub(crate) fn add(&self, wc: Wc, solicited: bool) {
        let (lost, tell) = {
            let mut inner = self.inner.lock();
            let lost = inner.ring.push(wc).is_err();
            let wanted = |notify: Notify| !notify.solicited_only || solicited || wc.is_error();
            let tell = !lost && inner.armed.is_some_and(wanted);
            if tell {
                inner.armed = None;
            }
            (lost, tell)
        };
        if !lost && !tell {
            return;
        }
        if let Some(cq) = self.handle.as_ref().and_then(Handle::get) {
            if lost {
                cq.report(CqEvent::Error);
            } else {
                cq.complete();
            }
        }
    }

    /// Forgets the completions of a queue pair that goes away.
    pub(crate) fn forget(&self, qp: QpTag) {
        self.inner.lock().ring.retain(|wc| wc.tag() != qp);
    }
}

/// A completion queue.
pub(crate) struct FakeCq {
    pub(crate) queue: Arc<Queue>,
    _counted: Counted,
}

impl FakeCq {
    fn new(device: &Device<Fake>, cq: NewCq<'_>, request: &CqRequest) -> Result<Self> {
        let args = [
            request.entries.into(),
            request.vector.into(),
            request.flags.into(),
        ];
        device.state.script.enter(Op::CREATE_CQ, args)?;
        if request.entries == 0 || request.entries > 1 << 16 {
            return Err(EINVAL);
        }
        let ring = Ring::new(request.entries)?;
        let queue = Arc::pin_init(
            pin_init!(Queue {
                inner <- new_spinlock_irq!(Inner { ring, armed: None }),
                handle: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        cq.set_entries(request.entries);
        Ok(Self {
            queue,
            _counted: Counted::new(device, Op::CREATE_CQ),
        })
    }
}

#[vtable]
impl CqOps<Fake> for FakeCq {
    fn create(
        device: &Device<Fake>,
        cq: NewCq<'_>,
        request: &CqRequest,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, cq, request)
    }

    fn created(this: &Cq<Fake>, _udata: Udata<'_>) -> Result {
        this.queue.handle.populate(this.handle()?);
        Ok(())
    }

    fn destroy(this: &Cq<Fake>, _udata: Udata<'_>) -> Result {
        this.device().state.script.enter(Op::DESTROY_CQ, [0; 3])
    }

    fn poll(this: &Cq<Fake>, slots: &mut WcSlots<'_>) -> Result {
        let args = [slots.room().into(), 0, 0];
        this.device().state.script.enter(Op::POLL_CQ, args)?;
        let mut inner = this.queue.inner.lock();
        while slots.room() > 0 {
            let Some(wc) = inner.ring.pop() else { break };
            let _ = slots.push(&wc);
        }
        Ok(())
    }

    fn peek(this: &Cq<Fake>, limit: u32) -> Result<u32> {
        this.device()
            .state
            .script
            .enter(Op::PEEK_CQ, [limit.into(), 0, 0])?;
        Ok((this.queue.inner.lock().ring.len() as u32).min(limit))
    }

    fn request_notify(this: &Cq<Fake>, notify: Notify) -> Result<bool> {
        let args = [notify.solicited_only.into(), notify.report_missed.into(), 0];
        this.device().state.script.enter(Op::REQ_NOTIFY_CQ, args)?;
        let mut inner = this.queue.inner.lock();
        let missed = inner.ring.len() > 0;
        // Nobody is told of what is there already.
        if !(missed && notify.report_missed) {
            inner.armed = Some(notify);
        }
        Ok(missed)
    }

    fn moderate(this: &Cq<Fake>, count: u16, period: u16) -> Result {
        let args = [count.into(), period.into(), 0];
        this.device().state.script.enter(Op::MODIFY_CQ, args)
    }
}
