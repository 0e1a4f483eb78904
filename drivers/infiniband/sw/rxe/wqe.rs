// SPDX-License-Identifier: GPL-2.0

//! Work requests: from what consumers post to what the state machines execute.
//!
//! A request of user space is copied out of its ring once, and what is checked is the copy. A
//! request that cannot be executed is not dropped: it completes in its turn, with an error of its
//! own. A consumer in the kernel learns of it at once instead.

use crate::{
    abi::{
        self,
        Sge, //
    },
    ah::{
        AhCore,
        Destination, //
    },
    device::Rxe,
    ids::IdTable,
    mem::{
        Asker,
        Memory, //
    },
    mr::MrCore,
    mw::BindRequest,
    pd::PdId,
    proto::wr::{
        LocalOp,
        RecvWqe,
        RemoteAddr,
        SendOp,
        SendWqe,
        Status, //
    },
    sge::{
        self,
        Cursor,
        Local,
        MAX_SGE, //
    },
    wire::{
        ext::{
            Feth,
            Imm,
            Key, //
        },
        packet::SendEnd, //
    }, //
};
use kernel::{
    bindings,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    cpu_memory::Sink,
    mr::Access,
    provider::{
        self,
        RecvWr,
        SendWr, //
    },
    user_ring::Slot, //
};
use zerocopy::{
    FromBytes as _,
    IntoBytes as _, //
};

/// Most inline bytes that a queue pair can have.
pub(crate) const MAX_INLINE: u32 = 512;

/// Largest number of a queue pair.
const MAX_QPN: u32 = 0xff_ffff;

const _: () = assert!(MAX_INLINE as usize == MAX_SGE * size_of::<Sge>());

/// What a queue pair is for, as far as its requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Datagrams, and management datagrams.
    Ud,
}

/// What the requests of a send queue may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCaps {
    pub(crate) service: Service,
    /// Most scatter/gather entries.
    pub(crate) max_sge: u32,
    /// Most inline bytes.
    pub(crate) max_inline: u32,
    /// Every request makes a completion.
    pub(crate) signal_all: bool,
    /// The domain of the queue pair.
    pub(crate) pd: PdId,
}

impl SendCaps {
    /// Units of memory that each request needs for its entries or its inline bytes.
    pub(crate) fn units(&self) -> usize {
        let inline = (self.max_inline as usize).div_ceil(size_of::<Sge>());
        inline.max(self.max_sge as usize).max(1)
    }
}

/// Memory for the entries or the inline bytes of requests, made once and used again and again.
#[pin_data]
pub(crate) struct TailPool {
    units: usize,
    #[pin]
    spare: SpinLockIrq<KVVec<KVec<Sge>>>,
}

impl TailPool {
    /// Memory for `count` requests of `units` entries each. May sleep.
    pub(crate) fn new(count: u32, units: usize) -> Result<Arc<Self>> {
        let mut spare = KVVec::with_capacity(count as usize, GFP_KERNEL)?;
        for _ in 0..count {
            spare.push(
                KVec::from_elem(Sge::default(), units, GFP_KERNEL)?,
                GFP_KERNEL,
            )?;
        }
        Arc::pin_init(
            pin_init!(Self {
                units,
                spare <- new_spinlock_irq!(spare, "rxe_tails"),
            }),
            GFP_KERNEL,
        )
    }

    /// Memory for one more request, if there is any left.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Tail> {
        let memory = self.spare.lock().pop()?;
        Some(Tail {
            memory,
            home: self.clone(),
        })
    }

    /// Whether there is memory for one more request.
    pub(crate) fn has_some(&self) -> bool {
        !self.spare.lock().is_empty()
    }
}

/// Memory of one request. Dropping it gives it back.
pub(crate) struct Tail {
    memory: KVec<Sge>,
    home: Arc<TailPool>,
}

