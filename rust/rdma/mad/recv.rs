// SPDX-License-Identifier: GPL-2.0

//! Received datagrams.
//!
//! A [`Recv`] is one buffer, owned. It lies in a [`RecvQueue`] while the device may
//! write to it, and becomes a [`RecvChain`], which is what clients get as
//! `ib_mad_recv_wc`: a list of buffers, more than one if RMPP put them together.
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

use super::{
    send::DmaMapping,
    smp::{
        OpaSmp,
        Smp, //
    },
    verbs::{
        Ah,
        Qp,
        QpKind, //
    },
    wire::{
        vendor_oui,
        Header,
        RmppHeader, //
    },
    WorkCompletion,
};
use crate::{
    cleared::cleared,
    device::Device,
    gfp::Gfp, //
};
use core::{
    mem::{
        offset_of,
        size_of, //
    },
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListArc,
        ListLinks, //
    },
    new_spinlock_irq,
    prelude::*,
    sync::SpinLockIrq,
    types::Opaque, //
};

/// Bytes of a global route header, which precedes each datagram in memory.
pub const GRH_BYTES: usize = size_of::<bindings::ib_grh>();

/// One buffer.
///
/// # Invariants
///
/// `memory` is a global route header and a datagram. The pointers of `recv_wc` are
/// null or lead into the object or to a completion that outlives its use.
#[pin_data]
#[repr(C)]
struct Buffer {
    cqe: Opaque<bindings::ib_cqe>,
    wc: Opaque<bindings::ib_wc>,
    recv_wc: Opaque<bindings::ib_mad_recv_wc>,
    kind: Opaque<QpKind>,
    memory: KVec<u8>,
    #[pin]
    mapping: SpinLockIrq<Option<DmaMapping>>,
    #[pin]
    links: ListLinks,
}

// SAFETY: A buffer is used by its owner only.
unsafe impl Send for Buffer {}
// SAFETY: As above.
unsafe impl Sync for Buffer {}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Buffer { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Buffer { using ListLinks { self.links }; }
}

/// A buffer that nobody else uses.
///
/// # Invariants
///
/// There is no other count of the buffer.
pub struct Recv(ListArc<Buffer>);

impl Recv {
    /// A cleared buffer for a datagram of `mad_size` bytes.
    pub fn new(mad_size: usize, gfp: Gfp) -> Result<Self> {
        let size = mad_size.checked_add(GRH_BYTES).ok_or(EINVAL)?;
        let memory = cleared(size, gfp)?;
        let buffer = ListArc::pin_init(
            try_pin_init!(Buffer {
                cqe: Opaque::new(pin_init::zeroed()),
                wc: Opaque::new(pin_init::zeroed()),
                recv_wc: Opaque::new(bindings::ib_mad_recv_wc {
                    wc: core::ptr::null_mut(),
                    recv_buf: pin_init::zeroed(),
                    rmpp_list: pin_init::zeroed(),
                    mad_len: 0,
                    mad_seg_size: 0,
                }),
                kind: Opaque::new(QpKind::Gsi),
                memory,
                mapping <- new_spinlock_irq!(None),
                links <- ListLinks::new(),
            }? Error),
            gfp.flags(),
        )?;
        // INVARIANT: Just made.
        Ok(Self(buffer))
    }

    /// Bytes of the datagram's place.
    pub fn mad_size(&self) -> usize {
        self.0.memory.len().saturating_sub(GRH_BYTES)
    }

    /// The datagram.
    pub fn mad(&self) -> &[u8] {
        self.0.memory.get(GRH_BYTES..).unwrap_or(&[])
    }

    /// The datagram, to change.
    pub fn mad_mut(&mut self) -> &mut [u8] {
        let len = self.mad_size();
        // SAFETY: The memory is that long, and by the type invariant nobody else
        // uses the buffer.
        unsafe {
            core::slice::from_raw_parts_mut(self.0.memory.as_ptr().cast_mut().add(GRH_BYTES), len)
        }
    }

