// SPDX-License-Identifier: GPL-2.0

//! Boxes whose content outlives its owner by an RCU grace period.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use core::ops::Deref;
use core::ptr::NonNull;

use kernel::alloc::{AllocError, Flags};
use kernel::bindings;
use kernel::prelude::*;

#[repr(C)]
struct Inner<T> {
    head: bindings::callback_head,
    value: T,
}

/// An owned value whose destructor runs after a grace period.
///
/// A reader that found the value under an [`rcu::Guard`](kernel::sync::rcu::Guard) may therefore
/// use it until it drops the guard, whatever the owner does meanwhile. Dropping the box is possible
/// in any context and never fails. The destructor of `T` runs in softirq context, so it must not
/// sleep.
///
/// The exit function of a module that drops such boxes has to call
/// [`rcu_barrier`](kernel::sync::rcu::rcu_barrier) last.
///
/// # Invariants
///
/// The pointer was made by [`KBox::into_raw`], and the box owns the allocation.
pub struct RcuBox<T: Send + 'static>(NonNull<Inner<T>>);

// SAFETY: The box owns a `T`, and `T` is `Send`.
unsafe impl<T: Send> Send for RcuBox<T> {}
// SAFETY: A shared box gives out shared references to `T` only.
unsafe impl<T: Send + Sync> Sync for RcuBox<T> {}

impl<T: Send> RcuBox<T> {
    /// Moves a value into a new box.
    pub fn new(value: T, flags: Flags) -> Result<Self, AllocError> {
        let inner = KBox::new(
            Inner {
                head: pin_init::zeroed(),
                value,
            },
            flags,
        )?;
        // SAFETY: `KBox::into_raw` never returns null.
        // INVARIANT: The pointer comes from `KBox::into_raw`, and the new box is its owner.
        Ok(Self(unsafe {
            NonNull::new_unchecked(KBox::into_raw(inner))
        }))
    }

    /// Gives up ownership; the pointer is that of the value.
    pub fn into_raw(this: Self) -> NonNull<T> {
        let inner = core::mem::ManuallyDrop::new(this).0;
        // SAFETY: The allocation is valid by the type invariant, so is the address of its field.
        unsafe { NonNull::new_unchecked(&raw mut (*inner.as_ptr()).value) }
    }

    /// Takes back what [`into_raw`](Self::into_raw) gave away.
    ///
    /// # Safety
    ///
    /// `value` comes from `into_raw` and is not used as an owner again.
    pub unsafe fn from_raw(value: NonNull<T>) -> Self {
        let offset = core::mem::offset_of!(Inner<T>, value);
        // SAFETY: By the contract, `value` is the field of an `Inner<T>`.
        let inner = unsafe { value.cast::<u8>().sub(offset) };
        // INVARIANT: `into_raw` gave up the ownership that the new box takes.
        Self(inner.cast())
    }
}

impl<T: Send> Deref for RcuBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Valid by the type invariant, and only shared references are given out.
        unsafe { &(*self.0.as_ptr()).value }
    }
}

impl<T: Send> Drop for RcuBox<T> {
    fn drop(&mut self) {
        // SAFETY: The head is in the allocation that the box owned; nobody else queues it, and
        // `free` gets the ownership.
        unsafe { bindings::call_rcu(&raw mut (*self.0.as_ptr()).head, Some(free::<T>)) }
    }
}

/// # Safety
///
/// Called by RCU, once, with the head of an allocation whose owner is gone.
unsafe extern "C" fn free<T>(head: *mut bindings::callback_head) {
    // SAFETY: `head` is the first field of an `Inner<T>` made by `KBox::into_raw`, and no reader
    // is left after the grace period.
    drop(unsafe { KBox::from_raw(head.cast::<Inner<T>>()) });
}
