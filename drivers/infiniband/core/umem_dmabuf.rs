// SPDX-License-Identifier: GPL-2.0

//! Regions in dma-bufs, for devices that need them pinned.

use kernel::prelude::*;
use rdma::umem_dmabuf::OwnedDmaBufUmem;

/// Whether a caller gets a region with the reservation lock held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Held, so that the caller can complete the region before the exporter can revoke it.
    Yes,
    /// Released.
    No,
}

/// Pins and maps a region that has just been attached. May sleep.
///
/// A region that cannot be had is taken back in whole.
pub(crate) fn pin(umem: OwnedDmaBufUmem, locked: Locked) -> Result<OwnedDmaBufUmem> {
    let guard = umem.lock();
    let done = guard.pin_and_map();
    match (done, locked) {
        (Ok(()), Locked::Yes) => guard.keep(),
        (Ok(()), Locked::No) => drop(guard),
        (Err(e), _) => {
            // Released before the region is: ending it takes the lock.
            drop(guard);
            return Err(e);
        }
    }
    Ok(umem)
}
