// SPDX-License-Identifier: GPL-2.0

//! What executes send requests: a queue of work, one queue pair at a time.

use super::{
    device::State,
    fabric, mad,
    qp::{Attrs, Dest, Pair, Send, Task},
    srq::Recv,
    transfer::{gather, remote_read, remote_write, scatter, Message},
};
use core::ptr;
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc,
    },
    workqueue::Queue,
};
use rdma::{
    gid::Gid,
    mr::Access,
    provider::{Atomic as AtomicOp, Handle, QpEvent, Wc, WcOpcode, WcStatus},
    qp::{QpState, QpType},
    workqueue::{WorkQueue, MEM_RECLAIM},
};

/// The queue; null before the module's init and after its exit.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(ptr::null_mut());

/// The running engine.
pub(crate) struct Engine(WorkQueue);

impl Engine {
    pub(crate) fn start() -> Result<Self> {
        let queue = WorkQueue::new_ordered(c"ib_fake", MEM_RECLAIM)?;
        QUEUE.store(queue.as_raw(), Release);
        Ok(Self(queue))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.drain();
        QUEUE.store(ptr::null_mut(), Relaxed);
        fabric::exit();
    }
}

fn queue() -> Option<&'static Queue> {
    let raw = QUEUE.load(Acquire);
    // SAFETY: The queue lives as long as the module has devices, and only they get here.
    (!raw.is_null()).then(|| unsafe { Queue::from_raw(raw.cast()) })
}

/// Has the engine look at a queue pair. Any context.
pub(crate) fn kick(pair: &Arc<Pair>) {
    if let Some(queue) = queue() {
        // One that is queued already is going to see what is new.
        let _ = queue.enqueue(pair.clone());
    }
}

/// Has the engine look at those that wait for a receive. Any context.
pub(crate) fn retry(state: &Arc<State>) {
    if let Some(queue) = queue() {
        let _ = queue.enqueue(state.clone());
    }
}

/// Looks at those that wait.
pub(crate) fn retry_now() {
    for pair in fabric::take_waiting() {
        kick(&pair);
    }
}

/// Waits until what is queued now has run. May sleep.
pub(crate) fn flush() {
    let raw = QUEUE.load(Acquire);
    if !raw.is_null() {
        // SAFETY: As in `queue`.
        unsafe { bindings::__flush_workqueue(raw) };
    }
}

/// How a request ended.
enum Outcome {
    Done(WcStatus, u32),
    /// The peer has no receive request.
    Wait,
}

type Failed = WcStatus;

impl From<core::result::Result<u32, Failed>> for Outcome {
    fn from(result: core::result::Result<u32, Failed>) -> Self {
        match result {
            Ok(len) => Self::Done(WcStatus::Success, len),
            Err(status) => Self::Done(status, 0),
        }
    }
}

/// Executes what a queue pair has to do.
pub(crate) fn run(pair: &Arc<Pair>) {
    loop {
        let send = {
            let mut inner = pair.inner.lock();
            match inner.state {
                QpState::Rts if !pair.state.held.load(Relaxed) => match inner.parked.take() {
                    Some(send) => Some(send),
                    None => inner.sends.pop(),
                },
                QpState::Err => {
                    drop(inner);
                    return flush_pair(pair);
                }
                _ => None,
            }
        };
        let Some(send) = send else { return };
        match execute(pair, &send) {
            Outcome::Wait => {
                let mut inner = pair.inner.lock();
                if inner.state == QpState::Rts {
                    inner.parked = Some(send);
                    drop(inner);
                    fabric::wait(pair);
                    return;
                }
                // The state changed meanwhile: it is seen to above.
                inner.parked = Some(send);
            }
            Outcome::Done(status, len) => {
                if status != WcStatus::Success {
                    enter_error(pair);
                }
                complete_send(pair, &send, status, len);
            }
        }
    }
}

fn enter_error(pair: &Pair) {
    let mut inner = pair.inner.lock();
    if inner.state != QpState::Reset {
        inner.state = QpState::Err;
    }
}

