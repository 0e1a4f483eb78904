// SPDX-License-Identifier: GPL-2.0

//! Performance management datagrams (IBTA vol. 1, 16.1), from which the core also takes the port
//! counters that it shows.

use crate::counters::{
    Counter,
    Counters, //
};
use core::mem::offset_of;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::provider::{
    MadOutcome,
    MadReply,
    MadRequest, //
};

/// Bytes of a datagram.
type Mad = [u8; 256];

/// Offsets in the common header (13.4.2).
mod header {
    pub(super) const MGMT_CLASS: usize = 1;
    pub(super) const METHOD: usize = 3;
    pub(super) const STATUS: usize = 4;
    pub(super) const ATTR_ID: usize = 16;
}

/// Where the attribute starts: after the common header and 40 reserved bytes.
const DATA: usize = 64;

const CLASS_PERF: u8 = 0x04;
const METHOD_GET: u8 = 0x01;
const METHOD_GET_RESPONSE: u8 = 0x81;

const ATTR_CLASS_PORT_INFO: u16 = 0x0001;
const ATTR_PORT_COUNTERS: u16 = 0x0012;
const ATTR_PORT_COUNTERS_EXT: u16 = 0x001d;

/// The method is not supported.
const STATUS_METHOD: u16 = 2 << 2;
/// The method is not supported for the attribute.
const STATUS_METHOD_ATTR: u16 = 3 << 2;

/// ClassPortInfo: the wide counters are supported.
const CAP_EXT_WIDTH: u16 = 1 << 9;
/// Version of the class, and of the datagrams.
const VERSION: u8 = 1;

/// An answer in the making.
struct Answer<'a>(&'a mut Mad);

impl Answer<'_> {
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        let to = self.0.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
        if let Some(to) = to {
            *to = bytes;
        }
    }

    /// A field of the attribute.
    fn data<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.put(DATA.wrapping_add(at), bytes);
    }

    fn class_port_info(&mut self) {
        self.data(0, [VERSION, VERSION]);
        self.data(2, CAP_EXT_WIDTH.to_be_bytes());
    }

    /// The counters, which stop at all ones instead of wrapping (16.1.3.5).
    fn port_counters(&mut self, counters: &Counters) {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes();
        let downed = counters.get(Counter::LinkDowned);
        self.data(
            offset_of!(bindings::ib_pma_portcounters, link_downed_counter),
            [u8::try_from(downed).unwrap_or(u8::MAX)],
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters, port_xmit_data),
            narrow(words(counters.get(Counter::SentBytes))),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters, port_rcv_data),
            narrow(words(counters.get(Counter::ReceivedBytes))),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters, port_xmit_packets),
            narrow(counters.get(Counter::SentPackets)),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters, port_rcv_packets),
            narrow(counters.get(Counter::ReceivedPackets)),
        );
    }

    fn port_counters_ext(&mut self, counters: &Counters) {
        self.data(
            offset_of!(bindings::ib_pma_portcounters_ext, port_xmit_data),
            words(counters.get(Counter::SentBytes)).to_be_bytes(),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters_ext, port_rcv_data),
            words(counters.get(Counter::ReceivedBytes)).to_be_bytes(),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters_ext, port_xmit_packets),
            counters.get(Counter::SentPackets).to_be_bytes(),
        );
        self.data(
            offset_of!(bindings::ib_pma_portcounters_ext, port_rcv_packets),
            counters.get(Counter::ReceivedPackets).to_be_bytes(),
        );
    }
}

/// Bytes in the unit of the data counters.
fn words(bytes: u64) -> u64 {
    bytes / 4
}

/// Answers a datagram of performance management; others are passed.
pub(crate) fn process(
    counters: &Counters,
    request: &MadRequest<'_>,
    reply: &mut MadReply<'_>,
) -> MadOutcome {
    if request.port != 1 {
        return MadOutcome::Failed;
    }
    match answer(counters, request.mad) {
        Some(answer) => {
            *reply.mad = answer;
            MadOutcome::Replied
        }
        None => MadOutcome::Passed,
    }
}