    /// The datagram as a directed-route packet.
    pub fn smp_mut(&mut self) -> Option<&mut Smp> {
        let mad = self.mad_mut();
        if mad.len() < size_of::<bindings::ib_smp>() {
            return None;
        }
        // SAFETY: The memory is large enough and exclusively borrowed.
        Some(unsafe { Smp::from_raw(mad.as_mut_ptr().cast()) })
    }

    /// The datagram as an Omni-Path directed-route packet.
    pub fn opa_smp_mut(&mut self) -> Option<&mut OpaSmp> {
        let mad = self.mad_mut();
        if mad.len() < size_of::<bindings::opa_smp>() {
            return None;
        }
        // SAFETY: The memory is large enough and exclusively borrowed.
        Some(unsafe { OpaSmp::from_raw(mad.as_mut_ptr().cast()) })
    }

    /// Global route header and datagram of another buffer, as far as they fit.
    pub fn copy_from(&mut self, other: &Recv) {
        let len = self.0.memory.len().min(other.0.memory.len());
        // SAFETY: Both are that long; the buffers differ, as both are exclusive.
        unsafe {
            core::ptr::copy_nonoverlapping(
                other.0.memory.as_ptr(),
                self.0.memory.as_ptr().cast_mut(),
                len,
            )
        }
    }

    /// The common header.
    pub fn header(&self) -> Option<Header> {
        Header::parse(self.mad())
    }

    /// The global route header; meaningful if the completion says so.
    pub fn grh_raw(&self) -> *const bindings::ib_grh {
        self.0.memory.as_ptr().cast()
    }

    /// An address handle to the sender, out of `port`. May sleep.
    pub fn reply_ah(
        &self,
        agent: &super::agent::AgentHead,
        completion: &WorkCompletion,
        port: u32,
    ) -> Result<Ah> {
        // SAFETY: Agent and completion are live; the route header is part of the
        // buffer.
        unsafe {
            Ah::from_raw(bindings::ib_create_ah_from_wc(
                agent.pd_raw(),
                completion.raw(),
                self.grh_raw(),
                port,
            ))
        }
    }

    /// Fills in what clients see: the completion and the sizes of the datagram.
    pub fn complete(&mut self, wc: &WorkCompletion, mad_len: usize, segment_size: usize) {
        let recv_wc = self.0.recv_wc.get();
        // SAFETY: By the type invariant nobody else uses the buffer.
        unsafe {
            *self.0.wc.get() = *wc.raw();
            (*recv_wc).wc = self.0.wc.get();
            (*recv_wc).mad_len = mad_len.try_into().unwrap_or(i32::MAX);
            (*recv_wc).mad_seg_size = segment_size;
            (*recv_wc).recv_buf.grh = self.grh_raw().cast_mut().cast();
            (*recv_wc).recv_buf.__bindgen_anon_1.mad = self.mad().as_ptr().cast_mut().cast();
        }
    }

    /// No global route header: the datagram has not been on a link.
    pub fn clear_grh(&mut self) {
        // SAFETY: By the type invariant nobody else uses the buffer.
        unsafe { (*self.0.recv_wc.get()).recv_buf.grh = core::ptr::null_mut() }
    }
}

/// The buffers that are posted to a queue pair.
#[pin_data]
pub struct RecvQueue {
    #[pin]
    posted: SpinLockIrq<Posted>,
}

struct Posted {
    list: List<Buffer>,
    count: u32,
}

