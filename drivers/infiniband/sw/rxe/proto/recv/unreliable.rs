// SPDX-License-Identifier: GPL-2.0

//! Messages of unreliable connections and datagrams. Nothing is answered: a message that does not
//! arrive whole, does not fit or may not be executed is dropped, and a receive request that it has
//! taken waits for the next one (IBTA vol. 1, 9.8.2 and 9.8.3). Only a receive request that is
//! itself at fault fails the queue pair.

use super::{Delivered, Message, RecvSide, Resource};
use crate::proto::attrs::RecvAttrs;
use crate::proto::env::{Access, Counter, RecvEnv, Right, Slots};
use crate::proto::wr::Status;
use crate::wire::ext::MAX_MESSAGE;
use crate::wire::packet::{Body, Packet, SendEnd, WriteEnd};

/// Bytes of network header in front of a datagram's data.
const GRH_LEN: u32 = 40;

/// Why a packet had no effect.
enum Dropped {
    /// The message is dropped.
    Message,
    /// The receive request is at fault.
    Broken(Status),
}

impl<L, R, S: Slots<Option<Resource>>> RecvSide<L, R, S> {
    /// Takes a packet of an unreliable connection.
    pub(super) fn part<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        rx: &E::Rx,
    ) {
        let Some(attrs) = self.attrs else {
            return;
        };
        let psn = packet.bth.psn;
        let starts = packet.opcode.row().place.starts();
        if starts || psn != self.expected {
            // Whatever was there is incomplete.
            self.message = Message::None;
        }
        self.expected = psn.next();
        let allowed = packet
            .opcode
            .row()
            .payload
            .allows(packet.payload_len, attrs.mtu.bytes());
        let result = match packet.body {
            _ if !allowed => Err(Dropped::Message),
            Body::Send { start, end } => self.uc_send(env, &attrs, packet, (start, end), rx),
            Body::Write { end, .. } => self.uc_write(env, &attrs, packet, end, rx),
            _ => Err(Dropped::Message),
        };
        match result {
            Ok(()) => (),
            Err(Dropped::Message) => self.message = Message::None,
            Err(Dropped::Broken(status)) => self.broken_recv(env, status),
        }
    }

    fn broken_recv<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E, status: Status) {
        self.end_recv(env, status);
        self.break_down(env);
    }

    fn uc_recv<E: RecvEnv<Local = L, Remote = R>>(&mut self, env: &mut E) -> Result<u32, Dropped> {
        match self.take_recv(env) {
            None => Err(Dropped::Message),
            Some(Err(status)) => Err(Dropped::Broken(status)),
            Some(Ok(room)) => Ok(room),
        }
    }

    fn uc_send<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        (start, end): (bool, Option<SendEnd>),
        rx: &E::Rx,
    ) -> Result<(), Dropped> {
        let got = match self.message {
            Message::Send { got } if !start => got,
            Message::None if start => 0,
            _ => return Err(Dropped::Message),
        };
        let room = self.uc_recv(env)?;
        let sum = got
            .checked_add(packet.payload_len)
            .filter(|sum| *sum <= room)
            .ok_or(Dropped::Message)?;
        if let (Some(recv), true) = (&mut self.held, packet.payload_len != 0) {
            env.scatter(&mut recv.local, got, rx)
                .map_err(Dropped::Broken)?;
        }
        self.message = Message::Send { got: sum };
        if let Some(end) = end {
            self.message = Message::None;
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

    fn uc_write<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        attrs: &RecvAttrs,
        packet: &Packet,
        end: Option<WriteEnd>,
        rx: &E::Rx,
    ) -> Result<(), Dropped> {
        if !attrs.allowed.write {
            return Err(Dropped::Message);
        }
        if let Body::Write {
            start: Some(reth), ..
        } = packet.body
        {
            if reth.len > MAX_MESSAGE {
                return Err(Dropped::Message);
            }
            let access = Access {
                key: reth.key,
                va: reth.va,
                len: reth.len,
                right: Right::Write,
            };
            let to = match reth.len {
                0 => None,
                _ => Some(env.open(&access).map_err(|_| Dropped::Message)?),
            };
            self.message = Message::Write {
                to,
                len: reth.len,
                got: 0,
            };
        }
        if let (Message::Write { .. }, Some(WriteEnd::Imm(_))) = (&self.message, end) {
            self.uc_recv(env)?;
        }
        let len = self
            .write_part(env, packet, end.is_some(), rx)
            .map_err(|_| Dropped::Message)?;
        if let Some(end) = end {
            self.written(env, attrs, packet, len, end);
        }
        Ok(())
    }

    /// Takes a datagram.
    pub(super) fn datagram<E: RecvEnv<Local = L, Remote = R>>(
        &mut self,
        env: &mut E,
        packet: &Packet,
        rx: &E::Rx,
    ) {
        let (Body::Send { end: Some(end), .. }, Some(deth)) = (packet.body, packet.deth) else {
            return;
        };
        let room = match self.uc_recv(env) {
            Ok(room) => room,
            Err(Dropped::Message) => return,
            Err(Dropped::Broken(status)) => return self.broken_recv(env, status),
        };
        let Some(sum) = packet
            .payload_len
            .checked_add(GRH_LEN)
            .filter(|sum| *sum <= room)
        else {
            return;
        };
        let Some(recv) = &mut self.held else {
            return;
        };
        let mut written = env.scatter_grh(&mut recv.local, rx);
        if written.is_ok() && packet.payload_len != 0 {
            written = env.scatter(&mut recv.local, GRH_LEN, rx);
        }
        if let Err(status) = written {
            return self.broken_recv(env, status);
        }
        env.count(Counter::Recvs);
        self.deliver(
            env,
            Delivered {
                by_write: false,
                byte_len: sum,
                end,
                src_qp: deth.src_qp,
                grh: true,
                solicited: packet.bth.solicited,
            },
        );
    }
}
