// SPDX-License-Identifier: GPL-2.0

//! The driver's own management agents.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    recv::Recv,
    send::MadPtr,
    smp::{
        OpaSmp,
        Smp, //
    },
    wire::MAD_SIZE,
    WorkCompletion,
};
use crate::device::Device;
use core::mem::size_of;
use kernel::bindings;

/// What the driver did with a datagram.
#[derive(Clone, Copy)]
pub struct Outcome {
    bits: u32,
    /// Bytes of the answer.
    pub reply_len: usize,
    /// Index of the partition key of an Omni-Path answer.
    pub reply_pkey_index: u16,
}

impl Outcome {
    /// As if there were no driver agent.
    pub const fn passed(reply_len: usize) -> Self {
        Self {
            bits: bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS,
            reply_len,
            reply_pkey_index: 0,
        }
    }

    /// The driver looked at it without an error.
    pub fn is_success(self) -> bool {
        self.bits & bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS != 0
    }

    /// There is an answer.
    pub fn has_reply(self) -> bool {
        self.bits & bindings::ib_mad_result_IB_MAD_RESULT_REPLY != 0
    }

    /// The datagram is done with.
    pub fn is_consumed(self) -> bool {
        self.bits & bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED != 0
    }
}

/// Whether the driver has agents.
pub fn has_agents(device: &Device) -> bool {
    device.ops().process_mad.is_some()
}

/// # Safety
///
/// `request` points to a datagram of at least [`MAD_SIZE`] bytes that does not
/// change; `grh` is null or valid.
unsafe fn call(
    device: &Device,
    port: u32,
    wc: &WorkCompletion,
    grh: *const bindings::ib_grh,
    request: *const u8,
    reply: &mut Recv,
) -> Option<Outcome> {
    let process = device.ops().process_mad?;
    if reply.mad_size() < MAD_SIZE {
        return None;
    }
    let mut reply_len = reply.mad_size();
    let mut reply_pkey_index = 0;
    // SAFETY: The device and the completion are valid, the request by this
    // function's contract; the answer's buffer has the size that is passed.
    let bits = unsafe {
        process(
            device.as_raw(),
            0,
            port,
            wc.raw(),
            grh,
            request.cast(),
            reply.mad_mut().as_mut_ptr().cast(),
            &mut reply_len,
            &mut reply_pkey_index,
        )
    };
    Some(Outcome {
        bits: bits as u32,
        reply_len: reply_len.min(reply.mad_size()),
        reply_pkey_index,
    })
}

/// Shows a received datagram to the driver's agents; nothing if it has none. May
/// sleep.
pub fn received(
    device: &Device,
    port: u32,
    wc: &WorkCompletion,
    request: &Recv,
    reply: &mut Recv,
) -> Option<Outcome> {
    if request.mad_size() < MAD_SIZE {
        return None;
    }
    // SAFETY: The request is large enough and borrowed, with its route header.
    unsafe {
        call(
            device,
            port,
            wc,
            request.grh_raw(),
            request.mad().as_ptr(),
            reply,
        )
    }
}

/// An outbound directed-route packet, borrowed from the send object that is about
/// to be posted.
pub struct LocalPacket<'a>(&'a mut [u8]);

impl<'a> LocalPacket<'a> {
    /// The packet of a send object.
    ///
    /// The caller is its owner: it has been given to the MAD layer and is not
    /// posted yet. `None` if it is too short for a packet.
    pub fn new<T: super::send::HasSendWr>(send: &'a T) -> Option<Self> {
        let mad: MadPtr = send.send_wr().mad_raw();
        // SAFETY: The owner calls, and clients do not touch a datagram that they
        // have given away.
        let bytes = unsafe { mad.as_mut() };
        (bytes.len() >= MAD_SIZE).then_some(Self(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0
    }

    /// The packet as an InfiniBand one.
    pub fn smp(&mut self) -> &mut Smp {
        // SAFETY: Large enough, as `new` checked, and exclusively borrowed.
        unsafe { Smp::from_raw(self.0.as_mut_ptr().cast()) }
    }

    /// The packet as an Omni-Path one, if it is long enough.
    pub fn opa_smp(&mut self) -> Option<&mut OpaSmp> {
        if self.0.len() < size_of::<bindings::opa_smp>() {
            return None;
        }
        // SAFETY: Large enough and exclusively borrowed.
        Some(unsafe { OpaSmp::from_raw(self.0.as_mut_ptr().cast()) })
    }

    /// Shows the packet to the driver's agents; nothing if it has none.
    pub fn process(
        &self,
        device: &Device,
        port: u32,
        wc: &WorkCompletion,
        reply: &mut Recv,
    ) -> Option<Outcome> {
        // SAFETY: Large enough, as `new` checked, and borrowed.
        unsafe { call(device, port, wc, core::ptr::null(), self.0.as_ptr(), reply) }
    }
}
