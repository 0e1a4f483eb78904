// SPDX-License-Identifier: GPL-2.0

//! Requests of user space.
//!
//! Each slot is read in one place here, once; nothing of it is believed.

use super::{
    inline_allowed,
    length_fits,
    make_wqe,
    offered,
    Flags,
    Parsed,
    Payload,
    RecvLocal,
    SendCaps,
    SendLocal,
    Tail,
    TailPool,
    MAX_QPN,
    MAX_SRQN, //
};
use crate::{
    abi::{
        self,
        Sge, //
    },
    ah::{
        AhCore,
        Destination, //
    },
    ids::IdTable,
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
        Cursor, //
    },
    wire::{
        ext::{
            Feth,
            Imm,
            Key, //
        },
        opcode::Service,
        packet::SendEnd, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    mr::Access,
    user_ring::Slot, //
};

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
                flush_len: Some(head.dma.length),
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

/// Copies what follows the head of a request, as long as `count` entries. There is memory for as many
/// requests as can be under way.
fn read_tail(
    slot: &Slot<'_>,
    head: usize,
    count: usize,
    tails: &Arc<TailPool>,
) -> Result<Tail, Status> {
    let mut tail = tails.take_for(count).ok_or(Status::Fatal)?;
    let to = tail.entries_mut(count).ok_or(Status::LocQpOp)?;
    slot.read_slice(head, to).map_err(|_| Status::LocQpOp)?;
    Ok(tail)
}

/// Copies and checks the memory of a request of user space; returns it with the length.
fn user_payload(
    slot: &Slot<'_>,
    head: &abi::SendHead,
    caps: &SendCaps,
    op: &SendOp,
    tails: &Arc<TailPool>,
) -> Result<(Tail, Payload, u32), Status> {
    const AT: usize = size_of::<abi::SendHead>();
    if Flags(head.flags).has(bindings::ib_send_flags_IB_SEND_INLINE) && inline_allowed(op) {
        let len = head.dma.length;
        if len > caps.max_inline {
            return Err(Status::LocQpOp);
        }
        // Whole units; what follows the message in the last one is never used.
        let units = (len as usize).div_ceil(size_of::<Sge>());
        let tail = read_tail(slot, AT, units, tails)?;
        return Ok((tail, Payload::Inline(len as usize), len));
    }
    if matches!(op, SendOp::AtomicWrite { .. }) {
        // The library puts the eight bytes where entries would be, flag or not.
        let tail = read_tail(slot, AT, 1, tails)?;
        return Ok((tail, Payload::Inline(8), head.dma.length));
    }
    let count = head.dma.num_sge;
    if count > caps.max_sge {
        return Err(Status::LocQpOp);
    }
    let tail = read_tail(slot, AT, count as usize, tails)?;
    let len = sge::total(tail.entries(count as usize)).ok_or(Status::LocLen)?;
    Ok((tail, Payload::Gather(count as usize), len))
}

/// A request of user space, from its slot.
///
/// The slot is read here and nowhere else, and only once.
pub(crate) fn send_from_user(
    slot: &Slot<'_>,
    caps: &SendCaps,
    handles: &IdTable<AhCore>,
    tails: &Arc<TailPool>,
) -> SendWqe<SendLocal> {
    let index = slot.index();
    let head = slot.read::<abi::SendHead>(0);
    let parsed = head.as_ref().map_err(|_| Status::LocQpOp).and_then(|head| {
        if caps.service == Service::Xrc && head.srq_num > MAX_SRQN {
            return Err(Status::LocQpOp);
        }
        let mut parsed = parse_user(head, caps.service, handles, caps.pd)?;
        if !offered(caps.service, &parsed.op) {
            return Err(Status::LocQpOp);
        }
        let (tail, payload, len) = match (parsed.payload.take(), parsed.flush_len) {
            (Some(payload), _) => (Tail::NONE, payload, 0),
            (None, Some(len)) => (Tail::NONE, Payload::Gather(0), len),
            (None, None) => user_payload(slot, head, caps, &parsed.op, tails)?,
        };
        if !length_fits(&parsed.op, len) {
            return Err(Status::LocQpOp);
        }
        Ok((parsed, tail, payload, len))
    });
    let (wr_id, flags) = head
        .as_ref()
        .map_or((0, 0), |head| (head.wr_id, head.flags));
    let (op, destination, tail, payload, len) = match parsed {
        Ok((parsed, tail, payload, len)) => (parsed.op, parsed.destination, tail, payload, len),
        Err(status) => (
            SendOp::Invalid(status),
            None,
            Tail::NONE,
            Payload::Gather(0),
            0,
        ),
    };
    let local = SendLocal {
        tail,
        payload,
        destination,
        cursor: Cursor::new(),
        slot: Some(index),
    };
    let srq = head.map_or(0, |head| head.srq_num);
    SendWqe {
        xrc_srq: (caps.service == Service::Xrc).then_some(srq),
        ..make_wqe(wr_id, op, len, Flags(flags), caps, local)
    }
}

