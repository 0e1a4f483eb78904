// SPDX-License-Identifier: GPL-2.0

//! Entries of GID tables.
//!
//! An entry goes through three states, each with a type or a value of its own:
//!
//! * [`Draft`]: allocated, known to nobody but its owner;
//! * valid: published in a slot, which owns one reference; readers find it under RCU as an
//!   [`EntryView`] and may take references ([`GidAttr`]);
//! * retired: deleted, but somebody still holds a reference. No new references come from the table.
//!
//! The last reference may be put in any context. Then the entry moves to a work item, which
//! returns the slot, adds what found none meanwhile, and frees the memory after a grace period. An
//! entry holds its table and its RDMA device, so a reference that is put late, or never, finds both
//! in memory.

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering, Atomic};
use kernel::sync::{rcu, Arc, Refcount};
use kernel::types::Opaque;

use super::table::{GidTable, TableWriter};
use super::{Gid, GidAttr, GidType};
use crate::device::Device;
use crate::net::NetDevice;
use crate::port::roce;
use crate::rcu_box::RcuBox;
use crate::refcount::RefcountExt;

const VALID: u32 = 1;
const RETIRED: u32 = 2;

/// What keeps an entry's surroundings in memory.
struct Home {
    table: Arc<GidTable>,
    device: ARef<Device>,
}

/// An entry.
///
/// # Invariants
///
/// * Allocated by [`RcuBox`]; the count of `users` decides who may free it: the `Draft`, or
///   whoever brings the count to zero.
/// * `attr` is constant after publication, but for `ndev`, which is set to null on retirement.
/// * `home` is set until the count is zero.
/// * `netdev` and `context` belong to the draft, then to the writer of the table.
#[repr(C)]
pub(super) struct Entry {
    attr: Opaque<bindings::ib_gid_attr>,
    users: Refcount,
    state: Atomic<u32>,
    context: Opaque<*mut c_void>,
    netdev: Opaque<Option<RcuBox<ARef<NetDevice>>>>,
    home: Opaque<Option<Home>>,
    release: Opaque<bindings::work_struct>,
}

// SAFETY: The invariants name the owner of each field that is not atomic or constant.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

impl Entry {
    /// # Safety
    ///
    /// `attr` is that of an entry that is not freed during `'a`.
    unsafe fn from_attr<'a>(attr: *const bindings::ib_gid_attr) -> &'a Self {
        // SAFETY: The attributes are the first field, and `Entry` is `repr(C)`.
        unsafe { &*attr.cast() }
    }

    fn index(&self) -> usize {
        // SAFETY: Constant by the type invariant.
        usize::from(unsafe { (*self.attr.get()).index })
    }

