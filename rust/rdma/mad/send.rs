// SPDX-License-Identifier: GPL-2.0

//! Datagrams to send.
//!
//! A [`SendWr`] is the part of a send object that C code and the device see: the
//! `ib_mad_send_buf` that clients fill in, the memory behind it, and the hook for
//! the completion. The object that embeds it adds the state of the transaction.
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

use super::{
    verbs::{
        query_address,
        Address,
        Ah,
        Qp, //
    },
    wire::{
        Header,
        RmppHeader, //
    },
    WorkCompletion,
};
use crate::{
    cleared::cleared,
    device::Device,
    gfp::Gfp, //
};
use core::mem::offset_of;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// Scatter/gather entries of a send: headers and payload.
pub const SGES: usize = 2;

/// Memory that a device may read or write.
///
/// # Invariants
///
/// `addr` is a mapping of `len` bytes for `device`, made by `ib_dma_map_single`.
pub struct DmaMapping {
    device: ARef<Device>,
    addr: u64,
    len: usize,
    direction: bindings::dma_data_direction,
}

// SAFETY: A mapping may be undone by any thread.
unsafe impl Send for DmaMapping {}
// SAFETY: It has no operation on a shared reference but reading the address.
unsafe impl Sync for DmaMapping {}

impl DmaMapping {
    /// Maps `len` bytes at `memory`. Any context.
    pub(super) fn new(
        device: &Device,
        memory: *mut u8,
        len: usize,
        direction: bindings::dma_data_direction,
    ) -> Result<Self> {
        // SAFETY: The device is valid. Callers pass memory that they own and
        // keep longer than the mapping.
        let addr =
            unsafe { bindings::ib_dma_map_single(device.as_raw(), memory.cast(), len, direction) };
        // SAFETY: The device is valid.
        if unsafe { bindings::ib_dma_mapping_error(device.as_raw(), addr) } != 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: Just mapped.
        Ok(Self {
            device: device.hold(),
            addr,
            len,
            direction,
        })
    }

    /// The address for the device.
    pub(super) fn addr(&self) -> u64 {
        self.addr
    }
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            bindings::ib_dma_unmap_single(self.device.as_raw(), self.addr, self.len, self.direction)
        }
    }
}

/// The mappings of a datagram under way.
pub struct SendMapping {
    header: DmaMapping,
    payload: DmaMapping,
}

/// Sizes of a datagram to send, in bytes.
#[derive(Clone, Copy)]
pub struct SendLayout {
    /// Memory behind `ib_mad_send_buf.mad`.
    pub buffer: usize,
    /// Headers, sent with each segment.
    pub header: usize,
    /// Data that the client wants to send.
    pub data: usize,
    /// Payload sent after the headers.
    pub payload: usize,
    /// Segments, 0 if the payload is in the buffer.
    pub segments: usize,
    /// Data of each segment.
    pub segment: usize,
    /// Bytes of each segment after the RMPP header.
    pub segment_rmpp: usize,
}

/// Where a datagram goes, apart from its address handle.
#[derive(Clone, Copy)]
pub struct Target {
    /// Queue pair at the destination.
    pub remote_qpn: u32,
    /// Its key.
    pub remote_qkey: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
}

/// See the [module](self).
///
/// # Invariants
///
/// `buf.mad` points to `memory`. `header` bytes are in `memory`, `payload` bytes
/// follow there or are in each of `segments`.
#[repr(C)]
pub struct SendWr {
    cqe: bindings::ib_cqe,
    buf: Opaque<bindings::ib_mad_send_buf>,
    target: Target,
    pkey_index: Atomic<u32>,
    port: Atomic<u32>,
    lkey: u32,
    layout: SendLayout,
    memory: KVec<u8>,
    segments: KVVec<KVec<u8>>,
}

// SAFETY: The pointers in `buf` are only followed by the owner of the datagram,
// which is the client or the MAD layer, never both.
unsafe impl Send for SendWr {}
// SAFETY: As above; the rest is constant or atomic.
unsafe impl Sync for SendWr {}

/// A type that embeds a [`SendWr`].
///
/// # Safety
///
/// A `SendWr` lies `OFFSET` bytes into each object.
pub unsafe trait HasSendWr: Sized {
    /// Where the [`SendWr`] is.
    const OFFSET: usize;

