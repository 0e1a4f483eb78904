// SPDX-License-Identifier: GPL-2.0

//! Send and receive queues: where requests wait until they are taken.
//!
//! The requests of a process lie in a ring that it shares with the kernel; those of a consumer in
//! the kernel are kept as they will be executed. All operations may be called in any context.

use crate::{
    abi::{
        self,
        SendStatus, //
    },
    ah::AhCore,
    device::Rxe,
    ids::IdTable,
    proto::{
        send::WINDOW,
        wr::{
            RecvWqe,
            SendWqe,
            Status, //
        }, //
    },
    wqe::{
        recv_from_kernel,
        recv_from_user,
        send_from_kernel,
        send_from_user,
        RecvLocal,
        SendCaps,
        SendLocal,
        TailPool, //
    }, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    provider::{
        RecvWr,
        SendWr, //
    },
    user_ring::{
        Geometry,
        UserPages,
        WorkRing, //
    }, //
};

/// Requests in the order in which they were posted, at most as many as there is room for.
pub(crate) struct Fifo<T> {
    slots: KVVec<Option<T>>,
    first: usize,
    used: usize,
}

impl<T> Fifo<T> {
    /// Room for `capacity` requests. May sleep.
    pub(crate) fn new(capacity: u32) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity as usize, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            used: 0,
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Adds one; gives it back if there is no room.
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        let capacity = self.slots.len();
        if self.used >= capacity {
            return Err(item);
        }
        let at = self.first.wrapping_add(self.used) % capacity;
        match self.slots.get_mut(at) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let capacity = self.slots.len();
        let item = self.slots.get_mut(self.first)?.take()?;
        self.first = self.first.wrapping_add(1) % capacity.max(1);
        self.used = self.used.saturating_sub(1);
        Some(item)
    }
}

enum Sends {
    User(WorkRing),
    Kernel(Fifo<SendWqe<SendLocal>>),
}

/// A send queue.
#[pin_data]
pub(crate) struct SendQueue {
    caps: SendCaps,
    capacity: u32,
    tails: Arc<TailPool>,
    #[pin]
    sends: SpinLockIrq<Sends>,
}

/// The ring of a work queue of a process, with `tail` bytes behind each head of `head` bytes.
fn work_ring(entries: u32, head: usize, tail: usize) -> Result<WorkRing> {
    let size = head.checked_add(tail).ok_or(EINVAL)?;
    WorkRing::new(Geometry::new(entries, size).ok_or(EINVAL)?)
}

impl SendQueue {
    /// Room for at least `entries` requests, of a process or of a consumer in the kernel. May sleep.
    pub(crate) fn new(entries: u32, caps: SendCaps, user: bool) -> Result<Arc<Self>> {
        let units = caps.units();
        let tail = units.saturating_mul(size_of::<abi::Sge>());
        let (sends, capacity, tails) = if user {
            let ring = work_ring(entries, size_of::<abi::SendHead>(), tail)?;
            let capacity = ring.geometry().capacity();
            // No more than are under way at once.
            let tails = TailPool::new(capacity.clamp(1, WINDOW as u32), units)?;
            (Sends::User(ring), capacity, tails)
        } else {
            let fifo = Fifo::new(entries)?;
            (Sends::Kernel(fifo), entries, TailPool::new(entries, units)?)
        };
        Arc::pin_init(
            pin_init!(Self {
                caps,
                capacity,
                tails,
                sends <- new_spinlock_irq!(sends, "rxe_send_queue"),
            }),
            GFP_KERNEL,
        )
    }

    /// Requests that fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The ring, to be mapped.
    pub(crate) fn pages(&self) -> Option<Arc<UserPages>> {
        match &*self.sends.lock() {
            Sends::User(ring) => Some(ring.pages().clone()),
            Sends::Kernel(_) => None,
        }
    }

