// SPDX-License-Identifier: GPL-2.0

//! Files of devices, and the directories of their ports.
//!
//! A device appears in the network namespace that it belongs to and, in shared mode, in all others
//! too: each appearance is a `struct ib_core_device`. Some files are only for the first. The type
//! of a file says so ([`Scope`]), and such a file cannot be used through another appearance.

use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

use super::{
    attribute,
    attribute_of_class,
    port::PortDir,
    Access,
    Group,
    Input,
    Output,
    PortData, //
};
use crate::{
    device::Device,
    kobject::{
        Dir,
        DirData,
        GroupList,
        Kobject,
        OwnedDir, //
    },
    stats::OwnedHwStats, //
};

/// An appearance of a device in a network namespace, `struct ib_core_device`.
///
/// # Invariants
///
/// The pointer obtained from `as_raw` is valid as long as the reference, and so is its owner.
#[repr(transparent)]
pub struct CoreDevice(Opaque<bindings::ib_core_device>);

impl CoreDevice {
    /// Views a C appearance.
    ///
    /// # Safety
    ///
    /// `ptr` and its owner are valid for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_core_device) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    fn as_raw(&self) -> *mut bindings::ib_core_device {
        self.0.get()
    }

    /// The device that appears here.
    pub fn device(&self) -> &Device {
        // SAFETY: By the type invariant.
        unsafe { Device::from_raw((*self.as_raw()).owner) }
    }

    /// The device as the owner of this appearance, if it is its own.
    pub fn own(&self) -> Option<OwnDevice<'_>> {
        let device = self.device();
        core::ptr::eq(device.coredev_raw(), self.as_raw()).then_some(OwnDevice(device))
    }

    fn kobject(&self) -> &Kobject {
        // SAFETY: The kobject is part of the appearance, and initialised with it.
        unsafe { Kobject::from_raw(&raw mut (*self.as_raw()).dev.kobj) }
    }
}

/// A device as it appears in its own network namespace.
#[derive(Clone, Copy)]
pub struct OwnDevice<'a>(&'a Device);

impl<'a> OwnDevice<'a> {
    /// The device.
    pub fn device(self) -> &'a Device {
        self.0
    }

    /// The appearance.
    pub fn core(self) -> &'a CoreDevice {
        // SAFETY: The appearance is part of the device.
        unsafe { CoreDevice::from_raw(self.0.coredev_raw()) }
    }

    /// Has the driver core add the files of the device's statistics, which from now on belong to
    /// the device. Before the device is added.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has too many groups.
    pub fn set_stats<F: DeviceFile<Scope = Own>>(self, stats: KBox<DeviceStats<F>>) -> Result {
        let device = self.0.as_raw();
        // SAFETY: The device is being registered by the caller, who alone uses these fields.
        let groups = unsafe { &mut (*device).groups };
        // The list ends at the first null.
        let free = groups
            .iter_mut()
            .enumerate()
            .find(|(_, group)| group.is_null());
        let Some((index, slot)) = free else {
            kernel::warn_on!(true);
            return Err(EINVAL);
        };

        *slot = stats.group.as_raw();
        // SAFETY: As above. There are four groups.
        unsafe {
            (*device).hw_stats_attr_index = index as u8;
            (*device).hw_stats_data = KBox::into_raw(stats).cast();
        }
        Ok(())
    }

    /// Makes the directory of a port known to [`published_port`].
    pub fn publish_port<T: PortData>(
        self,
        number: u32,
        dir: &Dir<PortDir<T>>,
        stats: Option<Arc<OwnedHwStats>>,
    ) -> Result {
        let data = NonNull::new(self.0.port_data_raw(number)).ok_or(EINVAL)?;
        let port = KBox::new(
            PublishedPort {
                kobj: dir.kobject().as_raw(),
                stats,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The port data are valid; readers need a registered device, which it is not yet.
        unsafe { (&raw mut (*data.as_ptr()).sysfs).write_volatile(KBox::into_raw(port).cast()) };
        Ok(())
    }

    /// Undoes [`publish_port`](Self::publish_port), if it was done.
    pub fn unpublish_port(self, number: u32) {
        let Some(data) = NonNull::new(self.0.port_data_raw(number)) else {
            return;
        };
        // SAFETY: The port data are valid; nobody reads the field of a device that is not
        // registered any more.
        let port = unsafe { (&raw mut (*data.as_ptr()).sysfs).replace(core::ptr::null_mut()) };
        if !port.is_null() {
            // SAFETY: `publish_port` put the box there.
            drop(unsafe { KBox::from_raw(port.cast::<PublishedPort>()) });
        }
    }
}

/// What others may know of the directory of a port.
pub struct PublishedPort {
    kobj: *mut bindings::kobject,
    stats: Option<Arc<OwnedHwStats>>,
}

impl PublishedPort {
    /// The directory.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: The port is unpublished before its directory goes.
        unsafe { Kobject::from_raw(self.kobj) }
    }

    /// The statistics of the port, if the driver has any.
    pub fn stats(&self) -> Option<&OwnedHwStats> {
        self.stats.as_deref()
    }
}

