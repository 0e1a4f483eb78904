// SPDX-License-Identifier: GPL-2.0

//! A queue pair that is connected to itself, for work requests that change objects of a
//! protection domain rather than send anything.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    ah::{AhAttr, AhType, Route},
    completion::Completion,
    device::Device,
    gid::GidAttr,
    mr::{Access, Mr},
    net::netdev::Mac,
    pd::Pd,
    port::Port,
};
use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering::Relaxed, Atomic},
    },
    time::{msecs_to_jiffies, Msecs},
};
use pin_init::stack_pin_init;

/// How long a work request may take before it is flushed.
const PATIENCE: Msecs = 10_000;

/// Work requests that are outstanding at a time, and one that flushes.
const DEPTH: u32 = 2;

/// What is shown as the owner of queue pair and completion queue.
const OWNER: &CStr = c"ib_core";

/// A queue pair in RTS with a completion queue of its own.
///
/// # Invariants
///
/// Both pointers are live objects that nobody else uses.
pub struct SelfQp {
    qp: NonNull<bindings::ib_qp>,
    cq: ManuallyDrop<OwnCq>,
}

/// # Invariants
///
/// The pointer is a live completion queue of `__ib_alloc_cq()` that nobody else has.
struct OwnCq(NonNull<bindings::ib_cq>);

impl Drop for OwnCq {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_free_cq(self.0.as_ptr()) };
    }
}

/// A request that is waited for. The completion finds it by the address of `cqe`.
#[repr(C)]
#[pin_data]
struct Ticket {
    cqe: bindings::ib_cqe,
    status: Atomic<u32>,
    #[pin]
    done: Completion,
}

/// Completion of a [`Ticket`].
///
/// # Safety
///
/// Called by the processing of a completion queue with the completion of a posted ticket.
unsafe extern "C" fn finished(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: The completion names the ticket's entry, and its owner waits for this call.
    unsafe {
        let cqe = (*wc).__bindgen_anon_1.wr_cqe;
        let ticket = kernel::container_of!(cqe, Ticket, cqe);
        (*ticket).status.store((*wc).status, Relaxed);
        (*ticket).done.complete();
    }
}

impl SelfQp {
    /// Creates and connects a queue pair in a domain. May sleep.
    ///
    /// `EOPNOTSUPP` if no port of the device can address itself: on iWARP only the connection
    /// manager connects. The device's errors are passed on.
    pub fn new(pd: &Pd) -> Result<Self> {
        let device = pd.device();
        let mut path = own_path(device)?;

        // SAFETY: The device is live; the name is a constant.
        let cq = from_err_ptr(unsafe {
            bindings::__ib_alloc_cq(
                device.as_raw(),
                ptr::null_mut(),
                DEPTH as c_int,
                0,
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
                OWNER.as_char_ptr(),
            )
        })?;
        // INVARIANT: Just allocated.
        let cq = OwnCq(NonNull::new(cq).ok_or(ENOMEM)?);

        let mut init: bindings::ib_qp_init_attr = pin_init::zeroed();
        init.send_cq = cq.0.as_ptr();
        init.recv_cq = cq.0.as_ptr();
        init.cap.max_send_wr = DEPTH;
        init.cap.max_recv_wr = 1;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        init.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
        init.qp_type = bindings::ib_qp_type_IB_QPT_RC;
        // SAFETY: The domain and the queue are live, the name is a constant.
        let qp = from_err_ptr(unsafe {
            bindings::ib_create_qp_kernel(pd.as_raw(), &mut init, OWNER.as_char_ptr())
        })?;
        // INVARIANT: Just created.
        let this = Self {
            qp: NonNull::new(qp).ok_or(ENOMEM)?,
            cq: ManuallyDrop::new(cq),
        };
        this.connect(&mut path)?;
        Ok(this)
    }

    fn modify(&self, attr: &mut bindings::ib_qp_attr, mask: u32) -> Result {
        // SAFETY: By the type invariant; the address vector in `attr`, if any, is a valid one.
        to_result(unsafe { bindings::ib_modify_qp(self.qp.as_ptr(), attr, mask as c_int) })
    }

    fn connect(&self, path: &mut AhAttr) -> Result {
        // SAFETY: By the type invariant.
        let number = unsafe { (*self.qp.as_ptr()).qp_num };

        let mut attr: bindings::ib_qp_attr = pin_init::zeroed();
        attr.qp_state = bindings::ib_qp_state_IB_QPS_INIT;
        attr.port_num = path.port();
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | bindings::ib_qp_attr_mask_IB_QP_PORT
                | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
        )?;

