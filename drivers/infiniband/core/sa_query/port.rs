// SPDX-License-Identifier: GPL-2.0

//! Ports with subnet administration.
//!
//! Whoever works with a port holds a [`PortUse`]. There are none of a port that is closed, and
//! closing waits for the last one.

use super::{
    asker::{
        Asker,
        PathForm, //
    },
    query::{
        self,
        Order,
        Query, //
    },
};
use kernel::{
    impl_has_delayed_work, impl_has_work, new_delayed_work, new_spinlock_irq, new_work,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Refcount,
        SpinLockIrq, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        DelayedWork,
        Work,
        WorkItem, //
    },
};
use rdma::{
    ah::{
        AhAttr,
        AhType, //
    },
    completion::Completion,
    device::Device,
    device_client::DeviceTable,
    event::{
        self,
        PortEvent,
        PortWatcher,
        Subscription, //
    },
    gfp::Gfp,
    gid::Gid,
    mad::{
        client::{
            Agent,
            Destination,
            SendBuf,
            Shape, //
        },
        verbs::{
            find_pkey,
            QpKind, //
        },
    },
    port::Port as DevicePort,
    sa::{
        wire::{
            method,
            Attribute,
            Dialect,
            Draft,
            DATA,
            HEADER, //
        },
        Components, //
    },
    workqueue::cancel_delayed_sync, //
};

/// The queue pair of the administration.
const ADMINISTRATION_QPN: u32 = 1;
/// The partition of all who may talk to the administration.
const DEFAULT_PKEY: u16 = 0xffff;
/// GUID of the administration of each subnet.
const WELL_KNOWN_GUID: u64 = 1 << 57 | 2;
/// A LID that stands for any destination, until the port has one.
const LID_PERMISSIVE: u32 = 0xffff;
/// The first LID that no unicast destination of InfiniBand has.
const MULTICAST_LID: u32 = 0xc000;
/// Path bits of a port of which nothing is known yet.
const ANY_PATH_BITS: u8 = 0x7f;

/// How long to wait for an answer about the abilities, in milliseconds.
const ABILITIES_TIMEOUT_MS: usize = 3000;
/// How long to wait before asking about them, in milliseconds: a new subnet manager is busy.
const ABILITIES_DELAY_MS: u32 = 1000;
/// How often to ask again.
const ABILITIES_RETRIES: u8 = 3;

/// The way to the subnet manager.
struct Route {
    to: Arc<Destination>,
    /// The manager has a LID that can be sent to.
    usable: bool,
    pkey_index: u16,
    path_bits: u8,
}

/// What is known of the administration's abilities.
struct Abilities {
    /// Answers about paths in the Omni-Path form, once known.
    opa_paths: Option<bool>,
    /// Grows when what was known may be wrong.
    generation: u32,
    retries: u8,
}

struct State {
    open: bool,
    agent: Option<Arc<Agent<Query>>>,
    route: Option<Arc<Route>>,
    abilities: Abilities,
}

/// A port.
#[pin_data]
pub(super) struct Port {
    device: ARef<Device>,
    number: u32,
    #[pin]
    state: SpinLockIrq<State>,
    uses: Refcount,
    #[pin]
    idle: Completion,
    #[pin]
    route_work: Work<Port, 0>,
    #[pin]
    abilities_work: DelayedWork<Port, 1>,
}

impl_has_work! {
    impl HasWork<Port, 0> for Port { self.route_work }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Port, 1> for Port { self.abilities_work }
}

impl WorkItem<0> for Port {
    type Pointer = Arc<Port>;

    fn run(this: Arc<Port>) {
        if let Some(port) = PortUse::new(&this) {
            port.find_route();
        }
    }
}

impl WorkItem<1> for Port {
    type Pointer = Arc<Port>;

    fn run(this: Arc<Port>) {
        if let Some(port) = PortUse::new(&this) {
            port.ask_abilities();
        }
    }
}

/// Permission to use a port; closing it waits.
pub(super) struct PortUse(Arc<Port>);