impl RecvQueue {
    /// An empty queue.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            posted <- new_spinlock_irq!(Posted {
                list: List::new(),
                count: 0,
            }),
        })
    }

    /// Number of posted buffers.
    pub fn count(&self) -> u32 {
        self.posted.lock().count
    }

    /// Takes the buffer at `ptr` out, which nearly always is the first one.
    fn take(&self, ptr: *const Buffer) -> Option<Recv> {
        let mut posted = self.posted.lock();
        let mut cursor = posted.list.cursor_front();
        let mut found = None;
        while let Some(next) = cursor.peek_next() {
            if core::ptr::eq(&*next.arc(), ptr) {
                found = Some(next.remove());
                break;
            }
            cursor.move_next();
        }
        if found.is_some() {
            posted.count = posted.count.saturating_sub(1);
        }
        // INVARIANT: The list had the only count.
        found.map(Recv)
    }
}

/// What a completion queue of management queue pairs works for.
pub trait RecvContext: Send + Sync + 'static {
    /// The posted buffers of a queue pair.
    fn receives(&self, kind: QpKind) -> &RecvQueue;

    /// A datagram arrived. Called one at a time for each completion queue, from a
    /// work item.
    fn received(&self, kind: QpKind, recv: Recv, completion: &WorkCompletion);

    /// The port is going down: completions are of no interest.
    fn is_closing(&self) -> bool;
}

/// Serves a receive completion.
///
/// # Safety
///
/// Called by a completion queue made by `Cq::<C>::new`, with the entry of a buffer
/// that [`Qp::post_recv`] posted.
unsafe extern "C" fn recv_done<C: RecvContext>(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: By the invariant of `Cq` the context is a live `C`.
    let context = unsafe { &*(*cq).cq_context.cast::<C>() };
    // SAFETY: The entry is valid during the call, and nothing else writes it.
    let completion = unsafe { WorkCompletion::from_raw(wc) };
    // A failed receive means that the queue pair is in error or going away. Its
    // buffers stay in the queue until the port is closed.
    if context.is_closing() || !completion.is_success() {
        return;
    }
    // SAFETY: Kernel users' entries have a `wr_cqe`; by this function's contract it
    // is that of a buffer, which the context's queue keeps.
    let (buffer, kind) = unsafe {
        let cqe = (*wc).__bindgen_anon_1.wr_cqe;
        let buffer = cqe.byte_sub(offset_of!(Buffer, cqe)).cast::<Buffer>();
        (buffer, *(*buffer).kind.get())
    };
    let Some(recv) = context.receives(kind).take(buffer) else {
        return;
    };
    let mapping = recv.0.mapping.lock().take();
    drop(mapping);
    context.received(kind, recv, completion);
}

impl<C: RecvContext> Qp<C> {
    /// Posts a buffer. Any context.
    ///
    /// On an error the buffer is freed.
    pub fn post_recv(
        &self,
        device: &Device,
        context: &C,
        kind: QpKind,
        recv: Recv,
        lkey: u32,
    ) -> Result {
        let buffer = recv.0;
        let len = buffer.memory.len();
        let mapping = DmaMapping::new(
            device,
            buffer.memory.as_ptr().cast_mut(),
            len,
            bindings::dma_data_direction::DMA_FROM_DEVICE,
        )?;
        let mut sge: bindings::ib_sge = pin_init::zeroed();
        sge.addr = mapping.addr();
        sge.length = len.try_into()?;
        sge.lkey = lkey;
        *buffer.mapping.lock() = Some(mapping);
        // SAFETY: By the invariant of `Recv` nobody else uses the buffer yet.
        unsafe {
            (*buffer.cqe.get()).done = Some(recv_done::<C>);
            *buffer.kind.get() = kind;
        }
        let mut wr: bindings::ib_recv_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_cqe = buffer.cqe.get();
        wr.sg_list = &mut sge;
        wr.num_sge = 1;

        let ptr: *const Buffer = &*buffer;
        let queue = context.receives(kind);
        {
            let mut posted = queue.posted.lock();
            posted.list.push_back(buffer);
            posted.count = posted.count.saturating_add(1);
        }
        // SAFETY: The queue pair is live; drivers copy the request. The buffer is
        // kept by the context's queue until its completion or the end of the port.
        let ret = unsafe { bindings::ib_post_recv(self.as_raw(), &wr, core::ptr::null_mut()) };
        let ret = to_result(ret);
        if ret.is_err() {
            drop(queue.take(ptr));
        }
        ret
    }
}

