// SPDX-License-Identifier: GPL-2.0

//! What `/sys/class/infiniband` shows of a device. Formats are ABI: rdma-core parses them.
//!
//! ```text
//! <device>/{node_type,node_guid,sys_image_guid,fw_ver,node_desc}
//! <device>/hw_counters/{<value>...,lifespan}              only in the device's own namespace
//! <device>/ports/<n>/{state,lid,...}
//! <device>/ports/<n>/{gids,pkeys}/<i>
//! <device>/ports/<n>/gid_attrs/{ndevs,types}/<i>
//! <device>/ports/<n>/hw_counters/{<value>...,lifespan}    only in the device's own namespace
//! <device>/ports/<n>/counters/<value>                     likewise, if the device answers PMA
//! ```
//!
//! Drivers and clients add groups of their own, in the device's own namespace.
//!
//! Show and store functions run while the files exist: their removal waits for them. They may sleep
//! and take RTNL, so that directories are made and removed without RTNL.

mod device;
mod pma;
mod port;
mod stats;
mod tables;

use kernel::prelude::*;
use rdma::{
    kobject::OwnedDir,
    port::Port,
    stats::OwnedHwStats,
    sysfs::{
        CoreDevice,
        OwnDevice,
        PortDir,
        PortDirs, //
    }, //
};

use self::port::PortFiles;
pub(crate) use self::{
    device::DeviceField,
    port::{
        CompatPort,
        OwnPort, //
    },
    stats::DeviceStatFile,
    tables::GidAttrs, //
};

/// The directories of the ports of a device in its own namespace.
pub(crate) type OwnPorts<'a> = PortDirs<'a, OwnPort, GidAttrs>;

/// The directories of the ports of a device in another namespace.
pub(crate) type CompatPorts<'a> = PortDirs<'a, CompatPort, GidAttrs>;

/// Makes `gid_attrs/` in the directory of a port.
fn gid_attrs<P: rdma::sysfs::PortData>(
    dirs: &PortDirs<'_, P, GidAttrs>,
    port: &OwnedDir<PortDir<P>>,
    gids: u32,
) -> Result<OwnedDir<PortDir<GidAttrs>>> {
    dirs.create_inner(port.number(), port, c"gid_attrs", GidAttrs::new(gids)?)
}

/// The size of a table, which the driver reports as a signed number.
fn table_len(len: usize) -> Result<u32> {
    Ok(u32::try_from(len)?)
}

/// Makes the directories of the ports of a device in its own namespace.
fn set_up_own(own: OwnDevice<'_>) -> Result {
    let mut dirs = OwnPorts::create(own.core())?;

    for port in Port::all(own.device()) {
        let attr = port.query()?;
        let gids = table_len(attr.gid_tbl_len())?;
        let files = PortFiles::new(gids, attr.pkey_tbl_len())?;
        let data = OwnPort::new(files, own, port)?;
        let stats = data.stats();

        let dir = dirs.create_port(port.number(), data)?;
        let inner = gid_attrs(&dirs, &dir, gids)?;
        own.publish_port(port.number(), &dir, stats)?;
        dirs.add(dir, inner);
    }
    dirs.leave();
    Ok(())
}

/// Makes the directories of the ports of a device in another namespace.
fn set_up_compat(core: &CoreDevice) -> Result {
    let mut dirs = CompatPorts::create(core)?;

    for port in Port::all(core.device()) {
        let attr = port.query()?;
        let gids = table_len(attr.gid_tbl_len())?;
        let files = PortFiles::new(gids, attr.pkey_tbl_len())?;

        let dir = dirs.create_port(port.number(), CompatPort::new(files))?;
        let inner = gid_attrs(&dirs, &dir, gids)?;
        dirs.add(dir, inner);
    }
    dirs.leave();
    Ok(())
}

/// Makes the directories of the ports of an appearance of a device. On an error none is left.
pub(crate) fn set_up_ports(core: &CoreDevice) -> Result {
    match core.own() {
        Some(own) => set_up_own(own),
        None => set_up_compat(core),
    }
}

/// Prepares the statistics of a device as a whole, if its driver has any. The driver core adds
/// their files.
pub(crate) fn set_up_device(own: OwnDevice<'_>) -> Result {
    match OwnedHwStats::of_device(own.device()) {
        Ok(stats) => own.set_stats(stats::device_files(own.device(), stats)?),
        Err(EOPNOTSUPP) => Ok(()),
        Err(e) => Err(e),
    }
}
