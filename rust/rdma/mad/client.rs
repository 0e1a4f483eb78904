// SPDX-License-Identifier: GPL-2.0

//! The layer of management datagrams as its clients see it: an agent, the requests it sends, and
//! their answers.
//!
//! Whether the layer itself is the C or the Rust one makes no difference here.
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

use super::{
    verbs::QpKind,
    wire::{
        RmppHeader,
        MAD_SIZE, //
    },
};
use crate::{
    ah::AhAttr,
    device::Device,
    gfp::Gfp, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    }, //
};

/// How a request ended, apart from its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered, or sent if no answer was asked for.
    Done,
    /// No answer came in time.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// It could not be sent.
    Failed,
}

impl Outcome {
    fn from_raw(status: bindings::ib_wc_status) -> Self {
        match status {
            bindings::ib_wc_status_IB_WC_SUCCESS => Self::Done,
            bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR => Self::TimedOut,
            bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR => Self::Cancelled,
            _ => Self::Failed,
        }
    }
}

/// A request of a client, with whatever belongs to it.
pub trait Transaction: Send + Sync + Sized + 'static {
    /// The datagram to send.
    fn send_buf(&self) -> &SendBuf<Self>;

    /// An answer came. Called from a work item, before [`finished`](Self::finished).
    fn answered(&self, answer: &Answer<'_>);

    /// The layer is done with the request; called once for each successful [`post`]. From a work
    /// item.
    fn finished(this: Arc<Self>, outcome: Outcome);
}

/// A registered client of a port, whose requests all are `T`s.
///
/// Dropping it unregisters: that waits until all [`SendBuf`]s of the agent are gone, and must not
/// be done from a handler. Sleeps.
///
/// # Invariants
///
/// `raw` is a registered agent with the handlers of `T`, which nobody else unregisters.
pub struct Agent<T: Transaction> {
    raw: NonNull<bindings::ib_mad_agent>,
    _device: ARef<Device>,
    _transactions: PhantomData<fn(T)>,
}

// SAFETY: Agents may be used and unregistered by any thread.
unsafe impl<T: Transaction> Send for Agent<T> {}
// SAFETY: As above.
unsafe impl<T: Transaction> Sync for Agent<T> {}

/// What a datagram looks like from outside.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Queue pair at the destination.
    pub remote_qpn: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Bytes of the headers.
    pub header: usize,
    /// Bytes of the data.
    pub data: usize,
    /// Version of the datagram.
    pub base_version: u8,
}

impl<T: Transaction> Agent<T> {
    /// Registers a client that only sends requests and may get segmented answers. Sleeps.
    ///
    /// Errors: those of `ib_register_mad_agent`.
    pub fn register(device: &Device, port: u32, kind: QpKind) -> Result<Self> {
        // SAFETY: The device is valid, and the handlers fit what `post` posts.
        let agent = from_err_ptr(unsafe {
            bindings::ib_register_mad_agent(
                device.as_raw(),
                port,
                match kind {
                    QpKind::Smi => bindings::ib_qp_type_IB_QPT_SMI,
                    QpKind::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
                },
                ptr::null_mut(),
                RmppHeader::VERSION,
                Some(send_handler::<T>),
                Some(recv_handler::<T>),
                ptr::null_mut(),
                0,
            )
        })?;
        // INVARIANT: Just registered.
        Ok(Self {
            raw: NonNull::new(agent).ok_or(EINVAL)?,
            _device: device.hold(),
            _transactions: PhantomData,
        })
    }

    /// The upper half of the transaction ids that the client has to use.
    pub fn id(&self) -> u32 {
        // SAFETY: Registered by the type invariant; constant since then.
        unsafe { (*self.raw.as_ptr()).hi_tid }
    }

    /// Makes an address handle for requests of this agent. Sleeps.
    ///
    /// The handle has to be gone before the port is.
    pub fn create_ah(&self, attr: &mut AhAttr) -> Result<Destination> {
        // SAFETY: Registered by the type invariant, with a live queue pair in a live domain.
        let ah = from_err_ptr(unsafe {
            bindings::rdma_create_ah(
                (*(*self.raw.as_ptr()).qp).pd,
                attr.as_mut_ptr(),
                bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
            )
        })?;
        // INVARIANT: Just made.
        Ok(Destination(NonNull::new(ah).ok_or(EINVAL)?))
    }

