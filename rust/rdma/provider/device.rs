// SPDX-License-Identifier: GPL-2.0

//! Devices of a driver, from their memory to their registration.
//!
//! | type | the device ... | dropped |
//! |---|---|---|
//! | [`NewDevice`] | has its memory and the driver's part, nobody knows it | the driver's part is dropped, the memory put |
//! | [`Registration`] | is visible, and the driver holds on to it | unregistered |
//! | [`DeviceRef`] | is visible and stays so | may be unregistered again |
//!
//! A registered device can also be left to the core ([`Registration::leave`]): then it ends by a
//! request of the administrator, by [`Device::unregister_queued`], or with its driver
//! ([`Registration::unregister_all`]). In every case the driver's part is dropped as the last step
//! of the unregistration, after clients and objects are gone.

use super::{driver, ops::OpTable, Driver};
use crate::{
    device::{self, Get, Name},
    event::{Event, PortEvent},
    net::NetDevice,
    netns::Net,
};
use core::{
    any::TypeId,
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Deref,
    pin::Pin,
    ptr::{self, NonNull},
};
use kernel::{bindings, error::to_result, prelude::*, sync::aref::ARef};

/// A device and the driver's part. Dereferences to the driver's part.
///
/// # Invariants
///
/// Behind a reference, tag and driver's part are initialised, and pinned.
#[repr(C)]
pub struct Device<D: Driver> {
    core: device::Device,
    tag: UnsafeCell<MaybeUninit<TypeId>>,
    data: UnsafeCell<MaybeUninit<D>>,
}

// SAFETY: The core's part may be used from any task, and so may the driver's.
unsafe impl<D: Driver> Send for Device<D> {}

// SAFETY: As above.
unsafe impl<D: Driver> Sync for Device<D> {}

/// Marks the devices that this framework has made in this module: they point here. Empty, so it
/// adds nothing to what user space may call.
static MARK: Mark = Mark([pin_init::zeroed()]);

#[repr(transparent)]
struct Mark([bindings::uapi_definition; 1]);

// SAFETY: Never written.
unsafe impl Sync for Mark {}

impl<D: Driver> Device<D> {
    const SIZE: usize = {
        assert!(
            align_of::<Self>() <= super::object::KMALLOC_ALIGN,
            "kmalloc does not align that much"
        );
        size_of::<Self>()
    };