impl Tail {
    fn entries(&self, count: usize) -> &[Sge] {
        self.memory.get(..count).unwrap_or(&[])
    }

    fn entries_mut(&mut self, count: usize) -> Option<&mut [Sge]> {
        self.memory.get_mut(..count)
    }

    fn bytes(&self, len: usize) -> &[u8] {
        self.memory.as_bytes().get(..len).unwrap_or(&[])
    }

    fn bytes_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        self.memory.as_mut_bytes().get_mut(..len)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let memory = core::mem::replace(&mut self.memory, KVec::new());
        // There is room: it came from there.
        let _ = self.home.spare.lock().push_within_capacity(memory);
    }
}

/// What a send request acts on locally.
pub(crate) enum Payload {
    /// The bytes lie at so many places.
    Gather(usize),
    /// The bytes came with the request.
    Inline(usize),
    /// A region to be registered.
    Register {
        /// The region.
        mr: Arc<MrCore>,
        /// Its key from now on.
        key: Key,
        /// Its rights.
        access: Access,
        /// Address of its first byte.
        iova: u64,
    },
    /// A key to be invalidated.
    Invalidate(Key),
    /// A window to be bound.
    Bind(BindRequest),
}

/// The driver's part of a send request, until it retires.
pub(crate) struct SendLocal {
    tail: Tail,
    payload: Payload,
    destination: Option<Destination>,
    cursor: Cursor,
    /// The slot of a ring in user space.
    pub(crate) slot: Option<u32>,
}

impl SendLocal {
    /// Where a datagram goes.
    pub(crate) fn destination(&self) -> Option<&Destination> {
        self.destination.as_ref()
    }

    /// Copies the bytes of the message from `at` on, each piece also to `sink`. May sleep if
    /// [`Self::may_sleep`] says so.
    pub(crate) fn read(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        to: &mut [u8],
        sink: &mut impl Sink,
    ) -> Result<(), Status> {
        match self.payload {
            Payload::Gather(count) => {
                let list = self.tail.entries(count);
                Local { memory, pd, list }
                    .gather(&mut self.cursor, at, to, sink)
                    .map_err(|_| Status::LocProt)
            }
            Payload::Inline(len) => {
                let from = self.tail.bytes(len).get(at as usize..);
                let from = from.and_then(|from| from.get(..to.len()));
                to.copy_from_slice(from.ok_or(Status::LocQpOp)?);
                sink.take(to);
                Ok(())
            }
            _ => Err(Status::LocQpOp),
        }
    }

    /// Copies bytes that the peer sent to byte `at` of the message on. May sleep if
    /// [`Self::may_sleep`] says so.
    pub(crate) fn scatter(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        from: &[u8],
    ) -> Result<(), Status> {
        let Payload::Gather(count) = self.payload else {
            return Err(Status::LocQpOp);
        };
        let list = self.tail.entries(count);
        Local { memory, pd, list }
            .scatter(&mut self.cursor, at, from)
            .map_err(|_| Status::LocProt)
    }

    /// Whether [`Self::read`] and [`Self::scatter`] sleep.
    pub(crate) fn may_sleep(&self, memory: &Memory, pd: PdId) -> bool {
        match self.payload {
            Payload::Gather(count) => {
                let list = self.tail.entries(count);
                Local { memory, pd, list }.may_sleep()
            }
            _ => false,
        }
    }

    /// Executes a local operation.
    pub(crate) fn execute(&mut self, memory: &Memory, asker: Asker) -> Result<(), Status> {
        match &self.payload {
            Payload::Register {
                mr,
                key,
                access,
                iova,
            } => mr
                .register(asker.pd, *key, *access, *iova)
                .map_err(|_| Status::LocQpOp),
            Payload::Invalidate(key) => memory.invalidate(asker, *key).map_err(|_| Status::LocQpOp),
            Payload::Bind(request) => memory.bind(asker, request).map_err(|_| Status::MwBind),
            Payload::Gather(_) | Payload::Inline(_) => Err(Status::Fatal),
        }
    }
}

