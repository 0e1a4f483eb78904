// SPDX-License-Identifier: GPL-2.0

//! Notifications of what happens to devices, for whoever listens.

use kernel::{
    bindings,
    dev_warn,
    prelude::*, //
};
use rdma::{
    device::Device,
    gfp::Gfp,
    netlink::{
        message_type,
        multicast,
        AttrWriter,
        Header,
        SkBuff,
        GROUP_NOTIFY, //
    },
    netns::Net,
    nldev::device::port_netdev,
    ratelimit::RateLimit, //
};

use super::{
    fill,
    policy::{
        EVENT_TYPE,
        PORT_INDEX, //
    },
    CLIENT, MONITOR,
};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The device has been registered.
    Register,
    /// The device has been unregistered.
    Unregister,
    /// A port has got a network device.
    NetdevAttach,
    /// A port has lost its network device.
    NetdevDetach,
    /// The device has got another name.
    Rename,
    /// The network device of a port has got another name.
    NetdevRename,
}

impl Event {
    /// The event of `enum rdma_nl_notify_event_type`.
    pub(crate) fn from_raw(raw: bindings::rdma_nl_notify_event_type) -> Option<Self> {
        Some(match raw {
            bindings::rdma_nl_notify_event_type_RDMA_REGISTER_EVENT => Self::Register,
            bindings::rdma_nl_notify_event_type_RDMA_UNREGISTER_EVENT => Self::Unregister,
            bindings::rdma_nl_notify_event_type_RDMA_NETDEV_ATTACH_EVENT => Self::NetdevAttach,
            bindings::rdma_nl_notify_event_type_RDMA_NETDEV_DETACH_EVENT => Self::NetdevDetach,
            bindings::rdma_nl_notify_event_type_RDMA_RENAME_EVENT => Self::Rename,
            bindings::rdma_nl_notify_event_type_RDMA_NETDEV_RENAME_EVENT => Self::NetdevRename,
            _ => return None,
        })
    }

    fn number(self) -> u8 {
        let raw = match self {
            Self::Register => bindings::rdma_nl_notify_event_type_RDMA_REGISTER_EVENT,
            Self::Unregister => bindings::rdma_nl_notify_event_type_RDMA_UNREGISTER_EVENT,
            Self::NetdevAttach => bindings::rdma_nl_notify_event_type_RDMA_NETDEV_ATTACH_EVENT,
            Self::NetdevDetach => bindings::rdma_nl_notify_event_type_RDMA_NETDEV_DETACH_EVENT,
            Self::Rename => bindings::rdma_nl_notify_event_type_RDMA_RENAME_EVENT,
            Self::NetdevRename => bindings::rdma_nl_notify_event_type_RDMA_NETDEV_RENAME_EVENT,
        };
        raw as u8
    }

    /// Writes what happened where. A network device of another namespace is not told of.
    fn put(self, out: &mut AttrWriter<'_>, device: &Device, port: u32, netns: &Net) -> Result {
        match self {
            Self::Register | Self::Unregister | Self::Rename => fill::put_device(out, device),
            Self::NetdevAttach | Self::NetdevDetach => {
                let netdev = port_netdev(device, port);
                if netdev.as_ref().is_some_and(|netdev| !netdev.is_in(netns)) {
                    return Ok(());
                }
                fill::put_device(out, device)?;
                out.put(PORT_INDEX, port)?;
                match netdev {
                    Some(netdev) => fill::put_netdev(out, &netdev.info()),
                    None => Ok(()),
                }
            }
            Self::NetdevRename => {
                match port_netdev(device, port).filter(|netdev| netdev.is_in(netns)) {
                    Some(netdev) => fill::put_netdev(out, &netdev.info()),
                    None => Ok(()),
                }
            }
        }
    }

    /// Says that listeners have missed the event.
    fn warn(self, device: &Device, port: u32) {
        static LIMIT: RateLimit = RateLimit::new();

        if !LIMIT.allows(c"rdma_nl_notify_event") {
            return;
        }
        let dev = device.as_dev();
        let event = match self {
            Self::Register => "register device",
            Self::Unregister => "unregister device",
            Self::NetdevAttach => "netdev attach",
            Self::NetdevDetach => "netdev detach",
            Self::Rename => "rename device",
            Self::NetdevRename => "netdev rename",
        };
        let netdev = match self {
            Self::NetdevAttach | Self::NetdevRename => port_netdev(device, port),
            _ => None,
        };
        match (self, netdev) {
            (Self::Register | Self::Unregister | Self::Rename, _) => {
                dev_warn!(dev, "Failed to send RDMA monitor {event} event\n");
            }
            (_, Some(netdev)) => {
                let netdev = netdev.ifindex();
                dev_warn!(
                    dev,
                    "Failed to send RDMA monitor {event} event: port {port} netdev {netdev}\n"
                );
            }
            // It may be gone by now.
            (_, None) => {
                dev_warn!(
                    dev,
                    "Failed to send RDMA monitor {event} event: port {port}\n"
                );
            }
        }
    }
}

fn send(device: &Device, port: u32, event: Event, netns: &Net, skb: &mut SkBuff) -> Result {
    let mut message = skb.message(Header {
        portid: 0,
        seq: 0,
        message_type: message_type(CLIENT, MONITOR),
        flags: 0,
    })?;
    event.put(&mut message, device, port, netns)?;
    message.put(EVENT_TYPE, event.number())?;
    message.end();
    Ok(())
}

/// Tells those who listen in the namespace of the device. May sleep.
pub(crate) fn notify(device: &Device, netns: &Net, port: u32, event: Event) -> Result {
    let mut skb = SkBuff::new(Gfp::KERNEL)?;
    let sent = send(device, port, event, netns, &mut skb)
        .and_then(|()| multicast(netns, skb, GROUP_NOTIFY, Gfp::KERNEL));
    match sent {
        // Nobody listens.
        Err(error) if error == ESRCH => Ok(()),
        Err(error) => {
            event.warn(device, port);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}