fn answer(counters: &Counters, request: &Mad) -> Option<Mad> {
    let byte = |at: usize| request.get(at).copied().unwrap_or(0);
    let method = byte(header::METHOD);
    // Responses are not requests, whoever they are for.
    let is_response = method & (METHOD_GET_RESPONSE & !METHOD_GET) != 0;
    if byte(header::MGMT_CLASS) != CLASS_PERF || is_response {
        return None;
    }
    let attr = u16::from_be_bytes([byte(header::ATTR_ID), byte(header::ATTR_ID + 1)]);

    // Header, port and counter selection are those of the request.
    let mut mad = *request;
    let mut answer = Answer(&mut mad);
    answer.put(header::METHOD, [METHOD_GET_RESPONSE]);
    let status = match (method, attr) {
        (METHOD_GET, ATTR_CLASS_PORT_INFO) => {
            answer.class_port_info();
            0
        }
        (METHOD_GET, ATTR_PORT_COUNTERS) => {
            answer.port_counters(counters);
            0
        }
        (METHOD_GET, ATTR_PORT_COUNTERS_EXT) => {
            answer.port_counters_ext(counters);
            0
        }
        (METHOD_GET, _) => STATUS_METHOD_ATTR,
        _ => STATUS_METHOD,
    };
    answer.put(header::STATUS, status.to_be_bytes());
    Some(mad)
}

#[kunit_tests(rust_rxe_mad)]
mod tests {
    use super::*;

    fn request(class: u8, method: u8, attr: u16) -> Mad {
        let mut mad = [0; 256];
        mad[header::MGMT_CLASS] = class;
        mad[header::METHOD] = method;
        mad[header::ATTR_ID..header::ATTR_ID + 2].copy_from_slice(&attr.to_be_bytes());
        mad
    }

    #[test]
    fn counters_are_told() -> Result {
        let counters = Counters::new()?;
        counters.add(Counter::SentBytes, 4 * 0x1_2345_6789);
        counters.add(Counter::ReceivedPackets, 7);
        counters.add(Counter::LinkDowned, 300);
        let mad = answer(
            &counters,
            &request(CLASS_PERF, METHOD_GET, ATTR_PORT_COUNTERS_EXT),
        )
        .ok_or(EINVAL)?;
        assert_eq!(mad[header::METHOD], METHOD_GET_RESPONSE);
        assert_eq!(mad[DATA + 8..DATA + 16], 0x1_2345_6789u64.to_be_bytes());
        assert_eq!(mad[DATA + 32..DATA + 40], 7u64.to_be_bytes());

        let mad = answer(
            &counters,
            &request(CLASS_PERF, METHOD_GET, ATTR_PORT_COUNTERS),
        )
        .ok_or(EINVAL)?;
        assert_eq!(mad[DATA + 7], 0xff);
        assert_eq!(mad[DATA + 24..DATA + 28], [0xff; 4]);
        assert_eq!(mad[DATA + 36..DATA + 40], 7u32.to_be_bytes());

        let mad = answer(
            &counters,
            &request(CLASS_PERF, METHOD_GET, ATTR_CLASS_PORT_INFO),
        )
        .ok_or(EINVAL)?;
        assert_eq!(mad[DATA..DATA + 4], [1, 1, 2, 0]);
        Ok(())
    }

    #[test]
    fn what_is_unknown_is_said_so() -> Result {
        let counters = Counters::new()?;
        let status = |class, method, attr| {
            answer(&counters, &request(class, method, attr))
                .map(|mad| u16::from_be_bytes([mad[header::STATUS], mad[header::STATUS + 1]]))
        };
        assert_eq!(
            status(CLASS_PERF, METHOD_GET, 0x0015),
            Some(STATUS_METHOD_ATTR)
        );
        assert_eq!(
            status(CLASS_PERF, 0x02, ATTR_PORT_COUNTERS),
            Some(STATUS_METHOD)
        );
        assert_eq!(
            status(CLASS_PERF, METHOD_GET_RESPONSE, ATTR_PORT_COUNTERS),
            None
        );
        assert_eq!(status(0x01, METHOD_GET, ATTR_CLASS_PORT_INFO), None);
        Ok(())
    }
}
