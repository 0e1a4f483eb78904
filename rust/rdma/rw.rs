// SPDX-License-Identifier: GPL-2.0

//! Contexts of the RDMA READ/WRITE API (`struct rdma_rw_ctx`): data mapped for DMA, and the work
//! requests that move it.
//!
//! The context is memory of the consumer. Its size is fixed by the header, what it holds is ours:
//! one of the operations below, as the tag says. Pointers between the parts of an operation are
//! only made when its work requests are chained, as the context then stays where it is until they
//! have completed.

mod memory;

pub use self::memory::{
    Bvecs,
    Entries,
    MappedBvec,
    MappedSg,
    OwnedSg,
    SgSource, //
};

use crate::{
    mr::{Access, Mr},
    mr_pool::{MrPool, PooledMr},
    object::{c_object, driver_op},
    qp::Qp,
};
use core::{
    marker::PhantomData,
    mem::size_of,
    ptr::{self, NonNull},
};
use kernel::{bindings, error::to_result, prelude::*};

c_object! {
    /// A context.
    pub struct Context(rdma_rw_ctx);
}

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Direction(bindings::dma_data_direction);

impl Direction {
    /// From the C constant.
    pub fn from_raw(raw: bindings::dma_data_direction) -> Self {
        Self(raw)
    }

    /// To the peer: RDMA WRITE.
    pub fn is_write(self) -> bool {
        self.0 == bindings::dma_data_direction::DMA_TO_DEVICE
    }

    /// From the peer: RDMA READ.
    pub fn is_read(self) -> bool {
        self.0 == bindings::dma_data_direction::DMA_FROM_DEVICE
    }
}

/// What moves the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opcode {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// RDMA READ that invalidates the local region.
    ReadWithInvalidate,
}

/// The peer's memory.
#[derive(Clone, Copy)]
pub struct Remote {
    /// Address, in terms of the key.
    pub addr: u64,
    /// Key.
    pub rkey: u32,
}

impl Remote {
    /// The memory after the first `bytes`.
    pub fn advanced(self, bytes: u64) -> Self {
        Self {
            addr: self.addr.wrapping_add(bytes),
            rkey: self.rkey,
        }
    }
}

/// A piece of local memory.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Bus address.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
}

fn sge(piece: Piece, lkey: u32) -> bindings::ib_sge {
    bindings::ib_sge {
        addr: piece.addr,
        length: piece.length,
        lkey,
    }
}

fn rdma_wr(opcode: Opcode, remote: Remote) -> bindings::ib_rdma_wr {
    let mut wr: bindings::ib_rdma_wr = pin_init::zeroed();
    wr.wr.opcode = match opcode {
        Opcode::Write => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
        Opcode::Read => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
        Opcode::ReadWithInvalidate => bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV,
    };
    wr.remote_addr = remote.addr;
    wr.rkey = remote.rkey;
    wr
}

/// One work request with one entry.
pub struct Single {
    sge: bindings::ib_sge,
    wr: bindings::ib_rdma_wr,
}

impl Single {
    /// Makes the request.
    pub fn new(piece: Piece, lkey: u32, opcode: Opcode, remote: Remote) -> Self {
        let mut wr = rdma_wr(opcode, remote);
        wr.wr.num_sge = 1;
        Self {
            sge: sge(piece, lkey),
            wr,
        }
    }

    /// The memory.
    pub fn piece(&self) -> Piece {
        Piece {
            addr: self.sge.addr,
            length: self.sge.length,
        }
    }
}

/// Work requests with several entries each.
pub struct Multi {
    sges: KVec<bindings::ib_sge>,
    wrs: KVec<bindings::ib_rdma_wr>,
    per_wr: u32,
    lkey: u32,
    opcode: Opcode,
    next: Remote,
}

