// SPDX-License-Identifier: GPL-2.0

//! Address handles (`struct ib_ah`) and address vectors (`struct rdma_ah_attr`).

use crate::{
    device::Device,
    gfp::Gfp,
    gid::{Gid, GidAttr},
    net::netdev::Mac,
    object::{c_object, driver_op, DriverObject},
    pd::Pd,
    udata::Udata,
    usecnt::UseCount,
};
use core::ptr::{self, NonNull};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::aref::ARef,
};

c_object! {
    /// An address handle: where datagrams of a queue pair go.
    pub struct Ah(ib_ah);
}

// SAFETY: Transparent over `ib_ah`, which is plain data.
unsafe impl DriverObject for Ah {
    type Raw = bindings::ib_ah;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_ah
    }
}

/// Takes over a reference that is stored in a C structure; `None` for a null pointer.
///
/// # Safety
///
/// `ptr` must be null, or an entry of which the caller gives up one reference.
pub(crate) unsafe fn owned(ptr: *const bindings::ib_gid_attr) -> Option<ARef<GidAttr>> {
    // SAFETY: By the contract of this function.
    NonNull::new(ptr.cast_mut()).map(|ptr| unsafe { GidAttr::from_raw_owned(ptr) })
}

/// Asks the neighbour tables for the Ethernet address of the next hop from `sgid` to `dgid`, and
/// for the hop limit of the route. May sleep, up to about a second.
#[inline]
pub fn resolve_next_hop(sgid: &GidAttr, dgid: &Gid) -> Result<(Mac, u8)> {
    let mut mac = [0; 6];
    let mut hops = 0;
    // SAFETY: The entry is referenced; the other pointers are to values of the right size.
    to_result(unsafe {
        bindings::rdma_addr_find_l2_eth_by_grh(
            sgid.gid().as_raw(),
            dgid.as_raw(),
            mac.as_mut_ptr(),
            sgid.as_raw(),
            &mut hops,
        )
    })?;
    // A hop limit has eight bits in both IP versions.
    Ok((mac, hops as u8))
}

/// Whether a call on an address handle may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sleepable(bool);

impl Sleepable {
    /// It may.
    pub const YES: Self = Self(true);

    /// From `RDMA_CREATE_AH_SLEEPABLE` or its namesake for the destruction.
    pub fn from_flags(flags: u32) -> Self {
        Self(flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0)
    }

    /// How memory may be allocated.
    pub fn gfp(self) -> Gfp {
        if self.0 {
            Gfp::KERNEL
        } else {
            Gfp::ATOMIC
        }
    }

    /// Debug check: complains if the call may sleep and the caller must not.
    pub fn check_context(self) {
        if self.0 {
            kernel::task::might_sleep();
        }
    }
}

/// Family of an address vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AhType {
    /// Not an address of a kind that the core knows.
    Undefined,
    /// InfiniBand.
    Ib,
    /// RoCE.
    Roce,
    /// Omni-Path.
    Opa,
}

impl AhType {
    fn from_raw(raw: bindings::rdma_ah_attr_type) -> Self {
        match raw {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => Self::Ib,
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE => Self::Roce,
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => Self::Opa,
            _ => Self::Undefined,
        }
    }

    fn as_raw(self) -> bindings::rdma_ah_attr_type {
        match self {
            Self::Undefined => bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_UNDEFINED,
            Self::Ib => bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB,
            Self::Roce => bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE,
            Self::Opa => bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA,
        }
    }

    /// The family that a port needs.
    pub fn of_port(device: &Device, port: u32) -> Self {
        let caps = device.port_caps(port);
        if caps.protocol_roce() {
            return Self::Roce;
        }
        if caps.protocol_ib() {
            return if caps.opa_ah() { Self::Opa } else { Self::Ib };
        }
        // SAFETY: Written before registration.
        let kind = unsafe { (*device.as_raw()).type_ };
        if kind == bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI {
            Self::Ib
        } else {
            Self::Undefined
        }
    }
}

/// A global route to be written to an address vector.
pub struct Route {
    /// Destination; `None` keeps the one that is there.
    pub dgid: Option<Gid>,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// An address vector.
///
/// # Invariants
///
/// If there is a source GID, one reference to it belongs to the vector.
#[repr(transparent)]
pub struct AhAttr(bindings::rdma_ah_attr);

// SAFETY: The source GID is counted and may be released by any task; the rest is plain data.
unsafe impl Send for AhAttr {}

// SAFETY: Shared access only reads.
unsafe impl Sync for AhAttr {}

impl AhAttr {
    /// Views a vector of C.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use the vector meanwhile, and its source
    /// GID must be null or a reference that belongs to it.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_ah_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        // INVARIANT: As above.
        unsafe { &mut *ptr.cast() }
    }

