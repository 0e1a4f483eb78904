// SPDX-License-Identifier: GPL-2.0

//! The verbs objects of a management port: protection domain, completion queue,
//! special queue pairs, address handles.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Device;
use core::ptr::NonNull;
use kernel::{
    bindings,
    dev_err,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

const OWNER: *const c_char = c"ib_core".as_ptr().cast();

/// A protection domain.
///
/// # Invariants
///
/// `0` is a live domain that nobody else frees.
pub struct Pd(NonNull<bindings::ib_pd>);

// SAFETY: Domains may be used and freed by any thread.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a domain. May sleep.
    pub fn new(device: &Device) -> Result<Self> {
        // SAFETY: The device is valid.
        let pd = from_err_ptr(unsafe { bindings::__ib_alloc_pd(device.as_raw(), 0, OWNER) })?;
        // INVARIANT: Just made.
        NonNull::new(pd).map(Self).ok_or(ENOMEM)
    }

    /// Key for all memory that the kernel maps for the device.
    pub fn local_dma_lkey(&self) -> u32 {
        // SAFETY: Live by the type invariant; constant after allocation.
        unsafe { (*self.0.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant, and not used afterwards. The
        // queue pairs of the domain hold it.
        let ret = unsafe { bindings::ib_dealloc_pd_user(self.0.as_ptr(), core::ptr::null_mut()) };
        kernel::warn_on!(ret != 0);
    }
}

/// A completion queue, polled by an unbound work item, whose entries are served
/// with the context `C`.
///
/// # Invariants
///
/// `queue` is live, and its `cq_context` points to `_context`.
pub struct Cq<C: Send + Sync> {
    queue: NonNull<bindings::ib_cq>,
    _context: Arc<C>,
}

// SAFETY: Queues may be used and freed by any thread.
unsafe impl<C: Send + Sync> Send for Cq<C> {}
// SAFETY: As above.
unsafe impl<C: Send + Sync> Sync for Cq<C> {}

impl<C: Send + Sync> Cq<C> {
    /// Makes a queue of `entries`. May sleep.
    pub fn new(device: &Device, context: Arc<C>, entries: i32) -> Result<Self> {
        // SAFETY: The device is valid, and the context outlives the queue.
        let queue = from_err_ptr(unsafe {
            bindings::__ib_alloc_cq(
                device.as_raw(),
                Arc::as_ptr(&context).cast_mut().cast(),
                entries,
                0,
                bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
                OWNER,
            )
        })?;
        // INVARIANT: Just made with that context.
        Ok(Self {
            queue: NonNull::new(queue).ok_or(ENOMEM)?,
            _context: context,
        })
    }

    /// Asks for the next completion event.
    pub fn request_notify(&self) -> Result {
        // SAFETY: Live by the type invariant.
        to_result(unsafe {
            bindings::ib_req_notify_cq(
                self.queue.as_ptr(),
                bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP,
            )
        })
    }
}

impl<C: Send + Sync> Drop for Cq<C> {
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant. No handler runs after this call, and
        // the context is dropped after it.
        unsafe { bindings::ib_free_cq(self.queue.as_ptr()) }
    }
}

/// Which of the two special queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpKind {
    /// QP0, subnet management.
    Smi,
    /// QP1, general services.
    Gsi,
}

impl QpKind {
    /// The number that stands in messages.
    pub const fn number(self) -> u32 {
        match self {
            Self::Smi => 0,
            Self::Gsi => 1,
        }
    }

    /// The kind of a C queue-pair type.
    pub fn from_raw(qp_type: bindings::ib_qp_type) -> Option<Self> {
        match qp_type {
            bindings::ib_qp_type_IB_QPT_SMI => Some(Self::Smi),
            bindings::ib_qp_type_IB_QPT_GSI => Some(Self::Gsi),
            _ => None,
        }
    }
}

/// A special queue pair. Its completions go to the queue that it holds.
///
/// # Invariants
///
/// `qp` is live and nobody else destroys it.
pub struct Qp<C: Send + Sync> {
    qp: NonNull<bindings::ib_qp>,
    _cq: Arc<Cq<C>>,
    _pd: Arc<Pd>,
}

// SAFETY: Queue pairs may be used and destroyed by any thread.
unsafe impl<C: Send + Sync> Send for Qp<C> {}
// SAFETY: As above.
unsafe impl<C: Send + Sync> Sync for Qp<C> {}

