// SPDX-License-Identifier: GPL-2.0

//! Charging of user objects to the rdma cgroup controller.
//!
//! The controller, a part of the kernel image, counts handles and objects per
//! device and cgroup. Only ib_uverbs charges: once per user context
//! (`hca_handle`) and once per user object (`hca_object`).

use kernel::prelude::*;
use rdma::{
    cgroup::{
        Charge,
        Resource, //
    },
    device::Device, //
};

/// Charges one `resource` of `device` to the current task's cgroup.
///
/// May sleep. `EAGAIN` if a limit is reached, which user space gets to see.
pub(crate) fn try_charge(charge: &Charge, device: &Device, resource: Resource) -> Result {
    charge.try_charge(device, resource)
}

/// Gives back what [`try_charge`] took.
pub(crate) fn uncharge(charge: &Charge, device: &Device, resource: Resource) {
    charge.uncharge(device, resource)
}
