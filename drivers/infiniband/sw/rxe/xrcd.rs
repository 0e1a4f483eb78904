// SPDX-License-Identifier: GPL-2.0

//! XRC domains (IBTA vol. 1, annex A14): nothing but an identity, which targets and the shared
//! receive queues that they may be asked for have in common.

use crate::{
    device::Rxe,
    pd::XrcdId, //
};
use kernel::prelude::*;
use rdma::provider::{
    Device,
    NewXrcd,
    Udata,
    XrcdOps, //
};

/// An XRC domain.
pub(crate) struct Xrcd {
    id: XrcdId,
}

impl Xrcd {
    /// Its identity.
    pub(crate) fn id(&self) -> XrcdId {
        self.id
    }
}

#[vtable]
impl XrcdOps<Rxe> for Xrcd {
    type OwnerModule = crate::LocalModule;

    fn alloc(
        _device: &Device<Rxe>,
        _xrcd: NewXrcd<'_>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Ok::<_, Error>(Self { id: XrcdId::new() })
    }
}
