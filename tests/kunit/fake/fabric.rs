// SPDX-License-Identifier: GPL-2.0

//! What connects fake devices: their addresses, and the queue pairs on them.

use super::{
    device::{Fake, PortState, State},
    ops::{Op, COUNT},
    qp::Pair,
    script::{Failure, Failures},
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        global_lock, Arc,
    },
};
use rdma::{
    ah::AhAttr,
    device::Device,
    gid::Gid,
    provider::{DeviceRef, Registration},
};

static NEXT_ID: Atomic<u32> = Atomic::new(1);
static NEXT_LID: Atomic<u32> = Atomic::new(0x10);

/// A number of at most 24 bits that nobody else has, and that is not one of a management queue
/// pair. Numbers come again after 16 million.
pub(crate) fn next_id() -> u32 {
    loop {
        let id = NEXT_ID.fetch_add(1, Relaxed) & 0x00ff_ffff;
        if id > 1 {
            return id;
        }
    }
}

/// A LID that no other port has.
pub(crate) fn next_lid() -> u32 {
    NEXT_LID.fetch_add(1, Relaxed)
}

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// Destination GID of the global route, if there is one.
    pub(crate) dgid: Option<Gid>,
    /// Destination LID; 0 for Ethernet.
    pub(crate) dlid: u32,
    /// The port that the packet leaves by.
    pub(crate) port: u32,
    /// Service level.
    pub(crate) sl: u8,
}

impl Address {
    pub(crate) fn of(attr: &AhAttr) -> Self {
        Self {
            dgid: attr.has_grh().then(|| attr.dgid()),
            dlid: attr.dlid(),
            port: attr.port(),
            sl: attr.service_level(),
        }
    }

    /// Whether it is that of a group.
    pub(crate) fn is_multicast(&self) -> bool {
        let of_group = |gid: Gid| gid.as_bytes().first() == Some(&0xff);
        (0xc000..0xffff).contains(&self.dlid) || self.dgid.is_some_and(of_group)
    }

    /// Whether it is that of a port.
    pub(crate) fn is_of(&self, port: &PortState) -> bool {
        let lids = port.attr.lid..port.attr.lid.wrapping_add(1 << port.attr.lmc);
        if self.dlid != 0 {
            return lids.contains(&self.dlid);
        }
        let is_ours = |gid: Gid| !gid.is_zero() && port.gids.iter().any(|own| *own == gid);
        self.dgid.is_some_and(is_ours)
    }
}

struct Tables {
    devices: KVec<Arc<State>>,
    pairs: KVVec<Arc<Pair>>,
    /// Queue pairs whose first request waits for a receive of the peer.
    waiting: KVVec<Arc<Pair>>,
    /// Devices that end with the module, if nobody ends them before.
    kept: KVec<Registration<Fake>>,
    /// What is to fail on devices that are yet to be made.
    template: Failures,
}

global_lock! {
    // SAFETY: Initialised in the module's init, before anything else.
    unsafe(uninit) static TABLES: Mutex<Tables> = Tables {
        devices: KVec::new(),
        pairs: KVVec::new(),
        waiting: KVVec::new(),
        kept: KVec::new(),
        template: [None; COUNT],
    };
}

/// Makes the tables.
///
/// # Safety
///
/// Called once, before all other functions.
pub(crate) unsafe fn init() {
    // SAFETY: By the contract of this function.
    unsafe { TABLES.init() };
}

/// Gives the memory of the tables back, which are empty.
pub(crate) fn exit() {
    let mut tables = TABLES.lock();
    tables.devices = KVec::new();
    tables.pairs = KVVec::new();
    tables.waiting = KVVec::new();
    tables.kept = KVec::new();
}

/// Keeps a device until the end of the module.
pub(crate) fn keep(device: Registration<Fake>) -> Result {
    // One that cannot be kept is dropped after the lock.
    let mut device = Some(device);
    let mut tables = TABLES.lock();
    tables.kept.reserve(1, GFP_KERNEL)?;
    if let Some(device) = device.take() {
        let _ = tables.kept.push_within_capacity(device);
    }
    Ok(())
}

/// Ends the devices that were kept.
pub(crate) fn drop_kept() {
    let kept = core::mem::replace(&mut TABLES.lock().kept, KVec::new());
    drop(kept);
}

