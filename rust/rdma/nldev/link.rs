// SPDX-License-Identifier: GPL-2.0

//! Link types: drivers that make devices on top of network devices.

use core::ptr;

use kernel::{
    bindings::{
        self,
        rdma_link_ops, //
    },
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        Mutex, //
    }, //
};

use crate::{
    device::{
        Device,
        Get, //
    },
    net::NetDevice,
    netns::Net,
    new_rwsem,
    pin_once::PinOnce,
    rwsem::RwSem, //
};

/// The network device of that name in a namespace.
pub fn netdev_by_name(netns: &Net, name: &CStr) -> Option<ARef<NetDevice>> {
    // SAFETY: The namespace is valid, the name a C string, and the function returns a reference
    // or null.
    unsafe {
        NetDevice::from_raw_owned(bindings::dev_get_by_name(
            netns.as_raw(),
            name.as_char_ptr(), //
        ))
    }
}

/// A link type, as its driver declares it.
///
/// # Invariants
///
/// The pointer is one that [`LinkTypes::register`] was given, and that is still registered.
#[derive(Clone, Copy)]
struct LinkType(*mut rdma_link_ops);

impl LinkType {
    fn name(self) -> &'static CStr {
        // SAFETY: By the invariant; the name is constant. The lifetime is not let out of the
        // lock.
        unsafe { CStr::from_char_ptr((*self.0).type_) }
    }

    /// The type registered before this one.
    fn older(self) -> Option<LinkType> {
        // SAFETY: By the invariant; the list belongs to the registry, whose lock the caller has.
        let next = unsafe { (*self.0).list.next };
        // INVARIANT: `register` put it there.
        (!next.is_null()).then_some(LinkType(next.cast()))
    }

    /// Makes `older` the type registered before this one.
    fn set_older(self, older: Option<LinkType>) {
        let next = older.map_or(ptr::null_mut(), |older| older.0.cast());
        // SAFETY: As in `older`; the lock is held for writing.
        unsafe { (*self.0).list.next = next };
    }
}

/// The registered types, the newest first, linked through the field that drivers leave to the
/// core.
struct List(Option<LinkType>);

// SAFETY: The list may be changed by any thread that has the lock.
unsafe impl Send for List {}

// SAFETY: Readers only follow it.
unsafe impl Sync for List {}

impl List {
    fn iter(&self) -> impl Iterator<Item = LinkType> {
        core::iter::successors(self.0, |ty| ty.older())
    }

    fn find(&self, name: &CStr) -> Option<LinkType> {
        self.iter().find(|ty| ty.name() == name)
    }
}

/// The link types. There is one such table, [`LINK_TYPES`].
pub struct LinkTypes {
    /// Held for reading while a type's driver makes a device, so that it cannot be unregistered.
    list: PinOnce<RwSem<List>>,
    /// Held while a driver takes the lower part of a device down: one at a time.
    removal: PinOnce<Mutex<()>>,
}

/// The link types of the system.
pub static LINK_TYPES: LinkTypes = LinkTypes {
    list: PinOnce::new(),
    removal: PinOnce::new(),
};

impl LinkTypes {
    /// Prepares the table, once, before any driver can be there.
    pub fn init(&'static self) {
        self.list.init(new_rwsem!(List(None), "rdma_link_types"));
        self.removal
            .init(kernel::new_mutex!((), "rdma_link_removal"));
    }

    /// Adds a type. Tells whether it was added: a name is taken only once. May sleep.
    ///
    /// # Safety
    ///
    /// `ops` and its name stay valid and constant, except for the list, until it is unregistered.
    pub unsafe fn register(&self, ops: *mut rdma_link_ops) -> bool {
        let Some(list) = self.list.get() else {
            return false;
        };
        // INVARIANT: Registered as of the end of this function.
        let new = LinkType(ops);
        let mut list = list.write();
        if list.find(new.name()).is_some() {
            return false;
        }
        new.set_older(list.0);
        list.0 = Some(new);
        true
    }

    /// Removes a type, after waiting for its driver to end making a device. May sleep. One that
    /// was not added is left alone.
    pub fn unregister(&self, ops: *mut rdma_link_ops) {
        let Some(list) = self.list.get() else {
            return;
        };
        let mut list = list.write();
        let Some(old) = list.iter().find(|ty| ptr::eq(ty.0, ops)) else {
            return;
        };
        let newer = list
            .iter()
            .find(|ty| ty.older().is_some_and(|older| ptr::eq(older.0, ops)));
        match newer {
            Some(newer) => newer.set_older(old.older()),
            None => list.0 = old.older(),
        }
    }

    /// Has the driver of type `ty` make the device `name` on `netdev`. May sleep. [`None`] if
    /// there is no such type.
    pub fn newlink(&self, ty: &CStr, name: &CStr, netdev: &NetDevice) -> Option<Result> {
        let list = self.list.get()?.read();
        let ops = list.find(ty)?.0;
        // SAFETY: The type is registered, and the lock keeps it so.
        let newlink = unsafe { (*ops).newlink }?;
        // SAFETY: The driver's function is called with a name and a network device that stay
        // valid during the call.
        Some(to_result(unsafe {
            newlink(name.as_char_ptr(), netdev.as_raw())
        }))
    }

    /// Has the driver take down what is below a device that is about to be unregistered, if it
    /// wants to. May sleep.
    pub fn dellink(&self, device: &Get) -> Result {
        let dellink = device.link_ops().and_then(|ops| {
            // SAFETY: The driver's table is constant and lives as long as its devices.
            unsafe { (*ops).dellink }
        });
        let (Some(dellink), Some(removal)) = (dellink, self.removal.get()) else {
            return Ok(());
        };
        let _guard = removal.lock();
        // SAFETY: The device is registered.
        to_result(unsafe { dellink(device.as_raw()) })
    }
}

impl Device {
    fn link_ops(&self) -> Option<*const rdma_link_ops> {
        // SAFETY: The device is valid; drivers set the field before they register it.
        let ops = unsafe { (&raw const (*self.as_raw()).link_ops).read() };
        (!ops.is_null()).then_some(ops)
    }
}
