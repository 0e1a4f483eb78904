// SPDX-License-Identifier: GPL-2.0

//! `counters/`: what the performance management agent of a port counts (IBTA 16.1).
//!
//! The device itself answers management datagrams. Values are fields of two attributes,
//! `PortCounters` (16.1.3.5) and `PortCountersExtended` (16.1.4.11).

use kernel::{
    prelude::*,
    static_lock_class, //
};
use rdma::{
    perf_mad::{
        self,
        Attribute, //
    },
    port::Port,
    sysfs::{
        Access,
        Output,
        PortFile,
        PortGroup, //
    }, //
};

/// How wide a field is.
#[derive(Clone, Copy)]
enum Width {
    /// Half a byte, `true` for the upper half.
    Nibble(bool),
    U8,
    U16,
    U32,
    U64,
}

/// A counter: a field of an attribute, at a byte of its data.
#[derive(Clone, Copy)]
pub(crate) struct PmaFile {
    attribute: Attribute,
    width: Width,
    at: usize,
}

type Entry = (&'static CStr, PmaFile);

/// A field of `PortCounters`.
const fn field(name: &'static CStr, width: Width, at: usize) -> Entry {
    let file = PmaFile {
        attribute: Attribute::PortCounters,
        width,
        at,
    };
    (name, file)
}

/// A field of `PortCountersExtended`, all of which have 64 bits.
const fn wide(name: &'static CStr, at: usize) -> Entry {
    let file = PmaFile {
        attribute: Attribute::PortCountersExtended,
        width: Width::U64,
        at,
    };
    (name, file)
}

/// What every device has.
const COMMON: [Entry; 13] = [
    field(c"symbol_error", Width::U16, 4),
    field(c"link_error_recovery", Width::U8, 6),
    field(c"link_downed", Width::U8, 7),
    field(c"port_rcv_errors", Width::U16, 8),
    field(c"port_rcv_remote_physical_errors", Width::U16, 10),
    field(c"port_rcv_switch_relay_errors", Width::U16, 12),
    field(c"port_xmit_discards", Width::U16, 14),
    field(c"port_xmit_constraint_errors", Width::U8, 16),
    field(c"port_rcv_constraint_errors", Width::U8, 17),
    field(c"local_link_integrity_errors", Width::Nibble(true), 19),
    field(c"excessive_buffer_overrun_errors", Width::Nibble(false), 19),
    field(c"VL15_dropped", Width::U16, 22),
    field(c"port_xmit_wait", Width::U32, 40),
];

/// Traffic, from a device with narrow counters only.
const NARROW: [Entry; 4] = [
    field(c"port_xmit_data", Width::U32, 24),
    field(c"port_rcv_data", Width::U32, 28),
    field(c"port_xmit_packets", Width::U32, 32),
    field(c"port_rcv_packets", Width::U32, 36),
];

/// Traffic, from a device with wide counters.
const WIDE: [Entry; 4] = [
    wide(c"port_xmit_data", 8),
    wide(c"port_rcv_data", 16),
    wide(c"port_xmit_packets", 24),
    wide(c"port_rcv_packets", 32),
];

/// Traffic by kind, from a device that has all wide counters.
const WIDE_BY_KIND: [Entry; 4] = [
    wide(c"unicast_xmit_packets", 40),
    wide(c"unicast_rcv_packets", 48),
    wide(c"multicast_xmit_packets", 56),
    wide(c"multicast_rcv_packets", 64),
];

/// `ClassPortInfo:CapabilityMask` bit for all wide counters.
const CAP_WIDE: u16 = 0x0200;
/// `ClassPortInfo:CapabilityMask` bit for wide counters without those by kind.
const CAP_WIDE_NO_KIND: u16 = 0x0400;
/// Where `ClassPortInfo` has its capability mask.
const CAPABILITY_MASK: usize = 2;

impl PmaFile {
    fn read(&self, data: &perf_mad::Data) -> Option<u64> {
        Some(match self.width {
            Width::Nibble(true) => u64::from(data.byte(self.at)? >> 4),
            Width::Nibble(false) => u64::from(data.byte(self.at)? & 0xf),
            Width::U8 => data.byte(self.at)?.into(),
            Width::U16 => u16::from_be_bytes(data.bytes(self.at)?).into(),
            Width::U32 => u32::from_be_bytes(data.bytes(self.at)?).into(),
            Width::U64 => u64::from_be_bytes(data.bytes(self.at)?),
        })
    }
}

impl PortFile for PmaFile {
    fn show(&self, port: Port<'_>, out: &mut Output<'_>) -> Result {
        let data = perf_mad::get(port, self.attribute)?;
        out.text(fmt!("{}\n", self.read(&data).ok_or(EINVAL)?));
        Ok(())
    }
}

/// What there is besides [`COMMON`], for a capability mask, if the device told one.
fn traffic(mask: Option<u16>) -> (&'static [Entry], &'static [Entry]) {
    match mask {
        Some(mask) if mask & CAP_WIDE != 0 => (&WIDE, &WIDE_BY_KIND),
        Some(mask) if mask & CAP_WIDE_NO_KIND != 0 => (&WIDE, &[]),
        _ => (&NARROW, &[]),
    }
}

/// The files of a port, if the device answers management datagrams.
pub(super) fn files(port: Port<'_>) -> Result<Option<PortGroup<PmaFile>>> {
    if port.device().ops().process_mad.is_none() {
        return Ok(None);
    }

    let mask = perf_mad::get(port, Attribute::ClassPortInfo)
        .ok()
        .and_then(|info| info.bytes(CAPABILITY_MASK))
        .map(u16::from_be_bytes);
    let (traffic, by_kind) = traffic(mask);
    let files = [&COMMON, traffic, by_kind]
        .into_iter()
        .flatten()
        .map(|(name, file)| (*name, Access::ReadOnly, *file));
    PortGroup::new(Some(c"counters"), files, static_lock_class!()).map(Some)
}

#[kunit_tests(rust_ib_core_sysfs_pma)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_choose_the_files() {
        let names = |mask| {
            let (traffic, by_kind) = traffic(mask);
            (traffic.len(), by_kind.len())
        };
        let width = |mask| traffic(mask).0.first().map(|(_, file)| file.attribute);

        assert_eq!(names(None), (4, 0));
        assert_eq!(names(Some(0)), (4, 0));
        assert_eq!(names(Some(CAP_WIDE_NO_KIND)), (4, 0));
        assert_eq!(names(Some(CAP_WIDE)), (4, 4));
        assert_eq!(names(Some(CAP_WIDE | CAP_WIDE_NO_KIND)), (4, 4));
        assert!(width(Some(0)) == Some(Attribute::PortCounters));
        assert!(width(Some(CAP_WIDE_NO_KIND)) == Some(Attribute::PortCountersExtended));
    }
}
