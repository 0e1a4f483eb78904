// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::NonZero;
use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::aref::{ARef, AlwaysRefCounted};
use kernel::sync::rcu;
use kernel::types::Opaque;

/// A MAC address.
pub type Mac = [u8; 6];

/// Bytes of a name, the terminator included.
const NAME_LEN: usize = bindings::IFNAMSIZ as usize;

/// The name of a network device.
#[derive(Copy, Clone)]
pub struct Name([u8; NAME_LEN]);

impl Name {
    /// The bytes, without a terminator.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&self.0)
    }
}

/// Bytes that nobody can guess, for an address that nobody else has. May be called in any context.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: The array is writable for its length.
    unsafe { bindings::get_random_bytes(bytes.as_mut_ptr().cast(), N) };
    bytes
}

impl kernel::fmt::Display for Name {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        kernel::fmt::Display::fmt(kernel::str::BStr::from_bytes(self.as_bytes()), f)
    }
}

/// Where a device is in its life.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegState {
    /// Not registered yet.
    Uninitialized,
    /// In use.
    Registered,
    /// Off the lists, notifiers are being called.
    Unregistering,
    /// Waits for its last reference.
    Unregistered,
    /// About to be freed.
    Released,
}

/// A `struct net_device`. [`ARef<NetDevice>`] is a counted reference.
///
/// An outstanding reference blocks the removal of the device ("waiting for x to become free"), so a
/// reference that is kept has to be dropped when the device announces its unregistration.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: The count is atomic and per CPU; the device may be released from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: The methods only read what the network core lets everybody read at any time, or ask for
// evidence of the lock.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold` keeps the device in memory until the matching `dev_put`.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: `self` is a valid device.
        unsafe { bindings::dev_hold(self.as_raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference.
        unsafe { bindings::dev_put(obj.as_ptr().cast()) }
    }
}

/// Identity: two references are equal when they mean the same device.
impl PartialEq for NetDevice {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for NetDevice {}

impl NetDevice {
    /// Views a C device.
    ///
    /// # Safety
    ///
    /// `dev` is valid for `'a`: counted, or protected by RCU or RTNL.
    pub unsafe fn from_raw<'a>(dev: *mut bindings::net_device) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*dev.cast() }
    }

    /// Views a C device, or nothing for a null pointer.
    ///
    /// # Safety
    ///
    /// As for [`from_raw`](Self::from_raw), unless `dev` is null.
    pub unsafe fn from_raw_opt<'a>(dev: *mut bindings::net_device) -> Option<&'a Self> {
        // SAFETY: The type is transparent.
        unsafe { dev.cast::<Self>().as_ref() }
    }

    /// Takes over a reference that C counted, or nothing for a null pointer.
    ///
    /// # Safety
    ///
    /// The caller owns a reference on `dev` and gives it away.
    pub unsafe fn from_raw_owned(dev: *mut bindings::net_device) -> Option<ARef<Self>> {
        // SAFETY: The caller gives the reference away.
        NonNull::new(dev.cast::<Self>()).map(|dev| unsafe { ARef::from_raw(dev) })
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// A copy of the name. A change at the same time may mix both names, as for every reader without
    /// RTNL.
    pub fn name(&self) -> Name {
        let mut name = Name([0; NAME_LEN]);
        // SAFETY: `self` is valid, and so is its name, which always ends in a zero.
        unsafe {
            ptr::copy_nonoverlapping(
                (&raw const (*self.as_raw()).name).cast::<u8>(),
                name.0.as_mut_ptr(),
                NAME_LEN,
            );
        }
        name
    }

    /// The index, unique within the network namespace.
    pub fn ifindex(&self) -> i32 {
        // SAFETY: `self` is valid; the field is read once, as C does without a lock.
        unsafe { (&raw const (*self.as_raw()).ifindex).read_volatile() }
    }

    /// Whether the hardware type is InfiniBand (IPoIB).
    pub fn is_infiniband(&self) -> bool {
        // SAFETY: `self` is valid, and the type is set before registration.
        let hw_type = unsafe { (&raw const (*self.as_raw()).type_).read_volatile() };
        u32::from(hw_type) == bindings::ARPHRD_INFINIBAND
    }

    /// Whether it can be that of a RoCE port or above one: any but those of InfiniBand, whose
    /// addresses are those of another kind of port.
    pub fn may_carry_roce(&self) -> bool {
        !self.is_infiniband()
    }

    /// The MAC address. It may change at any time.
    pub fn mac(&self) -> Mac {
        // SAFETY: `dev_addr` points into the device or its address list for as long as it exists.
        // A concurrent change gives a mixed address, as for every reader without RTNL.
        unsafe {
            let addr = (&raw const (*self.as_raw()).dev_addr).read_volatile();
            addr.cast::<Mac>().read_volatile()
        }
    }

    /// The first bytes of the hardware address, or nothing if the interface has no such address
    /// (tunnels).
    pub fn hw_addr(&self) -> Option<Mac> {
        // SAFETY: `self` is valid; the length is constant once the device is registered.
        let len = usize::from(unsafe { (&raw const (*self.as_raw()).addr_len).read_volatile() });
        if len == 0 {
            return None;
        }
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.mac());
        mac.iter_mut().skip(len).for_each(|byte| *byte = 0);
        Some(mac)
    }

