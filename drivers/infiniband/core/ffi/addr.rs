// SPDX-License-Identifier: GPL-2.0

//! Address resolution, as C calls it.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_result;
use kernel::ffi::{c_int, c_uchar, c_ulong, c_void};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::addr::{self, Asker, DevAddr, Key, RawCallback, RocePath, SockAddr};
use rdma::gid::{Gid, GidAttr};
use rdma::net::NetDevice;
use rdma::netlink::Request;

use crate::addr as logic;

/// The bytes of a socket address, if the caller's buffer of `room` bytes can hold it.
fn size_within(family: u16, room: usize) -> c_int {
    match addr::size_of_family(family) {
        size if size <= room => size as c_int,
        _ => 0,
    }
}

/// The bytes of a socket address, 0 for a family that is not supported.
///
/// # Safety
///
/// Called by C with an address that is valid for reads of its family.
#[export]
pub(crate) unsafe extern "C" fn rdma_addr_size(addr: *const bindings::sockaddr) -> c_int {
    // SAFETY: Promised by the caller.
    size_within(unsafe { addr::family_of(addr) }, usize::MAX)
}

/// As `rdma_addr_size`, but 0 for addresses that do not fit a `struct sockaddr_in6`.
///
/// # Safety
///
/// Called by C with an address that is valid for reads.
#[export]
pub(crate) unsafe extern "C" fn rdma_addr_size_in6(addr: *mut bindings::sockaddr_in6) -> c_int {
    // SAFETY: Promised by the caller.
    let family = unsafe { addr::family_of(addr.cast()) };
    size_within(family, size_of::<bindings::sockaddr_in6>())
}

/// As `rdma_addr_size`, but 0 for addresses that do not fit a kernel socket address.
///
/// # Safety
///
/// Called by C with an address that is valid for reads.
#[export]
pub(crate) unsafe extern "C" fn rdma_addr_size_kss(
    addr: *mut bindings::__kernel_sockaddr_storage,
) -> c_int {
    // SAFETY: Promised by the caller.
    let family = unsafe { addr::family_of(addr.cast()) };
    size_within(family, size_of::<bindings::__kernel_sockaddr_storage>())
}

/// Takes the near end from a network device.
///
/// # Safety
///
/// Called by C with a structure that is valid for writes and a device that is valid for the call.
#[export]
pub(crate) unsafe extern "C" fn rdma_copy_src_l2_addr(
    dev_addr: *mut bindings::rdma_dev_addr,
    dev: *const bindings::net_device,
) {
    // SAFETY: Promised by the caller.
    unsafe { DevAddr::from_raw(dev_addr).set_source(NetDevice::from_raw(dev.cast_mut())) };
}

/// Translates a local IP address to the link-layer address of its device.
///
/// # Safety
///
/// Called by C with a valid address and a structure whose namespace is set.
#[export]
pub(crate) unsafe extern "C" fn rdma_translate_ip(
    addr: *const bindings::sockaddr,
    dev_addr: *mut bindings::rdma_dev_addr,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (ip, dev_addr) = unsafe { (SockAddr::read(addr).ip(), DevAddr::from_raw(dev_addr)) };
    from_result(|| logic::translate(ip, dev_addr).map(|()| 0))
}

/// Starts the resolution of an address.
///
/// # Safety
///
/// Called by C with valid addresses (the source may be null), a structure that stays valid until
/// `callback` was called or the request cancelled, and a callback that may be called once.
#[export]
pub(crate) unsafe extern "C" fn rdma_resolve_ip(
    src_addr: *mut bindings::sockaddr,
    dst_addr: *const bindings::sockaddr,
    addr: *mut bindings::rdma_dev_addr,
    timeout_ms: c_ulong,
    callback: Option<RawCallback>,
    resolve_by_gid_attr: bool,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Promised by the caller.
    let source = (!src_addr.is_null()).then(|| unsafe { SockAddr::read(src_addr) });
    // SAFETY: Promised by the caller.
    let destination = unsafe { SockAddr::read(dst_addr) };
    from_result(|| {
        // SAFETY: Promised by the caller.
        let asker = unsafe { Asker::new(addr, callback, context) }?;
        let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
        let client = logic::Client::Asker(asker);
        logic::start(source, destination, client, timeout_ms, resolve_by_gid_attr).map(|()| 0)
    })
}

/// Cancels a request and waits for its callback if that runs.
///
/// # Safety
///
/// Called by C with the structure that was given to `rdma_resolve_ip`, not from its callback.
#[export]
pub(crate) unsafe extern "C" fn rdma_addr_cancel(addr: *mut bindings::rdma_dev_addr) {
    // SAFETY: Promised by the caller.
    logic::cancel(Key::from(unsafe { DevAddr::from_raw(addr) }));
}

/// Takes another reference on a GID, unless there is none.
///
/// # Safety
///
/// `attr` is null or referenced by the caller.
unsafe fn hold(attr: *const bindings::ib_gid_attr) -> Option<ARef<GidAttr>> {
    // SAFETY: Promised by the caller.
    (!attr.is_null()).then(|| ARef::from(unsafe { GidAttr::from_raw(attr) }))
}

/// Checks that the route fits a RoCE path record.
///
/// # Safety
///
/// Called by C with a RoCE path record and a GID that is null or referenced.
#[export]
pub(crate) unsafe extern "C" fn roce_resolve_route_from_path(
    rec: *mut bindings::sa_path_rec,
    attr: *const bindings::ib_gid_attr,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (path, attr) = unsafe { (RocePath::from_raw(rec), hold(attr)) };
    from_result(|| logic::resolve_route(path, attr).map(|()| 0))
}

/// Finds MAC address and hop limit for a far end on Ethernet.
///
/// # Safety
///
/// Called by C with GIDs that are valid for reads, results that are valid for writes (the MAC
/// address for six bytes), and a GID reference.
#[export]
pub(crate) unsafe extern "C" fn rdma_addr_find_l2_eth_by_grh(
    sgid: *const bindings::ib_gid,
    dgid: *const bindings::ib_gid,
    dmac: *mut c_uchar,
    sgid_attr: *const bindings::ib_gid_attr,
    hoplimit: *mut c_int,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (sgid, dgid, attr) = unsafe { (Gid::read(sgid), Gid::read(dgid), hold(sgid_attr)) };
    from_result(|| {
        let l2 = logic::find_l2(sgid, dgid, attr.ok_or(EINVAL)?)?;
        // SAFETY: Promised by the caller.
        unsafe {
            dmac.cast::<[u8; 6]>().write_unaligned(l2.mac);
            hoplimit.write(l2.hop_limit);
        }
        Ok(0)
    })
}

/// Takes user space's answer to the question for a GID.
///
/// # Safety
///
/// Called by the netlink core with a message that is being received.
#[export]
pub(crate) unsafe extern "C" fn ib_nl_handle_ip_res_resp(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    let (Some(skb), Some(nlh)) = (NonNull::new(skb), NonNull::new(nlh)) else {
        return EINVAL.to_errno();
    };
    // SAFETY: Promised by the caller.
    let request = unsafe { Request::from_raw(skb, nlh, extack) };
    from_result(|| logic::handle_response(&request).map(|()| 0))
}

/// Starts the service.
///
/// # Safety
///
/// Called while the module loads.
#[export]
pub(crate) unsafe extern "C" fn addr_init() -> c_int {
    from_result(|| logic::init().map(|()| 0))
}

/// Ends the service.
///
/// # Safety
///
/// Called while the module is unloaded, or when loading fails after `addr_init`.
#[export]
pub(crate) unsafe extern "C" fn addr_cleanup() {
    logic::cleanup();
}
