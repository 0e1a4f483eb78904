// SPDX-License-Identifier: GPL-2.0

//! What the classic calls need of a provider and of their C callers.
//!
//! C header: `include/rdma/ib_classic.h` of this project.

use crate::{
    ah::{AhAttr, AhType},
    device::Device,
};
use kernel::{bindings, prelude::*};

/// What a provider promises beyond what the kernel's own callers ask of it.
///
/// A provider sets the bits in the `kernel_cap_flags` of its attributes.
#[derive(Clone, Copy)]
pub struct Promises {
    flags: u64,
    is_rxe: bool,
}

impl Promises {
    /// Kernel queue pairs take `IB_WR_BIND_MW` as a `struct ib_bind_mw_wr`
    /// (`IBK_CLASSIC_BIND_MW`).
    pub const BIND_MW: u64 = 1 << 63;
    /// Some operations for user space take kernel objects with a null udata
    /// (`IBK_CLASSIC_USER_OPS`): `resize_user_cq`, and `rereg_user_mr` that only moves a
    /// fast-registration region to another domain.
    pub const USER_OPS: u64 = 1 << 62;

    /// The promises of a device's provider.
    pub fn of(device: &Device) -> Self {
        Self {
            flags: device.attrs().kernel_cap_flags,
            is_rxe: device.ops().driver_id == bindings::rdma_driver_id_RDMA_DRIVER_RXE,
        }
    }

    /// See [`Self::BIND_MW`].
    pub fn takes_bind_requests(self) -> bool {
        self.flags & Self::BIND_MW != 0
    }

    /// See [`Self::USER_OPS`]; rxe is known to keep that promise without giving it.
    pub fn user_ops_take_kernel_objects(self) -> bool {
        self.is_rxe || self.flags & Self::USER_OPS != 0
    }
}

/// An address vector as the classic calls have it.
pub type ClassicAhAttr = bindings::ib_classic_ah_attr;

/// Today's form of a classic vector, without a source GID.
///
/// `EINVAL` for a port that the device does not have.
pub fn ah_attr_from_classic(device: &Device, classic: &ClassicAhAttr) -> Result<AhAttr> {
    let port = u32::from(classic.port_num);
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    let mut grh = classic.grh;
    grh.sgid_attr = core::ptr::null();
    let mut attr = AhAttr::new();
    attr.set_kind(AhType::of_port(device, port));
    attr.set_port(port);
    attr.set_service_level(classic.sl);
    attr.set_static_rate(classic.static_rate);
    attr.set_lid(classic.dlid.into(), classic.src_path_bits);
    attr.set_raw_route(classic.ah_flags, grh);
    if attr.kind() == AhType::Roce {
        attr.set_dmac(classic.dmac);
    }
    Ok(attr)
}

/// The classic form of a vector; the reference to the source GID is not part of it.
pub fn ah_attr_to_classic(attr: &AhAttr) -> ClassicAhAttr {
    let (ah_flags, mut grh) = attr.raw_route();
    grh.sgid_attr = core::ptr::null();
    let (dlid, src_path_bits) = attr.lid();
    ClassicAhAttr {
        grh,
        // The classic form has InfiniBand's 16 bits, and 8 for the port.
        dlid: dlid as u16,
        sl: attr.service_level(),
        src_path_bits,
        static_rate: attr.static_rate(),
        ah_flags,
        port_num: attr.port() as u8,
        dmac: attr.dmac().unwrap_or_default(),
    }
}
