// SPDX-License-Identifier: GPL-2.0

//! Objects that have little to do: protection domains, address handles, XRC domains.

use super::{
    device::{Fake, State},
    fabric,
    ops::Op,
};
use kernel::{
    prelude::*,
    sync::{new_spinlock_irq, Arc, SpinLockIrq},
};
use rdma::{
    ah::{AhAttr, Sleepable},
    provider::{Ah, AhOps, Device, NewAh, NewPd, NewXrcd, Pd, PdOps, Udata, Xrcd, XrcdOps},
};

/// Counts an object of a device as long as it exists.
pub(crate) struct Counted {
    pub(crate) state: Arc<State>,
    by: Op,
}

impl Counted {
    pub(crate) fn new(device: &Device<Fake>, by: Op) -> Self {
        device.state.made(by);
        Self {
            state: device.state.clone(),
            by,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.state.gone(self.by);
    }
}

/// A protection domain.
pub(crate) struct FakePd {
    /// Tells domains from one another, also after their end.
    pub(crate) id: u32,
    _counted: Counted,
}

impl FakePd {
    fn new(device: &Device<Fake>) -> Result<Self> {
        device.state.script.enter(Op::ALLOC_PD, [0; 3])?;
        Ok(Self {
            id: fabric::next_id(),
            _counted: Counted::new(device, Op::ALLOC_PD),
        })
    }
}

#[vtable]
impl PdOps<Fake> for FakePd {
    fn alloc(
        device: &Device<Fake>,
        _pd: NewPd<'_>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device)
    }

    fn dealloc(this: &Pd<Fake>, _udata: Udata<'_>) -> Result {
        this.device()
            .state
            .script
            .enter(Op::DEALLOC_PD, [this.id.into(), 0, 0])
    }
}

/// An address handle.
#[pin_data]
pub(crate) struct FakeAh {
    #[pin]
    attr: SpinLockIrq<AhAttr>,
    _counted: Counted,
}

impl FakeAh {
    /// Looks at the address.
    pub(crate) fn with_attr<R>(&self, look: impl FnOnce(&AhAttr) -> R) -> R {
        look(&self.attr.lock())
    }
}

#[vtable]
impl AhOps<Fake> for FakeAh {
    fn create(
        device: &Device<Fake>,
        _ah: NewAh<'_>,
        attr: &AhAttr,
        _sleepable: Sleepable,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let args = [attr.port().into(), attr.dlid().into(), 0];
            device.state.script.enter(Op::CREATE_AH, args)?;
            let counted = Counted::new(device, Op::CREATE_AH);
            let attr = attr.duplicate();
            Ok::<_, Error>(try_pin_init!(Self {
                attr <- new_spinlock_irq!(attr),
                _counted: counted,
            }? Error))
        })
    }

    fn modify(this: &Ah<Fake>, attr: &AhAttr) -> Result {
        let args = [attr.port().into(), attr.dlid().into(), 0];
        this.device().state.script.enter(Op::MODIFY_AH, args)?;
        let old = core::mem::replace(&mut *this.attr.lock(), attr.duplicate());
        drop(old);
        Ok(())
    }

    fn query(this: &Ah<Fake>, attr: &mut AhAttr) -> Result {
        this.device().state.script.enter(Op::QUERY_AH, [0; 3])?;
        attr.copy_from(&this.attr.lock());
        Ok(())
    }

    fn destroy(this: &Ah<Fake>, _sleepable: Sleepable) -> Result {
        this.device().state.script.enter(Op::DESTROY_AH, [0; 3])
    }
}

/// An XRC domain.
pub(crate) struct FakeXrcd {
    _counted: Counted,
}

impl FakeXrcd {
    fn new(device: &Device<Fake>) -> Result<Self> {
        device.state.script.enter(Op::ALLOC_XRCD, [0; 3])?;
        Ok(Self {
            _counted: Counted::new(device, Op::ALLOC_XRCD),
        })
    }
}

#[vtable]
impl XrcdOps<Fake> for FakeXrcd {
    fn alloc(
        device: &Device<Fake>,
        _xrcd: NewXrcd<'_>,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device)
    }

    fn dealloc(this: &Xrcd<Fake>, _udata: Udata<'_>) -> Result {
        this.device().state.script.enter(Op::DEALLOC_XRCD, [0; 3])
    }
}