/// Options of a send request.
#[derive(Clone, Copy)]
struct Flags(u32);

impl Flags {
    const fn has(self, flag: bindings::ib_send_flags) -> bool {
        self.0 & flag as u32 != 0
    }
}

/// A request that was found to be fine, apart from its memory.
struct Parsed {
    op: SendOp,
    /// For the operations that have no entries.
    payload: Option<Payload>,
    destination: Option<Destination>,
    /// Length of a FLUSH, which has no local bytes.
    flush_len: Option<u32>,
}

impl Parsed {
    fn of(op: SendOp) -> Self {
        Self {
            op,
            payload: None,
            destination: None,
            flush_len: None,
        }
    }

    fn local(op: LocalOp, payload: Payload) -> Self {
        Self {
            payload: Some(payload),
            ..Self::of(SendOp::Local(op))
        }
    }
}

/// Whether an operation is offered on a service.
pub(crate) fn offered(service: Service, op: &SendOp) -> bool {
    match op {
        SendOp::Send(SendEnd::Invalidate(_)) => service == Service::Rc,
        SendOp::Send(_) | SendOp::Write { .. } => service != Service::Ud,
        SendOp::Datagram { .. } => service == Service::Ud,
        SendOp::Local(LocalOp::BindMw) => service != Service::Ud,
        SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::Local(_) => service == Service::Rc,
        SendOp::Invalid(_) => false,
    }
}

/// Whether the bytes of an operation may come with the request.
fn inline_allowed(op: &SendOp) -> bool {
    matches!(
        op,
        SendOp::Send(_)
            | SendOp::Datagram { .. }
            | SendOp::Write { .. }
            | SendOp::AtomicWrite { .. }
    )
}

/// Whether the length of a message fits the operation.
pub(crate) fn length_fits(op: &SendOp, len: u32) -> bool {
    const ATOMIC: u32 = 8;
    let aligned = |addr: &RemoteAddr| addr.va % u64::from(ATOMIC) == 0;
    match op {
        SendOp::CompareSwap { at, .. } | SendOp::FetchAdd { at, .. } => {
            len == ATOMIC && aligned(at)
        }
        SendOp::AtomicWrite { to } => len == ATOMIC && aligned(to),
        _ => len <= sge::MAX_LENGTH,
    }
}

/// A record from the parameters of a request.
fn record<T: zerocopy::FromBytes>(wr: &[u8]) -> Result<T, Status> {
    let (record, _) = T::read_from_prefix(wr).map_err(|_| Status::LocQpOp)?;
    Ok(record)
}

