// SPDX-License-Identifier: GPL-2.0

//! Agents as clients see them, and the calls to their handlers.
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

use super::{
    recv::RecvChain,
    send::HasSendWr, //
};
use crate::device::Device;
use kernel::{
    bindings,
    list::{
        ListArc,
        ListArcSafe, //
    },
    prelude::*,
    types::Opaque, //
};

/// What the trace events read of a port; `mad_glue.c` has the same structure.
#[repr(C)]
pub struct PortHead {
    device: *mut bindings::ib_device,
    port: c_int,
}

impl PortHead {
    /// Of `port` of `device`.
    pub fn new(device: &Device, port: u32) -> Self {
        Self {
            device: device.as_raw(),
            port: port.try_into().unwrap_or(0),
        }
    }
}

/// What the trace events read of a queue pair; `mad_glue.c` has the same structure.
#[repr(C)]
pub struct QpHead {
    port: *const PortHead,
    qp: *mut bindings::ib_qp,
}

impl QpHead {
    /// Of a queue pair of the port.
    pub fn new(port: &PortHead, qp: *mut bindings::ib_qp) -> Self {
        Self { port, qp }
    }

    /// The queue pair.
    pub fn qp_raw(&self) -> *mut bindings::ib_qp {
        self.qp
    }
}

// SAFETY: The pointers are only followed by trace events, while the port exists.
unsafe impl Send for PortHead {}
// SAFETY: As above.
unsafe impl Sync for PortHead {}
// SAFETY: As above.
unsafe impl Send for QpHead {}
// SAFETY: As above.
unsafe impl Sync for QpHead {}

/// What an agent wants to receive.
pub struct Registration(KBox<bindings::ib_mad_reg_req>);

impl Registration {
    /// Copies a client's request.
    ///
    /// # Safety
    ///
    /// `request` is valid during the call.
    pub unsafe fn copy(request: *const bindings::ib_mad_reg_req) -> Result<Self> {
        // SAFETY: By this function's contract.
        Ok(Self(KBox::new(unsafe { *request }, GFP_KERNEL)?))
    }

    /// Management class.
    pub fn class(&self) -> super::wire::Class {
        super::wire::Class(self.0.mgmt_class)
    }

    /// Version of the class.
    pub fn class_version(&self) -> u8 {
        self.0.mgmt_class_version
    }

    /// OUI of a vendor class.
    pub fn oui(&self) -> [u8; 3] {
        self.0.oui
    }

    /// The methods of unsolicited datagrams.
    pub fn methods(&self) -> impl Iterator<Item = u8> + '_ {
        (0..super::wire::method::COUNT as u8).filter(|method| {
            let word = self.0.method_mask.get(usize::from(method / 64));
            word.is_some_and(|word| word & (1 << (method % 64)) != 0)
        })
    }
}

/// Functions and context of a client.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// Gets datagrams back that were sent.
    pub send: bindings::ib_mad_send_handler,
    /// Gets received datagrams.
    pub recv: bindings::ib_mad_recv_handler,
    /// For the client.
    pub context: *mut c_void,
}

impl Handlers {
    /// Of an agent whose datagrams are all internal.
    pub const NONE: Self = Self {
        send: None,
        recv: None,
        context: core::ptr::null_mut(),
    };
}

/// The start of an agent: what clients and trace events read.
///
/// # Invariants
///
/// `agent.qp` is live as long as the object, `registration` is null or points into
/// `_kept`.
#[repr(C)]
pub struct AgentHead {
    agent: Opaque<bindings::ib_mad_agent>,
    registration: *const bindings::ib_mad_reg_req,
    qp_info: *const QpHead,
    _kept: Option<Registration>,
}

// SAFETY: After creation only the client's own fields change, by the client.
unsafe impl Send for AgentHead {}
// SAFETY: As above.
unsafe impl Sync for AgentHead {}

