// SPDX-License-Identifier: GPL-2.0

//! Directed-route packets that do not leave the node.
//!
//! A packet of no (further) hops is for the driver's own management agent, or for a
//! client of this node. Its answer and completion are made up here.

use super::{
    agent::{
        self,
        Agent,
        Lease, //
    },
    flight::{
        LocalReply,
        OwnedSend,
        Status, //
    },
};
use crate::smi::{
    self,
    Action,
    Node, //
};
use kernel::{
    dev_err,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    gfp::Gfp,
    mad::{
        glue::{
            self,
            SmiEvent, //
        },
        process::{
            has_agents,
            LocalPacket, //
        },
        recv::{
            Recv,
            RecvChain,
            GRH_BYTES, //
        },
        smp::Direction,
        wire::{
            Header,
            MAD_SIZE,
            OPA_BASE_VERSION,
            OPA_MAD_SIZE,
            OPA_SM_CLASS_VERSION, //
        },
        WorkCompletion, //
    }, //
};

/// LID of a node that has none.
const LID_PERMISSIVE: u16 = 0xffff;

/// What to do with an outbound packet.
enum Fate {
    /// Post it.
    Leaves,
    /// The driver's agent gets it; the LID that it seems to come from.
    Stays(u16),
}

/// Advances the packet and finds out where it goes.
fn route(agent: &Agent, packet: &mut LocalPacket<'_>, header: &Header, node: Node) -> Result<Fate> {
    let device = agent.port().device();
    let opa = agent.port().is_opa() && header.class_version == OPA_SM_CLASS_VERSION;
    let mut slid = LID_PERMISSIVE;
    glue::trace_smi(
        if opa { SmiEvent::OpaOut } else { SmiEvent::Out },
        packet.bytes(),
    );
    let mut route = if opa {
        let smp = packet.opa_smp().ok_or(EINVAL)?;
        let lid = smp.source_lid();
        if lid != u32::MAX {
            slid = lid.try_into().map_err(|_| {
                dev_err!(device.as_dev(), "OPA Invalid dr_slid 0x{:x}\n", lid);
                EINVAL
            })?;
        }
        smp.route()
    } else {
        slid = packet.smp().source_lid();
        packet.smp().route()
    };
    // A LID-routed part before the directed one leaves the hops alone.
    let starts_here = match route.direction {
        Direction::Outbound => route.slid_permissive,
        Direction::Returning => route.dlid_permissive,
    };
    if starts_here && smi::prepare_send(&mut route, node) == Action::Discard {
        dev_err!(
            device.as_dev(),
            "{}Invalid directed route\n",
            if opa { "OPA " } else { "" }
        );
        return Err(EINVAL);
    }
    let stays = has_agents(device)
        && (smi::is_for_local_agent(&route) || smi::is_for_local_manager(&route));
    Ok(if stays {
        Fate::Stays(slid)
    } else {
        Fate::Leaves
    })
}

/// Looks at a directed-route packet that is about to be posted, which comes back
/// unless it was consumed. Any context.
pub(crate) fn outgoing(
    agent: &Arc<Agent>,
    send: OwnedSend,
) -> core::result::Result<Option<OwnedSend>, (Error, OwnedSend)> {
    match consume(agent, &send) {
        Err(error) => Err((error, send)),
        Ok(None) => Ok(Some(send)),
        Ok(Some(reply)) => {
            agent.sends().lock().start_local(send, reply);
            agent.kick_local();
            Ok(None)
        }
    }
}

/// Shows a packet that stays to the driver. `None` if it leaves, otherwise what
/// there is to deliver.
fn consume(agent: &Arc<Agent>, send: &OwnedSend) -> Result<Option<Option<LocalReply>>> {
    let port = agent.port();
    let device = port.device();
    let header = send.wr().header();
    let Some(mut packet) = LocalPacket::new(&**send) else {
        return Err(EINVAL);
    };
    let number = if device.is_switch() {
        send.wr().port()
    } else {
        port.number()
    };
    let node = Node {
        is_switch: device.is_switch(),
        port: number,
    };
    let Fate::Stays(slid) = route(agent, &mut packet, &header, node)? else {
        return Ok(None);
    };

    let opa = port.is_opa() && header.base_version == OPA_BASE_VERSION;
    let layout = send.wr().layout();
    let byte_len = if opa {
        layout.header + layout.data
    } else {
        MAD_SIZE
    };
    let wc = WorkCompletion::loopback(
        agent.head().qp_raw(),
        send.wr(),
        slid,
        send.wr().port(),
        byte_len + GRH_BYTES,
    );
    let mut reply = Recv::new(port.mad_size(), Gfp::ATOMIC)?;
    let outcome = packet
        .process(device, number, &wc, &mut reply)
        .ok_or(EINVAL)?;
    if !outcome.is_success() {
        return Err(EINVAL);
    }
    if port.is_opa() {
        send.wr().set_pkey_index(outcome.reply_pkey_index);
    }
    let receiver = if outcome.is_consumed() {
        None
    } else if outcome.has_reply() {
        let answers = reply.header().is_some_and(|header| header.is_response());
        (answers && agent.head().has_recv_handler())
            .then(|| Lease::new(agent))
            .flatten()
    } else {
        // As if it had come in.
        let bytes = packet.bytes();
        let len = bytes.len().min(reply.mad_size());
        if let (Some(to), Some(from)) = (reply.mad_mut().get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
        }
        agent::find(port, &header, reply.mad())
    };
    Ok(Some(receiver.map(|receiver| LocalReply {
        receiver,
        chain: reply,
        len: outcome.reply_len,
    })))
}

/// The work item: delivers the answers, then completes the requests.
pub(crate) fn run(agent: &Arc<Agent>) {
    loop {
        let next = agent.sends().lock().next_local();
        let Some((send, reply)) = next else {
            return;
        };
        let lease = send.agent().clone();
        if let Some(reply) = reply {
            deliver(&send, reply);
        }
        lease.give_back(send, Status::SUCCESS);
    }
}

fn deliver(send: &OwnedSend, reply: LocalReply) {
    let receiver = reply.receiver;
    let mut recv = reply.chain;
    let port = receiver.port();
    let version = recv.header().map(|header| header.base_version);
    let opa = port.is_opa() && version == Some(OPA_BASE_VERSION);
    let wc = WorkCompletion::loopback(
        receiver.head().qp_raw(),
        send.wr(),
        LID_PERMISSIVE,
        receiver.head().port(),
        MAD_SIZE + GRH_BYTES,
    );
    if opa {
        recv.complete(&wc, reply.len, OPA_MAD_SIZE);
    } else {
        recv.complete(&wc, MAD_SIZE, MAD_SIZE);
    }
    recv.clear_grh();
    receiver.head().deliver(Some(&**send), RecvChain::new(recv));
}