/// What a request of user space is to do.
fn parse_user(
    head: &abi::SendHead,
    service: Service,
    handles: &IdTable<AhCore>,
    pd: PdId,
) -> Result<Parsed, Status> {
    use bindings::*;
    let imm = Imm(head.ex.to_ne_bytes());
    let remote = || {
        record::<abi::RdmaWr>(&head.wr).map(|wr| RemoteAddr {
            va: wr.remote_addr,
            key: Key(wr.rkey),
        })
    };
    let atomic = || {
        let wr = record::<abi::AtomicWr>(&head.wr)?;
        let at = RemoteAddr {
            va: wr.remote_addr,
            key: Key(wr.rkey),
        };
        Ok((at, wr.compare_add, wr.swap))
    };
    #[expect(non_upper_case_globals, reason = "constants of C")]
    Ok(match head.opcode {
        ib_wr_opcode_IB_WR_SEND | ib_wr_opcode_IB_WR_SEND_WITH_IMM if service == Service::Ud => {
            let wr = record::<abi::DatagramWr>(&head.wr)?;
            if wr.remote_qpn > MAX_QPN {
                return Err(Status::LocQpOp);
            }
            let with_imm = head.opcode == ib_wr_opcode_IB_WR_SEND_WITH_IMM;
            let destination = if wr.ah_num != 0 {
                let ah = handles.get(wr.ah_num).ok_or(Status::LocQpOp)?;
                if ah.pd() != pd {
                    return Err(Status::LocQpOp);
                }
                Destination::Handle(ah)
            } else {
                Destination::of_user(&wr.av).ok_or(Status::LocQpOp)?
            };
            Parsed {
                destination: Some(destination),
                ..Parsed::of(SendOp::Datagram {
                    dest_qpn: wr.remote_qpn,
                    qkey: wr.remote_qkey,
                    imm: with_imm.then_some(imm),
                })
            }
        }
        ib_wr_opcode_IB_WR_SEND => Parsed::of(SendOp::Send(SendEnd::Plain)),
        ib_wr_opcode_IB_WR_SEND_WITH_IMM => Parsed::of(SendOp::Send(SendEnd::Imm(imm))),
        ib_wr_opcode_IB_WR_SEND_WITH_INV => {
            Parsed::of(SendOp::Send(SendEnd::Invalidate(Key(head.ex))))
        }
        ib_wr_opcode_IB_WR_RDMA_WRITE => Parsed::of(SendOp::Write {
            to: remote()?,
            imm: None,
        }),
        ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => Parsed::of(SendOp::Write {
            to: remote()?,
            imm: Some(imm),
        }),
        ib_wr_opcode_IB_WR_RDMA_READ => Parsed::of(SendOp::Read { from: remote()? }),
        ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
            let (at, compare, swap) = atomic()?;
            Parsed::of(SendOp::CompareSwap { at, compare, swap })
        }
        ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
            let (at, add, _) = atomic()?;
            Parsed::of(SendOp::FetchAdd { at, add })
        }
        ib_wr_opcode_IB_WR_ATOMIC_WRITE => Parsed::of(SendOp::AtomicWrite { to: remote()? }),
        ib_wr_opcode_IB_WR_FLUSH => {
            let wr = record::<abi::FlushWr>(&head.wr)?;
            Parsed {
                flush_len: Some(wr.length),
                ..Parsed::of(SendOp::Flush {
                    at: RemoteAddr {
                        va: wr.remote_addr,
                        key: Key(wr.rkey),
                    },
                    how: flush_kind(wr.placement, wr.level).ok_or(Status::LocQpOp)?,
                })
            }
        }
        ib_wr_opcode_IB_WR_LOCAL_INV => {
            Parsed::local(LocalOp::LocalInvalidate, Payload::Invalidate(Key(head.ex)))
        }
        ib_wr_opcode_IB_WR_BIND_MW => {
            let wr = record::<abi::BindWr>(&head.wr)?;
            let request = BindRequest {
                window: Key(wr.mw_rkey),
                new_key: Key(wr.rkey),
                region: Key(wr.mr_lkey),
                addr: wr.addr,
                length: wr.length,
                access: Access::from_bits(wr.access as i32),
            };
            Parsed::local(LocalOp::BindMw, Payload::Bind(request))
        }
        // Fast registration is for consumers in the kernel: its parameter is a pointer.
        _ => return Err(Status::LocQpOp),
    })
}

/// The header of a FLUSH from placement and selectivity as verbs number them.
fn flush_kind(placement: u8, level: u8) -> Option<Feth> {
    const GLOBAL: u8 = 1;
    const PERSISTENT: u8 = 2;
    let known = placement != 0 && placement & !(GLOBAL | PERSISTENT) == 0 && level <= 1;
    known.then_some(Feth {
        global: placement & GLOBAL != 0,
        persistent: placement & PERSISTENT != 0,
        whole_region: level == 1,
    })
}