/// A receive request of user space, from its slot, which is read here and nowhere else.
pub(crate) fn recv_from_user(
    slot: &Slot<'_>,
    max_sge: u32,
    tails: &Arc<TailPool>,
) -> RecvWqe<RecvLocal> {
    const AT: usize = size_of::<abi::RecvHead>();
    let head = slot.read::<abi::RecvHead>(0);
    let memory = head.as_ref().map_err(|_| Status::LocQpOp).and_then(|head| {
        let count = head.dma.num_sge;
        if count > max_sge {
            return Err(Status::LocQpOp);
        }
        let tail = read_tail(slot, AT, count as usize, tails)?;
        let len = sge::total(tail.entries(count as usize)).ok_or(Status::LocLen)?;
        Ok((tail, count as usize, len))
    });
    let (tail, count, len, invalid) = match memory {
        Ok((tail, count, len)) => (tail, count, len, None),
        Err(status) => (Tail::NONE, 0, 0, Some(status)),
    };
    RecvWqe {
        wr_id: head.map_or(0, |head| head.wr_id),
        len,
        invalid,
        local: RecvLocal {
            tail,
            count,
            cursor: Cursor::new(),
            srq: None,
        },
    }
}

#[kunit_tests(rust_rxe_wqe)]
mod tests {
    use super::*;
    use crate::mem::Memory;
    use rdma::user_ring::{
        Geometry,
        WorkRing, //
    };

    const MAX: u32 = 4;
    const WORDS: usize = 64;

    /// A request as a process writes it.
    struct Raw([u64; WORDS]);

    impl Raw {
        fn new(opcode: u32) -> Self {
            let mut raw = Self([0; WORDS]);
            raw.0[0] = 77;
            raw.set(12, opcode);
            raw
        }

        /// Sets the 32-bit field at byte `at`.
        fn set(&mut self, at: usize, value: u32) -> &mut Self {
            let (word, shift) = (at / 8, at % 8 * 8);
            self.0[word] &= !(u64::from(u32::MAX) << shift);
            self.0[word] |= u64::from(value) << shift;
            self
        }

        fn sge(&mut self, head: usize, index: usize, length: u32) -> &mut Self {
            self.set(head + 16 * index + 8, length)
        }
    }

    fn caps(service: Service) -> SendCaps {
        SendCaps {
            service,
            max_sge: MAX,
            max_inline: 64,
            signal_all: false,
            pd: PdId::new(),
        }
    }

    fn send(service: Service, raw: &Raw) -> Result<SendWqe<SendLocal>> {
        let mut ring = WorkRing::new(Geometry::new(1, WORDS * 8).ok_or(EINVAL)?)?;
        ring.post_for_test(0, &[(0, &raw.0)])?;
        let caps = caps(service);
        let tails = TailPool::new(1, caps.units())?;
        let handles = IdTable::new(1..=10)?;
        let slot = ring.take().ok_or(EINVAL)?;
        Ok(send_from_user(&slot, &caps, &handles, &tails))
    }

    fn recv(raw: &Raw) -> Result<RecvWqe<RecvLocal>> {
        let mut ring = WorkRing::new(Geometry::new(1, WORDS * 8).ok_or(EINVAL)?)?;
        ring.post_for_test(0, &[(0, &raw.0)])?;
        let tails = TailPool::new(1, MAX as usize)?;
        let slot = ring.take().ok_or(EINVAL)?;
        Ok(recv_from_user(&slot, MAX, &tails))
    }

    const HEAD: usize = size_of::<abi::SendHead>();
    const RECV_HEAD: usize = size_of::<abi::RecvHead>();
    const LENGTH: usize = 184;
    const NUM_SGE: usize = 196;
    const FLAGS: usize = 16;

