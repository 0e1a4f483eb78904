// SPDX-License-Identifier: GPL-2.0

//! Ports of RDMA devices: what never changes, and the cache of what does.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_void};
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering, Atomic};
use kernel::sync::{rcu, Arc, ArcBorrow};

use crate::device::{Device, PortCaps};
use crate::gid::{Gid, GidTable, GidType, GidTypes};
use crate::net::NetDevice;
use crate::rate::SpeedInfo;
use crate::rcu_box::RcuBox;

/// A partition key. The top bit tells full from limited membership (IBTA 10.9.1.1).
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Pkey(pub u16);

impl Pkey {
    const FULL: u16 = 0x8000;

    /// Whether the key makes its owner a full member.
    pub const fn is_full(self) -> bool {
        self.0 & Self::FULL != 0
    }

    /// Whether both keys are of one partition, whatever the membership.
    pub const fn same_partition(self, other: Pkey) -> bool {
        (self.0 ^ other.0) & !Self::FULL == 0
    }
}

/// The state of a port, as the C enum.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct PortState(pub bindings::ib_port_state);

impl PortState {
    /// Not known.
    pub const NOP: PortState = PortState(bindings::ib_port_state_IB_PORT_NOP);

    /// The name, as in sysfs.
    pub fn name(self) -> &'static CStr {
        // SAFETY: The function returns constant strings, for bad values too.
        unsafe { CStr::from_char_ptr(bindings::ib_port_state_to_str(self.0)) }
    }
}

/// What a port is connected to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// Not known.
    Unspecified,
    /// InfiniBand.
    InfiniBand,
    /// Ethernet.
    Ethernet,
}

/// What a driver reports about a port.
pub struct PortAttr(KBox<bindings::ib_port_attr>);

impl PortAttr {
    /// The state of the port.
    pub fn state(&self) -> PortState {
        PortState(self.0.state)
    }

    /// The LID mask count.
    pub fn lmc(&self) -> u8 {
        self.0.lmc
    }

    /// The size of the GID table.
    pub fn gid_tbl_len(&self) -> usize {
        usize::try_from(self.0.gid_tbl_len).unwrap_or(0)
    }

    /// The size of the P_Key table.
    pub fn pkey_tbl_len(&self) -> u16 {
        self.0.pkey_tbl_len
    }

    /// The subnet prefix, as far as known.
    pub fn subnet_prefix(&self) -> u64 {
        self.0.subnet_prefix
    }

    /// Name and rate of the link, as sysfs shows them.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the width is not known.
    pub fn speed(&self) -> Result<SpeedInfo> {
        let mut attr = *self.0;
        let mut speed = SpeedInfo::EMPTY;
        // SAFETY: Attributes and result are valid.
        to_result(unsafe { bindings::ib_port_attr_to_speed_info(&mut attr, speed.as_raw_mut()) })?;
        Ok(speed)
    }

    /// All attributes.
    pub fn raw(&self) -> &bindings::ib_port_attr {
        &self.0
    }
}

/// A port of a device.
///
/// # Invariants
///
/// The device has the port, and its port data.
#[derive(Copy, Clone)]
pub struct Port<'d> {
    device: &'d Device,
    number: u32,
    data: NonNull<bindings::ib_port_data>,
}

impl<'d> Port<'d> {
    /// The port of a number. Nothing if the device has no such port, or has no port data yet.
    #[inline]
    pub fn new(device: &'d Device, number: u32) -> Option<Self> {
        // INVARIANT: The pointer is null unless the device has the port and its data.
        Some(Self {
            device,
            number,
            data: NonNull::new(device.port_data_raw(number))?,
        })
    }

    /// All ports of a device.
    pub fn all(device: &'d Device) -> impl Iterator<Item = Port<'d>> {
        device
            .ports()
            .filter_map(move |number| Port::new(device, number))
    }

    /// The device.
    pub fn device(&self) -> &'d Device {
        self.device
    }

