// SPDX-License-Identifier: GPL-2.0

//! What `mad_glue.c` does for the MAD layer: trace events, module parameters, the
//! client table.
//!
//! All functions are inline, so that a module without `mad_glue.c` can link this
//! crate.

use super::{
    agent::{
        AgentHead,
        QpHead, //
    },
    send::SendWr,
    WorkCompletion,
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

// The C side sees these structures by their own definitions, or not at all.
#[expect(improper_ctypes)]
extern "C" {
    fn mad_glue_register_client(
        add: unsafe extern "C" fn(*mut bindings::ib_device) -> c_int,
        remove: unsafe extern "C" fn(*mut bindings::ib_device, *mut c_void),
    ) -> c_int;
    fn mad_glue_unregister_client();
    fn mad_glue_send_queue_size() -> c_int;
    fn mad_glue_recv_queue_size() -> c_int;
    fn mad_glue_trace_send(event: c_int, send: *const SendRecord);
    fn mad_glue_trace_send_done(send: *const SendRecord, wc: *const bindings::ib_wc);
    fn mad_glue_trace_recv(qp: *const QpHead, wc: *const bindings::ib_wc, mad: *const u8);
    fn mad_glue_trace_agent(event: c_int, agent: *const AgentHead);
    fn mad_glue_trace_smi(event: c_int, smp: *const u8);
}

/// What a trace event shows of a datagram; `mad_glue.c` has the same structure.
#[repr(C)]
struct SendRecord {
    agent: *const AgentHead,
    qp: *const QpHead,
    buf: *const bindings::ib_mad_send_buf,
    ah: *mut bindings::ib_ah,
    tid: u64,
    timeout: c_ulong,
    remote_qpn: u32,
    remote_qkey: u32,
    max_retries: c_int,
    retries_left: c_int,
    retry: c_int,
}

/// Transaction state for a trace event.
#[derive(Clone, Copy, Default)]
pub struct SendTrace {
    /// Transaction id.
    pub tid: u64,
    /// Time to wait for an answer.
    pub timeout: usize,
    /// Retries wanted.
    pub max_retries: u32,
    /// Retries left.
    pub retries_left: u32,
    /// Sent again after an error of the queue.
    pub retry: bool,
}

#[inline]
fn record(agent: &AgentHead, wr: &SendWr, trace: SendTrace) -> SendRecord {
    let target = wr.target();
    SendRecord {
        agent,
        qp: agent.qp_info(),
        buf: wr.as_buf(),
        ah: wr.ah_raw(),
        tid: trace.tid.to_be(),
        timeout: trace.timeout,
        remote_qpn: target.remote_qpn,
        remote_qkey: target.remote_qkey,
        max_retries: trace.max_retries as c_int,
        retries_left: trace.retries_left as c_int,
        retry: trace.retry.into(),
    }
}

/// Events of datagrams on their way to the queue pair.
#[derive(Clone, Copy)]
pub enum SendEvent {
    /// Posted again after an error of the queue.
    ErrorHandler,
    /// Posted.
    Send,
    /// Posted when there was room again.
    Resend,
}

/// Events of agents.
#[derive(Clone, Copy)]
pub enum AgentEvent {
    /// Registered.
    Create,
    /// About to be unregistered.
    Unregister,
    /// Gets a datagram.
    RecvDone,
    /// Sent a datagram.
    SendDone,
}

/// Events of directed-route packets.
#[derive(Clone, Copy)]
pub enum SmiEvent {
    /// InfiniBand, received.
    In,
    /// InfiniBand, to send.
    Out,
    /// Omni-Path, received.
    OpaIn,
    /// Omni-Path, to send.
    OpaOut,
}

/// Traces a datagram on its way.
#[inline]
pub fn trace_send(event: SendEvent, agent: &AgentHead, wr: &SendWr, trace: SendTrace) {
    let record = record(agent, wr, trace);
    // SAFETY: All that the record points to is live during the call.
    unsafe { mad_glue_trace_send(event as c_int, &record) }
}

/// Traces the end of a send.
#[inline]
pub fn trace_send_done(agent: &AgentHead, wr: &SendWr, trace: SendTrace, wc: &WorkCompletion) {
    let record = record(agent, wr, trace);
    // SAFETY: As above.
    unsafe { mad_glue_trace_send_done(&record, wc.raw()) }
}

/// Traces a received datagram.
#[inline]
pub fn trace_recv(qp: &QpHead, wc: &WorkCompletion, mad: &[u8]) {
    if mad.len() >= super::wire::Header::BYTES {
        // SAFETY: As above; the header is there.
        unsafe { mad_glue_trace_recv(qp, wc.raw(), mad.as_ptr()) }
    }
}

/// Traces an agent.
#[inline]
pub fn trace_agent(event: AgentEvent, agent: &AgentHead) {
    // SAFETY: As above.
    unsafe { mad_glue_trace_agent(event as c_int, agent) }
}

/// Traces a directed-route packet.
#[inline]
pub fn trace_smi(event: SmiEvent, smp: &[u8]) {
    let needed = match event {
        SmiEvent::In | SmiEvent::Out => size_of::<bindings::ib_smp>(),
        SmiEvent::OpaIn | SmiEvent::OpaOut => size_of::<bindings::opa_smp>(),
    };
    if smp.len() >= needed {
        // SAFETY: The packet is as long as its kind.
        unsafe { mad_glue_trace_smi(event as c_int, smp.as_ptr()) }
    }
}

/// Sizes of the queue pairs, from the module parameters, in work requests.
#[inline]
pub fn queue_sizes() -> super::verbs::QpSize {
    // SAFETY: They only return numbers.
    let (sends, receives) = unsafe { (mad_glue_send_queue_size(), mad_glue_recv_queue_size()) };
    super::verbs::QpSize {
        sends: sends.try_into().unwrap_or(0),
        receives: receives.try_into().unwrap_or(0),
    }
}

/// Hears of devices.
pub trait DeviceClient {
    /// A device is there.
    fn add(device: &crate::device::Device) -> Result;
    /// A device that was added goes.
    fn remove(device: &crate::device::Device);
}

/// # Safety
///
/// Called by the client registry with a device that is being registered.
#[inline]
unsafe extern "C" fn add<T: DeviceClient>(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: By this function's contract.
    let device = unsafe { crate::device::Device::from_raw(device) };
    kernel::error::from_result(|| T::add(device).map(|()| 0))
}

/// # Safety
///
/// Called by the client registry with a device that `add` accepted.
#[inline]
unsafe extern "C" fn remove<T: DeviceClient>(device: *mut bindings::ib_device, _data: *mut c_void) {
    // SAFETY: By this function's contract.
    T::remove(unsafe { crate::device::Device::from_raw(device) })
}

/// Registers the client `mad`, the first of all. May sleep.
#[inline]
pub fn register_client<T: DeviceClient>() -> Result {
    // SAFETY: The functions stay valid as long as the module.
    to_result(unsafe { mad_glue_register_client(add::<T>, remove::<T>) })
}

/// Unregisters the client; no function of it runs afterwards. May sleep.
#[inline]
pub fn unregister_client() {
    // SAFETY: Registered by `register_client`.
    unsafe { mad_glue_unregister_client() }
}