impl PortUse {
    /// A use, unless the port is closed.
    fn new(port: &Arc<Port>) -> Option<Self> {
        let state = port.state.lock();
        state.open.then(|| {
            port.uses.inc();
            Self(port.clone())
        })
    }

    fn ask_abilities(self) {
        let generation = {
            let state = self.state.lock();
            if state.abilities.opa_paths.is_some() {
                return;
            }
            state.abilities.generation
        };
        let dialect = self.dialect();
        let order = Order {
            client: None,
            dialect,
            draft: Draft::new(
                dialect,
                method::GET,
                Attribute::ClassPortInfo,
                Components::NONE,
            ),
            timeout_ms: ABILITIES_TIMEOUT_MS,
            asker: Asker::Abilities {
                dialect,
                generation,
            },
        };
        let port = self.0.clone();
        if let Err(error) = query::start(self, order, None, Gfp::KERNEL, &|_| {}) {
            port.learned(generation, Err(error));
        }
    }
}

impl core::ops::Deref for PortUse {
    type Target = Arc<Port>;

    fn deref(&self) -> &Arc<Port> {
        &self.0
    }
}

impl Drop for PortUse {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Port {
    /// Opens a port. Sleeps.
    fn open(device: &Device, number: u32) -> Result<Arc<Self>> {
        let agent = Arc::new(Agent::register(device, number, QpKind::Gsi)?, GFP_KERNEL)?;
        let device = device.hold();
        Arc::pin_init(
            pin_init!(Self {
                device,
                number,
                state <- new_spinlock_irq!(State {
                    open: true,
                    agent: Some(agent),
                    route: None,
                    abilities: Abilities {
                        opa_paths: None,
                        generation: 0,
                        retries: 0,
                    },
                }),
                uses: Refcount::new(1),
                idle <- Completion::new(),
                route_work <- new_work!("rdma::sa::Port::route_work"),
                abilities_work <- new_delayed_work!("rdma::sa::Port::abilities_work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Closes the port: its queries are cancelled, and when this returns all their askers were
    /// told. Sleeps.
    fn close(self: &Arc<Self>) {
        self.state.lock().open = false;
        query::cancel_all(self);
        cancel_delayed_sync::<_, 1>(self);
        self.leave();
        self.idle.wait();
        let (agent, route) = {
            let mut state = self.state.lock();
            (state.agent.take(), state.route.take())
        };
        // The agent is the last to use the queue pair, and with it the domain of the handle.
        drop(route);
        drop(agent);
    }

    fn leave(&self) {
        if self.uses.dec_and_test() {
            self.idle.complete_all();
        }
    }

    /// New queries may start.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().open
    }

    /// The client of the MAD layer. Not to be kept longer than a use of the port.
    pub(super) fn agent(&self) -> Result<Arc<Agent<Query>>> {
        self.state.lock().agent.clone().ok_or(ENODEV)
    }

    fn dialect(&self) -> Dialect {
        if self.device.port_caps(self.number).opa_ah() {
            Dialect::Opa
        } else {
            Dialect::Ib
        }
    }

    /// The name of the device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The number of the port.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Makes a datagram to the administration. Sleeps if `gfp` allows.
    ///
    /// Errors: `EAGAIN` if the way to it is not known, `ENOMEM`.
    pub(super) fn create_send(
        &self,
        agent: &Agent<Query>,
        dialect: Dialect,
        gfp: Gfp,
    ) -> Result<SendBuf<Query>> {
        let route = self.state.lock().route.clone().ok_or(EAGAIN)?;
        if !route.usable {
            return Err(EAGAIN);
        }
        let shape = Shape {
            remote_qpn: ADMINISTRATION_QPN,
            pkey_index: route.pkey_index,
            header: HEADER,
            data: DATA,
            base_version: dialect.base_version(),
        };
        agent
            .create_send(shape, route.to.clone(), gfp)
            .map_err(|_| ENOMEM)
    }

    /// How a path of the Omni-Path form has to be asked for. May sleep.
    ///
    /// Errors: `EINVAL` if that is not possible.
    pub(super) fn opa_path_form(&self) -> Result<PathForm> {
        let port = DevicePort::new(&self.device, self.number).ok_or(EINVAL)?;
        let lid = port.query().map_err(|_| EINVAL)?.raw().lid;
        if self.state.lock().abilities.opa_paths == Some(true) {
            Ok(PathForm::Opa)
        } else if lid < MULTICAST_LID {
            Ok(PathForm::Converted)
        } else {
            Err(EINVAL)
        }
    }

    /// Notes an answer about the abilities, or asks again later. What is about an earlier state of
    /// affairs is ignored.
    pub(super) fn learned(self: &Arc<Self>, generation: u32, opa_paths: Result<bool>) {
        let mut state = self.state.lock();
        if state.abilities.generation != generation || state.abilities.opa_paths.is_some() {
            return;
        }
        match opa_paths {
            Ok(opa_paths) => state.abilities.opa_paths = Some(opa_paths),
            Err(_) if state.open && state.abilities.retries < ABILITIES_RETRIES => {
                state.abilities.retries += 1;
                self.schedule_abilities();
            }
            Err(_) => {}
        }
    }

    /// Asks about the abilities a while later. With the state locked, and the port open.
    fn schedule_abilities(self: &Arc<Self>) {
        let _ = event::queue()
            .enqueue_delayed::<_, 1>(self.clone(), msecs_to_jiffies(ABILITIES_DELAY_MS));
    }

    /// Makes a new handle that leads to the subnet manager. Sleeps.
    fn find_route(&self) {
        let Some(attr) =
            DevicePort::new(&self.device, self.number).and_then(|port| port.query().ok())
        else {
            pr_warn!("Couldn't query port\n");
            return;
        };
        let attr = attr.raw();
        let pkey_index = find_pkey(&self.device, self.number, DEFAULT_PKEY).unwrap_or_else(|_| {
            pr_err!("Couldn't find index for default PKey\n");
            0
        });
        let mut vector = self.vector(attr.sm_lid, attr.sm_sl, attr.subnet_prefix);
        let route = self.agent().and_then(|agent| {
            let route = Route {
                usable: vector.has_unicast_lid(),
                to: Arc::new(agent.create_ah(&mut vector)?, GFP_KERNEL)?,
                pkey_index,
                path_bits: path_bits(attr.lmc),
            };
            Ok(Arc::new(route, GFP_KERNEL)?)
        });
        match route {
            Ok(route) => {
                let old = self.state.lock().route.replace(route);
                // Not under the lock: the driver is told.
                drop(old);
            }
            Err(_) => pr_warn!("Couldn't create new SM AH\n"),
        }
    }

    /// The address of the subnet manager.
    fn vector(&self, lid: u32, sl: u8, subnet_prefix: u64) -> AhAttr {
        let caps = self.device.port_caps(self.number);
        let mut vector = AhAttr::new();
        vector.set_kind(AhType::of_port(&self.device, self.number));
        vector.set_lid(lid, 0);
        vector.set_service_level(sl);
        vector.set_port(self.number);
        match vector.kind() {
            AhType::Opa if caps.grh_required() || lid == LID_PERMISSIVE => vector.set_make_grd(),
            AhType::Ib if caps.grh_required() => {
                let dgid = u128::from(subnet_prefix) << 64 | u128::from(WELL_KNOWN_GUID);
                vector.set_well_known_route(Gid::from_bytes(dgid.to_be_bytes()));
            }
            _ => {}
        }
        vector
    }

    fn happened(self: &Arc<Self>, event: PortEvent) {
        let anew = match event {
            PortEvent::SmChange
            | PortEvent::ClientReregister
            | PortEvent::LidChange
            | PortEvent::Active => true,
            PortEvent::Err | PortEvent::PkeyChange => false,
            PortEvent::GidChange => return,
        };
        let old = {
            let mut state = self.state.lock();
            if !state.open {
                return;
            }
            if anew {
                state.abilities = Abilities {
                    opa_paths: None,
                    generation: state.abilities.generation.wrapping_add(1),
                    retries: 0,
                };
                self.schedule_abilities();
            }
            state.route.take()
        };
        drop(old);
        let _ = event::queue().enqueue::<_, 0>(self.clone());
    }
}

/// The bits of a source LID that a port with this mask count may change.
fn path_bits(lmc: u8) -> u8 {
    // Seven bits of LIDs, at most.
    ((1u32 << lmc.min(7)) - 1) as u8
}

/// The ports of a device that have an administration.
struct Ports(KVec<Arc<Port>>);

impl Ports {
    fn get(&self, number: u32) -> Option<&Arc<Port>> {
        self.0.iter().find(|port| port.number == number)
    }

    fn open(device: &Device) -> Result<Self> {
        let mut ports = Self(KVec::new());
        for number in device.ports() {
            if device.port_caps(number).ib_sa() {
                // Room first, so that an open port is always in the list, which closes it.
                ports.0.reserve(1, GFP_KERNEL)?;
                ports.0.push(Port::open(device, number)?, GFP_KERNEL)?;
            }
        }
        if ports.0.is_empty() {
            return Err(EOPNOTSUPP);
        }
        Ok(ports)
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        for port in self.0.iter() {
            port.close();
        }
    }
}

/// Gets the events of the ports.
struct Watcher(KVec<Arc<Port>>);

impl PortWatcher for Watcher {
    fn happened(&self, event: PortEvent, number: u32) {
        if let Some(port) = self.0.iter().find(|port| port.number == number) {
            port.happened(event);
        }
    }
}

/// A device with administration. Dropping it closes the ports; sleeps.
pub(super) struct Attachment {
    /// First: no event after the ports are closed.
    _events: Subscription<Watcher>,
    ports: Ports,
}

static DEVICES: DeviceTable<Attachment> = DeviceTable::new();

impl Attachment {
    /// Opens the ports of a device. Sleeps.
    ///
    /// Errors: `EOPNOTSUPP` if none has an administration.
    pub(super) fn attach(device: &Device) -> Result {
        let ports = Ports::open(device)?;
        let mut watched = KVec::with_capacity(ports.0.len(), GFP_KERNEL)?;
        let mut opened = KVec::with_capacity(ports.0.len(), GFP_KERNEL)?;
        for port in ports.0.iter() {
            watched.push(port.clone(), GFP_KERNEL)?;
            opened.push(port.clone(), GFP_KERNEL)?;
        }
        let watcher = Arc::new(Watcher(watched), GFP_KERNEL)?;
        let attachment = Self {
            _events: Subscription::new(device, watcher)?,
            ports,
        };
        DEVICES.put(device, attachment)?;
        // After the first event can come, so that no change is missed.
        for port in opened {
            if let Some(port) = PortUse::new(&port) {
                port.find_route();
            }
        }
        Ok(())
    }

    /// Closes the ports of a device. Sleeps.
    pub(super) fn detach(device: &Device) {
        drop(DEVICES.take(device));
        // Route work that is queued finds the ports closed.
        event::flush();
    }
}

/// Looks up a port, for a query. Any context.
///
/// Errors: `ENODEV` if the device has no administration (any more), `EAGAIN` if only this port has
/// none, `EINVAL` if there is no such port.
pub(super) fn find(device: &Device, number: u32) -> Result<PortUse> {
    let look = |attachment: &Attachment| match attachment.ports.get(number) {
        Some(port) => PortUse::new(port).ok_or(ENODEV),
        None if device.has_port(number) => Err(EAGAIN),
        None => Err(EINVAL),
    };
    DEVICES.with(device, look).ok_or(ENODEV)?
}

/// The path bits of a port. Any context.
pub(super) fn path_bits_of(device: &Device, number: u32) -> u8 {
    find(device, number)
        .ok()
        .and_then(|port| Some(port.state.lock().route.as_ref()?.path_bits))
        .unwrap_or(ANY_PATH_BITS)
}

#[kunit_tests(rust_ib_core_sa_port)]
mod tests {
    use super::*;

    #[test]
    fn path_bits_of_mask_counts() {
        assert_eq!(path_bits(0), 0);
        assert_eq!(path_bits(3), 7);
        assert_eq!(path_bits(7), 0x7f);
        // Not a mask count: of a driver that is at fault.
        assert_eq!(path_bits(255), 0x7f);
    }
}