    /// The number.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn immutable(&self) -> &'d bindings::ib_port_immutable {
        // SAFETY: The port data live as long as the device; this part is written during setup only.
        unsafe { &(*self.data.as_ptr()).immutable }
    }

    /// What the port can do.
    pub fn caps(&self) -> PortCaps {
        self.device.port_caps(self.number)
    }

    /// The size of the GID table.
    pub fn gid_tbl_len(&self) -> usize {
        usize::try_from(self.immutable().gid_tbl_len).unwrap_or(0)
    }

    /// The size of the P_Key table.
    pub fn pkey_tbl_len(&self) -> usize {
        usize::try_from(self.immutable().pkey_tbl_len).unwrap_or(0)
    }

    /// The types of the GIDs in the table.
    pub fn gid_types(&self) -> GidTypes {
        let caps = self.caps();
        let mut types = GidTypes::default();
        if !caps.protocol_roce() {
            return types.with(GidType::Ib);
        }
        if caps.protocol_roce_eth_encap() {
            types = types.with(GidType::Roce);
        }
        if caps.protocol_roce_udp_encap() {
            types = types.with(GidType::RoceV2);
        }
        types
    }

    /// Whether the driver wants to know about each RoCE GID.
    pub fn has_roce_gid_ops(&self) -> bool {
        let ops = self.device.ops();
        self.caps().protocol_roce() && ops.add_gid.is_some() && ops.del_gid.is_some()
    }

    /// The link layer.
    pub fn link_layer(&self) -> LinkLayer {
        match self.device.link_layer(self.number) {
            bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unspecified,
        }
    }

    /// The network device of the port. May sleep.
    pub fn netdev(&self) -> Option<ARef<NetDevice>> {
        // SAFETY: The device is valid, and the function returns a reference.
        unsafe {
            NetDevice::from_raw_owned(bindings::ib_device_get_netdev(
                self.device.as_raw(),
                self.number,
            ))
        }
    }

    /// Asks the driver for the attributes. May sleep and take RTNL.
    pub fn query(&self) -> Result<PortAttr> {
        let mut attr = KBox::new(pin_init::zeroed::<bindings::ib_port_attr>(), GFP_KERNEL)?;
        // SAFETY: The device is valid, and the result has room.
        to_result(unsafe {
            bindings::ib_query_port(self.device.as_raw(), self.number, &mut *attr)
        })?;
        Ok(PortAttr(attr))
    }

    /// Whether the driver can tell the GIDs of its port.
    pub fn can_query_gid(&self) -> bool {
        self.device.ops().query_gid.is_some()
    }

    /// Asks the driver for a GID. May sleep.
    pub fn query_gid(&self, index: u16) -> Result<Gid> {
        let query_gid = self.device.ops().query_gid.ok_or(EOPNOTSUPP)?;
        let mut gid = Gid::ZERO;
        // SAFETY: The device is valid, and the result has room.
        to_result(unsafe {
            query_gid(
                self.device.as_raw(),
                self.number,
                c_int::from(index),
                gid.as_raw_mut(),
            )
        })?;
        Ok(gid)
    }

    /// Asks the driver for a P_Key. May sleep.
    pub fn query_pkey(&self, index: u16) -> Result<Pkey> {
        let mut pkey = 0;
        // SAFETY: The device is valid, and the result has room.
        to_result(unsafe {
            bindings::ib_query_pkey(self.device.as_raw(), self.number, index, &mut pkey)
        })?;
        Ok(Pkey(pkey))
    }

    /// The cache of the port.
    pub fn cache(&self) -> PortCache<'d> {
        PortCache {
            _device: self.device,
            // SAFETY: The port data are valid; no reference is made.
            cache: unsafe { NonNull::new_unchecked(&raw mut (*self.data.as_ptr()).cache) },
        }
    }

    /// The GID table; nothing before the cache was set up.
    #[inline]
    pub fn gid_table(&self) -> Option<ArcBorrow<'d, GidTable>> {
        // SAFETY: The port data are valid as long as the device. The field is null or holds a
        // table, which goes with the device.
        unsafe {
            GidTable::borrow_raw((&raw const (*self.data.as_ptr()).cache.gid).read_volatile())
        }
    }

    /// Logs a line at info level, with the name of the device.
    pub fn info(&self, args: fmt::Arguments<'_>) {
        // SAFETY: `%pA` takes a pointer to `fmt::Arguments`.
        unsafe {
            bindings::ibdev_info(
                self.device.as_raw(),
                c"%pA".as_char_ptr(),
                ptr::from_ref(&args).cast::<c_void>(),
            );
        }
    }
}

/// The P_Key table of a port at one time.
pub struct PkeyTable(KVec<u16>);

impl PkeyTable {
    /// Makes a table.
    pub fn new(pkeys: KVec<u16>) -> Self {
        Self(pkeys)
    }

    /// The key at an index.
    pub fn get(&self, index: usize) -> Option<Pkey> {
        self.0.get(index).copied().map(Pkey)
    }

