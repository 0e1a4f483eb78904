// SPDX-License-Identifier: GPL-2.0

//! Kinds of nodes and links.

use kernel::bindings;
use rdma::{device::Device, link::driver_link_layer};

/// Transport of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// InfiniBand, RoCE, Omni-Path.
    Ib,
    /// iWARP.
    Iwarp,
    /// usNIC.
    Usnic,
    /// usNIC over UDP.
    UsnicUdp,
    /// None of these.
    Unspecified,
}

impl Transport {
    /// The transport of a kind of node (`RDMA_NODE_*`); InfiniBand unless the kind has another.
    pub(crate) fn of_node(node_type: u32) -> Self {
        match node_type {
            bindings::RDMA_NODE_RNIC => Self::Iwarp,
            bindings::RDMA_NODE_USNIC => Self::Usnic,
            bindings::RDMA_NODE_USNIC_UDP => Self::UsnicUdp,
            bindings::RDMA_NODE_UNSPECIFIED => Self::Unspecified,
            _ => Self::Ib,
        }
    }

    /// To the C constant.
    pub(crate) fn as_raw(self) -> bindings::rdma_transport_type {
        match self {
            Self::Ib => bindings::rdma_transport_type_RDMA_TRANSPORT_IB,
            Self::Iwarp => bindings::rdma_transport_type_RDMA_TRANSPORT_IWARP,
            Self::Usnic => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC,
            Self::UsnicUdp => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC_UDP,
            Self::Unspecified => bindings::rdma_transport_type_RDMA_TRANSPORT_UNSPECIFIED,
        }
    }
}

/// The link layer of a port (`IB_LINK_LAYER_*`): what the driver says, else what the node's
/// transport usually runs on.
///
/// Any context, as far as the core is concerned.
pub(crate) fn link_layer(device: &Device, port: u32) -> bindings::rdma_link_layer {
    if let Some(told) = driver_link_layer(device, port) {
        return told;
    }
    match Transport::of_node(device.node_type().into()) {
        Transport::Ib => bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND,
        _ => bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET,
    }
}