/// What a client gets for a datagram, owned.
///
/// # Invariants
///
/// The pointer is the `recv_wc` of a buffer. Its `rmpp_list` holds the `recv_buf`
/// of that buffer first and of further ones, whose only counts belong to this
/// object.
pub struct RecvChain(NonNull<bindings::ib_mad_recv_wc>);

// SAFETY: The buffers are not used by anybody else.
unsafe impl Send for RecvChain {}
// SAFETY: As above; shared references only read.
unsafe impl Sync for RecvChain {}

/// A place for a segment in a chain, found by [`RecvChain::insert`].
pub struct Run {
    /// Number of the last segment that follows the new one without a gap.
    pub end: u32,
    /// RMPP header of that segment.
    pub last: RmppHeader,
}

fn buffer_of(buf: *mut bindings::list_head) -> *const Buffer {
    buf.wrapping_byte_sub(
        offset_of!(Buffer, recv_wc)
            + offset_of!(bindings::ib_mad_recv_wc, recv_buf)
            + offset_of!(bindings::ib_mad_recv_buf, list),
    )
    .cast_const()
    .cast()
}

impl RecvChain {
    /// A chain of one buffer.
    pub fn new(recv: Recv) -> Self {
        let raw = ListArc::into_raw(recv.0).cast_mut();
        // SAFETY: The buffer is live, and by the invariant of `Recv` it is ours.
        unsafe {
            let recv_wc = (*raw).recv_wc.get();
            let list = &raw mut (*recv_wc).rmpp_list;
            bindings::INIT_LIST_HEAD(list);
            bindings::list_add_tail(&raw mut (*recv_wc).recv_buf.list, list);
            // INVARIANT: The list has just this buffer.
            Self(NonNull::new_unchecked(recv_wc))
        }
    }

    /// Takes a chain back from C.
    ///
    /// # Safety
    ///
    /// `ptr` came from [`into_raw`](Self::into_raw), and its receiver gives it up.
    pub unsafe fn from_raw(ptr: NonNull<bindings::ib_mad_recv_wc>) -> Self {
        // INVARIANT: By this function's contract.
        Self(ptr)
    }

