// SPDX-License-Identifier: GPL-2.0

//! GIDs, and counted references to entries of GID tables.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)
//!
//! [`ARef<GidAttr>`] is the owned reference: `clone` takes another one, `drop` puts it, both in any
//! context. Whoever looks a GID up gets one; a driver or a ULP keeps it as long as it uses the GID
//! on the wire, so that the hardware slot is not given to another GID meanwhile.

use core::ffi::CStr;
use core::net::IpAddr;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::{from_err_ptr, to_result};
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::aref::{ARef, AlwaysRefCounted};
use kernel::sync::rcu;
use kernel::types::Opaque;

use crate::net::netdev::Mac;
use crate::net::NetDevice;

pub mod entry;
pub mod lookup;
mod table;
pub mod update;

pub use entry::{Draft, EntryView, HwSlots};
pub use table::{GidTable, Retention, SlotState, TableWriter};

/// A global identifier: an IPv6-like address of a port (IBTA 4.1.1).
#[repr(C, align(8))]
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct Gid([u8; 16]);

const _: () = {
    assert!(core::mem::size_of::<Gid>() == core::mem::size_of::<bindings::ib_gid>());
    assert!(core::mem::align_of::<Gid>() == core::mem::align_of::<bindings::ib_gid>());
};

impl Gid {
    /// The reserved GID, which means "none".
    pub const ZERO: Gid = Gid([0; 16]);

    /// Makes a GID from its bytes in network order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Gid(bytes)
    }

    /// The link-local GID (`fe80::/64`) of an interface identifier.
    pub fn link_local(interface_id: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = interface_id;
        Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h])
    }

    /// Reads a C union, wherever it is: drivers hand over addresses within the header of a packet.
    ///
    /// # Safety
    ///
    /// `gid` is valid for reads, aligned or not.
    pub unsafe fn read(gid: *const bindings::ib_gid) -> Self {
        // SAFETY: By the contract; the layouts agree.
        unsafe { gid.cast::<Self>().read_unaligned() }
    }

    /// Writes a C union, wherever it is.
    ///
    /// # Safety
    ///
    /// `gid` is valid for writes, aligned or not.
    pub unsafe fn write(self, gid: *mut bindings::ib_gid) {
        // SAFETY: By the contract; the layouts agree.
        unsafe { gid.cast::<Self>().write_unaligned(self) }
    }

    /// The C union.
    pub fn as_raw(&self) -> *const bindings::ib_gid {
        core::ptr::from_ref(self).cast()
    }

    /// The C union, for functions whose prototypes lack `const`.
    pub fn as_raw_mut(&mut self) -> *mut bindings::ib_gid {
        core::ptr::from_mut(self).cast()
    }

    /// Of an IPv4 address, which is mapped into IPv6 (`::ffff:a.b.c.d`).
    #[inline]
    pub const fn from_v4([a, b, c, d]: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// The bytes, in network order.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Whether this is the reserved GID.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// The upper 64 bits.
    pub fn subnet_prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// The lower 64 bits.
    pub fn interface_id(&self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// RoCE: an IPv6 address is a GID, an IPv4 address is mapped (`::ffff:a.b.c.d`).
impl From<IpAddr> for Gid {
    fn from(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(addr) => Gid(addr.to_ipv6_mapped().octets()),
            IpAddr::V6(addr) => Gid(addr.octets()),
        }
    }
}

/// Eight groups of four hex digits, as `%pI6` prints them.
impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for pair in self.0.chunks_exact(2) {
            f.write_str(separator)?;
            for byte in pair {
                write!(f, "{byte:02x}")?;
            }
            separator = ":";
        }
        Ok(())
    }
}

/// What a GID is on the wire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum GidType {
    /// InfiniBand, OPA and iWARP.
    Ib = bindings::ib_gid_type_IB_GID_TYPE_IB,
    /// RoCE v1: a GRH after the Ethernet header.
    Roce = bindings::ib_gid_type_IB_GID_TYPE_ROCE,
    /// RoCE v2: UDP over IPv4 or IPv6.
    RoceV2 = bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
}

impl GidType {
    /// All types, in the order of their numbers.
    pub const ALL: [GidType; 3] = [GidType::Ib, GidType::Roce, GidType::RoceV2];

    /// Decodes the number of the C enum.
    pub fn from_raw(raw: bindings::ib_gid_type) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.as_raw() == raw)
    }

    /// The number of the C enum.
    pub const fn as_raw(self) -> bindings::ib_gid_type {
        self as u32
    }

    /// The name in sysfs and configfs. User space parses it, and has always seen the same name for
    /// the first two types.
    pub const fn name(self) -> &'static CStr {
        match self {
            GidType::Ib | GidType::Roce => c"IB/RoCE v1",
            GidType::RoceV2 => c"RoCE v2",
        }
    }

    /// Finds a type by its name; the first one of those that share it.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|ty| ty.name().to_bytes() == name)
    }
}

/// A set of GID types.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct GidTypes(u32);

impl GidTypes {
    /// The set of those types whose numbers are the bits of `mask`.
    pub const fn from_mask(mask: u64) -> Self {
        GidTypes(mask as u32)
    }

    /// The bits of the numbers of the types.
    pub const fn mask(self) -> u64 {
        self.0 as u64
    }

