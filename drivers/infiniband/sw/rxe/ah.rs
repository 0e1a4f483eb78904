// SPDX-License-Identifier: GPL-2.0

//! Address handles.
//!
//! User space names a handle by a number in its requests, so handles are found by number. What is
//! found is constant: a handle that is modified gets other content, and requests that are under way
//! go where the handle pointed to when they were taken. So a handle can be destroyed in any context
//! without waiting for anybody.

use crate::{
    abi,
    av::Av,
    device::{
        Rxe,
        Shared, //
    },
    ids::Published,
    pd::PdId, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    ah::{
        AhAttr,
        Sleepable, //
    },
    gfp::Gfp,
    provider::{
        self,
        AhOps,
        NewAh,
        Udata, //
    }, //
};

/// What requests need of a handle.
pub(crate) struct AhCore {
    pd: PdId,
    av: Av,
}

impl AhCore {
    /// The domain of the handle.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }
}

/// Where a datagram goes.
pub(crate) enum Destination {
    /// Where a handle pointed to when the request was taken.
    Handle(Arc<AhCore>),
    /// Where the request itself says.
    Inline(Av),
}

impl Destination {
    /// From a request of an old library; `None` if it makes no sense.
    pub(crate) fn of_user(av: &abi::Av) -> Option<Self> {
        Av::from_user(av).map(Self::Inline)
    }

    /// The address vector.
    pub(crate) fn av(&self) -> &Av {
        match self {
            Self::Handle(ah) => &ah.av,
            Self::Inline(av) => av,
        }
    }
}

struct State {
    core: Arc<AhCore>,
    attr: AhAttr,
}

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    #[pin]
    state: SpinLockIrq<State>,
    published: Published<AhCore>,
}

impl Ah {
    /// What requests that are posted now need of it.
    pub(crate) fn inner(&self) -> Arc<AhCore> {
        self.state.lock().core.clone()
    }
}

#[vtable]
impl AhOps<Rxe> for Ah {
    type OwnerModule = crate::LocalModule;

    const USER: bool = true;

    fn create(
        device: &provider::Device<Rxe>,
        ah: NewAh<'_>,
        attr: &AhAttr,
        sleepable: Sleepable,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        let pd = ah.pd(device).id();
        let make = move || {
            let gfp = sleepable.gfp();
            let av = Av::from_attr(attr)?;
            let core = Arc::new(AhCore { pd, av }, gfp.flags())?;
            let slot = Shared::of(device).objects.ahs.reserve(gfp)?;
            let published = slot.publish(core.clone(), gfp)?;
            let attr = attr.duplicate();
            Ok::<_, Error>((State { core, attr }, published))
        };
        pin_init::pin_init_scope(move || {
            let (state, published) = make()?;
            Ok(try_pin_init!(Self {
                state <- new_spinlock_irq!(state, "rxe_ah"),
                published,
            }? Error))
        })
    }

    fn created(this: &provider::Ah<Rxe>, udata: Udata<'_>) -> Result {
        // Old libraries expect no answer, and put the vector into each request.
        if udata.output_len() < size_of::<abi::AhResponse>() {
            return Ok(());
        }
        udata.respond(&abi::AhResponse {
            ah_num: this.published.id(),
            reserved: 0,
        })
    }

    fn modify(this: &provider::Ah<Rxe>, attr: &AhAttr) -> Result {
        let av = Av::from_attr(attr)?;
        let pd = this.state.lock().core.pd;
        let core = Arc::new(AhCore { pd, av }, GFP_KERNEL)?;
        this.published.replace(core.clone(), Gfp::KERNEL)?;
        let attr = attr.duplicate();
        let old = core::mem::replace(&mut *this.state.lock(), State { core, attr });
        drop(old);
        Ok(())
    }

    fn query(this: &provider::Ah<Rxe>, attr: &mut AhAttr) -> Result {
        attr.copy_from(&this.state.lock().attr);
        Ok(())
    }
}
