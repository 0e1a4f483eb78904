// SPDX-License-Identifier: GPL-2.0

//! Clients of devices that are written in Rust (`struct ib_client`).
//!
//! What a client keeps for a device is its own business: the slot of the device stays empty.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Device,
    static_lock::StaticSpinLock, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    types::Opaque, //
};

/// Who wants to be told of devices.
pub trait DeviceClient: 'static {
    /// The name, for messages.
    const NAME: &'static CStr;

    /// A device is there. Sleeps. The client gets no more calls for a device for which it returns
    /// an error.
    fn add(device: &Device) -> Result;

    /// A device goes away: nothing of it is used when this returns. Sleeps.
    fn remove(device: &Device);
}

/// A registered client. Dropping it removes the client from all devices; sleeps.
///
/// # Invariants
///
/// The C object is registered.
pub struct Registration<T: DeviceClient> {
    raw: KBox<Opaque<bindings::ib_client>>,
    _client: PhantomData<T>,
}

// SAFETY: A client is unregistered by any thread.
unsafe impl<T: DeviceClient> Send for Registration<T> {}

impl<T: DeviceClient> Registration<T> {
    /// Registers the client, and adds it to the devices that are there. Sleeps.
    pub fn new() -> Result<Self> {
        let mut client: bindings::ib_client = pin_init::zeroed();
        client.name = T::NAME.as_char_ptr();
        client.add = Some(add::<T>);
        client.remove = Some(remove::<T>);
        let raw = KBox::new(Opaque::new(client), GFP_KERNEL)?;
        // SAFETY: The object lives until it is unregistered, and its functions fit it.
        to_result(unsafe { bindings::ib_register_client(raw.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            raw,
            _client: PhantomData,
        })
    }
}

impl<T: DeviceClient> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::ib_unregister_client(self.raw.get()) };
    }
}

/// # Safety
///
/// Called by the core with a device that is registered.
unsafe extern "C" fn add<T: DeviceClient>(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(device) };
    from_result(|| T::add(device).map(|()| 0))
}

/// # Safety
///
/// Called by the core with a device that the client was added to.
unsafe extern "C" fn remove<T: DeviceClient>(device: *mut bindings::ib_device, _data: *mut c_void) {
    // SAFETY: By the contract of this function.
    T::remove(unsafe { Device::from_raw(device) });
}

/// What a client keeps for each device, for a `static`.
pub struct DeviceTable<T>(StaticSpinLock<Option<RBTree<usize, T>>>);

impl<T: Send> DeviceTable<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self(StaticSpinLock::new(None))
    }

    fn key(device: &Device) -> usize {
        device.as_raw().addr()
    }

    /// Keeps `value` for a device that nothing is kept for. May sleep.
    ///
    /// Errors: `ENOMEM`; the value is dropped.
    pub fn put(&'static self, device: &Device, value: T) -> Result {
        let node = RBTreeNode::new(Self::key(device), value, GFP_KERNEL)?;
        let old = self.0.lock().get_or_insert_with(RBTree::new).insert(node);
        drop(old);
        Ok(())
    }

    /// Takes away what is kept for a device.
    pub fn take(&'static self, device: &Device) -> Option<T> {
        let node = self.0.lock().as_mut()?.remove_node(&Self::key(device))?;
        Some(node.to_key_value().1)
    }

    /// Looks at what is kept for a device, in atomic context. Any context.
    pub fn with<R>(&'static self, device: &Device, look: impl FnOnce(&T) -> R) -> Option<R> {
        let guard = self.0.lock();
        Some(look(guard.as_ref()?.get(&Self::key(device))?))
    }
}

impl<T: Send> Default for DeviceTable<T> {
    fn default() -> Self {
        Self::new()
    }
}
