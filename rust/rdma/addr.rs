// SPDX-License-Identifier: GPL-2.0

//! Address resolution: socket addresses, and the link-layer addresses found for them.
//!
//! C header: [`include/rdma/ib_addr.h`](srctree/include/rdma/ib_addr.h)

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use kernel::types::Opaque;

use crate::gid::{Gid, GidAttr};
use crate::net::route::LinkAddr;
use crate::net::NetDevice;
use crate::netlink::Netns;

/// Which header carries the packets of a connection, `enum rdma_network_type`.
#[derive(Copy, Clone, PartialEq, Eq)]
#[repr(u32)]
pub enum Network {
    /// InfiniBand, or a route without a gateway.
    Ib = bindings::rdma_network_type_RDMA_NETWORK_IB,
    /// RoCE v2 over IPv4.
    Ipv4 = bindings::rdma_network_type_RDMA_NETWORK_IPV4,
    /// RoCE v2 over IPv6.
    Ipv6 = bindings::rdma_network_type_RDMA_NETWORK_IPV6,
}

/// The bytes of a socket address of family `family`; 0 for families without RDMA addresses.
pub const fn size_of_family(family: u16) -> usize {
    match family as u32 {
        bindings::AF_INET => size_of::<bindings::sockaddr_in>(),
        bindings::AF_INET6 => size_of::<bindings::sockaddr_in6>(),
        bindings::AF_IB => size_of::<bindings::sockaddr_ib>(),
        _ => 0,
    }
}

/// The family of a socket address.
///
/// # Safety
///
/// `addr` is valid for reads of its family.
pub unsafe fn family_of(addr: *const bindings::sockaddr) -> u16 {
    // SAFETY: Promised by the caller.
    unsafe { (*addr).sa_family }
}

/// Room for the addresses of all families that RDMA has.
#[derive(Copy, Clone)]
#[repr(C)]
union Storage {
    family: bindings::sa_family_t,
    v4: bindings::sockaddr_in,
    v6: bindings::sockaddr_in6,
    ib: bindings::sockaddr_ib,
}

/// A socket address of a family that RDMA has. Smaller than C's `sockaddr_storage`, which is
/// copied and cleared at length.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub struct SockAddr(Storage);

impl SockAddr {
    /// An unspecified address.
    pub fn unspecified(family: u16) -> Self {
        // SAFETY: All of these are numbers.
        let mut addr = Self(unsafe { core::mem::zeroed() });
        addr.0.family = family;
        addr
    }

    /// Copies as many bytes as the family has.
    ///
    /// # Safety
    ///
    /// `addr` is valid for reads of its family, and of as many bytes as that says.
    pub unsafe fn read(addr: *const bindings::sockaddr) -> Self {
        // SAFETY: Promised by the caller.
        let family = unsafe { family_of(addr) };
        let mut copy = Self::unspecified(family);
        // SAFETY: Promised by the caller; the storage is larger than any family's address.
        unsafe {
            ptr::copy_nonoverlapping(
                addr.cast::<u8>(),
                (&raw mut copy).cast::<u8>(),
                size_of_family(family),
            )
        };
        copy
    }

    /// The family.
    pub fn family(&self) -> u16 {
        // SAFETY: All bytes are initialised.
        unsafe { self.0.family }
    }

    /// The IP address, unless the family is another.
    pub fn ip(&self) -> Option<IpAddr> {
        match u32::from(self.family()) {
            bindings::AF_INET => {
                // SAFETY: All bytes are initialised.
                let addr = unsafe { self.0.v4.sin_addr.s_addr };
                Some(IpAddr::V4(Ipv4Addr::from(addr.to_ne_bytes())))
            }
            bindings::AF_INET6 => {
                // SAFETY: As above.
                let addr = unsafe { self.0.v6.sin6_addr.in6_u.u6_addr8 };
                Some(IpAddr::V6(Ipv6Addr::from(addr)))
            }
            _ => None,
        }
    }