    /// Posts a request of a consumer in the kernel.
    ///
    /// `EINVAL` if it cannot be executed, or this is the queue of a process; `ENOMEM` if the queue is
    /// full.
    pub(crate) fn post(&self, wr: &SendWr<'_, Rxe>) -> Result {
        let wqe = send_from_kernel(wr, &self.caps, &self.tails)?;
        let result = match &mut *self.sends.lock() {
            Sends::Kernel(fifo) => fifo.push(wqe).map_err(|wqe| (wqe, ENOMEM)),
            Sends::User(_) => Err((wqe, EINVAL)),
        };
        // The request goes after unlock.
        result.map_err(|(_, e)| e)
    }

    /// Takes the next request. `handles` are the address handles of the device.
    pub(crate) fn fetch(&self, handles: &IdTable<AhCore>) -> Option<SendWqe<SendLocal>> {
        match &mut *self.sends.lock() {
            Sends::Kernel(fifo) => fifo.pop(),
            Sends::User(ring) => {
                let slot = ring.take()?;
                Some(send_from_user(&slot, &self.caps, handles, &self.tails))
            }
        }
    }

    /// Whether [`Self::fetch`] would find a request now.
    pub(crate) fn has_more(&self) -> bool {
        match &*self.sends.lock() {
            Sends::Kernel(fifo) => fifo.len() > 0,
            Sends::User(ring) => ring.pending() > 0,
        }
    }

    /// Ends the oldest request that was taken.
    pub(crate) fn retire(&self, local: &SendLocal, status: Status) {
        if let Sends::User(ring) = &mut *self.sends.lock() {
            if let Some(slot) = local.slot {
                let state = if status == Status::Success {
                    SendStatus::DONE
                } else {
                    SendStatus::ERROR
                };
                let seen = SendStatus {
                    status: status as u32,
                    state,
                };
                // It always lies within the slot.
                let _ = ring.write(slot, abi::SEND_STATUS, &seen);
            }
            ring.release(1);
        }
    }

    /// Forgets all requests, without completions. None that was taken may be left.
    pub(crate) fn discard(&self) {
        loop {
            let next = match &mut *self.sends.lock() {
                Sends::User(ring) => {
                    ring.discard();
                    None
                }
                Sends::Kernel(fifo) => fifo.pop(),
            };
            // The request goes after unlock.
            if next.is_none() {
                break;
            }
        }
    }
}

/// Receive requests, without a lock.
pub(crate) enum Recvs {
    /// Of a process.
    User(WorkRing),
    /// Of a consumer in the kernel.
    Kernel(Fifo<RecvWqe<RecvLocal>>),
}

impl Recvs {
    /// Room for at least `entries` requests. May sleep.
    pub(crate) fn new(entries: u32, max_sge: u32, user: bool) -> Result<Self> {
        if !user {
            return Ok(Self::Kernel(Fifo::new(entries)?));
        }
        let tail = (max_sge as usize).saturating_mul(size_of::<abi::Sge>());
        let ring = work_ring(entries, size_of::<abi::RecvHead>(), tail)?;
        Ok(Self::User(ring))
    }

    /// Requests that fit.
    pub(crate) fn capacity(&self) -> u32 {
        match self {
            Self::User(ring) => ring.geometry().capacity(),
            Self::Kernel(fifo) => fifo.slots.len() as u32,
        }
    }

