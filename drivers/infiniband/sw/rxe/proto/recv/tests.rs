// SPDX-License-Identifier: GPL-2.0

//! The receive side, packet by packet.

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_recv))]
mod packet_by_packet {
    use crate::proto::attrs::{Progress, Transport};
    use crate::proto::env::{Access, AccessError, QpEvent};
    use crate::proto::recv::{RecvSide, RecvState, Resource, Verdict};
    use crate::proto::testing::*;
    use crate::proto::wr::Status;
    use crate::wire::aeth::{NakCode, RnrTimer, Syndrome};
    use crate::wire::ext::{AtomicEth, Deth, Feth, Imm, Key, Reth};
    use crate::wire::opcode::{Op, Service};
    use crate::wire::packet::{Body, ReadPart, SendEnd, WriteEnd};

    type Side<'a> = RecvSide<u32, Access, &'a mut [Option<Resource>]>;
    type Slots = [Option<Resource>; 2];

    const NONE: Slots = [None; 2];

    fn started<'a>(slots: &'a mut Slots, transport: Transport, first: u32) -> Side<'a> {
        let mut side = RecvSide::new(transport, 18, false);
        side.start(&recv_attrs(first), &mut slots[..]);
        side
    }

    /// Gives a packet and runs the side as at the end of a batch.
    fn give(side: &mut Side<'_>, env: &mut TestEnv, psn: u32, body: Body, len: u32) {
        let Some(packet) = packet(Service::Rc, psn, body, len) else {
            return;
        };
        if side.input(env, &packet, &len) == Verdict::Done {
            side.run(env, 1000);
        }
    }

    fn give_uc(side: &mut Side<'_>, env: &mut TestEnv, psn: u32, body: Body, len: u32) {
        if let Some(packet) = packet(Service::Uc, psn, body, len) {
            let _ = side.input(env, &packet, &len);
        }
    }

    fn send(start: bool, end: bool) -> Body {
        Body::Send {
            start,
            end: end.then_some(SendEnd::Plain),
        }
    }

    fn write(len: Option<u32>, end: bool) -> Body {
        Body::Write {
            start: len.map(|len| reth(0x1000, len)),
            end: end.then_some(WriteEnd::Plain),
        }
    }

    fn reth(va: u64, len: u32) -> Reth {
        Reth { va, key: KEY, len }
    }

    fn add(va: u64) -> Body {
        Body::FetchAdd(AtomicEth {
            va,
            key: KEY,
            swap_add: 2,
            compare: 0,
        })
    }

    fn refused(code: NakCode) -> Syndrome {
        Syndrome::Nak(code)
    }

    fn status(env: &mut TestEnv) -> Option<(u64, Status, u32)> {
        env.received
            .pop()
            .map(|wc| (wc.wr_id, wc.status, wc.byte_len))
    }

    #[test]
    fn a_message_of_three_packets() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0xff_ffff);
        env.receive(1, 1000);
        give(&mut side, &mut env, 0xff_ffff, send(true, false), MTU);
        assert_eq!(env.next_ack(), Some((0xff_ffff, Syndrome::ACK, 0)));
        give(&mut side, &mut env, 0, send(false, false), MTU);
        assert_eq!(env.next_ack(), Some((0, Syndrome::ACK, 0)));
        assert_eq!(env.written, (2 * MTU, MTU));
        give(&mut side, &mut env, 1, send(false, true), 9);
        assert_eq!(env.next_ack(), Some((1, Syndrome::ACK, 1)));
        assert_eq!(status(&mut env), Some((1, Status::Success, 2 * MTU + 9)));
    }

    #[test]
    fn a_batch_is_acknowledged_once() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        for psn in 0..4 {
            env.receive(psn, 10);
            if let Some(packet) = packet(Service::Rc, psn, send(true, true), 1) {
                assert!(side.input(&mut env, &packet, &1) == Verdict::Done);
            }
        }
        assert_eq!((env.packets, env.received.len()), (0, 4));
        assert!(side.wants_run());
        env.room = 0;
        assert_eq!(side.run(&mut env, 10), Progress::Blocked);
        env.room = 9;
        assert_eq!(side.run(&mut env, 10), Progress::Idle);
        assert_eq!(env.next_ack(), Some((3, Syndrome::ACK, 4)));
        assert_eq!(env.packets, 1);
        assert!(!side.wants_run());
    }

    #[test]
    fn an_answer_stands_for_the_acknowledgements_before_it() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        for (psn, body, len) in [(0, write(Some(1), true), 1), (1, Body::Read(reth(0, 1)), 0)] {
            if let Some(packet) = packet(Service::Rc, psn, body, len) {
                assert!(side.input(&mut env, &packet, &len) == Verdict::Done);
            }
        }
        assert_eq!(side.run(&mut env, 10), Progress::Idle);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 1)));
        assert_eq!(env.sent.len(), 0);
    }

    #[test]
    fn a_gap_is_reported_once() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0xff_fffe);
        for id in 0..4 {
            env.receive(id, 10);
        }
        for psn in [0xff_ffff, 0, 1] {
            give(&mut side, &mut env, psn, send(true, true), 1);
        }
        let nak = refused(NakCode::PsnSequence);
        assert_eq!(env.next_ack(), Some((0xff_fffe, nak, 0)));
        assert_eq!((env.packets, env.received.len()), (1, 0));
        give(&mut side, &mut env, 0xff_fffe, send(true, true), 1);
        assert_eq!(env.next_ack(), Some((0xff_fffe, Syndrome::ACK, 1)));
        give(&mut side, &mut env, 5, send(true, true), 1);
        assert_eq!(env.next_ack(), Some((0xff_ffff, nak, 1)));
    }

    #[test]
    fn without_a_receive_the_peer_waits() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!(
            env.next_ack(),
            Some((0, Syndrome::Rnr(RnrTimer::new(12)), 0))
        );
        // Those behind it are not a gap that the peer should hurry to fill.
        give(&mut side, &mut env, 1, send(true, true), 1);
        give(&mut side, &mut env, 2, write(Some(1), true), 1);
        assert_eq!((env.packets, env.writes), (1, 0));
        env.receive(1, 10);
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!(env.next_ack(), Some((0, Syndrome::ACK, 1)));
        assert_eq!(status(&mut env), Some((1, Status::Success, 1)));
        // A WRITE with immediate needs one at its end, before anything of it is done.
        let imm = Body::Write {
            start: Some(reth(0x1000, 1)),
            end: Some(WriteEnd::Imm(Imm([1, 2, 3, 4]))),
        };
        let writes = env.writes;
        give(&mut side, &mut env, 1, imm, 1);
        assert_eq!(
            env.next_ack(),
            Some((1, Syndrome::Rnr(RnrTimer::new(12)), 1))
        );
        assert_eq!(env.writes, writes);
        env.receive(2, 0);
        give(&mut side, &mut env, 1, imm, 1);
        let wc = env.received.pop();
        assert_eq!(
            wc.map(|wc| (wc.wr_id, wc.by_write, wc.byte_len, wc.end)),
            Some((2, true, 1, SendEnd::Imm(Imm([1, 2, 3, 4]))))
        );
    }

    #[test]
    fn a_message_longer_than_the_receive() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, MTU + 1);
        env.receive(2, 1);
        give(&mut side, &mut env, 0, send(true, false), MTU);
        give(&mut side, &mut env, 1, send(false, true), 2);
        env.sent.pop();
        assert_eq!(
            env.next_ack(),
            Some((1, refused(NakCode::InvalidRequest), 0))
        );
        assert_eq!(status(&mut env), Some((1, Status::LocLen, 0)));
        assert_eq!(status(&mut env), Some((2, Status::WrFlush, 0)));
        assert_eq!((side.state(), env.failures), (RecvState::Error, 1));
        assert_eq!(env.writes, 1);
    }

    #[test]
    fn a_receive_that_is_itself_at_fault() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        env.fault = Some(Status::LocProt);
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!(
            env.next_ack(),
            Some((0, refused(NakCode::RemoteOperation), 0))
        );
        assert_eq!(status(&mut env), Some((1, Status::LocProt, 0)));

        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        if let Some(mut wqe) = env.recvs.pop() {
            wqe.invalid = Some(Status::LocQpOp);
            env.recvs.push(wqe);
        }
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!(
            env.next_ack(),
            Some((0, refused(NakCode::RemoteOperation), 0))
        );
        assert_eq!(status(&mut env), Some((1, Status::LocQpOp, 0)));
    }

    #[test]
    fn an_access_that_is_denied() {
        let bodies = [
            (write(Some(1), true), 1),
            (Body::Read(reth(0, 1)), 0),
            (add(8), 0),
            (Body::AtomicWrite(reth(8, 8), Some([1; 8])), 8),
        ];
        for (body, len) in bodies {
            let (mut slots, mut env) = (NONE, TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, 0);
            env.receive(1, 10);
            env.denied = Some(AccessError::Denied);
            give(&mut side, &mut env, 0, body, len);
            assert_eq!(env.next_ack(), Some((0, refused(NakCode::RemoteAccess), 0)));
            assert_eq!(env.events.pop(), Some(QpEvent::AccessErr));
            assert_eq!(status(&mut env), Some((1, Status::WrFlush, 0)));
            assert_eq!((env.failures, env.executed, env.writes), (1, 0, 0));
        }
        // With immediate data the receive request tells it.
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        env.denied = Some(AccessError::Failed);
        let body = Body::Write {
            start: Some(reth(0, 1)),
            end: Some(WriteEnd::Imm(Imm([0; 4]))),
        };
        give(&mut side, &mut env, 0, body, 1);
        assert_eq!(
            env.next_ack(),
            Some((0, refused(NakCode::RemoteOperation), 0))
        );
        assert_eq!(status(&mut env), Some((1, Status::RemOp, 0)));
        assert_eq!(env.events.pop(), None);
    }

    #[test]
    fn what_the_queue_pair_does_not_allow() {
        let persistent = Feth {
            global: true,
            persistent: true,
            whole_region: false,
        };
        let bodies = [
            (write(Some(1), true), 1),
            (Body::Read(reth(0, 1)), 0),
            (add(8), 0),
            (Body::AtomicWrite(reth(8, 8), Some([1; 8])), 8),
            (Body::Flush(Some(persistent), reth(0, 8)), 0),
            (Body::Flush(None, reth(0, 8)), 0),
        ];
        for (body, len) in bodies {
            let (mut slots, mut env) = (NONE, TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, 0);
            side.set_allowed(Default::default());
            give(&mut side, &mut env, 0, body, len);
            assert_eq!(
                env.next_ack(),
                Some((0, refused(NakCode::InvalidRequest), 0))
            );
            assert_eq!(env.opened, None);
        }
        // Without a place to keep the answer.
        let mut env = TestEnv::new();
        let mut side: Side<'_> = RecvSide::new(Transport::Rc, 18, false);
        side.start(&recv_attrs(0), &mut []);
        give(&mut side, &mut env, 0, Body::Read(reth(0, 1)), 0);
        assert_eq!(
            env.next_ack(),
            Some((0, refused(NakCode::InvalidRequest), 0))
        );
    }

    #[test]
    fn packets_that_do_not_continue_the_message() {
        let orders = [
            [Some((send(false, true), 1)), None],
            [Some((write(None, false), MTU)), None],
            [Some((send(true, false), MTU)), Some((send(true, true), 1))],
            [Some((send(true, false), MTU)), Some((write(None, true), 1))],
            [
                Some((send(true, false), MTU)),
                Some((Body::Read(reth(0, 1)), 0)),
            ],
            [
                Some((write(Some(300), false), MTU)),
                Some((send(false, true), 44)),
            ],
            // Lengths: of packets, and of the message against its header.
            [Some((send(true, false), MTU - 1)), None],
            [Some((send(true, true), MTU + 1)), None],
            [Some((send(true, false), MTU)), Some((send(false, true), 0))],
            [Some((write(Some(5), true), 4)), None],
            [Some((write(Some(MTU), false), MTU)), None],
            [
                Some((write(Some(300), false), MTU)),
                Some((write(None, true), 45)),
            ],
            [
                Some((write(Some(600), false), MTU)),
                Some((write(None, true), 44)),
            ],
            [Some((write(Some(0x8000_0001), false), MTU)), None],
            [Some((Body::Read(reth(0, 0x8000_0001)), 0)), None],
        ];
        for order in orders {
            let (mut slots, mut env) = (NONE, TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, 0);
            env.receive(1, 10_000);
            let mut last = 0;
            for (psn, (body, len)) in (0..).zip(order.into_iter().flatten()) {
                while env.sent.pop().is_some() {}
                give(&mut side, &mut env, psn, body, len);
                last = psn;
            }
            assert_eq!(
                env.next_ack(),
                Some((last, refused(NakCode::InvalidRequest), 0))
            );
            assert_eq!(side.state(), RecvState::Error);
        }
    }

    #[test]
    fn an_atomic_operation_is_executed_once() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 7);
        for _ in 0..3 {
            give(&mut side, &mut env, 7, add(8), 0);
            let sent = env.sent.pop();
            let found = match sent.map(|sent| sent.body) {
                Some(Body::AtomicAck(aeth, found)) => Some((found, aeth.msn.get())),
                _ => None,
            };
            assert_eq!(found, Some((WORD, 1)));
        }
        assert_eq!((env.executed, env.word), (1, WORD + 2));
        // Two more, and the first is forgotten.
        give(&mut side, &mut env, 8, add(8), 0);
        give(&mut side, &mut env, 9, add(8), 0);
        while env.sent.pop().is_some() {}
        give(&mut side, &mut env, 7, add(8), 0);
        assert_eq!((env.executed, env.sent.len()), (3, 0));
        give(&mut side, &mut env, 8, add(8), 0);
        assert_eq!(env.next_sent(), Some((Op::AtomicAcknowledge, 8)));
        // Nor does another operation with its number get its answer.
        give(&mut side, &mut env, 8, Body::Read(reth(0, 1)), 0);
        assert_eq!((env.executed, env.sent.len()), (3, 0));
        give(&mut side, &mut env, 10, add(12), 0);
        assert_eq!(
            env.next_ack(),
            Some((10, refused(NakCode::InvalidRequest), 3))
        );
    }

    #[test]
    fn a_compare_and_swap_that_does_not_match() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        let swap = |compare| {
            Body::CompareSwap(AtomicEth {
                va: 8,
                key: KEY,
                swap_add: 9,
                compare,
            })
        };
        give(&mut side, &mut env, 0, swap(WORD + 1), 0);
        assert_eq!(env.word, WORD);
        give(&mut side, &mut env, 1, swap(WORD), 0);
        assert_eq!(env.word, 9);
    }

    #[test]
    fn an_atomic_write_has_eight_bytes() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        let good = Body::AtomicWrite(reth(16, 8), Some(5u64.to_ne_bytes()));
        give(&mut side, &mut env, 0, good, 8);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 0)));
        give(&mut side, &mut env, 0, good, 8);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 0)));
        assert_eq!((env.word, env.executed), (5, 1));
        let bad = [
            (Body::AtomicWrite(reth(16, 8), None), 4),
            (Body::AtomicWrite(reth(16, 8), None), 0),
            (Body::AtomicWrite(reth(16, 4), Some([9; 8])), 8),
            (Body::AtomicWrite(reth(16, 0), Some([9; 8])), 8),
            (Body::AtomicWrite(reth(12, 8), Some([9; 8])), 8),
        ];
        for (body, len) in bad {
            let (mut slots, mut env) = (NONE, TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, 0);
            give(&mut side, &mut env, 0, body, len);
            assert_eq!(
                env.next_ack(),
                Some((0, refused(NakCode::InvalidRequest), 0))
            );
            assert_eq!((env.executed, env.opened), (0, None));
        }
    }

    #[test]
    fn a_read_is_answered_in_parts() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0xff_ffff);
        env.room = 1;
        give(
            &mut side,
            &mut env,
            0xff_ffff,
            Body::Read(reth(0x2000, 2 * MTU + 1)),
            0,
        );
        // Until the answer is out, nothing else is taken.
        env.receive(1, 10);
        let next = packet(Service::Rc, 2, send(true, true), 1);
        if let Some(next) = &next {
            assert!(side.input(&mut env, next, &1) == Verdict::Busy);
            env.room = u32::MAX;
            assert_eq!(side.run(&mut env, 1), Progress::More);
            assert!(side.input(&mut env, next, &1) == Verdict::Busy);
            assert_eq!(side.run(&mut env, 1), Progress::Idle);
            assert!(side.input(&mut env, next, &1) == Verdict::Done);
        }
        let mut parts = [None; 3];
        for part in &mut parts {
            *part = env
                .sent
                .pop()
                .map(|sent| (sent.op, sent.psn, sent.offset, sent.len));
        }
        assert_eq!(parts[0], Some((Op::ReadResponseFirst, 0xff_ffff, 0, MTU)));
        assert_eq!(parts[1], Some((Op::ReadResponseMiddle, 0, MTU, MTU)));
        assert_eq!(parts[2], Some((Op::ReadResponseLast, 1, 2 * MTU, 1)));
        assert_eq!(env.received.len(), 1);
    }

    #[test]
    fn a_read_is_repeated_from_any_packet_but_not_beyond() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 10);
        let va = u64::MAX - 3 * u64::from(MTU) + 1;
        give(&mut side, &mut env, 10, Body::Read(reth(va, 3 * MTU)), 0);
        while let Some(sent) = env.sent.pop() {
            assert!(!sent.again);
        }
        let rest = reth(va + u64::from(MTU), 2 * MTU);
        give(&mut side, &mut env, 11, Body::Read(rest), 0);
        for part in [
            (Op::ReadResponseFirst, 11, true),
            (Op::ReadResponseLast, 12, true),
        ] {
            let sent = env.sent.pop().map(|sent| (sent.op, sent.psn, sent.again));
            assert_eq!(sent, Some(part));
        }
        env.opened = None;
        let wrong = [
            reth(va - 1, MTU),
            reth(va, 3 * MTU + 1),
            reth(0, 1),
            reth(va + u64::from(MTU), 2 * MTU + 1),
            Reth {
                key: Key(KEY.0 + 1),
                ..rest
            },
            // Inside, but more packets than numbers are left.
            reth(va, 3 * MTU),
        ];
        for reth in wrong {
            give(&mut side, &mut env, 11, Body::Read(reth), 0);
            assert_eq!((env.opened, env.sent.len()), (None, 0));
        }
        assert_eq!(side.state(), RecvState::Ready);
    }

    #[test]
    fn memory_that_goes_away_under_a_read() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.room = 1;
        give(&mut side, &mut env, 0, Body::Read(reth(0, 2 * MTU)), 0);
        env.sent.pop();
        env.room = u32::MAX;
        env.fault = Some(Status::LocProt);
        side.run(&mut env, 100);
        assert_eq!(env.next_ack(), Some((1, refused(NakCode::RemoteAccess), 1)));
        assert_eq!((side.state(), env.failures), (RecvState::Error, 1));
    }

    #[test]
    fn nothing_is_looked_up_for_no_bytes() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.denied = Some(AccessError::Denied);
        give(&mut side, &mut env, 0, write(Some(0), true), 0);
        assert_eq!(env.next_ack(), Some((0, Syndrome::ACK, 1)));
        give(&mut side, &mut env, 1, Body::Read(reth(0, 0)), 0);
        let sent = env.sent.pop();
        assert_eq!(
            sent.map(|sent| (sent.op, sent.len)),
            Some((Op::ReadResponseOnly, 0))
        );
        assert_eq!((env.opened, env.writes), (None, 0));
    }

    #[test]
    fn a_flush_is_of_a_range_or_of_all() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        let how = |whole_region| Feth {
            global: true,
            persistent: false,
            whole_region,
        };
        give(
            &mut side,
            &mut env,
            0,
            Body::Flush(Some(how(false)), reth(3, 500)),
            0,
        );
        assert_eq!(
            env.opened.map(|access| (access.va, access.len)),
            Some((3, 500))
        );
        give(
            &mut side,
            &mut env,
            1,
            Body::Flush(Some(how(true)), reth(3, 500)),
            0,
        );
        assert_eq!(env.opened.map(|access| access.len), Some(0));
        assert_eq!(env.executed, 2);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 0)));
    }

    #[test]
    fn a_flush_needs_no_place() {
        let mut env = TestEnv::new();
        let mut side: Side<'_> = RecvSide::new(Transport::Rc, 18, false);
        side.start(&recv_attrs(0), &mut []);
        let how = Feth {
            global: true,
            persistent: false,
            whole_region: false,
        };
        for times in 1..=2 {
            give(
                &mut side,
                &mut env,
                0,
                Body::Flush(Some(how), reth(0, 8)),
                0,
            );
            assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 0)));
            assert_eq!(env.executed, times);
        }
    }

    #[test]
    fn what_is_repeated_is_acknowledged_again() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        env.receive(2, 10);
        give(&mut side, &mut env, 0, send(true, true), 1);
        give(&mut side, &mut env, 1, write(Some(1), true), 1);
        while env.sent.pop().is_some() {}
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!(env.next_ack(), Some((1, Syndrome::ACK, 2)));
        assert_eq!((env.received.len(), env.writes), (1, 2));
    }

    #[test]
    fn a_key_is_invalidated_before_the_message_is_told() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        env.receive(2, 10);
        let body = Body::Send {
            start: true,
            end: Some(SendEnd::Invalidate(KEY)),
        };
        give(&mut side, &mut env, 0, body, 1);
        assert_eq!(env.invalidated, Some(KEY));
        assert_eq!(
            env.received.pop().map(|wc| wc.end),
            Some(SendEnd::Invalidate(KEY))
        );
        env.sent.pop();
        env.denied = Some(AccessError::Denied);
        give(&mut side, &mut env, 1, body, 1);
        assert_eq!(env.next_ack(), Some((1, refused(NakCode::RemoteAccess), 1)));
        assert_eq!(status(&mut env), Some((2, Status::RemInvReq, 0)));
    }

    #[test]
    fn after_an_error_nothing_is_received() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        for id in 1..=3 {
            env.receive(id, 10);
        }
        give(&mut side, &mut env, 0, send(true, true), 1);
        side.fail(&mut env);
        give(&mut side, &mut env, 1, send(true, true), 1);
        side.run(&mut env, 100);
        env.receive(4, 10);
        side.run(&mut env, 100);
        assert_eq!(status(&mut env), Some((1, Status::Success, 1)));
        for id in 2..=4 {
            assert_eq!(status(&mut env), Some((id, Status::WrFlush, 0)));
        }
        assert_eq!(env.failures, 0);
        side.reset();
        assert_eq!((side.state(), side.wants_run()), (RecvState::Idle, false));
    }

    #[test]
    fn a_shared_queue_is_not_flushed() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side: Side<'_> = RecvSide::new(Transport::Rc, 18, true);
        side.start(&recv_attrs(0), &mut slots[..]);
        env.receive(1, 1000);
        env.receive(2, 1000);
        give(&mut side, &mut env, 0, send(true, false), MTU);
        side.fail(&mut env);
        side.run(&mut env, 100);
        assert_eq!(status(&mut env), Some((1, Status::WrFlush, 0)));
        assert_eq!((env.received.len(), env.recvs.len()), (0, 1));
        assert_eq!(env.events.pop(), Some(QpEvent::LastWqeReached));
    }

    #[test]
    fn a_full_completion_queue_fails_the_queue_pair() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        env.cq_full = true;
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!((side.state(), env.failures), (RecvState::Error, 1));
        assert_eq!(env.packets, 0);
    }

    #[test]
    fn an_unreliable_message_with_a_gap_leaves_its_receive() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Uc, 0);
        env.receive(1, 600);
        give_uc(&mut side, &mut env, 0, send(true, false), MTU);
        give_uc(&mut side, &mut env, 2, send(false, false), MTU);
        give_uc(&mut side, &mut env, 3, send(false, true), 1);
        assert_eq!(env.received.len(), 0);
        // Too long, a bad length, then one that fits.
        give_uc(&mut side, &mut env, 4, send(true, false), MTU);
        give_uc(&mut side, &mut env, 5, send(false, false), MTU);
        give_uc(&mut side, &mut env, 6, send(false, true), 100);
        give_uc(&mut side, &mut env, 7, send(true, true), MTU + 1);
        assert_eq!(env.received.len(), 0);
        give_uc(&mut side, &mut env, 9, send(true, false), MTU);
        give_uc(&mut side, &mut env, 10, send(true, true), 3);
        assert_eq!(status(&mut env), Some((1, Status::Success, 3)));
        assert_eq!(env.written, (3, 3));
        // Nothing posted: lost without a word.
        give_uc(&mut side, &mut env, 11, send(true, true), 3);
        assert_eq!((env.packets, env.failures), (0, 0));
        assert_eq!(side.state(), RecvState::Ready);
    }

    #[test]
    fn unreliable_writes() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Uc, 0);
        give_uc(&mut side, &mut env, 0, write(Some(300), false), MTU);
        give_uc(&mut side, &mut env, 1, write(None, true), 44);
        assert_eq!(env.written, (300, 44));
        env.denied = Some(AccessError::Denied);
        give_uc(&mut side, &mut env, 2, write(Some(300), false), MTU);
        give_uc(&mut side, &mut env, 3, write(None, true), 44);
        env.denied = None;
        give_uc(&mut side, &mut env, 4, write(Some(4), true), 5);
        side.set_allowed(Default::default());
        give_uc(&mut side, &mut env, 5, write(Some(4), true), 4);
        assert_eq!((env.writes, env.failures), (2, 0));
        assert_eq!(side.state(), RecvState::Ready);
    }

    #[test]
    fn datagrams() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Ud, 0);
        let mut give = |env: &mut TestEnv, len| {
            if let Some(mut packet) = packet(Service::Ud, 77, send(true, true), len) {
                packet.deth = Some(Deth {
                    qkey: 1,
                    src_qp: 33,
                });
                assert!(side.input(env, &packet, &len) == Verdict::Done);
            }
        };
        give(&mut env, 1);
        env.receive(1, 100);
        give(&mut env, 61);
        assert_eq!(env.received.len(), 0);
        give(&mut env, 60);
        let wc = env.received.pop();
        assert_eq!(
            wc.map(|wc| (wc.wr_id, wc.byte_len, wc.src_qp, wc.grh)),
            Some((1, 100, 33, true))
        );
        assert_eq!(env.written, (100, 60));
        env.receive(2, 100);
        env.fault = Some(Status::LocProt);
        give(&mut env, 1);
        assert_eq!(status(&mut env), Some((2, Status::LocProt, 0)));
        assert_eq!(env.failures, 1);
    }

    #[test]
    fn other_services_and_responses_are_not_for_it() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.receive(1, 10);
        for (service, body) in [
            (Service::Uc, send(true, true)),
            (Service::Xrc, send(true, true)),
            (Service::Rc, ACK),
            (Service::Rc, Body::ReadResponse(ReadPart::Middle)),
        ] {
            if let Some(packet) = packet(service, 0, body, 0) {
                assert!(side.input(&mut env, &packet, &0) == Verdict::Done);
            }
        }
        assert_eq!((env.packets, env.received.len()), (0, 0));
    }

    /// Gives an XRC request for the queue `srq`.
    fn give_xrc(side: &mut Side<'_>, env: &mut TestEnv, psn: u32, srq: u32, body: Body, len: u32) {
        if let Some(mut packet) = packet(Service::Xrc, psn, body, len) {
            packet.xrc_srq = Some(srq);
            if side.input(env, &packet, &len) == Verdict::Done {
                side.run(env, 1000);
            }
        }
    }

    #[test]
    fn a_target_takes_requests_for_queues_that_it_reaches() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::XrcTgt, 0);
        env.srq = 7;
        env.receive(1, 1000);
        give_xrc(&mut side, &mut env, 0, 7, send(true, false), MTU);
        give_xrc(&mut side, &mut env, 1, 7, send(false, true), 9);
        assert_eq!(status(&mut env), Some((1, Status::Success, MTU + 9)));
        assert_eq!(env.next_ack(), Some((0, Syndrome::ACK, 0)));
        assert_eq!(env.next_ack(), Some((1, Syndrome::ACK, 1)));
        // Memory as well is that of the queue.
        give_xrc(&mut side, &mut env, 2, 7, Body::Read(reth(0, 1)), 0);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 2)));
        // What is sent again, too.
        env.named = None;
        give_xrc(&mut side, &mut env, 2, 7, Body::Read(reth(0, 1)), 0);
        assert_eq!(env.next_sent(), Some((Op::ReadResponseOnly, 2)));
        assert_eq!(env.named, Some(7));
        give_xrc(&mut side, &mut env, 2, 8, Body::Read(reth(0, 1)), 0);
        assert_eq!(env.next_sent(), None);
        assert_eq!(side.state(), RecvState::Ready);
        // A queue that there is not. No event tells of it: the receives are not its own.
        give_xrc(&mut side, &mut env, 3, 8, send(true, true), 1);
        assert_eq!(
            env.next_ack(),
            Some((3, refused(NakCode::InvalidRequest), 2))
        );
        assert_eq!(side.state(), RecvState::Error);
        assert_eq!((env.failures, env.events.len()), (1, 0));
    }

    #[test]
    fn a_message_stays_with_its_queue() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::XrcTgt, 0);
        env.srq = 7;
        env.receive(1, 1000);
        give_xrc(&mut side, &mut env, 0, 7, send(true, false), MTU);
        env.srq = 8;
        give_xrc(&mut side, &mut env, 1, 8, send(false, true), 1);
        assert_eq!(status(&mut env), Some((1, Status::RemInvReq, 0)));
        assert_eq!(side.state(), RecvState::Error);
        // Without a number there is no request, and other services are not for it.
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut side = started(&mut slots, Transport::XrcTgt, 0);
        env.receive(1, 1000);
        give(&mut side, &mut env, 0, send(true, true), 1);
        assert_eq!((env.packets, env.received.len()), (0, 0));
    }

    #[test]
    fn depth_may_change_while_answers_are_out() {
        let (mut slots, mut env) = (NONE, TestEnv::new());
        let mut more = [None; 5];
        let mut side = started(&mut slots, Transport::Rc, 0);
        env.room = 1;
        give(&mut side, &mut env, 0, Body::Read(reth(0, 2 * MTU)), 0);
        assert!(side.set_resources(&mut more[..]).is_some());
        env.room = 1;
        assert_eq!(side.run(&mut env, 9), Progress::Idle);
        assert_eq!(env.packets, 2);
        env.room = 9;
        give(&mut side, &mut env, 2, add(8), 0);
        assert_eq!(env.packets, 3);
    }
}