    /// Views a vector of C for reading.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`], but the vector may have other readers.
    pub unsafe fn from_raw_const<'a>(ptr: *const bindings::rdma_ah_attr) -> &'a Self {
        // SAFETY: By the contract of this function; the type is transparent.
        // INVARIANT: As above.
        unsafe { &*ptr.cast() }
    }

    /// Writes an empty vector over whatever memory lies there.
    ///
    /// # Safety
    ///
    /// `ptr` must be writable for `'a`, and nobody else may use it meanwhile.
    pub unsafe fn init_raw<'a>(ptr: *mut bindings::rdma_ah_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; zeroes are a valid vector.
        unsafe {
            ptr::write_bytes(ptr, 0, 1);
            // INVARIANT: There is no source GID.
            Self::from_raw(ptr)
        }
    }

    /// Views memory that is about to receive a vector: it has no source GID, whatever lies there.
    ///
    /// # Safety
    ///
    /// `ptr` must be writable for `'a`, and nobody else may use it meanwhile.
    pub unsafe fn from_raw_output<'a>(ptr: *mut bindings::rdma_ah_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; every byte pattern is a valid vector but for
        // the reference, which is cleared.
        unsafe {
            (&raw mut (*ptr).grh.sgid_attr).write(ptr::null());
            Self::from_raw(ptr)
        }
    }

    /// An empty vector.
    pub fn new() -> Self {
        // INVARIANT: There is no source GID.
        Self(pin_init::zeroed())
    }

    /// A copy with its own reference to the source GID.
    pub fn duplicate(&self) -> Self {
        let copy = Self(self.0);
        if let Some(sgid) = self.sgid() {
            // INVARIANT: The copy's reference.
            let _ = GidAttr::into_raw(sgid.into());
        }
        copy
    }

    /// Moves the content out; the source GID stays behind as "none".
    pub fn take(&mut self) -> Self {
        let moved = Self(self.0);
        // INVARIANT: The reference went to the other vector.
        self.0.grh.sgid_attr = ptr::null();
        moved
    }

    /// Overwrites memory without looking at what is there.
    ///
    /// # Safety
    ///
    /// `ptr` must be writable.
    pub unsafe fn write_to(self, ptr: *mut bindings::rdma_ah_attr) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the contract of this function.
        unsafe { ptr.write(this.0) };
    }

    /// Family.
    pub fn kind(&self) -> AhType {
        AhType::from_raw(self.0.type_)
    }

    /// Sets the family.
    pub fn set_kind(&mut self, kind: AhType) {
        self.0.type_ = kind.as_raw();
    }

    /// Port.
    pub fn port(&self) -> u32 {
        self.0.port_num
    }

    /// Sets the port.
    pub fn set_port(&mut self, port: u32) {
        self.0.port_num = port;
    }

    /// Service level.
    pub fn service_level(&self) -> u8 {
        self.0.sl
    }

    /// Limit of the rate, `IB_RATE_*`.
    pub fn static_rate(&self) -> u8 {
        self.0.static_rate
    }

    /// Traffic class of the global route.
    pub fn traffic_class(&self) -> u8 {
        self.0.grh.traffic_class
    }

    /// Hop limit of the global route.
    pub fn hop_limit(&self) -> u8 {
        self.0.grh.hop_limit
    }

    /// Destination LID, of a vector that has one; 0 otherwise.
    pub fn dlid(&self) -> u32 {
        // SAFETY: The family says which view of the union is valid.
        unsafe {
            match self.kind() {
                AhType::Ib => self.0.__bindgen_anon_1.ib.dlid.into(),
                AhType::Opa => self.0.__bindgen_anon_1.opa.dlid,
                AhType::Roce | AhType::Undefined => 0,
            }
        }
    }

    /// Low bits of the source LID, of a vector that has them.
    pub fn path_bits(&self) -> u8 {
        // SAFETY: As above.
        unsafe {
            match self.kind() {
                AhType::Ib => self.0.__bindgen_anon_1.ib.src_path_bits,
                AhType::Opa => self.0.__bindgen_anon_1.opa.src_path_bits,
                AhType::Roce | AhType::Undefined => 0,
            }
        }
    }

    /// Copies everything but the source GID, for a query: the reader gets no reference.
    pub fn copy_from(&mut self, other: &Self) {
        let sgid = self.0.grh.sgid_attr;
        self.0 = other.0;
        // INVARIANT: As before.
        self.0.grh.sgid_attr = sgid;
    }

    /// Sets the service level.
    pub fn set_service_level(&mut self, sl: u8) {
        self.0.sl = sl;
    }

    /// Sets the static rate.
    pub fn set_static_rate(&mut self, rate: u8) {
        self.0.static_rate = rate;
    }

    /// Destination LID and path bits, zeroes for a vector that has none.
    pub fn lid(&self) -> (u32, u8) {
        // SAFETY: The family says which view of the union is valid.
        unsafe {
            let address = &self.0.__bindgen_anon_1;
            match self.kind() {
                AhType::Ib => (address.ib.dlid.into(), address.ib.src_path_bits),
                AhType::Opa => (address.opa.dlid, address.opa.src_path_bits),
                AhType::Roce | AhType::Undefined => (0, 0),
            }
        }
    }

    /// Flags and route of the C structure, the pointer to the source GID included: that is a
    /// copy, the reference stays here.
    pub fn raw_route(&self) -> (u8, bindings::ib_global_route) {
        (self.0.ah_flags, self.0.grh)
    }

    /// Writes flags and route of a vector without a source GID; that of `grh` is not taken over.
    pub fn set_raw_route(&mut self, flags: u8, grh: bindings::ib_global_route) {
        self.0.ah_flags = flags;
        // INVARIANT: The source GID is the one that was here.
        self.0.grh = bindings::ib_global_route {
            sgid_attr: self.0.grh.sgid_attr,
            ..grh
        };
    }

    /// Has a global route made of the destination LID, of an Omni-Path vector.
    pub fn set_make_grd(&mut self) {
        if self.kind() == AhType::Opa {
            self.0.__bindgen_anon_1.opa.make_grd = true;
        }
    }

    /// Whether the destination LID is one that packets to a single port can have; true for vectors
    /// without one.
    pub fn has_unicast_lid(&mut self) -> bool {
        // SAFETY: The vector is valid, and only read.
        unsafe { bindings::rdma_is_valid_unicast_lid(&mut self.0) }
    }

    /// Sets a destination without a source GID: `dgid`, which the driver reaches by its LID.
    pub fn set_well_known_route(&mut self, dgid: Gid) {
        self.0.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        self.0.grh.dgid = bindings::ib_gid {
            raw: *dgid.as_bytes(),
        };
    }

    /// Whether there is a global route.
    pub fn has_grh(&self) -> bool {
        u32::from(self.0.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0
    }

    /// Destination GID.
    pub fn dgid(&self) -> Gid {
        // SAFETY: Every view of the union is bytes.
        Gid::from_bytes(unsafe { self.0.grh.dgid.raw })
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.0.grh.flow_label
    }

    /// The Ethernet address of the next hop, of a RoCE vector.
    pub fn dmac(&self) -> Option<Mac> {
        if self.kind() != AhType::Roce {
            return None;
        }
        // SAFETY: The kind says that this is the view of the union that was filled in.
        Some(unsafe { self.0.__bindgen_anon_1.roce.dmac })
    }

    /// Index of the source GID.
    pub fn sgid_index(&self) -> u8 {
        self.0.grh.sgid_index
    }

    /// The source GID, if the vector has a reference.
    pub fn sgid(&self) -> Option<&GidAttr> {
        let ptr = self.0.grh.sgid_attr;
        // SAFETY: By the type invariant a reference exists as long as the pointer is here.
        (!ptr.is_null()).then(|| unsafe { GidAttr::from_raw(ptr) })
    }

    /// Gives the vector a source GID; returns the earlier one.
    pub fn replace_sgid(&mut self, sgid: Option<ARef<GidAttr>>) -> Option<ARef<GidAttr>> {
        let new = sgid.map_or(ptr::null(), GidAttr::into_raw);
        let old = core::mem::replace(&mut self.0.grh.sgid_attr, new);
        // INVARIANT: The new reference was handed over.
        // SAFETY: By the type invariant the old reference was ours.
        unsafe { owned(old) }
    }

    /// Writes a global route that starts at `sgid`. An earlier source GID is forgotten without
    /// being put: the vector is taken to be without one.
    pub fn set_route(&mut self, route: &Route, sgid: ARef<GidAttr>) {
        self.0.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        let dgid = route.dgid.unwrap_or_else(|| self.dgid());
        self.0.grh = bindings::ib_global_route {
            dgid: bindings::ib_gid {
                raw: *dgid.as_bytes(),
            },
            flow_label: route.flow_label,
            // The vector has eight bits for the index.
            sgid_index: sgid.index() as u8,
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
            // INVARIANT: The reference is handed over.
            sgid_attr: GidAttr::into_raw(sgid),
        };
    }

    /// Sets the hop limit of the route.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.0.grh.hop_limit = hops;
    }

    /// Sets the Ethernet address of the next hop, of a RoCE vector.
    pub fn set_dmac(&mut self, mac: Mac) {
        self.0.__bindgen_anon_1.roce.dmac = mac;
    }

    /// Sets the destination LID and the path bits, of a vector that has them.
    pub fn set_lid(&mut self, dlid: u32, path_bits: u8) {
        match self.kind() {
            AhType::Ib => {
                self.0.__bindgen_anon_1.ib = bindings::ib_ah_attr {
                    // InfiniBand LIDs have 16 bits.
                    dlid: dlid as u16,
                    src_path_bits: path_bits,
                }
            }
            AhType::Opa => {
                // SAFETY: The family says which view of the union is valid.
                let opa = unsafe { &mut self.0.__bindgen_anon_1.opa };
                opa.dlid = dlid;
                opa.src_path_bits = path_bits;
            }
            AhType::Roce | AhType::Undefined => (),
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut bindings::rdma_ah_attr {
        &mut self.0
    }
}

impl Default for AhAttr {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for AhAttr {
    fn drop(&mut self) {
        drop(self.replace_sgid(None));
    }
}

/// The bonding slave that packets of an address leave by, if a bond decides that.
pub struct XmitSlave(*mut bindings::net_device);

impl XmitSlave {
    /// No slave in particular.
    pub const NONE: Self = Self(ptr::null_mut());

    /// Asks the bonding driver. `attr` must have a source GID if it is a RoCE vector.
    #[inline]
    pub fn select(device: &Device, attr: &mut AhAttr, gfp: Gfp) -> Result<Self> {
        if attr.kind() != AhType::Roce || attr.sgid().is_none() {
            return Ok(Self::NONE);
        }
        // SAFETY: Device and vector are valid, the vector has a source GID.
        let slave = unsafe {
            bindings::rdma_lag_get_ah_roce_slave(device.as_raw(), attr.as_mut_ptr(), gfp.as_raw())
        };
        Ok(Self(from_err_ptr(slave)?))
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0
    }
}

impl Drop for XmitSlave {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Null or a held interface, from `select`.
        unsafe { bindings::rdma_lag_put_ah_roce_slave(self.0) };
    }
}

impl Ah {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Use count of the protection domain, which outlives the handle.
    pub fn pd_uses<'a>(&self) -> &'a UseCount {
        // SAFETY: The domain is live, as this handle keeps it in use until its destroyer gives
        // that use back.
        unsafe { UseCount::from_raw(&raw mut (*(*self.as_raw()).pd).usecnt) }
    }

    /// Family of the address.
    pub fn kind(&self) -> AhType {
        // SAFETY: Set at creation.
        AhType::from_raw(unsafe { (*self.as_raw()).type_ })
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, pd: &Pd, attr: &AhAttr) {
        let ah = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*ah).device = pd.device().as_raw();
            (*ah).pd = pd.as_raw();
            (*ah).type_ = attr.0.type_;
        }
    }

    /// Gives the handle a source GID; returns the earlier one. For creator, destroyer, and the
    /// consumer that modifies the handle.
    pub fn replace_sgid(&self, sgid: Option<ARef<GidAttr>>) -> Option<ARef<GidAttr>> {
        let new = sgid.map_or(ptr::null(), GidAttr::into_raw);
        // SAFETY: The caller has the handle for itself, as C demands of these calls; a pointer
        // that is there owns a reference.
        unsafe {
            let slot = &raw mut (*self.as_raw()).sgid_attr;
            owned(slot.replace(new))
        }
    }

    /// Asks the driver to set up its part.
    pub fn driver_create(
        &self,
        attr: &mut AhAttr,
        sleepable: Sleepable,
        slave: &XmitSlave,
        udata: Option<&Udata>,
    ) -> Result {
        let mut init = bindings::rdma_ah_init_attr {
            ah_attr: attr.as_mut_ptr(),
            flags: u32::from(sleepable.0) * bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
            xmit_slave: slave.as_raw(),
        };
        let device = self.device();
        let ret = match udata {
            Some(udata) => {
                driver_op!(
                    device,
                    create_user_ah(self.as_raw(), &mut init, udata.as_raw())
                )
            }
            None => driver_op!(device, create_ah(self.as_raw(), &mut init, ptr::null_mut())),
        };
        to_result(ret?)
    }

    /// Asks the driver to send elsewhere.
    pub fn driver_modify(&self, attr: &mut AhAttr) -> Result {
        to_result(driver_op!(
            self.device(),
            modify_ah(self.as_raw(), attr.as_mut_ptr())
        )?)
    }

    /// Asks the driver for the address.
    pub fn driver_query(&self, attr: &mut AhAttr) -> Result {
        to_result(driver_op!(
            self.device(),
            query_ah(self.as_raw(), attr.as_mut_ptr())
        )?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_destroy(&self, sleepable: Sleepable) -> Result {
        let flags =
            u32::from(sleepable.0) * bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE;
        to_result(driver_op!(self.device(), destroy_ah(self.as_raw(), flags))?)
    }
}
