// SPDX-License-Identifier: GPL-2.0

//! Network interfaces that an RDMA driver offers (IPoIB offload, OPA VNIC).

use crate::{device::Device, net::NetDevice, object::driver_op};
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_char, c_uchar},
    prelude::*,
};

/// Name and set-up function of a new interface.
///
/// # Invariants
///
/// The name is a valid string, and the function may be called with a new interface.
#[derive(Clone, Copy)]
pub struct Template {
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
}

impl Template {
    /// Takes what a consumer passes.
    ///
    /// # Safety
    ///
    /// `name` must be a valid string as long as this exists, and `setup` must be callable.
    pub unsafe fn from_raw(
        name: *const c_char,
        name_assign_type: c_uchar,
        setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            name,
            name_assign_type,
            setup,
        }
    }
}

/// What the driver wants such an interface to be like.
pub struct Params(bindings::rdma_netdev_alloc_params);

impl Params {
    /// Asks the driver. `EOPNOTSUPP` if it has no such interfaces.
    pub fn query(device: &Device, port: u32, kind: bindings::rdma_netdev_t) -> Result<Self> {
        let mut params = pin_init::zeroed();
        to_result(driver_op!(
            device,
            rdma_netdev_get_params(device.as_raw(), port, kind, &mut params)
        )?)?;
        Ok(Self(params))
    }

    /// Allocates an interface. May sleep.
    pub fn alloc(&self, template: Template) -> Result<&'static NetDevice> {
        let private = i32::try_from(self.0.sizeof_priv).map_err(|_| ENOMEM)?;
        // SAFETY: By the invariant of `Template`.
        let netdev = unsafe {
            bindings::alloc_netdev_mqs(
                private,
                template.name,
                template.name_assign_type,
                template.setup,
                self.0.txqs,
                self.0.rxqs,
            )
        };
        if netdev.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: A new interface, which lives until its owner frees it.
        Ok(unsafe { NetDevice::from_raw(netdev) })
    }

    /// Lets the driver initialise an interface.
    pub fn init(&self, device: &Device, port: u32, netdev: &NetDevice) -> Result {
        let init = self.0.initialize_rdma_netdev.ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver told the function and its parameter.
        to_result(unsafe { init(device.as_raw(), port, netdev.as_raw(), self.0.param) })
    }
}
