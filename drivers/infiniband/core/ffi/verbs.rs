// SPDX-License-Identifier: GPL-2.0

//! Verbs for the C side; prototypes in `rdma/ib_verbs.h` and `core_priv.h`.

use crate::verbs::{
    ah::{self, NetworkType},
    cq, drain, event_str, mcast, mr, node, pd, port, qp_create, qp_modify, qp_state, rate, srq, wq,
    xrcd,
};
use kernel::{bindings, error::from_result, prelude::*};
use rdma::{
    ah::{AhAttr, Route, Sleepable},
    async_event::{EventHandler, RawHandler},
    cq::{CompletionHandler, Cq},
    device::Device,
    gid::{Gid, GidAttr},
    hw_stats::{HwStats, StatDescs},
    mr::{Access, Mr, MrKind, PageSetter, SgList, SgeList},
    net::NetDevice,
    network_header::{HeaderVersion, NetworkHeader},
    object::{DriverObject, Object, Owner},
    pd::{Pd, PdFlags},
    qp::{AttrMask, Qp, QpAttr, QpInitAttr, QpOpenAttr, UserQp},
    rate::SpeedInfo,
    rdma_netdev::{Params, Template},
    srq::{Srq, SrqInitAttr, UserSrq},
    udata::{AttrBundle, Udata},
    vf::VirtualFunctions,
    warn_once,
    wc::Wc,
    wq::{Wq, WqInitAttr},
    xrcd::{Inode, Xrcd},
};

/// Zero or the negative error number.
fn errno(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// A count or the negative error number.
fn count_or_errno(result: Result<u32>) -> c_int {
    from_result(|| Ok(c_int::try_from(result?)?))
}

/// A new object or an error pointer.
fn object_or_err<T: DriverObject>(result: Result<Object<T>>) -> *mut T::Raw {
    result.map_or_else(|e| e.to_ptr(), Object::into_raw)
}

/// A region of the driver or an error pointer.
fn mr_or_err(result: Result<&Mr>) -> *mut bindings::ib_mr {
    result.map_or_else(|e| e.to_ptr(), Mr::as_raw)
}

/// The owner that a kernel consumer names; the current task without a name.
///
/// # Safety
///
/// `name` must be null or the name of a module, a constant of its image.
unsafe fn module_owner(name: *const c_char) -> Owner<'static> {
    if name.is_null() {
        return Owner::CurrentTask;
    }
    // SAFETY: By the contract of this function.
    Owner::Module(unsafe { CStr::from_char_ptr(name) })
}

/// Reads the network header of a datagram if its completion says that there is one.
///
/// # Safety
///
/// `grh` must point to 40 bytes in that case.
unsafe fn header_of(wc: &Wc, grh: *const bindings::ib_grh) -> Option<NetworkHeader> {
    // SAFETY: By the contract of this function.
    (wc.has_grh() && !grh.is_null()).then(|| unsafe { NetworkHeader::read(grh.cast()) })
}

// The state table has codes of its own, so that it can be tested on a build host.
const _: () = {
    assert!(qp_state::State::Err as u32 == bindings::ib_qp_state_IB_QPS_ERR);
    assert!(qp_state::State::Rtr as u32 == bindings::ib_qp_state_IB_QPS_RTR);
};

/// The text of an asynchronous event.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_event_msg(event: bindings::ib_event_type) -> *const c_char {
    event_str::event(event).as_char_ptr()
}

/// The text of a completion status.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_wc_status_msg(status: bindings::ib_wc_status) -> *const c_char {
    event_str::wc_status(status).as_char_ptr()
}

/// A static rate as a multiple of 2.5 Gb/s, -1 for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_rate_to_mult(rate: bindings::ib_rate) -> c_int {
    rate::to_mult(rate).unwrap_or(-1)
}

/// The static rate of a multiple of 2.5 Gb/s, `IB_RATE_PORT_CURRENT` for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn mult_to_ib_rate(mult: c_int) -> bindings::ib_rate {
    rate::from_mult(mult)
}

/// A static rate in megabits per second, -1 for an unknown one.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_rate_to_mbps(rate: bindings::ib_rate) -> c_int {
    rate::to_mbps(rate).unwrap_or(-1)
}

