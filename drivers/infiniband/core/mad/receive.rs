// SPDX-License-Identifier: GPL-2.0

//! The way of a received datagram: validation, subnet management routing, the
//! driver's own agents, and the clients.

use super::{
    agent::{
        self,
        Lease, //
    },
    flight::{
        Answered,
        Status, //
    },
    port::Port,
    send,
};
use crate::{
    agent as responder, mad_rmpp,
    smi::{
        self,
        Action,
        Forward,
        Node, //
    },
};
use rdma::{
    gfp::Gfp,
    mad::{
        glue::{
            self,
            AgentEvent,
            SmiEvent, //
        },
        process::{
            self,
            Outcome, //
        },
        recv::{
            Recv,
            RecvChain,
            GRH_BYTES, //
        },
        smp::DirectedRoute,
        verbs::QpKind,
        wire::{
            method,
            Class,
            Header,
            RmppHeader,
            RmppType,
            ATTR_CLASS_PORT_INFO,
            BASE_VERSION,
            MAD_SIZE,
            OPA_BASE_VERSION,
            OPA_MAD_SIZE,
            OPA_SM_CLASS_VERSION,
            STATUS_DIRECTION,
            STATUS_UNSUPPORTED_METHOD_ATTRIB, //
        },
        WorkCompletion, //
    },
    pr_err_ratelimited, //
};

/// Handles a datagram and gives the queue pair a buffer again. Process context.
pub(crate) fn received(port: &Port, kind: QpKind, recv: Recv, completion: &WorkCompletion) {
    let spare = Recv::new(port.mad_size(), Gfp::KERNEL).ok();
    let buffer = match spare {
        // Without memory the datagram is lost, but its buffer is not.
        None => Some(recv),
        Some(spare) => handle(port, kind, recv, spare, completion),
    };
    // What is missing now is posted with the next datagram.
    let _ = port.fill(kind, buffer);
}

/// Handles a datagram; `spare` has room for an answer. Returns a buffer that is
/// free afterwards.
fn handle(
    port: &Port,
    kind: QpKind,
    mut recv: Recv,
    mut spare: Recv,
    completion: &WorkCompletion,
) -> Option<Recv> {
    let Some(header) = recv.header() else {
        return Some(recv);
    };
    let opa = port.is_opa();
    if opa && header.base_version == OPA_BASE_VERSION {
        let len = (completion.raw().byte_len as usize).saturating_sub(GRH_BYTES);
        recv.complete(completion, len, OPA_MAD_SIZE);
    } else {
        recv.complete(completion, MAD_SIZE, MAD_SIZE);
    }
    if !is_valid(&header, kind, opa) {
        return Some(recv);
    }
    if let Some(head) = port.slot(kind).head() {
        glue::trace_recv(head, completion, recv.mad());
    }

    let device = port.device();
    let number = if device.is_switch() {
        completion.raw().port_num
    } else {
        port.number()
    };
    let reply_to = |recv: &Recv, reply: &Recv, wc: &WorkCompletion, number: u32, len: usize| {
        responder::respond(device, number, kind, reply.mad(), len, wc, recv, opa)
    };

    if header.class == Class::SUBN_DIRECTED_ROUTE {
        match route(port, number, &mut recv, &header) {
            Direct::Drop => return Some(recv),
            Direct::Here => {}
            Direct::Out { exit, is_opa } => {
                let len = if is_opa {
                    completion.raw().byte_len as usize
                } else {
                    recv.mad_size()
                };
                spare.copy_from(&recv);
                reply_to(&recv, &spare, completion, exit, len);
                return Some(recv);
            }
        }
    }

    // The driver goes first.
    let outcome = process::received(device, port.number(), completion, &recv, &mut spare)
        .unwrap_or(Outcome::passed(recv.mad_size()));
    let adjusted = opa.then(|| completion.with_pkey_index(outcome.reply_pkey_index));
    let wc = adjusted.as_ref().unwrap_or(completion);
    if outcome.is_success() {
        if outcome.is_consumed() {
            return Some(recv);
        }
        if outcome.has_reply() {
            reply_to(&recv, &spare, wc, number, outcome.reply_len);
            return Some(recv);
        }
    }

    if let Some(lease) = agent::find(port, &header, recv.mad()) {
        glue::trace_agent(AgentEvent::RecvDone, lease.head());
        deliver(lease, RecvChain::new(recv));
        return Some(spare);
    }
    if outcome.is_success() {
        if let Some(len) = refuse(&recv, &mut spare, &header, outcome.reply_len, opa) {
            reply_to(&recv, &spare, wc, number, len);
        }
    }
    Some(recv)
}

/// A datagram that belongs to this queue pair.
fn is_valid(header: &Header, kind: QpKind, opa: bool) -> bool {
    if header.base_version != BASE_VERSION && !(opa && header.base_version == OPA_BASE_VERSION) {
        pr_err_ratelimited!(
            "MAD received with unsupported base version {} {}\n",
            header.base_version,
            if opa { "(opa)" } else { "" }
        );
        return false;
    }
    // Connection management has one method, but for the class information.
    let stray_cm = header.class == Class::CM
        && header.attr_id != ATTR_CLASS_PORT_INFO
        && header.method != method::SEND;
    header.class.is_smi() == (kind == QpKind::Smi) && !stray_cm
}

