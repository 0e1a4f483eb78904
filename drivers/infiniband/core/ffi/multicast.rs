// SPDX-License-Identifier: GPL-2.0

//! Multicast groups of InfiniBand ports; prototypes in `rdma/ib_sa.h` and `sa.h`.

use crate::multicast::{
    self as logic,
    Membership, //
};
use core::mem::ManuallyDrop;
use kernel::{
    bindings,
    error::from_result,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ah::AhAttr,
    device::Device,
    gfp::Gfp,
    gid::{
        Gid,
        GidType, //
    },
    net::NetDevice,
    sa::{
        multicast::{
            RawHandler,
            Ticket, //
        },
        Client,
        Components,
        Member, //
    },
};

/// Joins a group.
///
/// # Safety
///
/// Called by C with a registered client and device, a record that is valid during the call, and a
/// handler that may be called, one call after the other, until the result is given up.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_join_multicast(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_mcmember_rec,
    comp_mask: bindings::ib_sa_comp_mask,
    gfp_mask: bindings::gfp_t,
    callback: Option<RawHandler>,
    context: *mut c_void,
) -> *mut bindings::ib_sa_multicast {
    let Some(callback) = callback else {
        return EINVAL.to_ptr();
    };
    let components = Components::from_raw(comp_mask);
    // SAFETY: Promised by the caller.
    let (client, device, record, ticket) = unsafe {
        let record = Member::read(rec);
        let ticket = Ticket::new(&record, components, callback, context);
        (
            Client::from_raw(client),
            Device::from_raw(device),
            record,
            ticket,
        )
    };
    let gfp = Gfp::from_c(gfp_mask);
    match logic::join(client, device, port_num, &record, components, ticket, gfp) {
        // The ticket is the first member.
        Ok(membership) => Arc::as_ptr(&membership).cast_mut().cast(),
        Err(error) => error.to_ptr(),
    }
}

/// Gives a membership up, and waits until its handler is not running.
///
/// # Safety
///
/// Called by C once with the result of [`ib_sa_join_multicast`], which its handler has not given
/// up, and not from the handler.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_free_multicast(multicast: *mut bindings::ib_sa_multicast) {
    // SAFETY: By the contract the pointer is the first member of a membership that is kept until
    // it is given up below. The count is not dropped here.
    let membership = unsafe { Arc::from_raw(multicast.cast_const().cast::<Membership>()) };
    let membership = ManuallyDrop::new(membership);
    logic::give_up(Arc::clone(&membership));
}

/// Looks up the record of a group.
///
/// # Safety
///
/// Called by C with a registered device, a GID, and memory for the record.
#[export]
pub(crate) unsafe extern "C" fn ib_sa_get_mcmember_rec(
    device: *mut bindings::ib_device,
    port_num: u32,
    mgid: *mut bindings::ib_gid,
    rec: *mut bindings::ib_sa_mcmember_rec,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (device, mgid) = unsafe { (Device::from_raw(device), Gid::read(mgid)) };
    from_result(|| {
        let record = logic::record(device, port_num, &mgid)?;
        // SAFETY: Promised by the caller.
        unsafe { rec.write(*record.raw()) };
        Ok(0)
    })
}

/// Fills in an address vector that leads to a group.
///
/// # Safety
///
/// Called by C with a registered device, a record, a network device that is null or held, and
/// memory for the vector.
#[export]
pub(crate) unsafe extern "C" fn ib_init_ah_from_mcmember(
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_mcmember_rec,
    ndev: *mut bindings::net_device,
    gid_type: bindings::ib_gid_type,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: Promised by the caller.
    let (device, record, netdev, vector) = unsafe {
        (
            Device::from_raw(device),
            Member::read(rec),
            (!ndev.is_null()).then(|| NetDevice::from_raw(ndev)),
            AhAttr::init_raw(ah_attr),
        )
    };
    from_result(|| {
        // No port has a GID of a type that there is not.
        let gid_type = GidType::from_raw(gid_type).ok_or(ENOENT)?;
        logic::init_ah_attr(vector, device, port_num, &record, netdev, gid_type).map(|()| 0)
    })
}

/// Starts multicast.
///
/// # Safety
///
/// Called while the module loads, after subnet administration was started.
#[export]
pub(crate) unsafe extern "C" fn mcast_init() -> c_int {
    from_result(|| logic::init().map(|()| 0))
}

/// Ends multicast.
///
/// # Safety
///
/// Called while the module is unloaded, or when loading fails after [`mcast_init`].
#[export]
pub(crate) unsafe extern "C" fn mcast_cleanup() {
    logic::cleanup();
}
