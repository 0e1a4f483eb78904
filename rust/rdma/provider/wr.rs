// SPDX-License-Identifier: GPL-2.0

//! Work requests, as consumers post them.
//!
//! A list is only walked forwards. The operation returns an error to refuse a request; that
//! request is then the last one that was taken off the list, and the consumer learns which one
//! that is. The requests before it are posted, those after it are not.

use super::{Ah, Driver, Mr};
use crate::mr::Access;
use core::{marker::PhantomData, ptr};
use kernel::{
    bindings,
    ffi::{c_int, c_void},
    prelude::*,
};

/// A piece of memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sge(bindings::ib_sge);

impl Sge {
    /// A piece of memory.
    pub const fn new(addr: u64, len: u32, lkey: u32) -> Self {
        Self(bindings::ib_sge {
            addr,
            length: len,
            lkey,
        })
    }

    /// Where it starts.
    pub const fn addr(&self) -> u64 {
        self.0.addr
    }

    /// Bytes.
    pub const fn len(&self) -> u32 {
        self.0.length
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of the region.
    pub const fn lkey(&self) -> u32 {
        self.0.lkey
    }
}

/// # Safety
///
/// `list` must have `count` entries for `'a`, which nobody changes.
unsafe fn sges<'a>(list: *const bindings::ib_sge, count: c_int) -> &'a [Sge] {
    match usize::try_from(count) {
        // SAFETY: By the contract of this function; the type is transparent.
        Ok(count) if count > 0 && !list.is_null() => unsafe {
            core::slice::from_raw_parts(list.cast(), count)
        },
        _ => &[],
    }
}

/// Options of a send request (`IB_SEND_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendFlags(u32);

impl SendFlags {
    const fn has(self, flag: bindings::ib_send_flags) -> bool {
        self.0 & flag as u32 != 0
    }

    /// From the bits of C, or of user space.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits of C.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Wait for earlier reads and atomics.
    pub const fn fence(self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_FENCE)
    }

    /// Report the completion, on a queue pair that does not report all.
    pub const fn signaled(self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// The receiver is to be told.
    pub const fn solicited(self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// The scatter/gather entries are addresses of data, which is to be copied now.
    pub const fn inline(self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_INLINE)
    }

    /// The device is to fill in checksums.
    pub const fn ip_checksum(self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_IP_CSUM)
    }
}

/// An atomic operation on eight bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Where.
    pub remote_addr: u64,
    /// The key of the region there.
    pub rkey: u32,
    /// What to compare with, or to add.
    pub compare_add: u64,
    /// What to store instead.
    pub swap: u64,
    /// The bits to compare or add, of a masked operation.
    pub compare_add_mask: u64,
    /// The bits to store, of a masked operation.
    pub swap_mask: u64,
}

/// Where a datagram goes.
pub struct Target<'a, D: Driver> {
    /// The address.
    pub ah: &'a Ah<D>,
    /// The queue pair there.
    pub qp: u32,
    /// Its key.
    pub qkey: u32,
    /// The partition, for QP1.
    pub pkey_index: u16,
    /// The port, for packets with a directed route on a switch.
    pub port: u32,
}

