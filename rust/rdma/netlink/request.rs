// SPDX-License-Identifier: GPL-2.0

//! What user space asks: requests and dumps.

use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};

use kernel::{
    bindings,
    prelude::*, //
};

use crate::{
    gfp::Gfp,
    netns::Net, //
};

use super::{
    attr::{
        Attr,
        Attrs,
        Nested,
        Policy,
        Strictness, //
    },
    message_type,
    msg::{
        AttrWriter,
        Header,
        Message,
        SkBuff, //
    },
    op_of,
    transport::unicast, //
};

/// Size of `struct nlmsghdr`, which the attributes follow in all RDMA families.
const HEADER: usize = size_of::<bindings::nlmsghdr>();

impl Net {
    /// Whether this is the namespace that the kernel started with.
    pub fn is_init(&self) -> bool {
        ptr::eq(self, Net::init())
    }
}

/// The control block of a buffer that came in through netlink.
///
/// # Safety
///
/// `skb` is such a buffer.
unsafe fn parms(skb: *const bindings::sk_buff) -> *const bindings::netlink_skb_parms {
    // SAFETY: Only an address is computed.
    unsafe { &raw const (*skb).cb }.cast()
}

/// The namespace of the socket that owns a buffer.
///
/// # Safety
///
/// `skb` has a socket, and both live for `'a`.
pub(super) unsafe fn netns_of<'a>(skb: *const bindings::sk_buff) -> &'a Net {
    // SAFETY: As promised; a socket keeps its namespace.
    unsafe { Net::from_raw(bindings::sock_net((*skb).sk.cast())) }
}

/// The attributes of a message, not validated.
///
/// # Safety
///
/// `nlh` has as many bytes as it says, at least a header, unchanged for `'a`.
unsafe fn attr_bytes<'a>(nlh: *const bindings::nlmsghdr) -> &'a [u8] {
    // SAFETY: As promised.
    let len = unsafe { (*nlh).nlmsg_len } as usize;
    // SAFETY: As promised.
    unsafe { core::slice::from_raw_parts(nlh.cast::<u8>().add(HEADER), len.saturating_sub(HEADER)) }
}

/// A message from user space that wants something done.
///
/// # Invariants
///
/// `skb` is a buffer that came in through a netlink socket, `nlh` a complete message in it, and
/// `extack` null or the place for the text of an error; all are valid for `'a`.
pub struct Request<'a> {
    skb: NonNull<bindings::sk_buff>,
    nlh: NonNull<bindings::nlmsghdr>,
    extack: *mut bindings::netlink_ext_ack,
    life: PhantomData<&'a ()>,
}

impl<'a> Request<'a> {
    /// Wraps the arguments of a `doit` callback.
    ///
    /// # Safety
    ///
    /// They are those of a message that is being received, valid for `'a`.
    pub unsafe fn from_raw(
        skb: NonNull<bindings::sk_buff>,
        nlh: NonNull<bindings::nlmsghdr>,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Self {
        // INVARIANT: As promised.
        Self {
            skb,
            nlh,
            extack,
            life: PhantomData,
        }
    }

    /// The namespace that the request came from.
    pub fn netns(&self) -> &'a Net {
        // SAFETY: By the invariant; a buffer that is being received has its socket.
        unsafe { netns_of(self.skb.as_ptr()) }
    }

    /// The port id of the sender's socket.
    pub fn portid(&self) -> u32 {
        // SAFETY: By the invariant.
        unsafe { (*parms(self.skb.as_ptr())).portid }
    }

    /// The sequence number.
    pub fn seq(&self) -> u32 {
        // SAFETY: By the invariant.
        unsafe { (*self.nlh.as_ptr()).nlmsg_seq }
    }

    /// The operation.
    pub fn op(&self) -> u32 {
        // SAFETY: By the invariant.
        op_of(unsafe { (*self.nlh.as_ptr()).nlmsg_type })
    }

    /// The flags, those of the client included.
    pub fn flags(&self) -> u32 {
        // SAFETY: By the invariant.
        u32::from(unsafe { (*self.nlh.as_ptr()).nlmsg_flags })
    }

    /// Whether the sender, and whoever opened its socket, may administer the network.
    pub fn has_net_admin(&self) -> bool {
        // SAFETY: By the invariant.
        unsafe { bindings::netlink_capable(self.skb.as_ptr(), bindings::CAP_NET_ADMIN as c_int) }
    }

    /// The buffer of the request, for functions that ask it for rights and namespaces.
    pub fn skb_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }

    /// The place for the text of an error, for functions that fill it.
    pub fn extack_raw(&mut self) -> *mut bindings::netlink_ext_ack {
        self.extack
    }

    /// Validates and returns the attributes.
    pub fn attrs<const N: usize>(
        &mut self,
        policy: &'static Policy<N>,
        strictness: Strictness,
    ) -> Result<Attrs<'a>> {
        // SAFETY: By the invariant. The error text is read before the message is freed.
        unsafe { policy.validate(attr_bytes(self.nlh.as_ptr()), strictness, self.extack) }
    }

    /// Validates, tolerantly, and returns the attributes of an answer. Nobody asked, so no text
    /// is left for the sender.
    pub fn answer_attrs<const N: usize>(&self, policy: &'static Policy<N>) -> Result<Attrs<'a>> {
        // SAFETY: By the invariant.
        unsafe {
            policy.validate(
                attr_bytes(self.nlh.as_ptr()),
                Strictness::Tolerant,
                ptr::null_mut(),
            )
        }
    }

    /// Validates and returns the attributes in a container, always strictly.
    pub fn nested_attrs<const N: usize>(
        &mut self,
        policy: &'static Policy<N>,
        attrs: &Attrs<'a>,
        container: Attr<Nested>,
    ) -> Result<Attrs<'a>> {
        let inner = attrs.require(container)?;
        // SAFETY: The bytes are part of the message, see `attrs`.
        unsafe { policy.validate(inner.bytes(), Strictness::Strict, self.extack) }
    }

    /// Answers with one message, written by `fill`, of the operation `op` of `client`.
    ///
    /// Nothing is sent if `fill` fails. What `fill` holds is dropped before the message leaves.
    pub fn reply(
        &self,
        client: u32,
        op: u32,
        fill: impl FnOnce(&mut AttrWriter<'_>) -> Result,
    ) -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(Header {
            portid: self.portid(),
            seq: self.seq(),
            message_type: message_type(client, op),
            flags: 0,
        })?;
        fill(&mut message)?;
        message.end();
        unicast(self.netns(), skb, self.portid())
    }
}

