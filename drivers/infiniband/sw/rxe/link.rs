// SPDX-License-Identifier: GPL-2.0

//! Links: devices come by `rdma link add`, and go by `rdma link delete` or with their interface,
//! namespace or module.

use core::ffi::CStr;

use kernel::{
    bindings, new_mutex,
    prelude::*,
    str::BStr,
    sync::{
        rcu,
        Arc,
        Mutex, //
    },
};
use rdma::{
    event::PortEvent,
    net::{
        netdev::RegState,
        notifier::{
            Handler,
            Netdev,
            NetdevChange,
            NetdevEvent, //
        },
        pernet::NetExit,
        rtnl::Rtnl,
        NetDevice, //
    },
    netns::{
        Net,
        NetRef, //
    },
    provider::{
        Device,
        DeviceRef,
        LinkType,
        NewDevice,
        OpTable, //
    },
    static_lock::StaticSpinLock,
    workqueue::{
        WorkQueue,
        BH,
        MEM_RECLAIM,
        PERCPU,
        UNBOUND, //
    },
};

use crate::{
    counters::Counter,
    device::{
        Rxe,
        FILES, //
    },
    params,
    port,
    rx::RoceReceiver,
    sockets::Sockets, //
};

/// Where the queue pairs of all devices run.
pub(crate) struct Queues {
    /// Items that may sleep.
    pub(crate) tasks: WorkQueue,
    /// Items that run in softirqs.
    pub(crate) softirqs: WorkQueue,
}

/// What links of all namespaces share.
#[pin_data]
pub(crate) struct Links {
    queues: Arc<Queues>,
    sockets: Arc<Sockets<RoceReceiver>>,
    /// Held while a link is made, so that an interface gets only one.
    #[pin]
    adding: Mutex<()>,
}

/// The callbacks of the core and of the network stack have no context to find it by.
static LINKS: StaticSpinLock<Option<Arc<Links>>> = StaticSpinLock::new(None);

impl Links {
    /// Makes it, for the callbacks to find. May sleep.
    pub(crate) fn publish() -> Result<Published> {
        let queues = Queues {
            tasks: WorkQueue::new(c"rxe_wq", UNBOUND | MEM_RECLAIM, 0)?,
            softirqs: WorkQueue::new(c"rxe_bh_wq", BH | PERCPU, 0)?,
        };
        let queues = Arc::new(queues, GFP_KERNEL)?;
        let sockets = Sockets::new()?;
        let links = Arc::pin_init(
            pin_init!(Self {
                queues,
                sockets,
                adding <- new_mutex!(()),
            }),
            GFP_KERNEL,
        )?;
        *LINKS.lock() = Some(links);
        Ok(Published(()))
    }

    fn get() -> Option<Arc<Self>> {
        LINKS.lock().clone()
    }

    fn add(&self, name: &CStr, netdev: &NetDevice) -> Result {
        let _adding = self.adding.lock();
        if let Some(device) = serving(netdev) {
            pr_err!(
                "{} has the link {} already\n",
                netdev.name(),
                BStr::from_bytes(device.core().name().as_bytes())
            );
            return Err(EEXIST);
        }

        let net = NetRef::of_netdev(netdev).ok_or(ENODEV)?;
        let share = self.sockets.acquire(&net)?;
        let rxe = Rxe::new(netdev, share, self.queues.clone())?;
        let device = NewDevice::with_ops(
            net.home_of_devices()?,
            &OpTable::new().with_files(&FILES),
            rxe,
        )?;
        device.mark_named_by_user();
        device.set_node_type(bindings::RDMA_NODE_IB_CA as u8);
        device.set_ports(params::PORT);
        device.set_node_desc(b"rxe");
        device.set_comp_vectors(kernel::cpu::nr_cpu_ids());
        device.set_node_guid(device.guid());
        device.allow_commands(COMMANDS);
        device.set_netdev(params::PORT, Some(netdev))?;
        // The core names it after the table of open files, which users cannot make sense of.
        let device =
            device
                .register(name, None)
                .map_err(|err| if err == ENFILE { EEXIST } else { err })?;

        // The interface may have gone, or left the namespace, before the device could be found by
        // the handler of events.
        let gone = {
            let _rtnl = Rtnl::lock();
            netdev.reg_state() != RegState::Registered
                || NetRef::of_netdev(netdev).is_none_or(|now| now.id() != net.id())
        };
        if gone {
            drop(device);
            return Err(ENODEV);
        }
        device.leave();
        Ok(())
    }
}

/// The device that has a link on an interface, or whose packets would be those of a link on it: the
/// link of an interface serves the addresses of its VLANs too.
fn serving(netdev: &NetDevice) -> Option<DeviceRef<Rxe>> {
    let guard = rcu::read_lock();
    let mut found = Device::on_netdev(netdev);
    if let Some(real) = netdev.vlan_real_dev(&guard) {
        return found.or_else(|| Device::on_netdev(real));
    }
    netdev.for_each_upper(&guard, |upper| {
        if found.is_none() && upper.vlan_real_dev(&guard) == Some(netdev) {
            found = Device::on_netdev(upper);
        }
    });
    found
}

/// Commands of user space that are the driver's to allow: doorbells and arming.
const COMMANDS: u64 = 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
    | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

/// The callbacks find the [`Links`] as long as this exists.
pub(crate) struct Published(());

impl Drop for Published {
    fn drop(&mut self) {
        let links = LINKS.lock().take();
        if let Some(links) = links {
            // The queues are destroyed with their last owner, which must not be one of their own
            // items. Those in softirqs queue others, but not the other way round.
            links.queues.softirqs.drain();
            links.queues.tasks.drain();
        }
    }
}

/// The type of links, as the administrator calls it.
pub(crate) struct RxeLink;

impl LinkType for RxeLink {
    const NAME: &'static CStr = c"rxe";

    fn new_link(name: &CStr, netdev: &NetDevice) -> Result {
        Links::get()
            .ok_or(ENODEV)?
            .add(name, netdev)
            .inspect_err(|err| {
                pr_err!(
                    "cannot add a link to {}: {}\n",
                    netdev.name(),
                    err.to_errno()
                );
            })
    }
}

/// Closes the sockets of namespaces that go away.
pub(crate) struct SocketCloser;

impl NetExit for SocketCloser {
    fn exit(net: &Net) {
        if let Some(links) = Links::get() {
            links.sockets.close(net);
        }
    }
}

/// Follows the interfaces. Called with RTNL held.
pub(crate) struct Interfaces;

impl Handler<Netdev> for Interfaces {
    fn notify(&self, event: NetdevEvent<'_>) {
        let Some(device) = Device::<Rxe>::on_netdev(event.dev) else {
            return;
        };
        match event.change {
            NetdevChange::Unregister => {
                device.unregister_queued();
                device.release_sockets();
            }
            NetdevChange::ChangeMtu => {
                let changed = device.shared.set_interface_mtu(event.dev.mtu());
                if changed && port::is_active(event.dev) {
                    // Who keeps the attributes of the port reads them anew at this event.
                    device.dispatch(PortEvent::Active, params::PORT);
                }
            }
            NetdevChange::ChangeAddr => device.shared.set_mac(event.dev.mac()),
            // The core tells the clients of the port.
            NetdevChange::Down | NetdevChange::Change => {
                if !port::is_active(event.dev) {
                    device.shared.counters.add(Counter::LinkDowned, 1);
                }
            }
            _ => (),
        }
    }
}
