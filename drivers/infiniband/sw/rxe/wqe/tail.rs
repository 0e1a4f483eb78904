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

/// Entries that need no memory from a pool.
const FEW: usize = 2;

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
        Some(Tail::Pooled(Pooled {
            memory: Some(memory),
            home: self.clone(),
        }))
    }

    /// Memory for one more request with `count` entries. Few of them lie in the result itself.
    pub(crate) fn take_for(self: &Arc<Self>, count: usize) -> Option<Tail> {
        if count <= FEW {
            Some(Tail::NONE)
        } else {
            self.take()
        }
    }
}

/// Memory of one request. Dropping it gives it back.
pub(crate) enum Tail {
    /// Of a request with few entries.
    Few([Sge; FEW]),
    /// Of a pool.
    Pooled(Pooled),
}

/// Memory that belongs to a pool.
pub(crate) struct Pooled {
    /// Nothing once it is given back.
    memory: Option<KVec<Sge>>,
    home: Arc<TailPool>,
}

impl Tail {
    /// For a request whose entries are not known yet.
    pub(super) const NONE: Self = Self::Few(
        [Sge {
            addr: 0,
            length: 0,
            lkey: 0,
        }; FEW],
    );

    fn all(&self) -> &[Sge] {
        match self {
            Self::Few(memory) => memory,
            Self::Pooled(pooled) => pooled.memory.as_deref().unwrap_or(&[]),
        }
    }

    fn all_mut(&mut self) -> &mut [Sge] {
        match self {
            Self::Few(memory) => memory,
            Self::Pooled(pooled) => pooled.memory.as_deref_mut().unwrap_or(&mut []),
        }
    }

    pub(super) fn entries(&self, count: usize) -> &[Sge] {
        self.all().get(..count).unwrap_or(&[])
    }

    pub(super) fn entries_mut(&mut self, count: usize) -> Option<&mut [Sge]> {
        self.all_mut().get_mut(..count)
    }

    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        self.all().as_bytes().get(..len).unwrap_or(&[])
    }

    pub(super) fn bytes_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        self.all_mut().as_mut_bytes().get_mut(..len)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // There is room: it came from there.
            let _ = self.home.spare.lock().push_within_capacity(memory);
        }
    }
}