    /// The index of a key: that of a full member of the partition, or else the last one of a
    /// limited member.
    pub fn find(&self, pkey: Pkey) -> Option<usize> {
        let mut limited = None;
        for (index, entry) in self.0.iter().copied().map(Pkey).enumerate() {
            if entry.same_partition(pkey) {
                if entry.is_full() {
                    return Some(index);
                }
                limited = Some(index);
            }
        }
        limited
    }
}

/// What the core remembers of a port.
///
/// Each value is read and replaced as a whole, without a lock. The P_Key table is replaced by RCU.
///
/// # Invariants
///
/// `pkey` is null or comes from [`RcuBox::into_raw`] of a [`PkeyTable`], `gid` is null or comes from
/// [`GidTable::into_raw`], and the cache owns both. All fields of the core are accessed atomically.
pub struct PortCache<'d> {
    _device: &'d Device,
    cache: NonNull<bindings::ib_port_cache>,
}

impl PortCache<'_> {
    fn pkey_slot(&self) -> &Atomic<*mut bindings::ib_pkey_cache> {
        // SAFETY: The field is valid and accessed atomically by the type invariant.
        unsafe { Atomic::from_ptr(&raw mut (*self.cache.as_ptr()).pkey) }
    }

    fn gid_slot(&self) -> &Atomic<*mut bindings::ib_gid_table> {
        // SAFETY: The field is valid and accessed atomically by the type invariant.
        unsafe { Atomic::from_ptr(&raw mut (*self.cache.as_ptr()).gid) }
    }

    fn state_slot(&self) -> &Atomic<u32> {
        // SAFETY: The field is valid and accessed atomically by the type invariant.
        unsafe { Atomic::from_ptr(&raw mut (*self.cache.as_ptr()).port_state) }
    }

    fn prefix_slot(&self) -> &Atomic<u64> {
        // SAFETY: The field is valid and accessed atomically by the type invariant.
        unsafe { Atomic::from_ptr(&raw mut (*self.cache.as_ptr()).subnet_prefix) }
    }

    /// The state of the port.
    pub fn state(&self) -> PortState {
        PortState(self.state_slot().load(ordering::Relaxed))
    }

    /// Replaces the state and returns the old one.
    pub fn replace_state(&self, state: PortState) -> PortState {
        PortState(self.state_slot().xchg(state.0, ordering::Relaxed))
    }

    /// The LID mask count.
    pub fn lmc(&self) -> u8 {
        // SAFETY: The field is valid; a byte is read as a whole.
        unsafe { (&raw const (*self.cache.as_ptr()).lmc).read_volatile() }
    }

    /// Replaces the LID mask count.
    pub fn set_lmc(&self, lmc: u8) {
        // SAFETY: The field is valid; a byte is written as a whole.
        unsafe { (&raw mut (*self.cache.as_ptr()).lmc).write_volatile(lmc) }
    }

    /// The subnet prefix.
    pub fn subnet_prefix(&self) -> u64 {
        self.prefix_slot().load(ordering::Relaxed)
    }

    /// Replaces the subnet prefix.
    pub fn set_subnet_prefix(&self, prefix: u64) {
        self.prefix_slot().store(prefix, ordering::Relaxed);
    }

    /// Looks into the P_Key table; nothing before the first one was stored.
    pub fn with_pkeys<R>(&self, look: impl FnOnce(&PkeyTable) -> R) -> Option<R> {
        let _guard = rcu::read_lock();
        let table = self.pkey_slot().load(ordering::Acquire).cast::<PkeyTable>();
        // SAFETY: By the type invariant; the guard keeps a table that is replaced meanwhile.
        unsafe { table.as_ref() }.map(look)
    }

    fn replace_pkeys_raw(&self, table: *mut bindings::ib_pkey_cache) {
        // INVARIANT: The caller passes null or a table of its own.
        let old = self.pkey_slot().xchg(table, ordering::Full);
        if let Some(old) = NonNull::new(old.cast::<PkeyTable>()) {
            // SAFETY: The cache owned the table, and the exchange took it out once.
            drop(unsafe { RcuBox::from_raw(old) });
        }
    }

    /// Replaces the P_Key table. May sleep.
    pub fn set_pkeys(&self, table: PkeyTable) -> Result {
        let table = RcuBox::into_raw(RcuBox::new(table, GFP_KERNEL)?);
        self.replace_pkeys_raw(table.as_ptr().cast());
        Ok(())
    }

    /// Stores the GID table; there must be none yet.
    pub fn set_gid_table(&self, table: Arc<GidTable>) {
        let old = self
            .gid_slot()
            .xchg(GidTable::into_raw(table), ordering::Full);
        // SAFETY: The cache owned the table, and the exchange took it out once.
        drop(unsafe { GidTable::from_raw(old) });
    }

    /// Drops the tables.
    ///
    /// # Safety
    ///
    /// Only the release function of the device may call this: no other user of the cache is left.
    pub unsafe fn release(&self) {
        self.replace_pkeys_raw(ptr::null_mut());
        let table = self.gid_slot().xchg(ptr::null_mut(), ordering::Full);
        // SAFETY: The cache owned the table, and the exchange took it out once.
        drop(unsafe { GidTable::from_raw(table) });
    }
}