    /// Replaces the IP address; port and the rest stay. Nothing happens if the families differ.
    pub fn set_ip(&mut self, addr: IpAddr) {
        match (addr, u32::from(self.family())) {
            (IpAddr::V4(addr), bindings::AF_INET) => {
                self.0.v4.sin_addr.s_addr = u32::from_ne_bytes(addr.octets());
            }
            (IpAddr::V6(addr), bindings::AF_INET6) => {
                self.0.v6.sin6_addr.in6_u.u6_addr8 = addr.octets();
            }
            _ => (),
        }
    }

    fn as_raw(&mut self) -> *mut bindings::sockaddr {
        ptr::from_mut(self).cast()
    }
}

/// The IP address behind a RoCE GID becomes a socket address.
impl From<Gid> for SockAddr {
    fn from(gid: Gid) -> Self {
        let v6 = Ipv6Addr::from(*gid.as_bytes());
        let (family, ip) = match v6.to_ipv4_mapped() {
            Some(v4) => (bindings::AF_INET, IpAddr::V4(v4)),
            None => (bindings::AF_INET6, IpAddr::V6(v6)),
        };
        let mut addr = Self::unspecified(family as u16);
        addr.set_ip(ip);
        addr
    }
}

/// What is known of the two ends of a connection, `struct rdma_dev_addr`.
///
/// It belongs to whoever asks. While a request is pending only its handler writes here.
#[repr(transparent)]
pub struct DevAddr(Opaque<bindings::rdma_dev_addr>);

// SAFETY: It holds no thread-bound state; accesses are ordered as its documentation says.
unsafe impl Send for DevAddr {}
// SAFETY: As above.
unsafe impl Sync for DevAddr {}

impl DevAddr {
    /// Nothing known yet: the initial namespace, any interface.
    pub fn new() -> Self {
        let mut addr: bindings::rdma_dev_addr = pin_init::zeroed();
        addr.net = &raw mut bindings::init_net;
        Self(Opaque::new(addr))
    }

