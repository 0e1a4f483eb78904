// SPDX-License-Identifier: GPL-2.0

//! Files in sysfs that devices and ports have.
//!
//! A file is a value of a type that implements [`PortFile`] or [`DeviceFile`]: it says what is read
//! and written, and a generic shim connects it with the C structure that sysfs, drivers and other
//! modules know.
//!
//! C headers: [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h),
//! [`include/rdma/ib_sysfs.h`](srctree/include/rdma/ib_sysfs.h)

mod device;
mod port;

pub use self::{
    device::{
        published_port,
        Any,
        CoreDevice,
        DeviceAttribute,
        DeviceFile,
        DeviceGroup,
        DeviceStats,
        DirPair,
        Own,
        OwnDevice,
        PortDirs,
        PublishedPort,
        Scope,
        StaticGroup,
        StaticList, //
    },
    port::{
        Indexed,
        IndexedFile,
        PortData,
        PortDir,
        PortFile,
        PortGroup, //
    }, //
};

use core::fmt::Write;

use kernel::{
    bindings,
    error::to_result,
    fmt,
    prelude::*,
    sync::LockClassKey, //
};

/// What a reader of a file gets: at most a page, whose last byte is a terminator.
pub struct Output<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl Output<'_> {
    /// # Safety
    ///
    /// `buf` is a page that sysfs gave to a show function, valid for the lifetime of the result.
    unsafe fn from_page(buf: *mut c_char) -> Self {
        Self {
            // SAFETY: By the contract; sysfs zeroes the page before.
            buf: unsafe { core::slice::from_raw_parts_mut(buf.cast(), bindings::PAGE_SIZE - 1) },
            len: 0,
        }
    }

    /// Adds bytes; what does not fit is cut off.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let room = self.buf.iter_mut().skip(self.len);
        let mut added: usize = 0;
        for (to, from) in room.zip(bytes) {
            *to = *from;
            added = added.wrapping_add(1);
        }
        self.len = self.len.wrapping_add(added);
    }

    /// Adds formatted text.
    pub fn text(&mut self, args: fmt::Arguments<'_>) {
        // Writing never fails.
        let _ = self.write_fmt(args);
    }

    fn finish(self, result: Result) -> isize {
        match result {
            // At most a page.
            Ok(()) => self.len as isize,
            Err(e) => e.to_errno() as isize,
        }
    }
}

impl Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Text that a user wrote to a file.
pub struct Input<'a> {
    bytes: &'a [u8],
    text: &'a CStr,
}

impl Input<'_> {
    /// # Safety
    ///
    /// `buf` is what sysfs gave to a store function with `count`: terminated, and valid for the
    /// lifetime of the result.
    unsafe fn from_raw(buf: *const c_char, count: usize) -> Self {
        // SAFETY: By the contract.
        unsafe {
            Self {
                bytes: core::slice::from_raw_parts(buf, count),
                text: CStr::from_char_ptr(buf),
            }
        }
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// A decimal number, with a sign if there is one and at most one newline behind.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ERANGE`.
    pub fn decimal(&self) -> Result<i32> {
        let mut value = 0;
        // SAFETY: The string is terminated, and the result has room.
        to_result(unsafe { bindings::kstrtoint(self.text.as_char_ptr(), 10, &mut value) })?;
        Ok(value)
    }

    fn finish(&self, result: Result) -> isize {
        match result {
            Ok(()) => self.bytes.len() as isize,
            Err(e) => e.to_errno() as isize,
        }
    }
}

/// Who may do what with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All may read it.
    ReadOnly,
    /// All may read it, root may write it.
    ReadWrite,
}

/// A C attribute for static memory, which is its own lock class.
const fn attribute(name: &'static CStr, access: Access) -> bindings::attribute {
    let mut attr: bindings::attribute = pin_init::zeroed();
    attr.name = name.as_ptr().cast();
    attr.mode = match access {
        Access::ReadOnly => 0o444,
        Access::ReadWrite => 0o644,
    };
    attr
}

/// A C attribute for allocated memory, which cannot be a lock class: `key` is that of all
/// attributes of its kind.
fn attribute_of_class(
    name: &'static CStr,
    access: Access,
    key: Pin<&'static LockClassKey>,
) -> bindings::attribute {
    let attr = attribute(name, access);
    #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
    let attr = bindings::attribute {
        key: key.as_ptr(),
        ..attr
    };
    #[cfg(not(CONFIG_DEBUG_LOCK_ALLOC))]
    let _ = key;
    attr
}

/// A null-terminated list of the attributes in `attrs`.
fn pointers<A>(
    attrs: &[A],
    attribute: impl Fn(*const A) -> *mut bindings::attribute,
) -> Result<KVVec<*mut bindings::attribute>> {
    let mut list = KVVec::with_capacity(attrs.len().saturating_add(1), GFP_KERNEL)?;
    for attr in attrs {
        list.push(attribute(attr), GFP_KERNEL)?;
    }
    list.push(core::ptr::null_mut(), GFP_KERNEL)?;
    Ok(list)
}

/// A group that owns its attributes.
///
/// # Invariants
///
/// `raw` refers to `list`, which refers to `attrs`; none of them moves or changes.
struct Group<A> {
    _attrs: KVVec<A>,
    _list: KVVec<*mut bindings::attribute>,
    raw: KBox<bindings::attribute_group>,
}

impl<A> Group<A> {
    fn new(
        name: Option<&'static CStr>,
        attrs: KVVec<A>,
        attribute: impl Fn(*const A) -> *mut bindings::attribute,
    ) -> Result<Self> {
        let mut list = pointers(&attrs, attribute)?;
        let mut raw: bindings::attribute_group = pin_init::zeroed();
        raw.name = name.map_or(core::ptr::null(), CStr::as_char_ptr);
        raw.__bindgen_anon_2.attrs = list.as_mut_ptr();
        // INVARIANT: Vectors that are full and not touched again keep their memory.
        Ok(Self {
            _attrs: attrs,
            _list: list,
            raw: KBox::new(raw, GFP_KERNEL)?,
        })
    }

    fn as_raw(&self) -> *const bindings::attribute_group {
        &*self.raw
    }
}

// SAFETY: The attributes are `Send`, and the pointers refer to what the group owns.
unsafe impl<A: Send> Send for Group<A> {}

// SAFETY: The attributes are `Sync`, and nothing else is changed.
unsafe impl<A: Sync> Sync for Group<A> {}
