// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: which objects of a device exist, and who made them.
//!
//! Every tracked verbs object embeds an [`Entry`]. Its device has one [`Table`] per [`Kind`],
//! from ids to entries, which netlink dumps and the statistics counters read. A reader holds an
//! [`EntryRef`]; the owner of an object waits for all of them before it takes the object apart.
//!
//! C headers: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h),
//! [`drivers/infiniband/core/restrack.h`](srctree/drivers/infiniband/core/restrack.h)

mod table;

pub use self::table::{Found, Iter, Readers, Table, TableGuard, Tables};

use core::{
    mem::offset_of,
    ops::Deref,
    ptr::{self, NonNull}, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::aref::ARef,
    task::Task,
    types::Opaque, //
};

use crate::{
    completion::Completion,
    device::Device,
    refcount::Kref, //
};

/// The type of object that an entry is part of. The numbers are those of
/// `enum rdma_restrack_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Protection domain, `struct ib_pd`.
    Pd = bindings::rdma_restrack_type_RDMA_RESTRACK_PD,
    /// Completion queue, `struct ib_cq`.
    Cq = bindings::rdma_restrack_type_RDMA_RESTRACK_CQ,
    /// Queue pair, `struct ib_qp`.
    Qp = bindings::rdma_restrack_type_RDMA_RESTRACK_QP,
    /// Connection manager id, `struct rdma_id_private`.
    CmId = bindings::rdma_restrack_type_RDMA_RESTRACK_CM_ID,
    /// Memory region, `struct ib_mr`.
    Mr = bindings::rdma_restrack_type_RDMA_RESTRACK_MR,
    /// User context, `struct ib_ucontext`.
    Ctx = bindings::rdma_restrack_type_RDMA_RESTRACK_CTX,
    /// Statistics counter, `struct rdma_counter`.
    Counter = bindings::rdma_restrack_type_RDMA_RESTRACK_COUNTER,
    /// Shared receive queue, `struct ib_srq`.
    Srq = bindings::rdma_restrack_type_RDMA_RESTRACK_SRQ,
    /// DMA handle, `struct ib_dmah`.
    Dmah = bindings::rdma_restrack_type_RDMA_RESTRACK_DMAH,
    /// Completion counter, `struct ib_comp_cntr`.
    CompCntr = bindings::rdma_restrack_type_RDMA_RESTRACK_COMP_CNTR,
}

/// Where an object keeps its entry and its device.
struct Place {
    entry: usize,
    device: usize,
}

macro_rules! place {
    ($object:ident, $($device:ident).+) => {
        Place {
            entry: offset_of!(bindings::$object, res),
            device: offset_of!(bindings::$object, $($device).+),
        }
    };
}

impl Kind {
    /// Number of kinds, which is also the number of tables of a device.
    pub const COUNT: usize = bindings::rdma_restrack_type_RDMA_RESTRACK_MAX as usize;

    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; Self::COUNT] = [
        Kind::Pd,
        Kind::Cq,
        Kind::Qp,
        Kind::CmId,
        Kind::Mr,
        Kind::Ctx,
        Kind::Counter,
        Kind::Srq,
        Kind::Dmah,
        Kind::CompCntr,
    ];

    /// The kind with the number `raw`, if there is one.
    pub fn from_raw(raw: bindings::rdma_restrack_type) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw).ok()?).copied()
    }

    fn place(self) -> &'static Place {
        // A table, as the kernel's compilers make comparisons of a `match`.
        static PLACES: [Place; Kind::COUNT] = [
            place!(ib_pd, device),
            place!(ib_cq, device),
            place!(ib_qp, device),
            place!(rdma_id_private, id.device),
            place!(ib_mr, device),
            place!(ib_ucontext, device),
            place!(rdma_counter, device),
            place!(ib_srq, device),
            place!(ib_dmah, device),
            place!(ib_comp_cntr, device),
        ];
        &PLACES[self as usize]
    }
}

// `ALL` and `place` go by the numbers of the kinds.
const _: () = {
    let mut i = 0;
    while i < Kind::COUNT {
        assert!(Kind::ALL[i] as usize == i);
        i += 1;
    }
};

