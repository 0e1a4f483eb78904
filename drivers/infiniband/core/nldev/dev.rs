// SPDX-License-Identifier: GPL-2.0

//! Devices as a whole: show, rename, move, moderate.

use kernel::prelude::*;
use rdma::{
    device,
    netlink::{
        AttrWriter,
        Attrs,
        Dump,
        DumpHandler,
        Handler,
        Progress,
        Request,
        TextBuf, //
    },
    nldev::{
        control,
        device::{
            visit_all,
            Visitor, //
        }, //
    },
};

use super::{
    fill,
    policy::{
        CAP_FLAGS,
        DEV_DIM,
        DEV_NAME,
        DEV_NODE_TYPE,
        DEV_PROTOCOL,
        DEV_TYPE,
        FW_VERSION,
        NAME_ASSIGN_TYPE,
        NET_NS_FD,
        NODE_GUID,
        PARENT_NAME,
        PORT_INDEX,
        SYS_IMAGE_GUID, //
    },
    CLIENT, GET,
};

/// The protocol of a device, by that of its first port: a device with ports of different
/// protocols is not foreseen.
fn protocol(device: &device::Device) -> Option<&'static CStr> {
    let caps = device.port_caps(device.start_port());
    if caps.opa_mad() {
        Some(c"opa")
    } else if caps.protocol_ib() {
        Some(c"ib")
    } else if caps.protocol_iwarp() {
        Some(c"iw")
    } else if caps.protocol_roce() {
        Some(c"roce")
    } else if caps.protocol_usnic() {
        Some(c"usnic")
    } else {
        None
    }
}

fn put(out: &mut AttrWriter<'_>, device: &device::Device) -> Result {
    let attrs = device.attrs();

    fill::put_device(out, device)?;
    out.put(PORT_INDEX, device.end_port())?;
    out.put(CAP_FLAGS, attrs.device_cap_flags)?;
    let fw = device.firmware();
    out.put_some(FW_VERSION, fw.as_ref().map(TextBuf::as_c_str))?;
    out.put(NODE_GUID, u64::from_be(device.node_guid()))?;
    out.put(SYS_IMAGE_GUID, u64::from_be(attrs.sys_image_guid))?;
    out.put(DEV_NODE_TYPE, device.node_type())?;
    out.put(DEV_DIM, device.use_cq_dim().into())?;
    out.put_some(DEV_TYPE, Some(device.sub_type()).filter(|ty| *ty != 0))?;
    let parent = device.parent_name();
    out.put_some(PARENT_NAME, parent.as_deref())?;
    out.put(NAME_ASSIGN_TYPE, device.name_assign_type())?;
    out.put_some(DEV_PROTOCOL, protocol(device))
}

/// `GET`.
pub(super) struct Device;

impl Handler for Device {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let device = fill::device(request.netns(), attrs)?;
        request.reply(CLIENT, GET, |out| put(out, &device))
    }
}

impl DumpHandler for Device {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        Ok(visit_all::<EachDevice<Self>>(dump))
    }
}

/// What a dump tells of each device.
pub(super) trait DeviceInfo {
    /// The operation.
    const OP: u32;

    /// Writes what there is to tell.
    fn put(out: &mut AttrWriter<'_>, device: &device::Device) -> Result;
}

impl DeviceInfo for Device {
    const OP: u32 = GET;

    fn put(out: &mut AttrWriter<'_>, device: &device::Device) -> Result {
        put(out, device)
    }
}

/// A dump with one message, and one buffer, for each device. The cursor is a device index.
pub(super) struct EachDevice<I>(core::marker::PhantomData<I>);

impl<I: DeviceInfo> Visitor for EachDevice<I> {
    fn visit(dump: &mut Dump<'_>, device: &device::Device) -> bool {
        let index = u64::from(device.index());
        if index < dump.cursor() {
            return false;
        }
        let told = dump.message(CLIENT, I::OP).and_then(|mut message| {
            I::put(&mut message, device)?;
            message.end();
            Ok(())
        });
        dump.set_cursor(index + 1);
        // A device that cannot be told of is left out.
        told.is_ok()
    }
}

/// `SET`: the first of namespace, name and moderation that the request has.
pub(super) struct Set;

impl Handler for Set {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let device = fill::device(request.netns(), attrs)?;
        let name = attrs
            .get(DEV_NAME)
            .map(TextBuf::<{ device::NAME_MAX }>::new);

        if name.as_ref().is_some_and(TextBuf::is_empty) {
            return Err(EINVAL);
        }
        if let Some(fd) = attrs.get(NET_NS_FD) {
            let name = name.as_ref().map(TextBuf::as_c_str);
            return control::set_netns(request, device, fd, name);
        }
        if let Some(name) = name {
            return control::rename(&device, name.as_c_str());
        }
        match attrs.get(DEV_DIM) {
            Some(on) => control::set_dim(&device, on),
            None => Ok(()),
        }
    }
}