impl Multi {
    /// Room for `count` pieces, `per_wr` of them in a request. May sleep.
    pub fn new(count: u32, per_wr: u32, lkey: u32, opcode: Opcode, remote: Remote) -> Result<Self> {
        let per_wr = per_wr.max(1);
        Ok(Self {
            sges: KVec::with_capacity(count as usize, GFP_KERNEL)?,
            wrs: KVec::with_capacity(count.div_ceil(per_wr) as usize, GFP_KERNEL)?,
            per_wr,
            lkey,
            opcode,
            next: remote,
        })
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: Piece) -> Result {
        // Within the capacity, so this allocates nothing.
        self.sges.push(sge(piece, self.lkey), GFP_KERNEL)?;
        let per_wr = self.per_wr as i32;
        match self.wrs.last_mut() {
            Some(wr) if wr.wr.num_sge < per_wr => wr.wr.num_sge += 1,
            _ => {
                let mut wr = rdma_wr(self.opcode, self.next);
                wr.wr.num_sge = 1;
                self.wrs.push(wr, GFP_KERNEL)?;
            }
        }
        self.next = self.next.advanced(piece.length.into());
        Ok(())
    }

    /// Number of requests.
    pub fn requests(&self) -> u32 {
        self.wrs.len() as u32
    }

    /// The memory.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.sges.iter().map(|sge| Piece {
            addr: sge.addr,
            length: sge.length,
        })
    }
}

/// A region that is registered for a request: invalidate (if it is still valid), register, move.
pub struct Registration {
    sge: bindings::ib_sge,
    wr: bindings::ib_rdma_wr,
    reg_wr: bindings::ib_reg_wr,
    inv_wr: Option<bindings::ib_send_wr>,
    mr: NonNull<bindings::ib_mr>,
}

impl Registration {
    /// Makes the requests for a region whose memory is mapped. `integrity` also moves protection
    /// information, of which `stripped` bytes do not go over the wire.
    pub fn new(
        mr: PooledMr<'_>,
        access: Access,
        opcode: Opcode,
        remote: Remote,
        integrity: bool,
        stripped: u32,
    ) -> Self {
        let raw = mr.as_raw();
        let mut reg_wr: bindings::ib_reg_wr = pin_init::zeroed();
        reg_wr.wr.opcode = if integrity {
            bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY
        } else {
            bindings::ib_wr_opcode_IB_WR_REG_MR
        };
        reg_wr.mr = raw;
        reg_wr.key = mr.lkey();
        reg_wr.access = access.bits();

        let mut wr = rdma_wr(opcode, remote);
        wr.wr.num_sge = 1;
        if opcode == Opcode::ReadWithInvalidate {
            wr.wr.ex.invalidate_rkey = mr.lkey();
        }
        let inv_wr = mr.needs_invalidation().then(|| {
            let mut wr: bindings::ib_send_wr = pin_init::zeroed();
            wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
            wr.ex.invalidate_rkey = mr.lkey();
            wr
        });
        let (iova, length) = mr.range();
        // A region's entry has 32 bits for its length.
        let piece = Piece {
            addr: iova,
            length: (length as u32).wrapping_sub(stripped),
        };
        Self {
            sge: sge(piece, mr.lkey()),
            wr,
            reg_wr,
            inv_wr,
            mr: mr.keep(),
        }
    }

    /// Number of requests.
    pub fn requests(&self) -> u32 {
        2 + u32::from(self.inv_wr.is_some())
    }

    /// Bytes that are moved.
    pub fn length(&self) -> u32 {
        self.sge.length
    }

    /// Gives the region a new key, now that it is going to be registered with it.
    fn renew_key(&mut self) {
        // SAFETY: The region is ours until it is put back.
        let mr = unsafe { Mr::from_raw(self.mr.as_ptr()) };
        let reads_and_invalidates =
            self.wr.wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
        mr.set_needs_invalidation(!reads_and_invalidates);
        mr.renew_key();
        self.reg_wr.key = mr.lkey();
        self.sge.lkey = mr.lkey();
    }

    /// Puts the region back.
    pub fn release(self, pool: MrPool<'_>) {
        // SAFETY: The region was kept by `new`.
        drop(unsafe { PooledMr::reclaim(pool, self.mr) });
    }
}

/// One request for a contiguous range of an IOMMU's addresses that stands for all the memory.
pub struct Iova {
    state: bindings::dma_iova_state,
    mapped: usize,
    single: Single,
}

/// What a context holds.
pub enum Operation {
    /// See [`Single`].
    Single(Single),
    /// See [`Multi`].
    Multi(Multi),
    /// Regions, and the list of the memory if that is ours.
    Registered(KVec<Registration>, Option<OwnedSg>),
    /// A region with protection information.
    Integrity(KVec<Registration>),
    /// See [`Iova`].
    Iova(Iova),
}

