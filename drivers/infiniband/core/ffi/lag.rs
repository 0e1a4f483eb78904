// SPDX-License-Identifier: GPL-2.0

//! C entry points of [`crate::lag`].

use crate::lag;
use kernel::{
    bindings,
    prelude::*,
    sync::aref::ARef, //
};
use rdma::{
    ah::AhAttr,
    device::Device,
    gfp::Gfp,
    net::NetDevice, //
};

/// The slave for the packets of an address vector, with a reference; null if there is no choice, or
/// an error pointer.
///
/// # Safety
///
/// Called by the verbs that make address handles and modify queue pairs: the device is registered,
/// and the vector holds its source GID.
#[export]
pub(crate) unsafe extern "C" fn rdma_lag_get_ah_roce_slave(
    device: *mut bindings::ib_device,
    ah_attr: *mut bindings::rdma_ah_attr,
    flags: bindings::gfp_t,
) -> *mut bindings::net_device {
    // SAFETY: By the caller.
    let (device, attr) = unsafe { (Device::from_raw(device), AhAttr::from_raw_const(ah_attr)) };

    match lag::xmit_slave(device, attr, Gfp::from_c(flags)) {
        Ok(Some(slave)) => ARef::into_raw(slave).as_ptr().cast(),
        Ok(None) => core::ptr::null_mut(),
        Err(e) => e.to_ptr(),
    }
}

/// Gives a slave back.
///
/// # Safety
///
/// `xmit_slave` is null or comes from [`rdma_lag_get_ah_roce_slave`], and is given back once.
#[export]
pub(crate) unsafe extern "C" fn rdma_lag_put_ah_roce_slave(xmit_slave: *mut bindings::net_device) {
    // SAFETY: By the caller, who gives the reference away.
    drop(unsafe { NetDevice::from_raw_owned(xmit_slave) });
}
