// SPDX-License-Identifier: GPL-2.0

//! Clients: modules that are told of every device (`struct ib_client`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::{
    mem::ManuallyDrop,
    ptr, //
};

use crate::{
    completion::Completion,
    device::Device,
    refcount::{
        refcount_from_raw,
        RefcountExt, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Refcount,
    types::Opaque, //
};

/// A client.
///
/// # Invariants
///
/// The C object and the module that its callbacks lie in stay until unregistration of the client
/// is complete.
#[repr(transparent)]
pub struct Client(Opaque<bindings::ib_client>);

// SAFETY: The callbacks are meant to be called from any thread; the counter is atomic.
unsafe impl Sync for Client {}
// SAFETY: As above.
unsafe impl Send for Client {}

/// What a client keeps for a device: a pointer that only the client understands.
#[derive(Clone, Copy)]
pub struct ClientData(pub(crate) *mut c_void);

impl ClientData {
    /// From the pointer that a client hands in; an error pointer, which the table cannot hold, is
    /// reported as `None`.
    pub fn new(data: *mut c_void) -> Option<Self> {
        kernel::error::from_err_ptr(data).ok().map(Self)
    }

    /// No data.
    pub const NONE: ClientData = ClientData(ptr::null_mut());
}

/// A use of a [`Client`]: unregistration waits until it is gone.
///
/// # Invariants
///
/// One count of `ib_client.uses` belongs to this object.
pub struct ClientUse(&'static Client);

impl ClientUse {
    /// Takes over a count.
    ///
    /// # Safety
    ///
    /// The caller gives one count away.
    pub(crate) unsafe fn adopt(client: &'static Client) -> Self {
        Self(client)
    }

    /// Leaves the count to whatever stands for the use from now on.
    pub(crate) fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// The client.
    pub fn client(&self) -> &'static Client {
        self.0
    }
}

impl Drop for ClientUse {
    fn drop(&mut self) {
        if self.0.uses().dec_and_test() {
            // SAFETY: Initialised by `begin`; the waiter does not go on before this call has
            // finished with it.
            unsafe { Completion::from_raw(&raw mut (*self.0.as_raw()).uses_zero) }.complete();
        }
    }
}

/// An answer to the question which character device a client has (`struct ib_client_nl_info`).
#[repr(transparent)]
pub struct NlInfo(Opaque<bindings::ib_client_nl_info>);

impl NlInfo {
    /// Views a C object.
    ///
    /// # Safety
    ///
    /// `raw` is valid for `'a` and used by this thread only.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::ib_client_nl_info) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Whether the client told a device.
    pub fn has_cdev(&self) -> bool {
        // SAFETY: Valid, and used by this thread only.
        unsafe { !(*self.0.get()).cdev.is_null() }
    }

    /// Takes a reference on the device that was told, if any.
    pub fn hold_cdev(&self) {
        // SAFETY: `get_device` takes null too. The client keeps the device as long as it is
        // attached, which the caller's lock makes sure of.
        unsafe { bindings::get_device((*self.0.get()).cdev) };
    }
}

impl Client {
    /// Views a C client.
    ///
    /// # Safety
    ///
    /// `raw` stays valid until `ib_unregister_client` has returned for it, and the reference is
    /// not used afterwards.
    pub unsafe fn from_raw(raw: *mut bindings::ib_client) -> &'static Self {
        // SAFETY: The type is transparent.
        unsafe { &*raw.cast() }
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::ib_client {
        self.0.get()
    }

    /// Number of the client; later ones have higher numbers.
    pub fn id(&self) -> u32 {
        // SAFETY: Written with the table of clients locked, before the client is published.
        unsafe { (*self.as_raw()).client_id }
    }

    pub(crate) fn set_id(&self, id: u32) {
        // SAFETY: The caller is registering the client.
        unsafe { (*self.as_raw()).client_id = id }
    }

    /// The name.
    pub fn name(&self) -> &CStr {
        // SAFETY: A constant string of the client's module.
        unsafe { CStr::from_char_ptr((*self.as_raw()).name) }
    }

    /// Whether the client wants devices that lack an operation of kernel users, too.
    pub fn takes_any_device(&self) -> bool {
        // SAFETY: A constant of the client.
        unsafe { (*self.as_raw()).no_kverbs_req() != 0 }
    }

    fn uses(&self) -> &Refcount {
        // SAFETY: Part of the client.
        unsafe { refcount_from_raw(&raw mut (*self.as_raw()).uses) }
    }

    /// Starts the count of uses, with one for the registration itself.
    pub fn begin(&'static self) -> ClientUse {
        self.uses().set(1);
        // SAFETY: Part of the client, which nobody else uses yet.
        unsafe { bindings::init_completion(&raw mut (*self.as_raw()).uses_zero) };
        // INVARIANT: The count was just set.
        ClientUse(self)
    }

    /// Takes a use, unless unregistration has begun and the last one is gone.
    pub fn try_use(&'static self) -> Option<ClientUse> {
        // INVARIANT: The count was just taken. Made only then: dropping it gives the count back.
        self.uses().inc_not_zero().then(|| ClientUse(self))
    }

    /// Waits until all uses are gone. Sleeps.
    pub fn wait_unused(&self) {
        // SAFETY: Initialised by `begin`.
        unsafe { Completion::from_raw(&raw mut (*self.as_raw()).uses_zero) }.wait();
    }

    /// Tells the client of a device. May sleep.
    pub fn add(&self, device: &Device) -> Result {
        // SAFETY: A constant of the client.
        let Some(add) = (unsafe { (*self.as_raw()).add }) else {
            return Ok(());
        };
        // SAFETY: The device is registered.
        match unsafe { add(device.as_raw()) } {
            0 => Ok(()),
            ret if ret < 0 => to_result(ret),
            // Any value but zero is a failure.
            _ => Err(EINVAL),
        }
    }

    /// Takes a device from the client. May sleep.
    pub fn remove(&self, device: &Device, data: ClientData) {
        // SAFETY: A constant of the client; it was told of the device.
        if let Some(remove) = unsafe { (*self.as_raw()).remove } {
            // SAFETY: As above; called once.
            unsafe { remove(device.as_raw(), data.0) }
        }
    }

    /// Tells the client that the device has a new name. May sleep.
    pub fn renamed(&self, device: &Device, data: ClientData) {
        // SAFETY: A constant of the client.
        if let Some(rename) = unsafe { (*self.as_raw()).rename } {
            // SAFETY: The client is attached to the device, with this data.
            unsafe { rename(device.as_raw(), data.0) }
        }
    }

    /// Asks the client for its character device of a device; `None` if it cannot tell.
    pub fn nl_info(&self, device: &Device, data: ClientData, info: &NlInfo) -> Option<Result> {
        // SAFETY: A constant of the client.
        let get = unsafe { (*self.as_raw()).get_nl_info }?;
        // SAFETY: The client is attached to the device, with this data.
        Some(to_result(unsafe {
            get(device.as_raw(), data.0, info.0.get())
        }))
    }

    /// Asks the client for its character device that serves all devices; `None` if it cannot tell.
    pub fn global_nl_info(&self, info: &NlInfo) -> Option<Result> {
        // SAFETY: A constant of the client.
        let get = unsafe { (*self.as_raw()).get_global_nl_info }?;
        // SAFETY: The client is registered.
        Some(to_result(unsafe { get(info.0.get()) }))
    }

    /// Asks the client for the network device that a connection request is for.
    ///
    /// The result is the C pointer, null for none, with a reference for the caller.
    pub fn net_dev_by_params(
        &self,
        device: &Device,
        data: ClientData,
        query: &NetDevQuery,
    ) -> *mut bindings::net_device {
        // SAFETY: A constant of the client.
        match unsafe { (*self.as_raw()).get_net_dev_by_params } {
            // SAFETY: The client is attached to the device, with this data; the pointers of the
            // query are valid by its type invariant.
            Some(get) => unsafe {
                get(
                    device.as_raw(),
                    query.port,
                    query.pkey,
                    query.gid,
                    query.addr,
                    data.0,
                )
            },
            None => ptr::null_mut(),
        }
    }
}

/// Loads the module that has the client of a name, and waits until it is there. Sleeps.
pub fn request_module(name: &CStr) {
    // SAFETY: The format takes one string.
    unsafe {
        bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
    };
}

/// What a connection request says about its destination.
///
/// # Invariants
///
/// The pointers are null or valid as long as the object.
pub struct NetDevQuery {
    port: u32,
    pkey: u16,
    gid: *const bindings::ib_gid,
    addr: *const bindings::sockaddr,
}

impl NetDevQuery {
    /// Collects the values.
    ///
    /// # Safety
    ///
    /// The pointers are null or valid as long as the object.
    pub unsafe fn new(
        port: u32,
        pkey: u16,
        gid: *const bindings::ib_gid,
        addr: *const bindings::sockaddr,
    ) -> Self {
        Self {
            port,
            pkey,
            gid,
            addr,
        }
    }

    /// The port that the request came in by.
    pub fn port(&self) -> u32 {
        self.port
    }
}
