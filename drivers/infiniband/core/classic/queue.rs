// SPDX-License-Identifier: GPL-2.0

//! Completion queues: their size, and what waits in them.

use kernel::prelude::*;
use rdma::{classic::Promises, cq::Cq};

/// Changes the number of entries. May sleep.
pub(crate) fn resize(cq: &Cq, entries: i32) -> Result {
    // Several modules use a shared queue, and none of them may take entries from the others.
    if cq.is_shared() || !Promises::of(cq.device()).user_ops_take_kernel_objects() {
        return Err(EOPNOTSUPP);
    }
    match u32::try_from(entries)? {
        0 => Err(EINVAL),
        entries => cq.driver_resize(entries),
    }
}

/// Number of completions, at most `limit`. Any context.
pub(crate) fn peek(cq: &Cq, limit: i32) -> Result<u32> {
    cq.driver_peek(u32::try_from(limit)?)
}