    /// Views a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for `'a`; its `net` is null or live, its `sgid_attr` null or referenced.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::rdma_dev_addr) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    fn as_raw(&self) -> *mut bindings::rdma_dev_addr {
        self.0.get()
    }

    /// The namespace to resolve in, if the caller has set one.
    pub fn net(&self) -> Option<&Netns> {
        // SAFETY: Live unless null, by the contract of the constructors.
        unsafe {
            let net = (*self.as_raw()).net;
            (!net.is_null()).then(|| Netns::from_raw(net))
        }
    }

    /// The interface to use, or 0.
    pub fn bound_interface(&self) -> i32 {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).bound_dev_if }
    }

    /// Binds to an interface, or to none (0).
    pub fn set_bound_interface(&self, ifindex: i32) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).bound_dev_if = ifindex };
    }

    /// Goes back to the initial namespace and to no interface.
    pub fn reset_scope(&self) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).net = &raw mut bindings::init_net };
        self.set_bound_interface(0);
    }

    /// The GID that the connection starts from.
    pub fn gid_attr(&self) -> Option<&GidAttr> {
        // SAFETY: Referenced unless null, by the contract of the constructors.
        unsafe {
            let attr = (*self.as_raw()).sgid_attr;
            (!attr.is_null()).then(|| GidAttr::from_raw(attr))
        }
    }

    /// The network type.
    pub fn network(&self) -> Network {
        // SAFETY: Valid by the contract of the constructors.
        match unsafe { (*self.as_raw()).network } {
            bindings::rdma_network_type_RDMA_NETWORK_IPV4 => Network::Ipv4,
            bindings::rdma_network_type_RDMA_NETWORK_IPV6 => Network::Ipv6,
            _ => Network::Ib,
        }
    }

    /// Stores the network type.
    pub fn set_network(&self, network: Network) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).network = network as u32 };
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> i32 {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).hoplimit }
    }

    /// Stores the hop limit.
    pub fn set_hop_limit(&self, limit: i32) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).hoplimit = limit };
    }

    /// Takes type, address, broadcast address and index of the near end from `dev`.
    pub fn set_source(&self, dev: &NetDevice) {
        let this = self.as_raw();
        let ndev = dev.as_raw();
        // SAFETY: Both are valid; `dev_addr` points to an address of the longest size, which may
        // change meanwhile as for every reader without RTNL.
        unsafe {
            (*this).dev_type = (&raw const (*ndev).type_).read_volatile();
            let from = (&raw const (*ndev).dev_addr).read_volatile();
            let to = &raw mut (*this).src_dev_addr;
            // By C's `memcpy`, since the bytes may change under it.
            bindings::memcpy(to.cast(), from.cast(), size_of::<LinkAddr>());
            let to = &raw mut (*this).broadcast;
            let from = &raw const (*ndev).broadcast;
            bindings::memcpy(to.cast(), from.cast(), size_of::<LinkAddr>());
            (*this).bound_dev_if = dev.ifindex();
        }
    }

    /// The link-layer address of the far end.
    pub fn destination(&self) -> LinkAddr {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).dst_dev_addr }
    }

    /// Stores the link-layer address of the far end.
    pub fn set_destination(&self, addr: LinkAddr) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).dst_dev_addr = addr };
    }

    /// The far end is the near one.
    pub fn set_destination_to_source(&self) {
        // SAFETY: Valid by the contract of the constructors.
        unsafe { (*self.as_raw()).dst_dev_addr = (*self.as_raw()).src_dev_addr };
    }

    /// Stores the GID of the far end, where the address of its interface has it (IPoIB: after the
    /// QP number).
    pub fn set_destination_gid(&self, gid: Gid) {
        let this = self.as_raw();
        // SAFETY: Valid by the contract of the constructors; only one thread writes at a time.
        unsafe {
            let offset = if u32::from((*this).dev_type) == bindings::ARPHRD_INFINIBAND {
                4
            } else {
                0
            };
            for (to, from) in (*this)
                .dst_dev_addr
                .iter_mut()
                .skip(offset)
                .zip(gid.as_bytes())
            {
                *to = *from;
            }
        }
    }
}

impl Default for DevAddr {
    fn default() -> Self {
        Self::new()
    }
}

/// A [`DevAddr`] to be resolved as seen from the network device of a GID, which it holds.
///
/// # Invariants
///
/// The `sgid_attr` of `addr` is `attr`.
pub struct GidDevAddr {
    addr: DevAddr,
    attr: ARef<GidAttr>,
}

impl GidDevAddr {
    /// Nothing known yet but the GID.
    pub fn new(attr: ARef<GidAttr>) -> Self {
        let addr = DevAddr::new();
        // SAFETY: Nobody else knows the structure yet.
        unsafe { (*addr.as_raw()).sgid_attr = attr.as_raw() };
        // INVARIANT: Set just now; the reference is held in the value itself.
        Self { addr, attr }
    }

    /// The GID.
    pub fn gid_attr(&self) -> &GidAttr {
        &self.attr
    }
}

impl core::ops::Deref for GidDevAddr {
    type Target = DevAddr;

    fn deref(&self) -> &DevAddr {
        &self.addr
    }
}

/// A RoCE path record, `struct sa_path_rec`.
#[repr(transparent)]
pub struct RocePath(Opaque<bindings::sa_path_rec>);

impl RocePath {
    /// Views a C structure.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for `'a`, and its record is of a RoCE type.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::sa_path_rec) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The GIDs of the near and of the far end.
    pub fn gids(&self) -> (Gid, Gid) {
        let this = self.0.get();
        // SAFETY: Valid by the contract of the constructor.
        unsafe {
            (
                Gid::read(&raw const (*this).sgid),
                Gid::read(&raw const (*this).dgid),
            )
        }
    }

