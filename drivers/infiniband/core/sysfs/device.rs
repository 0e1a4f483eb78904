// SPDX-License-Identifier: GPL-2.0

//! The files right in the directory of a device, in all namespaces.

use kernel::prelude::*;
use rdma::{
    device::Device,
    sysfs::{
        Any,
        DeviceFile,
        Input,
        Output, //
    }, //
};

/// A file right in the directory of a device.
#[derive(Clone, Copy)]
pub(crate) enum DeviceField {
    NodeType,
    NodeGuid,
    SysImageGuid,
    FwVer,
    NodeDesc,
}

/// Kinds of nodes by number (`RDMA_NODE_*`).
const NODE_TYPES: [&str; 8] = [
    "<unknown>",
    "CA",
    "switch",
    "router",
    "RNIC",
    "usNIC",
    "usNIC UDP",
    "unspecified",
];

fn node_type(node: u8) -> &'static str {
    NODE_TYPES
        .get(usize::from(node))
        .copied()
        .unwrap_or("<unknown>")
}

/// A GUID as four groups of digits. `guid` has the order of the wire.
fn guid(guid: u64, out: &mut Output<'_>) {
    let [a, b, c, d, e, f, g, h] = guid.to_ne_bytes();
    out.text(fmt!(
        "{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}\n",
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h
    ));
}

impl DeviceFile for DeviceField {
    type Scope = Any;

    fn show(&self, device: &Device, out: &mut Output<'_>) -> Result {
        match self {
            DeviceField::NodeType => {
                let node = device.node_type();
                out.text(fmt!("{}: {}\n", node, node_type(node)));
            }
            DeviceField::NodeGuid => guid(device.node_guid(), out),
            DeviceField::SysImageGuid => guid(device.attrs().sys_image_guid, out),
            DeviceField::FwVer => {
                out.bytes(device.fw_version().as_bytes());
                out.bytes(b"\n");
            }
            DeviceField::NodeDesc => {
                out.bytes(device.node_desc().as_bytes());
                out.bytes(b"\n");
            }
        }
        Ok(())
    }

    fn store(&self, device: &Device, text: &Input<'_>) -> Result {
        match self {
            DeviceField::NodeDesc => device.modify_node_desc(text.bytes()),
            _ => Err(EIO),
        }
    }
}

#[kunit_tests(rust_ib_core_sysfs_device)]
mod tests {
    use super::*;
    use kernel::bindings;

    #[test]
    fn node_types_have_names() {
        let name = |raw: core::ffi::c_uint| node_type(raw as u8);
        assert_eq!(name(bindings::RDMA_NODE_IB_CA), "CA");
        assert_eq!(name(bindings::RDMA_NODE_RNIC), "RNIC");
        assert_eq!(name(bindings::RDMA_NODE_USNIC_UDP), "usNIC UDP");
        assert_eq!(name(bindings::RDMA_NODE_UNSPECIFIED), "unspecified");
        assert_eq!(node_type(0), "<unknown>");
        assert_eq!(node_type(200), "<unknown>");
    }
}
