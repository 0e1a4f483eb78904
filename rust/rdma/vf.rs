// SPDX-License-Identifier: GPL-2.0

//! Virtual functions of a device, as `ip link` manages them through IPoIB interfaces.

use crate::{device::Device, object::driver_op};
use kernel::{bindings, error::to_result, prelude::*};

/// Operations on virtual functions, for the network stack's view of IPoIB interfaces.
pub trait VirtualFunctions {
    /// Sets the link state policy.
    fn set_vf_link_state(&self, vf: c_int, port: u32, state: c_int) -> Result;
    /// Sets a GUID.
    fn set_vf_guid(&self, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result;
    /// Reads the configuration.
    fn vf_config(&self, vf: c_int, port: u32, info: &mut bindings::ifla_vf_info) -> Result;
    /// Reads the counters.
    fn vf_stats(&self, vf: c_int, port: u32, stats: &mut bindings::ifla_vf_stats) -> Result;
    /// Reads node and port GUID.
    fn vf_guid(
        &self,
        vf: c_int,
        port: u32,
        node: &mut bindings::ifla_vf_guid,
        port_guid: &mut bindings::ifla_vf_guid,
    ) -> Result;
}

impl VirtualFunctions for Device {
    fn set_vf_link_state(&self, vf: c_int, port: u32, state: c_int) -> Result {
        let ret = driver_op!(self, set_vf_link_state(self.as_raw(), vf, port, state));
        to_result(ret?)
    }

    fn set_vf_guid(&self, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
        let ret = driver_op!(self, set_vf_guid(self.as_raw(), vf, port, guid, kind));
        to_result(ret?)
    }

    fn vf_config(&self, vf: c_int, port: u32, info: &mut bindings::ifla_vf_info) -> Result {
        let ret = driver_op!(self, get_vf_config(self.as_raw(), vf, port, info));
        to_result(ret?)
    }

    fn vf_stats(&self, vf: c_int, port: u32, stats: &mut bindings::ifla_vf_stats) -> Result {
        let ret = driver_op!(self, get_vf_stats(self.as_raw(), vf, port, stats));
        to_result(ret?)
    }

    fn vf_guid(
        &self,
        vf: c_int,
        port: u32,
        node: &mut bindings::ifla_vf_guid,
        port_guid: &mut bindings::ifla_vf_guid,
    ) -> Result {
        let ret = driver_op!(self, get_vf_guid(self.as_raw(), vf, port, node, port_guid));
        to_result(ret?)
    }
}
