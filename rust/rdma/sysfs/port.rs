// SPDX-License-Identifier: GPL-2.0

//! Files of ports.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    container_of,
    prelude::*,
    sync::LockClassKey, //
};

use super::{
    attribute_of_class,
    Access,
    Group,
    Input,
    Output, //
};
use crate::{
    device::Device,
    kobject::{
        Dir,
        DirData,
        GroupList, //
    },
    port::Port, //
};

/// A file of a port.
pub trait PortFile: Send + Sync + 'static {
    /// What is read. May sleep.
    fn show(&self, port: Port<'_>, out: &mut Output<'_>) -> Result;

    /// Takes what was written. May sleep.
    fn store(&self, _port: Port<'_>, _text: &Input<'_>) -> Result {
        Err(EIO)
    }
}

/// `struct ib_port_attribute` with a [`PortFile`].
#[repr(C)]
struct PortAttribute<F> {
    raw: UnsafeCell<bindings::ib_port_attribute>,
    file: F,
}

// SAFETY: The C structure is set up before the attribute is shared, and only read afterwards.
unsafe impl<F: Send> Send for PortAttribute<F> {}

// SAFETY: As above.
unsafe impl<F: Sync> Sync for PortAttribute<F> {}

impl<F: PortFile> PortAttribute<F> {
    fn new(name: &'static CStr, access: Access, file: F, key: Pin<&'static LockClassKey>) -> Self {
        let mut raw: bindings::ib_port_attribute = pin_init::zeroed();
        raw.attr = attribute_of_class(name, access, key);
        raw.show = Some(Self::show);
        if access == Access::ReadWrite {
            raw.store = Some(Self::store);
        }
        Self {
            raw: UnsafeCell::new(raw),
            file,
        }
    }

    fn as_attribute(this: *const Self) -> *mut bindings::attribute {
        // The attribute is the first field of the first field.
        this.cast_mut().cast()
    }

    /// # Safety
    ///
    /// Called for an attribute of this type, with the port that its directory belongs to, which is
    /// there until the file is gone, and a page.
    unsafe extern "C" fn show(
        device: *mut bindings::ib_device,
        number: u32,
        attr: *mut bindings::ib_port_attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: By the contract; the C structure is the first field.
        let (device, this, mut out) = unsafe {
            (
                Device::from_raw(device),
                &*attr.cast::<Self>(),
                Output::from_page(buf),
            )
        };
        let result = Port::new(device, number)
            .ok_or(ENODEV)
            .and_then(|port| this.file.show(port, &mut out));
        out.finish(result)
    }

    /// # Safety
    ///
    /// As for `show`, with the text that was written.
    unsafe extern "C" fn store(
        device: *mut bindings::ib_device,
        number: u32,
        attr: *mut bindings::ib_port_attribute,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        // SAFETY: By the contract; the C structure is the first field.
        let (device, this, text) = unsafe {
            (
                Device::from_raw(device),
                &*attr.cast::<Self>(),
                Input::from_raw(buf, count),
            )
        };
        let result = Port::new(device, number)
            .ok_or(ENODEV)
            .and_then(|port| this.file.store(port, &text));
        text.finish(result)
    }
}

/// A file of which a port has one per entry of a table, named by the index.
pub trait IndexedFile: Send + Sync + 'static {
    /// What is read. May sleep.
    fn show(port: Port<'_>, index: u32, out: &mut Output<'_>) -> Result;
}

/// Room for the decimal digits of a `u32` and a terminator.
const DIGITS: usize = 11;

/// The decimal digits of a number as a name.
pub(super) struct Name([u8; DIGITS]);

