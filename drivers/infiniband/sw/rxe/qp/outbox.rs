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
    cq::Completion,
    proto::env::{
        CqOverflow,
        QpEvent, //
    },
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
}

impl Outbox {
    /// Writes a completion of the send queue.
    pub(super) fn complete_send(
        &mut self,
        qp: &QpCore,
        completion: Completion,
    ) -> Result<(), CqOverflow> {
        match qp.send_cq.push(completion, qp.name) {
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

    /// Writes a completion of the receive queue.
    pub(super) fn complete_recv(
        &mut self,
        qp: &QpCore,
        completion: Completion,
    ) -> Result<(), CqOverflow> {
        match qp.recv_cq.push(completion, qp.name) {
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

    /// Notes that the shared receive queue has got below its limit.
    pub(super) fn srq_limit(&mut self) {
        self.srq_limit = true;
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
        if self.overflow_send {
            qp.send_cq.report_overflow();
        }
        if self.overflow_recv {
            qp.recv_cq.report_overflow();
        }
        if self.notify_send {
            qp.send_cq.notify();
        }
        if self.notify_recv {
            qp.recv_cq.notify();
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
            if let RecvSource::Shared(srq, _) = &qp.rq {
                srq.report_limit();
            }
        }
    }
}
