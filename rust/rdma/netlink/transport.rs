// SPDX-License-Identifier: GPL-2.0

//! Kernel sockets, what comes in through them, and the tables that it is for.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

use crate::{
    gfp::Gfp,
    netns::{
        Net,
        RdmaNet, //
    }, //
};

use super::{
    client_of,
    msg::SkBuff,
    op_of,
    request::netns_of, //
};

/// Sends a buffer to one socket. Does not sleep; `EAGAIN` if the socket's queue is full.
#[inline]
pub fn unicast(netns: &Net, skb: SkBuff, portid: u32) -> Result {
    // SAFETY: The buffer's ownership is handed over.
    to_result(unsafe { bindings::rdma_nl_unicast(netns.as_raw(), skb.into_raw(), portid) })
}

/// Sends a buffer to one socket. Sleeps while the socket's queue is full.
#[inline]
pub fn unicast_wait(netns: &Net, skb: SkBuff, portid: u32) -> Result {
    // SAFETY: The buffer's ownership is handed over.
    to_result(unsafe { bindings::rdma_nl_unicast_wait(netns.as_raw(), skb.into_raw(), portid) })
}

/// Sends a buffer to a group; `ESRCH` if nobody listens.
#[inline]
pub fn multicast(netns: &Net, skb: SkBuff, group: u32, gfp: Gfp) -> Result {
    // SAFETY: The buffer's ownership is handed over.
    to_result(unsafe {
        bindings::rdma_nl_multicast(netns.as_raw(), skb.into_raw(), group, gfp.as_raw())
    })
}

/// Whether anyone in the initial namespace listens to a group.
#[inline]
pub fn has_listeners(group: u32) -> bool {
    // SAFETY: No requirements.
    unsafe { bindings::rdma_nl_chk_listeners(group) }
}

impl RdmaNet {
    /// Makes the kernel's RDMA netlink socket in the namespace. May sleep.
    pub fn make_socket<R: Receiver>(&self) -> Result {
        let mut config = bindings::netlink_kernel_cfg {
            flags: bindings::NL_CFG_F_NONROOT_RECV,
            input: Some(input::<R>),
            ..pin_init::zeroed()
        };
        let rnet = self.as_raw();
        // SAFETY: The namespace is being made; the configuration is copied.
        let sock = unsafe {
            bindings::netlink_kernel_create(
                (*rnet).net.net,
                bindings::NETLINK_RDMA as c_int,
                &mut config,
            )
        };
        let sock = NonNull::new(sock).ok_or(ENOMEM)?;
        let timeout = kernel::time::msecs_to_jiffies(R::SEND_TIMEOUT_MS);
        // SAFETY: The socket is new: nobody sends through it before it is published below.
        unsafe {
            (*sock.as_ptr()).sk_sndtimeo = timeout as c_long;
            (*rnet).nl_sock = sock.as_ptr();
        }
        Ok(())
    }

    /// Releases the socket, after the handlers that run in it. May sleep.
    ///
    /// For the end of the namespace, when nobody sends any more.
    pub fn release_socket(&self) {
        // SAFETY: `make_socket` made it, and the namespace ends: it is released once.
        unsafe { bindings::netlink_kernel_release((*self.as_raw()).nl_sock.cast()) };
    }

    /// The kernel's socket in the namespace.
    pub fn socket(&self) -> KernelSocket<'_> {
        // SAFETY: The socket lives as long as the state is in use.
        KernelSocket(unsafe { (*self.as_raw()).nl_sock }, PhantomData)
    }
}

/// A kernel's socket.
///
/// # Invariants
///
/// The pointer is a netlink socket of the kernel for `'a`.
pub struct KernelSocket<'a>(*mut bindings::sock, PhantomData<&'a RdmaNet>);

impl KernelSocket<'_> {
    /// Sends to one socket; if its queue is full, either sleeps or fails with `EAGAIN`.
    ///
    /// # Safety
    ///
    /// `skb` is a complete netlink buffer, which is given away.
    pub unsafe fn unicast(&self, skb: *mut bindings::sk_buff, portid: u32, wait: bool) -> Result {
        let flags = if wait { 0 } else { bindings::MSG_DONTWAIT };
        // SAFETY: By the invariant and as promised.
        to_result(unsafe { bindings::netlink_unicast(self.0.cast(), skb, portid, flags as c_int) })
    }

    /// Sends to a group.
    ///
    /// # Safety
    ///
    /// `skb` is a complete netlink buffer, which is given away.
    pub unsafe fn multicast(
        &self,
        skb: *mut bindings::sk_buff,
        group: u32,
        flags: bindings::gfp_t,
    ) -> Result {
        // SAFETY: By the invariant and as promised.
        to_result(unsafe { bindings::nlmsg_multicast(self.0.cast(), skb, 0, group, flags) })
    }

    /// Whether anyone listens to a group.
    pub fn has_listeners(&self, group: u32) -> bool {
        // SAFETY: By the invariant.
        unsafe { bindings::netlink_has_listeners(self.0.cast(), group) != 0 }
    }
}

