// SPDX-License-Identifier: GPL-2.0

//! Requests of consumers in the kernel.

use super::{
    inline_allowed,
    is_aligned,
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
    MAX_QPN, //
};
use crate::{
    abi::Sge,
    ah::Destination,
    device::Rxe,
    mw::BindRequest,
    proto::wr::{
        LocalOp,
        RecvWqe,
        RemoteAddr,
        SendOp,
        SendWqe, //
    },
    sge::{
        self,
        Cursor, //
    },
    wire::{
        ext::{
            Imm,
            Key, //
        },
        opcode::Service,
        packet::SendEnd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::provider::{
    self,
    RecvWr,
    SendWr, //
};

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
                mr: mr.inner().clone(),
                key: Key(key),
                access,
                iova,
            };
            Parsed::local(LocalOp::RegMr, register)
        }
        provider::SendOp::BindMw(bind) => {
            let request = BindRequest {
                window: Key(bind.window),
                new_key: Key(bind.new_key),
                region: Key(bind.region),
                addr: bind.addr,
                length: bind.length,
                access: bind.access,
            };
            Parsed::local(LocalOp::BindMw, Payload::Bind(request))
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
        && is_aligned(&parsed.op)
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
            srq: None,
        },
    })
}