/// Whether a dump has more to say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The buffer is to be sent; call again.
    More,
    /// There is no more.
    Done,
}

/// A table that user space reads, one buffer at a time.
///
/// # Invariants
///
/// `skb` is the linear buffer to fill and `cb` the state of the dump, both valid and this
/// thread's for `'a`.
pub struct Dump<'a> {
    skb: NonNull<bindings::sk_buff>,
    cb: NonNull<bindings::netlink_callback>,
    life: PhantomData<&'a mut ()>,
}

impl<'a> Dump<'a> {
    /// Wraps the arguments of a `dump` callback.
    ///
    /// # Safety
    ///
    /// They are those of such a call, which takes at least `'a`.
    pub unsafe fn from_raw(
        skb: NonNull<bindings::sk_buff>,
        cb: NonNull<bindings::netlink_callback>,
    ) -> Self {
        // INVARIANT: As promised.
        Self {
            skb,
            cb,
            life: PhantomData,
        }
    }

    fn request_skb(&self) -> *mut bindings::sk_buff {
        // SAFETY: By the invariant.
        unsafe { (*self.cb.as_ptr()).skb }
    }

    fn nlh(&self) -> *const bindings::nlmsghdr {
        // SAFETY: By the invariant.
        unsafe { (*self.cb.as_ptr()).nlh }
    }

    /// The buffer and the state, for functions that call back with them.
    pub fn as_raw(&mut self) -> (*mut bindings::sk_buff, *mut bindings::netlink_callback) {
        (self.skb.as_ptr(), self.cb.as_ptr())
    }

    /// The namespace that the dump shows.
    pub fn netns(&self) -> &'a Net {
        // SAFETY: By the invariant; the buffer belongs to the reading socket.
        unsafe { netns_of(self.skb.as_ptr()) }
    }

    /// The operation asked for.
    pub fn op(&self) -> u32 {
        // SAFETY: The state keeps the request's buffer and with it the header.
        op_of(unsafe { (*self.nlh()).nlmsg_type })
    }

    /// Whether the reader may administer the network.
    pub fn has_net_admin(&self) -> bool {
        // SAFETY: The state keeps the request's buffer.
        unsafe { bindings::netlink_capable(self.request_skb(), bindings::CAP_NET_ADMIN as c_int) }
    }

    /// Validates, tolerantly, and returns the attributes of the request.
    pub fn attrs<const N: usize>(&self, policy: &'static Policy<N>) -> Result<Attrs<'a>> {
        // SAFETY: The state keeps the request's buffer for as long as the dump lasts, and the
        // message in it is complete.
        unsafe {
            policy.validate(
                attr_bytes(self.nlh()),
                Strictness::Tolerant,
                ptr::null_mut(),
            )
        }
    }

    /// Where to go on; 0 at first.
    pub fn cursor(&self) -> u64 {
        // SAFETY: By the invariant; the core is the only user of the scratch words.
        unsafe { (*self.cb.as_ptr()).__bindgen_anon_1.args[0] as u64 }
    }

    /// Notes where the next call goes on.
    pub fn set_cursor(&mut self, cursor: u64) {
        // SAFETY: As in `cursor`.
        unsafe { (*self.cb.as_ptr()).__bindgen_anon_1.args[0] = cursor as c_long };
    }

    /// Whether nothing has been written to the buffer yet.
    pub fn is_empty(&self) -> bool {
        // SAFETY: By the invariant.
        unsafe { (*self.skb.as_ptr()).len == 0 }
    }

    /// Starts a message of the operation `op` of `client`, one of many.
    pub fn message(&mut self, client: u32, op: u32) -> Result<Message<'_>> {
        // SAFETY: The state keeps the request's buffer and with it the header.
        let (portid, seq) = unsafe {
            (
                (*parms(self.request_skb())).portid,
                (*self.nlh()).nlmsg_seq, //
            )
        };
        let header = Header {
            portid,
            seq,
            message_type: message_type(client, op),
            flags: bindings::NLM_F_MULTI,
        };
        // SAFETY: By the invariant.
        unsafe { Message::new(self.skb, header) }
    }

    /// What the callback returns: how much is in the buffer, or 0 at the end.
    pub(super) fn result(&self, progress: Progress) -> c_int {
        match progress {
            // SAFETY: By the invariant.
            Progress::More => unsafe { (*self.skb.as_ptr()).len as c_int },
            Progress::Done => 0,
        }
    }
}
