// SPDX-License-Identifier: GPL-2.0

//! Refreshing what drivers report about a port.

use kernel::prelude::*;
use rdma::port::{PkeyTable, Port, PortAttr, PortState};

use super::gids;

/// What to ask for besides the state of the port.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Refresh {
    /// The GIDs, unless they come from network devices.
    pub(crate) gids: bool,
    /// The P_Keys.
    pub(crate) pkeys: bool,
}

impl Refresh {
    /// Everything.
    pub(crate) const ALL: Refresh = Refresh {
        gids: true,
        pkeys: true,
    };
}

/// Copies the GIDs of a port that is not RoCE. Returns the subnet prefix, that of GID 0.
fn refresh_gids(port: &Port<'_>, attr: &PortAttr) -> Result<Option<u64>> {
    let Some(table) = port.gid_table().filter(|_| port.can_query_gid()) else {
        return Ok(None);
    };
    let is_iwarp = port.caps().protocol_iwarp();
    let netdev = if is_iwarp { port.netdev() } else { None };
    let mut prefix = None;
    let mut writer = table.lock();
    for index in 0..attr.gid_tbl_len().min(table.len()) {
        let gid = port.query_gid(u16::try_from(index)?).inspect_err(|error| {
            dev_warn!(
                port.device().as_dev(),
                "query_gid failed ({}) for index {}\n",
                error.to_errno(),
                index
            );
        })?;
        if is_iwarp && netdev.is_none() {
            continue;
        }
        prefix.get_or_insert(gid.subnet_prefix());
        if let Err(error) = gids::mirror(port, &mut writer, index, &gid, netdev.as_deref()) {
            dev_warn!(
                port.device().as_dev(),
                "port {} GID index {} is not cached ({})\n",
                port.number(),
                index,
                error.to_errno()
            );
        }
    }
    Ok(prefix)
}

fn query_pkeys(port: &Port<'_>, len: u16) -> Result<PkeyTable> {
    let mut pkeys = KVec::with_capacity(usize::from(len), GFP_KERNEL)?;
    for index in 0..len {
        let pkey = port.query_pkey(index).inspect_err(|error| {
            dev_warn!(
                port.device().as_dev(),
                "ib_query_pkey failed ({}) for index {}\n",
                error.to_errno(),
                index
            );
        })?;
        pkeys.push(pkey.0, GFP_KERNEL)?;
    }
    Ok(PkeyTable::new(pkeys))
}

/// Asks the driver and stores the answers, all or none but GIDs. One task at a time, so that what
/// is stored last is what was asked last. May sleep and take RTNL.
pub(crate) fn refresh(port: &Port<'_>, what: Refresh) -> Result {
    let table = port.gid_table();
    let _turn = table.as_ref().map(|table| table.begin_refresh());
    let attr = port.query().inspect_err(|error| {
        dev_warn!(
            port.device().as_dev(),
            "ib_query_port failed ({})\n",
            error.to_errno()
        );
    })?;
    let mut prefix = attr.subnet_prefix();
    if what.gids && !port.caps().protocol_roce() {
        prefix = refresh_gids(port, &attr)?.unwrap_or(prefix);
    }
    let cache = port.cache();
    if what.pkeys && attr.pkey_tbl_len() != 0 {
        cache.set_pkeys(query_pkeys(port, attr.pkey_tbl_len())?)?;
    }
    cache.set_lmc(attr.lmc());
    cache.set_subnet_prefix(prefix);

    let old = cache.replace_state(attr.state());
    if old != PortState::NOP && old != attr.state() {
        port.info(fmt!(
            "Port: {} Link {}\n",
            port.number(),
            attr.state().name()
        ));
    }
    Ok(())
}

#[kunit_tests(rust_ib_core_cache_ports)]
mod tests {
    use super::*;
    use rdma::gid::{Gid, GidType};
    use rdma::port::Pkey;

    fn table(pkeys: &[u16]) -> Result<PkeyTable> {
        let mut list = KVec::new();
        list.extend_from_slice(pkeys, GFP_KERNEL)?;
        Ok(PkeyTable::new(list))
    }

    #[test]
    fn full_members_are_preferred() -> Result {
        let pkeys = table(&[0x0001, 0x7fff, 0xffff, 0x0001, 0x8002])?;
        assert!(pkeys.find(Pkey(0x7fff)) == Some(2));
        assert!(pkeys.find(Pkey(0x8001)) == Some(3));
        assert!(pkeys.find(Pkey(0x0002)) == Some(4));
        assert!(pkeys.find(Pkey(0x0003)).is_none());
        assert!(pkeys.get(4) == Some(Pkey(0x8002)));
        assert!(pkeys.get(5).is_none());
        Ok(())
    }

    #[test]
    fn names_of_gid_types_are_those_of_sysfs() {
        assert!(GidType::from_name(b"IB/RoCE v1") == Some(GidType::Ib));
        assert!(GidType::from_name(b"RoCE v2") == Some(GidType::RoceV2));
        for bad in [&b""[..], b"RoCE v", b"RoCE v22", b"roce v2"] {
            assert!(GidType::from_name(bad).is_none());
        }
    }

    #[test]
    fn ipv4_addresses_are_mapped() {
        let gid = Gid::from(core::net::IpAddr::from([10, 9, 0, 1]));
        assert!(gid.subnet_prefix() == 0);
        assert!(gid.interface_id() == 0x0000_ffff_0a09_0001);
        assert!(Gid::link_local([0; 8]).subnet_prefix() == 0xfe80_0000_0000_0000);
    }
}