/// What a send request is to do.
pub enum SendOp<'a, D: Driver> {
    /// Sends.
    Send,
    /// Sends with immediate data, in network order.
    SendImm(u32),
    /// Sends, and invalidates a key of the receiver.
    SendInvalidate(u32),
    /// Writes to the peer's memory.
    RdmaWrite {
        /// Where.
        remote_addr: u64,
        /// The key of the region there.
        rkey: u32,
        /// Immediate data, in network order, which takes a receive request.
        imm: Option<u32>,
    },
    /// Reads from the peer's memory.
    RdmaRead {
        /// Where.
        remote_addr: u64,
        /// The key of the region there.
        rkey: u32,
        /// A local key to be invalidated afterwards.
        invalidate: Option<u32>,
    },
    /// Replaces eight bytes if they are as expected.
    CompareSwap(Atomic),
    /// Adds to eight bytes.
    FetchAdd(Atomic),
    /// Compare and swap under masks.
    MaskedCompareSwap(Atomic),
    /// Fetch and add under a mask.
    MaskedFetchAdd(Atomic),
    /// Invalidates a local key.
    LocalInvalidate(u32),
    /// Makes a region usable under a key.
    RegisterMr {
        /// The region, whose pages [`MrOps::map_sg`](super::MrOps::map_sg) has set.
        mr: &'a Mr<D>,
        /// The key.
        key: u32,
        /// The rights.
        access: Access,
    },
    /// Binds a memory window. Only for a driver that promises to take it, see
    /// [`Promises::BIND_MW`](crate::classic::Promises::BIND_MW).
    BindMw(BindMw),
    /// An opcode that is not for this interface; the number of C.
    Other(u32),
}

/// What a memory window is to be bound to (`struct ib_bind_mw_wr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMw {
    /// The window, by the key that it has before.
    pub window: u32,
    /// The key that it has from then on.
    pub new_key: u32,
    /// The region, by its local key.
    pub region: u32,
    /// First address in the region.
    pub addr: u64,
    /// Bytes; none closes a window of type 1.
    pub length: u64,
    /// Rights of peers.
    pub access: Access,
}

/// A send request.
pub struct SendWr<'a, D: Driver> {
    raw: *const bindings::ib_send_wr,
    datagram: bool,
    binds: bool,
    from_kernel: bool,
    _list: PhantomData<&'a D>,
}

