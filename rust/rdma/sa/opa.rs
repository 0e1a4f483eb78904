// SPDX-License-Identifier: GPL-2.0

//! Omni-Path addresses in InfiniBand records: 32-bit LIDs, which GIDs can carry.
//!
//! C header: [`include/rdma/opa_addr.h`](srctree/include/rdma/opa_addr.h)

use crate::gid::Gid;
use kernel::bindings;

/// What the upper 24 bits of the interface id of a GID with a LID are.
const OUI: u64 = 0x00066a;
/// The first LID that no unicast destination of InfiniBand has.
const IB_MULTICAST_BASE: u32 = 0xc000;

/// One end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) gid: Gid,
    pub(super) lid: u32,
}

/// Both ends of a path.
pub(super) struct Ends {
    pub(super) source: End,
    pub(super) destination: End,
}

/// The bytes of a GID.
pub(super) fn bytes(gid: &bindings::ib_gid) -> [u8; 16] {
    *crate::pack::gid_bytes(gid)
}

fn with_lid(end: End) -> End {
    let [a, b, c, d, e, f, g, h] = end.gid.subnet_prefix().to_be_bytes();
    let [i, j, k, l, m, n, o, p] = (OUI << 40 | u64::from(end.lid)).to_be_bytes();
    End {
        gid: Gid::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]),
        lid: 0,
    }
}

/// The ends in the InfiniBand form: if one LID is too large for that, both are in the GIDs.
pub(super) fn to_ib(source: End, destination: End) -> Ends {
    if source.lid >= IB_MULTICAST_BASE || destination.lid >= IB_MULTICAST_BASE {
        Ends {
            source: with_lid(source),
            destination: with_lid(destination),
        }
    } else {
        Ends {
            source,
            destination,
        }
    }
}

/// The LID of an end of a path in the InfiniBand form: that in its GID, or else `lid`.
pub(super) fn lid_of(gid: Gid, lid: u16) -> u32 {
    let id = gid.interface_id();
    if id >> 40 == OUI {
        // The lower half.
        id as u32
    } else {
        lid.into()
    }
}

#[kernel::prelude::kunit_tests(rust_rdma_sa_opa)]
mod tests {
    use super::*;

    fn end(lid: u32) -> End {
        let mut gid = [0; 16];
        gid[0] = 0xfe;
        gid[1] = 0x80;
        gid[15] = 7;
        End {
            gid: Gid::from_bytes(gid),
            lid,
        }
    }

    #[test]
    fn small_lids_stay_where_they_are() {
        let ends = to_ib(end(1), end(0xbfff));
        assert!(ends.source == end(1));
        assert!(ends.destination == end(0xbfff));
        assert_eq!(lid_of(end(0).gid, 0xbfff), 0xbfff);
    }

    #[test]
    fn a_large_lid_moves_both_into_the_gids() {
        let ends = to_ib(end(1), end(0x0012_c000));
        assert_eq!(ends.source.lid, 0);
        assert_eq!(ends.destination.lid, 0);
        assert_eq!(lid_of(ends.source.gid, 9), 1);
        assert_eq!(lid_of(ends.destination.gid, 9), 0x0012_c000);
        assert_eq!(ends.destination.gid.subnet_prefix(), 0xfe80 << 48);
    }

    #[test]
    fn each_end_is_looked_at_by_itself() {
        let far = to_ib(end(1), end(0xc000)).destination.gid;
        assert_eq!(lid_of(far, 0), 0xc000);
        assert_eq!(lid_of(end(0).gid, 3), 3);
    }
}