/// What decides the id of a queue pair's entry.
#[derive(Clone, Copy)]
pub struct QpIdentity {
    /// The queue pair number that the driver gave.
    pub number: u32,
    /// The port, 0 as long as the queue pair is not bound to one.
    pub port: u32,
    /// `enum ib_qp_type`.
    pub qp_type: bindings::ib_qp_type,
}

/// Who made an object.
pub enum Owner<'a> {
    /// A kernel module, by its name, if the creator told one.
    Kernel(Option<&'a CStr>),
    /// A process. [`None`] only after the object has left the tables.
    User(Option<&'a Task>),
}

/// The tracking state of one object, `struct rdma_restrack_entry`.
///
/// # Invariants
///
/// * The entry is part of an object of the type that `type` names, and that object's device pointer
///   is null or points to a device that outlives the object.
/// * An entry that a table refers to is alive, and `task`, if not null, is a task that the entry
///   holds a reference to.
/// * `kern_name`, if not null, is a string that stays valid and unchanged as long as the entry.
#[repr(transparent)]
pub struct Entry(Opaque<bindings::rdma_restrack_entry>);

// SAFETY: The fields that change while others can reach the entry are atomic or have a lock of
// their own; the rest belongs to the owner of the object, who is serialised by the callers.
unsafe impl Send for Entry {}

// SAFETY: As above.
unsafe impl Sync for Entry {}

impl Entry {
    /// Views a C entry.
    ///
    /// # Safety
    ///
    /// `ptr` points to an entry that satisfies the invariants of [`Entry`] for `'a`. Its owner
    /// frees it only after it has left the table again (`rdma_restrack_del()` or
    /// `rdma_restrack_commit_del()` have returned).
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_restrack_entry) -> &'a Self {
        // SAFETY: `Entry` is transparent, and the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C entry.
    pub fn as_raw(&self) -> *mut bindings::rdma_restrack_entry {
        self.0.get()
    }

    /// Prepares a new entry: one reference, for the owner, and nobody waiting.
    ///
    /// # Safety
    ///
    /// `ptr` points to zeroed memory or to an entry that is in no table and that nobody else uses.
    pub unsafe fn init(
        ptr: *mut bindings::rdma_restrack_entry,
        kind: bindings::rdma_restrack_type,
    ) {
        // SAFETY: The caller has the entry for itself.
        unsafe {
            bindings::init_completion(&raw mut (*ptr).comp);
            (&raw mut (*ptr).type_).write(kind);
            Entry::from_raw(ptr).refs().init();
        }
    }

    fn refs(&self) -> &Kref {
        // SAFETY: The counter lives as long as the entry.
        unsafe { Kref::from_raw(&raw mut (*self.as_raw()).kref) }
    }

    fn unused(&self) -> &Completion {
        // SAFETY: The completion lives as long as the entry and was initialised with it.
        unsafe { Completion::from_raw(&raw mut (*self.as_raw()).comp) }
    }

    /// What the entry is part of; [`None`] if no such kind exists.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_raw(self.raw_kind())
    }

    /// The number that names the kind, as the creator wrote it.
    pub fn raw_kind(&self) -> bindings::rdma_restrack_type {
        // SAFETY: The kind is written once, before the entry is shared.
        unsafe { (&raw const (*self.as_raw()).type_).read() }
    }

    /// The id under which users know the object.
    pub fn id(&self) -> u32 {
        // SAFETY: The id is written by the owner only, before a table refers to the entry.
        unsafe { (&raw const (*self.as_raw()).id).read() }
    }

    /// Sets the id. For the owner, while no table refers to the entry.
    pub fn set_id(&self, id: u32) {
        // SAFETY: The entry is alive; nobody reads the id of an entry that is in no table.
        unsafe { (&raw mut (*self.as_raw()).id).write(id) }
    }

    /// Whether the object has been added and not yet been deleted.
    pub fn is_valid(&self) -> bool {
        // SAFETY: Written by the owner only, and read by it or by the last one to drop a
        // reference, whom the reference count orders after the owner.
        unsafe { (&raw const (*self.as_raw()).valid).read() }
    }

    /// Tells whether the object counts as added. For the owner.
    pub fn set_valid(&self, valid: bool) {
        // SAFETY: As in `is_valid`.
        unsafe { (&raw mut (*self.as_raw()).valid).write(valid) }
    }

    /// Whether the object is to appear in its device's table.
    pub fn is_tracked(&self) -> bool {
        const NO_TRACK: u8 = 1 << 0;

        // SAFETY: The flag is set by the creator, before the entry is shared. Reading the byte
        // instead of using the accessor avoids a reference to the whole entry.
        let flags = unsafe {
            (&raw const (*self.as_raw())._bitfield_1)
                .cast::<u8>()
                .read()
        };
        flags & NO_TRACK == 0
    }

    /// Whether the kernel, not a process, made the object.
    pub fn is_kernel(&self) -> bool {
        // SAFETY: Written by the creator, before the entry is shared.
        !unsafe { (&raw const (*self.as_raw()).user).read() }
    }

    /// Who made the object.
    pub fn owner(&self) -> Owner<'_> {
        let ptr = self.as_raw();

        if self.is_kernel() {
            // SAFETY: Written by the creator, before the entry is shared.
            let name = unsafe { (&raw const (*ptr).kern_name).read() };
            // SAFETY: By the type invariants, the string lives as long as the entry.
            Owner::Kernel((!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) }))
        } else {
            // SAFETY: Written by the owner before it shares the entry and after the last reader
            // has gone.
            let task = unsafe { (&raw const (*ptr).task).read() };
            // SAFETY: By the type invariants, the entry holds a reference to the task. `Task` is
            // transparent.
            Owner::User(NonNull::new(task).map(|task| unsafe { task.cast::<Task>().as_ref() }))
        }
    }

    /// Makes the module `name` the creator.
    pub fn set_kernel_owner(&self, name: &'static CStr) {
        // SAFETY: The entry is alive and not shared yet. INVARIANT: the name lives forever.
        unsafe { (&raw mut (*self.as_raw()).kern_name).write(name.as_char_ptr()) }
    }

    /// Makes the process `task` the creator, in place of an earlier one.
    pub fn set_user_owner(&self, task: ARef<Task>) {
        self.put_task();
        let task = ARef::into_raw(task)
            .as_ptr()
            .cast::<bindings::task_struct>();
        // SAFETY: The entry is alive and not shared yet. INVARIANT: the reference moves in.
        unsafe {
            (&raw mut (*self.as_raw()).task).write(task);
            (&raw mut (*self.as_raw()).user).write(true);
        }
    }

    /// Drops the reference to the creating process, if there is one. For the owner or the last
    /// reader.
    pub fn put_task(&self) {
        // SAFETY: The entry is alive, and by contract nobody else uses the field now.
        let task = unsafe { (&raw mut (*self.as_raw()).task).replace(ptr::null_mut()) };

        if let Some(task) = NonNull::new(task) {
            // SAFETY: By the type invariants, the reference was the entry's, which forgot it.
            drop(unsafe { ARef::from_raw(task.cast::<Task>()) });
        }
    }

    /// The table of the device and kind that the entry belongs to. [`None`] if the kind is
    /// unknown or the object has no device.
    #[inline]
    pub fn table(&self) -> Option<&Table> {
        let kind = self.kind()?;
        let place = kind.place();

        // SAFETY: By the type invariants, the entry lies at this offset of an object that has its
        // device pointer at that one, and the device, which owns the tables, outlives the object.
        unsafe {
            let device = self
                .as_raw()
                .byte_sub(place.entry)
                .byte_add(place.device)
                .cast::<*mut bindings::ib_device>()
                .read();
            let device = NonNull::new(device)?;
            Some(Tables::of_device(Device::from_raw(device.as_ptr())).of(kind))
        }
    }

    /// The number and type of the queue pair that the entry is part of.
    pub fn qp_identity(&self) -> Option<QpIdentity> {
        if self.kind()? != Kind::Qp {
            return None;
        }

        let place = Kind::Qp.place();
        // SAFETY: By the type invariants, the entry is part of a queue pair, and these fields are
        // written before it is shared.
        unsafe {
            let qp = self
                .as_raw()
                .byte_sub(place.entry)
                .cast::<bindings::ib_qp>();
            Some(QpIdentity {
                number: (&raw const (*qp).qp_num).read(),
                port: (&raw const (*qp).port).read(),
                qp_type: (&raw const (*qp).qp_type).read(),
            })
        }
    }

    /// The id that the driver gave to the counter that the entry is part of.
    pub fn counter_id(&self) -> Option<u32> {
        if self.kind()? != Kind::Counter {
            return None;
        }

        let place = Kind::Counter.place();
        // SAFETY: By the type invariants, the entry is part of a counter, whose id is written
        // before it is shared.
        unsafe {
            let counter = self
                .as_raw()
                .byte_sub(place.entry)
                .cast::<bindings::rdma_counter>();
            Some((&raw const (*counter).id).read())
        }
    }

    /// Publishes the object, `rdma_restrack_add()`. May sleep.
    pub fn publish(&self) {
        // SAFETY: The entry is alive. By the contract of `from_raw`, it is withdrawn before it is
        // freed.
        unsafe { bindings::rdma_restrack_add(self.as_raw()) }
    }

    /// Takes the object back and waits for its readers, `rdma_restrack_del()`.
    pub fn withdraw(&self) {
        // SAFETY: The entry is alive.
        unsafe { bindings::rdma_restrack_del(self.as_raw()) }
    }

    /// Takes over the owner of `parent`, `rdma_restrack_parent_name()`.
    pub fn copy_owner(&self, parent: &Entry) {
        // SAFETY: Both entries are alive.
        unsafe { bindings::rdma_restrack_parent_name(self.as_raw(), parent.as_raw()) }
    }

    /// Takes a reference unless the last one is gone.
    pub fn get(&self) -> Option<EntryRef> {
        self.try_get().then(|| {
            // INVARIANT: The reference just taken is the guard's.
            EntryRef(NonNull::from(self))
        })
    }

    /// Takes a reference, which the caller gives back with [`Entry::put`], unless the last one is
    /// gone.
    pub fn try_get(&self) -> bool {
        self.refs().get_unless_zero()
    }

    /// Drops a reference that the caller has; tells whether it was the last one.
    pub fn put(&self) -> bool {
        self.refs().put_and_test()
    }

    /// Wakes the owner in [`Entry::wait_unused`]. For the one who dropped the last reference; the
    /// entry may be gone afterwards.
    pub fn signal_unused(&self) {
        self.unused().complete();
    }

    /// Sleeps until the last reference is gone.
    pub fn wait_unused(&self) {
        self.unused().wait();
    }

    /// Gives an entry without references the owner's one back.
    pub fn revive(&self) {
        self.unused().reinit();
        self.refs().init();
    }
}