impl Name {
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// The name of a directory for `number`.
pub(super) fn name(number: u32) -> Name {
    Name(digits(number))
}

/// An entry of a table as a file.
pub struct Indexed<F> {
    index: u32,
    name: [u8; DIGITS],
    _file: PhantomData<fn() -> F>,
}

impl<F: IndexedFile> PortFile for Indexed<F> {
    fn show(&self, port: Port<'_>, out: &mut Output<'_>) -> Result {
        F::show(port, self.index, out)
    }
}

/// The decimal digits of a number, terminated.
fn digits(number: u32) -> [u8; DIGITS] {
    let mut text = [0; DIGITS];
    let mut rest = number;
    let mut len: usize = 0;

    loop {
        if let Some(digit) = text.get_mut(len) {
            // A digit.
            *digit = b'0' | (rest % 10) as u8;
        }
        len = len.wrapping_add(1);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = text.get_mut(..len) {
        digits.reverse();
    }
    text
}

/// Files of a port that come and go together: a subdirectory if the group has a name.
pub struct PortGroup<F>(Group<PortAttribute<F>>);

impl<F: PortFile> PortGroup<F> {
    /// Makes a group of files.
    pub fn new<I>(
        name: Option<&'static CStr>,
        files: I,
        key: Pin<&'static LockClassKey>,
    ) -> Result<Self>
    where
        I: IntoIterator<Item = (&'static CStr, Access, F)>,
    {
        let mut attrs = KVVec::new();
        for (name, access, file) in files {
            attrs.push(PortAttribute::new(name, access, file, key), GFP_KERNEL)?;
        }
        Group::new(name, attrs, PortAttribute::as_attribute).map(Self)
    }

    /// Puts the group on the list of the directory that owns it.
    pub fn list<'a>(&'a self, list: &mut GroupList) {
        // SAFETY: The group owns what the pointer refers to; see `PortData`, the one who calls.
        unsafe { list.push(self.0.as_raw()) };
    }
}

impl<F: IndexedFile> PortGroup<Indexed<F>> {
    /// Makes a group of `len` files.
    pub fn indexed(name: &'static CStr, len: u32, key: Pin<&'static LockClassKey>) -> Result<Self> {
        let mut attrs = KVVec::with_capacity(len as usize, GFP_KERNEL)?;
        for index in 0..len {
            let file = Indexed {
                index,
                name: digits(index),
                _file: PhantomData,
            };
            attrs.push(
                PortAttribute::new(c"", Access::ReadOnly, file, key),
                GFP_KERNEL,
            )?;
        }
        for attr in attrs.iter_mut() {
            // The vector is full: neither it nor the names in it move any more.
            attr.raw.get_mut().attr.name = attr.file.name.as_ptr();
        }
        Group::new(Some(name), attrs, PortAttribute::as_attribute).map(Self)
    }
}

/// Which port a directory belongs to.
///
/// # Invariants
///
/// The device outlives the directory.
struct PortId {
    device: NonNull<bindings::ib_device>,
    number: u32,
}

// SAFETY: A device may be used from any task.
unsafe impl Send for PortId {}

// SAFETY: As above.
unsafe impl Sync for PortId {}

/// The data of a directory whose files are those of a port.
pub trait PortData: Send + Sync + 'static {
    /// Lists the groups of files that `self` owns, and no others.
    fn groups(&self, list: &mut GroupList);
}

/// A directory of a port, with its data.
pub struct PortDir<T> {
    id: PortId,
    /// Whether the groups of the driver belong here too.
    driver_groups: bool,
    data: T,
}

impl<T> Deref for PortDir<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> PortDir<T> {
    /// The data for a directory that will be removed before the device is freed.
    pub(super) fn new(device: &Device, number: u32, driver_groups: bool, data: T) -> Result<Self> {
        Ok(Self {
            // INVARIANT: By the contract.
            id: PortId {
                device: NonNull::new(device.as_raw()).ok_or(EINVAL)?,
                number,
            },
            driver_groups,
            data,
        })
    }

    /// The number of the port.
    pub fn number(&self) -> u32 {
        self.id.number
    }

    /// The device of the port.
    pub fn device(&self) -> &Device {
        // SAFETY: By the invariant of `PortId`.
        unsafe { Device::from_raw(self.id.device.as_ptr()) }
    }
}

impl<T: PortData> PortDir<T> {
    const OPS: bindings::sysfs_ops = bindings::sysfs_ops {
        show: Some(Self::show),
        store: Some(Self::store),
    };

    /// # Safety
    ///
    /// Called by sysfs for a file of a directory with data of this type, with a page.
    unsafe extern "C" fn show(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: By the contract. All attributes in a directory of a port, those of drivers and
        // other modules included, are part of a `struct ib_port_attribute`.
        unsafe {
            let id = &Dir::<Self>::from_kobj(kobj).id;
            let attr = container_of!(attr, bindings::ib_port_attribute, attr);
            match (*attr).show {
                Some(show) => show(id.device.as_ptr(), id.number, attr, buf),
                None => EIO.to_errno() as isize,
            }
        }
    }

    /// # Safety
    ///
    /// As for `show`, with the text that was written.
    unsafe extern "C" fn store(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        // SAFETY: As for `show`.
        unsafe {
            let id = &Dir::<Self>::from_kobj(kobj).id;
            let attr = container_of!(attr, bindings::ib_port_attribute, attr);
            match (*attr).store {
                Some(store) => store(id.device.as_ptr(), id.number, attr, buf, count),
                None => EIO.to_errno() as isize,
            }
        }
    }
}

// SAFETY: `PortData` lists groups that own their attributes, which are those of ports. The list of
// the driver is static, and its attributes are those of ports by the contract of `port_groups`.
unsafe impl<T: PortData> DirData for PortDir<T> {
    const OPS: Option<&'static bindings::sysfs_ops> = Some(&PortDir::<T>::OPS);

    fn groups(&self, list: &mut GroupList) {
        self.data.groups(list);
        if self.driver_groups {
            // SAFETY: See above.
            unsafe { list.set_foreign(self.device().ops().port_groups.cast()) };
        }
    }
}