/// What is to fail on the devices that are made from now on.
pub(crate) fn template() -> Failures {
    TABLES.lock().template
}

/// Changes that.
pub(crate) fn set_template(op: Op, failure: Option<Failure>) {
    if let Some(slot) = TABLES.lock().template.get_mut(op.index()) {
        *slot = failure;
    }
}

/// The devices that were kept and are registered still. Sub-devices are not among them.
pub(crate) fn kept() -> Result<KVec<DeviceRef<Fake>>> {
    let mut found = KVec::new();
    for device in TABLES.lock().kept.iter().filter_map(Registration::get) {
        found.push(device, GFP_KERNEL)?;
    }
    Ok(found)
}

/// Takes a device that a test made, to end it; `None` if it is none of those.
pub(crate) fn unkeep(device: &Device) -> Option<Registration<Fake>> {
    let mut tables = TABLES.lock();
    let at = tables
        .kept
        .iter()
        .position(|kept| core::ptr::eq(kept.core(), device))?;
    tables.kept.remove(at).ok()
}

/// Connects a device.
pub(crate) fn add_device(state: &Arc<State>) -> Result {
    TABLES.lock().devices.push(state.clone(), GFP_KERNEL)?;
    Ok(())
}

/// Disconnects a device.
pub(crate) fn remove_device(state: &Arc<State>) {
    TABLES
        .lock()
        .devices
        .retain(|other| !Arc::ptr_eq(other, state));
}

/// Connects a queue pair; `EBUSY` if it is a management queue pair that its port has already.
pub(crate) fn add_pair(pair: &Arc<Pair>) -> Result {
    let mut tables = TABLES.lock();
    if pair.number < 2
        && tables.pairs.iter().any(|other| {
            other.number == pair.number
                && other.state.id == pair.state.id
                && other.management_port == pair.management_port
        })
    {
        return Err(EBUSY);
    }
    tables.pairs.push(pair.clone(), GFP_KERNEL)?;
    Ok(())
}

/// Disconnects a queue pair.
pub(crate) fn remove_pair(pair: &Arc<Pair>) {
    let mut tables = TABLES.lock();
    tables.pairs.retain(|other| !Arc::ptr_eq(other, pair));
    tables.waiting.retain(|other| !Arc::ptr_eq(other, pair));
}

/// Notes that a queue pair waits for a receive of its peer.
pub(crate) fn wait(pair: &Arc<Pair>) {
    let mut tables = TABLES.lock();
    if !tables.waiting.iter().any(|other| Arc::ptr_eq(other, pair)) {
        // If there is no memory for this, the next request wakes it.
        let _ = tables.waiting.push(pair.clone(), GFP_KERNEL);
    }
}

/// Those that wait; nobody does afterwards.
pub(crate) fn take_waiting() -> KVVec<Arc<Pair>> {
    core::mem::replace(&mut TABLES.lock().waiting, KVVec::new())
}

/// The queue pairs of a device.
pub(crate) fn pairs_of(state: &Arc<State>) -> KVVec<Arc<Pair>> {
    let mut found = KVVec::new();
    for pair in TABLES.lock().pairs.iter() {
        if Arc::ptr_eq(&pair.state, state) && found.push(pair.clone(), GFP_KERNEL).is_err() {
            break;
        }
    }
    found
}

/// The device and the port of an address.
pub(crate) fn route(address: &Address) -> Option<(Arc<State>, u32)> {
    let tables = TABLES.lock();
    tables.devices.iter().find_map(|state| {
        let port = state.port_of(address)?;
        Some((state.clone(), port))
    })
}

/// A queue pair of a device by its number; those for management by their port, too.
pub(crate) fn pair(state: &Arc<State>, port: u32, number: u32) -> Option<Arc<Pair>> {
    let tables = TABLES.lock();
    let found = tables.pairs.iter().find(|pair| {
        pair.number == number
            && Arc::ptr_eq(&pair.state, state)
            && (number > 1 || pair.management_port == port)
    });
    found.cloned()
}

/// The queue pairs that are attached to a group.
pub(crate) fn group(gid: &Gid) -> KVVec<Arc<Pair>> {
    let mut found = KVVec::new();
    for pair in TABLES.lock().pairs.iter() {
        if pair.is_in(gid) && found.push(pair.clone(), GFP_KERNEL).is_err() {
            break;
        }
    }
    found
}
