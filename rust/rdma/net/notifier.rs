// SPDX-License-Identifier: GPL-2.0

//! Notifier chains of the network stack.
//!
//! C headers: [`include/linux/notifier.h`](srctree/include/linux/notifier.h),
//! [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)
//!
//! A [`Chain`] names a chain and the type of its events. Whoever implements [`Handler`] for it can
//! be registered; the [`Registration`] unregisters on drop, and afterwards no call is running.

use core::marker::PhantomData;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::pin::Pin;

use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_ulong, c_void};
use kernel::prelude::*;
use kernel::types::Opaque;

use super::NetDevice;

/// A chain of notifiers.
///
/// # Safety
///
/// `register` adds the block to a chain that calls it until `unregister` returns, with arguments
/// that `event` accepts.
pub unsafe trait Chain: 'static {
    /// What the chain reports.
    type Event<'a>;

    /// Adds a block to the chain.
    ///
    /// # Safety
    ///
    /// `nb` stays valid until `unregister` was called.
    unsafe fn register(nb: *mut bindings::notifier_block) -> c_int;

    /// Removes a block from the chain and waits for running calls.
    ///
    /// # Safety
    ///
    /// `nb` is registered.
    unsafe fn unregister(nb: *mut bindings::notifier_block);

    /// Decodes an event; nothing if it is none of those that `Event` can tell.
    ///
    /// # Safety
    ///
    /// The arguments are those of a call of the chain, which lasts for `'a`.
    unsafe fn event<'a>(action: c_ulong, data: *mut c_void) -> Option<Self::Event<'a>>;
}

/// Takes the events of a chain.
pub trait Handler<C: Chain>: Send + Sync + 'static {
    /// Called for each event, in the context of the chain.
    fn notify(&self, event: C::Event<'_>);
}

/// A registered handler.
///
/// # Invariants
///
/// `block` is registered with the chain `C`.
#[pin_data(PinnedDrop)]
pub struct Registration<C: Chain, H: Handler<C>> {
    handler: H,
    #[pin]
    block: Opaque<bindings::notifier_block>,
    chain: PhantomData<C>,
}

// SAFETY: The block belongs to the chain, which has a lock of its own; handlers are `Send`.
unsafe impl<C: Chain, H: Handler<C>> Send for Registration<C, H> {}
// SAFETY: Handlers are `Sync`, nothing else can be reached.
unsafe impl<C: Chain, H: Handler<C>> Sync for Registration<C, H> {}

impl<C: Chain, H: Handler<C>> Registration<C, H> {
    /// Registers `handler`. It may be called before this returns: the chain of network devices
    /// reports those that exist. May sleep.
    pub fn new(handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            handler,
            // INVARIANT: Initialisation fails unless the block is registered.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                let mut init: bindings::notifier_block = pin_init::zeroed();
                init.notifier_call = Some(Self::call);
                // SAFETY: The slot is valid for writes.
                unsafe { block.write(init) };
                // SAFETY: The block is pinned, `drop` unregisters it, and `handler`, which comes
                // first, is initialised by now.
                to_result(unsafe { C::register(block) })
            }),
            chain: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the chain `C`, with the block of a registration.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        action: c_ulong,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `Opaque` is transparent, so this is the field of a `Registration`.
        let this: *const Self = unsafe { container_of!(Opaque::cast_from(block), Self, block) };
        // SAFETY: The handler is initialised before the block is registered, and dropped after it
        // was unregistered; nobody forms a mutable reference in between.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The arguments are those of the chain.
        if let Some(event) = unsafe { C::event(action, data) } {
            handler.notify(event);
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<C: Chain, H: Handler<C>> PinnedDrop for Registration<C, H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant.
        unsafe { C::unregister(self.block.get()) }
    }
}

/// What happened to a network device.
#[derive(Copy, Clone)]
pub enum NetdevChange<'a> {
    /// It was registered.
    Register,
    /// It was brought up.
    Up,
    /// It was brought down.
    Down,
    /// Its link or its flags changed.
    Change,
    /// It is being unregistered; references have to be dropped.
    Unregister,
    /// Its MTU changed.
    ChangeMtu,
    /// Its address changed.
    ChangeAddr,
    /// Its name changed.
    ChangeName,
    /// `upper` was put above it (`linking`) or taken away.
    ChangeUpper {
        /// The device above.
        upper: &'a NetDevice,
        /// Whether it was put there.
        linking: bool,
    },
    /// It is a bond, and its active slave changed.
    BondingFailover,
}

/// An event of the chain of network devices.
pub struct NetdevEvent<'a> {
    /// The device.
    pub dev: &'a NetDevice,
    /// What happened.
    pub change: NetdevChange<'a>,
}

/// The chain of network devices, called with RTNL held.
pub struct Netdev;

// SAFETY: The functions are those of one chain; its data is a `netdev_notifier_info`.
unsafe impl Chain for Netdev {
    type Event<'a> = NetdevEvent<'a>;

