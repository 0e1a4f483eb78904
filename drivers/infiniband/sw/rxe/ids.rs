// SPDX-License-Identifier: GPL-2.0

//! The numbers of objects, and the tables of all objects of a device that are found by number.

use crate::{
    ah::AhCore,
    mem::Memory,
    srq::SrqCore, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
pub(crate) use rdma::id_table::{
    IdTable,
    Published, //
};

/// Numbers of the other queue pairs, as many as the device says it has. The C driver's begin here
/// as well, as its management takes a number of them.
pub(crate) const QPN_FIRST: u32 = 17;
/// As [`QPN_FIRST`].
pub(crate) const QPN_LAST: u32 = 1 << 20;
/// Numbers of shared receive queues.
pub(crate) const SRQ_FIRST: u32 = 0x2_0001;
/// As [`SRQ_FIRST`].
pub(crate) const SRQ_LAST: u32 = 1 << 20;
/// Numbers of address handles; 0 stands for none.
pub(crate) const AH_FIRST: u32 = 1;
/// As [`AH_FIRST`].
pub(crate) const AH_LAST: u32 = (1 << 15) - 1;

/// A table of queue pairs. That of the management is taken with [`IdTable::reserve_at`].
pub(crate) fn queue_pairs<T: Send + Sync>() -> Result<Arc<IdTable<T>>> {
    IdTable::new(QPN_FIRST..=QPN_LAST)
}

/// The objects of a device, apart from queue pairs.
pub(crate) struct Tables {
    /// Regions and windows.
    pub(crate) memory: Memory,
    /// Address handles.
    pub(crate) ahs: Arc<IdTable<AhCore>>,
    /// Shared receive queues, which XRC packets name.
    pub(crate) srqs: Arc<IdTable<SrqCore>>,
}

impl Tables {
    /// All empty. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            memory: Memory::new()?,
            ahs: IdTable::new(AH_FIRST..=AH_LAST)?,
            srqs: IdTable::new(SRQ_FIRST..=SRQ_LAST)?,
        })
    }
}