/// Copies and checks the memory of a request of user space; returns it with the length.
fn user_payload(
    slot: &Slot<'_>,
    head: &abi::SendHead,
    caps: &SendCaps,
    op: &SendOp,
    tail: &mut Tail,
) -> Result<(Payload, u32), Status> {
    const AT: usize = size_of::<abi::SendHead>();
    if Flags(head.flags).has(bindings::ib_send_flags_IB_SEND_INLINE) && inline_allowed(op) {
        let len = head.dma.length;
        if len > caps.max_inline {
            return Err(Status::LocQpOp);
        }
        // Whole units; what follows the message in the last one is never used.
        let units = (len as usize).div_ceil(size_of::<Sge>());
        let to = tail.entries_mut(units).ok_or(Status::LocQpOp)?;
        slot.read_slice(AT, to).map_err(|_| Status::LocQpOp)?;
        return Ok((Payload::Inline(len as usize), len));
    }
    if matches!(op, SendOp::AtomicWrite { .. }) {
        // The library puts the eight bytes where entries would be, flag or not.
        let to = tail.entries_mut(1).ok_or(Status::LocQpOp)?;
        slot.read_slice(AT, to).map_err(|_| Status::LocQpOp)?;
        return Ok((Payload::Inline(8), head.dma.length));
    }
    let count = head.dma.num_sge;
    if count > caps.max_sge {
        return Err(Status::LocQpOp);
    }
    let list = tail.entries_mut(count as usize).ok_or(Status::LocQpOp)?;
    slot.read_slice(AT, list).map_err(|_| Status::LocQpOp)?;
    let len = sge::total(list).ok_or(Status::LocLen)?;
    Ok((Payload::Gather(count as usize), len))
}

/// A request of user space, from its slot.
///
/// The slot is read here and nowhere else, and only once.
pub(crate) fn send_from_user(
    slot: &Slot<'_>,
    caps: &SendCaps,
    handles: &IdTable<AhCore>,
    mut tail: Tail,
) -> SendWqe<SendLocal> {
    let index = slot.index();
    let head = slot.read::<abi::SendHead>(0);
    let parsed = head.as_ref().map_err(|_| Status::LocQpOp).and_then(|head| {
        let mut parsed = parse_user(head, caps.service, handles, caps.pd)?;
        if !offered(caps.service, &parsed.op) {
            return Err(Status::LocQpOp);
        }
        let (payload, len) = match (parsed.payload.take(), parsed.flush_len) {
            (Some(payload), _) => (payload, 0),
            (None, Some(len)) => (Payload::Gather(0), len),
            (None, None) => user_payload(slot, head, caps, &parsed.op, &mut tail)?,
        };
        if !length_fits(&parsed.op, len) {
            return Err(Status::LocQpOp);
        }
        Ok((parsed, payload, len))
    });
    let (wr_id, flags) = head.map_or((0, 0), |head| (head.wr_id, head.flags));
    let (op, destination, payload, len) = match parsed {
        Ok((parsed, payload, len)) => (parsed.op, parsed.destination, payload, len),
        Err(status) => (SendOp::Invalid(status), None, Payload::Gather(0), 0),
    };
    make_wqe(
        wr_id,
        op,
        len,
        Flags(flags),
        caps,
        SendLocal {
            tail,
            payload,
            destination,
            cursor: Cursor::new(),
            slot: Some(index),
        },
    )
}

fn make_wqe(
    wr_id: u64,
    op: SendOp,
    len: u32,
    flags: Flags,
    caps: &SendCaps,
    local: SendLocal,
) -> SendWqe<SendLocal> {
    SendWqe {
        wr_id,
        op,
        len,
        signaled: caps.signal_all || flags.has(bindings::ib_send_flags_IB_SEND_SIGNALED),
        solicited: flags.has(bindings::ib_send_flags_IB_SEND_SOLICITED),
        fence: flags.has(bindings::ib_send_flags_IB_SEND_FENCE),
        local,
    }
}

/// The driver's part of a receive request.
pub(crate) struct RecvLocal {
    tail: Tail,
    count: usize,
    cursor: Cursor,
}

