// SPDX-License-Identifier: GPL-2.0

//! Far ends that only user space knows: InfiniBand behind a gateway.

use core::net::IpAddr;

use kernel::prelude::*;
use rdma::gfp::Gfp;
use rdma::netlink::{
    has_listeners, ls, message_type, multicast, Header, Netns, Request, SkBuff, CLIENT_LS,
};

use super::service;

/// Asks user space for the GID of `destination`; the answer carries `seq`.
///
/// Errors: `EADDRNOTAVAIL` if nobody listens, `ENOMEM`.
pub(super) fn ask(destination: IpAddr, interface: i32, seq: u32) -> Result {
    if !has_listeners(ls::GROUP) {
        return Err(EADDRNOTAVAIL);
    }
    let mut skb = SkBuff::new(Gfp::KERNEL)?;
    let mut message = skb.message(Header {
        portid: 0,
        seq,
        message_type: message_type(CLIENT_LS, ls::OP_IP_RESOLVE),
        flags: ls::FLAG_REQUEST,
    })?;
    message.family_header(&interface.to_ne_bytes())?;
    match destination {
        IpAddr::V4(addr) => message.put(ls::IPV4, &addr.octets())?,
        IpAddr::V6(addr) => message.put(ls::IPV6, &addr.octets())?,
    }
    message.end();
    // A listener that goes away meanwhile is as good as one that does not answer.
    let _ = multicast(Netns::init(), skb, ls::GROUP, Gfp::KERNEL);
    Ok(())
}

/// Takes an answer. What is wrong with it is between user space and the request's timeout; only a
/// GID that nobody waits for is worth a line.
///
/// Errors: `EPERM` if it is not an answer.
pub(crate) fn handle_response(request: &Request<'_>) -> Result {
    if request.flags() & ls::FLAG_REQUEST != 0 {
        return Err(EPERM);
    }
    if request.flags() & ls::FLAG_ERROR != 0 {
        return Ok(());
    }
    let Ok(attrs) = request.answer_attrs(&ls::IP_ANSWER) else {
        return Ok(());
    };
    let Some(gid) = attrs.get(ls::DGID) else {
        return Ok(());
    };
    if !service::answer(request.seq(), gid) {
        pr_info!("Couldn't find request waiting for DGID: {gid}\n");
    }
    Ok(())
}
