// SPDX-License-Identifier: GPL-2.0

//! The directory of a port and the files right in it.

use kernel::{
    prelude::*,
    static_lock_class,
    sync::Arc, //
};
use rdma::{
    kobject::GroupList,
    port::{
        LinkLayer,
        Port,
        PortAttr, //
    },
    rate::Width,
    stats::OwnedHwStats,
    sysfs::{
        Access,
        Indexed,
        Output,
        OwnDevice,
        PortData,
        PortFile,
        PortGroup, //
    }, //
};

use super::{
    pma::{
        self,
        PmaFile, //
    },
    stats::{
        self,
        StatFile, //
    },
    tables::{
        self,
        Gids,
        Pkeys, //
    }, //
};

/// A file right in the directory of a port.
#[derive(Clone, Copy)]
pub(crate) enum PortField {
    State,
    Lid,
    LidMaskCount,
    SmLid,
    SmSl,
    CapMask,
    Rate,
    PhysState,
    LinkLayer,
}

const FIELDS: [(&CStr, PortField); 9] = [
    (c"state", PortField::State),
    (c"lid", PortField::Lid),
    (c"lid_mask_count", PortField::LidMaskCount),
    (c"sm_lid", PortField::SmLid),
    (c"sm_sl", PortField::SmSl),
    (c"cap_mask", PortField::CapMask),
    (c"rate", PortField::Rate),
    (c"phys_state", PortField::PhysState),
    (c"link_layer", PortField::LinkLayer),
];

/// Physical states of a port by number (IBTA 14.2.5.6, `PortPhysicalState`).
const PHYS_STATES: [&str; 8] = [
    "<unknown>",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "Phy Test",
];

fn phys_state(state: u8) -> &'static str {
    PHYS_STATES
        .get(usize::from(state))
        .copied()
        .unwrap_or("<unknown>")
}

/// A rate, in units of 100 Mb/s: whole Gb/s, or half a Gb/s more.
fn rate(attr: &PortAttr, out: &mut Output<'_>) -> Result {
    let speed = attr.speed()?;
    let half = if speed.rate() % 10 == 0 { "" } else { ".5" };
    let lanes = Width::from_raw(attr.raw().active_width).map_or(-1, |width| width.lanes() as i32);

    out.text(fmt!("{}{} Gb/sec ({}X", speed.rate() / 10, half, lanes));
    out.bytes(speed.name().to_bytes());
    out.bytes(b")\n");
    Ok(())
}

impl PortFile for PortField {
    fn show(&self, port: Port<'_>, out: &mut Output<'_>) -> Result {
        if let PortField::LinkLayer = self {
            out.text(fmt!(
                "{}\n",
                match port.link_layer() {
                    LinkLayer::InfiniBand => "InfiniBand",
                    LinkLayer::Ethernet => "Ethernet",
                    LinkLayer::Unspecified => "Unknown",
                }
            ));
            return Ok(());
        }

        let attr = port.query()?;
        let raw = attr.raw();
        match self {
            PortField::State => {
                out.text(fmt!("{}: ", raw.state));
                out.bytes(attr.state().name().to_bytes());
                out.bytes(b"\n");
            }
            PortField::Lid => out.text(fmt!("{:#x}\n", raw.lid)),
            PortField::LidMaskCount => out.text(fmt!("{}\n", raw.lmc)),
            PortField::SmLid => out.text(fmt!("{:#x}\n", raw.sm_lid)),
            PortField::SmSl => out.text(fmt!("{}\n", raw.sm_sl)),
            PortField::CapMask => out.text(fmt!("{:#010x}\n", raw.port_cap_flags)),
            PortField::Rate => rate(&attr, out)?,
            PortField::PhysState => {
                out.text(fmt!("{}: {}\n", raw.phys_state, phys_state(raw.phys_state)))
            }
            PortField::LinkLayer => {}
        }
        Ok(())
    }
}

/// Files that a port has in all namespaces.
pub(super) struct PortFiles {
    fields: PortGroup<PortField>,
    gids: PortGroup<Indexed<Gids>>,
    pkeys: Option<PortGroup<Indexed<Pkeys>>>,
}

impl PortFiles {
    /// Makes the files for tables of these sizes. iWARP has no partition keys.
    pub(super) fn new(gids: u32, pkeys: u16) -> Result<Self> {
        let fields = FIELDS.map(|(name, field)| (name, Access::ReadOnly, field));

        Ok(Self {
            fields: PortGroup::new(None, fields, static_lock_class!())?,
            gids: tables::gids(gids)?,
            pkeys: match pkeys {
                0 => None,
                len => Some(tables::pkeys(len)?),
            },
        })
    }

    fn groups(&self, list: &mut GroupList) {
        self.fields.list(list);
        self.gids.list(list);
        if let Some(pkeys) = &self.pkeys {
            pkeys.list(list);
        }
    }
}

/// What a port has in a namespace that is not its device's own.
pub(crate) struct CompatPort(PortFiles);

impl CompatPort {
    pub(super) fn new(files: PortFiles) -> Self {
        Self(files)
    }
}

impl PortData for CompatPort {
    fn groups(&self, list: &mut GroupList) {
        self.0.groups(list);
    }
}

/// What a port has in its device's own namespace.
pub(crate) struct OwnPort {
    files: PortFiles,
    stats: Option<(Arc<OwnedHwStats>, PortGroup<StatFile>)>,
    pma: Option<PortGroup<PmaFile>>,
}

impl OwnPort {
    /// Makes the files that depend on the driver too.
    pub(super) fn new(files: PortFiles, _own: OwnDevice<'_>, port: Port<'_>) -> Result<Self> {
        Ok(Self {
            files,
            // The statistics of port 0, of a switch, are those of the device.
            stats: match port.number() {
                0 => None,
                _ => stats::port_files(port)?,
            },
            pma: pma::files(port)?,
        })
    }

    /// The statistics, if there are any.
    pub(super) fn stats(&self) -> Option<Arc<OwnedHwStats>> {
        self.stats.as_ref().map(|(stats, _)| stats.clone())
    }
}

impl PortData for OwnPort {
    fn groups(&self, list: &mut GroupList) {
        self.files.groups(list);
        if let Some((_, files)) = &self.stats {
            files.list(list);
        }
        if let Some(pma) = &self.pma {
            pma.list(list);
        }
    }
}

#[kunit_tests(rust_ib_core_sysfs_port)]
mod tests {
    use super::*;

    #[test]
    fn physical_states_have_names() {
        assert_eq!(phys_state(5), "LinkUp");
        assert_eq!(phys_state(0), "<unknown>");
        assert_eq!(phys_state(8), "<unknown>");
        assert_eq!(phys_state(255), "<unknown>");
    }
}
