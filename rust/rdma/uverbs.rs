// SPDX-License-Identifier: GPL-2.0

//! Commands of user space: their attributes, driver data and files.
//!
//! C headers: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h),
//! [`drivers/infiniband/core/uverbs.h`](srctree/drivers/infiniband/core/uverbs.h)

mod buffer;
mod driver_data;

pub use buffer::{
    BufferDesc,
    BufferSource,
    CqBufferAttr, //
};
pub use driver_data::{
    Complaint,
    DriverData,
    KernelBytes,
    KernelRoom, //
};

use crate::{
    gfp::Gfp,
    udata::Udata, //
};
use core::{
    alloc::Layout,
    ptr::NonNull,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    alloc::{
        allocator::KVmalloc,
        Allocator,
        NumaNode, //
    },
    bindings,
    prelude::*,
    types::Opaque, //
};

/// The place of the attribute `id` in a bundle, which `uapi_key_attr()` and `uapi_bkey_attr()`
/// give: attributes of the core and of the driver alternate. [`None`] for an id beyond those of a
/// bundle.
#[inline]
const fn place_of(id: u16) -> Option<usize> {
    const DRIVER: u16 = bindings::uapi_radix_data_UVERBS_API_NS_FLAG as u16;
    const IDS: u16 = 1 << (bindings::uapi_radix_data_UVERBS_API_ATTR_KEY_BITS - 1);

    let place = if id & DRIVER == 0 {
        if id >= IDS {
            return None;
        }
        2 * id
    } else {
        let id = id & !DRIVER;
        if id >= IDS - 1 {
            return None;
        }
        2 * id + 1
    };
    Some(place as usize)
}

/// The attributes of a running command, `struct uverbs_attr_bundle`.
///
/// The bundle is the calling thread's own; only `driver_udata` and the response flags are ever
/// written.
///
/// # Invariants
///
/// Wraps the bundle of a command that the current thread executes.
#[repr(transparent)]
pub struct AttrBundle(Opaque<bindings::uverbs_attr_bundle>);

impl AttrBundle {
    /// Id of the descriptor attribute of CREATE_CQ.
    pub const CQ_BUFFER_DESC: u16 =
        bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM as u16;

    /// The bundle at `attrs`, `None` for a caller without one.
    ///
    /// # Safety
    ///
    /// `attrs` must be null or the bundle of a command that the current thread executes for the
    /// whole of `'a`.
    pub unsafe fn from_raw<'a>(attrs: *const bindings::uverbs_attr_bundle) -> Option<&'a Self> {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { attrs.cast::<Self>().as_ref() }
    }

    /// The wrapped C object.
    pub fn as_raw(&self) -> *mut bindings::uverbs_attr_bundle {
        self.0.get()
    }

    /// The driver's part of the command.
    pub fn udata(&self) -> &Udata {
        // SAFETY: Part of a live bundle.
        unsafe { Udata::from_raw(&raw mut (*self.header()).driver_udata) }
    }