    /// Views a C device.
    ///
    /// # Safety
    ///
    /// `ptr` must be a device of `D` whose driver's part is initialised, and live for `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: By the contract of this function; the C device comes first.
        // INVARIANT: As above.
        unsafe { &*ptr.cast() }
    }

    /// The C device.
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.core.as_raw()
    }

    /// The core's part.
    pub fn core(&self) -> &device::Device {
        &self.core
    }

    /// Insists that an object is one of this device. It always is, unless the driver mixes up two
    /// drivers.
    pub(super) fn check_owns(&self, device: &device::Device) {
        assert!(ptr::eq(self.as_raw(), device.as_raw()));
    }

    /// The driver's part of a registered device, if it is one of `D` at all.
    pub fn from_core(device: &Get) -> Option<&Self> {
        let this: *const Self = device.as_raw().cast();
        // SAFETY: A device with our mark was made by `NewDevice::new`, for some driver of this
        // module, and has a tag. It is registered, so its driver's part exists.
        unsafe {
            let ours = ptr::eq((*device.as_raw()).driver_def, MARK.0.as_ptr());
            let tag = (&raw const (*this).tag).cast::<TypeId>();
            (ours && tag.read() == TypeId::of::<D>()).then(|| &*this)
        }
    }

    /// A registered device of this driver on top of a network device.
    pub fn on_netdev(netdev: &NetDevice) -> Option<DeviceRef<D>> {
        // SAFETY: The network device is valid.
        let raw = unsafe { bindings::ib_device_get_by_netdev(netdev.as_raw(), D::ID) };
        if raw.is_null() {
            return None;
        }
        // SAFETY: The reference was taken for us.
        DeviceRef::new(unsafe { Get::from_raw(raw) })
    }

    /// Takes a registration reference; nothing if the device is being unregistered.
    pub fn try_get(&self) -> Option<DeviceRef<D>> {
        // SAFETY: The device is valid.
        if !unsafe { bindings::ib_device_try_get(self.as_raw()) } {
            return None;
        }
        // SAFETY: The reference was just taken.
        DeviceRef::new(unsafe { Get::from_raw(self.as_raw()) })
    }

    /// The driver's part, which does not move as long as the device exists.
    pub fn pinned(&self) -> Pin<&D> {
        // SAFETY: By the type invariant.
        unsafe { Pin::new_unchecked(&**self) }
    }

    /// Tells the core and its clients of an event of a port. Any context.
    pub fn dispatch(&self, event: PortEvent, port: u32) {
        Event::of_port(&self.core, port, event).dispatch();
    }

    /// Tells the core and its clients that the device does not work any more. Any context.
    pub fn dispatch_fatal(&self) {
        let mut event: bindings::ib_event = pin_init::zeroed();
        event.device = self.as_raw();
        event.event = bindings::ib_event_type_IB_EVENT_DEVICE_FATAL;
        event.element.port_num = self.core.start_port();
        // SAFETY: The device is valid.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Copies a description of the node; what does not fit is cut off. For
    /// [`Driver::modify_device`], and before registration.
    pub fn set_node_desc(&self, desc: &[u8]) {
        set_node_desc(self.as_raw(), desc);
    }

    /// Binds a port to a network device, or to none. May sleep.
    pub fn set_netdev(&self, port: u32, netdev: Option<&NetDevice>) -> Result {
        let netdev = netdev.map_or(ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: All are valid.
        to_result(unsafe { bindings::ib_device_set_netdev(self.as_raw(), netdev, port) })
    }

    /// Has the device unregistered soon. Any context that may sleep, also under the RTNL lock. The
    /// caller's references need not be given up for that.
    pub fn unregister_queued(&self) {
        // SAFETY: The device is valid, and its driver has a `dealloc_driver`.
        unsafe { bindings::ib_unregister_device_queued(self.as_raw()) };
    }

    /// Drops the driver's part.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`]; nobody may use the driver's part after this.
    pub(super) unsafe fn drop_data(ptr: *mut bindings::ib_device) {
        let this: *mut Self = ptr.cast();
        // SAFETY: By the contract of this function, initialised and not used any more.
        unsafe { ptr::drop_in_place((&raw mut (*this).data).cast::<D>()) };
    }
}

impl<D: Driver> Deref for Device<D> {
    type Target = D;

    fn deref(&self) -> &D {
        // SAFETY: By the type invariant.
        unsafe { &*self.data.get().cast() }
    }
}

fn set_node_desc(device: *mut bindings::ib_device, desc: &[u8]) {
    let mut whole = [0u8; bindings::IB_DEVICE_NODE_DESC_MAX as usize];
    for (to, from) in whole.iter_mut().zip(desc) {
        *to = *from;
    }
    // SAFETY: The device is valid, and the array has this size. Readers copy the bytes.
    unsafe {
        (&raw mut (*device).node_desc)
            .cast::<[u8; 64]>()
            .write(whole)
    };
}

/// A device that nobody knows yet.
///
/// # Invariants
///
/// The device was made by `new` and is not registered; the driver's part is initialised.
pub struct NewDevice<D: Driver>(NonNull<bindings::ib_device>, PhantomData<D>);

impl<D: Driver> NewDevice<D> {
    /// Makes a device in a network namespace, with all operations of the driver. May sleep.
    pub fn new<E>(net: &Net, init: impl PinInit<D, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::with_ops(net, &OpTable::new(), init)
    }

    /// As [`Self::new`], with the operations of a table, which may be fewer.
    pub fn with_ops<E>(net: &Net, ops: &OpTable<D>, init: impl PinInit<D, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        // SAFETY: The namespace is valid, and a C device comes first.
        let raw = unsafe { bindings::_ib_alloc_device(Device::<D>::SIZE, net.as_raw()) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let this: *mut Device<D> = raw.as_ptr().cast();
        // SAFETY: The memory has this size, is pinned, and nobody else has it.
        let made = unsafe {
            (&raw mut (*this).tag)
                .cast::<TypeId>()
                .write(TypeId::of::<D>());
            init.__init((&raw mut (*this).data).cast())
        };
        if let Err(e) = made {
            // SAFETY: The device is ours; without a table, nothing of the driver is called.
            unsafe { bindings::ib_dealloc_device(raw.as_ptr()) };
            return Err(e.into());
        }
        // SAFETY: The device is ours. The core copies the table.
        unsafe {
            bindings::ib_set_device_ops(raw.as_ptr(), ops.as_raw());
            (*raw.as_ptr()).driver_def = MARK.0.as_ptr();
            if D::HAS_DELETE_LINK {
                (*raw.as_ptr()).link_ops = driver::LinkOps::<D>::OPS;
            }
        }
        // INVARIANT: Made just now.
        Ok(Self(raw, PhantomData))
    }

    fn raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }

    /// Notes that the name is that which a user has chosen, not one that the driver made up.
    pub fn mark_named_by_user(&self) {
        // SAFETY: The device is ours.
        unsafe {
            (*self.raw()).name_assign_type =
                bindings::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
        }
    }

    /// Sets the number of ports; 1 without this.
    pub fn set_ports(&self, ports: u32) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).phys_port_cnt = ports };
    }

    /// Sets the number of completion vectors; 1 without this.
    pub fn set_comp_vectors(&self, vectors: u32) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).num_comp_vectors = vectors.try_into().unwrap_or(i32::MAX) };
    }

    /// Makes the device a channel adapter, an iWARP adapter ... (`RDMA_NODE_*`). A channel adapter
    /// without this.
    pub fn set_node_type(&self, node_type: u8) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).node_type = node_type };
    }

    /// Sets the GUID of the node, in network order.
    pub fn set_node_guid(&self, guid: [u8; 8]) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).node_guid = u64::from_ne_bytes(guid) };
    }

    /// Sets the local key that stands for all memory.
    pub fn set_local_dma_lkey(&self, lkey: u32) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).local_dma_lkey = lkey };
    }

    /// Allows commands of user space beyond those that the core allows always
    /// (`IB_USER_VERBS_CMD_*`, as bits).
    pub fn allow_commands(&self, commands: u64) {
        // SAFETY: The device is ours.
        unsafe { (*self.raw()).uverbs_cmd_mask |= commands };
    }

    /// Makes the device a sub-device of that kind.
    pub fn set_sub_device_kind(&self, kind: super::SubDeviceKind) {
        // SAFETY: The device is ours.
        unsafe {
            (*self.raw()).type_ = match kind {
                super::SubDeviceKind::Smi => bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI,
            }
        };
    }

    /// Makes the device visible under a name; a `%d` in it becomes a number. Without a DMA device,
    /// the addresses of scatter/gather entries are kernel addresses. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver; `ENFILE` if the name is taken, `EINVAL`, `ENOMEM`. The device is gone
    /// then.
    pub fn register(
        self,
        name: &CStr,
        dma_device: Option<&kernel::device::Device<kernel::device::Bound>>,
    ) -> Result<Registration<D>> {
        let dma_device = dma_device.map_or(ptr::null_mut(), |device| {
            // The type is transparent over the C structure.
            ptr::from_ref(device).cast_mut().cast()
        });
        // SAFETY: The device is valid, so the reference may be taken.
        let memory = unsafe { ARef::from(device::Device::from_raw(self.raw())) };
        // SAFETY: The device is ours and complete; the name is terminated.
        to_result(unsafe {
            bindings::ib_register_device(self.raw(), name.as_char_ptr(), dma_device)
        })?;
        // From here on, whoever unregisters the device also gives its memory up.
        core::mem::forget(self);
        // INVARIANT: Registered just now.
        Ok(Registration(memory, PhantomData))
    }
}

