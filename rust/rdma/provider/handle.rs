// SPDX-License-Identifier: GPL-2.0

//! Ways to an object from outside of its operations.
//!
//! A driver that processes requests in the background keeps a [`Handle`] of the completion queue,
//! the queue pair ... that it is going to report to. The handle does not keep the object alive; it
//! lets one in as long as the object is there, and the object waits, when it is destroyed, for
//! those who are in.

use crate::{completion::Completion, refcount::RefcountExt};
use core::{marker::PhantomData, ops::Deref, ptr::NonNull};
use kernel::{
    prelude::*,
    sync::{Arc, Refcount, SetOnce},
};

/// Who is with an object. The object itself counts as one until it is destroyed.
#[pin_data]
pub(super) struct Anchor {
    users: Refcount,
    #[pin]
    gone: Completion,
}

impl Anchor {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                users: Refcount::new(1),
                gone <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    fn put(&self) {
        if self.users.dec_and_test() {
            self.gone.complete_all();
        }
    }
}

/// Where an object keeps its anchor, if somebody has asked for a handle.
pub(super) type AnchorSlot = SetOnce<Arc<Anchor>>;

/// The anchor of a slot, made on the first call.
pub(super) fn anchor(slot: &AnchorSlot) -> Result<Arc<Anchor>> {
    if slot.as_ref().is_none() {
        // Whoever comes second gives up its own.
        slot.populate(Anchor::new()?);
    }
    slot.as_ref().cloned().ok_or(EBUSY)
}

/// Lets nobody in any more, and waits for those who are in. May sleep if there are handles.
pub(super) fn close(slot: &AnchorSlot) {
    if let Some(anchor) = slot.as_ref() {
        anchor.put();
        anchor.gone.wait();
    }
}

/// A way to an object, for background work of the driver.
pub struct Handle<T> {
    anchor: Arc<Anchor>,
    object: NonNull<T>,
}

// SAFETY: A handle gives `&T` only.
unsafe impl<T: Sync> Send for Handle<T> {}

// SAFETY: As above.
unsafe impl<T: Sync> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// # Safety
    ///
    /// `anchor` must be that of `object`, which closes it before it goes away.
    pub(super) unsafe fn new(anchor: Arc<Anchor>, object: &T) -> Self {
        Self {
            anchor,
            object: NonNull::from(object),
        }
    }

    /// The object, which stays until the result is dropped; nothing if it is being destroyed. Any
    /// context. Whoever keeps the result keeps the destroyer waiting.
    pub fn get(&self) -> Option<HandleGuard<'_, T>> {
        self.anchor.users.inc_not_zero().then(|| HandleGuard {
            handle: self,
            _life: PhantomData,
        })
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            anchor: self.anchor.clone(),
            object: self.object,
        }
    }
}

/// The right to use an object.
///
/// # Invariants
///
/// The object is not destroyed before this is dropped.
pub struct HandleGuard<'a, T> {
    handle: &'a Handle<T>,
    _life: PhantomData<&'a T>,
}

impl<T> Deref for HandleGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant and the contract of `Handle::new`.
        unsafe { self.handle.object.as_ref() }
    }
}

impl<T> Drop for HandleGuard<'_, T> {
    fn drop(&mut self) {
        self.handle.anchor.put();
    }
}
