// SPDX-License-Identifier: GPL-2.0

//! Requests on a reliable connection.

use super::reply::Reply;
use super::resource::Saved;
use super::{Delivered, Message, RecvSide, RecvState, Resource, WriteFault};
use crate::proto::attrs::{Allowed, RecvAttrs, Transport};
use crate::proto::env::{Access, AccessError, AtomicOp, Counter, QpEvent, RecvEnv, Right, Slots};
use crate::proto::run::{packets_of, Content};
use crate::proto::wr::Status;
use crate::wire::aeth::{NakCode, Syndrome};
use crate::wire::ext::{AtomicEth, Feth, Reth, MAX_MESSAGE};
use crate::wire::packet::{Body, Packet, SendEnd, WriteEnd};
use crate::wire::psn::Psn;

/// Why a request was not executed.
pub(super) enum Fault {
    /// No receive request is posted: the peer has to wait.
    NotReady,
    /// It is refused with this code; a receive request in use ends with this status.
    Refused(NakCode, Status),
}

/// Not a request that can be executed (IBTA vol. 1, 9.9.3: class C).
pub(super) const INVALID: Fault = Fault::Refused(NakCode::InvalidRequest, Status::RemInvReq);

impl From<AccessError> for Fault {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Denied => Self::Refused(NakCode::RemoteAccess, Status::RemAccess),
            AccessError::Failed => Self::Refused(NakCode::RemoteOperation, Status::RemOp),
        }
    }
}

impl From<WriteFault> for Fault {
    fn from(fault: WriteFault) -> Self {
        match fault {
            WriteFault::Form => INVALID,
            WriteFault::Access(error) => error.into(),
        }
    }
}

/// The receive request itself is at fault: the peer only learns that it failed.
fn own_fault(status: Status) -> Fault {
    Fault::Refused(NakCode::RemoteOperation, status)
}

impl Allowed {
    fn flush(self, how: Feth) -> bool {
        (!how.global || self.flush_global) && (!how.persistent || self.flush_persistent)
    }
}

