// SPDX-License-Identifier: GPL-2.0

//! Operations of a device as a whole.

use super::{
    AhOps, CqOps, Device, DeviceAttr, DeviceChange, MadOutcome, MadReply, MadRequest, MrOps, MwOps,
    PdOps, PortAttr, PortChange, PortImmutable, PortStats, QpOps, Registration, SrqOps, StatValues,
    UcontextOps, Udata, XrcdOps,
};
use crate::{
    gid::{Gid, GidAttr},
    net::NetDevice,
    port::{LinkLayer, Pkey},
};
use core::ptr;
use kernel::{
    bindings,
    error::from_result,
    ffi::{c_char, c_int, c_void},
    prelude::*,
    sync::aref::ARef,
    ThisModule,
};

/// Kinds of sub-devices that an administrator may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubDeviceKind {
    /// Subnet management of a device.
    Smi,
}

/// A driver: the type whose values lie behind its devices.
///
/// Implementations carry `#[vtable]`. The value is pinned; it is dropped when the device is
/// unregistered, after all objects and clients are gone.
#[vtable]
pub trait Driver: Sized + Send + Sync + 'static {
    /// The module; `#[vtable]` fills it in as the `LocalModule` of the crate.
    type OwnerModule: kernel::ModuleMetadata;

    /// Which driver it is for user space and for lookups by network device (`RDMA_DRIVER_*`).
    const ID: bindings::rdma_driver_id;
    /// Version of the interface between the driver and its library in user space.
    const ABI_VERSION: u32;
    /// Whether the library in user space is found by the name of the device, not by [`Self::ID`].
    const BIND_BY_NAME: bool = false;
    /// The counters of its ports, if [`Self::read_port_stats`] is implemented.
    const PORT_STATS: PortStats = PortStats {
        names: &[],
        lifespan: 0,
    };

    /// Contexts, or [`Absent`](super::Absent).
    type Ucontext: UcontextOps<Self>;
    /// Protection domains.
    type Pd: PdOps<Self>;
    /// Address handles.
    type Ah: AhOps<Self>;
    /// Completion queues.
    type Cq: CqOps<Self>;
    /// Queue pairs.
    type Qp: QpOps<Self>;
    /// Shared receive queues, or [`Absent`](super::Absent).
    type Srq: SrqOps<Self>;
    /// Memory regions.
    type Mr: MrOps<Self>;
    /// Memory windows, or [`Absent`](super::Absent).
    type Mw: MwOps<Self>;
    /// XRC domains, or [`Absent`](super::Absent).
    type Xrcd: XrcdOps<Self>;

    /// Tells limits and capabilities: fills in the zeroed attributes. May sleep.
    fn query_device(device: &Device<Self>, attr: &mut DeviceAttr, udata: Udata<'_>) -> Result;

    /// Tells about a port. May sleep.
    fn query_port(device: &Device<Self>, port: u32) -> Result<PortAttr>;

    /// Tells what never changes about a port. Called during registration only. May sleep.
    fn port_immutable(device: &Device<Self>, port: u32) -> Result<PortImmutable>;

    /// The link layer of a port. A driver without this has those that its node type tells. Any
    /// context.
    fn link_layer(_device: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Unspecified
    }

    /// A GID of a port that is not RoCE. `EINVAL` for a bad index. May sleep.
    fn query_gid(_device: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        Err(EOPNOTSUPP)
    }

    /// The core has given a RoCE port a GID, in the slot that the entry tells. If this fails, the
    /// slot stays empty. May sleep. Implemented together with [`Self::del_gid`].
    fn add_gid(_device: &Device<Self>, _gid: &GidAttr) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The core takes a GID from a RoCE port; nobody uses it any more. May sleep.
    fn del_gid(_device: &Device<Self>, _gid: &GidAttr) -> Result {
        Err(EOPNOTSUPP)
    }

    /// A partition key of a port. `EINVAL` for a bad index. May sleep.
    fn query_pkey(_device: &Device<Self>, _port: u32, _index: u16) -> Result<Pkey> {
        Err(EOPNOTSUPP)
    }

    /// Changes the device for an administrator. The description of the node is copied by
    /// [`Device::set_node_desc`]. May sleep.
    fn modify_device(_device: &Device<Self>, _change: &DeviceChange) -> Result {
        Err(EOPNOTSUPP)
    }

    /// Changes a port. May sleep.
    fn modify_port(_device: &Device<Self>, _port: u32, _change: &PortChange) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The version of the firmware, as text without a terminator; what does not fit is cut off.
    /// Any context.
    fn firmware_version(_device: &Device<Self>, _buf: &mut [u8; 31]) -> usize {
        0
    }

    /// The device is registered; its clients come next. If this fails, so does the registration.
    /// May sleep.
    fn enable(_device: &Device<Self>) -> Result {
        Ok(())
    }

    /// Answers a management datagram. May sleep.
    fn process_mad(
        _device: &Device<Self>,
        _request: &MadRequest<'_>,
        _reply: &mut MadReply<'_>,
    ) -> MadOutcome {
        MadOutcome::Passed
    }

    /// Reads all counters of a port. Called under the lock of the values. May sleep.
    fn read_port_stats(_device: &Device<Self>, _port: u32, _values: &mut StatValues<'_>) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The network device of a port. A driver without this has those that it has told the core by
    /// [`Device::set_netdev`]. Any context.
    fn netdev(_device: &Device<Self>, _port: u32) -> Option<ARef<NetDevice>> {
        None
    }

    /// An administrator deletes the device: takes down what is below it. If this fails, the device
    /// stays, as it was. One call at a time, for all drivers. May sleep.
    fn delete_link(_device: &Device<Self>) -> Result {
        Ok(())
    }

    /// Makes a sub-device of a name, for an administrator: makes and registers it. Implemented
    /// together with [`Self::del_sub_device`], which gets it back. May sleep.
    fn add_sub_device(
        _parent: &Device<Self>,
        _kind: SubDeviceKind,
        _name: &CStr,
    ) -> Result<Registration<Self>> {
        Err(EOPNOTSUPP)
    }

    /// Takes back a sub-device; dropping it unregisters it. May sleep.
    fn del_sub_device(sub_device: Registration<Self>) {
        drop(sub_device)
    }
}

/// The module of a driver.
pub(super) const fn module<D: Driver>() -> &'static ThisModule {
    kernel::module::this_module::<D::OwnerModule>()
}

