// SPDX-License-Identifier: GPL-2.0

//! Character devices of clients: how libraries find the file to open.

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
    nldev::control::{
        chardev,
        Chardev, //
    },
};

use super::{
    fill,
    policy::{
        CHARDEV,
        CHARDEV_ABI,
        CHARDEV_NAME,
        CHARDEV_TYPE,
        DEV_INDEX,
        PORT_INDEX, //
    },
    CLIENT, GET_CHARDEV,
};

const TYPE_SIZE: usize = bindings::RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE as usize;

/// `GET_CHARDEV`.
pub(super) struct Get;

impl Handler for Get {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let client = TextBuf::<TYPE_SIZE>::new(attrs.require(CHARDEV_TYPE)?);
        let device = match attrs.has(DEV_INDEX) {
            true => Some(fill::device(request.netns(), attrs)?),
            false => None,
        };
        let which = match &device {
            Some(device) => match fill::port(device, attrs)? {
                Some(port) => Chardev::Port(device, port),
                None => Chardev::Device(device),
            },
            // A port of no device.
            None if attrs.has(PORT_INDEX) => return Err(EINVAL),
            None => Chardev::Global,
        };

        request.reply(CLIENT, GET_CHARDEV, |out| {
            // What the client adds comes first.
            let node = chardev(which, client.as_c_str(), out)?;
            out.put(CHARDEV, node.number)?;
            out.put(CHARDEV_ABI, node.abi)?;
            out.put(CHARDEV_NAME, node.name())
        })
    }
}
