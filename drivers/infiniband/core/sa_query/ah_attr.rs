// SPDX-License-Identifier: GPL-2.0

//! Addresses out of path records.

use super::port::path_bits_of;
use kernel::{
    prelude::*,
    sync::aref::ARef, //
};
use rdma::{
    ah::{
        AhAttr,
        AhType,
        Route, //
    },
    device::Device,
    gid::{
        GidAttr,
        GidType, //
    },
    sa::{
        path::{
            Form,
            RoceRoute, //
        },
        PathRecord, //
    },
};

/// A LID that stands for any destination.
const LID_PERMISSIVE: u32 = 0xffff;

/// Fills in an empty address vector that leads along `path`; `roce` is the record itself if it is
/// of RoCE. The source GID is `sgid`, or the one that the record names. Sleeps if the record is of
/// RoCE.
///
/// Errors: those of looking up the route; `ENOENT` if the source GID is not there.
pub(crate) fn init(
    vector: &mut AhAttr,
    device: &Device,
    port: u32,
    path: &PathRecord,
    roce: Option<RoceRoute<'_>>,
    sgid: Option<&GidAttr>,
) -> Result {
    vector.set_kind(AhType::of_port(device, port));
    vector.set_service_level(path.sl());
    vector.set_port(port);
    vector.set_static_rate(path.rate());

    let gid_type = match path.form() {
        Form::Roce(gid_type) => gid_type,
        Form::Ib | Form::Opa => GidType::Ib,
    };
    let global = match roce {
        Some(mut route) => {
            vector.set_dmac(route.resolve(sgid)?);
            true
        }
        None => {
            let dlid = path.dlid();
            // Seven bits of the LID, at most.
            let bits = path.slid() as u8 & path_bits_of(device, port);
            vector.set_lid(dlid, bits);
            if path.form() == Form::Opa && dlid == LID_PERMISSIVE {
                vector.set_make_grd();
            }
            path.hop_limit() > 0
        }
    };
    if global {
        let sgid = match sgid {
            Some(sgid) => ARef::from(sgid),
            None => GidAttr::find_by_port(device, port, &path.sgid(), gid_type, None)?,
        };
        let route = Route {
            dgid: Some(path.dgid()),
            flow_label: path.flow_label(),
            hop_limit: path.hop_limit(),
            traffic_class: path.traffic_class(),
        };
        vector.set_route(&route, sgid);
    }
    Ok(())
}