    /// The attribute `id`; `ENOENT` if the command has none.
    #[inline]
    pub fn get(&self, id: u16) -> Result<Attr<'_>> {
        let place = place_of(id).ok_or(ENOENT)?;
        // SAFETY: A live bundle, of which the running command writes nothing here.
        let present = unsafe { (*self.header()).attr_present };
        let word = present
            .get(place / c_ulong::BITS as usize)
            .copied()
            .unwrap_or(0);
        if word >> (place % c_ulong::BITS as usize) & 1 == 0 {
            return Err(ENOENT);
        }
        // SAFETY: A bundle has room for the attributes that it says it has.
        let attr = unsafe {
            (&raw mut (*self.as_raw()).attrs)
                .cast::<bindings::uverbs_attr>()
                .add(place)
        };
        // INVARIANT: As above.
        Ok(Attr { attr, bundle: self })
    }

    /// Whether the command has the attribute `id`.
    pub fn has(&self, id: u16) -> bool {
        self.get(id).is_ok()
    }

    /// The buffer descriptor under `id`, `None` without one.
    ///
    /// `EINVAL` for unknown flags, `EFAULT` when it cannot be read.
    pub fn buffer_desc(&self, id: u16) -> Result<Option<BufferDesc>> {
        match self.get(id) {
            Ok(attr) => attr.buffer_desc().map(Some),
            Err(e) if e == ENOENT => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether CREATE_CQ came with `attr`.
    pub fn has_cq_attr(&self, attr: CqBufferAttr) -> bool {
        self.has(attr.id())
    }

    /// A 64-bit value of CREATE_CQ. Here its absence is an error: `EINVAL`.
    pub fn cq_value(&self, attr: CqBufferAttr) -> Result<u64> {
        let attr = self.get(attr.id()).map_err(|_| EINVAL)?;
        let mut value = 0u64;
        // SAFETY: `value` is writable for its size.
        unsafe { attr.copy_in((&raw mut value).cast(), size_of::<u64>())? };
        Ok(value)
    }

    /// The file descriptor of CREATE_CQ; `EINVAL` without one.
    pub fn cq_fd(&self) -> Result<i32> {
        let attr = self.get(CqBufferAttr::Fd.id()).map_err(|_| EINVAL)?;
        i32::try_from(attr.data() as i64).map_err(|_| EINVAL)
    }

    /// Whether the driver can take a buffer of user space for a CQ.
    pub fn driver_takes_cq_buffer(&self) -> bool {
        // SAFETY: A command that creates objects has a context, whose device is held by the
        // running command.
        unsafe {
            let context = (*self.header()).context;
            !context.is_null() && (*(*context).device).ops.create_user_cq.is_some()
        }
    }

    /// The fixed part of the bundle.
    pub(crate) fn header(&self) -> *mut BundleHeader {
        // SAFETY: Field address within a live bundle.
        unsafe { &raw mut (*self.as_raw()).__bindgen_anon_1.hdr }
    }
}

/// The fixed part of a bundle, `struct uverbs_attr_bundle_hdr`.
pub(crate) type BundleHeader = bindings::uverbs_attr_bundle__bindgen_ty_1_uverbs_attr_bundle_hdr;

// Kernel callers pass a null bundle, and drivers take the address of this member and test it.
const _: () = assert!(core::mem::offset_of!(BundleHeader, driver_udata) == 0);

/// One attribute of a command.
///
/// # Invariants
///
/// `attr` points into `bundle`.
pub struct Attr<'a> {
    attr: *mut bindings::uverbs_attr,
    bundle: &'a AttrBundle,
}

