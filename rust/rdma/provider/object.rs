// SPDX-License-Identifier: GPL-2.0

//! Objects of a driver: the C structure and the driver's part behind it.

/// The largest alignment that every `kmalloc` block has.
pub(super) const KMALLOC_ALIGN: usize = 8;

/// Declares the pair of a C structure and the driver's part.
macro_rules! provided_object {
    ($(#[$meta:meta])* $name:ident: $core:ty, $raw:ident, $data:ident) => {
        $(#[$meta])*
        ///
        /// Dereferences to the driver's part.
        ///
        /// # Invariants
        ///
        /// Behind a reference, the driver's part is initialised, and it is pinned.
        #[repr(C)]
        pub struct $name<D: Driver> {
            core: $core,
            anchor: core::cell::UnsafeCell<core::mem::MaybeUninit<AnchorSlot>>,
            data: core::cell::UnsafeCell<core::mem::MaybeUninit<D::$data>>,
        }

        // SAFETY: The core's part may be used from any task, and so may the driver's, whose
        // trait asks for `Send`.
        unsafe impl<D: Driver> Send for $name<D> {}

        // SAFETY: As above; the driver's trait asks for `Sync`.
        unsafe impl<D: Driver> Sync for $name<D> {}

        #[allow(dead_code, reason = "not every kind needs all of them")]
        impl<D: Driver> $name<D> {
            /// Bytes that the core is to allocate.
            pub(super) const SIZE: usize = {
                assert!(
                    align_of::<Self>() <= crate::provider::object::KMALLOC_ALIGN,
                    "kmalloc does not align that much"
                );
                size_of::<Self>()
            };

            /// Views a C object.
            ///
            /// # Safety
            ///
            /// `ptr` must be an object of a device of `D` whose driver's part is initialised, and
            /// live for `'a`.
            pub unsafe fn from_raw<'a>(ptr: *mut kernel::bindings::$raw) -> &'a Self {
                // SAFETY: By the contract of this function; the C object comes first.
                // INVARIANT: As above.
                unsafe { &*ptr.cast() }
            }

            /// The C object.
            pub fn as_raw(&self) -> *mut kernel::bindings::$raw {
                self.core.as_raw()
            }

            /// The core's part.
            pub fn core(&self) -> &$core {
                &self.core
            }

            /// The device.
            pub fn device(&self) -> &crate::provider::Device<D> {
                // SAFETY: Objects of a driver belong to a device of that driver.
                unsafe { crate::provider::Device::from_raw(self.core.device().as_raw()) }
            }

            /// The driver's part, which does not move as long as the object exists.
            pub fn pinned(&self) -> core::pin::Pin<&D::$data> {
                // SAFETY: By the type invariant.
                unsafe { core::pin::Pin::new_unchecked(&**self) }
            }

            fn anchor(&self) -> &AnchorSlot {
                // SAFETY: Initialised before the driver's part, which is initialised by the type
                // invariant.
                unsafe { &*self.anchor.get().cast() }
            }

            /// A way to the object for background work of the driver. The object is not destroyed
            /// while somebody is in; the destroyer waits for that after the driver's operation has
            /// returned, and before the driver's part is dropped. May sleep. `ENOMEM`.
            ///
            /// Not for objects that are destroyed in atomic context.
            pub fn handle(&self) -> kernel::error::Result<crate::provider::Handle<Self>> {
                let anchor = crate::provider::handle::anchor(self.anchor())?;
                // SAFETY: The anchor of this object, which `drop_data` closes.
                Ok(unsafe { crate::provider::Handle::new(anchor, self) })
            }

            /// Initialises the driver's part. If `finish` fails, the part is dropped again.
            ///
            /// # Safety
            ///
            /// `ptr` must be a new object with [`Self::SIZE`] bytes, which nobody else uses yet.
            unsafe fn create(
                ptr: *mut kernel::bindings::$raw,
                init: impl pin_init::PinInit<D::$data, kernel::error::Error>,
                finish: impl FnOnce(&Self) -> kernel::error::Result,
            ) -> kernel::error::Result {
                let this: *mut Self = ptr.cast();
                let anchor = AnchorSlot::new();
                // SAFETY: By the contract of this function, the memory is ours; if this fails,
                // the slot counts as uninitialised.
                unsafe {
                    (&raw mut (*this).anchor).cast::<AnchorSlot>().write(anchor);
                    pin_init::PinInit::__init(init, (&raw mut (*this).data).cast())?
                };
                // SAFETY: Just initialised.
                finish(unsafe { Self::from_raw(ptr) }).inspect_err(|_| {
                    // SAFETY: Initialised above, and not used after this.
                    unsafe { Self::drop_data(ptr) }
                })
            }

            /// Waits for those who are in through a handle, and drops the driver's part.
            ///
            /// # Safety
            ///
            /// As for [`Self::from_raw`]; nobody else may use the object after this is called.
            unsafe fn drop_data(ptr: *mut kernel::bindings::$raw) {
                let this: *mut Self = ptr.cast();
                // SAFETY: By the contract of this function, initialised, and not used any more
                // after those with a handle are gone.
                unsafe {
                    crate::provider::handle::close(Self::from_raw(ptr).anchor());
                    core::ptr::drop_in_place((&raw mut (*this).data).cast::<D::$data>());
                    core::ptr::drop_in_place((&raw mut (*this).anchor).cast::<AnchorSlot>());
                }
            }
        }

        impl<D: Driver> core::ops::Deref for $name<D> {
            type Target = D::$data;

            fn deref(&self) -> &D::$data {
                // SAFETY: By the type invariant.
                unsafe { &*self.data.get().cast() }
            }
        }
    };
}
pub(super) use provided_object;

/// Declares the view of an object that a driver is about to set up.
macro_rules! new_object {
    ($(#[$meta:meta])* $name:ident: $core:ty) => {
        $(#[$meta])*
        ///
        /// Dereferences to the core's part, as far as it is filled in.
        #[derive(Clone, Copy)]
        pub struct $name<'a>(&'a $core);

        impl core::ops::Deref for $name<'_> {
            type Target = $core;

            fn deref(&self) -> &$core {
                self.0
            }
        }
    };
}
pub(super) use new_object;