    /// The ring, to be mapped.
    pub(crate) fn pages(&self) -> Option<Arc<UserPages>> {
        match self {
            Self::User(ring) => Some(ring.pages().clone()),
            Self::Kernel(_) => None,
        }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.pending(),
            Self::Kernel(fifo) => fifo.len() as u32,
        }
    }

    /// Takes the next request; those of a process get their memory from `tails`.
    pub(crate) fn pop(
        &mut self,
        max_sge: u32,
        tails: &Arc<TailPool>,
    ) -> Option<RecvWqe<RecvLocal>> {
        match self {
            Self::Kernel(fifo) => fifo.pop(),
            Self::User(ring) => {
                if ring.pending() == 0 {
                    return None;
                }
                let slot = ring.take()?;
                let wqe = recv_from_user(&slot, max_sge, tails);
                ring.release(1);
                Some(wqe)
            }
        }
    }

    /// Moves the requests to `other`, a queue of another size that was never used, and changes
    /// places with it. Does not sleep; `EINVAL` if there are too many, and both are as before then.
    pub(crate) fn change_places(&mut self, other: &mut Self) -> Result {
        match (&mut *self, &mut *other) {
            (Self::User(ring), Self::User(other)) => ring.change_places(other),
            (Self::Kernel(fifo), Self::Kernel(other)) => {
                if fifo.len() > other.slots.len() {
                    return Err(EINVAL);
                }
                while let Some(wqe) = fifo.pop() {
                    other.push(wqe).map_err(|_| EINVAL)?;
                }
                core::mem::swap(fifo, other);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }

    /// Adds a request; gives it back if there is no room, or this is the queue of a process.
    pub(crate) fn push(&mut self, wqe: RecvWqe<RecvLocal>) -> Result<(), RecvWqe<RecvLocal>> {
        match self {
            Self::Kernel(fifo) => fifo.push(wqe),
            Self::User(_) => Err(wqe),
        }
    }
}

/// Receive requests of a process that can be under way at once: the one that a message fills, and
/// some to spare.
pub(crate) const RECV_TAILS: u32 = 4;

/// The receive queue of a queue pair.
#[pin_data]
pub(crate) struct RecvQueue {
    max_sge: u32,
    capacity: u32,
    tails: Arc<TailPool>,
    #[pin]
    recvs: SpinLockIrq<Recvs>,
}

impl RecvQueue {
    /// Room for at least `entries` requests, of a process or of a consumer in the kernel. May sleep.
    pub(crate) fn new(entries: u32, max_sge: u32, user: bool) -> Result<Arc<Self>> {
        let recvs = Recvs::new(entries, max_sge, user)?;
        let capacity = recvs.capacity();
        let tails = if user { RECV_TAILS } else { capacity };
        let tails = TailPool::new(tails, (max_sge as usize).max(1))?;
        Arc::pin_init(
            pin_init!(Self {
                max_sge,
                capacity,
                tails,
                recvs <- new_spinlock_irq!(recvs, "rxe_recv_queue"),
            }),
            GFP_KERNEL,
        )
    }

    /// Requests that fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The ring, to be mapped.
    pub(crate) fn pages(&self) -> Option<Arc<UserPages>> {
        self.recvs.lock().pages()
    }

    /// Posts a request of a consumer in the kernel; errors as those of [`SendQueue::post`].
    pub(crate) fn post(&self, wr: &RecvWr<'_>) -> Result {
        let wqe = recv_from_kernel(wr, self.max_sge, &self.tails)?;
        let result = self.recvs.lock().push(wqe);
        // The request goes after unlock.
        result.map_err(|_| ENOMEM)
    }

    /// Takes the next request.
    pub(crate) fn pop(&self) -> Option<RecvWqe<RecvLocal>> {
        self.recvs.lock().pop(self.max_sge, &self.tails)
    }

    /// Forgets all requests, without completions.
    pub(crate) fn discard(&self) {
        if let Recvs::User(ring) = &mut *self.recvs.lock() {
            ring.discard();
            return;
        }
        while let Some(wqe) = self.pop() {
            drop(wqe);
        }
    }
}

#[kunit_tests(rust_rxe_wq)]
mod tests {
    use super::*;

    #[test]
    fn fifo_is_bounded_and_in_order() -> Result {
        let mut fifo = Fifo::new(2)?;
        assert!(fifo.pop().is_none());
        for i in 0..9 {
            assert_eq!(fifo.push(i), Ok(()));
            assert_eq!(fifo.push(i + 100), Ok(()));
            assert_eq!(fifo.push(7), Err(7));
            assert_eq!(fifo.len(), 2);
            assert_eq!(fifo.pop(), Some(i));
            assert_eq!(fifo.pop(), Some(i + 100));
            assert_eq!(fifo.pop(), None);
            // The next round starts at the other slot.
            assert_eq!(fifo.push(1), Ok(()));
            assert_eq!(fifo.pop(), Some(1));
        }
        let mut none = Fifo::<u8>::new(0)?;
        assert_eq!(none.push(1), Err(1));
        assert_eq!(none.pop(), None);
        Ok(())
    }
}
