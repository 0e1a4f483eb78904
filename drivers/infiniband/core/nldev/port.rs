// SPDX-License-Identifier: GPL-2.0

//! Ports.

use kernel::prelude::*;
use rdma::{
    device::Device,
    netlink::{
        AttrWriter,
        Attrs,
        Dump,
        DumpHandler,
        Handler,
        Progress,
        Request, //
    },
    netns::Net,
    nldev::device::port_netdev,
    port, //
};

use super::{
    fill,
    policy::{
        CAP_FLAGS,
        LID,
        LMC,
        POLICY,
        PORT_INDEX,
        PORT_PHYS_STATE,
        PORT_STATE,
        SM_LID,
        SUBNET_PREFIX, //
    },
    CLIENT, GET, PORT_GET,
};

fn put(out: &mut AttrWriter<'_>, device: &Device, number: u32, netns: &Net) -> Result {
    fill::put_device(out, device)?;
    out.put(PORT_INDEX, number)?;

    let port = port::Port::new(device, number).ok_or(EINVAL)?;
    let attr = port.query()?;
    let attr = attr.raw();
    if port.caps().protocol_ib() {
        let flags = u64::from(attr.port_cap_flags) | u64::from(attr.port_cap_flags2) << 32;
        out.put(CAP_FLAGS, flags)?;
        out.put(SUBNET_PREFIX, attr.subnet_prefix)?;
        out.put(LID, attr.lid)?;
        out.put(SM_LID, attr.sm_lid)?;
        out.put(LMC, attr.lmc)?;
    }
    out.put(PORT_STATE, attr.state as u8)?;
    out.put(PORT_PHYS_STATE, attr.phys_state)?;

    match port_netdev(device, number).filter(|netdev| netdev.is_in(netns)) {
        Some(netdev) => fill::put_netdev(out, &netdev.info()),
        None => Ok(()),
    }
}

/// `PORT_GET`.
pub(super) struct Port;

impl Handler for Port {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let netns = request.netns();
        attrs.require(PORT_INDEX)?;
        let (device, port) = fill::device_and_port(netns, attrs)?;
        // Answered as if the device had been asked for: so it has always been.
        request.reply(CLIENT, GET, |out| put(out, &device, port, netns))
    }
}

/// The cursor is the number of ports told of.
impl DumpHandler for Port {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        let netns = dump.netns();
        let attrs = dump.attrs(&POLICY).map_err(|_| EINVAL)?;
        let device = fill::device(netns, &attrs)?;
        let mut told = dump.cursor();

        for port in device.ports().skip(usize::try_from(told)?) {
            let message = dump.message(CLIENT, PORT_GET).and_then(|mut message| {
                put(&mut message, &device, port, netns)?;
                message.end();
                Ok(())
            });
            // The buffer is full, or the driver does not answer: the next buffer tries again and
            // is the last one if it stays empty.
            if message.is_err() {
                break;
            }
            told += 1;
        }
        dump.set_cursor(told);
        Ok(Progress::More)
    }
}