    /// The [`SendWr`].
    fn send_wr(&self) -> &SendWr;
}

/// Implements [`HasSendWr`].
#[macro_export]
macro_rules! impl_has_send_wr {
    ($t:ty { self.$field:ident }) => {
        // SAFETY: The accessor only compiles if the field has the right type.
        unsafe impl $crate::mad::send::HasSendWr for $t {
            const OFFSET: usize = ::core::mem::offset_of!($t, $field);

            fn send_wr(&self) -> &$crate::mad::send::SendWr {
                &self.$field
            }
        }
    };
}

/// Takes the completions of posted datagrams.
pub trait SendHandler: HasSendWr + Send + Sync + 'static {
    /// The device is done with `this`. Called one at a time for each completion
    /// queue, from a work item.
    fn sent(this: Arc<Self>, completion: &WorkCompletion);
}

/// Serves a send completion.
///
/// # Safety
///
/// Called by the completion queue, with the entry of a datagram that
/// [`Qp::post_send`] posted as part of a `T`.
unsafe extern "C" fn send_done<T: SendHandler>(
    _cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The entry is valid, and kernel users' entries have a `wr_cqe`.
    let cqe = unsafe { (*wc).__bindgen_anon_1.wr_cqe };
    // SAFETY: By this function's contract the entry is that of a `T`.
    let this = unsafe { cqe.byte_sub(T::OFFSET + offset_of!(SendWr, cqe)) }.cast::<T>();
    // SAFETY: `post_send` left a count with the posted datagram.
    let this = unsafe { Arc::from_raw(this.cast_const()) };
    // SAFETY: The entry is valid during the call, and nothing else writes it.
    T::sent(this, unsafe { WorkCompletion::from_raw(wc) });
}

impl SendWr {
    /// Makes a datagram, cleared, that will be part of a `T`.
    pub fn new<T: SendHandler>(
        agent: &super::agent::AgentHead,
        layout: SendLayout,
        target: Target,
        lkey: u32,
        gfp: Gfp,
    ) -> Result<Self> {
        // Fields of the RMPP header are looked at whatever the client says.
        let size = layout.buffer.max(RmppHeader::END);
        let mut memory = cleared::<u8>(size, gfp)?;
        let mut segments = KVVec::with_capacity(layout.segments, gfp.flags())?;
        for _ in 0..layout.segments {
            segments.push(cleared(layout.segment, gfp)?, gfp.flags())?;
        }

        let mut buf: bindings::ib_mad_send_buf = pin_init::zeroed();
        buf.mad = memory.as_mut_ptr().cast();
        buf.mad_agent = agent.as_raw();
        buf.hdr_len = layout.header.try_into()?;
        buf.data_len = layout.data.try_into()?;
        if layout.segments != 0 {
            buf.seg_count = layout.segments.try_into()?;
            buf.seg_size = layout.segment.try_into()?;
            buf.seg_rmpp_size = layout.segment_rmpp.try_into()?;
        }
        if layout.header.saturating_add(layout.payload) > size && layout.segments == 0
            || layout.header > size
            || layout.payload > layout.segment && layout.segments != 0
        {
            return Err(EINVAL);
        }
        // INVARIANT: The sizes were checked above; the memory does not move.
        Ok(Self {
            cqe: bindings::ib_cqe {
                done: Some(send_done::<T>),
            },
            buf: Opaque::new(buf),
            target,
            pkey_index: Atomic::new(target.pkey_index.into()),
            port: Atomic::new(0),
            lkey,
            layout,
            memory,
            segments,
        })
    }

    /// What clients work with.
    pub fn as_buf(&self) -> *mut bindings::ib_mad_send_buf {
        self.buf.get()
    }

    /// The object that a client's pointer is part of.
    ///
    /// # Safety
    ///
    /// `buf` is the [`as_buf`](Self::as_buf) of a `T`.
    pub unsafe fn owner<T: HasSendWr>(buf: *mut bindings::ib_mad_send_buf) -> *const T {
        // SAFETY: By this function's contract.
        unsafe { buf.byte_sub(T::OFFSET + offset_of!(SendWr, buf)) }
            .cast_const()
            .cast()
    }

