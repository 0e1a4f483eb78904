// SPDX-License-Identifier: GPL-2.0

//! Management datagrams: what a test answers in the place of the fabric.

use super::{
    device::State,
    engine::{self, Envelope},
    fabric::{self, Address},
    ops::Op,
    qp::{Dest, Pair},
};
use kernel::{bindings, ffi::c_void, prelude::*, sync::Arc};
use rdma::{
    gid::Gid,
    mad::wire::MAD_SIZE,
    provider::{MadOutcome, MadReply, MadRequest},
};

/// A function of a test, and what it wants to be called with.
///
/// # Invariants
///
/// The function may be called with the context until the test takes it back.
#[derive(Clone, Copy)]
pub(crate) struct Hook {
    function: unsafe extern "C" fn(
        *mut c_void,
        *const bindings::ib_fake_mad,
        *mut u8,
    ) -> bindings::ib_fake_verdict,
    context: *mut c_void,
}

// SAFETY: The context is the test's, and only passed on.
unsafe impl Send for Hook {}

enum Verdict {
    Pass,
    Reply,
    Drop,
}

impl Hook {
    /// # Safety
    ///
    /// The function must be callable with the context until it is taken back.
    pub(crate) unsafe fn new(
        function: bindings::ib_fake_mad_fn,
        context: *mut c_void,
    ) -> Option<Self> {
        // INVARIANT: By the contract of this function.
        function.map(|function| Self { function, context })
    }

    fn call(&self, mad: &bindings::ib_fake_mad, reply: &mut [u8; MAD_SIZE]) -> Verdict {
        // SAFETY: By the type invariant; the datagram and the room have their size.
        match unsafe { (self.function)(self.context, mad, reply.as_mut_ptr()) } {
            bindings::ib_fake_verdict_IB_FAKE_REPLY => Verdict::Reply,
            bindings::ib_fake_verdict_IB_FAKE_DROP => Verdict::Drop,
            _ => Verdict::Pass,
        }
    }
}

/// Asks the agent of a device.
pub(crate) fn ask_agent(
    state: &Arc<State>,
    request: &MadRequest<'_>,
    reply: &mut MadReply<'_>,
) -> MadOutcome {
    if state
        .script
        .enter(Op::PROCESS_MAD, [request.port.into(), 0, 0])
        .is_err()
    {
        return MadOutcome::Failed;
    }
    let agent = state.agent.lock();
    let Some(agent) = &*agent else {
        return MadOutcome::Passed;
    };
    let (slid, src_qp) = request.source().unwrap_or((0, 0));
    let mad = bindings::ib_fake_mad {
        port: request.port,
        slid,
        src_qp,
        data: request.mad.as_ptr(),
        ..pin_init::zeroed()
    };
    match agent.call(&mad, reply.mad) {
        Verdict::Pass => MadOutcome::Passed,
        Verdict::Drop => MadOutcome::Consumed,
        Verdict::Reply => MadOutcome::Replied,
    }
}

/// Shows the responder of a port what leaves it; says whether the datagram is done with.
pub(crate) fn intercept(
    pair: &Arc<Pair>,
    port: u32,
    dest: &Dest,
    address: &Address,
    envelope: &Envelope,
    data: &[u8],
) -> bool {
    let Some(bytes) = data.first_chunk::<MAD_SIZE>() else {
        return false;
    };
    let responder = pair.state.with_port(port, |port| Ok(port.responder));
    let Ok(Some(responder)) = responder else {
        return false;
    };
    let mad = bindings::ib_fake_mad {
        port,
        qp: dest.qp,
        slid: envelope.source_lid,
        dlid: address.dlid,
        src_qp: pair.number,
        pkey_index: dest.pkey_index,
        sl: address.sl,
        data: bytes.as_ptr(),
    };
    let mut reply = [0; MAD_SIZE];
    match responder.call(&mad, &mut reply) {
        Verdict::Pass => false,
        Verdict::Drop => true,
        Verdict::Reply => {
            let back = Envelope {
                source_lid: address.dlid,
                source_qp: dest.qp,
                source_gid: address.dgid.unwrap_or(Gid::ZERO),
                dgid: address.dgid.map(|_| envelope.source_gid),
                imm: None,
                solicited: false,
                ..*envelope
            };
            engine::arrive(pair, port, &back, &reply);
            true
        }
    }
}

/// Has a datagram arrive.
pub(crate) fn deliver(
    state: &Arc<State>,
    mad: &bindings::ib_fake_mad,
    bytes: &[u8; MAD_SIZE],
) -> Result {
    if mad.qp > 1 {
        return Err(EINVAL);
    }
    let pair = fabric::pair(state, mad.port, mad.qp).ok_or(ENOENT)?;
    let pkey = state.with_port(mad.port, |port| {
        let index = usize::from(mad.pkey_index);
        port.pkeys.get(index).copied().ok_or(EINVAL)
    })?;
    let envelope = Envelope {
        source_lid: mad.slid,
        source_qp: mad.src_qp,
        source_gid: Gid::ZERO,
        dgid: None,
        qkey: 0,
        pkey,
        sl: mad.sl,
        imm: None,
        solicited: false,
    };
    if engine::arrive(&pair, mad.port, &envelope, bytes) {
        Ok(())
    } else {
        Err(ENOBUFS)
    }
}
