// SPDX-License-Identifier: GPL-2.0

//! The tables of devices, clients and namespaces, and the locks that guard them.
//!
//! A table is read through a guard of its lock, so what it hands out cannot leave the table
//! meanwhile. Two walks go without: [`DeviceTable::walk`] holds the lock only between two steps
//! and counts a memory reference on each device, and [`DeviceTable::walk_live`] never takes it and
//! counts a registration reference.

use core::ptr::NonNull;

use crate::{
    client::{
        Client,
        ClientUse, //
    },
    device::{
        netdev::NetdevHash,
        Device,
        Get,
        Name, //
    },
    gfp::Gfp,
    netns::{
        Net,
        NetId,
        RdmaNet, //
    },
    new_rwsem,
    pin_once::PinOnce,
    rwsem::{
        ReadGuard,
        RwSem,
        WriteGuard, //
    },
    xarray::{
        Kind,
        Mark,
        Xa, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        rcu, //
    },
};

/// All that the core knows.
#[pin_data]
pub struct Registry {
    /// Devices that have a name.
    #[pin]
    pub devices: DeviceTable,
    /// Clients.
    #[pin]
    pub clients: ClientTable,
    /// Network namespaces other than the initial one.
    #[pin]
    pub nets: NetTable,
    /// Ports by their network device.
    #[pin]
    pub netdevs: NetdevHash,
}

static REGISTRY: PinOnce<Registry> = PinOnce::new();

/// Makes the registry. Called once, before anything else of the core.
#[inline]
pub fn init() -> Result {
    let made = REGISTRY.init(pin_init!(Registry {
        devices <- DeviceTable::new(),
        clients <- ClientTable::new(),
        nets <- NetTable::new(),
        netdevs <- NetdevHash::new(),
    }));
    if made {
        Ok(())
    } else {
        Err(EBUSY)
    }
}

/// The registry.
///
/// # Panics
///
/// If [`init()`] was not called.
#[inline]
pub fn get() -> &'static Registry {
    match REGISTRY.get() {
        Some(registry) => registry,
        None => panic!("rdma: the registry is used before it is made"),
    }
}

/// A property of a device in the table.
#[derive(Clone, Copy)]
pub enum DeviceMark {
    /// Clients may see the device. Changes while the table is locked for writing.
    Registered,
    /// Network events are to update the GID tables of the device.
    GidUpdates,
}

impl DeviceMark {
    fn raw(self) -> Mark {
        match self {
            DeviceMark::Registered => Mark::M1,
            DeviceMark::GidUpdates => Mark::M2,
        }
    }
}

/// Devices by index.
///
/// # Invariants
///
/// Each entry owns a memory reference. Entries are added and removed with the lock held for
/// writing.
#[pin_data]
pub struct DeviceTable {
    #[pin]
    xa: Xa<bindings::ib_device>,
    #[pin]
    lock: RwSem<NextIndex>,
}

struct NextIndex(u32);

impl DeviceTable {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            xa <- Xa::new(Kind::Alloc),
            lock <- new_rwsem!(NextIndex(0), "rdma_devices"),
        })
    }

    /// Locks the table for reading. Sleeps.
    pub fn read(&self) -> Devices<'_> {
        Devices {
            table: self,
            _lock: self.lock.read(),
        }
    }

    /// Locks the table for writing. Sleeps.
    pub fn write(&self) -> DevicesMut<'_> {
        DevicesMut {
            table: self,
            lock: self.lock.write(),
        }
    }

    /// Whether the device has its name and is not yet being freed. Any context.
    fn has(&self, device: &Device) -> bool {
        self.xa
            .load(device.index() as usize)
            .is_some_and(|found| found.as_ptr() == device.as_raw())
    }

    /// Whether the device has a mark. May change at once unless the table is locked.
    pub fn has_mark(&self, device: &Device, mark: DeviceMark) -> bool {
        self.xa.has_mark(device.index() as usize, mark.raw())
    }

    /// Walks all devices, in the order of their indices, without the lock while the caller looks at
    /// one. Devices that come or go meanwhile may be missed.
    pub fn walk(&self) -> impl Iterator<Item = ARef<Device>> + '_ {
        let mut next = Some(0);
        core::iter::from_fn(move || {
            let _lock = self.lock.read();
            let (index, found) = self.xa.find(next?, Mark::Present)?;
            next = index.checked_add(1);
            // SAFETY: The entry cannot be removed while the lock is held, and owns a reference.
            Some(unsafe { Device::from_raw(found.as_ptr()) }.hold())
        })
    }

    /// Walks all devices that are registered, without any lock.
    pub fn walk_live(&self) -> impl Iterator<Item = Get> + '_ {
        let mut next = Some(0);
        core::iter::from_fn(move || loop {
            let _rcu = rcu::read_lock();
            let (index, found) = self.xa.find(next?, Mark::Present)?;
            next = index.checked_add(1);
            // SAFETY: The memory of a device is freed a grace period after the device left the
            // table, and its registration count is zero by then.
            if let Some(get) = unsafe { Device::from_raw(found.as_ptr()) }.try_get() {
                return Some(get);
            }
        })
    }

    /// Whether there is no device.
    pub fn is_empty(&self) -> bool {
        self.xa.find(0, Mark::Present).is_none()
    }
}

