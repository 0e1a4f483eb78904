// SPDX-License-Identifier: GPL-2.0

//! GIDs and address handles, by the classic address vector.

use crate::verbs::ah;
use core::mem::ManuallyDrop;
use kernel::prelude::*;
use rdma::{
    ah::{Ah, AhAttr, AhType, Sleepable},
    classic::{ah_attr_from_classic, ah_attr_to_classic, ClassicAhAttr},
    device::Device,
    gid::{Gid, GidAttr},
    net::netdev::Mac,
    network_header::NetworkHeader,
    object::Object,
    pd::Pd,
    wc::Wc,
};

/// Where a device has a GID of any type: the first port and the first index. Any context.
///
/// `ENOENT` if nowhere, or on a port with a number that the caller's eight bits cannot hold.
pub(crate) fn find_gid(device: &Device, gid: &Gid) -> Result<(u8, u16)> {
    device
        .ports()
        .find_map(|port| find_on_port(device, port, gid))
        .and_then(|(port, index)| Some((u8::try_from(port).ok()?, index)))
        .ok_or(ENOENT)
}

fn find_on_port(device: &Device, port: u32, gid: &Gid) -> Option<(u32, u16)> {
    let entries = rdma::port::Port::new(device, port)?.gid_tbl_len();
    (0..entries)
        .filter_map(|index| u16::try_from(index).ok())
        .find(|index| GidAttr::get(device, port, *index).is_ok_and(|found| found.gid() == *gid))
        .map(|index| (port, index))
}

/// Today's form of a classic vector. On RoCE an Ethernet address of zeroes is looked up, which
/// needs the source GID for the time of the search. May sleep.
pub(crate) fn to_attr(device: &Device, classic: &ClassicAhAttr) -> Result<AhAttr> {
    const UNKNOWN: Mac = [0; 6];
    let mut attr = ah_attr_from_classic(device, classic)?;
    if attr.kind() == AhType::Roce && attr.dmac() == Some(UNKNOWN) {
        ah::resolve_next_hop_of(device, &mut attr)?;
    }
    Ok(attr)
}

/// Creates a handle. May sleep, up to about a second on RoCE.
pub(crate) fn create(pd: &Pd, classic: &ClassicAhAttr) -> Result<Object<Ah>> {
    let mut attr = to_attr(pd.device(), classic)?;
    ah::create(pd, &mut attr, Sleepable::YES)
}

/// Sends elsewhere. May sleep, up to about a second on RoCE.
pub(crate) fn modify(handle: &Ah, classic: &ClassicAhAttr) -> Result {
    let mut attr = to_attr(handle.device(), classic)?;
    ah::modify(handle, &mut attr)
}

/// Asks for the address.
pub(crate) fn query(handle: &Ah) -> Result<ClassicAhAttr> {
    // A source GID that a driver puts in belongs to the handle, so it is not put here.
    let mut attr = ManuallyDrop::new(AhAttr::new());
    ah::query(handle, &mut attr)?;
    Ok(ah_attr_to_classic(&attr))
}

/// The way back to the sender of a datagram. May sleep, up to about a second on RoCE.
pub(crate) fn init_from_wc(
    device: &Device,
    port: u32,
    wc: &Wc,
    header: Option<NetworkHeader>,
) -> Result<ClassicAhAttr> {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    let mut attr = AhAttr::new();
    ah::init_from_wc(device, port, wc, header, &mut attr)?;
    Ok(ah_attr_to_classic(&attr))
}