/// The directory of a port of a registered device.
pub fn published_port(device: &Device, number: u32) -> Option<&PublishedPort> {
    let data = NonNull::new(device.port_data_raw(number))?;
    // SAFETY: The port data are valid. What is there was published and stays as long as the device
    // is registered.
    unsafe {
        (&raw const (*data.as_ptr()).sysfs)
            .read_volatile()
            .cast::<PublishedPort>()
            .as_ref()
    }
}

/// Through which appearances of a device a file can be used.
pub trait Scope: 'static {
    /// What its functions get.
    type Handle<'a>;

    /// That for an appearance, if the file can be used there.
    fn handle(core: &CoreDevice) -> Option<Self::Handle<'_>>;
}

/// All appearances.
pub struct Any;

impl Scope for Any {
    type Handle<'a> = &'a Device;

    fn handle(core: &CoreDevice) -> Option<&Device> {
        Some(core.device())
    }
}

/// The one in the device's own network namespace.
pub struct Own;

impl Scope for Own {
    type Handle<'a> = OwnDevice<'a>;

    fn handle(core: &CoreDevice) -> Option<OwnDevice<'_>> {
        core.own()
    }
}

/// A file of a device.
pub trait DeviceFile: Send + Sync + 'static {
    /// Where it can be used.
    type Scope: Scope;

    /// What is read. May sleep.
    fn show(&self, device: <Self::Scope as Scope>::Handle<'_>, out: &mut Output<'_>) -> Result;

    /// Takes what was written. May sleep.
    fn store(&self, _device: <Self::Scope as Scope>::Handle<'_>, _text: &Input<'_>) -> Result {
        Err(EIO)
    }
}

/// `struct device_attribute` with a [`DeviceFile`].
#[repr(C)]
pub struct DeviceAttribute<F> {
    raw: UnsafeCell<bindings::device_attribute>,
    file: F,
}

// SAFETY: The C structure is set up before the attribute is shared, and only read afterwards.
unsafe impl<F: Send> Send for DeviceAttribute<F> {}

// SAFETY: As above.
unsafe impl<F: Sync> Sync for DeviceAttribute<F> {}

impl<F: DeviceFile> DeviceAttribute<F> {
    /// A file in static memory.
    pub const fn new(name: &'static CStr, access: Access, file: F) -> Self {
        Self::from_attribute(attribute(name, access), access, file)
    }

    const fn from_attribute(attr: bindings::attribute, access: Access, file: F) -> Self {
        Self {
            raw: UnsafeCell::new(bindings::device_attribute {
                attr,
                __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 {
                    show: Some(Self::show),
                },
                __bindgen_anon_2: bindings::device_attribute__bindgen_ty_2 {
                    store: match access {
                        Access::ReadOnly => None,
                        Access::ReadWrite => Some(Self::store),
                    },
                },
            }),
            file,
        }
    }

    const fn as_attribute(this: *const Self) -> *mut bindings::attribute {
        // The attribute is the first field of the first field.
        this.cast_mut().cast()
    }

    /// # Safety
    ///
    /// Called by the driver core for an attribute of this type and the device of an appearance,
    /// which is there until the file is gone, with a page.
    unsafe extern "C" fn show(
        dev: *mut bindings::device,
        attr: *mut bindings::device_attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: By the contract; the devices are the first fields.
        let (core, this, mut out) = unsafe {
            (
                CoreDevice::from_raw(dev.cast()),
                &*attr.cast::<Self>(),
                Output::from_page(buf),
            )
        };
        let result = F::Scope::handle(core)
            .ok_or(ENODEV)
            .and_then(|device| this.file.show(device, &mut out));
        out.finish(result)
    }

    /// # Safety
    ///
    /// As for `show`, with the text that was written.
    unsafe extern "C" fn store(
        dev: *mut bindings::device,
        attr: *mut bindings::device_attribute,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        // SAFETY: By the contract; the devices are the first fields.
        let (core, this, text) = unsafe {
            (
                CoreDevice::from_raw(dev.cast()),
                &*attr.cast::<Self>(),
                Input::from_raw(buf, count),
            )
        };
        let result = F::Scope::handle(core)
            .ok_or(ENODEV)
            .and_then(|device| this.file.store(device, &text));
        text.finish(result)
    }
}

