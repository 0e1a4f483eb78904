// SPDX-License-Identifier: GPL-2.0

//! Questions about ports, and changes of them.

use kernel::{
    bindings::{
        self,
        ib_device_modify,
        ib_port_attr,
        ib_port_modify, //
    },
    prelude::*, //
};
use rdma::device::{
    query,
    Device, //
};

/// Asks for the attributes of a port. May sleep and take RTNL.
pub(crate) fn query(device: &Device, port: u32, attr: &mut ib_port_attr) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    *attr = pin_init::zeroed();
    if device.port_caps(port).protocol_iwarp() {
        query_iwarp(device, port, attr)
    } else {
        query_ib(device, port, attr)
    }
}

/// The state of an iWARP port is that of its network device; the driver may correct it.
fn query_iwarp(device: &Device, port: u32, attr: &mut ib_port_attr) -> Result {
    let netdev = device.netdev(port).ok_or(ENODEV)?;
    attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
    attr.active_mtu = query::mtu_for(netdev.mtu());
    let (state, phys_state) = if !netdev.carrier_ok() {
        (
            bindings::ib_port_state_IB_PORT_DOWN,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
        )
    } else if query::has_ipv4(&netdev) {
        (
            bindings::ib_port_state_IB_PORT_ACTIVE,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
        )
    } else {
        (
            bindings::ib_port_state_IB_PORT_INIT,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING,
        )
    };
    attr.state = state;
    attr.phys_state = phys_state as u8;
    drop(netdev);
    device.query_port(port, attr)
}

fn query_ib(device: &Device, port: u32, attr: &mut ib_port_attr) -> Result {
    device.query_port(port, attr)?;
    if attr.subnet_prefix == 0
        && device.link_layer(port) == bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    {
        attr.subnet_prefix = device.cached_subnet_prefix(port);
    }
    Ok(())
}

/// Asks for a P_Key. May sleep.
pub(crate) fn query_pkey(device: &Device, port: u32, index: u16) -> Result<u16> {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    device.query_pkey(port, index)
}

/// The index of a P_Key of the same partition: the first of a full member, or else the first.
/// `ENOENT` if there is none. May sleep.
pub(crate) fn find_pkey(device: &Device, port: u32, pkey: u16) -> Result<u16> {
    /// Tells a full member of the partition from a limited one.
    const FULL: u16 = 0x8000;

    let len = device.immutable(port).ok_or(EINVAL)?.pkey_tbl_len;
    let mut limited = None;
    for index in 0..u16::try_from(len.max(0)).unwrap_or(u16::MAX) {
        let found = query_pkey(device, port, index)?;
        if found & !FULL != pkey & !FULL {
            continue;
        }
        if found & FULL != 0 {
            return Ok(index);
        }
        limited = limited.or(Some(index));
    }
    limited.ok_or(ENOENT)
}

/// Where on the InfiniBand ports of a device a GID is: port and index. `ENOENT` if nowhere.
pub(crate) fn find_gid(device: &Device, gid: &[u8; 16]) -> Result<(u32, u16)> {
    for port in device.ports() {
        if !device.port_caps(port).protocol_ib() {
            continue;
        }
        let len = device.immutable(port).map_or(0, |imm| imm.gid_tbl_len);
        for index in 0..len {
            if device.gid_at(port, index).is_ok_and(|found| found == *gid) {
                return Ok((port, index as u16));
            }
        }
    }
    Err(ENOENT)
}

/// Changes attributes of a device. May sleep.
pub(crate) fn modify_device(device: &Device, mask: i32, modify: &mut ib_device_modify) -> Result {
    device.modify(mask, modify)
}

/// Changes attributes of a port. May sleep.
///
/// That a connection manager is there can be told every RoCE port, even if the driver does not
/// want to know.
pub(crate) fn modify(device: &Device, port: u32, mask: i32, modify: &mut ib_port_modify) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    if let Some(result) = device.modify_port(port, mask, modify) {
        return result;
    }
    let only_cm = |caps: u32| caps & !bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP == 0;
    if device.port_caps(port).protocol_roce()
        && (only_cm(modify.set_port_cap_mask) || only_cm(modify.clr_port_cap_mask))
    {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
    }
}

/// Whether completion queues moderate themselves; 0 or 1.
pub(crate) fn set_dim(device: &Device, use_dim: u8) -> Result {
    match use_dim {
        0 | 1 => {
            device.set_use_cq_dim(use_dim == 1);
            Ok(())
        }
        _ => Err(EINVAL),
    }
}