    /// The interface identifier of IPv6 made from the MAC address (EUI-64), or nothing if the
    /// address is not a MAC address.
    pub fn eui64(&self) -> Option<[u8; 8]> {
        let mut eui = [0; 8];
        // SAFETY: `self` is valid, and the function writes 8 bytes.
        let ret = unsafe { bindings::addrconf_ifid_eui48(eui.as_mut_ptr(), self.as_raw()) };
        (ret == 0).then_some(eui)
    }

    /// The number that its driver gave it among interfaces with one hardware address (slaves of
    /// ipvlan, shares of a card), or nothing. Some drivers number the ports of a card instead,
    /// which have an address each.
    pub fn dev_id(&self) -> Option<NonZero<u16>> {
        // SAFETY: `self` is valid, and the number is set before registration.
        NonZero::new(unsafe { (&raw const (*self.as_raw()).dev_id).read_volatile() })
    }

    /// The registration state. It may change unless RTNL is held.
    pub fn reg_state(&self) -> RegState {
        // SAFETY: `self` is valid; the field is read once, as C does without a lock.
        let state = unsafe { (&raw const (*self.as_raw()).reg_state).read_volatile() };
        match bindings::netdev_reg_state::from(state) {
            bindings::netdev_reg_state_NETREG_UNINITIALIZED => RegState::Uninitialized,
            bindings::netdev_reg_state_NETREG_REGISTERED => RegState::Registered,
            bindings::netdev_reg_state_NETREG_UNREGISTERING => RegState::Unregistering,
            bindings::netdev_reg_state_NETREG_UNREGISTERED => RegState::Unregistered,
            _ => RegState::Released,
        }
    }

    /// The MTU in bytes.
    pub fn mtu(&self) -> u32 {
        // SAFETY: `self` is valid; the field is read once, as C does without a lock.
        unsafe { (&raw const (*self.as_raw()).mtu).read_volatile() }
    }