/// What can be seen of the devices while their table is locked.
#[derive(Clone, Copy)]
pub struct DeviceView<'g>(&'g DeviceTable);

impl<'g> DeviceView<'g> {
    fn iter_raw(self, mark: Mark) -> impl Iterator<Item = &'g Device> {
        self.0
            .xa
            .iter(mark)
            // SAFETY: The entry cannot be removed while the lock is held, and owns a reference.
            .map(|(_, found)| unsafe { Device::from_raw(found.as_ptr()) })
    }

    /// All devices, in the order of their indices.
    pub fn iter(self) -> impl Iterator<Item = &'g Device> {
        self.iter_raw(Mark::Present)
    }

    /// All devices with a mark, in the order of their indices.
    pub fn marked(self, mark: DeviceMark) -> impl Iterator<Item = &'g Device> {
        self.iter_raw(mark.raw())
    }

    /// The device of an index.
    pub fn get(self, index: u32) -> Option<&'g Device> {
        self.0
            .xa
            .load(index as usize)
            // SAFETY: As in `iter_raw`.
            .map(|found| unsafe { Device::from_raw(found.as_ptr()) })
    }
}

/// The table of devices, locked for reading.
pub struct Devices<'a> {
    table: &'a DeviceTable,
    _lock: ReadGuard<'a, NextIndex>,
}

impl Devices<'_> {
    /// The devices.
    pub fn view(&self) -> DeviceView<'_> {
        DeviceView(self.table)
    }
}

/// The table of devices, locked for writing. Names and namespaces of devices change through it.
pub struct DevicesMut<'a> {
    table: &'a DeviceTable,
    lock: WriteGuard<'a, NextIndex>,
}

