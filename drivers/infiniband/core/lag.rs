// SPDX-License-Identifier: GPL-2.0

//! Which slave of a bond a RoCE v2 flow leaves through.
//!
//! The bond hashes the headers of a packet. Hardware behind it sends packets that the bond never
//! sees, so the bond is shown a frame with the headers that the flow will have, and the driver puts
//! the flow where the bond would.

use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        rcu, //
    }, //
};
use rdma::{
    ah::{
        AhAttr,
        AhType, //
    },
    device::Device,
    gfp::Gfp,
    gid::{
        Gid,
        GidType, //
    },
    net::{
        frame::{
            Frame,
            Offsets, //
        },
        netdev::Mac,
        NetDevice, //
    }, //
};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const IPPROTO_UDP: u8 = 17;

/// The UDP destination port of RoCE v2 (IBTA Annex A17).
const ROCE_V2_PORT: u16 = 4791;

/// The addresses of a flow.
struct Flow {
    source: Gid,
    destination: Gid,
    source_mac: Mac,
    destination_mac: Mac,
    label: u32,
}

/// The headers of the packets of a flow, up to UDP.
struct Headers {
    bytes: [u8; ETH_LEN + IPV6_LEN + UDP_LEN],
    len: usize,
    offsets: Offsets,
    protocol: u16,
}

impl Headers {
    fn push(&mut self, bytes: &[u8]) {
        let rest = self.bytes.iter_mut().skip(self.len);
        self.len = self.len.saturating_add(bytes.len());
        for (to, from) in rest.zip(bytes) {
            *to = *from;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// The UDP source port that stands for a flow label, from 0xc000 on: its upper 6 bits are folded
/// into the lower 14 (IBTA Annex A17).
fn source_port(label: u32) -> u16 {
    let folded = (label & 0x3fff) ^ ((label & 0xf_c000) >> 14);
    // At most 14 bits.
    folded as u16 | 0xc000
}

/// The IPv4 address in a GID that maps one (`::ffff:a.b.c.d`).
fn ipv4(gid: &Gid) -> Option<[u8; 4]> {
    match *gid.as_bytes() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
        _ => None,
    }
}

impl Flow {
    fn headers(&self) -> Headers {
        let to_ipv4 = ipv4(&self.destination);
        let (protocol, ip_len) = match to_ipv4 {
            Some(_) => (ETH_P_IP, IPV4_LEN),
            None => (ETH_P_IPV6, IPV6_LEN),
        };
        let mut headers = Headers {
            bytes: [0; ETH_LEN + IPV6_LEN + UDP_LEN],
            len: 0,
            offsets: Offsets {
                network: ETH_LEN as u8,
                transport: (ETH_LEN + ip_len) as u8,
            },
            protocol,
        };

        headers.push(&self.destination_mac);
        headers.push(&self.source_mac);
        headers.push(&protocol.to_be_bytes());
        match to_ipv4 {
            Some(destination) => {
                let [.., a, b, c, d] = *self.source.as_bytes();
                let len = (IPV4_LEN + UDP_LEN) as u16;
                // Version and length; service; total length; id; fragment; TTL; protocol; checksum.
                headers.push(&[0x45, 0]);
                headers.push(&len.to_be_bytes());
                headers.push(&[0, 0, 0, 0, 64, IPPROTO_UDP, 0, 0]);
                headers.push(&[a, b, c, d]);
                headers.push(&destination);
            }
            None => {
                let first = 6 << 28 | self.label & 0xf_ffff;
                let len = UDP_LEN as u16;
                headers.push(&first.to_be_bytes());
                headers.push(&len.to_be_bytes());
                headers.push(&[IPPROTO_UDP, 64]);
                headers.push(self.source.as_bytes());
                headers.push(self.destination.as_bytes());
            }
        }
        headers.push(&source_port(self.label).to_be_bytes());
        headers.push(&ROCE_V2_PORT.to_be_bytes());
        headers.push(&(UDP_LEN as u16).to_be_bytes());
        headers.push(&[0, 0]);
        headers
    }
}

/// The slave for the packets of an address vector, which has a source GID if it is a RoCE vector.
/// [`None`] if the choice is not to be made: not RoCE v2, no flow label, no bond, or a bond that
/// does not say.
///
/// # Errors
///
/// `EINVAL` or `ENODEV` if the source GID was deleted or has no network device, `ENOMEM`.
pub(crate) fn xmit_slave(
    device: &Device,
    attr: &AhAttr,
    gfp: Gfp,
) -> Result<Option<ARef<NetDevice>>> {
    let (AhType::Roce, Some(sgid), Some(destination_mac)) = (attr.kind(), attr.sgid(), attr.dmac())
    else {
        return Ok(None);
    };
    if sgid.gid_type() != GidType::RoceV2 || attr.flow_label() == 0 {
        return Ok(None);
    }

    let master: ARef<NetDevice> = {
        let guard = rcu::read_lock();
        sgid.ndev(&guard)?.into()
    };
    if !master.is_bond_master() {
        return Ok(None);
    }

    let (_, source_mac) = sgid.l2_fields()?;
    let headers = Flow {
        source: sgid.gid(),
        destination: attr.dgid(),
        source_mac,
        destination_mac,
        label: attr.flow_label(),
    }
    .headers();
    let mut frame = Frame::new(headers.as_bytes(), headers.offsets, headers.protocol, gfp)?;
    Ok(frame.xmit_slave(&master, device.hashes_all_slaves()))
}

#[kunit_tests(rust_ib_core_lag)]
mod tests {
    use super::*;

    fn flow(destination: [u8; 16]) -> Flow {
        Flow {
            source: Gid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]),
            destination: Gid::from_bytes(destination),
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            label: 0x1_2345,
        }
    }

    #[test]
    fn the_source_port_folds_the_label() {
        assert_eq!(source_port(0), 0xc000);
        assert_eq!(source_port(0x3fff), 0xffff);
        assert_eq!(source_port(0x4000), 0xc001);
        assert_eq!(source_port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
    }

    #[test]
    fn a_mapped_destination_makes_an_ipv4_frame() {
        let headers = flow([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]).headers();
        assert_eq!(headers.protocol, ETH_P_IP);
        assert_eq!(headers.as_bytes().len(), 42);
        assert_eq!(headers.as_bytes()[14], 0x45);
        assert_eq!(headers.as_bytes()[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(
            headers.as_bytes()[34..36],
            source_port(0x1_2345).to_be_bytes()
        );
        assert_eq!(headers.as_bytes()[36..38], ROCE_V2_PORT.to_be_bytes());
        let expected = Offsets {
            network: 14,
            transport: 34,
        };
        assert_eq!(headers.offsets, expected);
    }

    #[test]
    fn another_destination_makes_an_ipv6_frame() {
        let headers = flow([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]).headers();
        assert_eq!(headers.protocol, ETH_P_IPV6);
        assert_eq!(headers.as_bytes().len(), 62);
        assert_eq!(
            headers.as_bytes()[14..22],
            [0x60, 1, 0x23, 0x45, 0, 8, 17, 64]
        );
        assert_eq!(
            headers.as_bytes()[54..56],
            source_port(0x1_2345).to_be_bytes()
        );
    }
}