/// Name and rate of a port's link. `EINVAL` for an unknown width.
///
/// # Safety
///
/// `attr` and `speed_info` must be valid; sysfs and drivers pass their own.
#[export]
pub(crate) unsafe extern "C" fn ib_port_attr_to_speed_info(
    attr: *mut bindings::ib_port_attr,
    speed_info: *mut bindings::ib_port_speed_info,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (attr, info) = unsafe { (&*attr, SpeedInfo::from_raw(speed_info)) };
    let rate = port::rate(attr.active_speed, attr.active_width);
    info.set(port::speed_name(attr.active_speed), rate.unwrap_or(-1));
    errno(rate.map(|_| ()).ok_or(EINVAL))
}

/// The transport of a kind of node.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn rdma_node_get_transport(
    node_type: c_uint,
) -> bindings::rdma_transport_type {
    node::Transport::of_node(node_type).as_raw()
}

/// The link layer of a port.
///
/// # Safety
///
/// `device` must be a device whose operations are set.
#[export]
pub(crate) unsafe extern "C" fn rdma_port_get_link_layer(
    device: *mut bindings::ib_device,
    port_num: u32,
) -> bindings::rdma_link_layer {
    // SAFETY: By the contract of this function.
    node::link_layer(unsafe { Device::from_raw(device) }, port_num)
}

/// Allocates a protection domain for a kernel module; called through `ib_alloc_pd()`.
///
/// # Safety
///
/// `device` must be registered, or known to the caller by a client callback; `caller` must be the
/// name of a module.
#[export]
pub(crate) unsafe extern "C" fn __ib_alloc_pd(
    device: *mut bindings::ib_device,
    flags: c_uint,
    caller: *const c_char,
) -> *mut bindings::ib_pd {
    // SAFETY: By the contract of this function.
    let (device, caller) = unsafe { (Device::from_raw(device), CStr::from_char_ptr(caller)) };
    object_or_err(pd::alloc(device, PdFlags::from_bits(flags), caller))
}

/// Gives a protection domain back; called by uverbs and through `ib_dealloc_pd()`.
///
/// # Safety
///
/// `pd` must be live and the caller's; `udata` must be null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dealloc_pd_user(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (pd, udata) = unsafe { (Object::<Pd>::from_raw(pd), Udata::from_raw_or_null(udata)) };
    errno(pd::dealloc(pd, udata))
}

/// Copies an address vector over memory that holds none.
///
/// # Safety
///
/// `dest` must be writable, `src` a valid vector; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_copy_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    unsafe { AhAttr::from_raw_const(src).duplicate().write_to(dest) };
}

/// Replaces an address vector by a copy of another one.
///
/// # Safety
///
/// `old` must be a valid or zeroed vector, `new` a valid one; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_replace_ah_attr(
    old: *mut bindings::rdma_ah_attr,
    new: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    let (copy, old) = unsafe {
        (
            AhAttr::from_raw_const(new).duplicate(),
            AhAttr::from_raw(old),
        )
    };
    *old = copy;
}

/// Replaces an address vector by another one, which loses its source GID.
///
/// # Safety
///
/// `dest` must be a valid or zeroed vector, `src` a valid one; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_move_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *mut bindings::rdma_ah_attr,
) {
    // SAFETY: By the contract of this function.
    let moved = unsafe { AhAttr::from_raw(src) }.take();
    // SAFETY: As above.
    *unsafe { AhAttr::from_raw(dest) } = moved;
}

/// Creates an address handle for a kernel module.
///
/// # Safety
///
/// `pd` must be live, `ah_attr` a valid vector that the caller has for itself. The caller may be
/// atomic unless `flags` says that it may sleep.
#[export]
pub(crate) unsafe extern "C" fn rdma_create_ah(
    pd: *mut bindings::ib_pd,
    ah_attr: *mut bindings::rdma_ah_attr,
    flags: u32,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), AhAttr::from_raw(ah_attr)) };
    object_or_err(ah::create(pd, attr, Sleepable::from_flags(flags)))
}

/// Creates an address handle for user space.
///
/// # Safety
///
/// `pd` must be live, `ah_attr` a valid vector that the caller, uverbs, has for itself, `udata`
/// null or valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_create_user_ah(
    pd: *mut bindings::ib_pd,
    ah_attr: *mut bindings::rdma_ah_attr,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), AhAttr::from_raw(ah_attr)) };
    // SAFETY: As above.
    object_or_err(ah::create_user(pd, attr, unsafe {
        Udata::from_raw_or_null(udata)
    }))
}

/// 4 or 6 by what precedes a datagram's payload, 0 for neither.
///
/// # Safety
///
/// `hdr` must point to 40 bytes.
#[export]
pub(crate) unsafe extern "C" fn ib_get_rdma_header_version(
    hdr: *const bindings::rdma_network_hdr,
) -> c_int {
    // SAFETY: By the contract of this function.
    match unsafe { NetworkHeader::read(hdr) }.version() {
        HeaderVersion::V4 => 4,
        HeaderVersion::V6 => 6,
        HeaderVersion::Unknown => 0,
    }
}

