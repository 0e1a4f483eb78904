// SPDX-License-Identifier: GPL-2.0

//! The memory of a device for packets that are sent many at a time.

use kernel::{
    cpu::nr_cpu_ids,
    new_spinlock_irq,
    prelude::*,
    sync::SpinLockIrq, //
};
use rdma::net::frag::FragPool;

/// Pools that nobody uses now; there is one for each sender that a CPU can run.
#[pin_data]
pub(crate) struct Pools {
    #[pin]
    idle: SpinLockIrq<KVec<KBox<FragPool>>>,
}

impl Pools {
    /// Empty pools. May sleep.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let count = nr_cpu_ids() as usize;
        let mut idle = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            idle.push(KBox::new(FragPool::new(), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(pin_init!(Self {
            idle <- new_spinlock_irq!(idle, "rxe_pools"),
        }))
    }

    /// The pool that was used last, whose memory is most likely at hand.
    pub(crate) fn take(&self) -> Option<KBox<FragPool>> {
        self.idle.lock().pop()
    }

    /// The opposite.
    pub(crate) fn give_back(&self, pool: KBox<FragPool>) {
        // There is room, as it comes from here; if not it would be dropped.
        let rest = self.idle.lock().push_within_capacity(pool);
        drop(rest);
    }
}
