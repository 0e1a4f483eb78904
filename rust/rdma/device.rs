// SPDX-License-Identifier: GPL-2.0

//! RDMA devices (`struct ib_device`).
//!
//! A device has two lifetimes, and each has its own reference type:
//!
//! * [`ARef<Device>`](ARef) counts the embedded `struct device`. It keeps the
//!   memory valid and says nothing about the registration.
//! * [`Get`] counts `ib_device.refcount`. While one exists the device stays
//!   registered: unregistration waits until the last one is dropped. It cannot be
//!   had before registration enabled the device or after unregistration began.
//!
//! A name is never borrowed, because a rename replaces it: [`Device::name`]
//! copies it under the lock that the rename holds for the replacement.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod alloc;
pub mod clients;
pub mod compat;
pub mod events;
pub mod netdev;
pub mod ops;
pub mod ports;
pub mod query;
pub mod stage;
pub mod subdev;

use crate::{
    netns::Net,
    rwlock::RwLockIrq, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    bindings,
    device,
    error::to_result,
    fmt,
    prelude::*,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// Bytes of a device name, the terminating NUL included.
pub const NAME_MAX: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// An RDMA device.
///
/// # Invariants
///
/// The pointer obtained from `as_raw` is that of a `struct ib_device` made by
/// `_ib_alloc_device`, valid as long as the reference.
#[repr(transparent)]
pub struct Device(Opaque<bindings::ib_device>);

// SAFETY: The device is reference counted and may be released from any thread.
unsafe impl Send for Device {}

// SAFETY: All methods taking `&self` may be called from several threads: they
// read what is constant after registration, or take the lock of what they read.
unsafe impl Sync for Device {}

// SAFETY: `get_device`/`put_device` count references on the embedded
// `struct device`, whose release function frees the `ib_device`.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: By the type invariant the embedded device is valid and has a
        // non-zero count as long as `self` exists.
        unsafe { bindings::get_device(self.dev_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns one count.
        unsafe { bindings::put_device(Device::from_raw(obj.as_ptr().cast()).dev_raw()) };
    }
}

impl Device {
    /// Views a C device.
    ///
    /// # Safety
    ///
    /// `ptr` must be made by `_ib_alloc_device` and stay valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: `Device` is a transparent wrapper; validity by the caller.
        unsafe { &*ptr.cast() }
    }

    /// The C device.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    /// The embedded `struct device`.
    #[inline]
    pub fn dev_raw(&self) -> *mut bindings::device {
        // SAFETY: By the type invariant the pointer is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).__bindgen_anon_1.dev }.cast()
    }

    /// The `ib_core_device` of the device's own network namespace.
    #[inline]
    pub fn coredev_raw(&self) -> *mut bindings::ib_core_device {
        // SAFETY: By the type invariant the pointer is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).__bindgen_anon_1.coredev }.cast()
    }

    /// The embedded device of the driver model, for the `dev_*!` printers.
    #[inline]
    pub fn as_dev(&self) -> &device::Device {
        // SAFETY: By the type invariant the embedded device is valid.
        unsafe { device::Device::from_raw(self.dev_raw()) }
    }

    /// Takes a registration reference, or `None` if the device is not
    /// registered (yet, or any more). Any context.
    #[inline]
    pub fn try_get(&self) -> Option<Get> {
        // SAFETY: By the type invariant the device is valid.
        if unsafe { bindings::ib_device_try_get(self.as_raw()) } {
            // SAFETY: The count just taken is handed over.
            Some(unsafe { Get::from_raw(self.as_raw()) })
        } else {
            None
        }
    }

    /// Takes a memory reference.
    #[inline]
    pub fn hold(&self) -> ARef<Device> {
        ARef::from(self)
    }

    /// Whether both are the same device.
    #[inline]
    pub fn is(&self, other: &Device) -> bool {
        ptr::eq(self, other)
    }

    /// A copy of the name: whole before or whole after a concurrent rename. Any
    /// context.
    pub fn name(&self) -> Name {
        let mut name = Name([0; NAME_MAX]);
        let guard = self.cache_lock().read();
        // SAFETY: Writers of the name hold the lock for writing; both buffers
        // are `NAME_MAX` bytes.
        unsafe {
            ptr::copy_nonoverlapping(
                (&raw const (*self.as_raw()).name).cast::<u8>(),
                name.0.as_mut_ptr(),
                NAME_MAX,
            );
        }
        drop(guard);
        if let Some(last) = name.0.last_mut() {
            *last = 0;
        }
        name
    }

    /// Protects what is cached of the device: its name and the state of its
    /// ports. Taken with interrupts off; a leaf.
    #[inline]
    pub fn cache_lock(&self) -> &RwLockIrq {
        // SAFETY: Initialised when the device was allocated, and part of it.
        unsafe { RwLockIrq::from_raw(&raw mut (*self.as_raw()).cache_lock) }
    }

    /// Index of the device: unique among named devices, at most 31 bits.
    #[inline]
    pub fn index(&self) -> u32 {
        // SAFETY: By the type invariant the device is valid; written once when
        // the device gets its name.
        unsafe { (*self.as_raw()).index }
    }

    /// Who drives the device (`RDMA_DRIVER_*`).
    #[inline]
    pub fn driver_id(&self) -> bindings::rdma_driver_id {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).ops.driver_id }
    }

    /// Kind of node (`RDMA_NODE_*`).
    #[inline]
    pub fn node_type(&self) -> u8 {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).node_type }
    }

    /// GUID of the node, big endian.
    #[inline]
    pub fn node_guid(&self) -> u64 {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).node_guid }
    }

    /// Number of completion vectors.
    #[inline]
    pub fn num_comp_vectors(&self) -> i32 {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).num_comp_vectors }
    }

    /// Local key for all memory, if the device has one.
    #[inline]
    pub fn local_dma_lkey(&self) -> u32 {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }

    /// Whether the device is a switch, which has the single port 0.
    #[inline]
    pub fn is_switch(&self) -> bool {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).is_switch() != 0 }
    }

    /// Whether the driver has all operations that kernel users need.
    #[inline]
    pub fn is_kverbs_provider(&self) -> bool {
        // SAFETY: By the type invariant the device is valid; set during registration,
        // before the device becomes visible.
        unsafe { (*self.as_raw()).kverbs_provider() != 0 }
    }

    /// Whether completion queues moderate themselves. An administrator may
    /// switch it at any time.
    #[inline]
    pub fn use_cq_dim(&self) -> bool {
        // SAFETY: By the type invariant the device is valid.
        unsafe { (*self.as_raw()).use_cq_dim() != 0 }
    }

    /// Whether addresses in scatter/gather entries are kernel addresses, because
    /// the device has no DMA device.
    #[inline]
    pub fn uses_virt_dma(&self) -> bool {
        self.dma_device_raw().is_null()
    }

    /// The device that does the DMA, null for a software device.
    #[inline]
    pub fn dma_device_raw(&self) -> *mut bindings::device {
        // SAFETY: By the type invariant the device is valid; set during registration.
        unsafe { (*self.as_raw()).dma_device }
    }

    /// Whether flows may be put on slaves of a bond that are not active.
    #[inline]
    pub fn hashes_all_slaves(&self) -> bool {
        // SAFETY: By the type invariant the device is valid; set before registration.
        let flags = unsafe { (*self.as_raw()).lag_flags };
        flags & bindings::rdma_lag_flags_RDMA_LAG_FLAGS_HASH_ALL_SLAVES != 0
    }

    /// A copy of the description of the node, which an administrator may change meanwhile.
    pub fn node_desc(&self) -> NodeDesc {
        let mut desc = NodeDesc([0; NODE_DESC_MAX]);
        // SAFETY: By the type invariant the device is valid; both buffers have this size.
        unsafe {
            ptr::copy_nonoverlapping(
                (&raw const (*self.as_raw()).node_desc).cast::<u8>(),
                desc.0.as_mut_ptr(),
                NODE_DESC_MAX,
            );
        }
        desc
    }

    /// Has the driver change the description of the node; what does not fit is cut off. May sleep.
    ///
    /// `EOPNOTSUPP` if it cannot.
    pub fn modify_node_desc(&self, desc: &[u8]) -> Result {
        if self.ops().modify_device.is_none() {
            return Err(EOPNOTSUPP);
        }

        let mut modify: bindings::ib_device_modify = pin_init::zeroed();
        for (to, from) in modify.node_desc.iter_mut().zip(desc) {
            *to = *from;
        }
        // SAFETY: By the type invariant the device is valid; the mask says what is set.
        to_result(unsafe {
            bindings::ib_modify_device(
                self.as_raw(),
                bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC as c_int,
                &mut modify,
            )
        })
    }

    /// The version of the firmware, empty if the driver does not say.
    pub fn fw_version(&self) -> FwVersion {
        let mut version = FwVersion([0; FW_VERSION_MAX]);
        self.read_fw_version(&mut version.0);
        version
    }

    /// Attributes that the driver reported at registration.
    #[inline]
    pub fn attrs(&self) -> &bindings::ib_device_attr {
        // SAFETY: By the type invariant the device is valid; the attributes are
        // written during registration only, before the device becomes visible.
        unsafe { &(*self.as_raw()).attrs }
    }

    /// The driver's operations.
    #[inline]
    pub fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: By the type invariant the device is valid; drivers set their
        // operations before registration. `dealloc_driver`, which the core
        // replaces while it unwinds a failed registration, is not read
        // through this reference.
        unsafe { &(*self.as_raw()).ops }
    }

    /// First port number.
    #[inline]
    pub fn start_port(&self) -> u32 {
        u32::from(!self.is_switch())
    }

    /// Last port number.
    #[inline]
    pub fn end_port(&self) -> u32 {
        if self.is_switch() {
            0
        } else {
            self.phys_port_cnt()
        }
    }

    /// Number of physical ports.
    #[inline]
    pub fn phys_port_cnt(&self) -> u32 {
        // SAFETY: By the type invariant the device is valid; set before registration.
        unsafe { (*self.as_raw()).phys_port_cnt }
    }

    /// All port numbers: 1 to the number of ports, or 0 on a switch.
    #[inline]
    pub fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.start_port()..=self.end_port()
    }

    /// Whether the device has the port.
    #[inline]
    pub fn has_port(&self, port: u32) -> bool {
        self.ports().contains(&port)
    }

    /// The core's data of a port; null if the device has not the port or no
    /// port data (before setup).
    #[inline]
    pub fn port_data_raw(&self, port: u32) -> *mut bindings::ib_port_data {
        if !self.has_port(port) {
            return ptr::null_mut();
        }
        // SAFETY: By the type invariant the device is valid; the array is
        // published once, fully initialised, and freed with the device.
        let data = unsafe { ptr::read_volatile(&raw const (*self.as_raw()).port_data) };
        if data.is_null() {
            return data;
        }
        // SAFETY: The array has an element for each port number up to the last.
        unsafe { data.add(port as usize) }
    }

    /// What never changes about a port, or `None` without that port.
    #[inline]
    pub fn immutable(&self, port: u32) -> Option<&bindings::ib_port_immutable> {
        let data = self.port_data_raw(port);
        if data.is_null() {
            return None;
        }
        // SAFETY: The port data live as long as the device; `immutable` is
        // written during setup only.
        Some(unsafe { &(*data).immutable })
    }

    /// Capabilities of a port (`RDMA_CORE_CAP_*`); none for a port that the
    /// device has not.
    #[inline]
    pub fn port_caps(&self, port: u32) -> PortCaps {
        PortCaps(self.immutable(port).map_or(0, |imm| imm.core_cap_flags))
    }

    /// Link layer of a port.
    #[inline]
    pub fn link_layer(&self, port: u32) -> bindings::rdma_link_layer {
        // SAFETY: By the type invariant the device is valid; the operation, if
        // any, takes every port of the device.
        unsafe { bindings::rdma_port_get_link_layer(self.as_raw(), port) }
    }

    /// Looks at the network namespace that owns the device. The caller has a registration
    /// reference, or something else that keeps the device from moving.
    pub fn with_net<R>(&self, look: impl FnOnce(&Net) -> R) -> R {
        // SAFETY: A namespace does not go before its devices have left it.
        look(unsafe { Net::from_raw(self.net_raw()) })
    }

    /// The network namespace that owns the device. May change in exclusive mode.
    #[inline]
    pub fn net_raw(&self) -> *mut bindings::net {
        // SAFETY: By the type invariant the device is valid.
        unsafe { bindings::rdma_dev_net(self.as_raw()) }
    }
}

