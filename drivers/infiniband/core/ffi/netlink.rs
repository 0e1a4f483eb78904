// SPDX-License-Identifier: GPL-2.0

//! What C calls of [`netlink`].

use kernel::{
    bindings::{
        self,
        gfp_t,
        net,
        nlmsghdr,
        rdma_dev_net,
        rdma_nl_cbs,
        sk_buff, //
    },
    prelude::*, //
};
use rdma::{
    netlink::{
        message_type,
        KernelSocket,
        RawTable, //
    },
    netns::{
        Net,
        RdmaNet, //
    },
};

use crate::netlink;

fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The kernel's socket in a namespace.
///
/// # Safety
///
/// `net` is a namespace with its socket, valid for `'a`.
unsafe fn socket<'a>(net: *const net) -> KernelSocket<'a> {
    // SAFETY: Promised by the caller.
    unsafe { Net::from_raw(net) }.rdma().socket()
}

/// Prepares the table of clients.
///
/// # Safety
///
/// Called once by the module's init function, before any namespace gets its socket.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_init() {
    netlink::init();
}

/// Checks that all clients are gone.
///
/// # Safety
///
/// Called by the module's exit function, when no namespace has a socket any more.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_exit() {
    netlink::exit();
}

/// Opens the socket of a namespace.
///
/// # Safety
///
/// `rnet` is the core's state of a namespace that is being set up.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_net_init(rnet: *mut rdma_dev_net) -> c_int {
    // SAFETY: Promised by the caller.
    errno(netlink::net_init(unsafe { RdmaNet::from_raw(rnet) }))
}

/// Closes the socket of a namespace.
///
/// # Safety
///
/// `rnet` is the core's state of a namespace that is going away and had its socket opened.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_net_exit(rnet: *mut rdma_dev_net) {
    // SAFETY: Promised by the caller.
    netlink::net_exit(unsafe { RdmaNet::from_raw(rnet) });
}

/// Opens the commands of a client: nldev, the SA client, or the iWARP module.
///
/// # Safety
///
/// `cb_table` has an element for every operation of the client and stays valid and unchanged
/// until the client is unregistered.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_register(index: c_uint, cb_table: *const rdma_nl_cbs) {
    // SAFETY: Promised by the caller.
    netlink::register(index, unsafe { RawTable::new(cb_table) });
}

/// Closes the commands of a client.
///
/// # Safety
///
/// Called from process context, by the one that registered.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_unregister(index: c_uint) {
    netlink::unregister(index);
}

/// Whether anyone in the initial namespace listens to a group.
///
/// # Safety
///
/// Called while the initial namespace has its socket.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_chk_listeners(group: c_uint) -> bool {
    netlink::has_listeners(group)
}

/// Sends to one socket without sleeping.
///
/// # Safety
///
/// `net` is a namespace with its socket, `skb` a complete buffer, which is given away.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_unicast(
    net: *mut net,
    skb: *mut sk_buff,
    pid: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    errno(unsafe { socket(net).unicast(skb, pid, false) })
}

/// Sends to one socket, sleeping while its queue is full.
///
/// # Safety
///
/// As [`rdma_nl_unicast`].
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_unicast_wait(
    net: *mut net,
    skb: *mut sk_buff,
    pid: u32,
) -> c_int {
    // SAFETY: Promised by the caller.
    errno(unsafe { socket(net).unicast(skb, pid, true) })
}

/// Sends to a group.
///
/// # Safety
///
/// As [`rdma_nl_unicast`]; `flags` suit the context.
#[export]
pub(crate) unsafe extern "C" fn rdma_nl_multicast(
    net: *mut net,
    skb: *mut sk_buff,
    group: c_uint,
    flags: gfp_t,
) -> c_int {
    // SAFETY: Promised by the caller.
    errno(unsafe { socket(net).multicast(skb, group, flags) })
}

/// Starts a message with room for `len` bytes, which are returned; null if it does not fit.
///
/// # Safety
///
/// `skb` is a netlink buffer of the caller's, `nlh` valid for writes. The caller is the port
/// mapper of the iWARP module.
#[export]
pub(crate) unsafe extern "C" fn ibnl_put_msg(
    skb: *mut sk_buff,
    nlh: *mut *mut nlmsghdr,
    seq: c_int,
    len: c_int,
    client: c_int,
    op: c_int,
    flags: c_int,
) -> *mut c_void {
    let ty = message_type(client as u32, op as u32) as c_int;
    // SAFETY: Promised by the caller.
    let header = unsafe { bindings::nlmsg_put(skb, 0, seq as u32, ty, len, flags) };
    // SAFETY: Promised by the caller.
    unsafe { *nlh = header };
    if header.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: The payload follows the header in the buffer.
    unsafe { header.add(1).cast() }
}

/// Appends an attribute, or takes back the whole message.
///
/// # Safety
///
/// `skb` is a netlink buffer of the caller's, `nlh` the message started last in it, and `data`
/// readable for `len` bytes.
#[export]
pub(crate) unsafe extern "C" fn ibnl_put_attr(
    skb: *mut sk_buff,
    nlh: *mut nlmsghdr,
    len: c_int,
    data: *mut c_void,
    type_: c_int,
) -> c_int {
    // SAFETY: Promised by the caller.
    if unsafe { bindings::nla_put(skb, type_, len, data) } == 0 {
        return 0;
    }
    // SAFETY: Promised by the caller: the message begins inside the buffer's data.
    unsafe {
        let start = nlh.cast::<u8>().offset_from((*skb).data);
        bindings::skb_trim(skb, start as c_uint);
    }
    EMSGSIZE.to_errno()
}