/// Where a directed-route packet goes.
enum Direct {
    Drop,
    Here,
    /// Out of another port of this switch.
    Out {
        exit: u32,
        is_opa: bool,
    },
}

fn route(port: &Port, number: u32, recv: &mut Recv, header: &Header) -> Direct {
    let device = port.device();
    let is_opa = port.is_opa()
        && header.base_version == OPA_BASE_VERSION
        && header.class_version == OPA_SM_CLASS_VERSION;
    glue::trace_smi(
        if is_opa {
            SmiEvent::OpaIn
        } else {
            SmiEvent::In
        },
        recv.mad(),
    );
    let mut route: DirectedRoute<'_> = if is_opa {
        let Some(smp) = recv.opa_smp_mut() else {
            return Direct::Drop;
        };
        smp.route()
    } else {
        let Some(smp) = recv.smp_mut() else {
            return Direct::Drop;
        };
        smp.route()
    };
    let node = Node {
        is_switch: device.is_switch(),
        port: number,
    };
    if smi::accept(&mut route, node, device.phys_port_cnt()) == Action::Discard {
        return Direct::Drop;
    }
    match smi::next_stop(&route) {
        Forward::Local => Direct::Here,
        Forward::Send => {
            let own = smi::prepare_send(&mut route, node) == Action::Handle
                && process::has_agents(device)
                && smi::is_for_local_agent(&route);
            if own {
                Direct::Here
            } else {
                Direct::Drop
            }
        }
        Forward::Relay if node.is_switch => Direct::Out {
            exit: smi::exit_port(&route).unwrap_or(0).into(),
            is_opa,
        },
        Forward::Relay => Direct::Here,
    }
}

/// Makes the answer to a request that nobody wants; returns its length.
fn refuse(
    recv: &Recv,
    reply: &mut Recv,
    header: &Header,
    reply_len: usize,
    opa: bool,
) -> Option<usize> {
    if header.method != method::GET && header.method != method::SET {
        return None;
    }
    reply.copy_from(recv);
    let mut status = STATUS_UNSUPPORTED_METHOD_ATTRIB;
    if header.class == Class::SUBN_DIRECTED_ROUTE {
        status |= STATUS_DIRECTION;
    }
    let mad = reply.mad_mut();
    *mad.get_mut(3)? = method::GET_RESP;
    mad.get_mut(4..6)?.copy_from_slice(&status.to_be_bytes());

    if !(opa && header.base_version == OPA_BASE_VERSION) {
        return Some(reply_len);
    }
    // Without the data.
    Some(match header.class {
        Class::SUBN_DIRECTED_ROUTE => OPA_MAD_SIZE - 1872,
        Class::SUBN_LID_ROUTED => OPA_MAD_SIZE - 2016,
        _ => Header::BYTES,
    })
}

/// A segment of an answer to a client whose transfers the kernel does.
fn is_transfer_answer(lease: &Lease, chain: &RecvChain, header: &Header) -> bool {
    lease.has_kernel_rmpp()
        && header.is_response()
        && header.class.has_rmpp()
        && chain
            .rmpp()
            .is_some_and(|rmpp| rmpp.has(RmppHeader::ACTIVE) && rmpp.kind == RmppType::Data)
}

/// Gives a datagram to its agent. The answer to a request comes before the
/// completion of that request.
fn deliver(lease: Lease, chain: RecvChain) {
    let Some(header) = chain.header() else {
        return;
    };
    if is_transfer_answer(&lease, &chain, &header) && lease.sends().lock().find(&chain).is_none() {
        // Nobody asked: do not put it together.
        return;
    }
    let chain = if lease.has_kernel_rmpp() {
        match mad_rmpp::received(&lease, chain) {
            Some(chain) => chain,
            None => return,
        }
    } else {
        chain
    };

    let Some(header) = chain.header() else {
        return;
    };
    if !header.is_response() {
        lease.head().deliver::<super::flight::SendMad>(None, chain);
        return;
    }
    let mut sends = lease.sends().lock();
    let Some(request) = sends.find(&chain) else {
        drop(sends);
        // The client does transfers itself, and this is part of one.
        let own_transfer = !lease.has_kernel_rmpp()
            && header.class.has_rmpp()
            && chain
                .rmpp()
                .is_some_and(|rmpp| rmpp.has(RmppHeader::ACTIVE));
        if own_transfer {
            lease.head().deliver::<super::flight::SendMad>(None, chain);
        }
        return;
    };
    let answered = sends.answer(&request, None);
    drop(sends);
    lease.head().deliver(Some(&*request), chain);
    drop(request);
    if let Answered::Done(send) = answered {
        send::complete(lease.agent(), send, Status::SUCCESS);
    }
}
