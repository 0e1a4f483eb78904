// SPDX-License-Identifier: GPL-2.0

//! Life of the verbs objects whose memory the core allocates.
//!
//! | type | the object ... | dropped |
//! |---|---|---|
//! | [`Draft`] | has memory of the driver's size, nobody knows it | memory freed |
//! | [`Tracked`] | has an owner in the resource tracker, not listed yet | tracker entry put, memory freed |
//! | [`Object`] | is complete and belongs to whoever holds the pointer | stays alive |
//! | [`Retiring`] | is hidden from the tracker while the driver destroys it | listed again |
//!
//! So a constructor that fails half-way gives back what it took in reverse order, and a driver
//! that refuses to destroy an object leaves it as it was.

use crate::{device::Device, gfp::Gfp};
use core::{
    mem::{size_of, ManuallyDrop},
    ops::Deref,
    ptr::NonNull,
};
use kernel::{bindings, prelude::*};

/// Declares a type that stands for a C structure which C and Rust share.
macro_rules! c_object {
    ($(#[$meta:meta])* $vis:vis struct $name:ident($raw:ident);) => {
        $(#[$meta])*
        #[repr(transparent)]
        $vis struct $name(kernel::types::Opaque<kernel::bindings::$raw>);

        // SAFETY: The C structure may be used from any task; what changes at run time is
        // accessed atomically or under the lock that its accessor names.
        unsafe impl Send for $name {}

        // SAFETY: As above.
        unsafe impl Sync for $name {}

        impl $name {
            /// Views the C structure.
            ///
            /// # Safety
            ///
            /// `ptr` must point to a live object that outlives `'a`.
            $vis unsafe fn from_raw<'a>(ptr: *mut kernel::bindings::$raw) -> &'a Self {
                // SAFETY: The caller guarantees validity; the type is transparent.
                unsafe { &*ptr.cast() }
            }

            /// The C structure.
            $vis fn as_raw(&self) -> *mut kernel::bindings::$raw {
                self.0.get()
            }
        }
    };
}
pub(crate) use c_object;

/// Calls an operation of the device's table; `EOPNOTSUPP` if the driver has none.
macro_rules! driver_op {
    ($device:expr, $op:ident($($arg:expr),* $(,)?)) => {{
        match $device.ops().$op {
            // SAFETY: The arguments point to live objects of this device, which is what the
            // contract of every operation asks for.
            Some(op) => Ok(unsafe { op($($arg),*) }),
            None => Err(EOPNOTSUPP),
        }
    }};
}
pub(crate) use driver_op;

/// An object that the core allocates with the size that the driver asks for.
///
/// # Safety
///
/// The type must be transparent over the C structure `Raw`, which lies at the start of the
/// driver's own structure and is valid when zeroed.
pub unsafe trait DriverObject: Sized {
    /// The C structure.
    type Raw;

    /// Bytes that the driver of `device` needs for one object; 0 if it has no such objects.
    fn driver_size(device: &Device) -> usize;
}

/// An object that `rdma resource show` lists.
///
/// # Safety
///
/// `tracker_entry` must return the entry embedded in the object.
pub unsafe trait TrackedObject: DriverObject {
    /// What the entry stands for.
    const KIND: bindings::rdma_restrack_type;

    /// The embedded tracker entry.
    fn tracker_entry(&self) -> *mut bindings::rdma_restrack_entry;
}

/// Who is shown as the owner of an object.
#[derive(Clone, Copy)]
pub enum Owner<'a> {
    /// A kernel module, by its build-time name.
    Module(&'static CStr),
    /// The current task.
    CurrentTask,
    /// The owner of the object that this one is built on.
    SameAs(&'a TrackerEntry),
}

c_object! {
    /// The tracker entry of another object, see [`Owner::SameAs`].
    pub struct TrackerEntry(rdma_restrack_entry);
}

/// Zeroed memory of the driver's size.
///
/// # Invariants
///
/// The pointer comes from `kzalloc` with at least `size_of::<T::Raw>()` bytes, and nobody else
/// has it.
pub struct Draft<T: DriverObject>(NonNull<T>);

impl<T: DriverObject> Draft<T> {
    /// Allocates an object for the driver of `device`.
    ///
    /// `EOPNOTSUPP` if the driver has no such objects.
    pub fn new(device: &Device, gfp: Gfp) -> Result<Self> {
        Self::sized(device, T::driver_size(device), gfp, false)
    }

    /// As [`Self::new`], on the memory node that the driver prefers. May sleep.
    pub fn near_device(device: &Device) -> Result<Self> {
        Self::sized(device, T::driver_size(device), Gfp::KERNEL, true)
    }

    /// Allocates an object that the driver never sees. May sleep.
    pub fn without_driver(device: &Device) -> Result<Self> {
        Self::sized(device, size_of::<T::Raw>(), Gfp::KERNEL, false)
    }

    fn sized(device: &Device, size: usize, gfp: Gfp, near: bool) -> Result<Self> {
        if size < size_of::<T::Raw>() {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: `device` is valid; the helper only reads the node operation of its table.
        let ptr = unsafe { bindings::rdma_zalloc_obj(device.as_raw(), size, gfp.as_raw(), near) };
        // INVARIANT: Fresh from `kzalloc`, and large enough.
        Ok(Self(NonNull::new(ptr.cast()).ok_or(ENOMEM)?))
    }

    /// Completes an object that the tracker does not list.
    pub fn finish(self) -> Object<T> {
        Object(ManuallyDrop::new(self).0)
    }
}

impl<T: TrackedObject> Draft<T> {
    /// Names the owner.
    pub fn track(self, owner: Owner<'_>) -> Tracked<T> {
        let entry = self.tracker_entry();
        // SAFETY: The entry is part of the zeroed object, which nobody else sees yet; names
        // are those of modules, which outlive their objects.
        unsafe {
            bindings::rdma_restrack_new(entry, T::KIND);
            set_owner(entry, owner);
        }
        Tracked(self)
    }
}

impl<T: DriverObject> Deref for Draft<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant the memory is valid; zeroes are valid for `T`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: DriverObject> Drop for Draft<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the memory comes from `kzalloc` and is ours.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// Writes the owner of a tracker entry.
///
/// # Safety
///
/// `entry` must be valid and not listed yet.
unsafe fn set_owner(entry: *mut bindings::rdma_restrack_entry, owner: Owner<'_>) {
    // SAFETY: By the contract of this function; `SameAs` refers to a live entry.
    unsafe {
        match owner {
            Owner::Module(name) => bindings::rdma_restrack_set_name(entry, name.as_char_ptr()),
            Owner::CurrentTask => bindings::rdma_restrack_set_name(entry, core::ptr::null()),
            Owner::SameAs(parent) => bindings::rdma_restrack_parent_name(entry, parent.as_raw()),
        }
    }
}

/// A draft whose owner the tracker knows.
pub struct Tracked<T: TrackedObject>(Draft<T>);

impl<T: TrackedObject> Tracked<T> {
    /// Completes the object: from now on it is listed.
    pub fn publish(self) -> Object<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: The entry was initialised by `track` and the driver has accepted the object.
        unsafe { bindings::rdma_restrack_add(this.tracker_entry()) };
        Object(this.0 .0)
    }
}

impl<T: TrackedObject> Deref for Tracked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: TrackedObject> Drop for Tracked<T> {
    fn drop(&mut self) {
        // SAFETY: The entry was initialised by `track` and was not listed; the memory goes
        // with the draft, after this.
        unsafe { bindings::rdma_restrack_put(self.tracker_entry()) };
    }
}

/// A complete object, owned by whoever holds its C pointer.
///
/// Dropping it does nothing: objects end through the `destroy` of their kind, which consumes
/// this, and stay with their owner if that fails.
///
/// # Invariants
///
/// The pointer is valid until the object is destroyed.
pub struct Object<T>(NonNull<T>);

impl<T: DriverObject> Object<T> {
    /// Takes over an object from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a live object, and the caller must own it: nobody else may be
    /// destroying it, and nobody may use it once it is gone.
    pub unsafe fn from_raw(ptr: *mut T::Raw) -> Self {
        // SAFETY: A live object is not at address zero.
        // INVARIANT: By the contract of this function.
        Self(unsafe { NonNull::new_unchecked(ptr.cast()) })
    }

    /// Hands the object to C.
    pub fn into_raw(self) -> *mut T::Raw {
        self.0.as_ptr().cast()
    }

    /// Frees the memory, after the driver has let go of the object.
    pub fn free(self) {
        // SAFETY: By the type invariant the memory is valid; it was allocated by `Draft` or
        // its C counterpart with `kzalloc`, and the owner gives it up.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

/// An object that is being destroyed.
///
/// The tracker hides it and has waited for all readers, but keeps its number, so that it can
/// come back if the driver refuses.
pub struct Retiring<T: TrackedObject>(ManuallyDrop<Object<T>>);

impl<T: TrackedObject> Retiring<T> {
    /// Hides the object. Waits for `rdma resource show` to let go of it.
    pub fn begin(object: Object<T>) -> Self {
        // SAFETY: The object is live and its entry initialised.
        unsafe { bindings::rdma_restrack_begin_del(object.tracker_entry()) };
        Self(ManuallyDrop::new(object))
    }

    /// Forgets the object and frees its memory, after the driver has let go of it.
    pub fn finish(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, so the object is taken once.
        let object = unsafe { ManuallyDrop::take(&mut this.0) };
        // SAFETY: Follows `begin`.
        unsafe { bindings::rdma_restrack_commit_del(object.tracker_entry()) };
        object.free();
    }
}

impl<T: TrackedObject> Deref for Retiring<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: TrackedObject> Drop for Retiring<T> {
    fn drop(&mut self) {
        // SAFETY: Follows `begin`; the driver still has the object.
        unsafe { bindings::rdma_restrack_abort_del(self.tracker_entry()) };
    }
}

/// Lists an object that the driver allocated.
///
/// # Safety
///
/// `entry` must be the unlisted entry of a live object of the given kind, whose parent objects
/// are set.
pub(crate) unsafe fn track_foreign(
    entry: *mut bindings::rdma_restrack_entry,
    kind: bindings::rdma_restrack_type,
    owner: Owner<'_>,
) {
    // SAFETY: By the contract of this function.
    unsafe {
        bindings::rdma_restrack_new(entry, kind);
        set_owner(entry, owner);
        bindings::rdma_restrack_add(entry);
    }
}