impl AgentHead {
    /// Makes the head of an agent. The object that embeds it keeps `qp`, its
    /// queue pair and its port.
    pub fn new(
        device: &Device,
        port: u32,
        qp: &QpHead,
        registration: Option<Registration>,
        rmpp_version: u8,
        flags: u32,
        handlers: Handlers,
    ) -> Self {
        let mut agent: bindings::ib_mad_agent = pin_init::zeroed();
        agent.device = device.as_raw();
        agent.qp = qp.qp_raw();
        agent.recv_handler = handlers.recv;
        agent.send_handler = handlers.send;
        agent.context = handlers.context;
        agent.flags = flags;
        agent.port_num = (port & 0xff) as u8;
        agent.rmpp_version = rmpp_version;
        Self {
            registration: registration
                .as_ref()
                .map_or(core::ptr::null(), |registration| &*registration.0),
            agent: Opaque::new(agent),
            qp_info: qp,
            _kept: registration,
        }
    }

    /// What clients work with.
    pub fn as_raw(&self) -> *mut bindings::ib_mad_agent {
        self.agent.get()
    }

    /// Sets the upper half of the client's transaction ids, before the client gets
    /// the agent.
    pub fn set_id(&self, id: u32) {
        // SAFETY: Nobody else knows the agent yet.
        unsafe { (*self.as_raw()).hi_tid = id }
    }

    /// The upper half of the client's transaction ids.
    pub fn id(&self) -> u32 {
        // SAFETY: Constant once set.
        unsafe { (*self.as_raw()).hi_tid }
    }

    /// Port number.
    pub fn port(&self) -> u32 {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).port_num }.into()
    }

    /// Version of RMPP that the client uses, 0 for none.
    pub fn rmpp_version(&self) -> u8 {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).rmpp_version }
    }

    /// Flags of the registration.
    pub fn flags(&self) -> u32 {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).flags }
    }

    /// The queue pair.
    pub fn qp_raw(&self) -> *mut bindings::ib_qp {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).qp }
    }

    /// The queue pair's head, for traces.
    pub fn qp_info(&self) -> *const QpHead {
        self.qp_info
    }

    pub(super) fn pd_raw(&self) -> *mut bindings::ib_pd {
        // SAFETY: The queue pair lives by the type invariant.
        unsafe { (*(*self.as_raw()).qp).pd }
    }

    /// The registration.
    pub fn registration(&self) -> Option<&Registration> {
        self._kept.as_ref()
    }

    /// The client gets sent datagrams back.
    pub fn has_send_handler(&self) -> bool {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).send_handler }.is_some()
    }

    /// The client gets received datagrams.
    pub fn has_recv_handler(&self) -> bool {
        // SAFETY: Constant.
        unsafe { (*self.as_raw()).recv_handler }.is_some()
    }

    /// Gives a datagram back to the client.
    pub fn report<T>(&self, send: ListArc<T>, status: bindings::ib_wc_status, vendor_err: u32)
    where
        T: HasSendWr + ListArcSafe<0>,
    {
        // SAFETY: Constant.
        let Some(handler) = (unsafe { (*self.as_raw()).send_handler }) else {
            return;
        };
        let buf = send.send_wr().as_buf();
        // The client's pointer stands for this count from now on.
        let _ = ListArc::into_raw(send);
        let mut wc = bindings::ib_mad_send_wc {
            send_buf: buf,
            status,
            vendor_err,
        };
        // SAFETY: The handler is the client's, and the agent is registered.
        unsafe { handler(self.as_raw(), &mut wc) }
    }

    /// Gives a received datagram to the client, with its request if it answers
    /// one.
    pub fn deliver<T: HasSendWr>(&self, request: Option<&T>, chain: RecvChain) {
        // SAFETY: Constant.
        let Some(handler) = (unsafe { (*self.as_raw()).recv_handler }) else {
            return;
        };
        let request = request.map_or(core::ptr::null_mut(), |request| request.send_wr().as_buf());
        // SAFETY: The handler is the client's, and the agent is registered. The
        // request is kept by the caller.
        unsafe { handler(self.as_raw(), request, chain.into_raw()) }
    }
}