    /// Makes a datagram, cleared, that goes to `to`. Sleeps if `gfp` allows.
    pub fn create_send(&self, shape: Shape, to: Arc<Destination>, gfp: Gfp) -> Result<SendBuf<T>> {
        // SAFETY: Registered by the type invariant.
        let buf = from_err_ptr(unsafe {
            bindings::ib_create_send_mad(
                self.raw.as_ptr(),
                shape.remote_qpn,
                shape.pkey_index,
                0,
                c_int::try_from(shape.header)?,
                c_int::try_from(shape.data)?,
                gfp.as_raw(),
                shape.base_version,
            )
        })?;
        let buf = NonNull::new(buf).ok_or(EINVAL)?;
        // SAFETY: The buffer is new and ours; the handle is kept with it.
        unsafe { (*buf.as_ptr()).ah = to.0.as_ptr() };
        // INVARIANT: Just made.
        Ok(SendBuf {
            raw: buf,
            posted: Atomic::new(false),
            _to: to,
            _transaction: PhantomData,
        })
    }
}

impl<T: Transaction> Drop for Agent<T> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant, and not used afterwards.
        unsafe { bindings::ib_unregister_mad_agent(self.raw.as_ptr()) };
    }
}

/// An address handle that can be dropped in any context.
///
/// # Invariants
///
/// `0` is a live handle that nobody else destroys.
pub struct Destination(NonNull<bindings::ib_ah>);

// SAFETY: Handles may be used and destroyed by any thread.
unsafe impl Send for Destination {}
// SAFETY: As above.
unsafe impl Sync for Destination {}

impl Drop for Destination {
    fn drop(&mut self) {
        // SAFETY: Live by the type invariant, and not used afterwards.
        unsafe { bindings::rdma_destroy_ah_user(self.0.as_ptr(), 0, ptr::null_mut()) };
    }
}

/// A datagram to send as part of a `T`. Can be dropped in any context.
///
/// # Invariants
///
/// `raw` is a datagram that nobody else frees, of an agent with the handlers of `T`. While the
/// layer has it, its first context word is a count of the `T` that it is part of, which keeps it
/// from being freed; its address handle is `_to`.
pub struct SendBuf<T> {
    raw: NonNull<bindings::ib_mad_send_buf>,
    posted: Atomic<bool>,
    _to: Arc<Destination>,
    _transaction: PhantomData<fn(T)>,
}

// SAFETY: The owner fills the datagram before it is shared; the rest is the layer's.
unsafe impl<T> Send for SendBuf<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for SendBuf<T> {}

impl<T: Transaction> SendBuf<T> {
    /// Fills in the datagram from its start; what does not fit is left out.
    pub fn fill(&mut self, bytes: &[u8]) {
        // SAFETY: The datagram is ours, and the memory as long as headers and data.
        unsafe {
            let buf = self.raw.as_ref();
            let room = buf.hdr_len.saturating_add(buf.data_len);
            let len = bytes.len().min(room.try_into().unwrap_or(0));
            ptr::copy_nonoverlapping(bytes.as_ptr(), buf.mad.cast(), len);
        }
    }

    /// Sets how long to wait for an answer each time, in milliseconds, and how often to repeat the
    /// request.
    pub fn set_patience(&mut self, timeout_ms: u32, retries: u32) {
        // SAFETY: The datagram is ours.
        unsafe {
            let buf = self.raw.as_mut();
            buf.timeout_ms = timeout_ms.try_into().unwrap_or(c_int::MAX);
            buf.retries = retries.try_into().unwrap_or(c_int::MAX);
        }
    }

    /// Cancels the request if the layer has it: it finishes as [`Outcome::Cancelled`], from
    /// another thread, unless it is about to finish anyway. Any context.
    pub fn cancel(&self) {
        // SAFETY: The datagram is not freed before `self` is gone, and its agent not before that.
        // The layer looks for it in its own lists, and ignores one that is not there.
        unsafe { bindings::ib_modify_mad(self.raw.as_ptr(), 0) };
    }
}

impl<T> Drop for SendBuf<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the layer does not have it: it would hold a count of what
        // `self` is part of.
        unsafe { bindings::ib_free_send_mad(self.raw.as_ptr()) };
    }
}