    unsafe fn register(nb: *mut bindings::notifier_block) -> c_int {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::register_netdevice_notifier(nb) }
    }

    unsafe fn unregister(nb: *mut bindings::notifier_block) {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::unregister_netdevice_notifier(nb) };
    }

    unsafe fn event<'a>(action: c_ulong, data: *mut c_void) -> Option<NetdevEvent<'a>> {
        // SAFETY: The data of this chain is a `netdev_notifier_info`, with a live device.
        let dev = unsafe {
            NetDevice::from_raw((*data.cast::<bindings::netdev_notifier_info>()).dev.cast())
        };
        let change = match u32::try_from(action).ok()? {
            bindings::netdev_cmd_NETDEV_REGISTER => NetdevChange::Register,
            bindings::netdev_cmd_NETDEV_UP => NetdevChange::Up,
            bindings::netdev_cmd_NETDEV_DOWN => NetdevChange::Down,
            bindings::netdev_cmd_NETDEV_CHANGE => NetdevChange::Change,
            bindings::netdev_cmd_NETDEV_UNREGISTER => NetdevChange::Unregister,
            bindings::netdev_cmd_NETDEV_CHANGEMTU => NetdevChange::ChangeMtu,
            bindings::netdev_cmd_NETDEV_CHANGEADDR => NetdevChange::ChangeAddr,
            bindings::netdev_cmd_NETDEV_CHANGENAME => NetdevChange::ChangeName,
            bindings::netdev_cmd_NETDEV_CHANGEUPPER => {
                let info = data.cast::<bindings::netdev_notifier_changeupper_info>();
                NetdevChange::ChangeUpper {
                    // SAFETY: This event comes with the larger structure and a live device.
                    upper: unsafe { NetDevice::from_raw((*info).upper_dev.cast()) },
                    // SAFETY: As above.
                    linking: unsafe { (*info).linking },
                }
            }
            bindings::netdev_cmd_NETDEV_BONDING_FAILOVER => NetdevChange::BondingFailover,
            _ => return None,
        };
        Some(NetdevEvent { dev, change })
    }
}

/// Whether an address came or went.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum AddrChange {
    /// It was added.
    Add,
    /// It was removed.
    Remove,
}

/// An event of the chains of IP addresses.
pub struct AddrEvent<'a> {
    /// The device that has the address.
    pub dev: &'a NetDevice,
    /// The address.
    pub addr: IpAddr,
    /// What happened to it.
    pub change: AddrChange,
}

fn addr_change(action: c_ulong) -> Option<AddrChange> {
    match u32::try_from(action).ok()? {
        bindings::netdev_cmd_NETDEV_UP => Some(AddrChange::Add),
        bindings::netdev_cmd_NETDEV_DOWN => Some(AddrChange::Remove),
        _ => None,
    }
}

/// The chain of IPv4 addresses, called with RTNL held.
pub struct Inet;

// SAFETY: The functions are those of one chain; its data is an `in_ifaddr`.
unsafe impl Chain for Inet {
    type Event<'a> = AddrEvent<'a>;

    unsafe fn register(nb: *mut bindings::notifier_block) -> c_int {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::register_inetaddr_notifier(nb) }
    }

    unsafe fn unregister(nb: *mut bindings::notifier_block) {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::unregister_inetaddr_notifier(nb) };
    }

    unsafe fn event<'a>(action: c_ulong, data: *mut c_void) -> Option<AddrEvent<'a>> {
        let ifa = data.cast::<bindings::in_ifaddr>();
        // SAFETY: The data of this chain is an address of a live device.
        let (addr, dev) = unsafe { ((*ifa).ifa_local, (*(*ifa).ifa_dev).dev) };
        Some(AddrEvent {
            // SAFETY: As above.
            dev: unsafe { NetDevice::from_raw(dev.cast()) },
            addr: IpAddr::V4(Ipv4Addr::from(addr.to_ne_bytes())),
            change: addr_change(action)?,
        })
    }
}

/// The chain of IPv6 addresses. It is atomic: handlers must not sleep.
pub struct Inet6;

// SAFETY: The functions are those of one chain; its data is an `inet6_ifaddr`.
unsafe impl Chain for Inet6 {
    type Event<'a> = AddrEvent<'a>;

    unsafe fn register(nb: *mut bindings::notifier_block) -> c_int {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::register_inet6addr_notifier(nb) }
    }

    unsafe fn unregister(nb: *mut bindings::notifier_block) {
        // SAFETY: Passed on from the caller.
        unsafe { bindings::unregister_inet6addr_notifier(nb) };
    }

    unsafe fn event<'a>(action: c_ulong, data: *mut c_void) -> Option<AddrEvent<'a>> {
        let ifa = data.cast::<bindings::inet6_ifaddr>();
        // SAFETY: The data of this chain is an address of a live device; all bytes of the union
        // are initialised.
        let (addr, dev) = unsafe { ((*ifa).addr.in6_u.u6_addr8, (*(*ifa).idev).dev) };
        Some(AddrEvent {
            // SAFETY: As above.
            dev: unsafe { NetDevice::from_raw(dev.cast()) },
            addr: IpAddr::V6(Ipv6Addr::from(addr)),
            change: addr_change(action)?,
        })
    }
}