    /// Whether the interface is up.
    pub fn is_running(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_running(self.as_raw()) }
    }

    /// Whether there is a link.
    pub fn carrier_ok(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_carrier_ok(self.as_raw()) }
    }

    /// Whether this is a VLAN of another device.
    pub fn is_vlan(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::is_vlan_dev(self.as_raw()) }
    }

    /// The VLAN id, if this is a VLAN device.
    pub fn vlan_id(&self) -> Option<u16> {
        if !self.is_vlan() {
            return None;
        }
        // SAFETY: `self` is valid, and a VLAN device.
        Some(unsafe { bindings::vlan_dev_vlan_id(self.as_raw()) })
    }

    /// The device below all VLANs that are stacked up to this one, if this is a VLAN device.
    pub fn vlan_real_dev<'g>(&'g self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        if !self.is_vlan() {
            return None;
        }
        // SAFETY: `self` is a VLAN device, which holds its real device until it is released.
        unsafe { Self::from_raw_opt(bindings::vlan_dev_real_dev(self.as_raw())) }
    }

    /// Whether this is the master of a bond.
    pub fn is_bond_master(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_is_bond_master(self.as_raw()) }
    }

    /// Whether this is a slave of a bond.
    pub fn is_bond_slave(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_is_bond_slave(self.as_raw()) }
    }

    /// Whether this is the master of a link aggregation group.
    pub fn is_lag_master(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_is_lag_master(self.as_raw()) }
    }

    /// Whether this is a port of a link aggregation group.
    pub fn is_lag_port(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::netif_is_lag_port(self.as_raw()) }
    }

    /// The active slave of a bond that has one at a time; nothing for other modes and devices.
    pub fn bond_active_slave<'g>(&'g self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        if !self.is_bond_master() {
            return None;
        }
        // SAFETY: `self` is a bond, and the guard protects the slave.
        unsafe { Self::from_raw_opt(bindings::bond_option_active_slave_get_rcu(self.as_raw())) }
    }

    /// The master (bond, bridge, team ...) of this device.
    pub fn master<'g>(&'g self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        // SAFETY: `self` is valid, and the guard protects the master.
        unsafe { Self::from_raw_opt(bindings::netdev_master_upper_dev_get_rcu(self.as_raw())) }
    }

    /// Whether `upper` is above this device, over any number of steps.
    pub fn has_upper(&self, upper: &NetDevice, _: &rcu::Guard) -> bool {
        // SAFETY: Both are valid, and the guard protects the lists of neighbours.
        unsafe { bindings::netdev_has_upper_dev_all_rcu(self.as_raw(), upper.as_raw()) }
    }

    /// Visits all devices above this one.
    pub fn for_each_upper<F: FnMut(&NetDevice)>(&self, _: &rcu::Guard, mut visit: F) {
        /// # Safety
        ///
        /// Called by the walk below, with its `priv` and a device that RCU protects.
        unsafe extern "C" fn step<F: FnMut(&NetDevice)>(
            dev: *mut bindings::net_device,
            data: *mut bindings::netdev_nested_priv,
        ) -> kernel::ffi::c_int {
            // SAFETY: `data` is the variable of the caller, and holds a pointer to its closure.
            let visit = unsafe { &mut *(*data).data.cast::<F>() };
            // SAFETY: RCU protects the device.
            visit(unsafe { NetDevice::from_raw(dev) });
            0
        }

        let mut data = bindings::netdev_nested_priv {
            flags: 0,
            data: (&raw mut visit).cast(),
        };
        // SAFETY: `self` is valid, the guard protects the walk, and `step` fits `data`.
        unsafe {
            bindings::netdev_walk_all_upper_dev_rcu(self.as_raw(), Some(step::<F>), &mut data);
        }
    }

    /// The first device below this one.
    pub fn first_lower<'g>(&'g self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        /// # Safety
        ///
        /// Called by the walk below, with its `priv`.
        unsafe extern "C" fn stop(
            dev: *mut bindings::net_device,
            data: *mut bindings::netdev_nested_priv,
        ) -> kernel::ffi::c_int {
            // SAFETY: `data` is the variable of the caller.
            unsafe { (*data).data = dev.cast() };
            1
        }

        let mut data = bindings::netdev_nested_priv {
            flags: 0,
            data: ptr::null_mut(),
        };
        // SAFETY: `self` is valid, the guard protects the walk, and `stop` fits `data`.
        unsafe {
            bindings::netdev_walk_all_lower_dev_rcu(self.as_raw(), Some(stop), &mut data);
        }
        // SAFETY: Null, or a device that the guard protects.
        unsafe { Self::from_raw_opt(data.data.cast()) }
    }

    /// The VLAN that packets of this device travel in: its own id, or that of the device right
    /// below it.
    pub fn effective_vlan_id(&self, guard: &rcu::Guard) -> Option<u16> {
        self.vlan_id()
            .or_else(|| self.first_lower(guard).and_then(NetDevice::vlan_id))
    }

    /// Adds the device's IP addresses to `list`: IPv4 first, then IPv6, each in the order of the
    /// interface. May be called in any context that allows bottom halves.
    ///
    /// Fails only for lack of memory; what was found until then is in the list.
    pub fn ip_addresses(&self, list: &mut KVec<IpAddr>) -> Result {
        self.ipv4_addresses(list)?;
        self.ipv6_addresses(list)
    }

    fn ipv4_addresses(&self, list: &mut KVec<IpAddr>) -> Result {
        let _guard = rcu::read_lock();
        // SAFETY: `self` is valid and the guard is held.
        let in_dev = unsafe { bindings::__in_dev_get_rcu(self.as_raw()) };
        let in_dev: *mut bindings::in_device = in_dev.cast();
        if in_dev.is_null() {
            return Ok(());
        }
        // SAFETY: The guard protects the IPv4 part of the device and its list.
        let mut ifa = unsafe { (&raw const (*in_dev).ifa_list).read_volatile() };
        while !ifa.is_null() {
            // SAFETY: As above.
            let addr = unsafe { (&raw const (*ifa).ifa_local).read_volatile() };
            list.push(IpAddr::V4(Ipv4Addr::from(addr.to_ne_bytes())), GFP_ATOMIC)?;
            // SAFETY: As above.
            ifa = unsafe { (&raw const (*ifa).ifa_next).read_volatile() };
        }
        Ok(())
    }

    fn ipv6_addresses(&self, list: &mut KVec<IpAddr>) -> Result {
        /// # Invariants
        ///
        /// Holds a reference on the IPv6 part of a device, and its lock for reading.
        struct Locked(*mut bindings::inet6_dev);

        impl Drop for Locked {
            fn drop(&mut self) {
                // SAFETY: Both are held by the type invariant.
                unsafe {
                    bindings::read_unlock_bh(&raw mut (*self.0).lock);
                    bindings::in6_dev_put(self.0);
                }
            }
        }

        // SAFETY: `self` is valid.
        let in6_dev = unsafe { bindings::in6_dev_get(self.as_raw()) };
        let in6_dev: *mut bindings::inet6_dev = in6_dev.cast();
        if in6_dev.is_null() {
            return Ok(());
        }
        // SAFETY: A reference was just taken.
        unsafe { bindings::read_lock_bh(&raw mut (*in6_dev).lock) };
        // INVARIANT: Both were just taken.
        let locked = Locked(in6_dev);
        // SAFETY: The list is initialised and locked.
        let head = unsafe { &raw mut (*locked.0).addr_list };
        // SAFETY: As above.
        let mut link = unsafe { (*head).next };
        while !ptr::eq(link, head) {
            // SAFETY: Each link of this list is that of an address.
            let addr = unsafe { (*container_of!(link, bindings::inet6_ifaddr, if_list)).addr };
            // SAFETY: All bytes of the union are initialised.
            let bytes = unsafe { addr.in6_u.u6_addr8 };
            list.push(IpAddr::V6(Ipv6Addr::from(bytes)), GFP_ATOMIC)?;
            // SAFETY: The list is locked.
            link = unsafe { (*link).next };
        }
        Ok(())
    }
}