/// Source and destination GID of a datagram. `EINVAL` for an unknown type.
///
/// # Safety
///
/// `hdr` must point to 40 bytes, `sgid` and `dgid` must be null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_gids_from_rdma_hdr(
    hdr: *const bindings::rdma_network_hdr,
    net_type: bindings::rdma_network_type,
    sgid: *mut bindings::ib_gid,
    dgid: *mut bindings::ib_gid,
) -> c_int {
    let Some(net_type) = NetworkType::from_raw(net_type) else {
        return EINVAL.to_errno();
    };
    if sgid.is_null() || dgid.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By the contract of this function.
    let (source, destination) = net_type.gids(&unsafe { NetworkHeader::read(hdr) });
    // SAFETY: As above, and not null.
    unsafe {
        sgid.write(*source.as_raw());
        dgid.write(*destination.as_raw());
    }
    0
}

/// Fills an address vector with the way back to the sender of a datagram; the caller has to
/// call `rdma_destroy_ah_attr()` after success.
///
/// # Safety
///
/// `device` must be valid, `wc` a completion, `grh` 40 bytes if the completion says so, `ah_attr`
/// writable. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_init_ah_attr_from_wc(
    device: *mut bindings::ib_device,
    port_num: u32,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, wc) = unsafe { (Device::from_raw(device), Wc::from_raw(wc)) };
    // SAFETY: As above.
    let (header, attr) = unsafe { (header_of(wc, grh), AhAttr::init_raw(ah_attr)) };
    errno(ah::init_from_wc(device, port_num, wc, header, attr))
}

/// Writes a global route to an address vector, which takes the reference to the source GID over.
///
/// # Safety
///
/// `attr` must be a vector that the caller has for itself, `dgid` null or valid, `sgid_attr` a
/// reference that the caller gives away.
#[export]
pub(crate) unsafe extern "C" fn rdma_move_grh_sgid_attr(
    attr: *mut bindings::rdma_ah_attr,
    dgid: *mut bindings::ib_gid,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    sgid_attr: *const bindings::ib_gid_attr,
) {
    let Some(sgid) = core::ptr::NonNull::new(sgid_attr.cast_mut()) else {
        return;
    };
    // SAFETY: By the contract of this function.
    let (attr, sgid) = unsafe { (AhAttr::from_raw(attr), GidAttr::from_raw_owned(sgid)) };
    // SAFETY: As above.
    let dgid = (!dgid.is_null()).then(|| unsafe { Gid::read(dgid) });
    let route = Route {
        dgid,
        flow_label,
        hop_limit,
        traffic_class,
    };
    attr.set_route(&route, sgid);
}

/// Gives up the source GID of an address vector, if there is one.
///
/// # Safety
///
/// `ah_attr` must be a valid or zeroed vector that the caller has for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_attr(ah_attr: *mut bindings::rdma_ah_attr) {
    // SAFETY: By the contract of this function.
    drop(unsafe { AhAttr::from_raw(ah_attr) }.replace_sgid(None));
}

/// Creates an address handle by which the sender of a datagram is answered.
///
/// # Safety
///
/// `pd` must be live, `wc` a completion, `grh` 40 bytes if the completion says so. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_create_ah_from_wc(
    pd: *mut bindings::ib_pd,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    port_num: u32,
) -> *mut bindings::ib_ah {
    // SAFETY: By the contract of this function.
    let (pd, wc) = unsafe { (Pd::from_raw(pd), Wc::from_raw(wc)) };
    // SAFETY: As above.
    let header = unsafe { header_of(wc, grh) };
    object_or_err(ah::create_from_wc(pd, port_num, wc, header))
}

/// Changes the address of a handle.
///
/// # Safety
///
/// `ah` must be live, `ah_attr` a valid vector; the caller has both for itself.
#[export]
pub(crate) unsafe extern "C" fn rdma_modify_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (ah, attr) = unsafe { (rdma::ah::Ah::from_raw(ah), AhAttr::from_raw(ah_attr)) };
    errno(ah::modify(ah, attr))
}

/// Asks for the address of a handle.
///
/// # Safety
///
/// `ah` must be live, `ah_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn rdma_query_ah(
    ah: *mut bindings::ib_ah,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (ah, attr) = unsafe { (rdma::ah::Ah::from_raw(ah), AhAttr::from_raw_output(ah_attr)) };
    errno(ah::query(ah, attr))
}

