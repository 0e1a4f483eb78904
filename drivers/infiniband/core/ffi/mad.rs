// SPDX-License-Identifier: GPL-2.0

//! The MAD layer for its clients; prototypes in `rdma/ib_mad.h`.

use crate::mad::{
    self,
    agent::{
        Agent,
        Lease,
        Request, //
    },
    flight::SendMad,
    send::{
        self,
        Draft, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    bindings,
    error::from_result,
    list::ListArc,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    device::Device,
    gfp::Gfp,
    mad::{
        agent::{
            Handlers,
            Registration, //
        },
        recv::RecvChain,
        send::SendWr,
        verbs::QpKind,
        wire::{
            Class,
            Header, //
        }, //
    }, //
};

/// The agent behind a client's pointer, whose count stays the client's.
///
/// # Safety
///
/// `agent` came from [`ib_register_mad_agent`] and is registered.
unsafe fn borrow_agent(agent: *mut bindings::ib_mad_agent) -> ManuallyDrop<Arc<Agent>> {
    // SAFETY: The `ib_mad_agent` is the start of an agent, one count of which is
    // the client's; it is not dropped here.
    ManuallyDrop::new(unsafe { Arc::from_raw(agent.cast_const().cast()) })
}

/// Starts the MAD layer.
///
/// # Safety
///
/// Called once, when the module starts.
#[export]
pub(crate) unsafe extern "C" fn ib_mad_init() -> c_int {
    from_result(|| mad::init().map(|()| 0))
}

/// Ends the MAD layer.
///
/// # Safety
///
/// Called once, when the module ends.
#[export]
pub(crate) unsafe extern "C" fn ib_mad_cleanup() {
    mad::cleanup()
}

/// Registers a client.
///
/// # Safety
///
/// `device` is a device that is registered or known to the calling client,
/// `mad_reg_req` is null or a request. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_register_mad_agent(
    device: *mut bindings::ib_device,
    port_num: u32,
    qp_type: bindings::ib_qp_type,
    mad_reg_req: *mut bindings::ib_mad_reg_req,
    rmpp_version: u8,
    send_handler: bindings::ib_mad_send_handler,
    recv_handler: bindings::ib_mad_recv_handler,
    context: *mut c_void,
    registration_flags: u32,
) -> *mut bindings::ib_mad_agent {
    // SAFETY: By this function's contract.
    let device = unsafe { Device::from_raw(device) };
    let registration = if mad_reg_req.is_null() {
        None
    } else {
        // SAFETY: By this function's contract.
        match unsafe { Registration::copy(mad_reg_req) } {
            Ok(registration) => Some(registration),
            Err(error) => return error.to_ptr(),
        }
    };
    let agent = Agent::register(Request {
        device,
        port: port_num,
        kind: QpKind::from_raw(qp_type),
        registration,
        rmpp_version,
        flags: registration_flags,
        handlers: Handlers {
            send: send_handler,
            recv: recv_handler,
            context,
        },
        internal: false,
    });
    match agent {
        // The head is the start of the agent.
        Ok(agent) => Arc::into_raw(agent).cast_mut().cast(),
        Err(error) => error.to_ptr(),
    }
}

/// Unregisters a client.
///
/// # Safety
///
/// `mad_agent` came from [`ib_register_mad_agent`] and is not used afterwards.
/// Process context, not from a handler of the agent.
#[export]
pub(crate) unsafe extern "C" fn ib_unregister_mad_agent(mad_agent: *mut bindings::ib_mad_agent) {
    // SAFETY: By this function's contract the count of the client is given up.
    let agent = unsafe { Arc::<Agent>::from_raw(mad_agent.cast_const().cast()) };
    agent.unregister();
}

/// Makes a datagram.
///
/// # Safety
///
/// `mad_agent` is registered.
#[export]
pub(crate) unsafe extern "C" fn ib_create_send_mad(
    mad_agent: *mut bindings::ib_mad_agent,
    remote_qpn: u32,
    pkey_index: u16,
    rmpp_active: c_int,
    hdr_len: c_int,
    data_len: c_int,
    gfp_mask: bindings::gfp_t,
    base_version: u8,
) -> *mut bindings::ib_mad_send_buf {
    // SAFETY: By this function's contract.
    let agent = unsafe { borrow_agent(mad_agent) };
    let create = || {
        let draft = Draft {
            remote_qpn,
            pkey_index,
            rmpp: rmpp_active != 0,
            header: hdr_len.try_into()?,
            data: data_len.try_into()?,
            base_version,
        };
        let lease = Lease::new(&agent).ok_or(EINVAL)?;
        send::create(lease, &draft, Gfp::from_c(gfp_mask))
    };
    match create() {
        Ok(send) => {
            let buf = send.wr().as_buf();
            // The client's pointer stands for it.
            let _ = ListArc::into_raw(send);
            buf
        }
        Err(error) => error.to_ptr(),
    }
}