/// A null-terminated list of attributes in static memory.
#[repr(transparent)]
pub struct StaticList<const LEN: usize>([*mut bindings::attribute; LEN]);

// SAFETY: The list is never changed.
unsafe impl<const LEN: usize> Sync for StaticList<LEN> {}

impl<const LEN: usize> StaticList<LEN> {
    /// Lists `files`, for which there has to be room.
    pub const fn new<F: DeviceFile>(files: &'static [DeviceAttribute<F>]) -> Self {
        let mut list = [core::ptr::null_mut(); LEN];
        let mut i = 0;
        // The last place stays null.
        while i < files.len() && i + 1 < LEN {
            list[i] = DeviceAttribute::as_attribute(&files[i]);
            i += 1;
        }
        Self(list)
    }
}

/// A group in static memory, `struct attribute_group`. Its files can be used through all
/// appearances of a device.
#[repr(transparent)]
pub struct StaticGroup(bindings::attribute_group);

// SAFETY: The group is never changed.
unsafe impl Sync for StaticGroup {}

impl StaticGroup {
    /// A group without a name: the files lie in the directory of the device.
    pub const fn new<const LEN: usize>(list: &'static StaticList<LEN>) -> Self {
        let mut raw: bindings::attribute_group = pin_init::zeroed();
        raw.__bindgen_anon_2.attrs = core::ptr::from_ref(&list.0).cast_mut().cast();
        Self(raw)
    }

    /// The C structure.
    pub fn as_raw(&'static self) -> *const bindings::attribute_group {
        &self.0
    }
}

/// Files of a device that come and go together.
pub struct DeviceGroup<F>(Group<DeviceAttribute<F>>);

impl<F: DeviceFile> DeviceGroup<F> {
    /// Makes a group of files, a subdirectory.
    pub fn new<I>(name: &'static CStr, files: I, key: Pin<&'static LockClassKey>) -> Result<Self>
    where
        I: IntoIterator<Item = (&'static CStr, Access, F)>,
    {
        let mut attrs = KVVec::new();
        for (name, access, file) in files {
            let attr = attribute_of_class(name, access, key);
            attrs.push(
                DeviceAttribute::from_attribute(attr, access, file),
                GFP_KERNEL,
            )?;
        }
        Group::new(Some(name), attrs, |attr| {
            DeviceAttribute::as_attribute(attr)
        })
        .map(Self)
    }

    fn as_raw(&self) -> *const bindings::attribute_group {
        self.0.as_raw()
    }
}

/// The statistics of a device and their files, behind `struct hw_stats_device_data`.
pub struct DeviceStats<F> {
    group: DeviceGroup<F>,
}

impl<F: DeviceFile> DeviceStats<F> {
    /// Puts the files together; they share the ownership of the statistics.
    pub fn new(group: DeviceGroup<F>) -> Result<KBox<Self>> {
        Ok(KBox::new(Self { group }, GFP_KERNEL)?)
    }

    /// Takes the statistics back from a device that is being freed.
    ///
    /// # Safety
    ///
    /// `data` was put into the device by [`OwnDevice::set_stats`], for the same `F`, and is not
    /// used again.
    pub unsafe fn from_raw(data: *mut bindings::hw_stats_device_data) -> Option<KBox<Self>> {
        // SAFETY: By the contract.
        (!data.is_null()).then(|| unsafe { KBox::from_raw(data.cast()) })
    }
}

/// The directory that holds those of the ports.
struct Ports;

// SAFETY: There are no files.
unsafe impl DirData for Ports {
    const OPS: Option<&'static bindings::sysfs_ops> = None;

    fn groups(&self, _list: &mut GroupList) {}
}

/// The two directories of a port: its own and the one inside.
pub type DirPair<P, G> = (OwnedDir<PortDir<P>>, OwnedDir<PortDir<G>>);

/// The directories of the ports of an appearance: `ports/` and, for each port, its own with data
/// `P` and a second one inside with data `G`. Dropping it removes them.
///
/// # Invariants
///
/// `ports_kobj` of the appearance is the kobject of `Ports`; `port_list` has, for each port added,
/// the kobject of the first directory and then that of the second.
pub struct PortDirs<'a, P: PortData, G: PortData> {
    core: &'a CoreDevice,
    _dirs: core::marker::PhantomData<(P, G)>,
}