    /// Gives the chain to C.
    pub fn into_raw(self) -> *mut bindings::ib_mad_recv_wc {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    fn list(&self) -> *mut bindings::list_head {
        // SAFETY: Live by the type invariant.
        unsafe { &raw mut (*self.0.as_ptr()).rmpp_list }
    }

    fn first(&self) -> &Buffer {
        // SAFETY: By the type invariant the `recv_wc` is that of a live buffer.
        unsafe {
            &*self
                .0
                .as_ptr()
                .byte_sub(offset_of!(Buffer, recv_wc))
                .cast_const()
                .cast::<Buffer>()
        }
    }

    fn mad_of(buffer: &Buffer) -> &[u8] {
        buffer.memory.get(GRH_BYTES..).unwrap_or(&[])
    }

    /// The (first) datagram.
    pub fn mad(&self) -> &[u8] {
        Self::mad_of(self.first())
    }

    /// Its common header.
    pub fn header(&self) -> Option<Header> {
        Header::parse(self.mad())
    }

    /// Its RMPP header.
    pub fn rmpp(&self) -> Option<RmppHeader> {
        RmppHeader::parse(self.mad())
    }

    /// Its OUI.
    pub fn oui(&self) -> Option<[u8; 3]> {
        vendor_oui(self.mad())
    }

    /// The completion that it came with.
    pub fn completion(&self) -> &WorkCompletion {
        // SAFETY: Set by `Recv::complete`, or by `set_completion` to one that
        // outlives the use.
        unsafe { WorkCompletion::from_raw((*self.0.as_ptr()).wc) }
    }

    /// Source and destination GID of the global route header.
    pub fn gids(&self) -> Option<([u8; 16], [u8; 16])> {
        let bytes = self.first().memory.get(..GRH_BYTES)?;
        Some((
            bytes.get(8..24)?.try_into().ok()?,
            bytes.get(24..40)?.try_into().ok()?,
        ))
    }

    /// Replaces the length of the datagram that clients see.
    pub fn set_len(&mut self, len: usize) {
        // SAFETY: Live by the type invariant.
        unsafe { (*self.0.as_ptr()).mad_len = len.try_into().unwrap_or(i32::MAX) }
    }

    /// An address handle to the sender. May sleep.
    pub fn reply_ah(&self, agent: &super::agent::AgentHead) -> Result<Ah> {
        // SAFETY: Chain and agent are live; the route header is part of the buffer.
        unsafe {
            let grh = (*self.0.as_ptr()).recv_buf.grh;
            Ah::from_raw(bindings::ib_create_ah_from_wc(
                agent.pd_raw(),
                (*self.0.as_ptr()).wc,
                grh,
                agent.port(),
            ))
        }
    }

    /// Adds a segment in the order of segment numbers.
    ///
    /// Gives the segment back if the chain has that number.
    pub fn insert(&mut self, segment: RecvChain) -> core::result::Result<Run, RecvChain> {
        let number = segment.rmpp().map_or(0, |rmpp| rmpp.segment);
        let list = self.list();
        // SAFETY: By the type invariant these are the live buffers of the chain,
        // and the list ends where it began.
        unsafe {
            let mut before = (*list).prev;
            while before != list {
                let at = Self::segment_at(before);
                if at == number {
                    return Err(segment);
                }
                if at < number {
                    break;
                }
                before = (*before).prev;
            }
            if before == list {
                return Err(segment);
            }
            let buf = &raw mut (*segment.into_raw()).recv_buf.list;
            // INVARIANT: The list of the segment's own `recv_wc` is not used any
            // more; its buffer is part of this chain.
            bindings::list_add_tail(buf, (*before).next);

            let mut end = buf;
            while (*end).next != list
                && Self::segment_at((*end).next) == Self::segment_at(end).wrapping_add(1)
            {
                end = (*end).next;
            }
            let last = RmppHeader::parse(Self::mad_of(&*buffer_of(end)));
            Ok(Run {
                end: Self::segment_at(end),
                last: last.unwrap_or(RmppHeader {
                    version: 0,
                    kind: super::wire::RmppType::Other(0),
                    rtime_flags: 0,
                    status: super::wire::RmppStatus::NORMAL,
                    segment: 0,
                    paylen_newwin: 0,
                }),
            })
        }
    }

    /// # Safety
    ///
    /// `at` is the list node of a live buffer.
    unsafe fn segment_at(at: *mut bindings::list_head) -> u32 {
        // SAFETY: By this function's contract.
        let buffer = unsafe { &*buffer_of(at) };
        RmppHeader::parse(Self::mad_of(buffer)).map_or(0, |rmpp| rmpp.segment)
    }
}

impl Drop for RecvChain {
    fn drop(&mut self) {
        let list = self.list();
        // SAFETY: By the type invariant these are live buffers whose only counts
        // are ours. The next node is read before its buffer is freed; the head of
        // the list is part of the first buffer, which is freed last.
        unsafe {
            let head = core::ptr::from_ref(self.first());
            let mut node = (*list).next;
            while node != list {
                let next = (*node).next;
                let buffer = buffer_of(node);
                if buffer != head {
                    drop(ListArc::<Buffer>::from_raw(buffer));
                }
                node = next;
            }
            drop(ListArc::<Buffer>::from_raw(head));
        }
    }
}