impl Attr<'_> {
    fn ptr(&self) -> &bindings::uverbs_ptr_attr {
        // SAFETY: Lies in a live bundle by the type invariant and is not written while the command
        // runs. The accessors are for attributes that carry data, as their ids tell; the other
        // variants of the union are plain pointers and numbers too.
        unsafe { &(*self.attr).__bindgen_anon_1.ptr_attr }
    }

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        self.ptr().len.into()
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload of up to 8 bytes, or the address of a longer one.
    pub fn data(&self) -> u64 {
        // SAFETY: Any bits are a number.
        unsafe { self.ptr().__bindgen_anon_1.data }
    }

    /// The first 4 bytes of the payload.
    pub fn data32(&self) -> u32 {
        let [a, b, c, d, ..] = self.data().to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    /// Copies the payload, which must not be longer than `len`, to `to`.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `len` bytes.
    unsafe fn copy_in(&self, to: *mut c_void, len: usize) -> Result {
        if len < self.len() {
            return Err(EINVAL);
        }
        if self.len() <= size_of::<u64>() {
            let data = self.data().to_ne_bytes();
            // SAFETY: At most 8 bytes, and no more than `to` holds.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), self.len()) };
            return Ok(());
        }
        // SAFETY: Checks the user's side itself; `to` is promised.
        let left =
            unsafe { bindings::copy_from_user(to, self.data() as *const c_void, self.len()) };
        if left == 0 {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// The buffer descriptor in the attribute. `EINVAL` for unknown flags; unknown optional ones
    /// are dropped.
    pub fn buffer_desc(&self) -> Result<BufferDesc> {
        let mut desc = BufferDesc(pin_init::zeroed());
        let size = size_of::<bindings::ib_uverbs_buffer_desc>();
        // SAFETY: The descriptor is writable for its size, and any bits are one.
        unsafe { self.copy_in((&raw mut desc.0).cast(), size)? };
        if desc.has_unknown_flags() {
            return Err(EINVAL);
        }
        desc.0.optional_flags &= bindings::IB_UVERBS_BUFFER_DESC_OPTIONAL_FLAGS_KNOWN_MASK;
        Ok(desc)
    }

    /// The bundle that the attribute belongs to.
    pub fn bundle(&self) -> &AttrBundle {
        self.bundle
    }
}

impl Attr<'_> {
    /// Copies as much of `from` as user space has room for, and marks the attribute as written.
    ///
    /// `EFAULT` when user space cannot be written.
    pub fn copy_out(&self, from: KernelBytes<'_>) -> Result {
        let len = self.len().min(from.len);
        // SAFETY: `from` is readable; the user's side is checked by the call.
        let left =
            unsafe { bindings::copy_to_user(self.data() as *mut c_void, from.ptr.cast(), len) };
        if left != 0 {
            return Err(EFAULT);
        }
        // SAFETY: The attribute is one of the live bundle.
        match unsafe { bindings::uverbs_set_output(self.bundle.as_raw(), self.attr) } {
            0 => Ok(()),
            errno => Err(Error::from_errno(errno)),
        }
    }

    /// Clears what user space has room for beyond the first `from` bytes.
    pub fn clear_from(&self, from: usize) -> Result {
        let rest = self.len().saturating_sub(from);
        if rest == 0 {
            return Ok(());
        }
        clear_user(self.data().wrapping_add(from as u64), rest)
    }
}

/// Clears `len` bytes at the user address `to`.
fn clear_user(to: u64, len: usize) -> Result {
    // SAFETY: The user's side is checked by the call.
    if unsafe { bindings::rdma_clear_user(to as *mut c_void, len) } == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

// What follows needs the memory around the bundle. It belongs to ib_uverbs, which makes it, and
// frees what was allocated through it when the command is over.
impl AttrBundle {
    /// The memory of the command, `struct bundle_priv`.
    fn command(&self) -> *mut bindings::bundle_priv {
        // SAFETY: Every bundle is the last but one member of a `bundle_priv`.
        unsafe {
            self.header()
                .byte_sub(core::mem::offset_of!(bindings::bundle_priv, bundle))
                .cast()
        }
    }

    /// Memory that lives until the command is over: `size` bytes aligned to 8, zeroed if `gfp`
    /// says so.
    ///
    /// `EOVERFLOW` for an impossible size, `ENOMEM`.
    #[inline]
    pub fn alloc(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>> {
        const UNIT: usize = size_of::<u64>();
        let command = self.command();
        // SAFETY: The allocator's state belongs to the thread that executes the command.
        unsafe {
            let used = (*command).internal_used;
            let end = used.checked_add(size).ok_or(EOVERFLOW)?;
            if end > (*command).internal_avail {
                return self.alloc_spilled(size, gfp);
            }
            let buffer = (&raw mut (*command).internal_buffer).cast::<u8>().add(used);
            // Cannot wrap: what is available is a buffer in memory.
            (*command).internal_used = end.wrapping_add(UNIT - 1) & !(UNIT - 1);
            if bindings::rdma_want_init_on_alloc(gfp.as_raw()) {
                buffer.write_bytes(0, size);
            }
            NonNull::new(buffer).ok_or(ENOMEM)
        }
    }

    /// Memory outside of the command's own, on the list that ib_uverbs frees.
    #[cold]
    fn alloc_spilled(&self, size: usize, gfp: Gfp) -> Result<NonNull<u8>> {
        type Head = bindings::bundle_alloc_head__bindgen_ty_1_bundle_alloc_head_hdr;
        let total = size.checked_add(size_of::<Head>()).ok_or(ENOMEM)?;
        let layout = Layout::from_size_align(total, align_of::<Head>()).map_err(|_| ENOMEM)?;
        let head = KVmalloc::alloc(layout, gfp.flags(), NumaNode::NO_NODE)?.cast::<Head>();
        let command = self.command();
        // SAFETY: The list belongs to the thread that executes the command; the new head is
        // writable and followed by `size` bytes.
        unsafe {
            (*head.as_ptr()).next = (*command).allocated_mem;
            (*command).allocated_mem = head.as_ptr().cast();
            Ok(head.add(1).cast())
        }
    }

    /// Clears the driver's part, so that a driver that undoes something sees no user.
    pub fn clear_driver_data(&self) -> *mut bindings::ib_udata {
        let header = self.header();
        // SAFETY: Written by the thread that executes the command.
        unsafe {
            (*header).driver_udata = pin_init::zeroed();
            &raw mut (*header).driver_udata
        }
    }

    /// Notes that the hardware's part of the new object under attribute `id` exists, so that an
    /// error from here on has to destroy it.
    pub fn mark_created(&self, id: u16) {
        let command = self.command();
        let Some(place) = place_of(id) else {
            return;
        };
        // SAFETY: The bitmap belongs to the thread that executes the command.
        let map = unsafe { &mut (*command).uobj_hw_obj_valid };
        if let Some(word) = map.get_mut(place / c_ulong::BITS as usize) {
            *word |= 1 << (place % c_ulong::BITS as usize);
        }
    }
}

/// An open verbs file, `struct ib_uverbs_file`.
///
/// # Invariants
///
/// Wraps a file that ib_uverbs has opened.
#[repr(transparent)]
pub struct UverbsFile(Opaque<bindings::ib_uverbs_file>);

impl UverbsFile {
    /// # Safety
    ///
    /// `file` must be open for the whole of `'a`.
    pub unsafe fn from_raw<'a>(file: *mut bindings::ib_uverbs_file) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*file.cast() }
    }

    /// The wrapped C object.
    pub fn as_raw(&self) -> *mut bindings::ib_uverbs_file {
        self.0.get()
    }

    /// Whether the device is still there.
    ///
    /// The answer holds until the SRCU read lock, which the caller holds, is released.
    pub fn is_associated(&self) -> bool {
        // SAFETY: The pointer to the device is read once, under the lock; it is not followed.
        unsafe {
            let device = (*self.as_raw()).device;
            !(&raw const (*device).ib_dev).read_volatile().is_null()
        }
    }

    /// The context of the file, `None` before there is one.
    pub fn context(&self) -> Option<NonNull<bindings::ib_ucontext>> {
        // SAFETY: The pointer is stored once, with release semantics.
        let context = unsafe {
            AtomicPtr::from_ptr(&raw mut (*self.as_raw()).ucontext).load(Ordering::Acquire)
        };
        NonNull::new(context)
    }
}

#[kunit_tests(rust_rdma_uverbs)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_c() {
        for id in 0..=u16::MAX {
            // SAFETY: Takes a number.
            let bkey = unsafe { bindings::rdma_uverbs_attr_bkey(id) };
            match place_of(id) {
                Some(place) => assert_eq!(place, bkey as usize),
                None => assert!(bkey >= bindings::uapi_radix_data_UVERBS_API_ATTR_BKEY_LEN),
            }
        }
    }
}