/// What takes buffers that come in through a kernel socket.
pub trait Receiver {
    /// How long a sender waits for room in a full queue, in milliseconds.
    const SEND_TIMEOUT_MS: u32;

    /// Takes one buffer. May sleep.
    fn receive(inbound: &mut Inbound<'_>);
}

/// The `input` callback of a socket.
///
/// # Safety
///
/// Called by netlink with a buffer that is being received.
unsafe extern "C" fn input<R: Receiver>(skb: *mut bindings::sk_buff) {
    if let Some(skb) = NonNull::new(skb) {
        // INVARIANT: Promised by the caller.
        R::receive(&mut Inbound(skb, PhantomData));
    }
}

/// A buffer that came in: a row of messages.
///
/// # Invariants
///
/// The pointer is a linear netlink buffer that is this thread's for `'a`, with its socket.
pub struct Inbound<'a>(NonNull<bindings::sk_buff>, PhantomData<&'a mut ()>);

impl Inbound<'_> {
    /// Takes the messages out of the buffer, one after the other, and stops at the first one
    /// whose header does not fit it.
    pub fn for_each(&mut self, mut handle: impl FnMut(&mut InboundMessage<'_>)) {
        const HEADER: u32 = size_of::<bindings::nlmsghdr>() as u32;
        const ALIGN: u32 = 4;

        loop {
            let skb = self.0.as_ptr();
            // SAFETY: By the invariant.
            let (len, nlh) = unsafe { ((*skb).len, (*skb).data.cast::<bindings::nlmsghdr>()) };
            if len < HEADER {
                return;
            }
            // SAFETY: A whole header is there.
            let header = unsafe { *nlh };
            if header.nlmsg_len < HEADER || header.nlmsg_len > len {
                return;
            }
            let Some(nlh) = NonNull::new(nlh) else { return };
            // INVARIANT: The message is complete.
            handle(&mut InboundMessage {
                skb: self.0,
                nlh,
                header,
                extack: pin_init::zeroed(),
                life: PhantomData,
            });
            // At most three bytes more than `len`, which is less than 2 GiB.
            let advance = header.nlmsg_len.saturating_add(ALIGN - 1) & !(ALIGN - 1);
            // SAFETY: By the invariant; no more is pulled than there is.
            unsafe { bindings::skb_pull(skb, advance.min(len)) };
        }
    }
}

/// What a command returned: an error, success, or a positive number that is sent as it is.
#[derive(Clone, Copy)]
pub struct Verdict(c_int);

impl Verdict {
    /// All is well.
    pub const OK: Verdict = Verdict(0);

    /// Whether the sender is to hear it even if it did not ask for an acknowledgement.
    pub fn must_be_told(self) -> bool {
        self.0 != 0
    }

    /// Whether the answer has begun already: nothing is to be sent.
    pub fn is_answered(self) -> bool {
        self.0 == EINTR.to_errno()
    }
}

impl From<Error> for Verdict {
    fn from(error: Error) -> Self {
        Self(error.to_errno())
    }
}

/// A message that came in.
///
/// # Invariants
///
/// `nlh` is a complete message in `skb`, whose header `header` is; both are valid for `'a`.
pub struct InboundMessage<'a> {
    skb: NonNull<bindings::sk_buff>,
    nlh: NonNull<bindings::nlmsghdr>,
    header: bindings::nlmsghdr,
    extack: bindings::netlink_ext_ack,
    life: PhantomData<&'a ()>,
}

