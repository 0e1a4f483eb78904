// SPDX-License-Identifier: GPL-2.0

//! The memory of a device for packets that are sent many at a time.

use kernel::{
    cpu::nr_cpu_ids,
    new_spinlock_irq,
    prelude::*,
    sync::SpinLockIrq, //
};
use rdma::net::frag::{
    self,
    FragPool, //
};

/// Bytes that the pools of a device may have, if no CPU gets less than [`PER_CPU`] says.
const PER_DEVICE: usize = 16 << 20;

/// Least and most bytes of a pool. The packets that a queue pair may have on their way are a quarter of a
/// megabyte, if the MTU is that of Ethernet.
const PER_CPU: (usize, usize) = (512 << 10, 4 << 20);

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
        let bytes = (PER_DEVICE / count.max(1)).clamp(PER_CPU.0, PER_CPU.1);
        let mut idle = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let pool = FragPool::new(bytes / frag::CHUNK)?;
            idle.push(KBox::new(pool, GFP_KERNEL)?, GFP_KERNEL)?;
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
        const CHUNKS: usize = 16;
        let mut pool = FragPool::new(CHUNKS)?;
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
        // Less than the packets alone would take, as the kernel needs something for each.
        assert!((CHUNKS..=CHUNKS * frag::CHUNK / LEN).contains(&counts[0]));
        assert!(counts[1] >= counts[0]);

        // The pool may go before its buffers.
        let mut skb = SkBuff::new_in(&mut pool, 0, LEN)?;
        drop(pool);
        skb.put(LEN)?.fill(1);
        Ok(())
    }
}