impl<'a> DevicesMut<'a> {
    /// The devices.
    pub fn view(&self) -> DeviceView<'_> {
        DeviceView(self.table)
    }

    /// Turns the lock into a read lock, without letting a writer in between.
    pub fn downgrade(self) -> Devices<'a> {
        Devices {
            table: self.table,
            _lock: self.lock.downgrade(),
        }
    }

    /// Adds a device and gives it the next free index of 31 bits. May sleep.
    pub fn insert(&mut self, device: &Device) -> Result {
        let index = self.table.xa.alloc_cyclic(
            device.as_raw(),
            0,
            i32::MAX as u32,
            &mut self.lock.0,
            Gfp::KERNEL,
        )?;
        // INVARIANT: The entry gets a reference of its own.
        let _ = ARef::into_raw(device.hold());
        // SAFETY: The device is being registered; readers of the table are locked out.
        unsafe { (*device.as_raw()).index = index };
        Ok(())
    }

    /// Removes a device, if it is in the table.
    pub fn remove(&mut self, device: &Device) -> Option<ARef<Device>> {
        if !self.table.has(device) {
            return None;
        }
        let found = self.table.xa.erase(device.index() as usize)?;
        // SAFETY: The entry was the device, and its reference is handed over.
        Some(unsafe { ARef::from_raw(found.cast()) })
    }

    /// Sets or clears a mark.
    pub fn set_mark(&mut self, device: &Device, mark: DeviceMark, on: bool) {
        let index = device.index() as usize;
        if on {
            self.table.xa.set_mark(index, mark.raw());
        } else {
            self.table.xa.clear_mark(index, mark.raw());
        }
    }

    /// Gives a device that is not yet in the driver model its name. May sleep.
    pub fn set_first_name(&mut self, device: &Device, name: &Name) -> Result {
        // SAFETY: The device is valid and not added yet; the format takes one string.
        to_result(unsafe {
            bindings::dev_set_name(device.dev_raw(), c"%s".as_char_ptr(), name.as_char_ptr())
        })
    }

    /// Replaces the copy of the name that lies in the device.
    pub fn publish_name(&mut self, device: &Device, name: &Name) {
        let _guard = device.cache_lock().write();
        // SAFETY: The lock for the name is held; both are `NAME_MAX` bytes.
        unsafe { (*device.as_raw()).name = name.to_array() };
    }

    /// Renames a device of the driver model, which sends the uevent MOVE. May sleep.
    pub fn rename(&mut self, device: &Device, name: &Name) -> Result {
        let old = device.name();
        // The uevent takes the name from the copy.
        self.publish_name(device, name);
        // SAFETY: The device is in the driver model.
        to_result(unsafe { bindings::device_rename(device.dev_raw(), name.as_char_ptr()) })
            .inspect_err(|_| self.publish_name(device, &old))
    }

    /// Moves a device that is not registered to another namespace.
    pub fn set_net(&mut self, device: &Device, net: NetId) {
        // SAFETY: The device is valid; readers of the table are locked out.
        unsafe { bindings::write_pnet(&raw mut (*device.coredev_raw()).rdma_net, net.as_raw()) }
    }
}

/// Clients by number.
///
/// # Invariants
///
/// Entries are added and removed with the lock held for writing, which also guards the first
/// number that no later client has. A marked entry owns a use of its client.
#[pin_data]
pub struct ClientTable {
    #[pin]
    xa: Xa<bindings::ib_client>,
    #[pin]
    lock: RwSem<EndId>,
}

struct EndId(u32);

impl ClientTable {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            xa <- Xa::new(Kind::Alloc),
            lock <- new_rwsem!(EndId(0), "rdma_clients"),
        })
    }

    /// Locks the table for reading. Sleeps.
    pub fn read(&self) -> Clients<'_> {
        Clients {
            table: self,
            lock: self.lock.read(),
        }
    }

    /// Locks the table for writing. Sleeps.
    pub fn write(&self) -> ClientsMut<'_> {
        ClientsMut {
            table: self,
            lock: self.lock.write(),
        }
    }

    /// The client of a number, for a holder of a use of it.
    ///
    /// # Safety
    ///
    /// The caller makes sure, by a use or otherwise, that the client, if there is one, stays.
    pub(crate) unsafe fn load(&self, id: u32) -> Option<&'static Client> {
        self.xa
            .load(id as usize)
            // SAFETY: By the caller.
            .map(|found| unsafe { Client::from_raw(found.as_ptr()) })
    }

    /// Whether there is no client.
    pub fn is_empty(&self) -> bool {
        self.xa.find(0, Mark::Present).is_none()
    }
}

/// The table of clients, locked for reading.
pub struct Clients<'a> {
    table: &'a ClientTable,
    lock: ReadGuard<'a, EndId>,
}

impl Clients<'_> {
    /// The registered clients, in the order of their registration.
    pub fn registered(&self) -> impl Iterator<Item = &'static Client> + '_ {
        self.table
            .xa
            .iter(Mark::M1)
            // SAFETY: The entry cannot be removed while the lock is held.
            .map(|(_, found)| unsafe { Client::from_raw(found.as_ptr()) })
    }

    /// The first number above those of all clients.
    pub fn end_id(&self) -> u32 {
        self.lock.0
    }
}

/// The table of clients, locked for writing.
pub struct ClientsMut<'a> {
    table: &'a ClientTable,
    lock: WriteGuard<'a, EndId>,
}

