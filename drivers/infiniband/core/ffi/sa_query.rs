// SPDX-License-Identifier: GPL-2.0

//! Queries to the subnet administration; prototypes in `rdma/ib_sa.h`, `sa.h` and `core_priv.h`.

use crate::sa_query::{
    self as logic,
    Query,
    Terms, //
};
use core::{
    cell::Cell,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    prelude::*, //
};
use rdma::{
    ah::AhAttr,
    device::Device,
    gfp::Gfp,
    gid::GidAttr,
    netlink::Request,
    sa::{
        path::{
            Form,
            RoceRoute,
            PATH, //
        },
        record::SERVICE,
        Client,
        Components,
        GuidInfo,
        ListHandler,
        Member,
        PathRecord,
        RecordHandler,
        Service, //
    },
};

/// Makes a client usable.
///
/// # Safety
///
/// Called by C with memory that stays valid until [`ib_sa_unregister_client`] has returned.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_register_client(client: *mut bindings::ib_sa_client) {
    // SAFETY: Promised by the caller.
    unsafe { Client::begin(client) };
}

/// Waits until nothing belongs to a client any more.
///
/// # Safety
///
/// Called by C once with a client that is registered.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_unregister_client(client: *mut bindings::ib_sa_client) {
    // SAFETY: Promised by the caller.
    unsafe { Client::from_raw(client) }.finish();
}

/// Cancels a query, unless it is over.
///
/// # Safety
///
/// None: `query` is compared only.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_cancel_query(id: c_int, query: *mut bindings::ib_sa_query) {
    if let Ok(id) = u32::try_from(id) {
        logic::cancel(id, |this| ptr::eq(this, query.cast_const().cast()));
    }
}

/// Starts a query of `client` at a port, `how` it is asked being the components of the record, the
/// time to wait in milliseconds and the way to allocate. The query's address goes to `out` before
/// its asker is told of anything; null goes there if it could not be started after all.
///
/// # Safety
///
/// `out` is valid for writes.
unsafe fn started(
    out: *mut *mut bindings::ib_sa_query,
    client: &Client,
    (device, port): (&Device, u32),
    (components, timeout_ms, gfp): (bindings::ib_sa_comp_mask, c_ulong, bindings::gfp_t),
    start: impl FnOnce(&Terms<'_>) -> Result<u32>,
) -> c_int {
    let announced = Cell::new(false);
    let announce = |query: &Query| {
        announced.set(true);
        // SAFETY: By the contract of this function.
        unsafe { out.write(ptr::from_ref(query).cast_mut().cast()) };
    };
    let terms = Terms {
        client,
        device,
        port,
        components: Components::from_raw(components),
        timeout_ms,
        gfp: Gfp::from_c(gfp),
        announce: &announce,
    };
    from_result(|| {
        start(&terms)
            .and_then(|id| Ok(c_int::try_from(id)?))
            .inspect_err(|_| {
                if announced.get() {
                    // SAFETY: By the contract of this function.
                    unsafe { out.write(ptr::null_mut()) };
                }
            })
    })
}

/// Asks for a path.
///
/// # Safety
///
/// Called by C with a registered client and device, a record that is valid during the call, a
/// handler that may be called once with `context`, and a place for the query.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_path_rec_get(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_path_rec,
    comp_mask: bindings::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: Option<
        unsafe extern "C" fn(
            status: c_int,
            resp: *mut bindings::sa_path_rec,
            num_prs: c_uint,
            context: *mut c_void,
        ),
    >,
    context: *mut c_void,
    query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        let record = PathRecord::read(rec);
        let handler = callback.map(|call| ListHandler::new(call, context));
        let client = Client::from_raw(client);
        let port = (Device::from_raw(device), port_num);
        let how = (comp_mask, timeout_ms, gfp_mask);
        started(query, client, port, how, |terms| {
            logic::path(terms, &record, handler)
        })
    }
}

/// Asks for services.
///
/// # Safety
///
/// As for [`ib_sa_path_rec_get`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_service_rec_get(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_service_rec,
    comp_mask: bindings::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: Option<
        unsafe extern "C" fn(
            status: c_int,
            resp: *mut bindings::sa_service_rec,
            num_services: c_uint,
            context: *mut c_void,
        ),
    >,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        let record = Service::read(rec);
        let handler = callback.map(|call| ListHandler::new(call, context));
        let client = Client::from_raw(client);
        let port = (Device::from_raw(device), port_num);
        let how = (comp_mask, timeout_ms, gfp_mask);
        started(sa_query, client, port, how, |terms| {
            logic::services(terms, &record, handler)
        })
    }
}

/// Sets, reads or deletes a member of a multicast group.
///
/// # Safety
///
/// As for [`ib_sa_path_rec_get`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_mcmember_rec_query(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    method: u8,
    rec: *mut bindings::ib_sa_mcmember_rec,
    comp_mask: bindings::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: Option<
        unsafe extern "C" fn(
            status: c_int,
            resp: *mut bindings::ib_sa_mcmember_rec,
            context: *mut c_void,
        ),
    >,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        let record = Member::read(rec);
        let handler = callback.map(|call| RecordHandler::new(call, context));
        let client = Client::from_raw(client);
        let port = (Device::from_raw(device), port_num);
        let how = (comp_mask, timeout_ms, gfp_mask);
        started(sa_query, client, port, how, |terms| {
            logic::member(terms, method, &record, handler)
        })
    }
}

