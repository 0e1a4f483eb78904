// SPDX-License-Identifier: GPL-2.0

//! Fake devices and verbs objects on them, each ended when it is dropped.

use core::{ptr, time::Duration};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_void},
    prelude::*,
};

/// An operation of the fake device.
pub(crate) type Op = bindings::ib_fake_op;

/// A fake device.
pub(crate) struct Fake(*mut bindings::ib_device);

impl Fake {
    /// Settings of a device.
    pub(crate) fn config(protocol: bindings::ib_fake_protocol) -> bindings::ib_fake_config {
        bindings::ib_fake_config {
            protocol,
            ..pin_init::zeroed()
        }
    }

    /// A device with these settings.
    pub(crate) fn with(config: &bindings::ib_fake_config) -> Result<Self> {
        // SAFETY: The settings are valid.
        Ok(Self(from_err_ptr(unsafe {
            bindings::ib_fake_create(config)
        })?))
    }

    /// An InfiniBand device.
    pub(crate) fn new() -> Result<Self> {
        Self::with(&Self::config(bindings::ib_fake_protocol_IB_FAKE_INFINIBAND))
    }

    pub(crate) fn raw(&self) -> *mut bindings::ib_device {
        self.0
    }

    /// Makes the `nth` next call of an operation fail, all of them for 0.
    pub(crate) fn fail(&self, op: Op, nth: u32, error: Error) {
        // SAFETY: The device is live.
        unsafe { bindings::ib_fake_fail(self.0, op, nth, error.to_errno()) };
    }

    /// Ends that.
    pub(crate) fn mend(&self, op: Op) {
        // SAFETY: The device is live.
        unsafe { bindings::ib_fake_fail(self.0, op, 0, 0) };
    }

    /// How often an operation was called.
    pub(crate) fn calls(&self, op: Op) -> u32 {
        // SAFETY: The device is live.
        unsafe { bindings::ib_fake_calls(self.0, op) }
    }

    /// Forgets the calls.
    pub(crate) fn clear(&self) {
        // SAFETY: The device is live.
        unsafe { bindings::ib_fake_clear_calls(self.0) };
    }

    /// Operations that were called, the first ones first.
    pub(crate) fn history(&self) -> Result<KVec<Op>> {
        let mut ops = KVec::new();
        let mut call: bindings::ib_fake_call = pin_init::zeroed();
        for index in 0.. {
            // SAFETY: The device is live, and there is room for a call.
            if unsafe { bindings::ib_fake_call_at(self.0, index, &mut call) } != 0 {
                break;
            }
            ops.push(call.op, GFP_KERNEL)?;
        }
        Ok(ops)
    }

    /// Objects that the driver has.
    pub(crate) fn objects(&self, op: Op) -> u32 {
        // SAFETY: The device is live.
        unsafe { bindings::ib_fake_objects(self.0, op) }
    }

    /// The attributes of a port.
    pub(crate) fn port(&self, port: u32) -> Result<bindings::ib_port_attr> {
        let mut attr: bindings::ib_port_attr = pin_init::zeroed();
        // SAFETY: The device is live, and there is room for the attributes.
        to_result(unsafe { bindings::ib_fake_get_port(self.0, port, &mut attr) })?;
        Ok(attr)
    }

    /// Sets the attributes of a port.
    pub(crate) fn set_port(&self, port: u32, attr: &bindings::ib_port_attr) -> Result {
        // SAFETY: The device is live, and the attributes are valid.
        to_result(unsafe { bindings::ib_fake_set_port(self.0, port, attr) })
    }

    /// Dispatches an event.
    pub(crate) fn event(&self, port: u32, event: bindings::ib_event_type) -> Result {
        // SAFETY: The device is live.
        to_result(unsafe { bindings::ib_fake_event(self.0, port, event) })
    }

    /// Keeps send requests from being executed, or lets them.
    pub(crate) fn hold(&self, hold: bool) -> Result {
        // SAFETY: The device is live.
        to_result(unsafe { bindings::ib_fake_hold(self.0, hold) })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // SAFETY: The device is ours.
        unsafe { bindings::ib_fake_destroy(self.0) };
    }
}

/// Waits until the posted requests are done.
pub(crate) fn flush() {
    // SAFETY: Any time.
    unsafe { bindings::ib_fake_flush() };
}

/// Waits until something is so, for at most a minute: this kernel is slow on a busy host.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..12_000 {
        if is_so() {
            return true;
        }
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(STEP.as_millis() as i64));
    }
    is_so()
}

