// SPDX-License-Identifier: GPL-2.0

//! Unreliable-datagram headers for drivers; prototypes in `rdma/ib_pack.h`.

use crate::ud_header::{
    self,
    Shape, //
};
use kernel::{
    bindings,
    error::from_result,
    prelude::*, //
};

/// Resets a header and presets what follows from the shape of the packet.
///
/// # Safety
///
/// `header` is writable and not in use elsewhere. Called by drivers, in any
/// context.
#[export]
pub(crate) unsafe extern "C" fn ib_ud_header_init(
    payload_bytes: c_int,
    lrh_present: c_int,
    eth_present: c_int,
    vlan_present: c_int,
    grh_present: c_int,
    ip_version: c_int,
    udp_present: c_int,
    immediate_present: c_int,
    header: *mut bindings::ib_ud_header,
) -> c_int {
    let shape = Shape {
        payload_bytes,
        lrh: lrh_present != 0,
        eth: eth_present != 0,
        vlan: vlan_present != 0,
        grh: grh_present != 0,
        ip_version,
        udp: udp_present != 0,
        immediate: immediate_present != 0,
    };
    // SAFETY: By this function's contract; any bytes are a valid header.
    let header = unsafe { &mut *header };
    from_result(|| ud_header::init(header, shape).map(|()| 0))
}

/// Writes the present headers to `buf` and returns their length.
///
/// # Safety
///
/// `header` is valid, and `buf` has room for the headers that it says are
/// present. Called by drivers, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_ud_header_pack(
    header: *mut bindings::ib_ud_header,
    buf: *mut c_void,
) -> c_int {
    // SAFETY: By this function's contract.
    let header = unsafe { &*header };
    let len = ud_header::packed_len(header);
    // SAFETY: By this function's contract `buf` has that much room, and it is
    // not part of the header.
    let wire = unsafe { core::slice::from_raw_parts_mut(buf.cast(), len) };
    // At most 126 bytes.
    ud_header::pack(header, wire) as c_int
}

/// The checksum of a packet's IPv4 header, in network byte order.
///
/// # Safety
///
/// `header` is valid. Called by drivers, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_ud_ip4_csum(
    header: *mut bindings::ib_ud_header,
) -> bindings::__sum16 {
    // SAFETY: By this function's contract.
    ud_header::ip4_checksum(unsafe { &(*header).ip4 })
}