impl<D: Driver> Deref for NewDevice<D> {
    type Target = Device<D>;

    fn deref(&self) -> &Device<D> {
        // SAFETY: By the type invariant.
        unsafe { Device::from_raw(self.raw()) }
    }
}

impl<D: Driver> Drop for NewDevice<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this calls the driver's `dealloc_driver`, which drops the
        // driver's part.
        unsafe { bindings::ib_dealloc_device(self.raw()) };
    }
}

/// A device that was registered. Dropping this unregisters it, unless somebody did that before;
/// either way it is unregistered afterwards. May sleep.
///
/// # Invariants
///
/// The device is one of `D` that was registered.
pub struct Registration<D: Driver>(ARef<device::Device>, PhantomData<D>);

impl<D: Driver> Registration<D> {
    /// Takes the device over from C.
    ///
    /// # Safety
    ///
    /// `ptr` must come from [`Self::into_raw`].
    pub(super) unsafe fn from_raw(ptr: *mut bindings::ib_device) -> Self {
        // SAFETY: By the contract of this function.
        let device = unsafe { ARef::from_raw(NonNull::new_unchecked(ptr.cast())) };
        // INVARIANT: By the contract of this function.
        Self(device, PhantomData)
    }

    /// Hands the device to C.
    pub(super) fn into_raw(self) -> *mut bindings::ib_device {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again.
        ARef::into_raw(unsafe { ptr::read(&this.0) })
            .as_ptr()
            .cast()
    }