    /// Whether a request with one entry of 8 bytes is taken.
    fn taken(service: Service, opcode: u32) -> Result<bool> {
        let mut raw = Raw::new(opcode);
        raw.set(NUM_SGE, 1).set(LENGTH, 8).sge(HEAD, 0, 8);
        if service == Service::Ud {
            // Port and network type of the vector that the request brings.
            raw.set(56, 0x0101);
        }
        if opcode == bindings::ib_wr_opcode_IB_WR_FLUSH {
            raw.set(40, 1);
        }
        let wqe = send(service, &raw)?;
        assert_eq!(wqe.wr_id, 77);
        Ok(!matches!(wqe.op, SendOp::Invalid(Status::LocQpOp)))
    }

    #[test]
    fn operations_fit_services() -> Result {
        use bindings::*;
        let table = [
            (ib_wr_opcode_IB_WR_SEND, [true, true, true]),
            (ib_wr_opcode_IB_WR_SEND_WITH_IMM, [true, true, true]),
            (ib_wr_opcode_IB_WR_SEND_WITH_INV, [true, false, false]),
            (ib_wr_opcode_IB_WR_RDMA_WRITE, [true, true, false]),
            (ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM, [true, true, false]),
            (ib_wr_opcode_IB_WR_RDMA_READ, [true, false, false]),
            (ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV, [false; 3]),
            (ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP, [true, false, false]),
            (
                ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD,
                [true, false, false],
            ),
            (ib_wr_opcode_IB_WR_ATOMIC_WRITE, [true, false, false]),
            (ib_wr_opcode_IB_WR_FLUSH, [true, false, false]),
            (ib_wr_opcode_IB_WR_LOCAL_INV, [true, false, false]),
            (ib_wr_opcode_IB_WR_BIND_MW, [true, true, false]),
            // Its parameter would be a pointer.
            (ib_wr_opcode_IB_WR_REG_MR, [false; 3]),
            (ib_wr_opcode_IB_WR_LSO, [false; 3]),
            (ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP, [false; 3]),
            (0xf7, [false; 3]),
            (u32::MAX, [false; 3]),
        ];
        for (opcode, expected) in table {
            for (service, expected) in [Service::Rc, Service::Uc, Service::Ud].iter().zip(expected)
            {
                assert_eq!(taken(*service, opcode)?, expected);
            }
        }
        Ok(())
    }

    #[test]
    fn hostile_counts_are_refused() -> Result {
        let opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        for count in [MAX + 1, 33, 0xffff, u32::MAX] {
            let mut raw = Raw::new(opcode);
            raw.set(NUM_SGE, count);
            let wqe = send(Service::Rc, &raw)?;
            assert_eq!(wqe.op, SendOp::Invalid(Status::LocQpOp));
        }
        // The kernel has cursors of its own; those in the request mean nothing.
        let mut raw = Raw::new(opcode);
        raw.set(NUM_SGE, 2).sge(HEAD, 0, 10).sge(HEAD, 1, 20);
        for at in [188, 192, 200, 204, 144, 148, 160] {
            raw.set(at, 0xdead_beef);
        }
        // Neither does the length: it is that of the entries.
        raw.set(LENGTH, 0xffff);
        let wqe = send(Service::Rc, &raw)?;
        assert_eq!((wqe.op, wqe.len), (SendOp::Send(SendEnd::Plain), 30));
        Ok(())
    }

    #[test]
    fn lengths_are_bounded() -> Result {
        let opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        let mut raw = Raw::new(opcode);
        raw.set(NUM_SGE, 2).sge(HEAD, 0, 1 << 31);
        assert_eq!(send(Service::Rc, &raw)?.len, 1 << 31);
        for extra in [1, 1 << 31, u32::MAX] {
            raw.sge(HEAD, 1, extra);
            let wqe = send(Service::Rc, &raw)?;
            assert_eq!(wqe.op, SendOp::Invalid(Status::LocLen));
        }
        Ok(())
    }

    #[test]
    fn inline_bytes_come_with_the_request() -> Result {
        let inline = bindings::ib_send_flags_IB_SEND_INLINE as u32;
        let memory = Memory::new()?;
        let mut raw = Raw::new(bindings::ib_wr_opcode_IB_WR_SEND);
        raw.set(FLAGS, inline).set(LENGTH, 5);
        // An inline request has no entries, whatever it says.
        raw.set(NUM_SGE, u32::MAX);
        raw.set(HEAD, 0x0403_0201).set(HEAD + 4, 0x0807_0605);
        let mut wqe = send(Service::Rc, &raw)?;
        assert_eq!(wqe.len, 5);
        let mut to = [0; 4];
        let mut sum = 0;
        let mut sink = |bytes: &[u8]| sum += bytes.len();
        let pd = PdId::new();
        assert_eq!(wqe.local.read(&memory, pd, 1, &mut to, &mut sink), Ok(()));
        assert_eq!((to, sum), ([2, 3, 4, 5], 4));
        // What follows the message is not part of it.
        let mut sink = |_: &[u8]| ();
        assert!(wqe.local.read(&memory, pd, 2, &mut to, &mut sink).is_err());
        assert!(wqe
            .local
            .read(&memory, pd, u32::MAX, &mut to, &mut sink)
            .is_err());

        for length in [65, 512, u32::MAX] {
            raw.set(LENGTH, length);
            let wqe = send(Service::Rc, &raw)?;
            assert_eq!(wqe.op, SendOp::Invalid(Status::LocQpOp));
        }
        Ok(())
    }