impl InboundMessage<'_> {
    /// The client that it is for.
    pub fn client(&self) -> u32 {
        client_of(self.header.nlmsg_type)
    }

    /// The operation.
    pub fn op(&self) -> u32 {
        op_of(self.header.nlmsg_type)
    }

    /// Whether it is netlink's own, not a client's.
    pub fn is_control(&self) -> bool {
        u32::from(self.header.nlmsg_type) < bindings::NLMSG_MIN_TYPE
    }

    /// Whether it asks for something.
    pub fn is_request(&self) -> bool {
        self.has_flags(bindings::NLM_F_REQUEST)
    }

    /// Whether it asks for a table.
    pub fn is_dump(&self) -> bool {
        self.has_flags(bindings::NLM_F_DUMP)
    }

    /// Whether the sender wants to be told of success.
    pub fn wants_ack(&self) -> bool {
        self.has_flags(bindings::NLM_F_ACK)
    }

    /// Whether any of `flags` is set.
    fn has_flags(&self, flags: u32) -> bool {
        u32::from(self.header.nlmsg_flags) & flags != 0
    }

    /// The namespace that it came from.
    pub fn netns(&self) -> &Net {
        // SAFETY: By the invariant; a buffer that is being received has its socket.
        unsafe { netns_of(self.skb.as_ptr()) }
    }

    /// Whether the sender, and whoever opened its socket, may administer the network.
    pub fn has_net_admin(&self) -> bool {
        // SAFETY: By the invariant.
        unsafe { bindings::netlink_capable(self.skb.as_ptr(), bindings::CAP_NET_ADMIN as c_int) }
    }

    /// Tells the sender the verdict, with the text that the command left for it.
    pub fn acknowledge(&self, verdict: Verdict) {
        // SAFETY: By the invariant.
        unsafe {
            bindings::netlink_ack(
                self.skb.as_ptr(),
                self.nlh.as_ptr(),
                verdict.0,
                &raw const self.extack,
            )
        };
    }
}

/// A command table of a client, as C declares them.
///
/// # Invariants
///
/// The pointer is an array with one element for each operation of the client, which stays valid
/// and unchanged until the client is unregistered.
#[derive(Clone, Copy)]
pub struct RawTable(NonNull<bindings::rdma_nl_cbs>);

// SAFETY: The table is constant.
unsafe impl Send for RawTable {}

// SAFETY: The table is constant.
unsafe impl Sync for RawTable {}

impl RawTable {
    /// Wraps a table.
    ///
    /// # Safety
    ///
    /// `ptr`, if not null, has one element for each of the client's operations, and is valid and
    /// unchanged until the client is unregistered.
    pub unsafe fn new(ptr: *const bindings::rdma_nl_cbs) -> Option<Self> {
        // INVARIANT: As promised.
        NonNull::new(ptr.cast_mut()).map(Self)
    }
}

/// What is known of a client.
pub struct Client {
    ops: u32,
    table: Option<RawTable>,
}

impl Client {
    /// A client with operations less than `ops`, not registered yet.
    pub const fn new(ops: u32) -> Self {
        Self { ops, table: None }
    }

    /// Whether it has the operation.
    pub fn has_op(&self, op: u32) -> bool {
        op < self.ops
    }

    /// Whether it is there.
    pub fn is_registered(&self) -> bool {
        self.table.is_some()
    }

    /// Registers it, or unregisters it.
    pub fn set_table(&mut self, table: Option<RawTable>) {
        self.table = table;
    }

    /// The command of an operation.
    pub fn command(&self, op: u32) -> Option<CommandRef<'_>> {
        if !self.has_op(op) {
            return None;
        }
        // SAFETY: By the invariant of the table, which is registered while `self` is borrowed.
        Some(CommandRef(unsafe {
            &*self.table?.0.as_ptr().add(op as usize)
        }))
    }
}

/// A command of a client, which cannot go as long as this is there.
pub struct CommandRef<'a>(&'a bindings::rdma_nl_cbs);

impl CommandRef<'_> {
    /// Whether there is anything behind it.
    pub fn is_implemented(&self) -> bool {
        self.0.doit.is_some() || self.0.dump.is_some()
    }

    /// Whether it needs `CAP_NET_ADMIN`.
    pub fn needs_admin(&self) -> bool {
        self.0.flags & bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8 != 0
    }

    /// Has the command handle `message`. May sleep. `None` if it does not do that.
    pub fn doit(&self, message: &mut InboundMessage<'_>) -> Option<Verdict> {
        let doit = self.0.doit?;
        // SAFETY: By the message's invariant; the callback is that of a registered client.
        Some(Verdict(unsafe {
            doit(
                message.skb.as_ptr(),
                message.nlh.as_ptr(),
                &raw mut message.extack,
            )
        }))
    }

    /// Has the command answer `message` with a table. May sleep. `None` if it does not do that.
    pub fn dump(&self, message: &mut InboundMessage<'_>) -> Option<Verdict> {
        let mut control = bindings::netlink_dump_control {
            dump: Some(self.0.dump?),
            ..pin_init::zeroed()
        };
        // SAFETY: By the message's invariant; the buffer has its socket, and the control block is
        // copied.
        Some(Verdict(unsafe {
            bindings::netlink_dump_start(
                (*message.skb.as_ptr()).sk.cast(),
                message.skb.as_ptr(),
                message.nlh.as_ptr(),
                &mut control,
            )
        }))
    }
}
