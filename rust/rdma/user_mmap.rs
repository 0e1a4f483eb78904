// SPDX-License-Identifier: GPL-2.0

//! Device memory that user space maps.
//!
//! A driver names a stretch of its memory by an entry, which user space maps through the offset
//! of the entry. Entries lie in an array of the user context, one slot for each page, under the
//! array's own lock. Mappings are chained on the verbs file under `umap_lock`, so that they can be
//! taken away when the device leaves.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    clist,
    gfp::Gfp,
    refcount::Kref,
    uverbs::UverbsFile,
    xarray::{
        Mark,
        Xa, //
    }, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    static_lock_class,
    types::Opaque, //
};

/// A mutex of a C structure, held.
struct MutexGuard(*mut bindings::mutex);

impl MutexGuard {
    /// # Safety
    ///
    /// `mutex` must be initialised and outlive the guard.
    unsafe fn lock(mutex: *mut bindings::mutex) -> Self {
        // SAFETY: Initialised by the contract.
        unsafe { bindings::mutex_lock(mutex) };
        Self(mutex)
    }
}

impl Drop for MutexGuard {
    fn drop(&mut self) {
        // SAFETY: Held by this guard.
        unsafe { bindings::mutex_unlock(self.0) }
    }
}

/// A user context, as far as mappings go.
///
/// # Invariants
///
/// Wraps a `struct ib_ucontext` whose file is open.
#[repr(transparent)]
pub struct MmapContext(Opaque<bindings::ib_ucontext>);

impl MmapContext {
    /// # Safety
    ///
    /// `context` must be live, with its file, for the whole of `'a`.
    pub unsafe fn from_raw<'a>(context: *mut bindings::ib_ucontext) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*context.cast() }
    }

    fn as_raw(&self) -> *mut bindings::ib_ucontext {
        self.0.get()
    }

    /// The file of the context.
    pub fn file(&self) -> &UverbsFile {
        // SAFETY: By the type invariant.
        unsafe { UverbsFile::from_raw((*self.as_raw()).ufile) }
    }

    fn xa(&self) -> *mut bindings::xarray {
        // SAFETY: Field address within a live context.
        unsafe { &raw mut (*self.as_raw()).mmap_xa }
    }

    fn entries(&self) -> &Xa<bindings::rdma_user_mmap_entry> {
        // SAFETY: Set up with the context; drivers put entries of this type there only.
        unsafe { Xa::from_raw(self.xa()) }
    }

    /// Calls `f` under the lock of the array.
    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: The array is set up with the context.
        unsafe { bindings::xa_lock(self.xa()) };
        let result = f();
        // SAFETY: Locked above.
        unsafe { bindings::xa_unlock(self.xa()) };
        result
    }

    /// Keeps others from adding entries, so that a search and what follows it are one.
    pub fn lock_layout(&self) -> Layout<'_> {
        // SAFETY: The mutex is set up with the file.
        let guard = unsafe { MutexGuard::lock(&raw mut (*self.file().as_raw()).umap_lock) };
        Layout {
            context: self,
            _guard: guard,
        }
    }

    /// A reference to the entry that starts at the page offset `pgoff`, if it can still be
    /// mapped.
    pub fn get(&self, pgoff: u32) -> Option<MmapEntry> {
        let found = self.locked(|| {
            let entry = self.entries().load(pgoff as usize)?;
            // SAFETY: Entries leave the array under its lock before they are freed.
            unsafe {
                let raw = entry.as_ptr();
                let usable = (*raw).start_pgoff == pgoff as c_ulong && !(*raw).driver_removed;
                (usable && Kref::from_raw(&raw mut (*raw).ref_).get_unless_zero()).then_some(entry)
            }
        });
        // INVARIANT: The reference was just taken.
        let entry = MmapEntry(found?);
        entry.debug(c"returned");
        Some(entry)
    }
}

/// The right to add entries to a context.
pub struct Layout<'a> {
    context: &'a MmapContext,
    _guard: MutexGuard,
}

