// SPDX-License-Identifier: GPL-2.0

//! Sub-devices: devices that a driver makes out of another one.

use kernel::{
    bindings,
    prelude::*, //
};
use rdma::{
    netlink::{
        Attrs,
        Handler,
        Request,
        TextBuf, //
    },
    nldev::control, //
};

use super::{
    fill,
    policy::{
        DEV_NAME,
        DEV_TYPE, //
    },
};

/// `NEWDEV`.
pub(super) struct New;

impl Handler for New {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let name = TextBuf::<{ bindings::IFNAMSIZ as usize }>::new(attrs.require(DEV_NAME)?);
        let kind = attrs.require(DEV_TYPE)?;
        let parent = fill::device(request.netns(), attrs)?;
        control::add_sub_device(&parent, kind, name.as_c_str())
    }
}

/// `DELDEV`.
pub(super) struct Del;

impl Handler for Del {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        control::del_sub_device(fill::device(request.netns(), attrs)?)
    }
}