/// Payload of both kinds of registered contexts.
struct Registered {
    regs: KVec<Registration>,
    list: Option<OwnedSg>,
}

/// Tags in `rdma_rw_ctx.type`.
mod tag {
    pub(super) const SINGLE: u8 = 1;
    pub(super) const MULTI: u8 = 2;
    pub(super) const REGISTERED: u8 = 3;
    pub(super) const INTEGRITY: u8 = 4;
    pub(super) const IOVA: u8 = 5;
}

const _: () = {
    type Payload = bindings::rdma_rw_ctx__bindgen_ty_1;
    assert!(size_of::<Single>() <= size_of::<Payload>());
    assert!(size_of::<Multi>() <= size_of::<Payload>());
    assert!(size_of::<Registered>() <= size_of::<Payload>());
    assert!(size_of::<Iova>() <= size_of::<Payload>());
};

/// A pointer to the work request or the completion entry at the end of a chain.
#[derive(Clone, Copy)]
pub struct Tail {
    chain: *mut bindings::ib_send_wr,
    cqe: *mut bindings::ib_cqe,
}

impl Tail {
    /// Takes what a consumer passes: `chain` follows the context's requests if it is not null,
    /// else the last of these completes to `cqe`.
    ///
    /// # Safety
    ///
    /// Both must stay valid until the requests have completed.
    pub unsafe fn from_raw(cqe: *mut bindings::ib_cqe, chain: *mut bindings::ib_send_wr) -> Self {
        Self { chain, cqe }
    }
}

/// Work requests ready to be posted.
pub struct WrChain<'a>(*mut bindings::ib_send_wr, PhantomData<&'a Context>);

impl WrChain<'_> {
    /// The first request.
    pub fn as_raw(&self) -> *mut bindings::ib_send_wr {
        self.0
    }

    /// Posts the requests.
    pub fn post(self, qp: &Qp) -> Result {
        let mut bad = ptr::null();
        to_result(driver_op!(
            qp.device(),
            post_send(qp.as_raw(), self.0.cast_const(), &mut bad)
        )?)
    }
}

/// Links requests in the order in which they are added.
struct Linker {
    first: *mut bindings::ib_send_wr,
    last: *mut bindings::ib_send_wr,
}

impl Linker {
    fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    fn add(&mut self, wr: *mut bindings::ib_send_wr) {
        if self.last.is_null() {
            self.first = wr;
        } else {
            // SAFETY: A request of the context that is being chained.
            unsafe { (*self.last).next = wr };
        }
        self.last = wr;
    }
}