/// Declares an object that is ended when it is dropped.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident($raw:ident) ends with |$ptr:ident| $end:expr) => {
        $(#[$doc])*
        pub(crate) struct $name(*mut bindings::$raw);

        impl $name {
            #[allow(dead_code)]
            pub(crate) fn raw(&self) -> *mut bindings::$raw {
                self.0
            }

            /// Ends the object; it stays if that fails.
            #[allow(dead_code)]
            pub(crate) fn end(self) -> core::result::Result<(), (Self, Error)> {
                let $ptr = self.0;
                // SAFETY: The object is ours.
                match to_result(unsafe { $end }) {
                    Ok(()) => {
                        core::mem::forget(self);
                        Ok(())
                    }
                    Err(e) => Err((self, e)),
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let $ptr = self.0;
                // SAFETY: The object is ours.
                unsafe { $end };
            }
        }
    };
}

object! {
    /// A protection domain.
    Pd(ib_pd) ends with |pd| bindings::ib_dealloc_pd_user(pd, ptr::null_mut())
}

object! {
    /// A completion queue.
    Cq(ib_cq) ends with |cq| bindings::ib_destroy_cq_user(cq, ptr::null_mut())
}

object! {
    /// A queue pair.
    Qp(ib_qp) ends with |qp| bindings::ib_destroy_qp_user(qp, ptr::null_mut())
}

object! {
    /// A shared receive queue.
    Srq(ib_srq) ends with |srq| bindings::ib_destroy_srq_user(srq, ptr::null_mut())
}

object! {
    /// A memory region.
    Mr(ib_mr) ends with |mr| bindings::ib_dereg_mr_user(mr, ptr::null_mut())
}

object! {
    /// An address handle.
    Ah(ib_ah) ends with |ah| bindings::rdma_destroy_ah_user(
        ah,
        bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE,
        ptr::null_mut(),
    )
}

const CALLER: *const u8 = c"kunit_verbs".as_ptr().cast();

impl Pd {
    pub(crate) fn new(device: &Fake) -> Result<Self> {
        // SAFETY: The device is live.
        let pd = unsafe { bindings::__ib_alloc_pd(device.raw(), 0, CALLER) };
        Ok(Self(from_err_ptr(pd)?))
    }

    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: The domain is live.
        unsafe { (*self.0).local_dma_lkey }
    }

    /// Uses by other objects.
    pub(crate) fn uses(&self) -> i32 {
        // SAFETY: The domain is live.
        unsafe { bindings::atomic_read(&raw const (*self.0).usecnt) }
    }
}

/// What handlers count.
pub(crate) type Counter = kernel::sync::atomic::Atomic<u32>;

/// # Safety
///
/// Called with a context of this file.
unsafe extern "C" fn count_completion(_cq: *mut bindings::ib_cq, context: *mut c_void) {
    // SAFETY: The context of a queue of this file is null or a counter that outlives it.
    if let Some(counter) = unsafe { context.cast::<Counter>().as_ref() } {
        counter.fetch_add(1, kernel::sync::atomic::Relaxed);
    }
}

/// Notes the event in the counter: its number plus one.
///
/// # Safety
///
/// Called with a valid event and a context of this file.
unsafe extern "C" fn note_event(event: *mut bindings::ib_event, context: *mut c_void) {
    // SAFETY: As above; the event is valid.
    unsafe {
        if let Some(counter) = context.cast::<Counter>().as_ref() {
            counter.store((*event).event + 1, kernel::sync::atomic::Relaxed);
        }
    }
}

impl Cq {
    pub(crate) fn new(device: &Fake, entries: u32) -> Result<Self> {
        Self::counting(device, entries, None)
    }

    /// A queue whose completions and events are counted; the counter outlives it.
    pub(crate) fn counting(
        device: &Fake,
        entries: u32,
        counter: Option<&'static Counter>,
    ) -> Result<Self> {
        let attr = bindings::ib_cq_init_attr {
            cqe: entries,
            ..pin_init::zeroed()
        };
        let context = counter.map_or(ptr::null_mut(), |c| ptr::from_ref(c).cast_mut().cast());
        // SAFETY: The device is live, and the handlers take this context.
        let cq = unsafe {
            bindings::__ib_create_cq(
                device.raw(),
                Some(count_completion),
                Some(note_event),
                context,
                &attr,
                CALLER,
            )
        };
        Ok(Self(from_err_ptr(cq)?))
    }

    /// Takes a completion, if there is one.
    pub(crate) fn poll(&self) -> Option<bindings::ib_wc> {
        let mut wc: bindings::ib_wc = pin_init::zeroed();
        // SAFETY: The queue is live, and there is room for one.
        let got = unsafe {
            let poll = (*(*self.0).device).ops.poll_cq?;
            poll(self.0, 1, &mut wc)
        };
        (got == 1).then_some(wc)
    }

    /// Arms the queue.
    pub(crate) fn arm(&self, flags: bindings::ib_cq_notify_flags) -> c_int {
        // SAFETY: The queue is live.
        unsafe {
            match (*(*self.0).device).ops.req_notify_cq {
                Some(arm) => arm(self.0, flags),
                None => EOPNOTSUPP.to_errno(),
            }
        }
    }
}

