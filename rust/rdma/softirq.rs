// SPDX-License-Identifier: GPL-2.0

//! Keeping softirqs away from the current CPU.
//!
//! C header: [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h)

use kernel::{
    bindings,
    types::NotThreadSafe, //
};

/// Whether no softirq can come in between: one is running or they are disabled, on this CPU, and no
/// interrupt is being handled. So what belongs to softirqs and to this CPU may be used.
#[inline]
pub fn is_own() -> bool {
    // SAFETY: Only looks at the state of this CPU and thread.
    unsafe { bindings::rdma_in_softirq() }
}

/// Softirqs are disabled. Those that were raised meanwhile run when this is dropped.
#[must_use = "softirqs are enabled as soon as this is dropped"]
pub struct Disabled(NotThreadSafe);

/// Disables softirqs on this CPU. Must be called with interrupts enabled, or in a softirq.
pub fn disable() -> Disabled {
    // SAFETY: Enabled again when the result is dropped.
    unsafe { bindings::rdma_local_bh_disable() };
    Disabled(NotThreadSafe)
}

impl Drop for Disabled {
    fn drop(&mut self) {
        // SAFETY: Disabled by this thread, on this CPU.
        unsafe { bindings::rdma_local_bh_enable() }
    }
}
