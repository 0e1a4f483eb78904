// SPDX-License-Identifier: GPL-2.0

//! Counters of ports.

use super::{Device, Driver};
use crate::stats::{HwStats, StatDesc};
use core::ptr;
use kernel::{bindings, error::from_result, ffi::c_int, prelude::*};

/// The counters of a driver's ports.
pub struct PortStats {
    /// Their names.
    pub names: &'static [StatDesc],
    /// For how many milliseconds values that were read are good.
    pub lifespan: usize,
}

/// The values of a port's counters, to be filled in.
pub struct StatValues<'a>(&'a HwStats);

impl StatValues<'_> {
    /// Number of counters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a value; nothing happens for a counter that does not exist.
    pub fn set(&mut self, index: usize, value: u64) {
        self.0.set(index, value);
    }
}

/// # Safety
///
/// Called by the core for the driver's device.
pub(super) unsafe extern "C" fn alloc_hw_port_stats<D: Driver>(
    _device: *mut bindings::ib_device,
    _port: u32,
) -> *mut bindings::rdma_hw_stats {
    let PortStats { names, lifespan } = D::PORT_STATS;
    let Ok(count) = c_int::try_from(names.len()) else {
        return ptr::null_mut();
    };
    // SAFETY: The descriptions are transparent over those of C, and static.
    unsafe { bindings::rdma_alloc_hw_stats_struct(names.as_ptr().cast(), count, lifespan) }
}

/// # Safety
///
/// Called by the core for the driver's device, with a set that the driver has made.
pub(super) unsafe extern "C" fn get_hw_stats<D: Driver>(
    device: *mut bindings::ib_device,
    stats: *mut bindings::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    // SAFETY: By the contract of the operation.
    from_result(|| unsafe {
        // A set of the device as a whole does not exist.
        if port == 0 || stats.is_null() {
            return Err(EINVAL);
        }
        let mut values = StatValues(HwStats::from_raw(stats));
        D::read_port_stats(Device::from_raw(device), port, &mut values)?;
        Ok(values.len() as c_int)
    })
}
