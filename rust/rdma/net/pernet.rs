// SPDX-License-Identifier: GPL-2.0

//! Being told of the end of network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::marker::PhantomData;
use core::pin::Pin;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::netns::Net;

/// Told when a namespace goes away.
pub trait NetExit: 'static {
    /// The namespace `net` goes away. Its interfaces are gone already. May sleep.
    fn exit(net: &Net);
}

/// A registered [`NetExit`]. Registration and drop may sleep; on drop `exit` is called for every
/// namespace that exists.
///
/// # Invariants
///
/// The operations are registered.
#[pin_data(PinnedDrop)]
pub struct Registration<T: NetExit> {
    #[pin]
    ops: Opaque<bindings::pernet_operations>,
    _type: PhantomData<T>,
}

// SAFETY: The operations belong to the network core, which has a lock of its own.
unsafe impl<T: NetExit> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: NetExit> Sync for Registration<T> {}

impl<T: NetExit> Registration<T> {
    /// Registers the operations.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialisation fails unless the operations are registered.
            ops <- Opaque::try_ffi_init(|ops: *mut bindings::pernet_operations| {
                let mut init: bindings::pernet_operations = pin_init::zeroed();
                init.exit = Some(Self::exit);
                // SAFETY: The slot is valid for writes.
                unsafe { ops.write(init) };
                // SAFETY: The operations are pinned, and `drop` takes them away.
                to_result(unsafe { bindings::register_pernet_subsys(ops) })
            }),
            _type: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the network core with a namespace.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: The namespace is valid during the call.
        T::exit(unsafe { Net::from_raw(net) });
    }
}

#[pinned_drop]
impl<T: NetExit> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
    }
}