/// Gives a request to the layer; [`Transaction::finished`] gets `transaction` back, not from here.
/// Any context.
///
/// Errors: `EBUSY` if it was posted before, those of `ib_post_send_mad`; nothing is posted then.
pub fn post<T: Transaction>(transaction: Arc<T>) -> Result {
    let buf = transaction.send_buf();
    if buf.posted.cmpxchg(false, true, Relaxed).is_err() {
        return Err(EBUSY);
    }
    let raw = buf.raw.as_ptr();
    let count = Arc::into_raw(transaction);
    // SAFETY: The datagram was never posted, so it is ours until it is. Handlers take the count
    // from the context.
    let ret = to_result(unsafe {
        (*raw).context[0] = count.cast_mut().cast();
        bindings::ib_post_send_mad(raw, ptr::null_mut())
    });
    if ret.is_err() {
        // SAFETY: Not posted, so the count is still ours.
        let transaction = unsafe { Arc::from_raw(count) };
        transaction.send_buf().posted.store(false, Relaxed);
    }
    ret
}

/// Takes a request back from the layer.
///
/// # Safety
///
/// Called by the layer with a datagram that [`post`] posted as part of a `T`.
unsafe extern "C" fn send_handler<T: Transaction>(
    _agent: *mut bindings::ib_mad_agent,
    wc: *mut bindings::ib_mad_send_wc,
) {
    // SAFETY: By the contract of this function.
    let (status, count) = unsafe { ((*wc).status, (*(*wc).send_buf).context[0]) };
    // SAFETY: `post` left a count in the context, which the layer gives back once.
    let transaction = unsafe { Arc::from_raw(count.cast::<T>().cast_const()) };
    T::finished(transaction, Outcome::from_raw(status));
}

/// Takes an answer.
///
/// # Safety
///
/// Called by the layer with the datagram that is answered, posted by [`post`] as part of a `T`,
/// or null, and with a received datagram that is given away.
unsafe extern "C" fn recv_handler<T: Transaction>(
    _agent: *mut bindings::ib_mad_agent,
    send_buf: *mut bindings::ib_mad_send_buf,
    recv: *mut bindings::ib_mad_recv_wc,
) {
    if !send_buf.is_null() {
        // SAFETY: The layer gives the count back later, by the send handler.
        let transaction = ManuallyDrop::new(unsafe {
            Arc::from_raw((*send_buf).context[0].cast::<T>().cast_const())
        });
        // INVARIANT: The datagram is ours until it is freed below.
        transaction.answered(&Answer {
            raw: recv,
            life: PhantomData,
        });
    }
    // SAFETY: The datagram was given away to this function.
    unsafe { bindings::ib_free_recv_mad(recv) };
}

/// A received datagram, of several segments if it was a transfer.
///
/// # Invariants
///
/// `raw` is a received datagram with its list of segments, unchanged for `'a`; each has the memory
/// of a whole datagram.
pub struct Answer<'a> {
    raw: *mut bindings::ib_mad_recv_wc,
    life: PhantomData<&'a ()>,
}

impl<'a> Answer<'a> {
    /// It arrived without an error.
    pub fn is_received(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { (*(*self.raw).wc).status == bindings::ib_wc_status_IB_WC_SUCCESS }
    }

    /// Bytes of the whole: one set of headers, and the data of all segments.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.raw).mad_len }.try_into().unwrap_or(0)
    }

    /// Whether there is nothing, not even headers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The (first) datagram.
    pub fn mad(&self) -> &'a [u8; MAD_SIZE] {
        // SAFETY: By the type invariant.
        unsafe { &*(*self.raw).recv_buf.__bindgen_anon_1.mad.cast() }
    }

    /// All datagrams of a transfer, the first one included.
    pub fn segments(&self) -> Segments<'a> {
        // SAFETY: By the type invariant.
        let head = unsafe { &raw mut (*self.raw).rmpp_list };
        Segments {
            head,
            at: head,
            life: PhantomData,
        }
    }
}

/// See [`Answer::segments`].
pub struct Segments<'a> {
    head: *mut bindings::list_head,
    at: *mut bindings::list_head,
    life: PhantomData<&'a ()>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8; MAD_SIZE];

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: By the invariant of `Answer` the list does not change.
        let next = unsafe { crate::clist::after(self.at, self.head) }?;
        self.at = next;
        // SAFETY: The entries of the list are receive buffers, each with a datagram.
        unsafe {
            let buf = kernel::container_of!(next, bindings::ib_mad_recv_buf, list);
            Some(&*(*buf).__bindgen_anon_1.mad.cast())
        }
    }
}