impl<'a, P: PortData, G: PortData> PortDirs<'a, P, G> {
    /// Makes `ports/`.
    pub fn create(core: &'a CoreDevice) -> Result<Self> {
        let ports = Dir::create(Ports, core.kobject(), c"ports")?;
        // SAFETY: The appearance is being set up by the caller, who alone uses the field.
        unsafe { (*core.as_raw()).ports_kobj = ports.into_kobj() };
        // INVARIANT: No port yet.
        Ok(Self {
            core,
            _dirs: core::marker::PhantomData,
        })
    }

    /// Takes back what [`leave`](Self::leave) left behind, if anything.
    ///
    /// # Safety
    ///
    /// What is there was left for the same `P` and `G`.
    pub unsafe fn take(core: &'a CoreDevice) -> Option<Self> {
        // SAFETY: The appearance is being taken down by the caller.
        let ports = unsafe { (*core.as_raw()).ports_kobj };
        // INVARIANT: By the contract.
        (!ports.is_null()).then(|| Self {
            core,
            _dirs: core::marker::PhantomData,
        })
    }

    /// Leaves the directories to the appearance.
    pub fn leave(self) {
        core::mem::forget(self);
    }

    /// The appearance.
    pub fn core(&self) -> &'a CoreDevice {
        self.core
    }

    fn ports(&self) -> &Kobject {
        // SAFETY: By the type invariant.
        unsafe { Kobject::from_raw((*self.core.as_raw()).ports_kobj) }
    }

    /// Makes the directory of a port, with its files.
    pub fn create_port(&self, number: u32, data: P) -> Result<OwnedDir<PortDir<P>>> {
        let own = self.core.own().is_some();
        let dir = PortDir::new(self.core.device(), number, own, data)?;
        Dir::create(dir, self.ports(), super::port::name(number).as_c_str())
    }

    /// Makes the second directory of a port, in the first, with its files.
    pub fn create_inner(
        &self,
        number: u32,
        port: &Dir<PortDir<P>>,
        name: &'static CStr,
        data: G,
    ) -> Result<OwnedDir<PortDir<G>>> {
        let dir = PortDir::new(self.core.device(), number, false, data)?;
        Dir::create(dir, port.kobject(), name)
    }

    fn list(&self) -> *mut bindings::list_head {
        // SAFETY: Only an address is computed, inside the appearance.
        unsafe { &raw mut (*self.core.as_raw()).port_list }
    }

    /// Keeps the directories of a port.
    pub fn add(&mut self, port: OwnedDir<PortDir<P>>, inner: OwnedDir<PortDir<G>>) {
        // INVARIANT: First one, then the other.
        for kobj in [port.into_kobj(), inner.into_kobj()] {
            // SAFETY: A kobject without a set does not use its list entry; both belong to us.
            unsafe { bindings::list_add_tail(&raw mut (*kobj).entry, self.list()) };
        }
    }

    fn pop_kobj(&mut self) -> Option<NonNull<bindings::kobject>> {
        let head = self.list();
        // SAFETY: The list is initialised with the appearance, and the caller alone uses it.
        let last = unsafe { (*head).prev };
        if last.is_null() || last == head {
            return None;
        }
        // SAFETY: By the type invariant, entries are parts of kobjects.
        unsafe {
            bindings::list_del(last);
            let kobj = kernel::container_of!(last, bindings::kobject, entry);
            NonNull::new(kobj)
        }
    }

    /// Gives up the directories of the port added last: its number, the first and the second one.
    pub fn pop(&mut self) -> Option<DirPair<P, G>> {
        let inner = self.pop_kobj()?;
        let port = self.pop_kobj()?;
        // SAFETY: By the type invariant, and the kobjects are on no list any more.
        unsafe { Some((OwnedDir::from_kobj(port), OwnedDir::from_kobj(inner))) }
    }
}

impl<P: PortData, G: PortData> Drop for PortDirs<'_, P, G> {
    fn drop(&mut self) {
        while let Some((port, inner)) = self.pop() {
            if let Some(own) = self.core.own() {
                own.unpublish_port(port.number());
            }
            drop(inner);
            drop(port);
        }
        // SAFETY: By the type invariant; the field is the caller's.
        let ports =
            unsafe { (&raw mut (*self.core.as_raw()).ports_kobj).replace(core::ptr::null_mut()) };
        if let Some(ports) = NonNull::new(ports) {
            // SAFETY: `create` put the directory there.
            drop(unsafe { OwnedDir::<Ports>::from_kobj(ports) });
        }
    }
}
