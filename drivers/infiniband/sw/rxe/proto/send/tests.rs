// SPDX-License-Identifier: GPL-2.0

//! The send side, packet by packet.

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_send))]
mod packet_by_packet {
    use crate::proto::attrs::{Mtu, Progress, Retries, SendAttrs, Transport};
    use crate::proto::env::QpEvent;
    use crate::proto::send::{Entry, SendSide, SendState};
    use crate::proto::testing::*;
    use crate::proto::wr::{LocalOp, SendOp, Status, WcOp};
    use crate::wire::aeth::{NakCode, RnrTimer, Syndrome};
    use crate::wire::ext::{Feth, Imm};
    use crate::wire::opcode::{Op, Service};
    use crate::wire::packet::{Body, ReadPart};

    type Side<'a> = SendSide<u32, &'a mut [Option<Entry<u32>>]>;
    type Slots = [Option<Entry<u32>>; 6];

    fn slots() -> Slots {
        [const { None }; 6]
    }

    fn started<'a>(slots: &'a mut Slots, transport: Transport, attrs: &SendAttrs) -> Side<'a> {
        let mut side = SendSide::new(transport, 17, &mut slots[..]);
        side.start(attrs);
        side
    }

    fn run(side: &mut Side<'_>, env: &mut TestEnv) {
        side.run(env, 1000);
    }

    fn answer(side: &mut Side<'_>, env: &mut TestEnv, psn: u32, body: Body, len: u32) {
        if let Some(packet) = packet(Service::Rc, psn, body, len) {
            side.input(env, &packet, &len);
        }
    }

    fn nak(code: NakCode) -> Body {
        Body::Ack(aeth(Syndrome::Nak(code)))
    }

    fn rnr(code: u8) -> Body {
        Body::Ack(aeth(Syndrome::Rnr(RnrTimer::new(code))))
    }

    fn part(number: u32, of: u32) -> Body {
        let aeth = aeth(Syndrome::ACK);
        Body::ReadResponse(match (number == 0, number + 1 == of) {
            (true, true) => ReadPart::Only(aeth),
            (true, false) => ReadPart::First(aeth),
            (false, true) => ReadPart::Last(aeth),
            (false, false) => ReadPart::Middle,
        })
    }

    #[test]
    fn a_message_of_three_packets() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0xff_ffff));
        env.post(1, SEND, 2 * MTU + 5);
        assert_eq!(side.run(&mut env, 1000), Progress::Idle);
        let first = env.sent.pop();
        let fields = |sent: Option<Sent>| {
            sent.map(|sent| (sent.op, sent.psn, sent.ack_req, sent.offset, sent.len))
        };
        assert_eq!(
            fields(first),
            Some((Op::SendFirst, 0xff_ffff, false, 0, MTU))
        );
        assert_eq!(
            fields(env.sent.pop()),
            Some((Op::SendMiddle, 0, false, MTU, MTU))
        );
        assert_eq!(
            fields(env.sent.pop()),
            Some((Op::SendLast, 1, true, 2 * MTU, 5))
        );
        assert_eq!(side.deadline(), Some(TIMEOUT));
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.ended.len(), 0);
        answer(&mut side, &mut env, 1, ACK, 0);
        let (id, wc) = env.ended.pop().unwrap_or((0, None));
        assert_eq!(
            (id, says(wc)),
            (1, Some((Status::Success, WcOp::Send, 2 * MTU + 5)))
        );
        assert_eq!(side.deadline(), None);
    }

    #[test]
    fn an_initiator_names_the_queue_of_the_peer() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::XrcIni, &send_attrs(5));
        env.post(1, SEND, MTU + 1);
        env.post_to(2, READ, 4, 9);
        env.post_to(3, SEND, 1, 10);
        run(&mut side, &mut env);
        // The first one names none.
        assert_eq!(env.next_ended(), Some((1, Some(Status::LocQpOp))));
        assert_eq!(side.state(), SendState::Error);

        let mut env = TestEnv::new();
        let mut places = [const { None }; 6];
        let mut side = started(&mut places, Transport::XrcIni, &send_attrs(5));
        env.post_to(2, READ, 4, 9);
        env.post_to(3, SEND, 1, 10);
        run(&mut side, &mut env);
        let named = |sent: Option<Sent>| sent.map(|sent| (sent.op, sent.psn, sent.xrc_srq));
        assert_eq!(named(env.sent.pop()), Some((Op::ReadRequest, 5, Some(9))));
        assert_eq!(named(env.sent.pop()), Some((Op::SendOnly, 6, Some(10))));
        // Answers of another service are not for it.
        answer(&mut side, &mut env, 6, ACK, 0);
        assert_eq!(env.ended.len(), 0);
        for (psn, body, len) in [(5, READ_ONLY, 4), (6, ACK, 0)] {
            if let Some(packet) = packet(Service::Xrc, psn, body, len) {
                side.input(&mut env, &packet, &len);
            }
        }
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((3, Some(Status::Success))));
    }

    #[test]
    fn one_acknowledgement_ends_many() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(5));
        env.post(1, SEND, 1);
        env.post(2, WRITE, 0);
        env.post(3, SEND, 1);
        run(&mut side, &mut env);
        // Not sent yet, sent before the first, and what is acknowledged again.
        for ghost in [8, 4, 0x80_0005] {
            answer(&mut side, &mut env, ghost, ACK, 0);
            assert_eq!(env.ended.len(), 0);
        }
        answer(&mut side, &mut env, 6, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        answer(&mut side, &mut env, 6, ACK, 0);
        assert_eq!(env.next_ended(), None);
        answer(&mut side, &mut env, 7, ACK, 0);
        assert_eq!(env.next_ended(), Some((3, Some(Status::Success))));
    }

    #[test]
    fn at_most_128_packets_without_acknowledgement() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, WRITE, 300 * MTU);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 128);
        answer(&mut side, &mut env, 63, ACK, 0);
        assert!(side.wants_run());
        run(&mut side, &mut env);
        assert_eq!(env.packets, 128 + 64);
        answer(&mut side, &mut env, 191, ACK, 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 300);
        answer(&mut side, &mut env, 299, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
    }

    #[test]
    fn the_last_packet_of_the_window_asks_for_an_acknowledgement() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SEND, 300 * MTU);
        let (mut asking, mut last) = ([0; 4], None);
        let mut asked = 0;
        while side.run(&mut env, 16) == Progress::More {
            while let Some(sent) = env.sent.pop() {
                last = Some(sent.psn);
                if let (true, Some(place)) = (sent.ack_req, asking.get_mut(asked)) {
                    *place = sent.psn;
                    asked += 1;
                }
            }
        }
        // The short message, the 64th packet of the long one, and where the window ends.
        assert_eq!((asked, asking), (3, [0, 64, 127, 0]));
        assert_eq!(last, Some(127));
    }

    #[test]
    fn solicited_events_are_of_messages_that_take_a_receive() {
        let imm = Some(Imm([0; 4]));
        let kinds = [
            (SEND, true),
            (WRITE, false),
            (SendOp::Write { to: AT, imm }, true),
            (READ, false),
        ];
        for (op, expected) in kinds {
            let (mut slots, mut env) = (slots(), TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
            env.post(1, op, MTU + 1);
            if let Some(mut wqe) = env.posted.pop() {
                wqe.solicited = true;
                env.posted.push(wqe);
            }
            run(&mut side, &mut env);
            let mut last = None;
            while let Some(sent) = env.sent.pop() {
                assert!(last != Some(true));
                last = Some(sent.solicited);
            }
            assert_eq!(last, Some(expected));
        }
    }

    #[test]
    fn a_missing_packet_is_sent_again_with_all_after_it() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 4 * MTU);
        env.post(2, SEND, 1);
        run(&mut side, &mut env);
        while env.sent.pop().is_some() {}
        answer(&mut side, &mut env, 2, nak(NakCode::PsnSequence), 0);
        run(&mut side, &mut env);
        assert_eq!(env.next_sent(), Some((Op::SendMiddle, 2)));
        assert_eq!(env.next_sent(), Some((Op::SendLast, 3)));
        assert_eq!(env.next_sent(), Some((Op::SendOnly, 4)));
        // The same gap again: a repeated packet, not another loss.
        answer(&mut side, &mut env, 2, nak(NakCode::PsnSequence), 0);
        run(&mut side, &mut env);
        assert_eq!(env.next_sent(), None);
        answer(&mut side, &mut env, 4, ACK, 0);
        assert_eq!(env.ended.len(), 2);
    }

    #[test]
    fn seven_retries_are_seven() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SEND, 1);
        for tries in 1..=8 {
            run(&mut side, &mut env);
            assert_eq!(env.packets, 2 * tries);
            assert_eq!(side.deadline(), Some(env.now + TIMEOUT));
            // Too early, then in time.
            env.now += TIMEOUT - 1;
            side.timer(&mut env);
            assert!(!side.wants_run());
            env.now += 1;
            assert_eq!(env.ended.len(), 0);
            side.timer(&mut env);
        }
        assert_eq!(env.next_ended(), Some((1, Some(Status::RetryExc))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::WrFlush))));
        assert_eq!(side.state(), SendState::Error);
        assert_eq!(env.failures, 1);
        // What is posted afterwards is flushed.
        env.post(3, SEND, 1);
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((3, Some(Status::WrFlush))));
        assert_eq!(env.packets, 16);
    }

    #[test]
    fn progress_resets_the_retries() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut attrs = send_attrs(0);
        attrs.retry = Retries::from_retry_cnt(1);
        let mut side = started(&mut slots, Transport::Rc, &attrs);
        env.post(1, SEND, 4 * MTU);
        for psn in 0..3 {
            run(&mut side, &mut env);
            env.now += TIMEOUT;
            side.timer(&mut env);
            assert_eq!(env.ended.len(), 0);
            run(&mut side, &mut env);
            answer(&mut side, &mut env, psn, ACK, 0);
        }
        answer(&mut side, &mut env, 3, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
    }

    #[test]
    fn a_receiver_that_is_not_ready_gets_its_time() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SEND, 1);
        run(&mut side, &mut env);
        let pause = RnrTimer::new(20).nanos();
        for tries in 1..=2 {
            assert_eq!(env.packets, 2 * tries);
            answer(&mut side, &mut env, 0, rnr(20), 0);
            assert_eq!(side.deadline(), Some(env.now + pause));
            // Nothing shortens the pause: the packets after it, another request, an early tick.
            answer(&mut side, &mut env, 0, nak(NakCode::PsnSequence), 0);
            answer(&mut side, &mut env, 0, rnr(1), 0);
            env.now += pause - 1;
            side.timer(&mut env);
            run(&mut side, &mut env);
            assert_eq!(env.packets, 2 * tries);
            env.now += 1;
            side.timer(&mut env);
            assert!(side.wants_run());
            run(&mut side, &mut env);
        }
        answer(&mut side, &mut env, 0, rnr(20), 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::RnrRetryExc))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::WrFlush))));
    }

    #[test]
    fn each_message_may_wait_for_its_receiver() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        for psn in 0..3 {
            env.post(psn, SEND, 1);
            for _ in 0..2 {
                run(&mut side, &mut env);
                answer(&mut side, &mut env, psn, rnr(1), 0);
                env.now += RnrTimer::new(1).nanos();
            }
            run(&mut side, &mut env);
            answer(&mut side, &mut env, psn, ACK, 0);
            assert_eq!(env.next_ended(), Some((psn, Some(Status::Success))));
        }
    }

    #[test]
    fn seven_rnr_retries_are_without_limit() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut attrs = send_attrs(0);
        attrs.rnr_retry = Retries::from_rnr_retry(7);
        let mut side = started(&mut slots, Transport::Rc, &attrs);
        env.post(1, SEND, 1);
        for tries in 1..=100 {
            run(&mut side, &mut env);
            assert_eq!(env.packets, tries);
            answer(&mut side, &mut env, 0, rnr(1), 0);
            env.now += RnrTimer::new(1).nanos();
        }
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
    }

    #[test]
    fn a_read_goes_on_where_its_response_broke_off() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(10));
        env.post(1, READ, 4 * MTU + 1);
        run(&mut side, &mut env);
        assert_eq!(env.next_sent(), Some((Op::ReadRequest, 10)));
        answer(&mut side, &mut env, 10, part(0, 5), MTU);
        answer(&mut side, &mut env, 11, part(1, 5), MTU);
        assert_eq!(env.written, (2 * MTU, MTU));
        // 12 is lost: 13 shows it, 14 tells nothing new.
        answer(&mut side, &mut env, 13, part(3, 5), MTU);
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 14, part(4, 5), 1);
        run(&mut side, &mut env);
        assert_eq!(env.writes, 2);
        let again = env.sent.pop();
        assert_eq!(again.map(|sent| sent.psn), Some(12));
        let rest = match again.map(|sent| sent.body) {
            Some(Body::Read(reth)) => Some((reth.va, reth.len)),
            _ => None,
        };
        assert_eq!(rest, Some((AT.va + 512, 2 * MTU + 1)));
        assert_eq!(env.sent.len(), 0);
        answer(&mut side, &mut env, 12, part(0, 3), MTU);
        answer(&mut side, &mut env, 13, part(1, 3), MTU);
        answer(&mut side, &mut env, 14, part(2, 3), 1);
        assert_eq!(env.written, (4 * MTU + 1, 1));
        let (_, wc) = env.ended.pop().unwrap_or((0, None));
        assert_eq!(says(wc), Some((Status::Success, WcOp::Read, 4 * MTU + 1)));
    }

    #[test]
    fn the_longest_read_has_the_window_for_itself() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0xff_fffe));
        env.post(1, SEND, 1);
        env.post(2, READ, 1 << 31);
        env.post(3, SEND, 1);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 1);
        answer(&mut side, &mut env, 0xff_fffe, ACK, 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 2);
        assert_eq!(side.next_psn().get(), 0x7f_ffff);
        answer(&mut side, &mut env, 0xff_ffff, part(0, 9), MTU);
        env.now += TIMEOUT;
        side.timer(&mut env);
        run(&mut side, &mut env);
        env.sent.pop();
        env.sent.pop();
        assert_eq!(env.next_sent(), Some((Op::ReadRequest, 0)));
        assert_eq!(side.next_psn().get(), 0x7f_ffff);
        assert_eq!((env.packets, env.ended.len()), (3, 1));
    }

    #[test]
    fn after_a_timeout_a_gap_can_still_be_reported() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 2 * MTU);
        run(&mut side, &mut env);
        env.now += TIMEOUT;
        side.timer(&mut env);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 4);
        answer(&mut side, &mut env, 0, nak(NakCode::PsnSequence), 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 6);
        answer(&mut side, &mut env, 0, nak(NakCode::PsnSequence), 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 6);
    }

    #[test]
    fn what_is_sent_again_is_known_as_such() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        let next = |env: &mut TestEnv| env.sent.pop().map(|sent| (sent.psn, sent.again));
        env.post(1, SEND, 2 * MTU);
        run(&mut side, &mut env);
        env.now += TIMEOUT;
        side.timer(&mut env);
        env.post(2, SEND, 1);
        run(&mut side, &mut env);
        for sent in [(0, false), (1, false), (0, true), (1, true), (2, false)] {
            assert_eq!(next(&mut env), Some(sent));
        }
        assert_eq!(next(&mut env), None);
    }

    #[test]
    fn an_acknowledgement_past_a_read_shows_that_its_response_is_lost() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, WRITE, 1);
        env.post(2, READ, 1);
        env.post(3, WRITE, 1);
        run(&mut side, &mut env);
        while env.sent.pop().is_some() {}
        answer(&mut side, &mut env, 2, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), None);
        run(&mut side, &mut env);
        assert_eq!(env.next_sent(), Some((Op::ReadRequest, 1)));
        assert_eq!(env.next_sent(), Some((Op::WriteOnly, 2)));
        answer(&mut side, &mut env, 1, READ_ONLY, 1);
        answer(&mut side, &mut env, 2, ACK, 0);
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((3, Some(Status::Success))));
    }

    #[test]
    fn a_response_acknowledges_what_came_before() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SendOp::FetchAdd { at: AT, add: 1 }, 8);
        run(&mut side, &mut env);
        answer(
            &mut side,
            &mut env,
            1,
            Body::AtomicAck(aeth(Syndrome::ACK), 77),
            0,
        );
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        assert_eq!(env.word, 77);
    }

    #[test]
    fn depth_and_fence_hold_requests_back() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, READ, 1);
        env.post(2, SendOp::AtomicWrite { to: AT }, 8);
        env.post(3, READ, 1);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 2);
        answer(&mut side, &mut env, 0, READ_ONLY, 1);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 3);
        env.post(4, SEND, 1);
        env.post(5, SEND, 1);
        let mut fenced = env.posted.pop();
        if let Some(wqe) = &mut fenced {
            wqe.fence = true;
        }
        let other = env.posted.pop();
        for wqe in [fenced, other].into_iter().flatten() {
            env.posted.push(wqe);
        }
        answer(&mut side, &mut env, 1, READ_ONLY, 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 3);
        answer(&mut side, &mut env, 2, READ_ONLY, 1);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 5);
        assert_eq!(env.ended.len(), 3);
    }

    #[test]
    fn what_is_sent_again_counts_once() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, READ, 1);
        env.post(2, READ, 1);
        run(&mut side, &mut env);
        env.now += TIMEOUT;
        side.timer(&mut env);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 4);
        answer(&mut side, &mut env, 0, READ_ONLY, 1);
        answer(&mut side, &mut env, 1, READ_ONLY, 1);
        env.post(3, READ, 1);
        run(&mut side, &mut env);
        assert_eq!((env.packets, env.ended.len()), (5, 2));
    }

    #[test]
    fn a_fence_holds_a_local_operation_back() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, READ, 1);
        run(&mut side, &mut env);
        env.post(2, SendOp::Local(LocalOp::LocalInvalidate), 0);
        if let Some(mut wqe) = env.posted.pop() {
            wqe.fence = true;
            env.posted.push(wqe);
        }
        run(&mut side, &mut env);
        assert_eq!((env.executed, env.posted.len()), (0, 0));
        answer(&mut side, &mut env, 0, READ_ONLY, 1);
        run(&mut side, &mut env);
        assert_eq!((env.executed, env.ended.len()), (1, 2));
    }

    #[test]
    fn the_request_at_fault_says_why() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, WRITE, 1);
        env.post(102, WRITE, 1);
        env.post(3, WRITE, 1);
        run(&mut side, &mut env);
        // The earlier one ends as the peer says.
        assert_eq!((env.packets, env.ended.len()), (1, 0));
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((102, Some(Status::LocProt))));
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((3, Some(Status::WrFlush))));
        assert_eq!((side.state(), env.failures), (SendState::Error, 1));
    }

    #[test]
    fn local_operations_end_in_their_turn() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SendOp::Local(LocalOp::RegMr), 0);
        env.post(3, SEND, 1);
        env.post(104, SendOp::Local(LocalOp::BindMw), 0);
        env.post(5, SEND, 1);
        run(&mut side, &mut env);
        assert_eq!((env.packets, env.executed, env.ended.len()), (2, 1, 0));
        // Sent again, it is not executed again.
        env.now += TIMEOUT;
        side.timer(&mut env);
        run(&mut side, &mut env);
        assert_eq!((env.packets, env.executed), (4, 1));
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        answer(&mut side, &mut env, 1, ACK, 0);
        assert_eq!(env.next_ended(), Some((3, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((104, Some(Status::MwBind))));
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((5, Some(Status::WrFlush))));
    }

    #[test]
    fn a_refusal_names_the_request() {
        let codes = [
            (NakCode::InvalidRequest, Status::RemInvReq),
            (NakCode::RemoteAccess, Status::RemAccess),
            (NakCode::RemoteOperation, Status::RemOp),
        ];
        for (code, status) in codes {
            let (mut slots, mut env) = (slots(), TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
            env.post(1, SEND, 1);
            env.post(2, WRITE, 2 * MTU);
            env.post(3, SEND, 1);
            run(&mut side, &mut env);
            answer(&mut side, &mut env, 2, nak(code), 0);
            assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
            assert_eq!(env.next_ended(), Some((2, Some(status))));
            assert_eq!(env.next_ended(), Some((3, Some(Status::WrFlush))));
            assert_eq!(env.failures, 1);
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        let wrong = [
            (READ, part(0, 1), 2),
            (READ, part(0, 2), MTU),
            (READ, part(0, 2), 1),
            (READ, part(1, 3), 1),
            (READ, Body::AtomicAck(aeth(Syndrome::ACK), 1), 0),
            (SendOp::FetchAdd { at: AT, add: 1 }, READ_ONLY, 8),
            (SendOp::AtomicWrite { to: AT }, READ_ONLY, 8),
        ];
        for (op, body, len) in wrong {
            let (mut slots, mut env) = (slots(), TestEnv::new());
            let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
            env.post(1, op, if op == READ { 1 } else { 8 });
            run(&mut side, &mut env);
            answer(&mut side, &mut env, 0, body, len);
            assert_eq!(env.next_ended(), Some((1, Some(Status::BadResp))));
            assert_eq!(env.writes, 0);
        }
        // A response to a request that expects none is not looked at.
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, WRITE, 1);
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 0, READ_ONLY, 1);
        assert_eq!((env.ended.len(), env.writes), (0, 0));
    }

    #[test]
    fn memory_for_a_response_that_cannot_be_written() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, READ, 1);
        env.fault = Some(Status::LocProt);
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 0, READ_ONLY, 1);
        assert_eq!(env.next_ended(), Some((1, Some(Status::LocProt))));
    }

    #[test]
    fn what_the_transport_cannot_do() {
        let flush = SendOp::Flush {
            at: AT,
            how: Feth::default(),
        };
        for op in [READ, flush, SendOp::FetchAdd { at: AT, add: 1 }] {
            let (mut slots, mut env) = (slots(), TestEnv::new());
            let mut side = started(&mut slots, Transport::Uc, &send_attrs(0));
            env.post(1, op, 8);
            run(&mut side, &mut env);
            assert_eq!(env.next_ended(), Some((1, Some(Status::LocQpOp))));
        }
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut attrs = send_attrs(0);
        attrs.max_rd_atomic = 0;
        let mut side = started(&mut slots, Transport::Rc, &attrs);
        env.post(1, flush, 8);
        env.post(2, flush, 8);
        env.post(3, READ, 8);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 1);
        answer(&mut side, &mut env, 0, READ_ONLY, 0);
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 1, READ_ONLY, 0);
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((3, Some(Status::LocQpOp))));
    }

    #[test]
    fn a_datagram_longer_than_the_mtu_is_an_error() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Ud, &send_attrs(0));
        let to = SendOp::Datagram {
            dest_qpn: 5,
            qkey: 6,
            imm: None,
        };
        env.post(1, to, MTU);
        env.post(2, to, MTU + 1);
        env.post(3, to, 0);
        run(&mut side, &mut env);
        assert_eq!(env.packets, 1);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(env.next_ended(), Some((2, Some(Status::LocLen))));
        assert_eq!(env.next_ended(), Some((3, Some(Status::WrFlush))));
        // Only the send queue has failed, and it can be used again.
        assert_eq!((side.state(), env.failures), (SendState::SqError, 1));
        side.start(&send_attrs(99));
        env.post(4, to, 1);
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((4, Some(Status::Success))));
        env.sent.pop();
        assert_eq!(env.next_sent(), Some((Op::SendOnly, 1)));

        // The port gets another MTU.
        side.set_port_mtu(Mtu::B512);
        env.post(5, to, MTU + 1);
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((5, Some(Status::Success))));
        side.set_port_mtu(Mtu::B256);
        env.post(6, to, MTU + 1);
        run(&mut side, &mut env);
        assert_eq!(env.next_ended(), Some((6, Some(Status::LocLen))));
    }

    #[test]
    fn unreliable_messages_end_when_they_are_sent() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Uc, &send_attrs(0));
        env.post(1, WRITE, 200 * MTU);
        env.post(2, SEND, 1);
        env.room = 150;
        assert_eq!(side.run(&mut env, 1000), Progress::Blocked);
        assert_eq!((env.packets, env.ended.len()), (150, 0));
        env.room = u32::MAX;
        assert_eq!(side.run(&mut env, 51), Progress::More);
        assert_eq!(side.run(&mut env, 51), Progress::Idle);
        assert_eq!((env.packets, env.ended.len()), (201, 2));
        assert_eq!(side.deadline(), None);
    }

    #[test]
    fn draining_lets_what_was_started_end() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 2 * MTU);
        env.post(2, SEND, 1);
        env.room = 1;
        side.run(&mut env, 1000);
        side.drain(&mut env, true);
        env.room = u32::MAX;
        run(&mut side, &mut env);
        assert_eq!(env.packets, 2);
        assert_eq!(side.state(), SendState::Draining { notify: true });
        answer(&mut side, &mut env, 1, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, Some(Status::Success))));
        assert_eq!(side.state(), SendState::Drained);
        assert_eq!(env.events.pop(), Some(QpEvent::SqDrained));
        run(&mut side, &mut env);
        assert_eq!(env.packets, 2);
        side.start(&send_attrs(0));
        run(&mut side, &mut env);
        env.sent.pop();
        env.sent.pop();
        assert_eq!(env.next_sent(), Some((Op::SendOnly, 2)));
        // With nothing started it is drained at once.
        answer(&mut side, &mut env, 2, ACK, 0);
        side.drain(&mut env, false);
        assert_eq!((side.state(), env.events.len()), (SendState::Drained, 0));
    }

    #[test]
    fn failing_flushes_in_order_and_resetting_forgets() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        for id in 1..=3 {
            env.post(id, SEND, 1);
        }
        run(&mut side, &mut env);
        env.post(4, SEND, 1);
        side.fail(&mut env);
        side.fail(&mut env);
        run(&mut side, &mut env);
        for id in 1..=4 {
            assert_eq!(env.next_ended(), Some((id, Some(Status::WrFlush))));
        }
        assert_eq!((env.ended.len(), env.failures), (0, 0));
        // A late acknowledgement changes nothing.
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.ended.len(), 0);
        side.reset();
        side.start(&send_attrs(7));
        env.post(5, SEND, 1);
        run(&mut side, &mut env);
        side.reset();
        assert_eq!((side.state(), env.ended.len()), (SendState::Idle, 0));
        assert_eq!(side.deadline(), None);
    }

    #[test]
    fn a_full_completion_queue_fails_the_queue_pair() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        env.post(2, SEND, 1);
        run(&mut side, &mut env);
        env.cq_full = true;
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!((side.state(), env.failures), (SendState::Error, 1));
        assert_eq!(env.ended.len(), 2);
    }

    #[test]
    fn a_lost_completion_is_more_than_a_failure_of_the_send_queue() {
        let to = SendOp::Datagram {
            dest_qpn: 5,
            qkey: 6,
            imm: None,
        };
        // The completion of a datagram that was sent.
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Ud, &send_attrs(0));
        env.post(1, to, 1);
        env.cq_full = true;
        run(&mut side, &mut env);
        assert_eq!((side.state(), env.failures), (SendState::Error, 1));
        // The completion of one that is flushed later.
        let (mut slots, mut env) = (self::slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Ud, &send_attrs(0));
        env.post(1, to, MTU + 1);
        run(&mut side, &mut env);
        assert_eq!((side.state(), env.failures), (SendState::SqError, 1));
        env.cq_full = true;
        env.post(2, to, 1);
        env.post(3, to, 1);
        run(&mut side, &mut env);
        assert_eq!((side.state(), env.failures), (SendState::Error, 2));
        assert_eq!(env.ended.len(), 3);
    }

    #[test]
    fn success_without_signal_is_silent() {
        let (mut slots, mut env) = (slots(), TestEnv::new());
        let mut side = started(&mut slots, Transport::Rc, &send_attrs(0));
        env.post(1, SEND, 1);
        if let Some(mut wqe) = env.posted.pop() {
            wqe.signaled = false;
            env.posted.push(wqe);
        }
        run(&mut side, &mut env);
        answer(&mut side, &mut env, 0, ACK, 0);
        assert_eq!(env.next_ended(), Some((1, None)));
    }
}