        attr.qp_state = bindings::ib_qp_state_IB_QPS_RTR;
        attr.path_mtu = bindings::ib_mtu_IB_MTU_256;
        attr.dest_qp_num = number;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        // SAFETY: A copy for the length of the call; the reference to the GID stays with `path`.
        attr.ah_attr = unsafe { path.as_mut_ptr().read() };
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_AV
                | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
                | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN
                | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN
                | bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
                | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
        )?;

        attr.qp_state = bindings::ib_qp_state_IB_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_TIMEOUT
                | bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
                | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
                | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN
                | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Makes what is mapped to a region accessible by its present keys. May sleep.
    ///
    /// `EIO` if the device refuses.
    pub fn register(&self, mr: &Mr, access: Access) -> Result {
        let mut wr: bindings::ib_reg_wr = pin_init::zeroed();
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        wr.mr = mr.as_raw();
        wr.key = mr.rkey();
        wr.access = access.bits();
        self.execute(&raw mut wr.wr)
    }

    /// Takes the validity of a remote key away. May sleep.
    ///
    /// `EIO` if the device refuses, as it does while a window is bound to the region.
    pub fn invalidate(&self, rkey: u32) -> Result {
        let mut wr: bindings::ib_send_wr = pin_init::zeroed();
        wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.ex.invalidate_rkey = rkey;
        self.execute(&raw mut wr)
    }

    /// Posts a request and waits for its completion.
    fn execute(&self, wr: *mut bindings::ib_send_wr) -> Result {
        stack_pin_init!(let ticket = pin_init!(Ticket {
            cqe: bindings::ib_cqe { done: Some(finished) },
            status: Atomic::new(bindings::ib_wc_status_IB_WC_GENERAL_ERR),
            done <- Completion::new(),
        }));
        // SAFETY: By the type invariant. The request and the ticket live until the completion has
        // been handled, which is waited for below.
        unsafe {
            (*wr).__bindgen_anon_1.wr_cqe = (&raw const ticket.cqe).cast_mut();
            (*wr).send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
            let mut bad = ptr::null();
            let device = Device::from_raw((*self.qp.as_ptr()).device);
            let post = device.ops().post_send.ok_or(EOPNOTSUPP)?;
            to_result(post(self.qp.as_ptr(), wr, &mut bad))?;
        }
        if !ticket.done.wait_timeout(msecs_to_jiffies(PATIENCE)) {
            pr_warn!("a registration takes too long, giving up\n");
            let mut attr: bindings::ib_qp_attr = pin_init::zeroed();
            attr.qp_state = bindings::ib_qp_state_IB_QPS_ERR;
            // In the error state what is outstanding completes. Should the device refuse even
            // that, the ticket cannot go away before it has answered.
            let _ = self.modify(&mut attr, bindings::ib_qp_attr_mask_IB_QP_STATE);
            ticket.done.wait();
        }
        if ticket.status.load(Relaxed) == bindings::ib_wc_status_IB_WC_SUCCESS {
            Ok(())
        } else {
            Err(EIO)
        }
    }
}

impl Drop for SelfQp {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nothing is outstanding.
        let ret = unsafe { bindings::ib_destroy_qp_user(self.qp.as_ptr(), ptr::null_mut()) };
        if ret != 0 {
            // The queue pair still uses the completion queue: better to keep both.
            pr_warn!("a device keeps a queue pair of the core: {ret}\n");
            return;
        }
        // SAFETY: Not used again.
        unsafe { ManuallyDrop::drop(&mut self.cq) };
    }
}

/// A path from the first port that can address itself, back to it.
fn own_path(device: &Device) -> Result<AhAttr> {
    for port in device.ports() {
        let caps = device.port_caps(port);
        let mut path = AhAttr::new();
        path.set_kind(AhType::of_port(device, port));
        path.set_port(port);
        if caps.protocol_roce() {
            let Some((gid, mac)) = first_roce_gid(device, port) else {
                continue;
            };
            path.set_dmac(mac);
            set_own_route(&mut path, gid);
            return Ok(path);
        }
        if caps.protocol_ib() {
            let mut attr: bindings::ib_port_attr = pin_init::zeroed();
            // SAFETY: The device is live and has the port.
            to_result(unsafe { bindings::ib_query_port(device.as_raw(), port, &mut attr) })?;
            path.set_lid(attr.lid, 0);
            if caps.grh_required() {
                set_own_route(&mut path, GidAttr::get(device, port, 0)?);
            }
            return Ok(path);
        }
    }
    Err(EOPNOTSUPP)
}

/// The first GID of a RoCE port whose interface is there, with the interface's address.
fn first_roce_gid(device: &Device, port: u32) -> Option<(ARef<GidAttr>, Mac)> {
    let entries = Port::new(device, port)?.gid_tbl_len();
    (0..entries).find_map(|index| {
        let gid = GidAttr::get(device, port, u16::try_from(index).ok()?).ok()?;
        let (_, mac) = gid.l2_fields().ok()?;
        Some((gid, mac))
    })
}

fn set_own_route(path: &mut AhAttr, gid: ARef<GidAttr>) {
    let dgid = gid.gid();
    let route = Route {
        dgid: Some(dgid),
        flow_label: 0,
        hop_limit: 1,
        traffic_class: 0,
    };
    path.set_route(&route, gid);
}
