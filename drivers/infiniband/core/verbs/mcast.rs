// SPDX-License-Identifier: GPL-2.0

//! Multicast groups of queue pairs (IBTA vol. 1, 10.5).

use super::{node, qp_modify};
use kernel::{bindings, prelude::*};
use rdma::{
    device::Device,
    gid::Gid,
    qp::{AttrMask, Qp, QpAttr, QpInitAttr, QpType},
};

/// Lowest LID of a group.
const FIRST_LID: u16 = 0xc000;
/// The permissive LID, which is no group's.
const PERMISSIVE_LID: u16 = 0xffff;

fn is_ib_link(device: &Device, port: u32) -> bool {
    node::link_layer(device, port) == bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
}

/// Whether a group may have this LID on the port of a queue pair, or, as long as it has none, on
/// some port of its device. Ethernet links have no LIDs and take any value (IBTA annex A16).
fn is_lid_acceptable(qp: &Qp, lid: u16) -> bool {
    let is_group_lid = (FIRST_LID..PERMISSIVE_LID).contains(&lid);
    let device = qp.device();

    let mut attr = QpAttr::empty();
    let mask = AttrMask::STATE | AttrMask::PORT;
    let known = qp_modify::query(qp, &mut attr, mask, &mut QpInitAttr::empty()).is_ok();
    if known && attr.has_port() {
        return is_group_lid || !is_ib_link(device, attr.port());
    }
    is_group_lid || device.ports().any(|port| !is_ib_link(device, port))
}

fn check(qp: &Qp, gid: &Gid, lid: u16) -> Result {
    if gid.is_multicast() && qp.kind() == QpType::UD && is_lid_acceptable(qp, lid) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Lets a UD queue pair receive what is sent to a group, and keeps it from being destroyed
/// meanwhile. May sleep.
pub(crate) fn attach(qp: &Qp, mut gid: Gid, lid: u16) -> Result {
    if qp.device().ops().attach_mcast.is_none() {
        return Err(EOPNOTSUPP);
    }
    check(qp, &gid, lid)?;
    qp.driver_attach_mcast(&mut gid, lid)?;
    qp.uses().acquire().keep();
    Ok(())
}

/// Ends that. May sleep.
pub(crate) fn detach(qp: &Qp, mut gid: Gid, lid: u16) -> Result {
    if qp.device().ops().detach_mcast.is_none() {
        return Err(EOPNOTSUPP);
    }
    check(qp, &gid, lid)?;
    qp.driver_detach_mcast(&mut gid, lid)?;
    drop(qp.uses().reclaim());
    Ok(())
}
