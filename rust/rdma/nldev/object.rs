// SPDX-License-Identifier: GPL-2.0

//! Tracked objects, as far as netlink shows them.
//!
//! The types here are views of the C structures. Their owners go on using the objects meanwhile,
//! so every field is read once, without a lock: a reply may show a state that never was as a
//! whole, but never memory that is gone. What an object points to (its PD, its context) is kept
//! by the object, whose owner waits for the [`Held`].

use core::{
    marker::PhantomData,
    mem::offset_of,
    ops::Deref, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use crate::{
    device::Device,
    netlink::{
        Addr,
        AttrWriter, //
    },
    restrack::{
        Entry,
        EntryRef,
        Found,
        Kind, //
    }, //
    stats::HwStats,
};

/// A type of tracked object.
///
/// # Safety
///
/// The type is transparent over the C structure `Raw`, which has an entry of kind `KIND` at the
/// offset `ENTRY`.
pub unsafe trait Object: Sized {
    /// The C structure.
    type Raw;
    /// What the entry stands for.
    const KIND: Kind;
    /// Where the entry is.
    const ENTRY: usize;
}

/// An object whose owner waits as long as this exists.
///
/// # Invariants
///
/// The entry is that of a `T`.
pub struct Held<T: Object>(EntryRef, PhantomData<T>);

impl<T: Object> Held<T> {
    fn new(entry: EntryRef) -> Option<Self> {
        // INVARIANT: The kind says what the entry is part of.
        (entry.kind() == Some(T::KIND)).then_some(Self(entry, PhantomData))
    }

    /// The object with the id `id`; `ENOENT` if there is none, or if it is on its way out.
    pub fn find(device: &Device, id: u32) -> Result<Self> {
        device
            .objects(T::KIND)
            .get(id)
            .and_then(Self::new)
            .ok_or(ENOENT)
    }

    /// The first object with an id of at least `start`. Those that drivers use for themselves
    /// count if `details` is set.
    pub fn next(device: &Device, start: u32, details: bool) -> Option<Self> {
        let table = device.objects(T::KIND).lock();
        let held = table
            .iter_from(start)
            .filter(|found| details || !found.details_only)
            .find_map(|Found { entry, .. }| entry.get());
        // The last reference may go with the result, which wakes somebody.
        drop(table);
        Self::new(held?)
    }

    /// All objects, one held at a time.
    pub fn all(device: &Device) -> impl Iterator<Item = Self> + '_ {
        let mut start = Some(0);
        core::iter::from_fn(move || {
            let held = Self::next(device, start?, true)?;
            start = held.id().checked_add(1);
            Some(held)
        })
    }

    /// The entry: id and owner.
    pub fn entry(&self) -> &Entry {
        &self.0
    }

    /// The id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether a process, not the kernel, made the object.
    pub fn is_user(&self) -> bool {
        !self.0.is_kernel()
    }
}

impl<T: Object> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the invariant the entry is part of a `T`, which lives as long as the entry
        // is held.
        unsafe { &*self.0.as_raw().byte_sub(T::ENTRY).cast() }
    }
}

