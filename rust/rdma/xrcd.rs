// SPDX-License-Identifier: GPL-2.0

//! XRC domains (`struct ib_xrcd`) and the target queue pairs that they share.

use crate::{
    device::Device,
    gfp::Gfp,
    object::{c_object, driver_op, DriverObject, Object},
    qp::Qp,
    rwsem::{ReadGuard, RwSem, WriteGuard},
    udata::Udata,
    usecnt::UseCount,
    xarray::{Kind, Xa},
};
use core::ptr::NonNull;
use kernel::{bindings, error::to_result, prelude::*};

c_object! {
    /// An XRC domain.
    pub struct Xrcd(ib_xrcd);
}

c_object! {
    /// The file that a domain is attached to.
    pub struct Inode(inode);
}

// SAFETY: Transparent over `ib_xrcd`, which is valid when zeroed until `set_up`.
unsafe impl DriverObject for Xrcd {
    type Raw = bindings::ib_xrcd;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_xrcd
    }
}

impl Xrcd {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Uses by shared receive queues and target queue pairs.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    fn table(&self) -> &Xa<Qp> {
        // SAFETY: Initialised by `set_up`; only queue pairs are stored.
        unsafe { Xa::from_raw(&raw mut (*self.as_raw()).tgt_qps) }
    }

    fn lock(&self) -> &RwSem {
        // SAFETY: Initialised by `set_up`.
        unsafe { RwSem::from_raw(&raw mut (*self.as_raw()).tgt_qps_rwsem) }
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up(&self, device: &Device, inode: Option<&Inode>) {
        let xrcd = self.as_raw();
        // SAFETY: The creator has the object for itself; name and class are static.
        unsafe {
            (*xrcd).device = device.as_raw();
            (*xrcd).inode = inode.map_or(core::ptr::null_mut(), Inode::as_raw);
            bindings::__init_rwsem(
                &raw mut (*xrcd).tgt_qps_rwsem,
                c"&xrcd->tgt_qps_rwsem".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            Xa::<Qp>::init_raw(&raw mut (*xrcd).tgt_qps, Kind::Plain);
        }
    }

    /// The target queue pairs; none of them is destroyed meanwhile. Sleeps.
    pub fn targets(&self) -> Targets<'_> {
        Targets {
            xrcd: self,
            _held: self.lock().read(),
        }
    }

    /// The target queue pairs, to close one. Sleeps.
    pub fn targets_mut(&self) -> TargetsMut<'_> {
        TargetsMut {
            xrcd: self,
            _held: self.lock().write(),
        }
    }

    /// Makes a target queue pair available to others: from success on it is the table's, which
    /// keeps it until [`TargetsMut::take_unused`]. Sleeps.
    pub fn add_target(&self, qp: &Qp) -> Result {
        self.table()
            .store(qp.number() as usize, NonNull::from(qp), Gfp::KERNEL)?;
        Ok(())
    }

    /// Whether no target queue pair is left.
    pub fn has_no_targets(&self) -> bool {
        self.table().is_empty()
    }

    /// Asks the driver to set up its part.
    pub fn driver_alloc(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), alloc_xrcd(self.as_raw(), udata))?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_dealloc(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(
            self.device(),
            dealloc_xrcd(self.as_raw(), udata)
        )?)
    }
}

/// Shared view of the target queue pairs of a domain.
pub struct Targets<'a> {
    xrcd: &'a Xrcd,
    _held: ReadGuard<'a>,
}

impl Targets<'_> {
    /// The queue pair of this number.
    pub fn get(&self, number: u32) -> Option<&Qp> {
        let qp = self.xrcd.table().load(number as usize)?;
        // SAFETY: A stored queue pair is live until it is removed, which needs the lock for
        // writing.
        Some(unsafe { qp.as_ref() })
    }
}

/// Exclusive view of the target queue pairs of a domain.
pub struct TargetsMut<'a> {
    xrcd: &'a Xrcd,
    _held: WriteGuard<'a>,
}

impl TargetsMut<'_> {
    /// Takes the queue pair of this number out of the table, if nobody has a handle on it.
    pub fn take_unused(&mut self, number: u32) -> Option<Object<Qp>> {
        let table = self.xrcd.table();
        let qp = table.load(number as usize)?;
        // SAFETY: A stored queue pair is live until it is removed.
        unsafe { qp.as_ref() }.uses().check_idle().ok()?;
        table.erase(number as usize);
        // SAFETY: The table owned the queue pair, and no handle leads to it any more.
        Some(unsafe { Object::from_raw(qp.as_ptr().cast()) })
    }
}
