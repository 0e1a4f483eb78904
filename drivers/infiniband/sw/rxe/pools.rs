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

#[kunit_tests(rust_rxe_pools)]
mod tests {
    use super::*;
    use rdma::net::skb::SkBuff;

    #[test]
    fn memory_is_bounded_and_used_again() -> Result {
        const LEN: usize = 2000;
        let mut pool = FragPool::new();
        let mut counts = [0; 2];
        for count in &mut counts {
            let mut buffers = KVVec::new();
            while let Ok(mut skb) = SkBuff::new_in(&mut pool, 16, LEN) {
                skb.put(LEN)?.fill(0xa5);
                buffers.push(skb, GFP_KERNEL)?;
                *count += 1;
                if *count > 1000 {
                    break;
                }
            }
            for skb in &buffers {
                assert_eq!(skb.head().len(), LEN);
                assert!(skb.head().iter().all(|byte| *byte == 0xa5));
            }
        }
        // Half a megabyte, with what the kernel needs for each.
        assert!((1..=(512 << 10) / LEN).contains(&counts[0]));
        assert!(counts[1] >= counts[0]);

        // The pool may go before its buffers.
        let mut skb = SkBuff::new_in(&mut pool, 0, LEN)?;
        drop(pool);
        skb.put(LEN)?.fill(1);
        Ok(())
    }
}