impl<L, R, S: Slots<Option<Resource>>> RecvSide<L, R, S> {
    /// Takes a request packet of the connection, when no answer is on its way.
    pub(super) fn request<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        rx: &E::Rx,
    ) {
        let Some(attrs) = self.attrs else {
            return;
        };
        let psn = packet.bth.psn;
        if psn.is_before(self.expected) {
            env.count(Counter::DuplicateRequest);
            if self.finds_srq(env, packet) {
                self.repeat(env, &attrs, packet);
            }
            return;
        }
        if psn != self.expected {
            env.count(Counter::OutOfSeqRequest);
            if !self.reported {
                self.reported = true;
                let nak = self.aeth(Syndrome::Nak(NakCode::PsnSequence));
                self.answer(env, Reply::Single(Content::Ack(nak), self.expected));
            }
            return;
        }
        self.reported = false;
        match self.execute(env, &attrs, packet, rx) {
            // The queue pair may have failed on the way.
            Ok(reply) if self.state == RecvState::Ready => match reply {
                Reply::None if packet.bth.ack_req => {
                    if self.ack_due.replace(psn).is_some() {
                        env.count(Counter::AckDeferred);
                    }
                }
                Reply::None => (),
                reply => self.answer(env, reply),
            },
            Ok(_) => (),
            Err(Fault::NotReady) => {
                env.count(Counter::SentRnr);
                self.reported = true;
                let nak = self.aeth(Syndrome::Rnr(attrs.min_rnr_timer));
                self.answer(env, Reply::Single(Content::Ack(nak), psn));
            }
            Err(Fault::Refused(code, status)) => {
                // Without a receive request no completion tells that an access was refused.
                if code == NakCode::RemoteAccess && self.held.is_none() {
                    env.event(QpEvent::AccessErr);
                }
                self.refuse(env, psn, code, status);
            }
        }
    }

    /// Turns to the shared receive queue that an XRC request names; says whether there is one.
    fn finds_srq<E: RecvEnv<Local = L, Remote = R>>(&self, env: &mut E, packet: &Packet) -> bool {
        self.transport != Transport::XrcTgt || packet.xrc_srq.is_some_and(|srq| env.address(srq))
    }

    /// Executes the packet that is expected.
    fn execute<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        rx: &E::Rx,
    ) -> Result<Reply<R>, Fault> {
        let psn = packet.bth.psn;
        let payload = packet.opcode.row().payload;
        let continues = match packet.body {
            Body::Send { start, .. } => !start && matches!(self.message, Message::Send { .. }),
            Body::Write { start, .. } => {
                start.is_none() && matches!(self.message, Message::Write { .. })
            }
            _ => false,
        };
        let continues = continues && packet.xrc_srq == self.named;
        let starts = packet.opcode.row().place.starts();
        let in_order = continues || (starts && matches!(self.message, Message::None));
        if !in_order || !payload.allows(packet.payload_len, attrs.mtu.bytes()) {
            return Err(INVALID);
        }
        if !self.finds_srq(env, packet) {
            return Err(INVALID);
        }
        self.named = packet.xrc_srq;
        match packet.body {
            Body::Send { end, .. } => {
                self.send(env, attrs, packet, end, rx)?;
                Ok(Reply::None)
            }
            Body::Write { start, end } => {
                self.write(env, attrs, packet, start, end, rx)?;
                Ok(Reply::None)
            }
            Body::Read(reth) => self.read(env, attrs, psn, reth),
            Body::CompareSwap(eth) => {
                let op = AtomicOp::CompareSwap {
                    compare: eth.compare,
                    swap: eth.swap_add,
                };
                self.atomic(env, attrs, psn, eth, op)
            }
            Body::FetchAdd(eth) => {
                self.atomic(env, attrs, psn, eth, AtomicOp::FetchAdd(eth.swap_add))
            }
            Body::AtomicWrite(reth, value) => {
                let value = value.ok_or(INVALID)?;
                if !attrs.allowed.write || reth.len != 8 || reth.va % 8 != 0 {
                    return Err(INVALID);
                }
                self.need_resource()?;
                let mut to = open(env, &reth, Right::Write)?;
                env.atomic_write(&mut to, value)?;
                Ok(self.done(psn, Saved::Done))
            }
            Body::Flush(how, reth) => {
                let how = how.ok_or(INVALID)?;
                if !attrs.allowed.flush(how) || reth.len > MAX_MESSAGE {
                    return Err(INVALID);
                }
                flush(env, &reth, how)?;
                Ok(self.done(psn, Saved::Done))
            }
            Body::ReadResponse(_) | Body::Ack(_) | Body::AtomicAck(..) => Ok(Reply::None),
        }
    }

    fn send<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        end: Option<SendEnd>,
        rx: &E::Rx,
    ) -> Result<(), Fault> {
        let room = match self.take_recv(env) {
            None => return Err(Fault::NotReady),
            Some(Err(status)) => return Err(own_fault(status)),
            Some(Ok(room)) => room,
        };
        let got = match self.message {
            Message::Send { got } => got,
            _ => 0,
        };
        let sum = got
            .checked_add(packet.payload_len)
            .filter(|sum| *sum <= room)
            .ok_or(Fault::Refused(NakCode::InvalidRequest, Status::LocLen))?;
        if let (Some(recv), true) = (&mut self.held, packet.payload_len != 0) {
            env.scatter(&mut recv.local, got, rx).map_err(own_fault)?;
        }
        if let Some(SendEnd::Invalidate(key)) = end {
            env.invalidate(key)
                .map_err(|_| Fault::Refused(NakCode::RemoteAccess, Status::RemInvReq))?;
        }
        self.expected = self.expected.next();
        self.message = Message::Send { got: sum };
        if let Some(end) = end {
            self.message = Message::None;
            self.msn = self.msn.next();
            env.count(Counter::Recvs);
            self.deliver(
                env,
                Delivered {
                    by_write: false,
                    byte_len: sum,
                    end,
                    src_qp: attrs.dest_qpn,
                    grh: false,
                    solicited: packet.bth.solicited,
                },
            );
        }
        Ok(())
    }

    fn write<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        start: Option<Reth>,
        end: Option<WriteEnd>,
        rx: &E::Rx,
    ) -> Result<(), Fault> {
        if !attrs.allowed.write {
            return Err(INVALID);
        }
        // Before the access is checked: its error belongs to the receive request, if there is one.
        if let Some(WriteEnd::Imm(_)) = end {
            match self.take_recv(env) {
                None => return Err(Fault::NotReady),
                Some(Err(status)) => return Err(own_fault(status)),
                Some(Ok(_)) => (),
            }
        }
        if let Some(reth) = start {
            if reth.len > MAX_MESSAGE {
                return Err(INVALID);
            }
            self.message = Message::Write {
                to: match reth.len {
                    0 => None,
                    _ => Some(open(env, &reth, Right::Write)?),
                },
                len: reth.len,
                got: 0,
            };
        }
        let len = self.write_part(env, packet, end.is_some(), rx)?;
        self.expected = self.expected.next();
        if let Some(end) = end {
            self.msn = self.msn.next();
            self.written(env, attrs, packet, len, end);
        }
        Ok(())
    }

    fn read<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        psn: Psn,
        reth: Reth,
    ) -> Result<Reply<R>, Fault> {
        if !attrs.allowed.read || reth.len > MAX_MESSAGE {
            return Err(INVALID);
        }
        self.need_resource()?;
        let from = match reth.len {
            0 => None,
            _ => Some(open(env, &reth, Right::Read)?),
        };
        let packets = packets_of(reth.len, attrs.mtu.bytes());
        self.resources.save(Resource {
            first: psn,
            packets,
            saved: Saved::Read(reth),
        });
        self.expected = psn.add(packets);
        self.msn = self.msn.next();
        Ok(Reply::Read {
            from,
            len: reth.len,
            first: psn,
            sent: 0,
            again: false,
        })
    }

    fn atomic<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        psn: Psn,
        eth: AtomicEth,
        op: AtomicOp,
    ) -> Result<Reply<R>, Fault> {
        if !attrs.allowed.atomic || eth.va % 8 != 0 {
            return Err(INVALID);
        }
        self.need_resource()?;
        let reth = Reth {
            va: eth.va,
            key: eth.key,
            len: 8,
        };
        let mut on = open(env, &reth, Right::Atomic)?;
        let found = env.atomic(&mut on, op)?;
        Ok(self.done(psn, Saved::Atomic(found)))
    }

    fn need_resource(&self) -> Result<(), Fault> {
        if self.resources.has_room() {
            Ok(())
        } else {
            Err(INVALID)
        }
    }

    /// After a request whose answer is one packet.
    fn done(&mut self, psn: Psn, saved: Saved) -> Reply<R> {
        self.resources.save(Resource {
            first: psn,
            packets: 1,
            saved,
        });
        self.expected = psn.next();
        self.msn = self.msn.next();
        Reply::Single(self.content_of(saved), psn)
    }

    /// The answer of one packet that was saved.
    fn content_of(&self, saved: Saved) -> Content {
        let aeth = self.aeth(Syndrome::ACK);
        match saved {
            Saved::Atomic(found) => Content::AtomicAck(aeth, found),
            // FLUSH and ATOMIC WRITE are answered by a response without data.
            Saved::Done | Saved::Read(_) => Content::ReadResponse(aeth),
        }
    }

    /// Answers a request that was executed before (IBTA vol. 1, 9.7.5.1.4 and C9-105 to 110). What
    /// cannot be answered is dropped.
    fn repeat<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
    ) {
        let psn = packet.bth.psn;
        let resource = self.resources.find(psn);
        match packet.body {
            // Acknowledged anew, up to the last packet.
            Body::Send { .. } | Body::Write { .. } => self.ack_due = Some(self.expected.prev()),
            Body::Read(reth) => {
                let Some(Resource {
                    first,
                    packets,
                    saved: Saved::Read(whole),
                }) = resource
                else {
                    return;
                };
                let left = packets.saturating_sub(psn.ahead_of(first));
                if !is_part(&reth, &whole) || packets_of(reth.len, attrs.mtu.bytes()) > left {
                    return;
                }
                let from = match reth.len {
                    0 => None,
                    _ => match open(env, &reth, Right::Read) {
                        Ok(from) => Some(from),
                        Err(_) => {
                            env.event(QpEvent::AccessErr);
                            return self.refuse(env, psn, NakCode::RemoteAccess, Status::RemAccess);
                        }
                    },
                };
                self.answer_again(
                    env,
                    Reply::Read {
                        from,
                        len: reth.len,
                        first: psn,
                        sent: 0,
                        again: true,
                    },
                );
            }
            Body::CompareSwap(_) | Body::FetchAdd(_) => {
                if let Some(saved @ Saved::Atomic(_)) = resource.map(|resource| resource.saved) {
                    let content = self.content_of(saved);
                    self.answer_again(env, Reply::Single(content, psn));
                }
            }
            Body::AtomicWrite(..) | Body::Flush(..) => {
                let done = match (resource.map(|resource| resource.saved), packet.body) {
                    (Some(Saved::Done), _) => true,
                    // Nothing can be kept, but to flush again does no harm.
                    (None, Body::Flush(Some(how), reth)) if !self.resources.has_room() => {
                        attrs.allowed.flush(how) && flush(env, &reth, how).is_ok()
                    }
                    _ => false,
                };
                if done {
                    let content = self.content_of(Saved::Done);
                    self.answer_again(env, Reply::Single(content, psn));
                }
            }
            _ => (),
        }
    }
}

fn open<E: RecvEnv>(env: &mut E, reth: &Reth, right: Right) -> Result<E::Remote, AccessError> {
    env.open(&Access {
        key: reth.key,
        va: reth.va,
        len: reth.len,
        right,
    })
}

fn flush<E: RecvEnv>(env: &mut E, reth: &Reth, how: Feth) -> Result<(), AccessError> {
    if !how.whole_region && reth.len == 0 {
        return Ok(());
    }
    let len = if how.whole_region { 0 } else { reth.len };
    let mut range = open(env, &Reth { len, ..*reth }, Right::Flush(how))?;
    env.flush(&mut range, how)
}

/// Whether `part` is a range of `whole`. Neither sum can wrap.
fn is_part(part: &Reth, whole: &Reth) -> bool {
    let skip = part.va.wrapping_sub(whole.va);
    let len = u64::from(whole.len);
    part.key == whole.key && skip <= len && u64::from(part.len) <= len - skip
}