/// The status and the opcode of a completion.
pub(crate) fn ended(wc: Option<bindings::ib_wc>) -> Option<(u32, u32)> {
    wc.map(|wc| (wc.status, wc.opcode))
}

/// What a queue pair is made of.
pub(crate) struct QpParts<'a> {
    pub(crate) kind: bindings::ib_qp_type,
    pub(crate) srq: Option<&'a Srq>,
    pub(crate) events: Option<&'static Counter>,
    pub(crate) port: u32,
}

impl QpParts<'_> {
    pub(crate) const fn new(kind: bindings::ib_qp_type) -> Self {
        Self {
            kind,
            srq: None,
            events: None,
            port: 1,
        }
    }
}

impl Qp {
    pub(crate) fn new(pd: &Pd, cq: &Cq, kind: bindings::ib_qp_type) -> Result<Self> {
        Self::with(pd, cq, &QpParts::new(kind))
    }

    pub(crate) fn with(pd: &Pd, cq: &Cq, parts: &QpParts<'_>) -> Result<Self> {
        let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();
        attr.qp_type = parts.kind;
        attr.send_cq = cq.raw();
        attr.recv_cq = cq.raw();
        attr.srq = parts.srq.map_or(ptr::null_mut(), Srq::raw);
        attr.cap.max_send_wr = 8;
        attr.cap.max_recv_wr = 8;
        attr.cap.max_send_sge = 4;
        attr.cap.max_recv_sge = 4;
        attr.cap.max_inline_data = 64;
        attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_ALL_WR;
        if parts.kind == bindings::ib_qp_type_IB_QPT_GSI {
            attr.port_num = parts.port;
        }
        if let Some(counter) = parts.events {
            attr.event_handler = Some(note_event);
            attr.qp_context = ptr::from_ref(counter).cast_mut().cast();
        }
        // SAFETY: The domain and the queues are live, and the handler takes this context.
        let qp = unsafe { bindings::ib_create_qp_kernel(pd.raw(), &mut attr, CALLER) };
        Ok(Self(from_err_ptr(qp)?))
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: The queue pair is live.
        unsafe { (*self.0).qp_num }
    }

    /// Changes attributes.
    pub(crate) fn modify(
        &self,
        mask: bindings::ib_qp_attr_mask,
        set: impl FnOnce(&mut bindings::ib_qp_attr),
    ) -> Result {
        let mut attr: KBox<bindings::ib_qp_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        set(&mut attr);
        // SAFETY: The queue pair is live, and the attributes are valid.
        to_result(unsafe { bindings::ib_modify_qp(self.0, &mut *attr, mask as c_int) })
    }

    /// The state, as the driver tells it.
    pub(crate) fn state(&self) -> Result<u32> {
        let mut attr: KBox<bindings::ib_qp_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        let mut init: KBox<bindings::ib_qp_init_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
        // SAFETY: The queue pair is live, and there is room for the attributes.
        to_result(unsafe { bindings::ib_query_qp(self.0, &mut *attr, mask, &mut *init) })?;
        Ok(attr.qp_state)
    }

    /// Goes to INIT.
    pub(crate) fn to_init(&self, access: u32) -> Result {
        use bindings::*;
        self.modify(
            ib_qp_attr_mask_IB_QP_STATE
                | ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | ib_qp_attr_mask_IB_QP_PORT
                | ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
            |attr| {
                attr.qp_state = ib_qp_state_IB_QPS_INIT;
                attr.port_num = 1;
                attr.qp_access_flags = access as c_int;
            },
        )
    }

    /// Connects a queue pair in INIT to one at a LID, and goes to RTS.
    pub(crate) fn connect(&self, lid: u32, number: u32, rnr_retry: u8) -> Result {
        use bindings::*;
        self.modify(
            ib_qp_attr_mask_IB_QP_STATE
                | ib_qp_attr_mask_IB_QP_AV
                | ib_qp_attr_mask_IB_QP_PATH_MTU
                | ib_qp_attr_mask_IB_QP_DEST_QPN
                | ib_qp_attr_mask_IB_QP_RQ_PSN
                | ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
                | ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
            |attr| {
                attr.qp_state = ib_qp_state_IB_QPS_RTR;
                attr.ah_attr.type_ = rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB;
                attr.ah_attr.port_num = 1;
                attr.ah_attr.__bindgen_anon_1.ib.dlid = lid as u16;
                attr.path_mtu = ib_mtu_IB_MTU_1024;
                attr.dest_qp_num = number;
                attr.max_dest_rd_atomic = 4;
                attr.min_rnr_timer = 12;
            },
        )?;
        self.modify(
            ib_qp_attr_mask_IB_QP_STATE
                | ib_qp_attr_mask_IB_QP_TIMEOUT
                | ib_qp_attr_mask_IB_QP_RETRY_CNT
                | ib_qp_attr_mask_IB_QP_RNR_RETRY
                | ib_qp_attr_mask_IB_QP_SQ_PSN
                | ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
            |attr| {
                attr.qp_state = ib_qp_state_IB_QPS_RTS;
                attr.timeout = 14;
                attr.retry_cnt = 7;
                attr.rnr_retry = rnr_retry;
                attr.max_rd_atomic = 4;
            },
        )
    }

