// SPDX-License-Identifier: GPL-2.0

//! Socket buffers that carry packets: built and sent, or received and read.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)
//!
//! A [`SkBuff`] owns one buffer. While it is being sent, a token of type [`Flow`] can own a share of
//! it: the token is told when the network stack frees the buffer (or lets go of its owner), which is
//! how a sender limits what it has in flight without being kept alive by what is in flight.

use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::slice;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

use crate::gfp::Gfp;
use crate::net::frag::{self, FragPool};
use crate::net::NetDevice;
use crate::softirq;
use crate::spinlock::{CSpinLock, CSpinLockGuard};

/// The headers group of a buffer: a union of one anonymous and one named struct.
type Headers = bindings::sk_buff__bindgen_ty_4__bindgen_ty_1;

/// The family of the packet in a buffer (`skb->protocol`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Bytes of the IP header, without options or extension headers.
    pub const fn header_len(self) -> usize {
        match self {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    const fn ethertype(self) -> u16 {
        match self {
            Family::V4 => bindings::ETH_P_IP as u16,
            Family::V6 => bindings::ETH_P_IPV6 as u16,
        }
    }
}

/// Told when a buffer that it owns a share of is freed.
pub trait Flow: Send + Sync + 'static {
    /// One buffer less is in flight. Any context that may free a buffer: bottom halves, or a task
    /// that must not sleep.
    fn released(&self);
}

/// A buffer.
///
/// # Invariants
///
/// The buffer is valid, and one reference on it belongs to this value; nobody else has a reference.
/// Other buffers may share its data (clones), so data are written only while the buffer is new.
pub struct SkBuff(NonNull<bindings::sk_buff>);

// SAFETY: A buffer may be used and freed by any thread.
unsafe impl Send for SkBuff {}
// SAFETY: Through a shared reference it is only read.
unsafe impl Sync for SkBuff {}

impl SkBuff {
    /// Makes an empty buffer with `headroom` bytes before its data and room for `size` bytes.
    pub fn new(headroom: usize, size: usize, gfp: Gfp) -> Result<Self> {
        // SAFETY: The allocation, on any node, gives such a buffer or null.
        unsafe {
            Self::with_headroom(headroom, size, |total| {
                bindings::__alloc_skb(total, gfp.as_raw(), 0, bindings::NUMA_NO_NODE)
            })
        }
    }

    /// As [`new`](Self::new), in memory of a pool.
    pub fn new_in(pool: &mut FragPool, headroom: usize, size: usize) -> Result<Self> {
        // SAFETY: A pool gives such a buffer or null.
        unsafe { Self::with_headroom(headroom, size, |total| frag::build(pool, total)) }
    }

    /// Takes over what `make` makes, and leaves `headroom` bytes free in front.
    ///
    /// # Safety
    ///
    /// `make` has to give a new, empty buffer with room for as many bytes as it is told, which
    /// belongs to the caller, or null.
    #[inline]
    unsafe fn with_headroom(
        headroom: usize,
        size: usize,
        make: impl FnOnce(u32) -> *mut bindings::sk_buff,
    ) -> Result<Self> {
        let total = u32::try_from(headroom.checked_add(size).ok_or(EINVAL)?)?;
        let reserve = i32::try_from(headroom)?;
        let skb = NonNull::new(make(total)).ok_or(ENOMEM)?;
        // SAFETY: The buffer is new and has room for `total` bytes.
        unsafe { bindings::skb_reserve(skb.as_ptr(), reserve) };
        // INVARIANT: The buffer is new.
        Ok(Self(skb))
    }