    /// Whether the record is of RoCE v2.
    pub fn is_roce_v2(&self) -> bool {
        // SAFETY: Valid by the contract of the constructor.
        unsafe { (*self.0.get()).rec_type == bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2 }
    }

    /// Whether the route was checked already.
    pub fn is_resolved(&self) -> bool {
        // SAFETY: Valid by the contract of the constructor.
        unsafe { (*self.0.get()).__bindgen_anon_1.roce.route_resolved }
    }

    /// Notes that the route was checked.
    pub fn set_resolved(&self) {
        // SAFETY: Valid by the contract of the constructor.
        unsafe { (*self.0.get()).__bindgen_anon_1.roce.route_resolved = true };
    }
}

/// The type of a C completion handler.
pub type RawCallback = unsafe extern "C" fn(
    status: c_int,
    src_addr: *mut bindings::sockaddr,
    addr: *mut bindings::rdma_dev_addr,
    context: *mut c_void,
);

/// What a request of C code is known by: the place of its result.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Key(usize);

impl From<&DevAddr> for Key {
    fn from(addr: &DevAddr) -> Self {
        Key(ptr::from_ref(addr) as usize)
    }
}

/// A request of C code: where the result goes and whom to tell.
///
/// # Invariants
///
/// `addr` is valid, with the contract of [`DevAddr::from_raw`], until the callback was called or
/// the request cancelled; then `callback` may be called once, with `context`.
pub struct Asker {
    addr: NonNull<bindings::rdma_dev_addr>,
    callback: RawCallback,
    context: *mut c_void,
}

// SAFETY: The callback is made to be called from another thread.
unsafe impl Send for Asker {}
// SAFETY: Only `DevAddr`, which is `Sync`, can be reached through a shared reference.
unsafe impl Sync for Asker {}

impl Asker {
    /// Wraps the arguments of `rdma_resolve_ip`.
    ///
    /// # Safety
    ///
    /// As the type invariant says.
    pub unsafe fn new(
        addr: *mut bindings::rdma_dev_addr,
        callback: Option<RawCallback>,
        context: *mut c_void,
    ) -> Result<Self> {
        Ok(Self {
            addr: NonNull::new(addr).ok_or(EINVAL)?,
            callback: callback.ok_or(EINVAL)?,
            context,
        })
    }

    /// Where the result goes.
    pub fn addr(&self) -> &DevAddr {
        // SAFETY: By the type invariant.
        unsafe { DevAddr::from_raw(self.addr.as_ptr()) }
    }

    /// The key of the request, by which C code cancels.
    pub fn key(&self) -> Key {
        Key(self.addr.as_ptr() as usize)
    }

    /// Tells the outcome.
    pub fn tell(self, outcome: Result, mut source: SockAddr) {
        let status = outcome.err().map_or(0, |error| error.to_errno());
        // SAFETY: By the type invariant; the callback reads the source address only while it runs.
        unsafe { (self.callback)(status, source.as_raw(), self.addr.as_ptr(), self.context) };
    }
}

/// Finds the device with index `ifindex` in `net`, while `visit` looks at it.
pub fn with_device_by_index<R>(
    net: &Netns,
    ifindex: i32,
    visit: impl FnOnce(&NetDevice) -> R,
) -> Result<R> {
    // SAFETY: The namespace is live.
    let dev = unsafe { bindings::dev_get_by_index(net.as_raw(), ifindex) };
    // SAFETY: The lookup took a reference.
    let dev = unsafe { NetDevice::from_raw_owned(dev.cast()) }.ok_or(ENODEV)?;
    Ok(visit(&dev))
}

/// The namespace of a network device, which may change unless RCU protects against it.
pub fn netns_of<'g>(dev: &NetDevice, _: &'g rcu::Guard) -> &'g Netns {
    // SAFETY: The device is valid; the guard keeps its namespace.
    unsafe { Netns::from_raw(bindings::dev_net(dev.as_raw()).cast()) }
}
