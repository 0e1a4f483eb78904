// SPDX-License-Identifier: GPL-2.0

//! Waiting until nothing is left of what a consumer posted.
//!
//! The consumer has its completion queues from `ib_alloc_cq`, leaves room for one more work
//! request and completion, and posts nothing meanwhile.

use super::qp_modify;
use kernel::{
    prelude::*,
    time::{msecs_to_jiffies, Msecs},
};
use pin_init::stack_pin_init;
use rdma::{
    cq::{Cq, PollContext},
    drain::{DrainMarker, Queue},
    qp::{AttrMask, Qp, QpAttr},
    warn_once,
};

/// How often a queue that nobody else polls is polled.
const POLL_INTERVAL: Msecs = 100;

/// How long to wait for the event that a queue pair has taken its last entry from a shared
/// receive queue.
const LAST_WQE_TIMEOUT: Msecs = 60_000;

/// Waits until all sends have completed and the consumer has seen it. May sleep.
pub(crate) fn drain_sq(qp: &Qp) {
    if !qp.driver_drain_sq() {
        if let Err(e) = flush(qp, Queue::Send, qp.send_cq()) {
            warn_once!("failed to drain send queue: {}\n", e.to_errno());
        }
    }
    if let Some(cq) = qp.send_cq() {
        cq.trace_drain_complete();
    }
}

/// Waits until all receives have completed and the consumer has seen it. May sleep.
pub(crate) fn drain_rq(qp: &Qp) {
    if !qp.driver_drain_rq() {
        if let Err(e) = flush(qp, Queue::Receive, qp.recv_cq()) {
            warn_once!("failed to drain recv queue: {}\n", e.to_errno());
        }
    }
    if let Some(cq) = qp.recv_cq() {
        cq.trace_drain_complete();
    }
}

/// Drains both queues. May sleep.
pub(crate) fn drain_qp(qp: &Qp) {
    drain_sq(qp);
    if qp.srq().is_some() {
        drain_srq(qp);
    } else {
        drain_rq(qp);
    }
}

fn to_error_state(qp: &Qp) -> Result {
    qp_modify::modify(qp, &mut QpAttr::error_state(), AttrMask::STATE, None)
}

/// In the error state work requests complete in order, so the completion of a marker tells that
/// all before it are through.
fn flush(qp: &Qp, queue: Queue, cq: Option<&Cq>) -> Result {
    let cq = cq.ok_or(EINVAL)?;
    to_error_state(qp)?;
    stack_pin_init!(let marker = DrainMarker::new());
    let mut posted = marker.as_ref().post(qp, queue)?;
    if cq.poll_context() == Some(PollContext::Direct) {
        while !posted.wait_timeout(msecs_to_jiffies(POLL_INTERVAL)) {
            cq.process_direct(None);
        }
    }
    // The marker waits to be reaped when it is dropped.
    Ok(())
}

/// The receives of a queue pair with a shared receive queue cannot be marked. IBTA vol. 1,
/// 10.3.1, offers another way: in the error state wait for the event that the last entry was
/// taken, then poll the completion queue until it is empty or was emptied once.
fn drain_srq(qp: &Qp) {
    let Some(srq) = qp.srq() else {
        return;
    };
    if let Err(e) = to_error_state(qp) {
        warn_once!("failed to drain shared recv queue: {}\n", e.to_errno());
        return;
    }
    let Some(cq) = srq.cq().or(qp.recv_cq()) else {
        warn_once!("QP {} has no CQ associated with SRQ\n", qp.number());
        return;
    };
    if !qp
        .last_wqe_reached()
        .wait_timeout(msecs_to_jiffies(LAST_WQE_TIMEOUT))
    {
        return;
    }
    let mut left = cq.entries();
    while left != 0 {
        match cq.process_direct(Some(left)) {
            0 => break,
            done => left = left.saturating_sub(done),
        }
    }
}