/// Frees a datagram.
///
/// # Safety
///
/// `send_buf` came from [`ib_create_send_mad`] or a send handler, and is the
/// caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_free_send_mad(send_buf: *mut bindings::ib_mad_send_buf) {
    // SAFETY: By this function's contract the caller gives up its ownership.
    drop(unsafe { ListArc::<SendMad, 0>::from_raw(SendWr::owner(send_buf)) });
}

/// Posts a list of datagrams.
///
/// # Safety
///
/// The datagrams are the caller's and filled in; `bad_send_buf` is null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_post_send_mad(
    send_buf: *mut bindings::ib_mad_send_buf,
    bad_send_buf: *mut *mut bindings::ib_mad_send_buf,
) -> c_int {
    if send_buf.is_null() {
        return EINVAL.to_errno();
    }
    let mut buf = send_buf;
    while !buf.is_null() {
        // SAFETY: By this function's contract. Once posted the datagram may be
        // gone, so the next one is looked up first.
        let next = unsafe { (*buf).next };
        // SAFETY: By this function's contract the ownership passes to the layer.
        let send = unsafe { ListArc::<SendMad, 0>::from_raw(SendWr::owner(buf)) };
        if let Err((error, send)) = send::post(send) {
            // It stays the caller's.
            let _ = ListArc::into_raw(send);
            if !bad_send_buf.is_null() {
                // SAFETY: By this function's contract.
                unsafe { *bad_send_buf = buf };
            }
            return error.to_errno();
        }
        buf = next;
    }
    0
}

/// Changes how long a posted datagram waits; 0 cancels it.
///
/// # Safety
///
/// `send_buf` is null or a datagram that was posted and not freed.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_mad(
    send_buf: *mut bindings::ib_mad_send_buf,
    timeout_ms: u32,
) -> c_int {
    if send_buf.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By this function's contract; the agent outlives its datagrams.
    let agent = unsafe { borrow_agent((*send_buf).mad_agent) };
    let is_it = |send: &SendMad| ptr::eq(send.wr().as_buf(), send_buf);
    from_result(|| send::modify(&agent, is_it, timeout_ms).map(|()| 0))
}

/// Frees a received datagram with all its segments.
///
/// # Safety
///
/// `mad_recv_wc` was given to the receive handler of the caller, who gives it up.
#[export]
pub(crate) unsafe extern "C" fn ib_free_recv_mad(mad_recv_wc: *mut bindings::ib_mad_recv_wc) {
    if let Some(wc) = NonNull::new(mad_recv_wc) {
        // SAFETY: By this function's contract.
        drop(unsafe { RecvChain::from_raw(wc) });
    }
}

/// Memory of a segment of a transfer.
///
/// # Safety
///
/// `send_buf` is the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_get_rmpp_segment(
    send_buf: *mut bindings::ib_mad_send_buf,
    seg_num: c_int,
) -> *mut c_void {
    // SAFETY: By this function's contract.
    let send = unsafe { &*SendWr::owner::<SendMad>(send_buf) };
    u32::try_from(seg_num)
        .ok()
        .and_then(|number| send.wr().segment(number))
        .map_or(ptr::null_mut(), |memory| memory.cast())
}

/// Whether the kernel does the transfers of a client.
///
/// # Safety
///
/// `agent` is registered.
#[export]
pub(crate) unsafe extern "C" fn ib_mad_kernel_rmpp_agent(
    agent: *const bindings::ib_mad_agent,
) -> c_int {
    // SAFETY: By this function's contract.
    unsafe { borrow_agent(agent.cast_mut()) }
        .has_kernel_rmpp()
        .into()
}

/// Whether a datagram answers another one.
///
/// # Safety
///
/// `hdr` is a whole header.
#[export]
pub(crate) unsafe extern "C" fn ib_response_mad(hdr: *const bindings::ib_mad_hdr) -> c_int {
    // SAFETY: By this function's contract.
    let bytes = unsafe { core::slice::from_raw_parts(hdr.cast(), Header::BYTES) };
    Header::parse(bytes)
        .is_some_and(|header| header.is_response())
        .into()
}

/// Whether datagrams of a class have an RMPP header.
///
/// # Safety
///
/// None; the prototype wants it.
#[export]
pub(crate) unsafe extern "C" fn ib_is_mad_class_rmpp(mgmt_class: u8) -> c_int {
    Class(mgmt_class).has_rmpp().into()
}

/// Bytes before the data of a class.
///
/// # Safety
///
/// None; the prototype wants it.
#[export]
pub(crate) unsafe extern "C" fn ib_get_mad_data_offset(mgmt_class: u8) -> c_int {
    // At most 64.
    Class(mgmt_class).data_offset() as c_int
}
