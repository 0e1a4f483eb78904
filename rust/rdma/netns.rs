// SPDX-License-Identifier: GPL-2.0

//! Network namespaces, as far as devices belong to them.
//!
//! C headers: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h), `core_priv.h`

use core::{
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};

use crate::net::NetDevice;
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

/// A network namespace.
///
/// # Invariants
///
/// The pointer obtained from `as_raw` is that of a namespace that lives as long as the reference.
#[repr(transparent)]
pub struct Net(Opaque<bindings::net>);

// SAFETY: What the methods read never changes.
unsafe impl Sync for Net {}

impl Net {
    /// Views a C namespace.
    ///
    /// # Safety
    ///
    /// `net` is valid for `'a`.
    pub unsafe fn from_raw<'a>(net: *const bindings::net) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*net.cast() }
    }

    /// The namespace that the system starts with and that never goes away.
    pub fn init() -> &'static Net {
        // SAFETY: A static of the kernel.
        unsafe { Self::from_raw(&raw const bindings::init_net) }
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// Which namespace this is, for comparisons that outlive it.
    pub fn id(&self) -> NetId {
        NetId(self.as_raw())
    }

    /// Takes a reference on the namespace that a file descriptor of the current task names.
    pub fn from_fd(fd: i32) -> Result<NetRef> {
        // SAFETY: Takes any number.
        let net = from_err_ptr(unsafe { bindings::get_net_ns_by_fd(fd) })?;
        // INVARIANT: The reference was just taken.
        NonNull::new(net).map(NetRef).ok_or(EINVAL)
    }

    /// Whether the current task may send raw packets in the user namespace that owns this one.
    pub fn has_cap_net_raw(&self) -> bool {
        // SAFETY: The namespace is valid by the type invariant; its owner never changes.
        unsafe { bindings::ns_capable((*self.as_raw()).user_ns, bindings::CAP_NET_RAW as c_int) }
    }

    /// The part of the namespace that the core owns.
    ///
    /// Valid from the namespace's init callback to its exit callback.
    #[inline]
    pub fn rdma(&self) -> &RdmaNet {
        // SAFETY: The pernet operations reserve this part in every namespace.
        unsafe { &*bindings::rdma_net_to_dev_net(self.as_raw()).cast() }
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

/// Says which namespace, without keeping it alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetId(*const bindings::net);

// SAFETY: The address is only compared, or used by this crate where it is known to be valid.
unsafe impl Send for NetId {}
// SAFETY: As above.
unsafe impl Sync for NetId {}

impl NetId {
    /// The namespace of the current task.
    pub fn current() -> Self {
        // SAFETY: The current task has one.
        Self(unsafe { bindings::current_net() })
    }

    /// The address.
    pub(crate) fn as_raw(self) -> *mut bindings::net {
        self.0.cast_mut()
    }
}

/// Whether devices are visible in all namespaces (module parameter `netns_mode`), or only in their
/// own.
#[inline]
pub fn is_shared_mode() -> bool {
    // SAFETY: A byte that is read as a whole.
    unsafe { (&raw const bindings::ib_devices_shared_netns).read_volatile() }
}

/// Changes the mode. The caller holds the table of namespaces for writing.
#[inline]
pub fn set_shared_mode(_nets: &crate::registry::NetsMut<'_>, shared: bool) {
    // SAFETY: A byte that is written as a whole, by one thread at a time.
    unsafe { (&raw mut bindings::ib_devices_shared_netns).write_volatile(shared) }
}

/// A counted reference on a namespace.
///
/// # Invariants
///
/// One reference belongs to this object.
pub struct NetRef(NonNull<bindings::net>);

impl NetRef {
    /// Takes a reference on the namespace that an interface is in now; nothing if that namespace
    /// goes away. Any context.
    pub fn of_netdev(netdev: &NetDevice) -> Option<Self> {
        let _guard = rcu::read_lock();
        // SAFETY: The interface is valid; the guard keeps its namespace in memory.
        let net = unsafe { bindings::maybe_get_net(bindings::dev_net(netdev.as_raw()).cast()) };
        // INVARIANT: The reference was just taken.
        NonNull::new(net.cast()).map(Self)
    }

    /// The namespace that a device on top of an interface in this one is made in: this one if
    /// devices are visible in their own namespaces only (`rdma system`), else the initial one, from
    /// where it is visible everywhere. May sleep.
    pub fn home_of_devices(&self) -> Result<&Net> {
        if **self == *Net::init() {
            return Ok(Net::init());
        }
        // Which mode it is, the core only tells of a device.
        // SAFETY: A device without a driver that nobody else knows.
        unsafe {
            let probe =
                bindings::_ib_alloc_device(size_of::<bindings::ib_device>(), Net::init().as_raw());
            if probe.is_null() {
                return Err(ENOMEM);
            }
            let shared = bindings::rdma_dev_access_netns(probe, self.as_raw());
            bindings::ib_dealloc_device(probe);
            Ok(if shared { Net::init() } else { self })
        }
    }
}

impl Deref for NetRef {
    type Target = Net;

    fn deref(&self) -> &Net {
        // SAFETY: Valid by the type invariant.
        unsafe { Net::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: One reference is ours by the type invariant.
        unsafe { bindings::put_net(self.0.as_ptr()) }
    }
}

/// What the core keeps per namespace (`struct rdma_dev_net`).
#[repr(transparent)]
pub struct RdmaNet(Opaque<bindings::rdma_dev_net>);

// SAFETY: The namespace and the id are set before the object is published.
unsafe impl Sync for RdmaNet {}

impl RdmaNet {
    /// Views a C object.
    ///
    /// # Safety
    ///
    /// `raw` is the part of a namespace that lives for `'a`.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::rdma_dev_net) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*raw.cast() }
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::rdma_dev_net {
        self.0.get()
    }

    /// The namespace.
    pub fn net(&self) -> &Net {
        // SAFETY: Written by `open_socket`, before anybody else sees the object, which is part of
        // the namespace.
        unsafe { Net::from_raw(bindings::read_pnet(&raw const (*self.as_raw()).net)) }
    }

    /// Number of the namespace, which tells its compat devices apart.
    pub fn id(&self) -> u32 {
        // SAFETY: Written before the object is published.
        unsafe { (*self.as_raw()).id }
    }

    pub(crate) fn set_id(&self, id: u32) {
        // SAFETY: Called by the table of namespaces with its lock held for writing.
        unsafe { (*self.as_raw()).id = id }
    }

    /// Notes the namespace and opens its NETLINK_RDMA socket. Called once, while the namespace is
    /// being made.
    #[inline]
    pub fn open_socket(&self, net: &Net) -> Result {
        // SAFETY: Nobody else uses the object yet.
        kernel::error::to_result(unsafe {
            bindings::write_pnet(&raw mut (*self.as_raw()).net, net.as_raw());
            bindings::rdma_nl_net_init(self.as_raw())
        })
    }

    /// Closes the socket. Called once, while the namespace goes away.
    #[inline]
    pub fn close_socket(&self) {
        // SAFETY: The socket was opened.
        unsafe { bindings::rdma_nl_net_exit(self.as_raw()) }
    }
}

/// Who asks over netlink for a move between namespaces, and where to tell why not.
pub struct Requester<'a> {
    skb: &'a Opaque<bindings::sk_buff>,
    extack: Option<&'a Opaque<bindings::netlink_ext_ack>>,
}

impl Requester<'_> {
    /// Views the arguments of a netlink handler.
    ///
    /// # Safety
    ///
    /// `skb` is a received message and `extack` null or its acknowledgement, valid for the
    /// lifetime of the result.
    pub unsafe fn from_raw(
        skb: *mut bindings::sk_buff,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Self {
        // SAFETY: Promised by the caller; `Opaque` is transparent.
        unsafe {
            Self {
                skb: &*skb.cast(),
                extack: extack.cast::<Opaque<bindings::netlink_ext_ack>>().as_ref(),
            }
        }
    }

    /// Whether the sender may administer `net`.
    pub fn may_administer(&self, net: &Net) -> bool {
        // SAFETY: Both objects are valid.
        unsafe {
            bindings::netlink_ns_capable(
                self.skb.get(),
                (*net.as_raw()).user_ns,
                bindings::CAP_NET_ADMIN as c_int,
            )
        }
    }

    /// Adds a text to the answer.
    pub fn explain(&self, text: &'static CStr) {
        if let Some(extack) = self.extack {
            // SAFETY: Valid, and used by this thread only.
            unsafe { (*extack.get())._msg = text.as_char_ptr() }
        }
    }
}