/// Sets, reads or deletes GUIDs of a port.
///
/// # Safety
///
/// As for [`ib_sa_path_rec_get`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_guid_info_rec_query(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_guidinfo_rec,
    comp_mask: bindings::ib_sa_comp_mask,
    method: u8,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: Option<
        unsafe extern "C" fn(
            status: c_int,
            resp: *mut bindings::ib_sa_guidinfo_rec,
            context: *mut c_void,
        ),
    >,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        let record = GuidInfo::read(rec);
        let handler = callback.map(|call| RecordHandler::new(call, context));
        let client = Client::from_raw(client);
        let port = (Device::from_raw(device), port_num);
        let how = (comp_mask, timeout_ms, gfp_mask);
        started(sa_query, client, port, how, |terms| {
            logic::guid_info(terms, method, &record, handler)
        })
    }
}

/// Fills in an address vector that leads along a path. Sleeps if the path is of RoCE.
///
/// # Safety
///
/// Called by C with a registered device, a record that nobody else uses, memory for the vector,
/// and a source GID that is null or referenced.
#[export]
pub(crate) unsafe extern "C" fn ib_init_ah_attr_from_path(
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_path_rec,
    ah_attr: *mut bindings::rdma_ah_attr,
    sgid_attr: *const bindings::ib_gid_attr,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (device, path, vector, sgid) = unsafe {
        (
            Device::from_raw(device),
            PathRecord::read(rec),
            AhAttr::init_raw(ah_attr),
            (!sgid_attr.is_null()).then(|| GidAttr::from_raw(sgid_attr)),
        )
    };
    let roce = matches!(path.form(), Form::Roce(_)).then(|| {
        // SAFETY: Promised by the caller; the form was looked at.
        unsafe { RoceRoute::from_raw(rec) }
    });
    from_result(|| logic::init_ah_attr(vector, device, port_num, &path, roce, sgid).map(|()| 0))
}

/// Packs a path record.
///
/// # Safety
///
/// Called by C with a valid record, and memory for it as it is on the wire.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_pack_path(
    rec: *mut bindings::sa_path_rec,
    attribute: *mut c_void,
) {
    // SAFETY: Promised by the caller.
    let wire = unsafe { core::slice::from_raw_parts_mut(attribute.cast(), PATH.bytes()) };
    // SAFETY: Promised by the caller. There is room.
    let _ = unsafe { PATH.pack(rec, wire) };
}

/// Unpacks a path record; members that it does not have on the wire stay as they are.
///
/// # Safety
///
/// Called by C with a record as it is on the wire, and memory for it.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_unpack_path(
    attribute: *mut c_void,
    rec: *mut bindings::sa_path_rec,
) {
    // SAFETY: Promised by the caller.
    let wire = unsafe { core::slice::from_raw_parts(attribute.cast(), PATH.bytes()) };
    // SAFETY: Promised by the caller. The record is whole.
    let _ = unsafe { PATH.unpack(wire, rec) };
}

/// Packs a service record.
///
/// # Safety
///
/// As for [`ib_sa_pack_path`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_pack_service(
    rec: *mut bindings::sa_service_rec,
    attribute: *mut c_void,
) {
    // SAFETY: Promised by the caller.
    let wire = unsafe { core::slice::from_raw_parts_mut(attribute.cast(), SERVICE.bytes()) };
    // SAFETY: Promised by the caller. There is room.
    let _ = unsafe { SERVICE.pack(rec, wire) };
}

/// Unpacks a service record.
///
/// # Safety
///
/// As for [`ib_sa_unpack_path`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_unpack_service(
    attribute: *mut c_void,
    rec: *mut bindings::sa_service_rec,
) {
    // SAFETY: Promised by the caller.
    let wire = unsafe { core::slice::from_raw_parts(attribute.cast(), SERVICE.bytes()) };
    // SAFETY: Promised by the caller. The record is whole.
    let _ = unsafe { SERVICE.unpack(wire, rec) };
}

/// Wraps a message that is being received.
///
/// # Safety
///
/// Called by the handlers below with their arguments.
unsafe fn request<'a>(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> Result<Request<'a>> {
    let skb = NonNull::new(skb).ok_or(EINVAL)?;
    let nlh = NonNull::new(nlh).ok_or(EINVAL)?;
    // SAFETY: They are those of a message that is being received.
    Ok(unsafe { Request::from_raw(skb, nlh, extack) })
}

/// Takes user space's answer to the question for a path.
///
/// # Safety
///
/// Called by the netlink core with a message that is being received.
#[export]
pub(crate) unsafe extern "C" fn ib_nl_handle_resolve_resp(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: Promised by the caller.
    from_result(|| logic::handle_answer(&unsafe { request(skb, nlh, extack) }?).map(|()| 0))
}

/// Changes how long user space may take to answer.
///
/// # Safety
///
/// As for [`ib_nl_handle_resolve_resp`].
#[export]
pub(crate) unsafe extern "C" fn ib_nl_handle_set_timeout(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: Promised by the caller.
    from_result(|| logic::handle_set_timeout(&unsafe { request(skb, nlh, extack) }?).map(|()| 0))
}

/// Starts subnet administration, and multicast with it.
///
/// # Safety
///
/// Called while the module loads.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_init() -> c_int {
    from_result(|| {
        logic::init()?;
        // SAFETY: The module loads, and the part that multicast needs is there.
        to_result(unsafe { bindings::mcast_init() }).inspect_err(|_| {
            pr_err!("Couldn't initialize multicast handling\n");
            logic::cleanup();
        })?;
        Ok(0)
    })
}

/// Ends multicast and subnet administration.
///
/// # Safety
///
/// Called while the module is unloaded, or when loading fails after [`ib_sa_init`].
#[export]
pub(crate) unsafe extern "C" fn ib_sa_cleanup() {
    // SAFETY: It was started by `ib_sa_init`.
    unsafe { bindings::mcast_cleanup() };
    logic::cleanup();
}