    /// The set with one more type.
    pub const fn with(self, ty: GidType) -> Self {
        GidTypes(self.0 | 1 << ty.as_raw())
    }

    /// How many types there are.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The types, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = GidType> {
        GidType::ALL
            .into_iter()
            .filter(move |ty| self.0 & (1 << ty.as_raw()) != 0)
    }
}

/// A valid entry of a GID table, as drivers and ULPs see it.
///
/// Everything but the network device is constant.
///
/// # Invariants
///
/// The attributes are those of an entry whose count is positive while a reference to this exists;
/// the entry keeps the device in memory.
#[repr(transparent)]
pub struct GidAttr(Opaque<bindings::ib_gid_attr>);

// SAFETY: The entry may be released from any thread.
unsafe impl Send for GidAttr {}
// SAFETY: The attributes are constant, but for the network device, which RCU protects.
unsafe impl Sync for GidAttr {}

// SAFETY: The functions count the references of the entry, which stays in memory until the last
// one is put.
unsafe impl AlwaysRefCounted for GidAttr {
    fn inc_ref(&self) {
        // SAFETY: The count is positive by the type invariant.
        unsafe { bindings::rdma_hold_gid_attr(self.as_raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference.
        unsafe { bindings::rdma_put_gid_attr(obj.as_ptr().cast()) }
    }
}

impl GidAttr {
    /// Views the attributes of a table entry.
    ///
    /// # Safety
    ///
    /// `attr` is that of an entry, on which a reference is held during `'a`.
    pub unsafe fn from_raw<'a>(attr: *const bindings::ib_gid_attr) -> &'a Self {
        // SAFETY: The type is transparent.
        // INVARIANT: By the contract.
        unsafe { &*attr.cast() }
    }

    /// Takes over a reference that C counted.
    ///
    /// # Safety
    ///
    /// `attr` is that of an entry, and the caller gives a reference away.
    pub unsafe fn from_raw_owned(attr: NonNull<bindings::ib_gid_attr>) -> ARef<Self> {
        // SAFETY: By the contract.
        unsafe { ARef::from_raw(attr.cast()) }
    }

    /// Gives a reference to C, which has to put it.
    pub fn into_raw(this: ARef<Self>) -> *const bindings::ib_gid_attr {
        ARef::into_raw(this).as_ptr().cast()
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *const bindings::ib_gid_attr {
        self.0.get()
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        // SAFETY: Valid and constant by the type invariant.
        unsafe { Gid::read(&raw const (*self.as_raw()).gid) }
    }

    /// The type, as the C enum.
    pub fn raw_gid_type(&self) -> bindings::ib_gid_type {
        // SAFETY: Valid and constant by the type invariant.
        unsafe { (*self.as_raw()).gid_type }
    }

    /// The type.
    pub fn gid_type(&self) -> GidType {
        GidType::from_raw(self.raw_gid_type()).unwrap_or(GidType::Ib)
    }

    /// The index in the table of the port.
    pub fn index(&self) -> u16 {
        // SAFETY: Valid and constant by the type invariant.
        unsafe { (*self.as_raw()).index }
    }

    /// The port.
    pub fn port_num(&self) -> u32 {
        // SAFETY: Valid and constant by the type invariant.
        unsafe { (*self.as_raw()).port_num }
    }

    /// The RDMA device. It stays in memory as long as the entry.
    pub fn raw_device(&self) -> *mut bindings::ib_device {
        // SAFETY: Valid and constant by the type invariant.
        unsafe { (*self.as_raw()).device }
    }

    /// The network device, as long as the GID is in the table.
    ///
    /// Errors: `EINVAL` if the GID was deleted meanwhile, `ENODEV` if it has no network device.
    pub fn ndev<'g>(&'g self, _: &'g rcu::Guard) -> Result<&'g NetDevice> {
        // SAFETY: The reference is held by the type invariant, and the guard by the argument.
        let ndev = unsafe { bindings::rdma_read_gid_attr_ndev_rcu(self.as_raw()) };
        // SAFETY: The guard protects the device.
        from_err_ptr(ndev).map(|ndev| unsafe { NetDevice::from_raw(ndev) })
    }

    /// The network device as it is stored, even if the GID was deleted meanwhile (then it is gone
    /// soon). Nothing if there is none.
    pub fn ndev_raw<'g>(&'g self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        // SAFETY: The field is read once; the guard protects what it points to.
        unsafe { NetDevice::from_raw_opt((&raw const (*self.as_raw()).ndev).read_volatile()) }
    }

    /// The VLAN id, if there is one, and the source MAC address for packets of this GID.
    ///
    /// Errors: `ENODEV` if the GID has no network device or was deleted meanwhile.
    pub fn l2_fields(&self) -> Result<(Option<u16>, Mac)> {
        let mut vlan_id = NO_VLAN;
        let mut mac = [0; 6];
        // SAFETY: The reference is held by the type invariant, and both results have room.
        to_result(unsafe {
            bindings::rdma_read_gid_l2_fields(self.as_raw(), &mut vlan_id, mac.as_mut_ptr())
        })?;
        Ok(((vlan_id != NO_VLAN).then_some(vlan_id), mac))
    }
}

/// How the C interface says that there is no VLAN.
pub const NO_VLAN: u16 = 0xffff;