/// Destroys an address handle; called by uverbs and through `rdma_destroy_ah()`.
///
/// # Safety
///
/// `ah` must be live and the caller's. The caller may be atomic unless `flags` says that it may
/// sleep.
#[export]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_user(
    ah: *mut bindings::ib_ah,
    flags: u32,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let _ = udata;
    // SAFETY: By the contract of this function.
    let ah = unsafe { Object::<rdma::ah::Ah>::from_raw(ah) };
    errno(ah::destroy(ah, Sleepable::from_flags(flags)))
}

/// Creates a shared receive queue; called by uverbs and through `ib_create_srq()`.
///
/// # Safety
///
/// `pd` must be live, `srq_init_attr` valid and the objects that it names live, `uobject` and
/// `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_create_srq_user(
    pd: *mut bindings::ib_pd,
    srq_init_attr: *mut bindings::ib_srq_init_attr,
    uobject: *mut bindings::ib_usrq_object,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_srq {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), SrqInitAttr::from_raw(srq_init_attr)) };
    // SAFETY: As above.
    let user = (!uobject.is_null()).then(|| unsafe { UserSrq::from_raw(uobject) });
    // SAFETY: As above.
    object_or_err(srq::create(pd, attr, user, unsafe {
        Udata::from_raw_or_null(udata)
    }))
}

/// Resizes a shared receive queue or arms its limit.
///
/// # Safety
///
/// `srq` must be live, `srq_attr` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_srq(
    srq: *mut bindings::ib_srq,
    srq_attr: *mut bindings::ib_srq_attr,
    srq_attr_mask: bindings::ib_srq_attr_mask,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (srq, attr) = unsafe { (Srq::from_raw(srq), &mut *srq_attr) };
    errno(srq.driver_modify(attr, srq_attr_mask))
}

/// Asks for size and limit of a shared receive queue.
///
/// # Safety
///
/// `srq` must be live, `srq_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_query_srq(
    srq: *mut bindings::ib_srq,
    srq_attr: *mut bindings::ib_srq_attr,
) -> c_int {
    // SAFETY: By the contract of this function; the attributes are plain numbers.
    let (srq, attr) = unsafe { (Srq::from_raw(srq), &mut *srq_attr) };
    errno(srq.driver_query(attr))
}

/// Destroys a shared receive queue; called by uverbs and through `ib_destroy_srq()`.
///
/// # Safety
///
/// `srq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_srq_user(
    srq: *mut bindings::ib_srq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (srq, udata) = unsafe { (Object::<Srq>::from_raw(srq), Udata::from_raw_or_null(udata)) };
    errno(srq::destroy(srq, udata))
}

/// Makes one more handle on an XRC target.
///
/// # Safety
///
/// `xrcd` must be live, `qp_open_attr` valid and its handler callable as long as the handle exists.
#[export]
pub(crate) unsafe extern "C" fn ib_open_qp(
    xrcd: *mut bindings::ib_xrcd,
    qp_open_attr: *mut bindings::ib_qp_open_attr,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (xrcd, attr) = unsafe { (Xrcd::from_raw(xrcd), QpOpenAttr::from_raw(qp_open_attr)) };
    object_or_err(qp_create::open(xrcd, attr))
}

/// Creates a queue pair for user space; called by uverbs.
///
/// # Safety
///
/// `dev` must be valid, `pd`, `uattrs` and `uobj` null or valid, `attr` valid and the objects that
/// it names live, `caller` null or the name of a module.
#[export]
pub(crate) unsafe extern "C" fn ib_create_qp_user(
    dev: *mut bindings::ib_device,
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_qp_init_attr,
    uattrs: *mut bindings::uverbs_attr_bundle,
    uobj: *mut bindings::ib_uqp_object,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (device, attr) = unsafe { (Device::from_raw(dev), QpInitAttr::from_raw(attr)) };
    // SAFETY: As above.
    let pd = (!pd.is_null()).then(|| unsafe { Pd::from_raw(pd) });
    // SAFETY: As above.
    let bundle = (!uattrs.is_null()).then(|| unsafe { AttrBundle::from_raw(uattrs) });
    // SAFETY: As above.
    let user = (!uobj.is_null()).then(|| unsafe { UserQp::from_raw(uobj) });
    // SAFETY: As above.
    let module = unsafe { module_owner(caller) };
    object_or_err(qp_create::create_user(
        device, pd, attr, bundle, user, module,
    ))
}

