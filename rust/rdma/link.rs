// SPDX-License-Identifier: GPL-2.0

//! Link layer of a port, and settings of the Ethernet interface that it is bound to.

use crate::{
    device::Device,
    net::{netdev::RegState, rtnl::Rtnl, NetDevice},
    object::driver_op,
};
use kernel::{bindings, error::to_result, prelude::*, str::CString};

/// What the driver says of a port's link layer (`IB_LINK_LAYER_*`), if it has a say.
pub fn driver_link_layer(device: &Device, port: u32) -> Option<bindings::rdma_link_layer> {
    driver_op!(device, get_link_layer(device.as_raw(), port)).ok()
}

/// Speed and lanes, as ethtool tells.
pub struct EthLink {
    /// Megabits per second, if known.
    pub speed: Option<u32>,
    /// Number of lanes; 0 if the driver does not tell.
    pub lanes: u32,
    /// Name of an interface whose driver does not tell anything.
    pub mute_interface: Option<CString>,
}

impl EthLink {
    /// Asks the interface of a port. Takes the RTNL lock. `ENODEV` if the port has no interface
    /// or it is on its way out.
    pub fn of_port(device: &Device, port: u32) -> Result<Self> {
        // SAFETY: The device is valid.
        let netdev = unsafe { bindings::ib_device_get_netdev(device.as_raw(), port) };
        // SAFETY: Null, or a hold that was taken for us.
        let netdev = unsafe { NetDevice::from_raw_owned(netdev) }.ok_or(ENODEV)?;
        let _rtnl = Rtnl::lock();
        if netdev.reg_state() != RegState::Registered {
            return Err(ENODEV);
        }
        let raw = netdev.as_raw();

        let mut settings: bindings::ethtool_link_ksettings = pin_init::zeroed();
        // SAFETY: A registered interface, under the RTNL lock.
        let ret = unsafe { bindings::__ethtool_get_link_ksettings(raw.cast(), &mut settings) };
        let told = to_result(ret);
        let mute_interface = match told {
            Ok(()) => None,
            Err(_) => {
                // SAFETY: Names are terminated and change under the RTNL lock.
                let name = unsafe { CStr::from_char_ptr((&raw const (*raw).name).cast()) };
                Some(CString::try_from(name)?)
            }
        };
        let speed = settings.base.speed;
        Ok(Self {
            speed: (told.is_ok() && speed != bindings::SPEED_UNKNOWN as u32).then_some(speed),
            lanes: settings.lanes,
            mute_interface,
        })
    }
}