    /// The device, as long as it is registered.
    pub fn get(&self) -> Option<DeviceRef<D>> {
        // SAFETY: The memory is valid.
        if !unsafe { bindings::ib_device_try_get(self.0.as_raw()) } {
            return None;
        }
        // SAFETY: The reference was just taken.
        DeviceRef::new(unsafe { Get::from_raw(self.0.as_raw()) })
    }

    /// The core's part, which stays in memory as long as this exists.
    pub fn core(&self) -> &device::Device {
        &self.0
    }

    /// Its name.
    pub fn name(&self) -> Name {
        self.0.name()
    }

    /// Leaves the device to the core.
    pub fn leave(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again; only the memory reference is dropped.
        drop(unsafe { ptr::read(&this.0) });
    }

    /// Unregisters all devices with the [`Driver::ID`] of this driver. May sleep. For the exit of
    /// a module whose id is its own.
    pub fn unregister_all() {
        // SAFETY: Takes any id.
        unsafe { bindings::ib_unregister_driver(D::ID) };
    }
}

impl<D: Driver> Drop for Registration<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; a device that is not registered any more is left alone,
        // and its memory is held.
        unsafe { bindings::ib_unregister_device(self.0.as_raw()) };
    }
}

/// A registration reference: the device stays registered as long as this exists.
///
/// # Invariants
///
/// The device is one of `D`.
pub struct DeviceRef<D: Driver>(Get, PhantomData<D>);

impl<D: Driver> DeviceRef<D> {
    /// Makes a reference typed; nothing if the device is another driver's.
    pub fn new(device: Get) -> Option<Self> {
        Device::<D>::from_core(&device)?;
        // INVARIANT: Checked just now.
        Some(Self(device, PhantomData))
    }
}

impl<D: Driver> Deref for DeviceRef<D> {
    type Target = Device<D>;

    fn deref(&self) -> &Device<D> {
        // SAFETY: By the type invariant; a registered device has its driver's part.
        unsafe { Device::from_raw(self.0.as_raw()) }
    }
}

impl<D: Driver> Clone for DeviceRef<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

/// What the table of a driver names as its module.
pub(super) const fn owner<D: Driver>() -> *mut bindings::module {
    driver::module::<D>().as_ptr()
}