/// Sizes of a special queue pair.
#[derive(Clone, Copy)]
pub struct QpSize {
    /// Work requests of the send queue.
    pub sends: u32,
    /// Work requests of the receive queue.
    pub receives: u32,
}

impl<C: Send + Sync> Qp<C> {
    /// Makes the queue pair of `port`. May sleep.
    pub fn new(cq: Arc<Cq<C>>, pd: Arc<Pd>, port: u32, kind: QpKind, size: QpSize) -> Result<Self> {
        let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();
        attr.send_cq = cq.queue.as_ptr();
        attr.recv_cq = cq.queue.as_ptr();
        attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_ALL_WR;
        attr.cap.max_send_wr = size.sends;
        attr.cap.max_recv_wr = size.receives;
        attr.cap.max_send_sge = super::send::SGES as u32;
        attr.cap.max_recv_sge = 1;
        attr.qp_type = match kind {
            QpKind::Smi => bindings::ib_qp_type_IB_QPT_SMI,
            QpKind::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
        };
        attr.port_num = port;
        attr.event_handler = Some(fatal_event);
        // SAFETY: Domain and queue are live and held by the new object.
        let qp = from_err_ptr(unsafe {
            bindings::ib_create_qp_kernel(pd.0.as_ptr(), &mut attr, OWNER)
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            qp: NonNull::new(qp).ok_or(ENOMEM)?,
            _cq: cq,
            _pd: pd,
        })
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::ib_qp {
        self.qp.as_ptr()
    }

    /// The number of the queue pair.
    pub fn number(&self) -> u32 {
        // SAFETY: Live by the type invariant; constant after creation.
        unsafe { (*self.as_raw()).qp_num }
    }

    fn modify(&self, attr: &mut bindings::ib_qp_attr, mask: u32) -> Result {
        // SAFETY: Live by the type invariant; the attributes that the mask names
        // are set.
        to_result(unsafe { bindings::ib_modify_qp(self.as_raw(), attr, mask as i32) })
    }

    /// RESET to INIT. May sleep.
    pub fn init(&self, pkey_index: u16, qkey: u32) -> Result {
        let mut attr = attributes()?;
        attr.qp_state = bindings::ib_qp_state_IB_QPS_INIT;
        attr.pkey_index = pkey_index;
        attr.qkey = qkey;
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | bindings::ib_qp_attr_mask_IB_QP_QKEY,
        )
    }

    /// INIT to RTR. May sleep.
    pub fn ready_to_receive(&self) -> Result {
        let mut attr = attributes()?;
        attr.qp_state = bindings::ib_qp_state_IB_QPS_RTR;
        self.modify(&mut attr, bindings::ib_qp_attr_mask_IB_QP_STATE)
    }

    /// RTR to RTS. May sleep.
    pub fn ready_to_send(&self) -> Result {
        let mut attr = attributes()?;
        attr.qp_state = bindings::ib_qp_state_IB_QPS_RTS;
        attr.sq_psn = 0;
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN,
        )
    }

    /// SQE to RTS, after a send failed. May sleep.
    pub fn recover(&self) -> Result {
        let mut attr = attributes()?;
        attr.qp_state = bindings::ib_qp_state_IB_QPS_RTS;
        attr.cur_qp_state = bindings::ib_qp_state_IB_QPS_SQE;
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_CUR_STATE,
        )
    }
}

impl<C: Send + Sync> Drop for Qp<C> {
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant, and not used afterwards.
        let ret = unsafe { bindings::ib_destroy_qp_user(self.as_raw(), core::ptr::null_mut()) };
        kernel::warn_on!(ret != 0);
    }
}

fn attributes() -> Result<KBox<bindings::ib_qp_attr>> {
    // Too large for the stack.
    KBox::init(pin_init::init_zeroed::<bindings::ib_qp_attr>(), GFP_KERNEL)
}

/// Logs that a queue pair has failed.
///
/// # Safety
///
/// Called by the driver as the event handler of a [`Qp`], with an event of that queue pair.
unsafe extern "C" fn fatal_event(event: *mut bindings::ib_event, _context: *mut c_void) {
    // SAFETY: The driver passes a valid event of one of our queue pairs.
    let (device, event, number) = unsafe {
        (
            Device::from_raw((*event).device),
            (*event).event,
            (*(*event).element.qp).qp_num,
        )
    };
    dev_err!(
        device.as_dev(),
        "Fatal error ({}) on MAD QP ({})\n",
        event,
        number
    );
}