impl Layout<'_> {
    /// Puts `entry` at the lowest free page offset of `min..=max`; `ENOMEM` when there is none.
    pub fn claim(&self, entry: &NewEntry, min: u32, max: u32) -> Result<u32> {
        self.context
            .entries()
            .alloc(entry.0.as_ptr(), min, max, Gfp::KERNEL)
            .map_err(|_| ENOMEM)
    }

    /// Puts `entry` at one more free page offset.
    pub fn extend(&self, entry: &NewEntry, at: u32) -> Result {
        self.context
            .entries()
            .insert(at as usize, entry.0, Gfp::KERNEL)
            .map_err(|_| ENOMEM)
    }

    /// The first page offset after the entry that lies at `from` or later, and where that entry
    /// is met.
    pub fn next_taken(&self, from: u32) -> Option<(u32, u64)> {
        let context = self.context;
        context.locked(|| {
            let (at, entry) = context.entries().find(from as usize, Mark::Present)?;
            // SAFETY: Entries leave the array under its lock before they are freed.
            let end = unsafe {
                let raw = entry.as_ptr();
                ((*raw).start_pgoff as u64).saturating_add((*raw).npages as u64)
            };
            Some((u32::try_from(at).ok()?, end.max(at as u64 + 1)))
        })
    }

    /// Takes `count` slots from `first` on away again.
    pub fn unclaim(&self, first: u32, count: u32) {
        for i in 0..count {
            self.context
                .entries()
                .erase((first as usize).saturating_add(i as usize));
        }
    }

    /// Lets user space find the entry, whose slots from `start` on are all in place.
    pub fn publish(&self, entry: &NewEntry, start: u32) {
        let raw = entry.0.as_ptr();
        self.context.locked(|| {
            // SAFETY: The entry is new; readers look at the field under the array's lock.
            unsafe { (*raw).start_pgoff = start as c_ulong }
        });
        debug(raw, c"inserted");
    }
}

/// An entry that is about to be put into a context.
///
/// # Invariants
///
/// Points at an entry that is set up, and that nobody can look up yet.
pub struct NewEntry(NonNull<bindings::rdma_user_mmap_entry>);

impl NewEntry {
    /// Sets the entry of a driver up, with one reference, for `pages` pages.
    ///
    /// # Safety
    ///
    /// `entry` must be writable, and the driver's own until the entry is published.
    pub unsafe fn init(
        entry: NonNull<bindings::rdma_user_mmap_entry>,
        context: &MmapContext,
        pages: u32,
    ) -> Self {
        let raw = entry.as_ptr();
        // SAFETY: Writable by the contract.
        unsafe {
            Kref::from_raw(&raw mut (*raw).ref_).init();
            clist::init(&raw mut (*raw).dmabufs);
            bindings::__mutex_init(
                &raw mut (*raw).dmabufs_lock,
                c"entry->dmabufs_lock".as_char_ptr(),
                static_lock_class!().as_ptr(),
            );
            (*raw).ucontext = context.as_raw();
            (*raw).npages = pages as usize;
            // No page offset that user space can ask for.
            (*raw).start_pgoff = c_ulong::MAX;
        }
        // INVARIANT: Set up, and in no array.
        Self(entry)
    }
}

/// A counted reference to an entry.
///
/// # Invariants
///
/// Owns one reference of a live entry.
pub struct MmapEntry(NonNull<bindings::rdma_user_mmap_entry>);

fn debug(entry: *mut bindings::rdma_user_mmap_entry, what: &CStr) {
    // SAFETY: The callers' entries are alive, as are their contexts.
    unsafe {
        bindings::rdma_mmap_dbg(
            (*entry).ucontext,
            (*entry).start_pgoff,
            (*entry).npages,
            what.as_char_ptr(),
        )
    }
}

impl MmapEntry {
    /// # Safety
    ///
    /// `entry` must be live, and its caller must give up one reference.
    pub unsafe fn from_raw(entry: NonNull<bindings::rdma_user_mmap_entry>) -> Self {
        // INVARIANT: Promised by the caller.
        Self(entry)
    }

    /// Leaves the reference to C.
    pub fn into_raw(self) -> NonNull<bindings::rdma_user_mmap_entry> {
        ManuallyDrop::new(self).0
    }

    fn debug(&self, what: &CStr) {
        debug(self.0.as_ptr(), what)
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        // SAFETY: Constant field of a live entry.
        unsafe { self.0.as_ref().npages }.saturating_mul(PAGE_SIZE)
    }

    /// Keeps the entry from being mapped again, and takes the dma-bufs made of it away from those
    /// that use them. May sleep until they are done.
    pub fn remove(&self) {
        let raw = self.0.as_ptr();
        // SAFETY: The entry is alive by the type invariant; the list is guarded by the mutex and
        // holds the files of ib_uverbs.
        unsafe {
            let _guard = MutexGuard::lock(&raw mut (*raw).dmabufs_lock);
            MmapContext::from_raw((*raw).ucontext).locked(|| (*raw).driver_removed = true);
            while let Some(link) = clist::first(&raw mut (*raw).dmabufs) {
                let file =
                    kernel::container_of!(link, bindings::ib_uverbs_dmabuf_file, dmabufs_elm);
                clist::remove(link);
                bindings::ib_uverbs_dmabuf_revoke(file);
            }
        }
    }
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        // SAFETY: The reference is owned by the type invariant.
        unsafe {
            if !Kref::from_raw(&raw mut (*raw).ref_).put_and_test() {
                return;
            }
            let context = MmapContext::from_raw((*raw).ucontext);
            // Only now may the offsets be used again: mappings are gone.
            let first = (*raw).start_pgoff;
            context.locked(|| {
                for i in 0..(*raw).npages {
                    bindings::__xa_erase(context.xa(), first.wrapping_add(i as c_ulong));
                }
            });
            debug(raw, c"removed");
            if let Some(free) = (*(*context.as_raw()).device).ops.mmap_free {
                free(raw);
            }
        }
    }
}