macro_rules! object {
    ($(#[$doc:meta])* $name:ident($raw:ident) = $kind:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name(Opaque<bindings::$raw>);

        // SAFETY: Transparent, and `res` is the entry, of this kind.
        unsafe impl Object for $name {
            type Raw = bindings::$raw;
            const KIND: Kind = Kind::$kind;
            const ENTRY: usize = offset_of!(bindings::$raw, res);
        }

        impl $name {
            /// The C structure.
            pub fn as_raw(&self) -> *mut bindings::$raw {
                self.0.get()
            }
        }
    };
}

object! {
    /// A protection domain.
    Pd(ib_pd) = Pd
}
object! {
    /// A completion queue.
    Cq(ib_cq) = Cq
}
object! {
    /// A queue pair.
    Qp(ib_qp) = Qp
}
object! {
    /// A connection manager id.
    CmId(rdma_id_private) = CmId
}
object! {
    /// A memory region.
    Mr(ib_mr) = Mr
}
object! {
    /// A user's context.
    Ctx(ib_ucontext) = Ctx
}
object! {
    /// A statistics counter.
    Counter(rdma_counter) = Counter
}
object! {
    /// A shared receive queue.
    Srq(ib_srq) = Srq
}

/// Reads a field of an object once.
macro_rules! field {
    ($this:ident.$($field:tt)+) => {
        // SAFETY: The object lives as long as `self`. Others may write the field meanwhile; it is
        // a word or less, or told apart by the caller.
        unsafe { (&raw const (*$this.as_raw()).$($field)+).read_volatile() }
    };
}

/// The id of the object that a pointer leads to; [`None`] if it leads nowhere.
macro_rules! id_behind {
    ($ptr:expr, $($res:tt)+) => {{
        let ptr = $ptr;
        // SAFETY: What an object points to lives as long as the object, see the head of the file.
        (!ptr.is_null()).then(|| unsafe { (&raw const (*ptr).$($res)+.id).read_volatile() })
    }};
}

/// The id of the context of a user's object.
fn context_id(uobject: *const bindings::ib_uobject) -> Option<u32> {
    if uobject.is_null() {
        return None;
    }
    // SAFETY: A user's object keeps its handle until the reader is gone.
    let context = unsafe { (&raw const (*uobject).context).read_volatile() };
    id_behind!(context, res)
}

/// Adds what the driver has to tell of an object, if it has the operation.
fn fill<R>(
    op: Option<unsafe extern "C" fn(*mut bindings::sk_buff, *mut R) -> c_int>,
    object: *mut R,
    out: &mut AttrWriter<'_>,
) -> Option<Result> {
    // SAFETY: The object lives and is one of the driver's; the operation appends attributes.
    op.map(|op| to_result(unsafe { op(out.as_raw(), object) }))
}

/// Objects that the driver tells more of.
pub trait DriverDetails: Object {
    /// Adds the driver's own attributes, if it has any.
    fn put_driver(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result;
}

/// Objects that the driver can show as the hardware has them.
pub trait RawDetails: Object {
    /// Adds the raw context; `EINVAL` if the driver cannot.
    fn put_raw(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result;
}

macro_rules! driver_details {
    ($name:ident, $op:ident $(, $raw_op:ident)?) => {
        impl DriverDetails for $name {
            fn put_driver(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result {
                fill(device.ops().$op, self.as_raw(), out).unwrap_or(Ok(()))
            }
        }

        $(impl RawDetails for $name {
            fn put_raw(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result {
                fill(device.ops().$raw_op, self.as_raw(), out).unwrap_or(Err(EINVAL))
            }
        })?
    };
}

driver_details!(Qp, fill_res_qp_entry, fill_res_qp_entry_raw);
driver_details!(Cq, fill_res_cq_entry, fill_res_cq_entry_raw);
driver_details!(Mr, fill_res_mr_entry, fill_res_mr_entry_raw);
driver_details!(Srq, fill_res_srq_entry, fill_res_srq_entry_raw);

impl DriverDetails for CmId {
    fn put_driver(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result {
        // SAFETY: Only an address is computed.
        let id = unsafe { &raw mut (*self.as_raw()).id };
        fill(device.ops().fill_res_cm_id_entry, id, out).unwrap_or(Ok(()))
    }
}

/// What a driver reports of a queue pair.
pub struct QpState {
    /// The number of the other end.
    pub dest_qp_num: u32,
    /// The next sequence number to be received.
    pub rq_psn: u32,
    /// The next sequence number to be sent.
    pub sq_psn: u32,
    /// `enum ib_mig_state`.
    pub path_mig_state: u8,
    /// `enum ib_qp_state`.
    pub state: u8,
}

/// A type of queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QpType(bindings::ib_qp_type);

impl QpType {
    /// Its number in netlink messages.
    pub fn number(self) -> u8 {
        self.0 as u8
    }

    /// Whether it has exactly one other end.
    pub fn is_connected(self) -> bool {
        matches!(
            self.0,
            bindings::ib_qp_type_IB_QPT_RC | bindings::ib_qp_type_IB_QPT_UC
        )
    }

    /// Whether its path can migrate.
    pub fn can_migrate(self) -> bool {
        self.is_connected()
            || matches!(
                self.0,
                bindings::ib_qp_type_IB_QPT_XRC_INI | bindings::ib_qp_type_IB_QPT_XRC_TGT
            )
    }
}

impl Qp {
    /// The number.
    pub fn number(&self) -> u32 {
        field!(self.qp_num)
    }

    /// The port; 0 as long as it has none.
    pub fn port(&self) -> u32 {
        field!(self.port)
    }

    /// The type.
    pub fn kind(&self) -> QpType {
        QpType(field!(self.qp_type))
    }

    /// The id of the protection domain; an XRC target has none.
    pub fn pd_id(&self) -> Option<u32> {
        id_behind!(field!(self.pd), res)
    }

    /// Whether it receives from `srq`.
    pub fn uses_srq(&self, srq: &Srq) -> bool {
        core::ptr::eq(field!(self.srq), srq.as_raw())
    }

    /// Whether it is bound to `counter`.
    pub fn is_bound_to(&self, counter: &Counter) -> bool {
        core::ptr::eq(field!(self.counter), counter.as_raw())
    }

    /// Asks the driver. May sleep.
    pub fn query(&self) -> Result<QpState> {
        let mut attr: bindings::ib_qp_attr = pin_init::zeroed();
        let mut init: bindings::ib_qp_init_attr = pin_init::zeroed();
        // SAFETY: The object lives, and there is room for both results.
        to_result(unsafe { bindings::ib_query_qp(self.as_raw(), &mut attr, 0, &mut init) })?;
        Ok(QpState {
            dest_qp_num: attr.dest_qp_num,
            rq_psn: attr.rq_psn,
            sq_psn: attr.sq_psn,
            path_mig_state: attr.path_mig_state as u8,
            state: attr.qp_state as u8,
        })
    }
}

/// Bytes of a socket address of any family.
pub type Sockaddr = [u8; Addr::SIZE];

impl CmId {
    /// The port; 0 as long as it has none.
    pub fn port(&self) -> u32 {
        field!(self.id.port_num)
    }

    /// The number of the queue pair; 0 as long as it has none.
    pub fn qp_number(&self) -> u32 {
        field!(self.qp_num)
    }

    /// The type of the queue pair.
    pub fn qp_kind(&self) -> QpType {
        QpType(field!(self.id.qp_type))
    }

    /// The port space, `enum rdma_ucm_port_space`.
    pub fn port_space(&self) -> u32 {
        field!(self.id.ps)
    }

    /// `enum rdma_cm_state`.
    pub fn state(&self) -> u8 {
        field!(self.state) as u8
    }

    /// The address of this end, if it is bound. A change at the same time may show in part.
    pub fn source(&self) -> Option<Sockaddr> {
        // SAFETY: Only an address is computed.
        Self::address(unsafe { &raw const (*self.as_raw()).id.route.addr.src_addr })
    }

    /// The address of the other end, if there is one. As [`CmId::source`].
    pub fn destination(&self) -> Option<Sockaddr> {
        // SAFETY: Only an address is computed.
        Self::address(unsafe { &raw const (*self.as_raw()).id.route.addr.dst_addr })
    }

    fn address(at: *const bindings::__kernel_sockaddr_storage) -> Option<Sockaddr> {
        // SAFETY: The address is a field of an object that lives, of plain bytes.
        let bytes = unsafe { at.cast::<Sockaddr>().read_volatile() };
        // The first two bytes are the family, 0 if there is no address.
        (bytes.first_chunk::<2>() != Some(&[0, 0])).then_some(bytes)
    }
}

impl Cq {
    /// The number of entries.
    pub fn entries(&self) -> u32 {
        field!(self.cqe) as u32
    }

    /// How many objects use it.
    pub fn uses(&self) -> u64 {
        i64::from(field!(self.usecnt.counter)) as u64
    }

    /// How the kernel polls it, `enum ib_poll_context`.
    pub fn poll_context(&self) -> u8 {
        field!(self.poll_ctx) as u8
    }

    /// Whether it moderates itself.
    pub fn has_dim(&self) -> bool {
        !field!(self.dim).is_null()
    }

    /// The id of the user's context.
    pub fn context_id(&self) -> Option<u32> {
        let ucq = field!(self.uobject);
        if ucq.is_null() {
            return None;
        }
        // SAFETY: Only an address is computed.
        context_id(unsafe { &raw const (*ucq).uevent.uobject })
    }
}

impl Mr {
    /// The key for others.
    pub fn rkey(&self) -> u32 {
        field!(self.rkey)
    }

    /// The key for this end.
    pub fn lkey(&self) -> u32 {
        field!(self.lkey)
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        field!(self.length)
    }

    /// The id of the protection domain. One that is left waits for this reader.
    pub fn pd_id(&self) -> Option<u32> {
        id_behind!(field!(self.pd), res)
    }

    /// Adds the driver's statistics, if it has any.
    pub fn put_stats(&self, device: &Device, out: &mut AttrWriter<'_>) -> Result {
        fill(device.ops().fill_stat_mr_entry, self.as_raw(), out).unwrap_or(Ok(()))
    }
}

impl Pd {
    /// The key for all memory.
    pub fn local_dma_lkey(&self) -> u32 {
        field!(self.local_dma_lkey)
    }

    /// The key that gives others all memory, if the creator asked for it.
    pub fn unsafe_global_rkey(&self) -> Option<u32> {
        (field!(self.flags) & bindings::ib_pd_flags_IB_PD_UNSAFE_GLOBAL_RKEY != 0)
            .then(|| field!(self.unsafe_global_rkey))
    }

    /// How many objects use it.
    pub fn uses(&self) -> u64 {
        i64::from(field!(self.usecnt.counter)) as u64
    }

    /// The id of the user's context.
    pub fn context_id(&self) -> Option<u32> {
        context_id(field!(self.uobject))
    }
}

impl Srq {
    /// `enum ib_srq_type`.
    pub fn kind(&self) -> u8 {
        field!(self.srq_type) as u8
    }

    /// The id of the protection domain.
    pub fn pd_id(&self) -> Option<u32> {
        id_behind!(field!(self.pd), res)
    }

    /// The id of the completion queue, for the types that have one.
    pub fn cq_id(&self) -> Option<u32> {
        matches!(
            field!(self.srq_type),
            bindings::ib_srq_type_IB_SRQT_XRC | bindings::ib_srq_type_IB_SRQT_TM
        )
        .then(|| field!(self.ext.cq))
        .and_then(|cq| id_behind!(cq, res))
    }
}

/// How queue pairs get to a counter.
pub enum Binding {
    /// The core binds them, by these criteria.
    Auto {
        /// The type of queue pair, if that is a criterion.
        qp_type: Option<u8>,
        /// Whether the process is a criterion.
        by_process: bool,
    },
    /// In another way, `enum rdma_nl_counter_mode`.
    Other(u32),
}

impl Counter {
    /// The port.
    pub fn port(&self) -> u32 {
        field!(self.port)
    }

    /// The number that the driver gave it.
    pub fn number(&self) -> u32 {
        field!(self.id)
    }

    /// How queue pairs get to it.
    pub fn binding(&self) -> Binding {
        let mode = field!(self.mode.mode);
        if mode != bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO {
            return Binding::Other(mode);
        }
        let mask = field!(self.mode.mask);
        Binding::Auto {
            qp_type: (mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0)
                .then(|| field!(self.mode.param.qp_type) as u8),
            by_process: mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID != 0,
        }
    }

    /// Has the driver update the values. May sleep.
    #[inline]
    pub fn refresh(&self) -> Result {
        // SAFETY: The counter lives.
        to_result(unsafe { bindings::rdma_counter_query_stats(self.as_raw()) })
    }

    /// The values.
    pub fn values(&self) -> &HwStats {
        let stats = field!(self.stats);
        // SAFETY: A counter has its values as long as it lives.
        unsafe { HwStats::from_raw(stats) }
    }
}