/// An address handle.
///
/// # Invariants
///
/// `0` is a live handle that nobody else destroys.
pub struct Ah(NonNull<bindings::ib_ah>);

// SAFETY: Handles may be used and destroyed by any thread.
unsafe impl Send for Ah {}
// SAFETY: As above.
unsafe impl Sync for Ah {}

impl Ah {
    /// Takes over a result of C.
    ///
    /// # Safety
    ///
    /// `ah` is an error pointer or a live handle that the caller gives away.
    pub(super) unsafe fn from_raw(ah: *mut bindings::ib_ah) -> Result<Self> {
        // INVARIANT: By the contract of this function.
        NonNull::new(from_err_ptr(ah)?).map(Self).ok_or(EINVAL)
    }

    /// The C object.
    pub fn as_raw(&self) -> *mut bindings::ib_ah {
        self.0.as_ptr()
    }

    /// Gives the handle to C code.
    pub fn into_raw(self) -> *mut bindings::ib_ah {
        core::mem::ManuallyDrop::new(self).as_raw()
    }
}

impl Drop for Ah {
    /// May sleep.
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant, and not used afterwards.
        unsafe {
            bindings::rdma_destroy_ah_user(
                self.as_raw(),
                bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE,
                core::ptr::null_mut(),
            )
        };
    }
}

/// Where an address handle leads, as far as answers are matched by it.
#[derive(Clone, Copy)]
pub struct Address {
    /// Local identifier of the destination.
    pub dlid: u32,
    /// Source path bits.
    pub path_bits: u8,
    /// Global part.
    pub global: Option<GlobalAddress>,
}

/// Global part of an [`Address`].
#[derive(Clone, Copy)]
pub struct GlobalAddress {
    /// Destination.
    pub dgid: [u8; 16],
    /// Index of the source.
    pub sgid_index: u8,
}

/// Asks the driver where a handle leads. Any context.
///
/// # Safety
///
/// `ah` is a live handle, or null.
pub(super) unsafe fn query_address(ah: *mut bindings::ib_ah) -> Result<Address> {
    if ah.is_null() {
        return Err(EINVAL);
    }
    let mut attr: bindings::rdma_ah_attr = pin_init::zeroed();
    // SAFETY: By this function's contract.
    to_result(unsafe { bindings::rdma_query_ah(ah, &mut attr) })?;
    // SAFETY: The attributes are valid, and the helpers only read them.
    let (dlid, path_bits) = unsafe {
        (
            bindings::rdma_ah_get_dlid(&attr),
            bindings::rdma_ah_get_path_bits(&attr),
        )
    };
    let has_grh = u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0;
    Ok(Address {
        dlid,
        path_bits,
        global: has_grh.then(|| GlobalAddress {
            dgid: *crate::pack::gid_bytes(&attr.grh.dgid),
            sgid_index: attr.grh.sgid_index,
        }),
    })
}

/// The GID at `index` of a port's table, from the cache. Any context.
pub fn query_gid(device: &Device, port: u32, index: u8) -> Result<[u8; 16]> {
    let mut gid: bindings::ib_gid = pin_init::zeroed();
    // SAFETY: The device is valid and the result writable.
    to_result(unsafe {
        bindings::rdma_query_gid(device.as_raw(), port, i32::from(index), &mut gid)
    })?;
    Ok(*crate::pack::gid_bytes(&gid))
}

/// LMC of a port, from the cache. Any context.
pub fn cached_lmc(device: &Device, port: u32) -> Result<u8> {
    let mut lmc = 0;
    // SAFETY: The device is valid and the result writable.
    to_result(unsafe { bindings::ib_get_cached_lmc(device.as_raw(), port, &mut lmc) })?;
    Ok(lmc)
}

/// Index of a partition key in the table of a port. May sleep.
pub fn find_pkey(device: &Device, port: u32, pkey: u16) -> Result<u16> {
    let mut index = 0;
    // SAFETY: The device is valid and the result writable.
    to_result(unsafe { bindings::ib_find_pkey(device.as_raw(), port, pkey, &mut index) })?;
    Ok(index)
}

/// Largest datagram of a port.
pub fn max_mad_size(device: &Device, port: u32) -> usize {
    device
        .immutable(port)
        .map_or(0, |port| port.max_mad_size as usize)
}
