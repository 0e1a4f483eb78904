// SPDX-License-Identifier: GPL-2.0

//! Whether a datagram comes from the peer of a request.

use super::flight::SendMad;
use rdma::mad::{
    recv::RecvChain,
    verbs,
    wire::Header, //
};

/// Compares the addresses of a request and a received datagram with the same
/// transaction id and class. What cannot be found out does not match. Any context.
pub(crate) fn same_peer(send: &SendMad, received: &Header, chain: &RecvChain) -> bool {
    let sent_response = send.wr().header().is_response();
    if sent_response == received.is_response() {
        // Two requests or two answers: another transaction with the same id.
        return false;
    }
    let Ok(address) = send.wr().address() else {
        return false;
    };
    let completion = chain.completion();
    if address.global.is_some() != completion.has_grh() {
        return false;
    }
    let agent = send.agent();
    let (device, port) = (agent.port().device(), agent.port().number());
    let wc = completion.raw();

    match (sent_response, address.global) {
        // The answer to a request came to the address that the request named as
        // its source.
        (false, None) => verbs::cached_lmc(device, port).is_ok_and(|lmc| {
            let mask = 1u8
                .checked_shl(lmc.into())
                .map_or(u8::MAX, |bit| bit.wrapping_sub(1));
            lmc == 0 || (address.path_bits ^ wc.dlid_path_bits) & mask == 0
        }),
        (false, Some(global)) => {
            let source = verbs::query_gid(device, port, global.sgid_index);
            match (source, chain.gids()) {
                (Ok(source), Some((_, destination))) => source == destination,
                _ => false,
            }
        }
        // An acknowledgement of an answer comes from where the answer went.
        (true, None) => address.dlid == wc.slid,
        (true, Some(global)) => chain
            .gids()
            .is_some_and(|(source, _)| source == global.dgid),
    }
}
