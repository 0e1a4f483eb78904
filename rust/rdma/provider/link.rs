// SPDX-License-Identifier: GPL-2.0

//! Link types: devices that an administrator makes on top of network devices
//! (`rdma link add NAME type TYPE netdev DEVICE`).
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::net::NetDevice;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::from_result,
    ffi::{c_char, c_int},
    prelude::*,
    types::Opaque,
};

/// A type of links.
pub trait LinkType: 'static {
    /// What the administrator calls it.
    const NAME: &'static CStr;

    /// Makes a device of a name, which may be a pattern, on top of a network device. May sleep.
    fn new_link(name: &CStr, netdev: &NetDevice) -> Result;
}

/// A type that administrators may use.
///
/// # Invariants
///
/// The C object is registered.
#[pin_data(PinnedDrop)]
pub struct LinkRegistration<T: LinkType> {
    #[pin]
    ops: Opaque<bindings::rdma_link_ops>,
    _type: PhantomData<T>,
}

// SAFETY: The core takes its own lock for all that it does with the object.
unsafe impl<T: LinkType> Send for LinkRegistration<T> {}

// SAFETY: As above; there are no methods.
unsafe impl<T: LinkType> Sync for LinkRegistration<T> {}

impl<T: LinkType> LinkRegistration<T> {
    /// Registers the type until the result is dropped.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ops <- Opaque::ffi_init(|slot: *mut bindings::rdma_link_ops| {
                // SAFETY: The slot is writable and pinned; the core fills in the list.
                unsafe {
                    slot.write(pin_init::zeroed());
                    (*slot).type_ = T::NAME.as_char_ptr();
                    (*slot).newlink = Some(new_link::<T>);
                    bindings::rdma_link_register(slot);
                }
            }),
            _type: PhantomData,
        }? Error)
    }
}

#[pinned_drop]
impl<T: LinkType> PinnedDrop for LinkRegistration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_link_unregister(self.ops.get()) };
    }
}

/// # Safety
///
/// Called by the core with a terminated name and a network device that it holds.
unsafe extern "C" fn new_link<T: LinkType>(
    name: *const c_char,
    netdev: *mut bindings::net_device,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        T::new_link(CStr::from_char_ptr(name), NetDevice::from_raw(netdev))?;
        Ok(0)
    })
}