/// A reader's hold on an entry: as long as it exists, the owner of the object waits before it
/// takes the object apart.
///
/// # Invariants
///
/// The entry is alive, and one of its references belongs to this value.
pub struct EntryRef(NonNull<Entry>);

// SAFETY: The reference count is atomic, and `Entry` is `Sync`.
unsafe impl Send for EntryRef {}

// SAFETY: `Entry` is `Sync`.
unsafe impl Sync for EntryRef {}

impl EntryRef {
    /// Takes over a reference that C code holds.
    ///
    /// # Safety
    ///
    /// `ptr` is an entry on which the caller holds a reference, which moves into the result.
    pub unsafe fn from_raw(ptr: NonNull<bindings::rdma_restrack_entry>) -> Self {
        // INVARIANT: The caller gives its reference away.
        Self(ptr.cast())
    }

    /// Hands the reference to C.
    pub fn into_raw(self) -> *mut bindings::rdma_restrack_entry {
        let ptr = self.as_raw();
        core::mem::forget(self);
        ptr
    }
}

impl Deref for EntryRef {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: By the type invariants, the entry is alive.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, there is a reference to drop; the entry is not used
        // after this.
        unsafe { bindings::rdma_restrack_put(self.as_raw()) };
    }
}

/// The current process as an owner.
pub fn current_task() -> ARef<Task> {
    ARef::from(&**current!())
}
