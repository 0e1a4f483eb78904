// SPDX-License-Identifier: GPL-2.0

//! Multicast groups of InfiniBand ports.
//!
//! A port is in a group for all who joined it here: the administration is asked for the first one
//! who wants to be in it in some way, and told when the last one has gone. Events that make the
//! subnet forget the port expel all members with `ENETRESET`, who have to join again.
//!
//! * [`machine`]: what a group does next, and nothing else;
//! * [`group`]: groups, memberships and the ports that they belong to.

mod group;
mod machine;

use self::{
    group::{
        Group,
        Port, //
    },
    machine::{
        Alarm,
        Wish, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ah::{
        AhAttr,
        AhType,
        Route, //
    },
    device::Device,
    device_client::{
        DeviceClient,
        DeviceTable,
        Registration, //
    },
    event::{
        PortEvent,
        PortWatcher,
        Subscription, //
    },
    gfp::Gfp,
    gid::{
        Gid,
        GidAttr,
        GidType, //
    },
    net::NetDevice,
    pin_once::PinOnce,
    sa::{
        self,
        multicast::Ticket,
        Components,
        Member,
        OwnClient, //
    },
    static_lock::StaticSpinLock,
    workqueue::{
        WorkQueue,
        MEM_RECLAIM, //
    },
};

pub(crate) use self::group::Membership;

/// Where groups work.
static QUEUE: StaticSpinLock<Option<WorkQueue>> = StaticSpinLock::new(None);
/// Whom the queries of groups belong to.
static CLIENT: PinOnce<OwnClient> = PinOnce::new();
static REGISTRATION: StaticSpinLock<Option<Registration<McastClient>>> = StaticSpinLock::new(None);
static DEVICES: DeviceTable<Attachment> = DeviceTable::new();

fn enqueue(group: Arc<Group>) {
    if let Some(queue) = QUEUE.lock().as_ref() {
        // It is not queued: it rested.
        let _ = queue.enqueue(group);
    }
}

fn client() -> Option<&'static sa::Client> {
    CLIENT.get().map(|client| &**client)
}

/// The ports of a device that have multicast. Dropping it closes them; sleeps.
struct Attachment {
    /// First: no event after the ports are closed.
    _events: Subscription<Watcher>,
    ports: Ports,
}

struct Ports(KVec<Arc<Port>>);

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
        let alarm = match event {
            PortEvent::Err | PortEvent::LidChange | PortEvent::ClientReregister => Alarm::Reset,
            PortEvent::PkeyChange => Alarm::Pkey,
            PortEvent::Active | PortEvent::SmChange | PortEvent::GidChange => return,
        };
        if let Some(port) = self.0.iter().find(|port| port.number() == number) {
            port.alarm(alarm);
        }
    }
}

/// The client of devices.
struct McastClient;

impl DeviceClient for McastClient {
    const NAME: &'static CStr = c"ib_multicast";

    fn add(device: &Device) -> Result {
        let mut ports = KVec::new();
        let mut watched = KVec::new();
        for number in device.ports() {
            let caps = device.port_caps(number);
            // Multicast is the administration's.
            if caps.ib_sa() {
                let port = Port::open(device, number)?;
                watched.push(port.clone(), GFP_KERNEL)?;
                ports.push(port, GFP_KERNEL)?;
            }
        }
        if ports.is_empty() {
            return Err(EOPNOTSUPP);
        }
        let watcher = Arc::new(Watcher(watched), GFP_KERNEL)?;
        DEVICES.put(
            device,
            Attachment {
                _events: Subscription::new(device, watcher)?,
                ports: Ports(ports),
            },
        )
    }

    fn remove(device: &Device) {
        drop(DEVICES.take(device));
    }
}

/// Starts the part. Sleeps.
pub(crate) fn init() -> Result {
    *QUEUE.lock() = Some(WorkQueue::new_ordered(c"ib_mcast", MEM_RECLAIM)?);
    CLIENT.init(OwnClient::new());
    let registration = Registration::new().inspect_err(|_| end())?;
    *REGISTRATION.lock() = Some(registration);
    Ok(())
}

/// Ends what needs no devices.
fn end() {
    if let Some(client) = client() {
        client.finish();
    }
    let queue = QUEUE.lock().take();
    drop(queue);
}

/// Ends the part. Sleeps.
pub(crate) fn cleanup() {
    let registration = REGISTRATION.lock().take();
    drop(registration);
    end();
}

/// The port of a device.
///
/// Errors: `ENODEV` if the device has no multicast, `EINVAL` if only this port has not.
fn port(device: &Device, number: u32) -> Result<Arc<Port>> {
    let find = |attachment: &Attachment| {
        let mut ports = attachment.ports.0.iter();
        ports.find(|port| port.number() == number).cloned()
    };
    DEVICES.with(device, find).ok_or(ENODEV)?.ok_or(EINVAL)
}

/// Joins a group: the handler of `ticket` is told later, and again if the membership is lost.
///
/// Errors: `ENODEV`, `EINVAL`, `ENOMEM`.
pub(crate) fn join(
    client: &sa::Client,
    device: &Device,
    number: u32,
    record: &Member,
    components: Components,
    ticket: Ticket,
    gfp: Gfp,
) -> Result<Arc<Membership>> {
    let wish = Wish {
        record: *record,
        components,
    };
    port(device, number)?.join(wish, ticket, client.take(), gfp)
}

/// Gives a membership up. When this returns, its handler is not called any more. Sleeps; not from
/// the handler.
pub(crate) fn give_up(membership: Arc<Membership>) {
    membership.give_up();
}

/// What the administration has told of a group that somebody joined. Any context.
///
/// Errors: `EADDRNOTAVAIL` if nothing is known, `ENODEV`, `EINVAL`.
pub(crate) fn record(device: &Device, number: u32, mgid: &Gid) -> Result<Member> {
    port(device, number)?.record(mgid)
}

/// Fills in an empty address vector that leads to the group of `record`. Any context.
///
/// Errors: `EINVAL` if the port is neither InfiniBand nor RoCE, `ENOENT` if the source GID is not
/// there.
pub(crate) fn init_ah_attr(
    vector: &mut AhAttr,
    device: &Device,
    number: u32,
    record: &Member,
    netdev: Option<&NetDevice>,
    gid_type: GidType,
) -> Result {
    let caps = device.port_caps(number);
    // GIDs of InfiniBand ports are not those of network devices.
    let netdev = if caps.protocol_ib() {
        None
    } else if caps.protocol_roce() {
        netdev
    } else {
        return Err(EINVAL);
    };
    let sgid = GidAttr::find_by_port(device, number, &record.port_gid(), gid_type, netdev)?;
    vector.set_kind(AhType::of_port(device, number));
    vector.set_lid(record.mlid().into(), 0);
    vector.set_service_level(record.sl());
    vector.set_port(number);
    vector.set_static_rate(record.rate());
    let route = Route {
        dgid: Some(record.mgid()),
        flow_label: record.flow_label(),
        hop_limit: record.hop_limit(),
        traffic_class: record.traffic_class(),
    };
    vector.set_route(&route, sgid);
    Ok(())
}
