// SPDX-License-Identifier: GPL-2.0

//! Access to registered memory, by key.
//!
//! A key is looked up once and gives a [`Target`]: a reference to the region (and window), the
//! byte range and the right that were granted. A target does not keep the region from being
//! invalidated, re-registered or deregistered, and does not delay it: each copy takes the access
//! lock of window and region for its duration only, and asks first whether the grant still holds.
//! So when an invalidation returns, no byte is touched any more through it.
//!
//! Lock order: window, then region. Both may be taken in any context.

mod sleepers;

use crate::{
    mr::{
        MrCore,
        Use, //
    },
    mw::MwCore,
    pd::{
        PdId,
        QpId, //
    },
    wire::ext::Key, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cpu_memory::{
        Rmw,
        Sink, //
    },
    id_table::IdTable,
    mr::Access, //
};
pub(crate) use sleepers::{
    Sleeper,
    Sleepers, //
};

/// Indices of regions: 1 to 2^19.
pub(crate) const MR_FIRST: u32 = 1;
/// As [`MR_FIRST`].
pub(crate) const MR_LAST: u32 = 1 << 19;
/// Indices of windows: from 2^19 + 1 on.
pub(crate) const MW_FIRST: u32 = MR_LAST + 1;
/// As [`MW_FIRST`].
pub(crate) const MW_LAST: u32 = 1 << 20;

/// The low byte of a key, which the consumer of a registration may choose.
pub(crate) const KEY_TAG: u32 = 0xff;

/// Index of the region or window that a key names.
pub(crate) fn key_index(key: Key) -> u32 {
    key.0 >> KEY_TAG.count_ones()
}

/// The key of an index with the low byte `tag`.
pub(crate) fn key_of(index: u32, tag: u8) -> Key {
    Key(index << KEY_TAG.count_ones() | u32::from(tag))
}

/// Why memory cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Key, domain, rights or range do not allow it.
    Denied,
    /// It is allowed, but did not work: a page cannot be fetched, or the place is not aligned.
    Failed,
}

/// Who asks for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// Protection domain of the queue pair.
    pub(crate) pd: PdId,
    /// The queue pair.
    pub(crate) qp: QpId,
}

/// The regions and windows of a device.
pub(crate) struct Memory {
    pub(crate) regions: Arc<IdTable<MrCore>>,
    pub(crate) windows: Arc<IdTable<MwCore>>,
    /// Those whose use may sleep.
    pub(crate) sleepers: Arc<Sleepers>,
}

impl Memory {
    /// None. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            regions: IdTable::new(MR_FIRST..=MR_LAST)?,
            windows: IdTable::new(MW_FIRST..=MW_LAST)?,
            sleepers: Sleepers::new()?,
        })
    }

    /// The region that a key may name; whether it does is for the region to say.
    pub(crate) fn region(&self, key: Key) -> Option<Arc<MrCore>> {
        self.regions.get(key_index(key))
    }

    /// The window that a key may name.
    pub(crate) fn window(&self, key: Key) -> Option<Arc<MwCore>> {
        self.windows.get(key_index(key))
    }

    /// Access to `len` bytes at `va` for a request of the own queue pair.
    pub(crate) fn open_local(
        &self,
        pd: PdId,
        key: Key,
        va: u64,
        len: u32,
        need: Access,
    ) -> Result<Target, Fault> {
        let mr = self.region(key).ok_or(Fault::Denied)?;
        let target = Target {
            place: Place::Region(mr),
            grant: Use {
                key,
                pd,
                va,
                len: len.into(),
                need,
            },
        };
        target.check()?;
        Ok(target)
    }

    /// Access to `len` bytes at `va` for a peer.
    pub(crate) fn open_remote(
        &self,
        asker: Asker,
        key: Key,
        va: u64,
        len: u32,
        need: Access,
    ) -> Result<Target, Fault> {
        let target = if key_index(key) > MR_LAST {
            let mw = self.window(key).ok_or(Fault::Denied)?;
            Target {
                place: Place::Window(mw, asker.qp),
                grant: Use {
                    key,
                    pd: asker.pd,
                    va,
                    len: len.into(),
                    need,
                },
            }
        } else {
            return self.open_local(asker.pd, key, va, len, need);
        };
        target.check()?;
        Ok(target)
    }

    /// Access to all of a region or window, for a peer.
    pub(crate) fn open_whole(&self, asker: Asker, key: Key, need: Access) -> Result<Target, Fault> {
        let (va, len) = if key_index(key) > MR_LAST {
            self.window(key).and_then(|mw| mw.range(key))
        } else {
            self.region(key).and_then(|mr| mr.range(key))
        }
        .ok_or(Fault::Denied)?;
        let mut target = self.open_remote(asker, key, va, 0, need)?;
        target.grant.len = len;
        target.check()?;
        Ok(target)
    }

    /// Makes a key unusable: of a fast registration or of a window of type 2.
    pub(crate) fn invalidate(&self, asker: Asker, key: Key) -> Result<(), Fault> {
        if key_index(key) > MR_LAST {
            self.window(key)
                .ok_or(Fault::Denied)?
                .invalidate(asker, key)
        } else {
            self.region(key)
                .ok_or(Fault::Denied)?
                .invalidate(asker.pd, key)
        }
    }
}