/// Counts a queue pair as a user of all that it is built on; called by uverbs.
///
/// # Safety
///
/// `qp` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_inc(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    qp_create::keep_uses(unsafe { Qp::from_raw(qp) });
}

/// Reverses `ib_qp_usecnt_inc()`.
///
/// # Safety
///
/// `qp` must be live and counted.
#[export]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_dec(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    qp_create::give_up_uses(unsafe { Qp::from_raw(qp) });
}

/// Creates a queue pair for a kernel module; called through `ib_create_qp()`.
///
/// # Safety
///
/// `pd` must be live, `qp_init_attr` valid and the objects that it names live, `caller` the name
/// of a module.
#[export]
pub(crate) unsafe extern "C" fn ib_create_qp_kernel(
    pd: *mut bindings::ib_pd,
    qp_init_attr: *mut bindings::ib_qp_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), QpInitAttr::from_raw(qp_init_attr)) };
    if caller.is_null() {
        warn_once!("Missing kernel QP owner");
    }
    // SAFETY: As above.
    object_or_err(qp_create::create_kernel(pd, attr, unsafe {
        module_owner(caller)
    }))
}

/// Whether a transition exists and has the attributes that it needs; called by drivers.
///
/// # Safety
///
/// None; callable by anyone.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp_is_ok(
    cur_state: bindings::ib_qp_state,
    next_state: bindings::ib_qp_state,
    type_: bindings::ib_qp_type,
    mask: bindings::ib_qp_attr_mask,
) -> bool {
    qp_state::may_modify(cur_state, next_state, type_, qp_state::Attrs(mask))
}

/// Changes attributes of a queue pair for user space; called by uverbs.
///
/// # Safety
///
/// `qp` must be live, `attr` valid, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp_with_udata(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    attr_mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr) = unsafe { (Qp::from_raw(qp), QpAttr::from_raw(attr)) };
    // SAFETY: As above.
    let udata = unsafe { Udata::from_raw_or_null(udata) };
    errno(qp_modify::modify(
        qp,
        attr,
        AttrMask::from_bits(attr_mask),
        udata,
    ))
}

/// Width and speed of the Ethernet interface of a port, in InfiniBand terms; called by drivers.
///
/// # Safety
///
/// `dev` must be valid, `speed` and `width` writable. Process context, without the RTNL lock.
#[export]
pub(crate) unsafe extern "C" fn ib_get_eth_speed(
    dev: *mut bindings::ib_device,
    port_num: u32,
    speed: *mut u16,
    width: *mut u8,
) -> c_int {
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(dev) };
    errno(
        port::eth_speed(device, port_num).map(|(link_width, link_speed)| {
            // SAFETY: As above.
            unsafe {
                width.write(link_width.as_raw());
                speed.write(link_speed.as_raw());
            }
        }),
    )
}

/// Changes attributes of a queue pair for a kernel module.
///
/// # Safety
///
/// `qp` must be live, `qp_attr` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_modify_qp(
    qp: *mut bindings::ib_qp,
    qp_attr: *mut bindings::ib_qp_attr,
    qp_attr_mask: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr) = unsafe { (Qp::from_raw(qp), QpAttr::from_raw(qp_attr)) };
    errno(qp_modify::modify(
        qp,
        attr,
        AttrMask::from_bits(qp_attr_mask),
        None,
    ))
}

/// Asks for attributes of a queue pair.
///
/// # Safety
///
/// `qp` must be live, `qp_attr` and `qp_init_attr` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_query_qp(
    qp: *mut bindings::ib_qp,
    qp_attr: *mut bindings::ib_qp_attr,
    qp_attr_mask: c_int,
    qp_init_attr: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr, init) = unsafe {
        (
            Qp::from_raw(qp),
            QpAttr::from_raw_output(qp_attr),
            QpInitAttr::from_raw(qp_init_attr),
        )
    };
    errno(qp_modify::query(
        qp,
        attr,
        AttrMask::from_bits(qp_attr_mask),
        init,
    ))
}

/// Closes a handle on an XRC target.
///
/// # Safety
///
/// `qp` must be live and the caller's.
#[export]
pub(crate) unsafe extern "C" fn ib_close_qp(qp: *mut bindings::ib_qp) -> c_int {
    // SAFETY: By the contract of this function.
    errno(qp_create::close(unsafe { Object::from_raw(qp) }))
}

/// Destroys a queue pair; called by uverbs and through `ib_destroy_qp()`.
///
/// # Safety
///
/// `qp` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_qp_user(
    qp: *mut bindings::ib_qp,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, udata) = unsafe { (Object::<Qp>::from_raw(qp), Udata::from_raw_or_null(udata)) };
    errno(qp_create::destroy(qp, udata))
}