impl<'a, D: Driver> SendWr<'a, D> {
    fn head(&self) -> &'a bindings::ib_send_wr {
        // SAFETY: A request of a list that is valid for `'a`, see `SendList::from_raw`.
        unsafe { &*self.raw }
    }

    /// What the consumer knows the request by.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: The other member of the union is a pointer of the same size.
        unsafe { self.head().__bindgen_anon_1.wr_id }
    }

    /// Options.
    pub fn flags(&self) -> SendFlags {
        SendFlags(self.head().send_flags as u32)
    }

    /// The number of the opcode, as C and user space know it.
    pub fn opcode(&self) -> u32 {
        self.head().opcode
    }

    /// The memory to send from, or to put what is read into.
    pub fn sges(&self) -> &'a [Sge] {
        // SAFETY: By the contract of `SendList::from_raw`.
        unsafe { sges(self.head().sg_list, self.head().num_sge) }
    }

    /// Bytes of the message; nothing if it does not fit in 32 bits.
    pub fn len(&self) -> Option<u32> {
        let sum = |sum: u32, sge: &Sge| sum.checked_add(sge.len());
        self.sges().iter().try_fold(0, sum)
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Copies the data of a request with the inline option; returns how many bytes there were.
    ///
    /// # Errors
    ///
    /// `EINVAL` without that option, if there is more than fits, or if the request is a process's,
    /// which says by a command of uverbs where the data are: anywhere.
    pub fn copy_inline(&self, to: &mut [u8]) -> Result<usize> {
        if !self.flags().inline() || !self.from_kernel {
            return Err(EINVAL);
        }
        let mut at = 0usize;
        for sge in self.sges() {
            let len = sge.len() as usize;
            let end = at.checked_add(len).ok_or(EINVAL)?;
            let room = to.get_mut(at..end).ok_or(EINVAL)?;
            // SAFETY: With the inline option a consumer in the kernel, as this is one, passes
            // addresses of its own memory, readable until the operation returns; the room has
            // this size.
            unsafe {
                ptr::copy_nonoverlapping(sge.addr() as usize as *const u8, room.as_mut_ptr(), len)
            };
            at = end;
        }
        Ok(at)
    }

    /// Where the request goes, on a queue pair for datagrams.
    pub fn target(&self) -> Option<Target<'a, D>> {
        let sends = matches!(
            self.opcode(),
            bindings::ib_wr_opcode_IB_WR_SEND
                | bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
                | bindings::ib_wr_opcode_IB_WR_LSO
        );
        if !self.datagram || !sends {
            return None;
        }
        let ud: *const bindings::ib_ud_wr = self.raw.cast();
        // SAFETY: Sends on a queue pair for datagrams are part of this structure; the handle, if
        // any, is live and one of the same device.
        unsafe {
            if (*ud).ah.is_null() {
                return None;
            }
            Some(Target {
                ah: Ah::from_raw((*ud).ah),
                qp: (*ud).remote_qpn,
                qkey: (*ud).remote_qkey,
                pkey_index: (*ud).pkey_index,
                port: (*ud).port_num,
            })
        }
    }

    /// # Safety
    ///
    /// The request must be part of a `struct ib_rdma_wr`.
    unsafe fn rdma(&self) -> (u64, u32) {
        let rdma: *const bindings::ib_rdma_wr = self.raw.cast();
        // SAFETY: By the contract of this function.
        unsafe { ((*rdma).remote_addr, (*rdma).rkey) }
    }

    /// # Safety
    ///
    /// The request must be part of a `struct ib_atomic_wr`.
    unsafe fn atomic(&self) -> Atomic {
        let atomic: *const bindings::ib_atomic_wr = self.raw.cast();
        // SAFETY: By the contract of this function.
        unsafe {
            Atomic {
                remote_addr: (*atomic).remote_addr,
                rkey: (*atomic).rkey,
                compare_add: (*atomic).compare_add,
                swap: (*atomic).swap,
                compare_add_mask: (*atomic).compare_add_mask,
                swap_mask: (*atomic).swap_mask,
            }
        }
    }

    /// What the request is to do.
    pub fn op(&self) -> SendOp<'a, D> {
        // SAFETY: The other member of the union has the same type but for the byte order.
        let extra = unsafe { self.head().ex.imm_data };
        // SAFETY: The opcode tells which structure the request is part of. A region to be
        // registered is live and one of the same device.
        unsafe {
            match self.opcode() {
                bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
                bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm(extra),
                bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::SendInvalidate(extra),
                code @ (bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
                | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM) => {
                    let (remote_addr, rkey) = self.rdma();
                    let with_imm = code == bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
                    SendOp::RdmaWrite {
                        remote_addr,
                        rkey,
                        imm: with_imm.then_some(extra),
                    }
                }
                code @ (bindings::ib_wr_opcode_IB_WR_RDMA_READ
                | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV) => {
                    let (remote_addr, rkey) = self.rdma();
                    let invalidates = code == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
                    SendOp::RdmaRead {
                        remote_addr,
                        rkey,
                        invalidate: invalidates.then_some(extra),
                    }
                }
                bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                    SendOp::CompareSwap(self.atomic())
                }
                bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                    SendOp::FetchAdd(self.atomic())
                }
                bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP => {
                    SendOp::MaskedCompareSwap(self.atomic())
                }
                bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD => {
                    SendOp::MaskedFetchAdd(self.atomic())
                }
                bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInvalidate(extra),
                bindings::ib_wr_opcode_IB_WR_REG_MR => {
                    let reg: *const bindings::ib_reg_wr = self.raw.cast();
                    SendOp::RegisterMr {
                        mr: Mr::from_raw((*reg).mr),
                        key: (*reg).key,
                        access: Access::from_bits((*reg).access),
                    }
                }
                bindings::ib_wr_opcode_IB_WR_BIND_MW if self.binds => {
                    let bind: *const bindings::ib_bind_mw_wr = self.raw.cast();
                    let info = &(*bind).bind_info;
                    SendOp::BindMw(BindMw {
                        window: (*(*bind).mw).rkey,
                        new_key: (*bind).rkey,
                        region: if info.mr.is_null() {
                            0
                        } else {
                            (*info.mr).lkey
                        },
                        addr: info.addr,
                        length: info.length,
                        access: Access::from_bits(info.mw_access_flags),
                    })
                }
                other => SendOp::Other(other),
            }
        }
    }
}