/// Ends everything that is in the queues.
fn flush_pair(pair: &Arc<Pair>) {
    loop {
        let send = {
            let mut inner = pair.inner.lock();
            match inner.parked.take() {
                Some(send) => Some(send),
                None => inner.sends.pop(),
            }
        };
        let Some(send) = send else { break };
        complete_send(pair, &send, WcStatus::WorkRequestFlushed, 0);
    }
    loop {
        let Some(recv) = pair.inner.lock().recvs.pop() else {
            break;
        };
        let wc = Wc::new(
            recv.wr_id,
            pair.tag,
            WcOpcode::Recv,
            WcStatus::WorkRequestFlushed,
        );
        complete_recv(pair, wc, false);
    }
    if pair.srq.is_some() {
        let told = core::mem::replace(&mut pair.inner.lock().last_told, true);
        if !told {
            report(pair, QpEvent::LastWqeReached);
        }
    }
}

fn report(pair: &Pair, event: QpEvent) {
    if let Some(qp) = pair.handle.as_ref().and_then(Handle::get) {
        qp.report(event);
    }
}

fn complete_send(pair: &Pair, send: &Send, status: WcStatus, len: u32) {
    if status == WcStatus::Success && !send.flags.signaled() && !pair.signals_all {
        return;
    }
    let opcode = match &send.task {
        Task::Send { .. } => WcOpcode::Send,
        Task::Write { .. } => WcOpcode::RdmaWrite,
        Task::Read { .. } => WcOpcode::RdmaRead,
        Task::CompareSwap(_) => WcOpcode::CompareSwap,
        Task::FetchAdd(_) => WcOpcode::FetchAdd,
        Task::Invalidate(_) => WcOpcode::LocalInvalidate,
        Task::Register { .. } => WcOpcode::RegisterMr,
    };
    if let Some(cq) = &pair.send_cq {
        cq.add(
            Wc::new(send.wr_id, pair.tag, opcode, status).len(len),
            false,
        );
    }
}

fn complete_recv(pair: &Pair, wc: Wc, solicited: bool) {
    if let Some(cq) = &pair.recv_cq {
        cq.add(wc, solicited);
    }
}

fn message(pair: &Pair, send: &Send) -> core::result::Result<Message, Failed> {
    match &send.inline {
        Some(data) => {
            let mut copy = KVVec::with_capacity(data.len(), GFP_KERNEL)
                .map_err(|_| WcStatus::LocalQpOperation)?;
            copy.extend_from_slice(data, GFP_KERNEL)
                .map_err(|_| WcStatus::LocalQpOperation)?;
            Ok(copy)
        }
        None => gather(&pair.state, pair.pd, &send.sges),
    }
}

fn execute(pair: &Arc<Pair>, send: &Send) -> Outcome {
    match &send.task {
        Task::Invalidate(key) => {
            let done = pair
                .state
                .regions
                .find(*key)
                .ok_or(EACCES)
                .and_then(|region| region.invalidate(*key, pair.pd));
            done.map(|()| 0)
                .map_err(|_| WcStatus::LocalQpOperation)
                .into()
        }
        Task::Register {
            region,
            key,
            access,
            range: (iova, len),
        } => region
            .register(*key, pair.pd, *access, *iova, *len)
            .map(|()| 0)
            .map_err(|_| WcStatus::LocalQpOperation)
            .into(),
        Task::Send {
            dest: Some(dest),
            imm,
            ..
        } => datagram(pair, send, dest, *imm).into(),
        _ => connected(pair, send),
    }
}

fn is_active(state: &State, port: u32) -> bool {
    state
        .with_port(port, |port| {
            Ok(port.attr.state == bindings::ib_port_state_IB_PORT_ACTIVE)
        })
        .unwrap_or(false)
}