impl RecvLocal {
    /// Copies bytes to byte `at` of the message on. May sleep if [`Self::may_sleep`] says so.
    pub(crate) fn scatter(
        &mut self,
        memory: &Memory,
        pd: PdId,
        at: u32,
        from: &[u8],
    ) -> Result<(), Status> {
        let list = self.tail.entries(self.count);
        Local { memory, pd, list }
            .scatter(&mut self.cursor, at, from)
            .map_err(|_| Status::LocProt)
    }

    /// Whether [`Self::scatter`] sleeps.
    pub(crate) fn may_sleep(&self, memory: &Memory, pd: PdId) -> bool {
        let list = self.tail.entries(self.count);
        Local { memory, pd, list }.may_sleep()
    }
}

/// What a request of a consumer in the kernel is to do, and what it acts on where that are no
/// entries. `EINVAL` if it cannot be executed.
fn parse_kernel(wr: &SendWr<'_, Rxe>, caps: &SendCaps) -> Result<Parsed> {
    let remote = |va, rkey| RemoteAddr { va, key: Key(rkey) };
    let imm = |data: u32| Imm(data.to_ne_bytes());
    let datagram = |data: Option<u32>| {
        let target = wr.target().ok_or(EINVAL)?;
        let ah = target.ah.inner();
        if ah.pd() != caps.pd || target.qp > MAX_QPN {
            return Err(EINVAL);
        }
        Ok(Parsed {
            destination: Some(Destination::Handle(ah)),
            ..Parsed::of(SendOp::Datagram {
                dest_qpn: target.qp,
                qkey: target.qkey,
                imm: data.map(imm),
            })
        })
    };
    let datagrams = caps.service == Service::Ud;
    let parsed = match wr.op() {
        provider::SendOp::Send if datagrams => datagram(None)?,
        provider::SendOp::SendImm(data) if datagrams => datagram(Some(data))?,
        provider::SendOp::Send => Parsed::of(SendOp::Send(SendEnd::Plain)),
        provider::SendOp::SendImm(data) => Parsed::of(SendOp::Send(SendEnd::Imm(imm(data)))),
        provider::SendOp::SendInvalidate(key) => {
            Parsed::of(SendOp::Send(SendEnd::Invalidate(Key(key))))
        }
        provider::SendOp::RdmaWrite {
            remote_addr,
            rkey,
            imm: data,
        } => Parsed::of(SendOp::Write {
            to: remote(remote_addr, rkey),
            imm: data.map(imm),
        }),
        provider::SendOp::RdmaRead {
            remote_addr,
            rkey,
            invalidate: None,
        } => Parsed::of(SendOp::Read {
            from: remote(remote_addr, rkey),
        }),
        provider::SendOp::CompareSwap(atomic) => Parsed::of(SendOp::CompareSwap {
            at: remote(atomic.remote_addr, atomic.rkey),
            compare: atomic.compare_add,
            swap: atomic.swap,
        }),
        provider::SendOp::FetchAdd(atomic) => Parsed::of(SendOp::FetchAdd {
            at: remote(atomic.remote_addr, atomic.rkey),
            add: atomic.compare_add,
        }),
        provider::SendOp::LocalInvalidate(key) => {
            Parsed::local(LocalOp::LocalInvalidate, Payload::Invalidate(Key(key)))
        }
        provider::SendOp::RegisterMr { mr, key, access } => {
            let (iova, _) = mr.core().range();
            let register = Payload::Register {
                mr: mr.mr().clone(),
                key: Key(key),
                access,
                iova,
            };
            Parsed::local(LocalOp::RegMr, register)
        }
        _ => return Err(EINVAL),
    };
    if !offered(caps.service, &parsed.op) {
        return Err(EINVAL);
    }
    Ok(parsed)
}

