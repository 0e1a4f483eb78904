// SPDX-License-Identifier: GPL-2.0

//! What consumers have to be told once no lock is held any more.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::provider::{
    self,
    Handle, //
};

use super::{
    verbs::RecvSource,
    QpCore, //
};
use crate::{
    cq::{
        Completion,
        CqCore, //
    },
    proto::env::{
        CqOverflow,
        QpEvent, //
    },
    srq::SrqCore,
};

/// Collects news while a side is locked.
#[must_use = "news have to be delivered"]
#[derive(Default)]
pub(super) struct Outbox {
    notify_send: bool,
    notify_recv: bool,
    overflow_send: bool,
    overflow_recv: bool,
    drained: bool,
    last_wqe: bool,
    access: bool,
    failed: bool,
    srq_limit: bool,
    /// The XRC queue that news of receives are about.
    named: Option<Arc<SrqCore>>,
}

impl Outbox {
    /// Writes a completion of the send queue.
    pub(super) fn complete_send(
        &mut self,
        qp: &QpCore,
        completion: Completion,
    ) -> Result<(), CqOverflow> {
        let Some(cq) = &qp.send_cq else {
            return Ok(());
        };
        match cq.push(completion, qp.name) {
            Ok(notify) => {
                self.notify_send |= notify;
                Ok(())
            }
            Err(overflow) => {
                self.overflow_send = true;
                Err(overflow)
            }
        }
    }

    /// Writes a completion of the receive queue, or of an XRC queue.
    pub(super) fn complete_recv(
        &mut self,
        qp: &QpCore,
        srq: Option<&Arc<SrqCore>>,
        completion: Completion,
    ) -> Result<(), CqOverflow> {
        if let Some(srq) = srq {
            self.named = Some(srq.clone());
        }
        let Some(cq) = self.recv_cq(qp) else {
            return Ok(());
        };
        match cq.push(completion, qp.name) {
            Ok(notify) => {
                self.notify_recv |= notify;
                Ok(())
            }
            Err(overflow) => {
                self.overflow_recv = true;
                Err(overflow)
            }
        }
    }

    /// Notes an event.
    pub(super) fn event(&mut self, event: QpEvent) {
        match event {
            QpEvent::SqDrained => self.drained = true,
            QpEvent::LastWqeReached => self.last_wqe = true,
            QpEvent::AccessErr => self.access = true,
        }
    }

    /// Where receives complete.
    fn recv_cq<'a>(&'a self, qp: &'a QpCore) -> Option<&'a Arc<CqCore>> {
        match &self.named {
            Some(srq) => srq.cq(),
            None => qp.recv_cq.as_ref(),
        }
    }

    /// Whether there are news of an XRC queue. There is room for those of one.
    pub(super) fn is_about_named(&self) -> bool {
        self.named.is_some()
    }

    /// Notes that the shared receive queue, or this XRC queue, has got below its limit.
    pub(super) fn srq_limit(&mut self, named: Option<&Arc<SrqCore>>) {
        self.srq_limit = true;
        if let Some(srq) = named {
            self.named = Some(srq.clone());
        }
    }

    /// Notes that a side has failed.
    pub(super) fn failed(&mut self) {
        self.failed = true;
    }

    /// Tells the consumers. The caller holds no lock.
    pub(super) fn deliver(self, qp: &Arc<QpCore>) {
        if self.failed {
            qp.spread_failure();
        }
        self.tell(qp);
    }

    /// As [`deliver`](Self::deliver), where it must not sleep.
    pub(super) fn deliver_soft(self, qp: &Arc<QpCore>) {
        if self.failed {
            qp.note_failure();
        }
        self.tell(qp);
    }

    /// As [`deliver`](Self::deliver), when a failure needs not be spread any more.
    pub(super) fn tell(self, qp: &Arc<QpCore>) {
        if let Some(cq) = &qp.send_cq {
            if self.overflow_send {
                cq.report_overflow();
            }
            if self.notify_send {
                cq.notify();
            }
        }
        if let Some(cq) = self.recv_cq(qp) {
            if self.overflow_recv {
                cq.report_overflow();
            }
            if self.notify_recv {
                cq.notify();
            }
        }
        let events = [
            (self.access, provider::QpEvent::AccessError),
            (self.drained, provider::QpEvent::SqDrained),
            (self.last_wqe, provider::QpEvent::LastWqeReached),
        ];
        for (due, event) in events {
            if due {
                if let Some(qp) = qp.consumer.as_ref().and_then(Handle::get) {
                    qp.report(event);
                }
            }
        }
        if self.srq_limit {
            match (&qp.rq, &self.named) {
                (RecvSource::Shared(srq, _), _) | (_, Some(srq)) => srq.report_limit(),
                _ => (),
            }
        }
    }
}
