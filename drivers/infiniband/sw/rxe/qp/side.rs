// SPDX-License-Identifier: GPL-2.0

//! The lock of a side of a queue pair.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::{
            Full,
            Relaxed,
            Release, //
        },
        Atomic, //
    },
};
use rdma::sem_lock::{
    SemLock,
    SemLockGuard, //
};

/// A side, on which one thread works at a time. A task may sleep while it does; a softirq does not
/// wait for its turn, but leaves a note for whoever works on the side. Everybody has to ask for that
/// note ([`was_missed`](Self::was_missed)) when he has dropped his guard, and see to it that somebody
/// looks what there is to do.
#[pin_data]
pub(super) struct Side<T> {
    #[pin]
    lock: SemLock<T>,
    missed: Atomic<bool>,
}

impl<T> Side<T> {
    /// A side that nobody works on.
    pub(super) fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            lock <- SemLock::new(value),
            missed: Atomic::new(false),
        })
    }

    /// Waits for its turn. May sleep.
    pub(super) fn lock(&self) -> SideGuard<'_, T> {
        SideGuard(self.lock.lock())
    }

    /// Takes the side, or leaves a note. Any context.
    pub(super) fn try_lock(&self) -> Option<SideGuard<'_, T>> {
        // Before the attempt: if that fails the other one sees the note when he has finished.
        self.missed.store(true, Release);
        let guard = self.lock.try_lock()?;
        // The notes up to now are for us. With the note comes what it is about.
        self.missed.xchg(false, Full);
        Some(SideGuard(guard))
    }

    /// Whether there is a note, which the caller takes.
    pub(super) fn was_missed(&self) -> bool {
        self.missed.load(Relaxed) && self.missed.xchg(false, Full)
    }
}

/// The right to work on a side.
pub(super) struct SideGuard<'a, T>(SemLockGuard<'a, T>);

impl<T> Deref for SideGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for SideGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
