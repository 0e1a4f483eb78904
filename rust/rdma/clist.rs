// SPDX-License-Identifier: GPL-2.0

//! Insertion into and removal from the doubly linked lists of C structures.
//!
//! C header: [`include/linux/list.h`](srctree/include/linux/list.h)

use kernel::bindings::list_head;

/// Makes `head` an empty list.
///
/// # Safety
///
/// `head` must be writable and in no list.
#[inline]
pub(crate) unsafe fn init(head: *mut list_head) {
    // SAFETY: Writable by the contract.
    unsafe {
        (*head).next = head;
        (*head).prev = head;
    }
}

/// # Safety
///
/// `prev` and `next` must be neighbours in a list that is the caller's to change; `new` must be
/// writable and in no list.
#[inline]
unsafe fn insert(new: *mut list_head, prev: *mut list_head, next: *mut list_head) {
    // SAFETY: All three are writable by the contract.
    unsafe {
        (*next).prev = new;
        (*new).next = next;
        (*new).prev = prev;
        (*prev).next = new;
    }
}

/// Puts `new` first.
///
/// # Safety
///
/// `head` must be the head of a list that is the caller's to change; `new` must be writable and
/// in no list.
#[inline]
pub(crate) unsafe fn push_front(new: *mut list_head, head: *mut list_head) {
    // SAFETY: The head and its successor are neighbours.
    unsafe { insert(new, head, (*head).next) }
}

/// Puts `new` last.
///
/// # Safety
///
/// As for [`push_front`].
#[inline]
pub(crate) unsafe fn push_back(new: *mut list_head, head: *mut list_head) {
    // SAFETY: The head's predecessor and the head are neighbours.
    unsafe { insert(new, (*head).prev, head) }
}

/// Takes `entry` out of its list. Its own links keep no meaning.
///
/// # Safety
///
/// `entry` must be in a list that is the caller's to change.
#[inline]
pub(crate) unsafe fn remove(entry: *mut list_head) {
    // SAFETY: The neighbours of a list entry are writable with the list.
    unsafe {
        let (prev, next) = ((*entry).prev, (*entry).next);
        (*next).prev = prev;
        (*prev).next = next;
        // A second removal must fault, not corrupt.
        (*entry).next = POISON;
        (*entry).prev = POISON;
    }
}

/// Never a valid address.
const POISON: *mut list_head = core::ptr::without_provenance_mut(0xdead_0000_0000_0100);

/// The first entry.
///
/// # Safety
///
/// `head` must be the head of a list that does not change meanwhile.
#[inline]
pub(crate) unsafe fn first(head: *mut list_head) -> Option<*mut list_head> {
    // SAFETY: Readable by the contract.
    unsafe { after(head, head) }
}

/// The entry after `entry`.
///
/// # Safety
///
/// `entry` must be in the list of `head`, or `head` itself; the list must not change meanwhile.
#[inline]
pub(crate) unsafe fn after(entry: *mut list_head, head: *mut list_head) -> Option<*mut list_head> {
    // SAFETY: Readable by the contract.
    let next = unsafe { (*entry).next };
    (next != head).then_some(next)
}

/// The last entry.
///
/// # Safety
///
/// As for [`first`].
#[inline]
pub(crate) unsafe fn last(head: *mut list_head) -> Option<*mut list_head> {
    // SAFETY: Readable by the contract.
    let prev = unsafe { (*head).prev };
    (prev != head).then_some(prev)
}

/// Moves all entries of `from` to the end of `to`.
///
/// # Safety
///
/// Both must be heads of lists that are the caller's to change.
#[inline]
pub(crate) unsafe fn append_all(from: *mut list_head, to: *mut list_head) {
    // SAFETY: First, last and head of either list are writable by the contract.
    unsafe {
        let (Some(head), Some(tail)) = (first(from), last(from)) else {
            return;
        };
        let end = (*to).prev;
        (*head).prev = end;
        (*end).next = head;
        (*tail).next = to;
        (*to).prev = tail;
        init(from);
    }
}