/// The send requests that a consumer posts.
pub struct SendList<'a, D: Driver> {
    next: *const bindings::ib_send_wr,
    taken: *const bindings::ib_send_wr,
    datagram: bool,
    binds: bool,
    from_kernel: bool,
    _list: PhantomData<&'a D>,
}

impl<'a, D: Driver> SendList<'a, D> {
    /// # Safety
    ///
    /// `first` must be a list of requests that is valid for `'a`, whose requests fit the kind of
    /// the queue pair. `binds` says that the driver takes requests to bind a window, so that those
    /// are `struct ib_bind_mw_wr`. `from_kernel` must not be set for the queue pair of a process.
    pub(super) unsafe fn from_raw(
        first: *const bindings::ib_send_wr,
        datagram: bool,
        binds: bool,
        from_kernel: bool,
    ) -> Self {
        Self {
            next: first,
            taken: first,
            datagram,
            binds,
            from_kernel,
            _list: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `bad` must be null or writable.
    pub(super) unsafe fn conclude(
        self,
        result: Result,
        bad: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        match result {
            Ok(()) => 0,
            Err(e) => {
                if !bad.is_null() {
                    // SAFETY: By the contract of this function.
                    unsafe { *bad = self.taken };
                }
                e.to_errno()
            }
        }
    }
}

impl<'a, D: Driver> Iterator for SendList<'a, D> {
    type Item = SendWr<'a, D>;

    fn next(&mut self) -> Option<SendWr<'a, D>> {
        if self.next.is_null() {
            return None;
        }
        self.taken = self.next;
        // SAFETY: A request of the list.
        self.next = unsafe { (*self.taken).next };
        Some(SendWr {
            raw: self.taken,
            datagram: self.datagram,
            binds: self.binds,
            from_kernel: self.from_kernel,
            _list: PhantomData,
        })
    }
}

/// A receive request.
pub struct RecvWr<'a>(&'a bindings::ib_recv_wr);

impl<'a> RecvWr<'a> {
    /// What the consumer knows the request by.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: The other member of the union is a pointer of the same size.
        unsafe { self.0.__bindgen_anon_1.wr_id }
    }

    /// The memory to receive into.
    pub fn sges(&self) -> &'a [Sge] {
        // SAFETY: By the contract of `RecvList::from_raw`.
        unsafe { sges(self.0.sg_list, self.0.num_sge) }
    }
}

/// The receive requests that a consumer posts.
pub struct RecvList<'a> {
    next: *const bindings::ib_recv_wr,
    taken: *const bindings::ib_recv_wr,
    _list: PhantomData<&'a c_void>,
}

impl<'a> RecvList<'a> {
    /// # Safety
    ///
    /// `first` must be a list of requests that is valid for `'a`.
    pub(super) unsafe fn from_raw(first: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: first,
            taken: first,
            _list: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `bad` must be null or writable.
    pub(super) unsafe fn conclude(
        self,
        result: Result,
        bad: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        match result {
            Ok(()) => 0,
            Err(e) => {
                if !bad.is_null() {
                    // SAFETY: By the contract of this function.
                    unsafe { *bad = self.taken };
                }
                e.to_errno()
            }
        }
    }
}

impl<'a> Iterator for RecvList<'a> {
    type Item = RecvWr<'a>;

    fn next(&mut self) -> Option<RecvWr<'a>> {
        if self.next.is_null() {
            return None;
        }
        self.taken = self.next;
        // SAFETY: A request of the list.
        let wr = unsafe { &*self.taken };
        self.next = wr.next;
        Some(RecvWr(wr))
    }
}