    /// Takes over a buffer of C.
    ///
    /// # Safety
    ///
    /// `skb` is valid, its only reference is given away, and it is not on a list.
    pub unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the contract.
        Self(skb)
    }

    /// Gives the buffer to C.
    pub fn into_raw(self) -> NonNull<bindings::sk_buff> {
        ManuallyDrop::new(self).0
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    #[inline]
    fn headers(&self) -> *mut Headers {
        // SAFETY: The buffer is valid; the union has one layout.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_4).cast() }
    }

    /// Bytes of the packet, from where its data start now.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: The buffer is valid and belongs to us.
        unsafe { (*self.as_raw()).len as usize }
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the packet that lie behind the linear part, in pages.
    #[inline]
    pub fn paged_len(&self) -> usize {
        // SAFETY: The buffer is valid and belongs to us.
        unsafe { (*self.as_raw()).data_len as usize }
    }

    /// The linear part of the data.
    #[inline]
    pub fn head(&self) -> &[u8] {
        let len = self.len() - self.paged_len();
        // SAFETY: The linear part is `len` bytes at `data`, which nobody writes to once a buffer is
        // shared by clones.
        unsafe { slice::from_raw_parts((*self.as_raw()).data, len) }
    }

    /// Appends `len` bytes to the linear part, for the caller to fill. `ENOSPC` if there is no room
    /// for them or some data are in pages already.
    pub fn put(&mut self, len: usize) -> Result<&mut [u8]> {
        // SAFETY: The buffer is valid and belongs to us.
        let room = unsafe { bindings::skb_tailroom(self.as_raw()) };
        if len > usize::try_from(room).unwrap_or(0) {
            return Err(ENOSPC);
        }
        // SAFETY: There is room for `len` bytes, checked above; the bytes are plain memory of the
        // buffer, which is new, so no clone shares it.
        unsafe {
            let data = bindings::skb_put(self.as_raw(), len as u32).cast::<u8>();
            Ok(slice::from_raw_parts_mut(data, len))
        }
    }

    /// Prepends `len` bytes, for the caller to fill. `ENOSPC` if the headroom is less.
    pub fn push(&mut self, len: usize) -> Result<&mut [u8]> {
        // SAFETY: The buffer is valid and belongs to us; both pointers are of its one allocation.
        let room = unsafe { (*self.as_raw()).data.offset_from((*self.as_raw()).head) };
        if len > usize::try_from(room).unwrap_or(0) {
            return Err(ENOSPC);
        }
        // SAFETY: There is room for `len` bytes, checked above; the buffer is new.
        unsafe {
            let data = bindings::skb_push(self.as_raw(), len as u32).cast::<u8>();
            Ok(slice::from_raw_parts_mut(data, len))
        }
    }

    /// Takes `len` bytes off the front of the linear part. `EINVAL` if it is shorter.
    pub fn pull(&mut self, len: usize) -> Result {
        if len > self.len() - self.paged_len() {
            return Err(EINVAL);
        }
        // SAFETY: The linear part is at least `len` bytes.
        unsafe { bindings::skb_pull(self.as_raw(), len as u32) };
        Ok(())
    }

    /// Moves all data into the linear part. Any context.
    pub fn linearize(&mut self) -> Result {
        // SAFETY: The buffer is valid and belongs to us.
        kernel::error::to_result(unsafe { bindings::skb_linearize(self.as_raw()) })
    }

    /// Another buffer with the same data, which both only read from now on. It has no [`Flow`].
    pub fn share(&self, gfp: Gfp) -> Result<Self> {
        // SAFETY: The buffer is valid.
        let skb = unsafe { bindings::skb_clone(self.as_raw(), gfp.as_raw()) };
        // INVARIANT: The clone is new.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// The family, if the buffer has an IP packet.
    pub fn family(&self) -> Option<Family> {
        // SAFETY: The buffer is valid and belongs to us.
        let protocol = unsafe { (*self.headers()).protocol };
        match u32::from(u16::from_be(protocol)) {
            bindings::ETH_P_IP => Some(Family::V4),
            bindings::ETH_P_IPV6 => Some(Family::V6),
            _ => None,
        }
    }

    /// The IP header, options not included. Nothing if the buffer has no such header.
    pub fn ip_header(&self) -> Option<&[u8]> {
        let len = self.family()?.header_len();
        // SAFETY: The buffer is valid. Its network header is an offset from `head`, set by the
        // network stack or by `set_ip_header`; the comparison with `tail` checks it.
        unsafe {
            let start = usize::from((*self.headers()).network_header);
            let end = start.checked_add(len)?;
            if end > (*self.as_raw()).tail as usize {
                return None;
            }
            Some(slice::from_raw_parts((*self.as_raw()).head.add(start), len))
        }
    }

    /// The UDP header, if there is one right after the IP header.
    pub fn udp_header(&self) -> Option<&[u8; 8]> {
        // SAFETY: The buffer is valid. Its transport header is an offset from `head`, set by the
        // network stack or by `set_ip_header`; the comparison with `tail` checks it.
        let bytes = unsafe {
            let start = usize::from((*self.headers()).transport_header);
            let end = start.checked_add(8)?;
            if end > (*self.as_raw()).tail as usize {
                return None;
            }
            slice::from_raw_parts((*self.as_raw()).head.add(start), 8)
        };
        bytes.try_into().ok()
    }

    /// All of an IP packet with UDP, from its IP header on, to be changed for a moment. Nothing if
    /// other buffers share the data, some of them are in pages, or UDP does not follow directly.
    pub fn packet_mut(&mut self) -> Option<&mut [u8]> {
        let header_len = self.family()?.header_len();
        // SAFETY: The buffer is valid, and by the type invariant nobody else has it.
        if self.paged_len() != 0 || unsafe { bindings::rdma_skb_cloned(self.as_raw()) } != 0 {
            return None;
        }
        // SAFETY: The buffer is valid. Its network header is an offset from `head`, set by the
        // network stack or by `set_ip_header`; `tail` is where the data end. There are no clones, so
        // that nobody else reads or writes the data.
        unsafe {
            let start = usize::from((*self.headers()).network_header);
            let udp = usize::from((*self.headers()).transport_header);
            let len = ((*self.as_raw()).tail as usize).checked_sub(start)?;
            if udp != start.checked_add(header_len)? || len < header_len {
                return None;
            }
            let head = (*self.as_raw()).head;
            Some(slice::from_raw_parts_mut(head.add(start), len))
        }
    }

    /// Says that the data start with an IP header of that family, and UDP after it.
    pub fn set_ip_header(&mut self, family: Family) {
        let headers = self.headers();
        // SAFETY: The buffer is valid and belongs to us.
        unsafe {
            (*headers).protocol = family.ethertype().to_be();
            bindings::skb_reset_network_header(self.as_raw());
            bindings::skb_set_transport_header(self.as_raw(), family.header_len() as i32);
        }
    }

    /// Writes the length into the UDP header that [`set_ip_header`](Self::set_ip_header) has told of.
    pub(super) fn set_udp_len(&mut self, len: u16) {
        let [a, b] = len.to_be_bytes();
        // SAFETY: The buffer is valid and belongs to us. The offset is from `head`, and the
        // comparison with `tail` checks it; the buffer is new, so no clone shares the bytes.
        unsafe {
            let start = usize::from((*self.headers()).transport_header);
            if start.saturating_add(8) <= (*self.as_raw()).tail as usize {
                let header = (*self.as_raw()).head.add(start);
                *header.add(4) = a;
                *header.add(5) = b;
            }
        }
    }

    /// Says that the checksums of all layers of the packet are good, so that nobody looks at them.
    pub(super) fn set_checksum_good(&mut self) {
        /// Each layer that looks takes one off.
        const ALL_LEVELS: u8 = bindings::SKB_MAX_CSUM_LEVEL as u8;
        // SAFETY: The buffer is valid and belongs to us.
        unsafe {
            Headers::set_ip_summed_raw(self.headers(), bindings::CHECKSUM_UNNECESSARY as u8);
            Headers::set_csum_level_raw(self.headers(), ALL_LEVELS);
        }
    }

    /// Lets the network stack send the packet in fragments where the way is too narrow for it,
    /// although an IPv4 header forbids that to others. Each fragment forbids it as well, so that
    /// the packet is put together with the header that it had.
    pub fn allow_fragments(&mut self, family: Family) {
        // SAFETY: The buffer is valid and belongs to us; until it is sent, the control block is
        // free, and IPv4 is the next to use it.
        unsafe {
            Headers::set_ignore_df_raw(self.headers(), 1);
            if family == Family::V4 {
                bindings::rdma_skb_fragments_keep_df(self.as_raw());
            }
        }
    }

    /// The interface that the packet came in by or goes out by.
    ///
    /// The reference is only valid as long as something protects the interface: the RCU section of
    /// the receive path, to which the guard bears witness.
    pub fn device<'g>(&self, _: &'g kernel::sync::rcu::Guard) -> Option<&'g NetDevice> {
        // SAFETY: The buffer is valid; while the receive path or the sender holds the RCU lock, the
        // interface that it wrote there stays.
        unsafe {
            let dev = (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev;
            NetDevice::from_raw_opt(dev.cast())
        }
    }

    /// Makes the buffer forget its interface, as everything that is queued must: no reference is
    /// held on it.
    pub fn forget_device(&mut self) {
        // SAFETY: The buffer is valid and belongs to us.
        unsafe {
            (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev = ptr::null_mut();
        }
    }

    /// Notes the VLAN that the packet travelled in, without changing the packet.
    pub fn set_vlan(&mut self, id: Option<u16>) {
        let tag = bindings::sk_buff__bindgen_ty_4__bindgen_ty_1__bindgen_ty_2__bindgen_ty_1 {
            // Without a protocol there is no tag.
            vlan_proto: id.map_or(0, |_| (bindings::ETH_P_8021Q as u16).to_be()),
            vlan_tci: id.unwrap_or(0),
        };
        // SAFETY: The buffer is valid and belongs to us; any tag is a valid one.
        unsafe { (*self.headers()).__bindgen_anon_2.__bindgen_anon_1 = tag };
    }

    /// The VLAN that was noted.
    pub fn vlan(&self) -> Option<u16> {
        // SAFETY: The buffer is valid and belongs to us; both members of the union are integers.
        let tag = unsafe { (*self.headers()).__bindgen_anon_2.__bindgen_anon_1 };
        (tag.vlan_proto != 0).then_some(tag.vlan_tci & bindings::VLAN_VID_MASK as u16)
    }

    /// Gives `flow` a share of the buffer: [`Flow::released`] is called once, when the network stack
    /// frees the buffer or takes its owner away. Any earlier owner is released.
    pub fn set_flow<F: Flow>(&mut self, flow: Arc<F>) {
        /// # Safety
        ///
        /// Called by the network stack for a buffer whose `destructor_arg` is that of `set_flow`.
        unsafe extern "C" fn destroy<F: Flow>(skb: *mut bindings::sk_buff) {
            // SAFETY: The buffer is valid, so it has shared info; the pointer there is from
            // `Arc::into_raw`. The stack calls a destructor once.
            let flow = unsafe {
                let info = bindings::skb_shinfo(skb);
                Arc::<F>::from_raw((*info).__bindgen_anon_2.destructor_arg.cast())
            };
            flow.released();
        }

        // SAFETY: The buffer is valid and belongs to us. A buffer without a socket may have a
        // destructor; the argument in the shared info is copied when the head is reallocated, and
        // clones have no destructor, so it is used once.
        unsafe {
            bindings::skb_orphan(self.as_raw());
            let info = bindings::skb_shinfo(self.as_raw());
            (*info).__bindgen_anon_2.destructor_arg = Arc::into_raw(flow).cast_mut().cast();
            set_destructor(self.as_raw(), Some(destroy::<F>));
        }
    }

    /// Throws a packet away, which tools that watch for losses get to see.
    pub fn discard(self) {
        let reason = bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED;
        // SAFETY: The reference is ours and given up.
        unsafe { bindings::sk_skb_reason_drop(ptr::null(), self.into_raw().as_ptr(), reason) };
    }

    /// Makes the buffer forget its route, mark and whatever else belongs to the way it came.
    pub fn scrub(&mut self) {
        // SAFETY: The buffer is valid and belongs to us.
        unsafe { bindings::skb_scrub_packet(self.as_raw(), false) }
    }
}

/// Sets what is called when the buffer is freed.
///
/// # Safety
///
/// `skb` is valid and has no destructor.
unsafe fn set_destructor(
    skb: *mut bindings::sk_buff,
    destructor: Option<unsafe extern "C" fn(*mut bindings::sk_buff)>,
) {
    // SAFETY: The buffer is valid; the destructor is in the first part of the union.
    unsafe {
        (*skb).__bindgen_anon_3.__bindgen_anon_1.destructor = destructor;
    }
}

/// Frees the buffer as one that has served its purpose. For packets that are thrown away see
/// [`SkBuff::discard`].
impl Drop for SkBuff {
    fn drop(&mut self) {
        // Anything but 0 lets it go to what this CPU keeps for softirqs.
        let budget = softirq::is_own().into();
        // SAFETY: The reference is ours; the budget says where we are.
        unsafe { bindings::napi_consume_skb(self.as_raw(), budget) };
    }
}

/// A list of buffers with a lock of its own.
///
/// # Invariants
///
/// The list is initialised; every buffer on it is owned by the list.
#[pin_data(PinnedDrop)]
pub struct SkbQueue {
    #[pin]
    list: Opaque<bindings::sk_buff_head>,
}

// SAFETY: The list has a lock.
unsafe impl Send for SkbQueue {}
// SAFETY: As above.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// Makes an empty list.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid for writes, and pinned.
            list <- Opaque::ffi_init(|list| unsafe { bindings::skb_queue_head_init(list) }),
        })
    }

    /// How many buffers there are; another thread may change it at once.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: Initialised by the type invariant; the field is read once.
        unsafe { (&raw const (*self.list.get()).qlen).read_volatile() as usize }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> CSpinLockGuard<'_> {
        // SAFETY: The lock was initialised with the list, and lives as long.
        unsafe { CSpinLock::from_raw(&raw mut (*self.list.get()).lock) }.lock_irqsave()
    }

    /// Appends a buffer; returns how many there are then. Any context.
    pub fn push_back(&self, skb: SkBuff) -> usize {
        let guard = self.lock();
        // SAFETY: Initialised by the type invariant, and locked; the list takes the buffer over.
        unsafe { bindings::__skb_queue_tail(self.list.get(), skb.into_raw().as_ptr()) };
        let len = self.len();
        drop(guard);
        len
    }

    /// Takes all buffers at once. Any context.
    pub fn take_all(&self) -> SkbList {
        if self.is_empty() {
            return SkbList::new();
        }
        let list = self.list.get();
        let _guard = self.lock();
        if self.is_empty() {
            return SkbList::new();
        }
        // SAFETY: Initialised by the type invariant, locked and not empty: both ends are buffers of the
        // list. It is made empty, so that they belong to nobody.
        unsafe {
            let ends = (*list).__bindgen_anon_1.list;
            (*ends.prev).__bindgen_anon_1.__bindgen_anon_1.next = ptr::null_mut();
            bindings::__skb_queue_head_init(list);
            // INVARIANT: The last one was just made the end of what begins here.
            SkbList(ends.next)
        }
    }

    /// Drops all buffers. Any context.
    pub fn clear(&self) {
        drop(self.take_all());
    }
}

#[pinned_drop]
impl PinnedDrop for SkbQueue {
    fn drop(self: Pin<&mut Self>) {
        self.clear();
    }
}

/// Buffers in a row, which belong to one owner.
///
/// # Invariants
///
/// The first one of a list of buffers that is linked by `next` and ends with null, each of which belongs
/// to this value; or null.
pub struct SkbList(*mut bindings::sk_buff);

// SAFETY: As buffers.
unsafe impl Send for SkbList {}

impl SkbList {
    /// None.
    pub const fn new() -> Self {
        Self(ptr::null_mut())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_null()
    }
}

impl Default for SkbList {
    fn default() -> Self {
        Self::new()
    }
}

impl Iterator for SkbList {
    type Item = SkBuff;

    /// Takes the first one.
    fn next(&mut self) -> Option<SkBuff> {
        let skb = NonNull::new(self.0)?;
        // SAFETY: The buffer is valid and belongs to us.
        unsafe {
            let link = &raw mut (*skb.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next;
            // INVARIANT: The rest of the list; the first one leaves it.
            self.0 = link.replace(ptr::null_mut());
        }
        // INVARIANT: It belonged to the list and is on none any more.
        Some(SkBuff(skb))
    }
}

impl Drop for SkbList {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