    fn raw_ndev(&self) -> *mut bindings::net_device {
        // SAFETY: The field is read once; its writers store whole pointers.
        unsafe { (&raw const (*self.attr.get()).ndev).read_volatile() }
    }

    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        // SAFETY: `state` is a live atomic; a volatile read is a relaxed load of it.
        unsafe { ptr::from_ref(&self.state).cast::<u32>().read_volatile() == VALID }
    }

    /// Takes a reference, unless the last one is gone.
    #[inline]
    fn try_get(&self) -> Option<ARef<GidAttr>> {
        self.users.inc_not_zero().then(|| {
            // SAFETY: The reference was just counted, and the pointer is not null.
            unsafe { GidAttr::from_raw_owned(NonNull::new_unchecked(self.attr.get())) }
        })
    }

    /// Retires a valid entry, which is in a slot of the table of `writer`: from now on lookups fail.
    /// The reference of the slot is left to the caller.
    pub(super) fn retire(&self, hw: HwSlots) {
        self.state.store(RETIRED, ordering::Release);
        if hw == HwSlots::Driver {
            // SAFETY: Drafts with a slot of the driver were added through `add_gid`, so the driver
            // has this op and knows the context. The slot's reference keeps the device in memory.
            unsafe {
                let device = (*self.attr.get()).device;
                if let Some(del_gid) = (*device).ops.del_gid {
                    del_gid(self.attr.get(), self.context.get());
                }
            }
        }
        // SAFETY: The caller is the writer, so nobody else touches `netdev`.
        let netdev = unsafe { (*self.netdev.get()).take() };
        if netdev.is_some() {
            // SAFETY: The field is a live pointer that is accessed atomically. `Release` orders the
            // change of the state before it.
            unsafe { Atomic::from_ptr(&raw mut (*self.attr.get()).ndev) }
                .store(ptr::null_mut(), ordering::Release);
        }
        // Dropped after a grace period, in which readers may use what they have found.
        drop(netdev);
    }

    /// Puts a reference while the caller is the writer of the table.
    ///
    /// # Safety
    ///
    /// The caller owns a reference of `entry` and gives it away; `writer` is that of its table.
    pub(super) unsafe fn put_locked(entry: NonNull<Self>, writer: &TableWriter<'_>) {
        // SAFETY: The reference keeps the entry in memory.
        if unsafe { entry.as_ref() }.users.dec_and_test() {
            // SAFETY: That was the last reference.
            unsafe { Self::free(entry, writer) };
        }
    }

    /// Returns the slot and frees the entry.
    ///
    /// # Safety
    ///
    /// The count of `entry` is zero and nobody else saw that; `writer` is that of its table.
    unsafe fn free(entry: NonNull<Self>, writer: &TableWriter<'_>) {
        // SAFETY: The caller is the owner, so the entry is valid.
        let this = unsafe { entry.as_ref() };
        writer.release_slot(this.index(), entry);
        // SAFETY: The owner may take the field.
        let home = unsafe { (*this.home.get()).take() };
        // SAFETY: Entries are made by `RcuBox::into_raw`, and the count says that this is the last
        // owner.
        drop(unsafe { RcuBox::from_raw(entry) });
        // The table is kept by the writer's borrow, so this may at most release the device.
        drop(home);
    }

    /// # Safety
    ///
    /// Called by the work queue, with the work item of an entry whose last reference was put.
    unsafe extern "C" fn release(work: *mut bindings::work_struct) {
        // SAFETY: Only entries queue this function.
        let entry = unsafe { container_of!(Opaque::cast_from(work), Self, release) };
        let entry: *mut Self = entry.cast_mut();
        // SAFETY: The work item owns the entry, so `home` is set and nobody else uses it. The
        // clones keep table and device beyond the entry.
        let home = unsafe {
            (*(*entry).home.get())
                .as_ref()
                .map(|home| (home.table.clone(), home.device.clone()))
        };
        // SAFETY: As above; the number is constant.
        let port = unsafe { (*(*entry).attr.get()).port_num };
        if let Some((table, device)) = home {
            let mut writer = table.lock();
            // SAFETY: The count is zero, and this is the only owner.
            unsafe { Self::free(NonNull::new_unchecked(entry), &writer) };
            let wanted = writer.take_want();
            drop(writer);
            if wanted {
                roce::rescan_port(&device, port);
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: Nobody is left, and both fields are initialised. Usually they are empty by now.
        unsafe {
            ptr::drop_in_place(self.netdev.get());
            ptr::drop_in_place(self.home.get());
        }
    }
}

/// Takes another reference.
///
/// # Safety
///
/// `attr` is that of an entry, and the caller holds a reference.
#[inline]
pub unsafe fn hold(attr: *const bindings::ib_gid_attr) {
    // SAFETY: The reference keeps the entry in memory.
    unsafe { Entry::from_attr(attr) }.users.inc();
}

/// Puts a reference. Any context.
///
/// # Safety
///
/// `attr` is that of an entry, and the caller gives a reference away.
#[inline]
pub unsafe fn put(attr: *const bindings::ib_gid_attr) {
    // SAFETY: The reference keeps the entry in memory.
    let entry = unsafe { Entry::from_attr(attr) };
    if entry.users.dec_and_test() {
        // SAFETY: `ib_wq` exists as long as the core; the work item is initialised, and as that
        // was the last reference, it is queued once and then owns the entry.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int,
                bindings::ib_wq,
                entry.release.get(),
            );
        }
    }
}

/// The network device of an entry, as [`GidAttr::ndev`].
///
/// # Safety
///
/// `attr` is that of an entry, and the caller holds a reference and an RCU read lock during `'a`.
#[inline]
pub unsafe fn read_ndev<'a>(attr: *const bindings::ib_gid_attr) -> Result<&'a NetDevice> {
    // SAFETY: The reference keeps the entry in memory.
    let entry = unsafe { Entry::from_attr(attr) };
    // Retirement clears the pointer after it has changed the state, so a valid state seen after a
    // null pointer means that there never was a device.
    // SAFETY: The field is a live pointer that is accessed atomically.
    let ndev = unsafe { Atomic::from_ptr(&raw mut (*entry.attr.get()).ndev) };
    let ndev = ndev.load(ordering::Acquire);
    if !entry.is_valid() {
        return Err(EINVAL);
    }
    // SAFETY: The RCU read lock keeps the device in memory.
    unsafe { NetDevice::from_raw_opt(ndev) }.ok_or(ENODEV)
}

/// The driver's context of an entry.
///
/// # Safety
///
/// `attr` is that of an entry, and the caller holds a reference.
pub unsafe fn hw_context(attr: *const bindings::ib_gid_attr) -> *mut c_void {
    // SAFETY: The reference keeps the entry in memory; the driver writes the context in `add_gid`,
    // before others know the entry.
    unsafe { Entry::from_attr(attr).context.get().read() }
}

/// Who has to know about a GID.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum HwSlots {
    /// The table is all there is.
    None,
    /// The driver has ops to add and to delete GIDs.
    Driver,
}

/// A new entry that nobody knows yet.
///
/// # Invariants
///
/// Owns the entry, whose count is one.
pub struct Draft(NonNull<Entry>);