/// The peer of a connection, if it is there and knows of it.
fn peer(pair: &Pair, address: &fabric::Address, dest_qp: u32) -> Option<Arc<Pair>> {
    if !is_active(&pair.state, address.port) {
        return None;
    }
    let (state, port) = fabric::route(address)?;
    if !is_active(&state, port) {
        return None;
    }
    let peer = fabric::pair(&state, port, dest_qp)?;
    let ready = {
        let inner = peer.inner.lock();
        matches!(inner.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
            && inner.attrs.dest_qp == pair.number
            && peer.kind == pair.kind
    };
    ready.then_some(peer)
}

/// What the peer thinks of a request.
enum Verdict {
    Done(u32),
    /// It has no receive request.
    NotReady,
    /// It refuses; its own queue pair fails as well, with this event.
    Refused(WcStatus, Option<QpEvent>),
}

fn connected(pair: &Arc<Pair>, send: &Send) -> Outcome {
    let reliable = pair.kind != QpType::UC;
    let (address, dest_qp, rnr_retry) = {
        let inner = pair.inner.lock();
        let Attrs {
            dest_qp, rnr_retry, ..
        } = inner.attrs;
        (inner.attrs.address(), dest_qp, rnr_retry)
    };
    // What goes out is read first, whether somebody is there or not.
    let data = match &send.task {
        Task::Send { .. } | Task::Write { .. } => match message(pair, send) {
            Ok(data) => data,
            Err(status) => return Outcome::Done(status, 0),
        },
        _ => Message::new(),
    };
    let len = data.len() as u32;
    let Some(peer) = address.and_then(|address| peer(pair, &address, dest_qp)) else {
        return match reliable {
            true => Outcome::Done(WcStatus::RetryExceeded, 0),
            false => Outcome::Done(WcStatus::Success, len),
        };
    };
    match ask(pair, &peer, send, &data) {
        Verdict::Done(len) => Outcome::Done(WcStatus::Success, len),
        Verdict::NotReady if !reliable => Outcome::Done(WcStatus::Success, len),
        // Seven is "for ever" (IBTA 9.7.5.2.8).
        Verdict::NotReady if rnr_retry == 7 => Outcome::Wait,
        Verdict::NotReady => Outcome::Done(WcStatus::RnrRetryExceeded, 0),
        Verdict::Refused(status, event) => {
            let local = matches!(status, WcStatus::LocalProtection | WcStatus::LocalLength);
            if !local && reliable {
                enter_error(&peer);
                if let Some(event) = event {
                    report(&peer, event);
                }
                kick(&peer);
            }
            match local || reliable {
                true => Outcome::Done(status, 0),
                false => Outcome::Done(WcStatus::Success, len),
            }
        }
    }
}

fn refused(status: WcStatus) -> Verdict {
    Verdict::Refused(
        status,
        (status == WcStatus::RemoteAccess).then_some(QpEvent::AccessError),
    )
}

fn allows(peer: &Pair, need: Access) -> bool {
    let access = peer.inner.lock().attrs.access;
    access.is_some_and(|access| access.contains(need))
}

fn ask(pair: &Pair, peer: &Arc<Pair>, send: &Send, data: &[u8]) -> Verdict {
    let result = match &send.task {
        Task::Send {
            imm, invalidate, ..
        } => {
            let Some(recv) = peer.take_recv() else {
                return Verdict::NotReady;
            };
            return receive(peer, &recv, send, data, *imm, *invalidate);
        }
        Task::Write { addr, rkey, imm } => {
            if !allows(peer, Access::REMOTE_WRITE) {
                return refused(WcStatus::RemoteAccess);
            }
            let recv = match imm {
                None => None,
                Some(imm) => match peer.take_recv() {
                    None => return Verdict::NotReady,
                    Some(recv) => Some((recv, *imm)),
                },
            };
            let done = remote_write(
                &peer.state,
                peer.pd,
                *rkey,
                Access::REMOTE_WRITE,
                *addr,
                data,
            );
            if let (Ok(()), Some((recv, imm))) = (done, recv) {
                let wc = Wc::new(
                    recv.wr_id,
                    peer.tag,
                    WcOpcode::RecvRdmaWithImm,
                    WcStatus::Success,
                );
                complete_recv(
                    peer,
                    wc.len(data.len() as u32).imm_data(imm),
                    send.flags.solicited(),
                );
            }
            done.map(|()| data.len() as u32)
        }
        Task::Read {
            addr,
            rkey,
            invalidate,
        } => {
            if !allows(peer, Access::REMOTE_READ) {
                return refused(WcStatus::RemoteAccess);
            }
            let Ok(len) = u32::try_from(send.sges.len()) else {
                return refused(WcStatus::LocalLength);
            };
            remote_read(&peer.state, peer.pd, *rkey, Access::REMOTE_READ, *addr, len)
                .and_then(|data| scatter(&pair.state, pair.pd, &send.sges, &data))
                .and_then(|()| match invalidate {
                    None => Ok(len),
                    Some(key) => pair
                        .state
                        .regions
                        .find(*key)
                        .ok_or(EACCES)
                        .and_then(|region| region.invalidate(*key, pair.pd))
                        .map(|()| len)
                        .map_err(|_| WcStatus::LocalProtection),
                })
        }
        Task::CompareSwap(op) => atomic(pair, peer, send, op, |old| {
            if old == op.compare_add {
                op.swap
            } else {
                old
            }
        }),
        Task::FetchAdd(op) => atomic(pair, peer, send, op, |old| old.wrapping_add(op.compare_add)),
        Task::Invalidate(_) | Task::Register { .. } => Err(WcStatus::LocalQpOperation),
    };
    match result {
        Ok(len) => Verdict::Done(len),
        Err(status) => refused(status),
    }
}

fn atomic(
    pair: &Pair,
    peer: &Pair,
    send: &Send,
    op: &AtomicOp,
    change: impl FnOnce(u64) -> u64,
) -> core::result::Result<u32, Failed> {
    const LEN: u32 = size_of::<u64>() as u32;
    let need = Access::from_bits(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC as i32);
    if !allows(peer, need) {
        return Err(WcStatus::RemoteAccess);
    }
    if op.remote_addr % u64::from(LEN) != 0 {
        return Err(WcStatus::RemoteInvalidRequest);
    }
    let data = remote_read(&peer.state, peer.pd, op.rkey, need, op.remote_addr, LEN)?;
    let bytes = data.first_chunk().ok_or(WcStatus::RemoteOperation)?;
    let old = u64::from_ne_bytes(*bytes);
    scatter(&pair.state, pair.pd, &send.sges, &old.to_ne_bytes())?;
    let new = change(old).to_ne_bytes();
    remote_write(&peer.state, peer.pd, op.rkey, need, op.remote_addr, &new)?;
    Ok(LEN)
}

/// A message of a connection arrives.
fn receive(
    peer: &Arc<Pair>,
    recv: &Recv,
    send: &Send,
    data: &[u8],
    imm: Option<u32>,
    invalidate: Option<u32>,
) -> Verdict {
    let fail = |local: WcStatus, remote: WcStatus| {
        let wc = Wc::new(recv.wr_id, peer.tag, WcOpcode::Recv, local);
        complete_recv(peer, wc, false);
        Verdict::Refused(remote, None)
    };
    match scatter(&peer.state, peer.pd, &recv.sges, data) {
        Ok(()) => {}
        Err(WcStatus::LocalLength) => {
            return fail(WcStatus::LocalLength, WcStatus::RemoteInvalidRequest)
        }
        Err(status) => return fail(status, WcStatus::RemoteOperation),
    }
    let mut wc = Wc::new(recv.wr_id, peer.tag, WcOpcode::Recv, WcStatus::Success);
    wc = wc.len(data.len() as u32);
    if let Some(imm) = imm {
        wc = wc.imm_data(imm);
    }
    if let Some(key) = invalidate {
        let region = peer.state.regions.find(key).ok_or(EACCES);
        if region
            .and_then(|region| region.invalidate(key, peer.pd))
            .is_err()
        {
            return fail(WcStatus::LocalProtection, WcStatus::RemoteAccess);
        }
        wc = wc.invalidated(key);
    }
    complete_recv(peer, wc, send.flags.solicited());
    Verdict::Done(data.len() as u32)
}

/// What a datagram brings along.
pub(crate) struct Envelope {
    pub(crate) source_lid: u32,
    pub(crate) source_qp: u32,
    pub(crate) source_gid: Gid,
    pub(crate) dgid: Option<Gid>,
    pub(crate) qkey: u32,
    pub(crate) pkey: u16,
    pub(crate) sl: u8,
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
}

/// Bytes in front of the payload of a datagram.
const GRH: usize = 40;

/// The top bit of a queue key means "use that of the queue pair" (IBTA 10.2.5).
const QKEY_OF_QP: u32 = 1 << 31;

fn datagram(
    pair: &Arc<Pair>,
    send: &Send,
    dest: &Dest,
    imm: Option<u32>,
) -> core::result::Result<u32, Failed> {
    let data = message(pair, send)?;
    let len = data.len() as u32;
    let own_port = pair.inner.lock().attrs.port;
    let port = match (pair.management_port, dest.address.port) {
        (0, 0) => own_port,
        (0, port) => port,
        (port, _) => port,
    };
    let address = fabric::Address {
        port,
        ..dest.address
    };
    if !is_active(&pair.state, port) {
        return Ok(len);
    }
    let own_qkey = pair.inner.lock().attrs.qkey;
    let index = match pair.number {
        0 => 0,
        1 => dest.pkey_index,
        _ => pair.inner.lock().attrs.pkey_index,
    };
    let envelope = pair.state.with_port(port, |port| {
        Ok(Envelope {
            source_lid: port.attr.lid,
            source_qp: pair.number,
            source_gid: port.gids.first().copied().unwrap_or(Gid::ZERO),
            dgid: address.dgid,
            qkey: if dest.qkey & QKEY_OF_QP != 0 && pair.number > 1 {
                own_qkey
            } else {
                dest.qkey
            },
            pkey: port.pkeys.get(usize::from(index)).copied().unwrap_or(0),
            sl: address.sl,
            imm,
            solicited: send.flags.solicited(),
        })
    });
    let Ok(envelope) = envelope else {
        return Ok(len);
    };
    if pair.number < 2 && mad::intercept(pair, port, dest, &address, &envelope, &data) {
        return Ok(len);
    }
    if address.is_multicast() {
        if let Some(gid) = address.dgid {
            for member in fabric::group(&gid) {
                let port = member.inner.lock().attrs.port;
                if !Arc::ptr_eq(&member, pair) {
                    arrive(&member, port, &envelope, &data);
                }
            }
        }
        return Ok(len);
    }
    // Permissive and zero LIDs stay on the port itself.
    let target = match fabric::route(&address) {
        Some(found) => Some(found),
        None if address.dlid == 0xffff => Some((pair.state.clone(), port)),
        None => None,
    };
    if let Some((state, port)) = target {
        if let (true, Some(peer)) = (is_active(&state, port), fabric::pair(&state, port, dest.qp)) {
            arrive(&peer, port, &envelope, &data);
        }
    }
    Ok(len)
}

/// A datagram arrives; says whether it found a receive request.
pub(crate) fn arrive(peer: &Arc<Pair>, port: u32, envelope: &Envelope, data: &[u8]) -> bool {
    let (ready, qkey) = {
        let inner = peer.inner.lock();
        let ready = matches!(inner.state, QpState::Rtr | QpState::Rts | QpState::Sqd);
        (ready && peer.kind.is_datagram(), inner.attrs.qkey)
    };
    if !ready {
        return false;
    }
    if peer.number > 1 && envelope.qkey != qkey {
        let _ = peer.state.with_port(port, |port| {
            port.attr.bad_qkeys = port.attr.bad_qkeys.wrapping_add(1);
            Ok(())
        });
        return false;
    }
    // Only the low 15 bits name the partition.
    let pkey_index = peer.state.with_port(port, |port| {
        let same = |pkey: &u16| *pkey != 0 && (*pkey ^ envelope.pkey) & 0x7fff == 0;
        let found = port.pkeys.iter().position(same);
        if found.is_none() && peer.number != 0 {
            port.attr.bad_pkeys = port.attr.bad_pkeys.wrapping_add(1);
        }
        Ok(found)
    });
    let pkey_index = match (pkey_index, peer.number) {
        (Ok(Some(index)), _) => index as u16,
        (_, 0) => 0,
        _ => return false,
    };
    let Some(recv) = peer.take_recv() else {
        return false;
    };
    let mut packet = Message::new();
    let grown = packet
        .extend_from_slice(&header(envelope, data.len()), GFP_KERNEL)
        .and_then(|()| packet.extend_from_slice(data, GFP_KERNEL));
    let status = match grown {
        Err(_) => WcStatus::LocalQpOperation,
        Ok(()) => match scatter(&peer.state, peer.pd, &recv.sges, &packet) {
            Ok(()) => WcStatus::Success,
            Err(status) => status,
        },
    };
    let mut wc = Wc::new(recv.wr_id, peer.tag, WcOpcode::Recv, status)
        .len(packet.len() as u32)
        .source_qp(envelope.source_qp)
        .pkey_index(pkey_index)
        .path(envelope.source_lid, envelope.sl, 0)
        .port(port);
    if envelope.dgid.is_some() {
        wc = wc.grh();
    }
    if let Some(imm) = envelope.imm {
        wc = wc.imm_data(imm);
    }
    complete_recv(peer, wc, envelope.solicited);
    if status != WcStatus::Success {
        enter_error(peer);
        kick(peer);
    }
    true
}

/// The global route header of a datagram (IBTA 8.3), zeroes without a global route.
fn header(envelope: &Envelope, len: usize) -> [u8; GRH] {
    let mut header = [0; GRH];
    let Some(dgid) = envelope.dgid else {
        return header;
    };
    let [l0, l1] = (len as u16).to_be_bytes();
    let start = [0x60, 0, 0, 0, l0, l1, 0x1b, 64];
    let mut bytes = header.iter_mut();
    for part in [
        start.as_slice(),
        envelope.source_gid.as_bytes(),
        dgid.as_bytes(),
    ] {
        for from in part {
            if let Some(to) = bytes.next() {
                *to = *from;
            }
        }
    }
    header
}