/// Creates a completion queue for a kernel module; called through `ib_create_cq()`.
///
/// # Safety
///
/// `device` must be valid, the handlers callable as long as the queue exists, `cq_attr` valid,
/// `caller` the name of a module.
#[export]
pub(crate) unsafe extern "C" fn __ib_create_cq(
    device: *mut bindings::ib_device,
    comp_handler: bindings::ib_comp_handler,
    event_handler: Option<RawHandler>,
    cq_context: *mut c_void,
    cq_attr: *const bindings::ib_cq_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    // SAFETY: By the contract of this function.
    let (device, attr) = unsafe { (Device::from_raw(device), &*cq_attr) };
    // SAFETY: As above.
    let completions = unsafe { CompletionHandler::from_raw(comp_handler) };
    // SAFETY: As above.
    let events = unsafe { EventHandler::from_raw(event_handler, cq_context) };
    // SAFETY: As above.
    let owner = unsafe { module_owner(caller) };
    object_or_err(cq::create(device, completions, events, attr, owner))
}

/// Sets how long notifications of a completion queue are held back.
///
/// # Safety
///
/// `cq` must be live.
#[export]
pub(crate) unsafe extern "C" fn rdma_set_cq_moderation(
    cq: *mut bindings::ib_cq,
    cq_count: u16,
    cq_period: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(cq::set_moderation(
        unsafe { Cq::from_raw(cq) },
        cq_count,
        cq_period,
    ))
}

/// Destroys a completion queue; called by uverbs and through `ib_destroy_cq()`.
///
/// # Safety
///
/// `cq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_cq_user(
    cq: *mut bindings::ib_cq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (cq, udata) = unsafe { (Object::<Cq>::from_raw(cq), Udata::from_raw_or_null(udata)) };
    errno(cq::destroy(cq, udata))
}

/// Registers memory of the current process for a kernel module.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_reg_user_mr(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    mr_access_flags: c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    let access = Access::from_bits(mr_access_flags);
    mr_or_err(mr::reg_user(pd, start, length, virt_addr, access))
}

/// Tells the driver how memory is going to be used.
///
/// # Safety
///
/// `pd` must be live, `sg_list` must have `num_sge` entries.
#[export]
pub(crate) unsafe extern "C" fn ib_advise_mr(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut bindings::ib_sge,
    num_sge: u32,
) -> c_int {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    // SAFETY: As above.
    let sges = (!sg_list.is_null()).then(|| unsafe { SgeList::from_raw(sg_list) });
    errno(mr::advise(pd, advice, flags, sges, num_sge))
}

/// Deregisters a memory region; called by uverbs and through `ib_dereg_mr()`.
///
/// # Safety
///
/// `mr` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dereg_mr_user(
    mr: *mut bindings::ib_mr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, udata) = unsafe { (Mr::from_raw(mr), Udata::from_raw_or_null(udata)) };
    errno(mr::dereg(mr, udata))
}

/// Allocates a region for fast registration.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_mr(
    pd: *mut bindings::ib_pd,
    mr_type: bindings::ib_mr_type,
    max_num_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    mr_or_err(mr::alloc(pd, MrKind::from_raw(mr_type), max_num_sg))
}

/// Allocates a region for data with protection information.
///
/// # Safety
///
/// `pd` must be live.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    max_num_data_sg: u32,
    max_num_meta_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By the contract of this function.
    let pd = unsafe { Pd::from_raw(pd) };
    mr_or_err(mr::alloc_integrity(pd, max_num_data_sg, max_num_meta_sg))
}

/// Lets a queue pair receive what is sent to a multicast group.
///
/// # Safety
///
/// `qp` must be live, `gid` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_attach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, gid) = unsafe { (Qp::from_raw(qp), Gid::read(gid)) };
    errno(mcast::attach(qp, gid, lid))
}

/// Ends what `ib_attach_mcast()` began.
///
/// # Safety
///
/// `qp` must be live, `gid` valid.
#[export]
pub(crate) unsafe extern "C" fn ib_detach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, gid) = unsafe { (Qp::from_raw(qp), Gid::read(gid)) };
    errno(mcast::detach(qp, gid, lid))
}