impl ClientsMut<'_> {
    /// Adds a client, with the next number. May sleep.
    pub fn insert(&mut self, registration: ClientUse) -> Result<u32> {
        let client = registration.client();
        let id = self.lock.0;
        let end = id.checked_add(1).ok_or(ENOSPC)?;
        client.set_id(id);
        let entry = NonNull::new(client.as_raw()).ok_or(EINVAL)?;
        self.table.xa.insert(id as usize, entry, Gfp::KERNEL)?;
        self.lock.0 = end;
        self.table.xa.set_mark(id as usize, Mark::M1);
        // INVARIANT: The marked entry owns the use.
        registration.leave();
        Ok(id)
    }

    /// Makes a client invisible to devices; returns the use that its registration was.
    pub fn retire(&mut self, client: &'static Client) -> Option<ClientUse> {
        let id = client.id() as usize;
        if !self.table.xa.has_mark(id, Mark::M1) {
            return None;
        }
        self.table.xa.clear_mark(id, Mark::M1);
        // SAFETY: The marked entry owned a use, which is handed over.
        Some(unsafe { ClientUse::adopt(client) })
    }

    /// Removes a client that is retired and has no use any more.
    pub fn remove(&mut self, client: &'static Client) {
        self.table.xa.erase(client.id() as usize);
        while let Some(last) = self.lock.0.checked_sub(1) {
            if self.table.xa.load(last as usize).is_some() {
                break;
            }
            self.lock.0 = last;
        }
    }
}

/// Namespaces by number.
///
/// # Invariants
///
/// An entry is visible from its addition to [`NetsMut::hide`], both of which happen while its
/// namespace exists.
#[pin_data]
pub struct NetTable {
    #[pin]
    xa: Xa<bindings::rdma_dev_net>,
    #[pin]
    lock: RwSem<()>,
}

impl NetTable {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            xa <- Xa::new(Kind::Alloc),
            lock <- new_rwsem!((), "rdma_nets"),
        })
    }

    /// Locks the table for reading. Sleeps.
    pub fn read(&self) -> Nets<'_> {
        Nets {
            table: self,
            _lock: self.lock.read(),
        }
    }

    /// Locks the table for writing. Sleeps.
    pub fn write(&self) -> NetsMut<'_> {
        NetsMut {
            table: self,
            _lock: self.lock.write(),
        }
    }

    /// Adds a namespace and numbers it. May sleep.
    pub fn insert(&self, net: &RdmaNet) -> Result {
        let _lock = self.lock.write();
        let id = self
            .xa
            .alloc(core::ptr::null_mut(), 0, u32::MAX, Gfp::KERNEL)?;
        net.set_id(id);
        let entry = NonNull::new(net.as_raw()).ok_or(EINVAL)?;
        // The index is reserved, so this needs no memory.
        self.xa.store(id as usize, entry, Gfp::KERNEL)?;
        Ok(())
    }

    /// Gives the number of a hidden namespace free.
    pub fn remove(&self, net: &RdmaNet) {
        self.xa.erase(net.id() as usize);
    }
}

/// The table of namespaces, locked for reading.
pub struct Nets<'a> {
    table: &'a NetTable,
    _lock: ReadGuard<'a>,
}

impl Nets<'_> {
    /// The visible namespaces.
    pub fn iter(&self) -> impl Iterator<Item = &RdmaNet> {
        self.table
            .xa
            .iter(Mark::Present)
            // SAFETY: Hiding an entry takes the lock for writing, and the namespace lives until
            // that is done.
            .map(|(_, found)| unsafe { RdmaNet::from_raw(found.as_ptr()) })
    }
}

/// The table of namespaces, locked for writing.
pub struct NetsMut<'a> {
    table: &'a NetTable,
    _lock: WriteGuard<'a>,
}

impl NetsMut<'_> {
    /// Whether no namespace but the initial one exists.
    pub fn is_empty(&self) -> bool {
        self.table.xa.find(0, Mark::Present).is_none()
    }

    /// Makes a namespace invisible; its number stays taken.
    pub fn hide(&mut self, net: &RdmaNet) -> Result {
        self.table.xa.hide(net.id() as usize, Gfp::KERNEL)?;
        Ok(())
    }
}

impl NetId {
    /// The namespace a device belongs to now. In exclusive mode it may change unless the table of
    /// devices is locked.
    pub fn of(device: &Device) -> NetId {
        // SAFETY: Only the address is used.
        unsafe { Net::from_raw(device.net_raw()) }.id()
    }
}
