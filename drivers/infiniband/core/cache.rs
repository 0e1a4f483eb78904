// SPDX-License-Identifier: GPL-2.0

//! The cache of ports: GID tables, P_Keys, port states; and the events that keep it up to date.
//!
//! * [`gids`] finds and changes GIDs. RoCE tables are filled by `roce_gid_mgmt` as network devices
//!   and IP addresses come and go, those of other ports are copies of the hardware's.
//! * [`ports`] refreshes what drivers report about a port.
//! * [`events`] refreshes the cache before it passes an event on.
//!
//! Readers take no lock: tables are published by RCU, and single values are replaced as a whole.
//! Writers of a GID table hold its mutex. Nothing is called back with that mutex held but the
//! driver's operations on GIDs.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::ScopeGuard;
use rdma::device::Device;
use rdma::event;
use rdma::gid::{GidTable, HwSlots, Retention, SlotState};
use rdma::port::{roce, Port};

pub(crate) mod events;
pub(crate) mod gids;
pub(crate) mod ports;

use ports::Refresh;

fn new_gid_table(port: &Port<'_>) -> Result<Arc<GidTable>> {
    GidTable::new(
        port.gid_tbl_len(),
        port.gid_types().len() as usize,
        if port.caps().protocol_roce() {
            Retention::UntilUnused
        } else {
            Retention::None
        },
        if port.has_roce_gid_ops() {
            HwSlots::Driver
        } else {
            HwSlots::None
        },
    )
}

/// Makes and fills the cache of a device that is being registered. May sleep and take RTNL.
///
/// From the first table on, events of network devices reach the device, so none is missed between
/// the first scan and the registration. On failure they do not reach it any more, and all GIDs
/// are gone.
pub(crate) fn setup(device: &Device) -> Result {
    let mut tables = KVec::new();
    for port in Port::all(device) {
        tables.push((port, new_gid_table(&port)?), GFP_KERNEL)?;
    }
    for (port, table) in tables {
        port.cache().set_gid_table(table);
    }

    let unwind = ScopeGuard::new(|| cleanup(device));
    roce::enable_updates(device);
    roce::rescan(device);
    for port in Port::all(device) {
        ports::refresh(&port, Refresh::ALL)?;
    }
    unwind.dismiss();
    Ok(())
}

/// Empties the cache of a device that is being unregistered; clients are gone. May sleep.
///
/// Afterwards no GID can be added, and drivers are not asked any more. GIDs that are still referenced
/// keep the memory of the device until they are put.
pub(crate) fn cleanup(device: &Device) {
    roce::disable_updates(device);
    event::flush();
    for table in Port::all(device).filter_map(|port| port.gid_table()) {
        let mut writer = table.lock();
        writer.close();
        for index in 0..table.len() {
            writer.retire(index);
        }
    }
    // The last references may be on their way through the queue.
    event::flush();
    for port in Port::all(device) {
        report_leftovers(&port);
    }
}

fn report_leftovers(port: &Port<'_>) {
    let Some(table) = port.gid_table() else {
        return;
    };
    for (index, slot) in table.lock().slots() {
        if let SlotState::Retired(entry) = slot {
            dev_warn!(
                port.device().as_dev(),
                "port {} GID index {} has {} users left, which keep the device's memory\n",
                port.number(),
                index,
                entry.users()
            );
        }
    }
}