impl Draft {
    /// Makes an entry for slot `index` of the table of a port. May sleep.
    pub fn new(
        table: Arc<GidTable>,
        device: ARef<Device>,
        port_num: u32,
        index: u16,
        gid: &Gid,
        gid_type: GidType,
        netdev: Option<ARef<NetDevice>>,
    ) -> Result<Self> {
        let ndev = netdev
            .as_ref()
            .map_or(ptr::null_mut(), |netdev| netdev.as_raw());
        let netdev = match netdev {
            Some(netdev) => Some(RcuBox::new(netdev, GFP_KERNEL)?),
            None => None,
        };
        // SAFETY: The structure consists of numbers and pointers, and the union of bytes.
        let mut attr: bindings::ib_gid_attr = unsafe { core::mem::zeroed() };
        attr.ndev = ndev;
        attr.device = device.as_raw();
        // SAFETY: The layouts agree.
        attr.gid = unsafe { gid.as_raw().read() };
        attr.gid_type = gid_type.as_raw();
        attr.index = index;
        attr.port_num = port_num;

        let entry = RcuBox::into_raw(RcuBox::new(
            Entry {
                attr: Opaque::new(attr),
                users: Refcount::new(1),
                state: Atomic::new(RETIRED),
                context: Opaque::new(ptr::null_mut()),
                netdev: Opaque::new(netdev),
                home: Opaque::new(Some(Home { table, device })),
                release: Opaque::uninit(),
            },
            GFP_KERNEL,
        )?);
        // SAFETY: The work item does not move any more.
        unsafe {
            bindings::init_work_with_key(
                entry.as_ref().release.get(),
                Some(Entry::release),
                false,
                c"GID release".as_ptr().cast(),
                kernel::static_lock_class!().as_ptr(),
            );
        }
        // INVARIANT: The entry is new, and its count is one.
        Ok(Self(entry))
    }

    /// Tells the driver about the GID. On failure the driver does not know it.
    pub fn add_to_hw(&mut self) -> Result {
        // SAFETY: The draft owns the entry, and the entry holds the device.
        let entry = unsafe { self.0.as_ref() };
        // SAFETY: As above.
        let add_gid = unsafe { (*(*entry.attr.get()).device).ops.add_gid }.ok_or(EOPNOTSUPP)?;
        // SAFETY: The op takes the attributes and a place for its context.
        to_result(unsafe { add_gid(entry.attr.get(), entry.context.get()) })
    }

    /// Turns the draft into a valid entry; the caller, which publishes it, gets its reference.
    pub(super) fn validate(self) -> NonNull<Entry> {
        let entry = core::mem::ManuallyDrop::new(self).0;
        // SAFETY: The draft owned the entry.
        unsafe { entry.as_ref() }
            .state
            .store(VALID, ordering::Release);
        entry
    }

    /// The slot that the entry is made for.
    pub(super) fn index(&self) -> usize {
        // SAFETY: The draft owns the entry.
        unsafe { self.0.as_ref() }.index()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: The draft owns the entry and nobody else knows it.
        let home = unsafe { (*self.0.as_ref().home.get()).take() };
        // SAFETY: As above.
        let netdev = unsafe { (*self.0.as_ref().netdev.get()).take() };
        // SAFETY: As above; entries are made by `RcuBox::into_raw`.
        drop(unsafe { RcuBox::from_raw(self.0) });
        drop((netdev, home));
    }
}

/// A valid entry, found in its table under RCU.
///
/// The entry may be retired at any time; [`get`](Self::get) tells.
#[derive(Copy, Clone)]
pub struct EntryView<'g>(&'g Entry);

impl<'g> EntryView<'g> {
    pub(super) fn new(entry: &'g Entry) -> Self {
        Self(entry)
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        // SAFETY: Constant by the invariant of the entry.
        unsafe { Gid::read(&raw const (*self.0.attr.get()).gid) }
    }

    /// The type.
    pub fn gid_type(&self) -> GidType {
        // SAFETY: Constant by the invariant of the entry.
        GidType::from_raw(unsafe { (*self.0.attr.get()).gid_type }).unwrap_or(GidType::Ib)
    }

    /// Whether the network device of the entry is `netdev`; `None` stands for having none.
    pub fn is_of(&self, netdev: Option<&NetDevice>) -> bool {
        ptr::eq(
            self.0.raw_ndev().cast_const(),
            netdev
                .map_or(ptr::null_mut(), NetDevice::as_raw)
                .cast_const(),
        )
    }

    /// The network device, unless there is none or the entry was retired meanwhile.
    pub fn netdev(&self, _: &'g rcu::Guard) -> Option<&'g NetDevice> {
        // SAFETY: The guard protects the device.
        unsafe { NetDevice::from_raw_opt(self.0.raw_ndev()) }
    }

    /// Takes a reference; nothing if the last one was put meanwhile.
    #[inline]
    pub fn get(&self) -> Option<ARef<GidAttr>> {
        self.0.try_get()
    }

    /// How many references there are, for reports.
    pub fn users(&self) -> u32 {
        self.0.users.read()
    }
}