    /// The sizes.
    pub fn layout(&self) -> &SendLayout {
        &self.layout
    }

    fn start(&self) -> [u8; RmppHeader::END] {
        let mut bytes = [0; RmppHeader::END];
        // SAFETY: `new` made the memory at least that long. Only the owner of the
        // datagram writes to it.
        unsafe {
            core::ptr::copy_nonoverlapping(self.memory.as_ptr(), bytes.as_mut_ptr(), bytes.len())
        };
        bytes
    }

    /// The common header, as it is in the buffer now.
    pub fn header(&self) -> Header {
        // The buffer has all of it: the alternative is never taken.
        Header::parse(&self.start()).unwrap_or(Header {
            base_version: 0,
            class: super::wire::Class(0),
            class_version: 0,
            method: 0,
            status: 0,
            tid: 0,
            attr_id: 0,
            attr_mod: 0,
        })
    }

    /// The RMPP header, as it is in the buffer now; of no meaning in classes
    /// without it.
    pub fn rmpp(&self) -> RmppHeader {
        // As above.
        RmppHeader::parse(&self.start()).unwrap_or(RmppHeader {
            version: 0,
            kind: super::wire::RmppType::Other(0),
            rtime_flags: 0,
            status: super::wire::RmppStatus::NORMAL,
            segment: 0,
            paylen_newwin: 0,
        })
    }

    /// Replaces the RMPP header. For the owner of the datagram.
    pub fn set_rmpp(&self, rmpp: RmppHeader) {
        let bytes = rmpp.to_bytes();
        // SAFETY: As in `start`; the caller is the owner.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.memory.as_ptr().cast_mut().add(RmppHeader::OFFSET),
                bytes.len(),
            )
        };
    }

    /// Fills the start of the buffer; what does not fit is left out. For the owner
    /// of the datagram.
    pub fn fill(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.memory.len());
        // SAFETY: The memory is that long, and the caller is its owner.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.as_ptr().cast_mut(), len)
        };
    }

    /// The start of the buffer as a packet to route and hand to the driver. For
    /// the owner of the datagram.
    pub fn mad_raw(&self) -> MadPtr {
        MadPtr {
            ptr: self.memory.as_ptr().cast_mut(),
            len: self.memory.len(),
        }
    }

    /// Memory of a segment, counted from 1.
    pub fn segment(&self, number: u32) -> Option<*mut u8> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.segments
            .get(index)
            .map(|segment| segment.as_ptr().cast_mut())
    }

    /// How long to wait for an answer, in milliseconds; 0 if none is wanted.
    pub fn timeout_ms(&self) -> u32 {
        // SAFETY: The client writes it before it posts the datagram.
        unsafe { (*self.as_buf()).timeout_ms }
            .try_into()
            .unwrap_or(0)
    }

    /// Replaces the time to wait. For the owner of the datagram.
    pub fn set_timeout_ms(&self, timeout: u32) {
        // SAFETY: The caller is the owner.
        unsafe { (*self.as_buf()).timeout_ms = timeout.try_into().unwrap_or(i32::MAX) }
    }

    /// Number of retries: wanted ones before a send, needed ones after it.
    pub fn retries(&self) -> u32 {
        // SAFETY: The client writes it before it posts the datagram.
        unsafe { (*self.as_buf()).retries }.try_into().unwrap_or(0)
    }

    /// Replaces the number of retries. For the owner of the datagram.
    pub fn set_retries(&self, retries: u32) {
        // SAFETY: The caller is the owner.
        unsafe { (*self.as_buf()).retries = retries.try_into().unwrap_or(i32::MAX) }
    }

    /// Sends with `ah`, which the embedding object keeps.
    pub fn set_ah(&self, ah: &Ah) {
        // SAFETY: The caller made the datagram and has not given it away.
        unsafe { (*self.as_buf()).ah = ah.as_raw() }
    }

    /// Where the datagram goes. Any context.
    pub fn address(&self) -> Result<Address> {
        // SAFETY: A client keeps the handle as long as its datagram is posted.
        unsafe { query_address((*self.as_buf()).ah) }
    }

    /// Sends by this port of a switch.
    pub fn set_port(&self, port: u32) {
        self.port.store(port, Relaxed);
    }

    /// The port of a switch to send by.
    pub fn port(&self) -> u32 {
        self.port.load(Relaxed)
    }

    /// Index of the partition key.
    pub fn pkey_index(&self) -> u16 {
        (self.pkey_index.load(Relaxed) & 0xffff) as u16
    }

    /// Replaces the index of the partition key.
    pub fn set_pkey_index(&self, index: u16) {
        self.pkey_index.store(index.into(), Relaxed);
    }

    /// Queue pair and key at the destination, for traces.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The address handle, for traces.
    pub fn ah_raw(&self) -> *mut bindings::ib_ah {
        // SAFETY: The client writes it before it posts the datagram.
        unsafe { (*self.as_buf()).ah }
    }

    /// Address of the completion hook, which completions made up for local
    /// deliveries carry.
    pub fn cqe_raw(&self) -> *mut bindings::ib_cqe {
        (&raw const self.cqe).cast_mut()
    }

    /// Maps headers and payload, the latter of a segment if there are any. Any
    /// context.
    pub fn map(&self, device: &Device, segment: u32) -> Result<SendMapping> {
        let payload = if self.layout.segments != 0 {
            self.segment(segment).ok_or(EINVAL)?
        } else {
            self.memory
                .as_ptr()
                .cast_mut()
                .wrapping_add(self.layout.header)
        };
        let direction = bindings::dma_data_direction::DMA_TO_DEVICE;
        Ok(SendMapping {
            header: DmaMapping::new(
                device,
                self.memory.as_ptr().cast_mut(),
                self.layout.header,
                direction,
            )?,
            payload: DmaMapping::new(device, payload, self.layout.payload, direction)?,
        })
    }
}