    #[test]
    fn atomics_are_eight_bytes() -> Result {
        for opcode in [
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP,
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD,
        ] {
            // What lies across is for the peer to refuse.
            for (length, addr, good) in [(8, 16, true), (8, 20, true), (4, 16, false)] {
                let mut raw = Raw::new(opcode);
                raw.set(NUM_SGE, 1).sge(HEAD, 0, length).set(24, addr);
                let wqe = send(Service::Rc, &raw)?;
                let taken = wqe.op != SendOp::Invalid(Status::LocQpOp);
                assert_eq!(taken, good);
            }
        }
        Ok(())
    }

    #[test]
    fn flush_is_as_long_as_its_message() -> Result {
        let mut raw = Raw::new(bindings::ib_wr_opcode_IB_WR_FLUSH);
        // The field among the parameters is not used; the placement is persistence.
        raw.set(32, 7).set(40, 2).set(LENGTH, 4096);
        let wqe = send(Service::Rc, &raw)?;
        let how = Feth {
            global: false,
            persistent: true,
            whole_region: false,
        };
        assert_eq!(wqe.len, 4096);
        assert!(matches!(wqe.op, SendOp::Flush { how: found, .. } if found == how));
        Ok(())
    }

    #[test]
    fn unknown_handle_and_address() -> Result {
        let mut raw = Raw::new(bindings::ib_wr_opcode_IB_WR_SEND);
        raw.set(36, 5);
        let wqe = send(Service::Ud, &raw)?;
        assert_eq!(wqe.op, SendOp::Invalid(Status::LocQpOp));
        // No handle, and a vector of an unknown network type.
        raw.set(36, 0).set(56, 0x0701);
        let wqe = send(Service::Ud, &raw)?;
        assert_eq!(wqe.op, SendOp::Invalid(Status::LocQpOp));
        // A queue pair number of more than 24 bits.
        raw.set(56, 0x0101).set(24, 1 << 24);
        let wqe = send(Service::Ud, &raw)?;
        assert_eq!(wqe.op, SendOp::Invalid(Status::LocQpOp));
        Ok(())
    }

    #[test]
    fn receive_requests() -> Result {
        const COUNT: usize = 28;
        let mut raw = Raw([0; WORDS]);
        raw.0[0] = 5;
        raw.set(COUNT, 2)
            .sge(RECV_HEAD, 0, 100)
            .sge(RECV_HEAD, 1, 28);
        for at in [16, 20, 24, 32] {
            raw.set(at, 0xdead_beef);
        }
        let wqe = recv(&raw)?;
        assert_eq!((wqe.wr_id, wqe.len, wqe.invalid), (5, 128, None));
        for count in [MAX + 1, 0xffff, u32::MAX] {
            raw.set(COUNT, count);
            let wqe = recv(&raw)?;
            assert_eq!((wqe.wr_id, wqe.len), (5, 0));
            assert_eq!(wqe.invalid, Some(Status::LocQpOp));
        }
        raw.set(COUNT, 2).sge(RECV_HEAD, 0, u32::MAX);
        assert_eq!(recv(&raw)?.invalid, Some(Status::LocLen));
        Ok(())
    }

    #[test]
    fn memory_comes_back() -> Result {
        let pool = TailPool::new(2, 1)?;
        let first = pool.take();
        let second = pool.take();
        assert!(first.is_some() && second.is_some());
        assert!(pool.take().is_none());
        drop(first);
        assert!(pool.take().is_some());
        drop(second);
        let third = pool.take_for(100);
        let last = pool.take();
        assert!(third.is_some() && last.is_some());
        // Few entries do not need it.
        assert!(pool.take_for(3).is_none());
        assert!(pool.take_for(2).is_some());
        Ok(())
    }
}