impl Context {
    fn payload<T>(&self) -> *mut T {
        // SAFETY: The context is valid; no reference is made.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// Stores an operation of `count` requests that move data. For the one who initialises.
    pub fn install(&self, operation: Operation, count: u32) {
        // SAFETY: The consumer has the context for itself, and the payload has room for each
        // kind, as asserted above, at the alignment of pointers.
        let tag = unsafe {
            match operation {
                Operation::Single(op) => {
                    self.payload::<Single>().write(op);
                    tag::SINGLE
                }
                Operation::Multi(op) => {
                    self.payload::<Multi>().write(op);
                    tag::MULTI
                }
                Operation::Registered(regs, list) => {
                    self.payload::<Registered>()
                        .write(Registered { regs, list });
                    tag::REGISTERED
                }
                Operation::Integrity(regs) => {
                    self.payload::<Registered>()
                        .write(Registered { regs, list: None });
                    tag::INTEGRITY
                }
                Operation::Iova(op) => {
                    self.payload::<Iova>().write(op);
                    tag::IOVA
                }
            }
        };
        // SAFETY: As above.
        unsafe {
            (*self.as_raw()).type_ = tag;
            (*self.as_raw()).nr_ops = count;
        }
    }

    fn tag(&self) -> u8 {
        // SAFETY: The consumer has the context for itself.
        unsafe { (*self.as_raw()).type_ }
    }

    /// Takes the operation out; `None` if the context holds none. For the one who destroys.
    pub fn take(&self) -> Option<Operation> {
        // SAFETY: The tag tells what `install` wrote, and it is read once, as the tag goes.
        let operation = unsafe {
            match self.tag() {
                tag::SINGLE => Operation::Single(self.payload::<Single>().read()),
                tag::MULTI => Operation::Multi(self.payload::<Multi>().read()),
                tag::REGISTERED => {
                    let op = self.payload::<Registered>().read();
                    Operation::Registered(op.regs, op.list)
                }
                tag::INTEGRITY => Operation::Integrity(self.payload::<Registered>().read().regs),
                tag::IOVA => Operation::Iova(self.payload::<Iova>().read()),
                _ => return None,
            }
        };
        // SAFETY: The consumer has the context for itself.
        unsafe { (*self.as_raw()).type_ = 0 };
        Some(operation)
    }

    /// Chains the requests; `None` if the context holds none. For the one who posts.
    pub fn chain(&self, tail: Tail) -> Option<WrChain<'_>> {
        let mut linker = Linker::new();
        // SAFETY: The tag tells what `install` wrote; the consumer has the context for itself,
        // and it stays where it is until the requests have completed.
        unsafe {
            match self.tag() {
                tag::SINGLE => chain_single(&mut *self.payload::<Single>(), &mut linker),
                tag::IOVA => chain_single(&mut (*self.payload::<Iova>()).single, &mut linker),
                tag::MULTI => {
                    let op = &mut *self.payload::<Multi>();
                    let mut entry = op.sges.as_mut_ptr();
                    for wr in op.wrs.iter_mut() {
                        wr.wr.sg_list = entry;
                        entry = entry.wrapping_add(wr.wr.num_sge as usize);
                        linker.add(&mut wr.wr);
                    }
                }
                tag::REGISTERED | tag::INTEGRITY => {
                    let op = &mut *self.payload::<Registered>();
                    for reg in op.regs.iter_mut() {
                        reg.renew_key();
                        reg.wr.wr.sg_list = &mut reg.sge;
                        if let Some(inv_wr) = &mut reg.inv_wr {
                            linker.add(inv_wr);
                        }
                        linker.add(&mut reg.reg_wr.wr);
                        linker.add(&mut reg.wr.wr);
                    }
                }
                _ => return None,
            }
        }
        if linker.last.is_null() {
            return None;
        }
        // SAFETY: The last request of the context.
        unsafe {
            let last = linker.last;
            (*last).next = tail.chain;
            if tail.chain.is_null() {
                (*last).__bindgen_anon_1.wr_cqe = tail.cqe;
                (*last).send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
            }
        }
        Some(WrChain(linker.first, PhantomData))
    }
}

fn chain_single(op: &mut Single, linker: &mut Linker) {
    op.wr.wr.sg_list = &mut op.sge;
    linker.add(&mut op.wr.wr);
}

/// How protection information is made and checked, as a consumer asks for it.
#[derive(Clone, Copy)]
pub struct SigAttrs<'a>(&'a bindings::ib_sig_attrs);

impl SigAttrs<'_> {
    /// Takes what a consumer passes.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid as long as this exists.
    pub unsafe fn from_raw(ptr: *const bindings::ib_sig_attrs) -> Self {
        // SAFETY: By the contract of this function.
        Self(unsafe { &*ptr })
    }

    /// Sets the attributes of an integrity region.
    pub fn copy_to(&self, mr: &Mr) {
        // SAFETY: An integrity region has attributes, and this one is ours.
        unsafe {
            let attrs = (*mr.as_raw()).sig_attrs;
            if !attrs.is_null() {
                attrs.write(*self.0);
            }
        }
    }

    /// Bytes of protection information that do not go over the wire.
    pub fn stripped_on_wire(&self, mr: &Mr) -> u32 {
        if self.0.wire.sig_type != bindings::ib_signature_type_IB_SIG_TYPE_NONE {
            return 0;
        }
        // SAFETY: As above; the driver has set the length when it mapped the memory.
        unsafe {
            let attrs = (*mr.as_raw()).sig_attrs;
            if attrs.is_null() {
                0
            } else {
                u32::try_from((*attrs).meta_length).unwrap_or(0)
            }
        }
    }
}