/// A mapping that user space is making.
///
/// # Invariants
///
/// Wraps a VMA that the current thread is about to map and holds locked for it.
#[repr(transparent)]
pub struct NewVma(Opaque<bindings::vm_area_struct>);

impl NewVma {
    /// # Safety
    ///
    /// `vma` must be the one that the current thread is mapping, during the whole of `'a`.
    pub unsafe fn from_raw<'a>(vma: *mut bindings::vm_area_struct) -> &'a Self {
        // SAFETY: Valid by the contract; the layout is transparent.
        unsafe { &*vma.cast() }
    }

    fn vma(&self) -> &kernel::mm::virt::VmaRef {
        // SAFETY: A live VMA, locked by the type invariant.
        unsafe { kernel::mm::virt::VmaRef::from_raw(self.0.get()) }
    }

    /// Whether others see what is written.
    pub fn is_shared(&self) -> bool {
        self.vma().flags() & bindings::VM_SHARED != 0
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.vma().end().wrapping_sub(self.vma().start())
    }

    /// Page offset in the file.
    pub fn pgoff(&self) -> u64 {
        // SAFETY: A live VMA.
        unsafe { (*self.0.get()).vm_pgoff as u64 }
    }

    /// The private data of the file that is mapped; null without a file.
    fn file_data(&self) -> *mut c_void {
        // SAFETY: A live VMA keeps its file.
        unsafe {
            let file = (*self.0.get()).vm_file;
            if file.is_null() {
                null_mut()
            } else {
                (*file).private_data
            }
        }
    }

    /// Whether this maps the verbs file `file`.
    pub fn maps(&self, file: &UverbsFile) -> bool {
        self.file_data() == file.as_raw().cast()
    }

    /// Maps the page frames from `pfn` on with protection `prot`; `EAGAIN` on any failure.
    pub fn map_io(&self, pfn: usize, prot: bindings::pgprot_t) -> Result {
        let raw = self.0.get();
        // SAFETY: A VMA that is being mapped, of this size; the driver vouches for the frames.
        unsafe {
            (*raw).vm_page_prot = prot;
            to_result(bindings::rdma_io_remap_pfn_range(
                raw,
                pfn as c_ulong,
                self.size() as c_ulong,
                prot,
            ))
            .map_err(|_| EAGAIN)
        }
    }
}

/// What ib_uverbs has to know of a mapping, `struct rdma_umap_priv`.
pub struct UmapPriv(KBox<bindings::rdma_umap_priv>);

impl UmapPriv {
    /// Memory for one mapping.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new(pin_init::zeroed(), GFP_KERNEL)?))
    }

    /// Chains the mapping on its file. ib_uverbs frees the memory when the VMA is closed.
    pub fn attach(self, vma: &NewVma, entry: Option<NonNull<bindings::rdma_user_mmap_entry>>) {
        // SAFETY: Fresh memory that is given away; the entry is alive, as its driver passes it.
        unsafe { attach_umap(KBox::into_raw(self.0), vma, entry) }
    }
}

/// Ties `private` to `vma`, with a reference to `entry`, and chains it on the file that is mapped.
///
/// # Safety
///
/// `private` must be writable, in no list, and stay until ib_uverbs frees it; `vma` must map a
/// verbs file; `entry` must be live.
pub unsafe fn attach_umap(
    private: *mut bindings::rdma_umap_priv,
    vma: &NewVma,
    entry: Option<NonNull<bindings::rdma_user_mmap_entry>>,
) {
    let file = vma.file_data().cast::<bindings::ib_uverbs_file>();
    // SAFETY: Promised by the caller.
    unsafe {
        (*private).vma = vma.0.get();
        if let Some(entry) = entry {
            Kref::from_raw(&raw mut (*entry.as_ptr()).ref_).get();
            (*private).entry = entry.as_ptr();
        }
        (*vma.0.get()).vm_private_data = private.cast();
        let _guard = MutexGuard::lock(&raw mut (*file).umap_lock);
        clist::push_front(&raw mut (*private).list, &raw mut (*file).umaps);
    }
}