/// Allocates an XRC domain; called by uverbs.
///
/// # Safety
///
/// `device` must be valid, `inode` and `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_alloc_xrcd_user(
    device: *mut bindings::ib_device,
    inode: *mut bindings::inode,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_xrcd {
    // SAFETY: By the contract of this function.
    let (device, udata) = unsafe { (Device::from_raw(device), Udata::from_raw_or_null(udata)) };
    // SAFETY: As above.
    let inode = (!inode.is_null()).then(|| unsafe { Inode::from_raw(inode) });
    object_or_err(xrcd::alloc(device, inode, udata))
}

/// Gives an XRC domain back; called by uverbs.
///
/// # Safety
///
/// `xrcd` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_dealloc_xrcd_user(
    xrcd: *mut bindings::ib_xrcd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (xrcd, udata) = unsafe {
        (
            Object::<Xrcd>::from_raw(xrcd),
            Udata::from_raw_or_null(udata),
        )
    };
    errno(xrcd::dealloc(xrcd, udata))
}

/// Creates a receive work queue for a kernel module.
///
/// # Safety
///
/// `pd` must be live, `init_attr` valid and its completion queue live.
#[export]
pub(crate) unsafe extern "C" fn ib_create_wq(
    pd: *mut bindings::ib_pd,
    init_attr: *mut bindings::ib_wq_init_attr,
) -> *mut bindings::ib_wq {
    // SAFETY: By the contract of this function.
    let (pd, attr) = unsafe { (Pd::from_raw(pd), WqInitAttr::from_raw(init_attr)) };
    wq::create(pd, attr).map_or_else(|e| e.to_ptr(), Wq::as_raw)
}

/// Destroys a receive work queue; called by uverbs.
///
/// # Safety
///
/// `wq` must be live and the caller's, `udata` null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_destroy_wq_user(
    wq: *mut bindings::ib_wq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (wq, udata) = unsafe { (Wq::from_raw(wq), Udata::from_raw_or_null(udata)) };
    errno(wq::destroy(wq, udata))
}

/// Asks the driver to check the protection information of a finished transfer.
///
/// # Safety
///
/// `mr` must be live, `mr_status` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_check_mr_status(
    mr: *mut bindings::ib_mr,
    check_mask: u32,
    mr_status: *mut bindings::ib_mr_status,
) -> c_int {
    // SAFETY: By the contract of this function; the status is plain numbers.
    let (mr, status) = unsafe { (Mr::from_raw(mr), &mut *mr_status) };
    errno(mr.driver_check_status(check_mask, status))
}

/// Sets the link state policy of a virtual function.
///
/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_set_vf_link_state(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    state: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(unsafe { Device::from_raw(device) }.set_vf_link_state(vf, port, state))
}

/// Reads the configuration of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `info` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_config(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    info: *mut bindings::ifla_vf_info,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, info) = unsafe { (Device::from_raw(device), &mut *info) };
    errno(device.vf_config(vf, port, info))
}

/// Reads the counters of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `stats` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_stats(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    stats: *mut bindings::ifla_vf_stats,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, stats) = unsafe { (Device::from_raw(device), &mut *stats) };
    errno(device.vf_stats(vf, port, stats))
}

/// Sets a GUID of a virtual function.
///
/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_set_vf_guid(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    guid: u64,
    type_: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    errno(unsafe { Device::from_raw(device) }.set_vf_guid(vf, port, guid, type_))
}

/// Reads the GUIDs of a virtual function.
///
/// # Safety
///
/// `device` must be valid, `node_guid` and `port_guid` writable.
#[export]
pub(crate) unsafe extern "C" fn ib_get_vf_guid(
    device: *mut bindings::ib_device,
    vf: c_int,
    port: u32,
    node_guid: *mut bindings::ifla_vf_guid,
    port_guid: *mut bindings::ifla_vf_guid,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (device, node, port_guid) =
        unsafe { (Device::from_raw(device), &mut *node_guid, &mut *port_guid) };
    errno(device.vf_guid(vf, port, node, port_guid))
}

/// Makes lists of data and of protection information the content of a region.
///
/// # Safety
///
/// `mr` must be live and not in use; the lists must have as many mapped entries as told, and the
/// offsets be null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_map_mr_sg_pi(
    mr: *mut bindings::ib_mr,
    data_sg: *mut bindings::scatterlist,
    data_sg_nents: c_int,
    data_sg_offset: *mut c_uint,
    meta_sg: *mut bindings::scatterlist,
    meta_sg_nents: c_int,
    meta_sg_offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, data, meta) = unsafe {
        (
            Mr::from_raw(mr),
            SgList::from_raw(data_sg, data_sg_nents, data_sg_offset),
            SgList::from_raw(meta_sg, meta_sg_nents, meta_sg_offset),
        )
    };
    count_or_errno(mr::map_integrity(mr, data, meta, page_size))
}

