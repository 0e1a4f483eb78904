// SPDX-License-Identifier: GPL-2.0

//! What a port counts.

use kernel::{
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The counters, in the order in which tools see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    /// Packets sent.
    SentPackets,
    /// Packets received.
    ReceivedPackets,
    /// Requests that came again.
    DuplicateRequest,
    /// Requests that came too early.
    OutOfSequence,
    /// RNR NAKs received.
    ReceivedRnr,
    /// RNR NAKs sent.
    SentRnr,
    /// Sequence error NAKs received.
    ReceivedSequenceError,
    /// Acknowledgements that were put off.
    AckDeferred,
    /// Requests given up for lack of an answer.
    RetryExceeded,
    /// Requests given up because the receiver was not ready.
    RnrRetryExceeded,
    /// Requests sent again.
    CompleterRetry,
    /// Packets that could not be sent.
    SendError,
    /// Times that the link went down.
    LinkDowned,
    /// Messages sent.
    RdmaSends,
    /// Messages received.
    RdmaReceives,
    /// Bytes sent.
    SentBytes,
    /// Bytes received.
    ReceivedBytes,
}

/// Number of counters.
pub(crate) const COUNT: usize = Counter::ReceivedBytes as usize + 1;

/// Names of the counters, as tools know them.
pub(crate) const NAMES: [&CStr; COUNT] = [
    c"sent_pkts",
    c"rcvd_pkts",
    c"duplicate_request",
    c"out_of_seq_request",
    c"rcvd_rnr_err",
    c"send_rnr_err",
    c"rcvd_seq_err",
    c"ack_deferred",
    c"retry_exceeded_err",
    c"retry_rnr_exceeded_err",
    c"completer_retry_err",
    c"send_err",
    c"link_downed",
    c"rdma_sends",
    c"rdma_recvs",
    c"sent_bytes",
    c"rcvd_bytes",
];

/// The counters of one CPU. Whole cache lines, so that CPUs do not disturb each other.
#[repr(C, align(64))]
struct Shard([Atomic<i64>; COUNT]);

/// The counters of a port. The sum over CPUs is taken when somebody asks.
pub(crate) struct Counters {
    shards: KVVec<Shard>,
}

impl Counters {
    /// All zero. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let cpus = nr_cpu_ids() as usize;
        let mut shards = KVVec::with_capacity(cpus, GFP_KERNEL)?;
        for _ in 0..cpus {
            shards.push(Shard([const { Atomic::new(0) }; COUNT]), GFP_KERNEL)?;
        }
        Ok(Self { shards })
    }

    /// Counts `n` more. Any context.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        // Only a hint where to count: any place is right, and the addition is atomic.
        let cpu = CpuId::current().as_u32() as usize;
        if let Some(shard) = self.shards.get(cpu) {
            if let Some(value) = shard.0.get(counter as usize) {
                value.add(n as i64, Relaxed);
            }
        }
    }

    /// The value of a counter.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.sum(counter as usize)
    }

    /// The values of all, in order.
    pub(crate) fn values(&self) -> [u64; COUNT] {
        core::array::from_fn(|i| self.sum(i))
    }

    fn sum(&self, index: usize) -> u64 {
        self.shards
            .iter()
            .filter_map(|shard| shard.0.get(index))
            .fold(0, |sum, value| sum.wrapping_add(value.load(Relaxed) as u64))
    }
}

#[kunit_tests(rust_rxe_counters)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_kept_apart() -> Result {
        let counters = Counters::new()?;
        for _ in 0..100 {
            counters.add(Counter::SentPackets, 1);
            counters.add(Counter::ReceivedBytes, 1 << 33);
        }
        assert_eq!(counters.get(Counter::SentPackets), 100);
        assert_eq!(counters.get(Counter::ReceivedBytes), 100 << 33);
        assert_eq!(
            counters
                .values()
                .iter()
                .filter(|value| **value != 0)
                .count(),
            2
        );
        Ok(())
    }
}
