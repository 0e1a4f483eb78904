// SPDX-License-Identifier: GPL-2.0

//! Attributes, answers and mappings for drivers and ib_uverbs.

use crate::ib_core_uverbs::{
    self as uverbs,
    mmap, //
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    gfp::Gfp,
    user_mmap::{
        attach_umap,
        MmapContext,
        MmapEntry,
        NewEntry,
        NewVma, //
    },
    uverbs::{
        AttrBundle,
        DriverData,
        KernelBytes,
        KernelRoom,
        UverbsFile, //
    },
};

/// What C expects of a function that returns nothing but an error.
fn to_errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// The bundle of a running command.
///
/// # Safety
///
/// As for `AttrBundle::from_raw`.
unsafe fn bundle<'a>(attrs: *const bindings::uverbs_attr_bundle) -> Result<&'a AttrBundle> {
    // SAFETY: Promised by the caller.
    unsafe { AttrBundle::from_raw(attrs) }.ok_or(EINVAL)
}

/// Attribute ids have 16 bits.
fn attr_id(idx: usize) -> u16 {
    idx as u16
}

/// Reads the driver's input of a command.
///
/// # Safety
///
/// Called by drivers in a user command, with the driver data of its bundle and `kernel_size`
/// writable bytes at `req`.
#[export]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_in(
    udata: *mut bindings::ib_udata,
    req: *mut c_void,
    kernel_size: usize,
    minimum_size: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (data, room) = unsafe {
        (
            DriverData::from_raw(udata),
            KernelRoom::from_raw(req, kernel_size),
        )
    };
    to_errno(uverbs::copy_driver_input(data, room, minimum_size))
}

/// Refuses a mask with unknown bits.
///
/// # Safety
///
/// Called by drivers in a user command, with the driver data of its bundle.
#[export]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_cm_fail(
    udata: *mut bindings::ib_udata,
    req_cm: u64,
    valid_cm: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    let data = unsafe { DriverData::from_raw(udata) };
    uverbs::refuse_comp_mask(data, req_cm, valid_cm).to_errno()
}

/// Writes the driver's answer to a command.
///
/// # Safety
///
/// Called by drivers in a user command, with the driver data of its bundle and `len` readable
/// bytes at `src`.
#[export]
pub(crate) unsafe extern "C" fn _ib_respond_udata(
    udata: *mut bindings::ib_udata,
    src: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (data, answer) = unsafe { (DriverData::from_raw(udata), KernelBytes::from_raw(src, len)) };
    to_errno(uverbs::respond(data, answer))
}

/// The context of a verbs file.
///
/// # Safety
///
/// Called with an open file, under the SRCU read lock of its device.
#[export]
pub(crate) unsafe extern "C" fn ib_uverbs_get_ucontext_file(
    ufile: *mut bindings::ib_uverbs_file,
) -> *mut bindings::ib_ucontext {
    // SAFETY: Promised by the caller.
    match uverbs::context_of(unsafe { UverbsFile::from_raw(ufile) }) {
        Ok(context) => context.as_ptr(),
        Err(e) => e.to_ptr(),
    }
}

/// Destroys nothing beyond what ib_uverbs does by itself.
///
/// # Safety
///
/// Called by ib_uverbs in a user command.
#[export]
pub(crate) unsafe extern "C" fn uverbs_destroy_def_handler(
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    0
}

/// Driver data without a user, to undo something.
///
/// # Safety
///
/// Called by ib_uverbs in a user command, with its bundle.
#[export]
pub(crate) unsafe extern "C" fn uverbs_get_cleared_udata(
    attrs: *mut bindings::uverbs_attr_bundle,
) -> *mut bindings::ib_udata {
    // SAFETY: Promised by the caller.
    unsafe { bundle(attrs) }.map_or(null_mut(), AttrBundle::clear_driver_data)
}

/// Memory that lives until a command is over.
///
/// # Safety
///
/// Called in a user command, with its bundle.
#[export]
pub(crate) unsafe extern "C" fn _uverbs_alloc(
    bundle: *mut bindings::uverbs_attr_bundle,
    size: usize,
    flags: bindings::gfp_t,
) -> *mut c_void {
    // SAFETY: Promised by the caller.
    let bundle = unsafe { self::bundle(bundle) };
    match bundle.and_then(|b| b.alloc(size, Gfp::from_c(flags))) {
        Ok(memory) => memory.as_ptr().cast(),
        Err(e) => e.to_ptr(),
    }
}

