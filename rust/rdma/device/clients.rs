// SPDX-License-Identifier: GPL-2.0

//! What clients keep for a device.
//!
//! A slot per client holds the client's data. Apart from that it is either *attached* (marked) or
//! not: an attached slot owns a [`Get`] of the device and a [`ClientUse`], so neither side can go
//! before the client's `remove` callback has run. A slot that is reserved but not attached belongs
//! to the thread that runs the client's `add` or `remove`.

use core::mem::ManuallyDrop;

use super::{
    Device,
    Get, //
};
use crate::{
    client::{
        Client,
        ClientData,
        ClientUse, //
    },
    gfp::Gfp,
    registry::ClientTable,
    rwsem::{
        ReadGuard,
        RwSem,
        WriteGuard, //
    },
    xarray::{
        Mark,
        Xa, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;

const ATTACHED: Mark = Mark::M1;

impl Device {
    fn client_data(&self) -> &Xa<c_void> {
        // SAFETY: Initialised when the device was allocated.
        unsafe { Xa::from_raw(&raw mut (*self.as_raw()).client_data) }
    }

    fn client_lock(&self) -> &RwSem {
        // SAFETY: Initialised when the device was allocated.
        unsafe { RwSem::from_raw(&raw mut (*self.as_raw()).client_data_rwsem) }
    }

    /// Locks the slots for reading. Sleeps.
    pub fn slots(&self) -> Slots<'_> {
        Slots {
            device: self,
            _lock: self.client_lock().read(),
        }
    }

    /// Locks the slots for writing. Sleeps.
    pub fn slots_mut(&self) -> SlotsMut<'_> {
        SlotsMut {
            device: self,
            lock: self.client_lock().write(),
        }
    }

    /// Replaces the data of a client that the device has a slot for. May sleep.
    pub fn set_client_data(&self, client: u32, data: ClientData) -> Result {
        match NonNull::new(data.0) {
            Some(data) => self
                .client_data()
                .store(client as usize, data, Gfp::KERNEL)?,
            None => self.client_data().hide(client as usize, Gfp::KERNEL)?,
        };
        Ok(())
    }

    /// Gives up the slot of a client that is not attached.
    pub fn free_slot(&self, client: u32) {
        self.client_data().erase(client as usize);
    }

    /// Whether the device has a slot for a client.
    pub fn has_slot(&self, client: u32) -> bool {
        let at = client as usize;
        let found = self.client_data().find_slot(at, Mark::Present);
        found.is_some_and(|(index, _)| index == at)
    }

    /// Whether the device has no slot in use.
    pub fn has_no_slots(&self) -> bool {
        self.client_data().find_slot(0, Mark::Present).is_none()
    }
}

/// The slots of a device, locked for reading.
pub struct Slots<'d> {
    device: &'d Device,
    _lock: ReadGuard<'d>,
}

impl Slots<'_> {
    /// The attached clients, in the order of their registration, with their data.
    pub fn attached<'s>(
        &'s self,
        clients: &'s ClientTable,
    ) -> impl Iterator<Item = (&'s Client, ClientData)> {
        let mut next = Some(0);
        core::iter::from_fn(move || loop {
            let (id, data) = self.device.client_data().find_slot(next?, ATTACHED)?;
            next = id.checked_add(1);
            // SAFETY: The slot owns a use of the client, and stays attached while the lock is held.
            if let Some(client) = unsafe { clients.load(id as u32) } {
                return Some((
                    client,
                    ClientData(data.map_or(core::ptr::null_mut(), NonNull::as_ptr)),
                ));
            }
        })
    }

    /// Makes the reserved slot of a client attached; readers see it from now on.
    pub fn attach(&self, get: Get, client: ClientUse) {
        let id = client.client().id() as usize;
        // INVARIANT: The attached slot owns both.
        let _ = ManuallyDrop::new(get);
        client.leave();
        self.device.client_data().set_mark(id, ATTACHED);
    }
}

/// The slots of a device, locked for writing.
pub struct SlotsMut<'d> {
    device: &'d Device,
    lock: WriteGuard<'d>,
}

/// A client that was just detached from a device, and what the slot owned.
pub struct Detached {
    /// The data of the client.
    pub data: ClientData,
    /// The reference on the device.
    pub get: Get,
    /// The use of the client.
    pub client: ClientUse,
}

impl<'d> SlotsMut<'d> {
    /// Whether a client is attached.
    pub fn is_attached(&self, client: u32) -> bool {
        self.device
            .client_data()
            .has_mark(client as usize, ATTACHED)
    }

    /// Reserves a slot. May sleep.
    pub fn reserve(&mut self, client: u32) -> Result {
        self.device
            .client_data()
            .hide(client as usize, Gfp::KERNEL)?;
        Ok(())
    }

    /// Turns the lock into a read lock, without letting a writer in between.
    pub fn downgrade(self) -> Slots<'d> {
        Slots {
            device: self.device,
            _lock: self.lock.downgrade(),
        }
    }

    /// Takes the mark off an attached slot; the caller gets what the slot owned, and the slot.
    pub fn detach(&mut self, clients: &ClientTable, client: u32) -> Option<Detached> {
        if !self.is_attached(client) {
            return None;
        }
        // SAFETY: The slot owns a use of the client.
        let found = unsafe { clients.load(client) }?;
        let data = self.device.client_data().load(client as usize);
        self.device
            .client_data()
            .clear_mark(client as usize, ATTACHED);
        // SAFETY: The attached slot owned a count of each, which are handed over.
        unsafe {
            Some(Detached {
                data: ClientData(data.map_or(core::ptr::null_mut(), NonNull::as_ptr)),
                get: Get::from_raw(self.device.as_raw()),
                client: ClientUse::adopt(found),
            })
        }
    }
}
