// SPDX-License-Identifier: GPL-2.0

//! Reliable multi-packet protocol: transfers of more than one datagram.
//!
//! The sender sends segments up to a window, the receiver acknowledges them and
//! moves the window; either may end the transfer. IBTA volume 1, 13.6.
//!
//! [`send`] drives the transfers of this node's clients, [`receive`] puts those of
//! others together. Both answer with datagrams of their own, made here.

mod receive;
mod send;

pub(crate) use receive::{
    drop_transfers,
    Transfers, //
};
pub(crate) use send::{
    begin,
    retry,
    sent,
    Sent, //
};

use crate::mad::{
    agent::Lease,
    send::{
        create_internal,
        post,
        Draft, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::mad::{
    recv::RecvChain,
    verbs::Ah,
    wire::{
        method,
        Header,
        RmppHeader,
        RmppStatus,
        RmppType,
        BASE_VERSION, //
    },
};

/// Longest headers of a class with transfers.
const HEADER_MAX: usize = 64;

/// What an answer to a segment or acknowledgement takes over from it.
#[derive(Clone, Copy)]
struct Template {
    bytes: [u8; HEADER_MAX],
    len: usize,
    source_qp: u32,
    pkey_index: u16,
}

impl Template {
    /// From a datagram; `None` if it is too short for its class.
    fn of(chain: &RecvChain) -> Option<Self> {
        let len = chain.header()?.class.data_offset().max(RmppHeader::END);
        let mut bytes = [0; HEADER_MAX];
        bytes
            .get_mut(..len)?
            .copy_from_slice(chain.mad().get(..len)?);
        // The answer goes the other way.
        if let Some(method) = bytes.get_mut(3) {
            *method ^= method::RESPONSE_BIT;
        }
        let wc = chain.completion().raw();
        Some(Self {
            bytes,
            len,
            source_qp: wc.src_qp,
            pkey_index: wc.pkey_index,
        })
    }

    /// Sends it to `ah` after `edit` changed the RMPP header. A loss is for the
    /// peer's timeout to repair. May sleep.
    fn send(mut self, lease: Lease, ah: Arc<Ah>, edit: impl FnOnce(&mut RmppHeader)) -> Result {
        let mut rmpp = RmppHeader::parse(&self.bytes).ok_or(EINVAL)?;
        rmpp.set_flags(RmppHeader::ACTIVE);
        edit(&mut rmpp);
        self.bytes
            .get_mut(RmppHeader::OFFSET..RmppHeader::END)
            .ok_or(EINVAL)?
            .copy_from_slice(&rmpp.to_bytes());
        let draft = Draft {
            remote_qpn: self.source_qp,
            pkey_index: self.pkey_index,
            rmpp: true,
            header: self.len,
            data: 0,
            base_version: BASE_VERSION,
        };
        let send = create_internal(lease, &draft, ah)?;
        send.wr().fill(self.bytes.get(..self.len).ok_or(EINVAL)?);
        post(send).map_err(|(error, _)| error)
    }
}

/// Tells the sender of `chain` that its transfer is over. May sleep.
fn abort_peer(lease: &Lease, chain: &RecvChain, status: RmppStatus) {
    let (Some(template), Ok(ah)) = (Template::of(chain), chain.reply_ah(lease.head())) else {
        return;
    };
    let Ok(ah) = Arc::new(ah, GFP_KERNEL) else {
        return;
    };
    let _ = template.send(lease.clone(), ah, |rmpp| {
        rmpp.version = RmppHeader::VERSION;
        rmpp.kind = RmppType::Abort;
        rmpp.status = status;
        rmpp.segment = 0;
        rmpp.paylen_newwin = 0;
    });
}

/// Handles a datagram of a client whose transfers the kernel does. Returns what
/// the client gets: a datagram without RMPP, or a whole transfer. May sleep.
pub(crate) fn received(lease: &Lease, chain: RecvChain) -> Option<RecvChain> {
    let (Some(header), Some(rmpp)) = (chain.header(), chain.rmpp()) else {
        return None;
    };
    if !rmpp.has(RmppHeader::ACTIVE) {
        return Some(chain);
    }
    let fail = |status| {
        send::abort(lease, &chain, status);
        abort_peer(lease, &chain, status);
        None
    };
    if rmpp.version != RmppHeader::VERSION {
        return fail(RmppStatus::UNV);
    }
    match rmpp.kind {
        RmppType::Data => data(lease, chain, &header, &rmpp),
        RmppType::Ack => {
            send::acknowledged(lease, &chain, &header, &rmpp);
            None
        }
        RmppType::Stop if rmpp.status == RmppStatus::RESX => {
            send::abort(lease, &chain, rmpp.status);
            None
        }
        RmppType::Abort if rmpp.status.is_abort() => {
            send::abort(lease, &chain, rmpp.status);
            None
        }
        RmppType::Stop | RmppType::Abort => fail(RmppStatus::BAD_STATUS),
        RmppType::Other(_) => fail(RmppStatus::BADT),
    }
}

fn data(lease: &Lease, chain: RecvChain, header: &Header, rmpp: &RmppHeader) -> Option<RecvChain> {
    let fault = if rmpp.status != RmppStatus::NORMAL {
        Some(RmppStatus::BAD_STATUS)
    } else if rmpp.has(RmppHeader::FIRST) != (rmpp.segment == 1) {
        Some(RmppStatus::BAD_SEG)
    } else {
        None
    };
    if let Some(status) = fault {
        abort_peer(lease, &chain, status);
        return None;
    }
    if rmpp.segment == 1 {
        receive::start(lease, chain, header, rmpp)
    } else {
        receive::proceed(lease, chain, header, rmpp)
    }
}