/// Answers in an attribute.
///
/// # Safety
///
/// Called in a user command, with its bundle and `size` readable bytes at `from`.
#[export]
pub(crate) unsafe extern "C" fn uverbs_copy_to(
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (bundle, from) = unsafe { (bundle(attrs_bundle), KernelBytes::from_raw(from, size)) };
    to_errno(bundle.and_then(|b| uverbs::copy_to(b, attr_id(idx), from)))
}

/// Answers in an attribute, with zeros for the rest of it.
///
/// # Safety
///
/// As for [`uverbs_copy_to`].
#[export]
pub(crate) unsafe extern "C" fn uverbs_copy_to_struct_or_zero(
    bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (bundle, from) = unsafe { (self::bundle(bundle), KernelBytes::from_raw(from, size)) };
    to_errno(bundle.and_then(|b| uverbs::copy_to_or_zero(b, attr_id(idx), from)))
}

/// Reads an unsigned constant.
///
/// # Safety
///
/// Called in a user command, with its bundle, a writable `to`, and `def_val` null or readable.
#[export]
pub(crate) unsafe extern "C" fn _uverbs_get_const_unsigned(
    to: *mut u64,
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    upper_bound: u64,
    def_val: *mut u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (bundle, default) = unsafe { (bundle(attrs_bundle), def_val.as_ref().copied()) };
    match bundle.and_then(|b| uverbs::unsigned(b, attr_id(idx), upper_bound, default)) {
        Ok(value) => {
            // SAFETY: Promised by the caller.
            unsafe { *to = value };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Reads a signed constant.
///
/// # Safety
///
/// As for [`_uverbs_get_const_unsigned`].
#[export]
pub(crate) unsafe extern "C" fn _uverbs_get_const_signed(
    to: *mut i64,
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    lower_bound: i64,
    upper_bound: u64,
    def_val: *mut i64,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (bundle, default) = unsafe { (bundle(attrs_bundle), def_val.as_ref().copied()) };
    let id = attr_id(idx);
    match bundle.and_then(|b| uverbs::signed(b, id, lower_bound, upper_bound, default)) {
        Ok(value) => {
            // SAFETY: Promised by the caller.
            unsafe { *to = value };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Reads flags of up to 64 bits.
///
/// # Safety
///
/// Called in a user command, with its bundle and a writable `to`.
#[export]
pub(crate) unsafe extern "C" fn uverbs_get_flags64(
    to: *mut u64,
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    allowed_bits: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    let bundle = unsafe { bundle(attrs_bundle) };
    match bundle.and_then(|b| uverbs::flags(b, attr_id(idx), allowed_bits)) {
        Ok(flags) => {
            // SAFETY: Promised by the caller.
            unsafe { *to = flags };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Reads flags of up to 32 bits.
///
/// # Safety
///
/// As for [`uverbs_get_flags64`].
#[export]
pub(crate) unsafe extern "C" fn uverbs_get_flags32(
    to: *mut u32,
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    allowed_bits: u64,
) -> c_int {
    // SAFETY: Promised by the caller.
    let bundle = unsafe { bundle(attrs_bundle) };
    let flags = bundle
        .and_then(|b| uverbs::flags(b, attr_id(idx), allowed_bits))
        .and_then(|f| u32::try_from(f).map_err(|_| EINVAL));
    match flags {
        Ok(flags) => {
            // SAFETY: Promised by the caller.
            unsafe { *to = flags };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Reads a buffer descriptor.
///
/// # Safety
///
/// Called in a user command, with its bundle and a writable `desc`.
#[export]
pub(crate) unsafe extern "C" fn uverbs_get_buffer_desc(
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    attr_id: u16,
    desc: *mut bindings::ib_uverbs_buffer_desc,
) -> c_int {
    // SAFETY: Promised by the caller.
    let bundle = unsafe { bundle(attrs_bundle) };
    match bundle.and_then(|b| b.get(attr_id)?.buffer_desc()) {
        Ok(read) => {
            // SAFETY: Promised by the caller.
            unsafe { desc.write(read.into_raw()) };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// Notes that the hardware's part of a new object exists.
///
/// # Safety
///
/// Called in a user command, with its bundle.
#[export]
pub(crate) unsafe extern "C" fn uverbs_finalize_uobj_create(
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    idx: u16,
) {
    // SAFETY: Promised by the caller.
    if let Ok(bundle) = unsafe { bundle(attrs_bundle) } {
        bundle.mark_created(idx);
    }
}

/// Ties a mapping to its file.
///
/// # Safety
///
/// Called by ib_uverbs with fresh memory and the VMA of a verbs file, and a live entry or null.
#[export]
pub(crate) unsafe extern "C" fn rdma_umap_priv_init(
    priv_: *mut bindings::rdma_umap_priv,
    vma: *mut bindings::vm_area_struct,
    entry: *mut bindings::rdma_user_mmap_entry,
) {
    // SAFETY: Promised by the caller.
    unsafe { attach_umap(priv_, NewVma::from_raw(vma), NonNull::new(entry)) }
}

/// Maps device memory.
///
/// # Safety
///
/// Called by drivers while user space maps the file of `ucontext`, with page frames that are the
/// driver's to give, and a live entry or null.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_io(
    ucontext: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
    pfn: c_ulong,
    size: c_ulong,
    prot: bindings::pgprot_t,
    entry: *mut bindings::rdma_user_mmap_entry,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (context, vma) = unsafe { (MmapContext::from_raw(ucontext), NewVma::from_raw(vma)) };
    to_errno(mmap::map_io(
        context,
        vma,
        pfn,
        size,
        prot,
        NonNull::new(entry),
    ))
}

/// A reference to the entry at a page offset, or null.
///
/// # Safety
///
/// Called by drivers with a live context.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_get_pgoff(
    ucontext: *mut bindings::ib_ucontext,
    pgoff: c_ulong,
) -> *mut bindings::rdma_user_mmap_entry {
    // SAFETY: Promised by the caller.
    let context = unsafe { MmapContext::from_raw(ucontext) };
    mmap::get_pgoff(context, pgoff as u64).map_or(null_mut(), |e| e.into_raw().as_ptr())
}

/// A reference to the entry that a VMA maps, or null.
///
/// # Safety
///
/// Called by drivers while user space maps the file of `ucontext`.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_get(
    ucontext: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> *mut bindings::rdma_user_mmap_entry {
    // SAFETY: Promised by the caller.
    let (context, vma) = unsafe { (MmapContext::from_raw(ucontext), NewVma::from_raw(vma)) };
    mmap::get(context, vma).map_or(null_mut(), |e| e.into_raw().as_ptr())
}

/// Gives a reference up.
///
/// # Safety
///
/// Called with a reference of the caller's.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_put(
    entry: *mut bindings::rdma_user_mmap_entry,
) {
    if let Some(entry) = NonNull::new(entry) {
        // SAFETY: Promised by the caller.
        drop(unsafe { MmapEntry::from_raw(entry) });
    }
}

/// Keeps an entry from being mapped again, and gives the driver's reference up.
///
/// # Safety
///
/// Called by drivers with the reference that the insertion gave them, or null.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_remove(
    entry: *mut bindings::rdma_user_mmap_entry,
) {
    if let Some(entry) = NonNull::new(entry) {
        // SAFETY: Promised by the caller.
        unsafe { MmapEntry::from_raw(entry) }.remove();
    }
}

/// Offers `length` bytes to user space at a page offset of `min_pgoff..=max_pgoff`.
///
/// # Safety
///
/// Called by drivers with a live context and an entry of their own, or null.
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_insert_range(
    ucontext: *mut bindings::ib_ucontext,
    entry: *mut bindings::rdma_user_mmap_entry,
    length: usize,
    min_pgoff: u32,
    max_pgoff: u32,
) -> c_int {
    let insert = || {
        let entry = NonNull::new(entry).ok_or(EINVAL)?;
        let pages = mmap::pages(length)?;
        // SAFETY: Promised by the caller.
        let (context, entry) = unsafe {
            let context = MmapContext::from_raw(ucontext);
            (context, NewEntry::init(entry, context, pages))
        };
        mmap::insert(context, &entry, pages, min_pgoff, max_pgoff)
    };
    to_errno(insert())
}

/// Offers `length` bytes to user space at any page offset.
///
/// # Safety
///
/// As for [`rdma_user_mmap_entry_insert_range`].
#[export]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_insert(
    ucontext: *mut bindings::ib_ucontext,
    entry: *mut bindings::rdma_user_mmap_entry,
    length: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { rdma_user_mmap_entry_insert_range(ucontext, entry, length, 0, u32::MAX) }
}