/// # Safety
///
/// Called by the core for the driver's device, with room for attributes.
pub(super) unsafe extern "C" fn query_device<D: Driver>(
    device: *mut bindings::ib_device,
    attr: *mut bindings::ib_device_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of the operation; attributes are plain numbers.
    from_result(|| unsafe {
        attr.write(pin_init::zeroed());
        D::query_device(Device::from_raw(device), &mut *attr, Udata::from_raw(udata))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device, with room for attributes, which are zeroed.
pub(super) unsafe extern "C" fn query_port<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
    attr: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::query_port(Device::from_raw(device), port)?.write(&mut *attr);
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device, with room for the answer.
pub(super) unsafe extern "C" fn get_port_immutable<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
    immutable: *mut bindings::ib_port_immutable,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::port_immutable(Device::from_raw(device), port)?.write(&mut *immutable);
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn get_link_layer<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
) -> bindings::rdma_link_layer {
    // SAFETY: By the contract of the operation.
    match D::link_layer(unsafe { Device::from_raw(device) }, port) {
        LinkLayer::Unspecified => bindings::rdma_link_layer_IB_LINK_LAYER_UNSPECIFIED,
        LinkLayer::InfiniBand => bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND,
        LinkLayer::Ethernet => bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET,
    }
}

/// # Safety
///
/// Called by the core for the driver's device, with room for a GID.
pub(super) unsafe extern "C" fn query_gid<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
    index: c_int,
    gid: *mut bindings::ib_gid,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let index = u32::try_from(index).map_err(|_| EINVAL)?;
        let found = D::query_gid(Device::from_raw(device), port, index)?;
        gid.write(bindings::ib_gid {
            raw: *found.as_bytes(),
        });
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with an entry of a table of the driver's device.
pub(super) unsafe extern "C" fn add_gid<D: Driver>(
    attr: *const bindings::ib_gid_attr,
    _context: *mut *mut c_void,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::add_gid(Device::from_raw((*attr).device), GidAttr::from_raw(attr))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core with an entry of a table of the driver's device.
pub(super) unsafe extern "C" fn del_gid<D: Driver>(
    attr: *const bindings::ib_gid_attr,
    _context: *mut *mut c_void,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::del_gid(Device::from_raw((*attr).device), GidAttr::from_raw(attr))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device, with room for a key.
pub(super) unsafe extern "C" fn query_pkey<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        *pkey = D::query_pkey(Device::from_raw(device), port, index)?.0;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn modify_device<D: Driver>(
    device: *mut bindings::ib_device,
    mask: c_int,
    modify: *mut bindings::ib_device_modify,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let change = DeviceChange::from_raw(mask, modify);
        D::modify_device(Device::from_raw(device), &change)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn modify_port<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
    mask: c_int,
    modify: *mut bindings::ib_port_modify,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        let change = PortChange::from_raw(mask, modify);
        D::modify_port(Device::from_raw(device), port, &change)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device, with room for `IB_FW_VERSION_NAME_MAX` bytes.
pub(super) unsafe extern "C" fn get_dev_fw_str<D: Driver>(
    device: *mut bindings::ib_device,
    text: *mut c_char,
) {
    let mut buf = [0u8; 31];
    // SAFETY: By the contract of the operation.
    let len = D::firmware_version(unsafe { Device::from_raw(device) }, &mut buf).min(buf.len());
    // SAFETY: By the contract of the operation, there is room for this and a terminator.
    unsafe {
        core::ptr::copy_nonoverlapping(buf.as_ptr(), text.cast(), len);
        text.cast::<u8>().add(len).write(0);
    }
}

const _: () = assert!(bindings::IB_FW_VERSION_NAME_MAX == 32);

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn enable_driver<D: Driver>(
    device: *mut bindings::ib_device,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::enable(Device::from_raw(device))?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn get_netdev<D: Driver>(
    device: *mut bindings::ib_device,
    port: u32,
) -> *mut bindings::net_device {
    // SAFETY: By the contract of the operation.
    D::netdev(unsafe { Device::from_raw(device) }, port).map_or(ptr::null_mut(), |netdev| {
        ARef::into_raw(netdev).as_ptr().cast()
    })
}

/// # Safety
///
/// Called by the core for the driver's device, which is registered.
unsafe extern "C" fn dellink<D: Driver>(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        D::delete_link(Device::from_raw(device))?;
        Ok(0)
    })
}

/// What the core calls when an administrator deletes a device of `D`. This is not the type that
/// makes devices, see [`LinkRegistration`](super::LinkRegistration).
pub(super) struct LinkOps<D: Driver>(core::marker::PhantomData<D>);

impl<D: Driver> LinkOps<D> {
    pub(super) const OPS: &'static bindings::rdma_link_ops = &bindings::rdma_link_ops {
        list: bindings::list_head {
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
        },
        type_: ptr::null(),
        newlink: None,
        dellink: Some(dellink::<D>),
    };
}

/// # Safety
///
/// Called by the core for the driver's device, with a terminated name.
pub(super) unsafe extern "C" fn add_sub_dev<D: Driver>(
    parent: *mut bindings::ib_device,
    kind: bindings::rdma_nl_dev_type,
    name: *const c_char,
) -> *mut bindings::ib_device {
    if kind != bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI {
        return EOPNOTSUPP.to_ptr();
    }
    // SAFETY: By the contract of the operation.
    let made = unsafe {
        let name = CStr::from_char_ptr(name);
        D::add_sub_device(Device::from_raw(parent), SubDeviceKind::Smi, name)
    };
    match made {
        Ok(sub_device) => sub_device.into_raw(),
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// Called by the core once with a device that [`add_sub_dev`] made.
pub(super) unsafe extern "C" fn del_sub_dev<D: Driver>(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of the operation.
    D::del_sub_device(unsafe { Registration::from_raw(device) })
}

/// # Safety
///
/// Called by the core when the device is not used any more.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of the operation; the table with this function is set after the
    // driver's part was initialised.
    unsafe { Device::<D>::drop_data(device) };
}
