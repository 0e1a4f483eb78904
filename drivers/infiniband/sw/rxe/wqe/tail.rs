// SPDX-License-Identifier: GPL-2.0

//! Memory for the entries or the inline bytes of requests.

use crate::abi::Sge;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
/// Memory for the entries or the inline bytes of requests, made once and used again and again.
#[pin_data]
pub(crate) struct TailPool {
    units: usize,
    #[pin]
    spare: SpinLockIrq<KVVec<KVec<Sge>>>,
}

impl TailPool {
    /// Memory for `count` requests of `units` entries each. May sleep.
    pub(crate) fn new(count: u32, units: usize) -> Result<Arc<Self>> {
        let mut spare = KVVec::with_capacity(count as usize, GFP_KERNEL)?;
        for _ in 0..count {
            spare.push(
                KVec::from_elem(Sge::default(), units, GFP_KERNEL)?,
                GFP_KERNEL,
            )?;
        }
        Arc::pin_init(
            pin_init!(Self {
                units,
                spare <- new_spinlock_irq!(spare, "rxe_tails"),
            }),
            GFP_KERNEL,
        )
    }

    /// Memory for one more request, if there is any left.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Tail> {
        let memory = self.spare.lock().pop()?;
        Some(Tail {
            memory,
            home: self.clone(),
        })
    }

    /// Whether there is memory for one more request.
    pub(crate) fn has_some(&self) -> bool {
        !self.spare.lock().is_empty()
    }
}

/// Memory of one request. Dropping it gives it back.
pub(crate) struct Tail {
    memory: KVec<Sge>,
    home: Arc<TailPool>,
}

impl Tail {
    pub(super) fn entries(&self, count: usize) -> &[Sge] {
        self.memory.get(..count).unwrap_or(&[])
    }

    pub(super) fn entries_mut(&mut self, count: usize) -> Option<&mut [Sge]> {
        self.memory.get_mut(..count)
    }

    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        self.memory.as_bytes().get(..len).unwrap_or(&[])
    }

    pub(super) fn bytes_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        self.memory.as_mut_bytes().get_mut(..len)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let memory = core::mem::replace(&mut self.memory, KVec::new());
        // There is room: it came from there.
        let _ = self.home.spare.lock().push_within_capacity(memory);
    }
}
