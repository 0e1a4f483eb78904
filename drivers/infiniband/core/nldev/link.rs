// SPDX-License-Identifier: GPL-2.0

//! Links: devices that a driver makes on top of a network device.

use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    device, kmod,
    netlink::{
        Attrs,
        Handler,
        Request,
        TextBuf, //
    },
    nldev::{
        control,
        link::{
            netdev_by_name,
            LINK_TYPES, //
        }, //
    },
};

use super::{
    fill,
    policy::{
        DEV_NAME,
        LINK_TYPE,
        NDEV_NAME, //
    },
};

const IFNAMSIZ: usize = bindings::IFNAMSIZ as usize;

/// `NEWLINK`.
pub(super) struct New;

impl Handler for New {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let name = TextBuf::<{ device::NAME_MAX }>::new(attrs.require(DEV_NAME)?);
        let ty = TextBuf::<IFNAMSIZ>::new(attrs.require(LINK_TYPE)?);
        let netdev = TextBuf::<IFNAMSIZ>::new(attrs.require(NDEV_NAME)?);
        let (name, ty) = (name.as_c_str(), ty.as_c_str());

        // A pattern would let the core choose the name.
        if name.is_empty() || name.to_bytes().contains(&b'%') {
            return Err(EINVAL);
        }
        let netdev = netdev_by_name(request.netns(), netdev.as_c_str()).ok_or(ENODEV)?;

        if let Some(result) = LINK_TYPES.newlink(ty, name, &netdev) {
            return result;
        }
        // Whether it worked shows below.
        let _ = kmod::request(fmt!("rdma-link-{ty}"));
        LINK_TYPES.newlink(ty, name, &netdev).unwrap_or(Err(EINVAL))
    }
}

/// `DELLINK`.
pub(super) struct Del;

impl Handler for Del {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let device = fill::device(request.netns(), attrs)?;
        if !device.allows_user_unregister() {
            return Err(EINVAL);
        }
        LINK_TYPES.dellink(&device)?;
        control::unregister(device);
        Ok(())
    }
}
