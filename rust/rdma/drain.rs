// SPDX-License-Identifier: GPL-2.0

//! A work request whose completion tells that a queue is empty.

use crate::{completion::Completion, qp::Qp};
use core::ptr;
use kernel::{bindings, error::to_result, prelude::*, time::Jiffies};

/// The marker: a completion entry and what it wakes.
///
/// C's processing of completions finds it by the address of `cqe`, so it is pinned.
#[repr(C)]
#[pin_data]
pub struct DrainMarker {
    cqe: bindings::ib_cqe,
    #[pin]
    done: Completion,
}

/// Which queue of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Work that the consumer starts.
    Send,
    /// Buffers for what peers send.
    Receive,
}

impl DrainMarker {
    /// A marker that is not posted.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            cqe: bindings::ib_cqe {
                done: Some(drained),
            },
            done <- Completion::new(),
        })
    }

    /// Posts the marker as the last work request of a queue in the error state. What it gives waits
    /// for the completion of the marker.
    pub fn post(self: Pin<&Self>, qp: &Qp, queue: Queue) -> Result<Posted<'_>> {
        let wr_cqe = (&raw const self.cqe).cast_mut();
        match queue {
            Queue::Send => {
                let mut wr: bindings::ib_rdma_wr = pin_init::zeroed();
                wr.wr.__bindgen_anon_1.wr_cqe = wr_cqe;
                wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
                post_send(qp, &wr)?;
            }
            Queue::Receive => {
                let mut wr: bindings::ib_recv_wr = pin_init::zeroed();
                wr.__bindgen_anon_1.wr_cqe = wr_cqe;
                post_recv(qp, &wr)?;
            }
        }
        Ok(Posted(self.get_ref(), false))
    }
}

/// A marker that the driver has.
///
/// Dropping it waits, as the completion must not find the marker gone.
pub struct Posted<'a>(&'a DrainMarker, bool);

impl Posted<'_> {
    /// Waits at most `timeout`; tells whether the marker came back.
    pub fn wait_timeout(&mut self, timeout: Jiffies) -> bool {
        self.1 = self.1 || self.0.done.wait_timeout(timeout);
        self.1
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.done.wait();
        }
    }
}

fn post_send(qp: &Qp, wr: &bindings::ib_rdma_wr) -> Result {
    let mut bad = ptr::null();
    let ret = crate::object::driver_op!(qp.device(), post_send(qp.as_raw(), &wr.wr, &mut bad));
    to_result(ret?)
}

fn post_recv(qp: &Qp, wr: &bindings::ib_recv_wr) -> Result {
    let mut bad = ptr::null();
    let ret = crate::object::driver_op!(qp.device(), post_recv(qp.as_raw(), wr, &mut bad));
    to_result(ret?)
}

/// Completion of the marker.
///
/// # Safety
///
/// Called by the processing of a completion queue with the completion of a posted marker.
unsafe extern "C" fn drained(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: The completion names the marker's entry, and `Posted` keeps the marker until
    // this has woken it.
    unsafe {
        let cqe = (*wc).__bindgen_anon_1.wr_cqe;
        let marker = kernel::container_of!(cqe, DrainMarker, cqe);
        (*marker).done.complete();
    }
}