/// A datagram in memory that the holder of the object may change.
#[derive(Clone, Copy)]
pub struct MadPtr {
    ptr: *mut u8,
    len: usize,
}

impl MadPtr {
    /// The memory.
    ///
    /// # Safety
    ///
    /// Nothing else may use the memory during `'a`.
    pub(super) unsafe fn as_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: The pointer is that of a whole buffer; exclusive by this
        // function's contract.
        unsafe { core::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

impl<C: super::recv::RecvContext> Qp<C> {
    /// Posts a datagram; the count of `send` goes to [`SendHandler::sent`]. Any
    /// context.
    ///
    /// On an error the datagram is not posted.
    pub fn post_send<T: SendHandler>(&self, send: Arc<T>, mapping: &SendMapping) -> Result {
        let wr = send.send_wr();
        let mut sges: [bindings::ib_sge; SGES] = pin_init::zeroed();
        for (sge, (map, len)) in sges.iter_mut().zip([
            (&mapping.header, wr.layout.header),
            (&mapping.payload, wr.layout.payload),
        ]) {
            sge.addr = map.addr();
            // Bounded by the size of a datagram.
            sge.length = len as u32;
            sge.lkey = wr.lkey;
        }
        let mut ud: bindings::ib_ud_wr = pin_init::zeroed();
        ud.wr.__bindgen_anon_1.wr_cqe = wr.cqe_raw();
        ud.wr.sg_list = sges.as_mut_ptr();
        ud.wr.num_sge = SGES as i32;
        ud.wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        ud.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        ud.ah = wr.ah_raw();
        ud.remote_qpn = wr.target.remote_qpn;
        ud.remote_qkey = wr.target.remote_qkey;
        ud.pkey_index = wr.pkey_index();
        ud.port_num = wr.port();

        // The completion takes this count; it may come before the call returns.
        let posted = Arc::into_raw(send);
        // SAFETY: The queue pair is live; drivers copy the request. The memory is
        // mapped and part of the object whose count was given away.
        let ret = to_result(unsafe {
            bindings::ib_post_send(self.as_raw(), &ud.wr, core::ptr::null_mut())
        });
        if ret.is_err() {
            // SAFETY: Not posted, so the count is still ours.
            drop(unsafe { Arc::from_raw(posted) });
        }
        ret
    }
}