    /// Goes to the error state.
    pub(crate) fn to_error(&self) -> Result {
        self.modify(bindings::ib_qp_attr_mask_IB_QP_STATE, |attr| {
            attr.qp_state = bindings::ib_qp_state_IB_QPS_ERR;
        })
    }

    /// Posts a send request.
    pub(crate) fn send(&self, wr: &bindings::ib_send_wr) -> Result {
        let mut bad = ptr::null();
        // SAFETY: The queue pair is live; the request fits its opcode.
        to_result(unsafe {
            match (*(*self.0).device).ops.post_send {
                Some(post) => post(self.0, wr, &mut bad),
                None => EOPNOTSUPP.to_errno(),
            }
        })
    }

    /// Posts a receive request for one piece of memory.
    pub(crate) fn recv(&self, wr_id: u64, sge: &mut bindings::ib_sge) -> Result {
        let mut wr: bindings::ib_recv_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_id = wr_id;
        wr.sg_list = sge;
        wr.num_sge = 1;
        let mut bad = ptr::null();
        // SAFETY: The queue pair is live, and the request is valid.
        to_result(unsafe {
            match (*(*self.0).device).ops.post_recv {
                Some(post) => post(self.0, &wr, &mut bad),
                None => EOPNOTSUPP.to_errno(),
            }
        })
    }
}

impl Srq {
    pub(crate) fn new(pd: &Pd) -> Result<Self> {
        let mut attr: bindings::ib_srq_init_attr = pin_init::zeroed();
        attr.attr.max_wr = 8;
        attr.attr.max_sge = 1;
        // SAFETY: The domain is live.
        let srq = unsafe {
            bindings::ib_create_srq_user(pd.raw(), &mut attr, ptr::null_mut(), ptr::null_mut())
        };
        Ok(Self(from_err_ptr(srq)?))
    }
}

impl Mr {
    /// A region for fast registration.
    pub(crate) fn new(pd: &Pd, pages: u32) -> Result<Self> {
        // SAFETY: The domain is live.
        let mr = unsafe {
            bindings::ib_alloc_mr(pd.raw(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
        };
        Ok(Self(from_err_ptr(mr)?))
    }

    /// The address of its first byte for peers.
    pub(crate) fn iova(&self) -> u64 {
        // SAFETY: The region is live.
        unsafe { (*self.0).iova }
    }
}

impl Ah {
    /// The address of a LID.
    pub(crate) fn new(pd: &Pd, lid: u32) -> Result<Self> {
        let mut attr: bindings::rdma_ah_attr = pin_init::zeroed();
        attr.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB;
        attr.port_num = 1;
        attr.__bindgen_anon_1.ib.dlid = lid as u16;
        // SAFETY: The domain is live, and the vector is valid.
        let ah = unsafe {
            bindings::rdma_create_ah(
                pd.raw(),
                &mut attr,
                bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
            )
        };
        Ok(Self(from_err_ptr(ah)?))
    }
}

/// Memory that a work request may name by the local key of a domain.
pub(crate) struct Buffer(KVec<u8>);

impl Buffer {
    pub(crate) fn new(fill: u8, len: usize) -> Result<Self> {
        Ok(Self(KVec::from_elem(fill, len, GFP_KERNEL)?))
    }

    pub(crate) fn addr(&self) -> u64 {
        self.0.as_ptr() as usize as u64
    }

    pub(crate) fn sge(&self, pd: &Pd) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr(),
            length: self.0.len() as u32,
            lkey: pd.local_key(),
        }
    }

    /// Whether all bytes are this one.
    pub(crate) fn is_all(&self, byte: u8) -> bool {
        // The fake device writes here behind the compiler's back.
        let base = core::hint::black_box(self.0.as_ptr());
        (0..self.0.len()).all(|at| {
            // SAFETY: Within the buffer.
            unsafe { base.add(at).read_volatile() == byte }
        })
    }

    /// The first eight bytes as a number.
    pub(crate) fn number(&self) -> u64 {
        let base = core::hint::black_box(self.0.as_ptr());
        // SAFETY: Buffers of numbers have eight bytes.
        unsafe { base.cast::<u64>().read_unaligned() }
    }
}