/// The ports of all RoCE devices that take part in GID updates.
pub mod roce {
    use super::*;

    type Visitor<'a> = dyn FnMut(Port<'_>, Option<&NetDevice>) + 'a;

    /// # Safety
    ///
    /// Called by the functions below with the address of their visitor.
    unsafe extern "C" fn accept(
        _device: *mut bindings::ib_device,
        _port: u32,
        _netdev: *mut bindings::net_device,
        _cookie: *mut c_void,
    ) -> bool {
        true
    }

    /// # Safety
    ///
    /// Called by the functions below with the address of their visitor, a live device, and its
    /// network device, if any, that the caller holds.
    unsafe extern "C" fn visit(
        device: *mut bindings::ib_device,
        port: u32,
        netdev: *mut bindings::net_device,
        cookie: *mut c_void,
    ) {
        // SAFETY: The cookie is the address of the visitor.
        let visitor = unsafe { &mut *cookie.cast::<&mut Visitor<'_>>() };
        // SAFETY: The device lives during the call.
        let device = unsafe { Device::from_raw(device) };
        // SAFETY: The caller holds the network device.
        let netdev = unsafe { NetDevice::from_raw_opt(netdev) };
        if let Some(port) = Port::new(device, port) {
            visitor(port, netdev);
        }
    }

    /// Visits the RoCE ports of all devices, with their network devices. May sleep; the list of
    /// devices is locked during the visits.
    pub fn for_each_port(mut visitor: impl FnMut(Port<'_>, Option<&NetDevice>)) {
        let mut visitor: &mut Visitor<'_> = &mut visitor;
        let cookie: *mut c_void = (&raw mut visitor).cast();
        // SAFETY: Both callbacks fit the cookie, which outlives the call.
        unsafe { bindings::ib_enum_all_roce_netdevs(Some(accept), cookie, Some(visit), cookie) }
    }

    /// Visits the RoCE ports of one device, with their network devices. May sleep.
    pub fn for_each_port_of(
        device: &Device,
        mut visitor: impl FnMut(Port<'_>, Option<&NetDevice>),
    ) {
        let mut visitor: &mut Visitor<'_> = &mut visitor;
        let cookie: *mut c_void = (&raw mut visitor).cast();
        // SAFETY: The device is valid, and both callbacks fit the cookie, which outlives the call.
        unsafe {
            bindings::ib_enum_roce_netdev(
                device.as_raw(),
                Some(accept),
                cookie,
                Some(visit),
                cookie,
            );
        }
    }

    /// Adds the GIDs of all network devices that are related to the ports of a device. May sleep and
    /// takes RTNL.
    pub fn rescan(device: &Device) {
        // SAFETY: The device is valid.
        unsafe { bindings::rdma_roce_rescan_device(device.as_raw()) }
    }

    /// The same for one port, unless the device is about to go. May sleep and takes RTNL.
    pub(crate) fn rescan_port(device: &Device, port: u32) {
        if let Some(get) = device.try_get() {
            // SAFETY: The device is valid, and registered as long as `get` exists.
            unsafe { bindings::rdma_roce_rescan_port(device.as_raw(), port) };
            drop(get);
        }
    }

    /// Lets events of network devices reach the GID tables of a device. May sleep.
    #[inline]
    pub fn enable_updates(device: &Device) {
        // SAFETY: The device is valid.
        unsafe { bindings::ib_device_enable_gid_updates(device.as_raw()) }
    }

    /// Keeps events of network devices away from the GID tables of a device; when this returns, no
    /// visit of the device is running. May sleep.
    #[inline]
    pub fn disable_updates(device: &Device) {
        // SAFETY: The device is valid.
        unsafe { bindings::ib_device_disable_gid_updates(device.as_raw()) }
    }
}
