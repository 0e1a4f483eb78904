// SPDX-License-Identifier: GPL-2.0

//! Protection domains: nothing but an identity.

use crate::device::Rxe;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};
use rdma::provider::{
    Device,
    NewPd,
    PdOps,
    Udata, //
};

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
}

impl Pd {
    /// Its identity.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }
}

#[vtable]
impl PdOps<Rxe> for Pd {
    type OwnerModule = crate::LocalModule;

    fn alloc(
        _device: &Device<Rxe>,
        _pd: NewPd<'_>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Ok::<_, Error>(Self { id: PdId::new() })
    }
}

/// The identity of a protection domain. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

/// The identity of a queue pair, as far as windows care. Never used again for another one, unlike
/// queue pair numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpId(u64);

/// The identity of an XRC domain. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XrcdId(u64);

/// The next identity. A count of 64 bits does not wrap.
static NEXT: Atomic<i64> = Atomic::new(1);

fn next() -> u64 {
    NEXT.fetch_add(1, Relaxed) as u64
}

impl PdId {
    /// A new identity.
    pub(crate) fn new() -> Self {
        Self(next())
    }
}

impl XrcdId {
    /// A new identity.
    pub(crate) fn new() -> Self {
        Self(next())
    }
}

impl QpId {
    /// A new identity.
    pub(crate) fn new() -> Self {
        Self(next())
    }
}