/// A request of a consumer in the kernel.
///
/// `EINVAL` if it cannot be executed, `ENOMEM` if there is no memory left for it.
pub(crate) fn send_from_kernel(
    wr: &SendWr<'_, Rxe>,
    caps: &SendCaps,
    pool: &Arc<TailPool>,
) -> Result<SendWqe<SendLocal>> {
    let mut parsed = parse_kernel(wr, caps)?;
    let flags = Flags(wr.flags().bits());
    let list = wr.sges();
    let has_bytes = parsed.payload.is_none();
    let inline = has_bytes && wr.flags().inline();
    let len = if has_bytes {
        wr.len().ok_or(EINVAL)?
    } else {
        0
    };
    let fits = list.len() <= caps.max_sge as usize
        && length_fits(&parsed.op, len)
        && (!inline || (inline_allowed(&parsed.op) && len <= caps.max_inline));
    if has_bytes && !fits {
        return Err(EINVAL);
    }
    let mut tail = pool.take().ok_or(ENOMEM)?;
    let payload = match parsed.payload.take() {
        Some(payload) => payload,
        None if inline => {
            let to = tail.bytes_mut(caps.max_inline as usize).ok_or(EINVAL)?;
            Payload::Inline(wr.copy_inline(to)?)
        }
        None => {
            copy_entries(list, &mut tail)?;
            Payload::Gather(list.len())
        }
    };
    Ok(make_wqe(
        wr.wr_id(),
        parsed.op,
        len,
        flags,
        caps,
        SendLocal {
            tail,
            payload,
            destination: parsed.destination,
            cursor: Cursor::new(),
            slot: None,
        },
    ))
}

fn copy_entries(list: &[provider::Sge], tail: &mut Tail) -> Result {
    let to = tail.entries_mut(list.len()).ok_or(EINVAL)?;
    for (to, from) in to.iter_mut().zip(list) {
        *to = Sge {
            addr: from.addr(),
            length: from.len(),
            lkey: from.lkey(),
        };
    }
    Ok(())
}

/// A receive request of a consumer in the kernel; errors as those of [`send_from_kernel`].
pub(crate) fn recv_from_kernel(
    wr: &RecvWr<'_>,
    max_sge: u32,
    pool: &Arc<TailPool>,
) -> Result<RecvWqe<RecvLocal>> {
    let list = wr.sges();
    if list.len() > max_sge as usize {
        return Err(EINVAL);
    }
    let sum = list
        .iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.len()));
    let len = sum.filter(|len| *len <= sge::MAX_LENGTH).ok_or(EINVAL)?;
    let mut tail = pool.take().ok_or(ENOMEM)?;
    copy_entries(list, &mut tail)?;
    Ok(RecvWqe {
        wr_id: wr.wr_id(),
        len,
        invalid: None,
        local: RecvLocal {
            tail,
            count: list.len(),
            cursor: Cursor::new(),
        },
    })
}

/// A receive request of user space, from its slot, which is read here and nowhere else.
pub(crate) fn recv_from_user(slot: &Slot<'_>, max_sge: u32, mut tail: Tail) -> RecvWqe<RecvLocal> {
    const AT: usize = size_of::<abi::RecvHead>();
    let head = slot.read::<abi::RecvHead>(0);
    let memory = head.as_ref().map_err(|_| Status::LocQpOp).and_then(|head| {
        let count = head.dma.num_sge;
        if count > max_sge {
            return Err(Status::LocQpOp);
        }
        let list = tail.entries_mut(count as usize).ok_or(Status::LocQpOp)?;
        slot.read_slice(AT, list).map_err(|_| Status::LocQpOp)?;
        let len = sge::total(list).ok_or(Status::LocLen)?;
        Ok((count as usize, len))
    });
    let (count, len) = memory.unwrap_or((0, 0));
    RecvWqe {
        wr_id: head.map_or(0, |head| head.wr_id),
        len,
        invalid: memory.err(),
        local: RecvLocal {
            tail,
            count,
            cursor: Cursor::new(),
        },
    }
}
