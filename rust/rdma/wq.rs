// SPDX-License-Identifier: GPL-2.0

//! Receive work queues of RSS queue pairs (`struct ib_wq`). Their memory is the driver's.

use crate::{
    cq::Cq,
    device::Device,
    object::{c_object, driver_op},
    pd::Pd,
    udata::Udata,
    usecnt::UseCount,
};
use core::ptr;
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
};

c_object! {
    /// A receive work queue.
    pub struct Wq(ib_wq);
}

/// What a consumer asks for.
#[repr(transparent)]
pub struct WqInitAttr(bindings::ib_wq_init_attr);

impl WqInitAttr {
    /// Takes the request of a consumer.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, nobody else may use it meanwhile, and its completion queue
    /// must be a live one of the same device.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_wq_init_attr) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// The completion queue.
    pub fn cq(&self) -> Option<&Cq> {
        // SAFETY: Null or live by the contract of `from_raw`.
        (!self.0.cq.is_null()).then(|| unsafe { Cq::from_raw(self.0.cq) })
    }
}

impl Wq {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Uses by indirection tables.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    /// Use counts of the protection domain and the completion queue, which outlive this queue.
    pub fn holdings<'a>(&self) -> (&'a UseCount, &'a UseCount) {
        // SAFETY: Both are live, as this queue keeps them in use until its destroyer gives
        // these uses back.
        unsafe {
            let wq = self.as_raw();
            (
                UseCount::from_raw(&raw mut (*(*wq).pd).usecnt),
                UseCount::from_raw(&raw mut (*(*wq).cq).usecnt),
            )
        }
    }

    /// Asks the driver for a queue, and fills in what is the core's.
    pub fn driver_create<'a>(pd: &'a Pd, attr: &mut WqInitAttr) -> Result<&'a Self> {
        let wq = from_err_ptr(driver_op!(
            pd.device(),
            create_wq(pd.as_raw(), &mut attr.0, ptr::null_mut())
        )?)?;
        // SAFETY: The driver returned a new queue, which nobody else has yet.
        unsafe {
            (*wq).event_handler = attr.0.event_handler;
            (*wq).wq_context = attr.0.wq_context;
            (*wq).wq_type = attr.0.wq_type;
            (*wq).cq = attr.0.cq;
            (*wq).device = pd.device().as_raw();
            (*wq).pd = pd.as_raw();
            (*wq).uobject = ptr::null_mut();
            bindings::atomic_set(&raw mut (*wq).usecnt, 0);
            Ok(Self::from_raw(wq))
        }
    }

    /// Asks the driver to destroy the queue. It must not be used after success.
    pub fn driver_destroy(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), destroy_wq(self.as_raw(), udata))?)
    }
}