enum Place {
    Region(Arc<MrCore>),
    Window(Arc<MwCore>, QpId),
}

/// A grant to access some bytes. Offsets count from its first byte.
pub(crate) struct Target {
    place: Place,
    grant: Use,
}

impl Target {
    fn check(&self) -> Result<(), Fault> {
        self.run::<fn(&[u8])>(0, self.grant.len, Work::Check)
            .map(|_| ())
    }

    /// Does `work` on `len` bytes from `at` on.
    fn run<S: Sink>(&self, at: u64, len: u64, work: Work<'_, S>) -> Result<u64, Fault> {
        let end = at.checked_add(len).ok_or(Fault::Denied)?;
        if end > self.grant.len {
            return Err(Fault::Denied);
        }
        let part = Use {
            va: self.grant.va.wrapping_add(at),
            len,
            ..self.grant
        };
        match &self.place {
            Place::Region(mr) => mr.run(&part, work),
            Place::Window(mw, qp) => mw.run(*qp, &part, work),
        }
    }

    /// Copies the bytes from `at` on, each piece also to `sink`.
    pub(crate) fn read(&self, at: u64, to: &mut [u8], sink: &mut impl Sink) -> Result<(), Fault> {
        let len = to.len() as u64;
        self.run(at, len, Work::Read(to, sink)).map(|_| ())
    }

    /// Copies to the bytes from `at` on.
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result<(), Fault> {
        self.run::<fn(&[u8])>(at, from.len() as u64, Work::Write(from))
            .map(|_| ())
    }

    /// Executes `op` on eight aligned bytes, atomic for everybody; returns the previous value.
    pub(crate) fn atomic(&self, at: u64, op: Rmw) -> Result<u64, Fault> {
        self.run::<fn(&[u8])>(at, 8, Work::Atomic(op))
    }

    /// Stores eight aligned bytes at once, after all that was written before.
    pub(crate) fn store(&self, at: u64, value: u64) -> Result<(), Fault> {
        self.run::<fn(&[u8])>(at, 8, Work::Store(value)).map(|_| ())
    }

    /// Makes what was written before persistent. [`Fault::Denied`] unless all of the memory is.
    pub(crate) fn persist(&self) -> Result<(), Fault> {
        self.run::<fn(&[u8])>(0, self.grant.len, Work::Persist)
            .map(|_| ())
    }
}

/// What to do with some bytes.
pub(crate) enum Work<'a, S> {
    /// See whether they may be accessed.
    Check,
    /// Copy them out, and show them to the sink.
    Read(&'a mut [u8], &'a mut S),
    /// Copy to them.
    Write(&'a [u8]),
    /// [`Target::atomic`]
    Atomic(Rmw),
    /// [`Target::store`]
    Store(u64),
    /// [`Target::persist`]
    Persist,
}