/// Bytes of the description of a node, which need not be terminated.
const NODE_DESC_MAX: usize = bindings::IB_DEVICE_NODE_DESC_MAX as usize;

/// The description of a node.
pub struct NodeDesc([u8; NODE_DESC_MAX]);

impl NodeDesc {
    /// The bytes, up to the first that is zero.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&self.0)
    }
}

/// Bytes of the version of the firmware, the terminator included.
const FW_VERSION_MAX: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// The version of the firmware of a device.
pub struct FwVersion([u8; FW_VERSION_MAX]);

impl FwVersion {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&self.0)
    }
}

/// What a port can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PortCaps(u32);

macro_rules! port_caps {
    ($($(#[$doc:meta])* $name:ident = $($flag:ident)|+;)*) => {
        impl PortCaps {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name(self) -> bool {
                    self.0 & ($(bindings::$flag)|+) != 0
                }
            )*
        }
    };
}

port_caps! {
    /// InfiniBand link (also OPA).
    protocol_ib = RDMA_CORE_CAP_PROT_IB;
    /// RoCE of any version.
    protocol_roce = RDMA_CORE_CAP_PROT_ROCE | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
    /// RoCE v2: encapsulated in UDP.
    protocol_roce_udp_encap = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
    /// RoCE v1: an ethertype of its own.
    protocol_roce_eth_encap = RDMA_CORE_CAP_PROT_ROCE;
    /// iWARP.
    protocol_iwarp = RDMA_CORE_CAP_PROT_IWARP;
    /// Raw packets only.
    protocol_raw_packet = RDMA_CORE_CAP_PROT_RAW_PACKET;
    /// usNIC.
    protocol_usnic = RDMA_CORE_CAP_PROT_USNIC;
    /// Management datagrams.
    ib_mad = RDMA_CORE_CAP_IB_MAD;
    /// Subnet management interface (QP0).
    ib_smi = RDMA_CORE_CAP_IB_SMI;
    /// InfiniBand connection manager (QP1).
    ib_cm = RDMA_CORE_CAP_IB_CM;
    /// iWARP connection manager.
    iw_cm = RDMA_CORE_CAP_IW_CM;
    /// Subnet administration.
    ib_sa = RDMA_CORE_CAP_IB_SA;
    /// OPA management datagrams.
    opa_mad = RDMA_CORE_CAP_OPA_MAD;
    /// InfiniBand addressing.
    af_ib = RDMA_CORE_CAP_AF_IB;
    /// Ethernet address handles.
    eth_ah = RDMA_CORE_CAP_ETH_AH;
    /// OPA address handles.
    opa_ah = RDMA_CORE_CAP_OPA_AH;
    /// Every packet needs a global route header.
    grh_required = RDMA_CORE_CAP_IB_GRH_REQUIRED | RDMA_CORE_CAP_PROT_ROCE
        | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
}

impl PortCaps {
    /// The raw `RDMA_CORE_CAP_*` bits.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// A registration reference on a [`Device`].
///
/// # Invariants
///
/// One count of `ib_device.refcount` belongs to this object, so the device is
/// registered and its memory valid.
pub struct Get(NonNull<bindings::ib_device>, PhantomData<Device>);

// SAFETY: The count may be dropped on any thread.
unsafe impl Send for Get {}

// SAFETY: `&Get` gives `&Device`, which is `Sync`.
unsafe impl Sync for Get {}

impl Get {
    /// Takes over a count that the caller holds.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid device, one count of which the caller gives away.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::ib_device) -> Self {
        // SAFETY: The pointer is valid, hence not null.
        // INVARIANT: The count is the caller's.
        Self(unsafe { NonNull::new_unchecked(ptr) }, PhantomData)
    }

    /// Gives the count away, for example to C code.
    #[inline]
    pub fn into_raw(self) -> *mut bindings::ib_device {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Deref for Get {
    type Target = Device;

    #[inline]
    fn deref(&self) -> &Device {
        // SAFETY: By the type invariant the device is valid.
        unsafe { Device::from_raw(self.0.as_ptr()) }
    }
}

impl Clone for Get {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant the count is not zero, so taking one
        // more succeeds.
        unsafe { bindings::ib_device_try_get(self.0.as_ptr()) };
        // INVARIANT: The count just taken.
        Self(self.0, PhantomData)
    }
}

impl Drop for Get {
    #[inline]
    fn drop(&mut self) {
        // One count is ours by the type invariant.
        self.put();
    }
}

/// A copy of a device name.
///
/// # Invariants
///
/// The last byte is NUL.
#[derive(Clone)]
pub struct Name([u8; NAME_MAX]);

impl Name {
    /// Copies a C string; `ENAMETOOLONG` if it does not fit.
    pub fn new(name: &CStr) -> Result<Self> {
        let mut buf = [0; NAME_MAX];
        let src = name.to_bytes_with_nul();
        buf.get_mut(..src.len())
            .ok_or(ENAMETOOLONG)?
            .copy_from_slice(src);
        // INVARIANT: The source ends in NUL and the rest of the buffer is zero.
        Ok(Self(buf))
    }

    /// The name with its terminator.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }

    pub(crate) fn to_array(&self) -> [u8; NAME_MAX] {
        self.0
    }

    /// The name's bytes without terminator.
    pub fn as_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }
}

impl Deref for Name {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        self.as_c_str()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_c_str(), f)
    }
}