/// Makes the first entries of a list the content of a region; returns how many.
///
/// # Safety
///
/// `mr` must be live and not in use; `sg` must have `sg_nents` mapped entries, and `sg_offset` be
/// null or writable.
#[export]
pub(crate) unsafe extern "C" fn ib_map_mr_sg(
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    sg_nents: c_int,
    sg_offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, sg) = unsafe { (Mr::from_raw(mr), SgList::from_raw(sg, sg_nents, sg_offset)) };
    count_or_errno(mr::map(mr, sg, page_size))
}

/// Splits the first entries of a list into pages, which it gives to `set_page`; returns how many
/// entries. Called by drivers from their `map_mr_sg` operation.
///
/// # Safety
///
/// As for `ib_map_mr_sg()`; `set_page` must be callable with `mr`.
#[export]
pub(crate) unsafe extern "C" fn ib_sg_to_pages(
    mr: *mut bindings::ib_mr,
    sgl: *mut bindings::scatterlist,
    sg_nents: c_int,
    sg_offset: *mut c_uint,
    set_page: Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int>,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (mr, sg, setter) = unsafe {
        (
            Mr::from_raw(mr),
            SgList::from_raw(sgl, sg_nents, sg_offset),
            PageSetter::from_raw(set_page),
        )
    };
    count_or_errno(mr::map_pages(mr, sg, setter))
}

/// Waits until the send queue is empty.
///
/// # Safety
///
/// `qp` must be live, with queues of `ib_alloc_cq()`; nobody may post meanwhile. Process context.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_sq(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_sq(unsafe { Qp::from_raw(qp) });
}

/// Waits until the receive queue is empty.
///
/// # Safety
///
/// As for `ib_drain_sq()`.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_rq(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_rq(unsafe { Qp::from_raw(qp) });
}

/// Waits until both queues are empty.
///
/// # Safety
///
/// As for `ib_drain_sq()`.
#[export]
pub(crate) unsafe extern "C" fn ib_drain_qp(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    drain::drain_qp(unsafe { Qp::from_raw(qp) });
}

/// Allocates a network interface as the driver wants it; called by IPoIB.
///
/// # Safety
///
/// `device` must be valid, `name` a string, `setup` callable.
#[export]
pub(crate) unsafe extern "C" fn rdma_alloc_netdev(
    device: *mut bindings::ib_device,
    port_num: u32,
    type_: bindings::rdma_netdev_t,
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
) -> *mut bindings::net_device {
    // SAFETY: By the contract of this function.
    let (device, template) = unsafe {
        (
            Device::from_raw(device),
            Template::from_raw(name, name_assign_type, setup),
        )
    };
    Params::query(device, port_num, type_)
        .and_then(|params| params.alloc(template))
        .map_or_else(|e| e.to_ptr(), NetDevice::as_raw)
}

/// Lets the driver initialise a network interface; called by IPoIB.
///
/// # Safety
///
/// `device` and `netdev` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_init_netdev(
    device: *mut bindings::ib_device,
    port_num: u32,
    type_: bindings::rdma_netdev_t,
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
    netdev: *mut bindings::net_device,
) -> c_int {
    let _ = (name, name_assign_type, setup);
    // SAFETY: By the contract of this function.
    let (device, netdev) = unsafe { (Device::from_raw(device), NetDevice::from_raw(netdev)) };
    errno(
        Params::query(device, port_num, type_)
            .and_then(|params| params.init(device, port_num, netdev)),
    )
}

/// Allocates a set of hardware counters; null without memory. Called by drivers.
///
/// # Safety
///
/// `descs` must have `num_counters` elements and outlive the set.
#[export]
pub(crate) unsafe extern "C" fn rdma_alloc_hw_stats_struct(
    descs: *const bindings::rdma_stat_desc,
    num_counters: c_int,
    lifespan: c_ulong,
) -> *mut bindings::rdma_hw_stats {
    // SAFETY: By the contract of this function.
    let descs = unsafe { StatDescs::from_raw(descs, num_counters) };
    HwStats::new(descs, lifespan).map_or(core::ptr::null_mut(), HwStats::into_raw)
}

/// Frees a set of hardware counters.
///
/// # Safety
///
/// `stats` must be null or a set that the caller gives up.
#[export]
pub(crate) unsafe extern "C" fn rdma_free_hw_stats_struct(stats: *mut bindings::rdma_hw_stats) {
    // SAFETY: By the contract of this function.
    drop(unsafe { HwStats::from_raw(stats) });
}
