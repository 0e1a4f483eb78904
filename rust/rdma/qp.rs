// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (`struct ib_qp`).

use crate::{
    ah::owned,
    async_event::{Event, EventHandler},
    completion::Completion,
    cq::Cq,
    device::Device,
    gid::{Gid, GidAttr},
    object::{c_object, driver_op, DriverObject, Object, TrackedObject},
    pd::Pd,
    spinlock::CSpinLock,
    srq::Srq,
    udata::Udata,
    usecnt::UseCount,
    xarray::{Kind, Mark, Xa},
    xrcd::Xrcd,
};
use core::{ffi::c_void, ptr};
use kernel::{bindings, error::to_result, prelude::*, sync::aref::ARef};

mod attr;
mod params;

pub use attr::{transition, QpCap, QpState};
pub use params::{AttrMask, QpAttr, QpInitAttr, QpOpenAttr, QpType};

c_object! {
    /// A queue pair, or a handle by which one more user of an XRC target shares it.
    pub struct Qp(ib_qp);
}

c_object! {
    /// The user object of a queue pair.
    pub struct UserQp(ib_uqp_object);
}

c_object! {
    /// A table of receive work queues.
    pub struct IndirectionTable(ib_rwq_ind_table);
}

// SAFETY: Transparent over `ib_qp`, which is valid when zeroed until `set_up`.
unsafe impl DriverObject for Qp {
    type Raw = bindings::ib_qp;

    fn driver_size(device: &Device) -> usize {
        device.ops().size_ib_qp
    }
}

// SAFETY: `res` is the entry of a queue pair.
unsafe impl TrackedObject for Qp {
    const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_QP;

    fn tracker_entry(&self) -> *mut bindings::rdma_restrack_entry {
        // SAFETY: The object is valid; no reference is made.
        unsafe { &raw mut (*self.as_raw()).res }
    }
}

impl IndirectionTable {
    /// Uses by queue pairs.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }
}

/// What the core does with the events of a queue pair.
pub trait QpEvents {
    /// Handles an event of `qp`, the queue pair that the driver knows. Any context.
    fn on_event(qp: &Qp, event: &mut Event);
}

/// The shared handles on an XRC target, under their lock.
pub struct Handles<'a> {
    target: &'a Qp,
    _held: crate::spinlock::CSpinLockGuard<'a>,
}

impl Handles<'_> {
    /// Calls `f` with each handle, the latest first. Interrupts are off.
    pub fn for_each(&self, mut f: impl FnMut(&Qp)) {
        // SAFETY: The list was initialised when the target was created, its elements are live
        // handles linked by `open_list`, and the lock is held.
        unsafe {
            let head = &raw mut (*self.target.as_raw()).open_list;
            let mut node = (*head).next;
            while !ptr::eq(node, head) {
                let handle = kernel::container_of!(node, bindings::ib_qp, open_list);
                node = (*node).next;
                f(Qp::from_raw(handle));
            }
        }
    }

    fn add(&self, handle: &Qp) {
        // SAFETY: As above; the handle is not on a list yet.
        unsafe {
            bindings::list_add(
                &raw mut (*handle.as_raw()).open_list,
                &raw mut (*self.target.as_raw()).open_list,
            );
        }
    }

    fn remove(&self, handle: &Qp) {
        // SAFETY: The handle is on the list of the target, whose lock is held.
        unsafe { bindings::list_del(&raw mut (*handle.as_raw()).open_list) };
    }
}

impl Qp {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Set at creation; the device outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The protection domain; XRC targets have none.
    pub fn pd(&self) -> Option<&Pd> {
        // SAFETY: Set at creation; the queue pair keeps the domain in use.
        unsafe {
            let pd = (*self.as_raw()).pd;
            (!pd.is_null()).then(|| Pd::from_raw(pd))
        }
    }

    /// The completion queue of the send queue, if there is a send queue.
    pub fn send_cq(&self) -> Option<&Cq> {
        // SAFETY: As above.
        unsafe {
            let cq = (*self.as_raw()).send_cq;
            (!cq.is_null()).then(|| Cq::from_raw(cq))
        }
    }

    /// The completion queue of the receive queue, if there is one.
    pub fn recv_cq(&self) -> Option<&Cq> {
        // SAFETY: As above.
        unsafe {
            let cq = (*self.as_raw()).recv_cq;
            (!cq.is_null()).then(|| Cq::from_raw(cq))
        }
    }

    /// The shared receive queue, if receives come from one.
    pub fn srq(&self) -> Option<&Srq> {
        // SAFETY: As above.
        unsafe {
            let srq = (*self.as_raw()).srq;
            (!srq.is_null()).then(|| Srq::from_raw(srq))
        }
    }

    /// The table of receive work queues, of an RSS queue pair.
    pub fn indirection_table(&self) -> Option<&IndirectionTable> {
        // SAFETY: As above.
        unsafe {
            let table = (*self.as_raw()).rwq_ind_tbl;
            (!table.is_null()).then(|| IndirectionTable::from_raw(table))
        }
    }

    /// The XRC domain of a target.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        // SAFETY: As above.
        unsafe {
            let xrcd = (*self.as_raw()).xrcd;
            (!xrcd.is_null()).then(|| Xrcd::from_raw(xrcd))
        }
    }

    /// The queue pair that the driver knows: the target for a shared handle, else this one.
    pub fn real(&self) -> &Qp {
        // SAFETY: Set at creation; a handle keeps its target in use.
        unsafe { Qp::from_raw((*self.as_raw()).real_qp) }
    }

    /// Whether this is only a handle on an XRC target.
    pub fn is_handle(&self) -> bool {
        !ptr::eq(self.real(), self)
    }

    /// Number of the queue pair.
    pub fn number(&self) -> u32 {
        // SAFETY: Set at creation.
        unsafe { (*self.as_raw()).qp_num }
    }

    /// Transport service.
    pub fn kind(&self) -> QpType {
        // SAFETY: Set at creation.
        QpType(unsafe { (*self.as_raw()).qp_type })
    }

    /// The port, 0 before one is assigned.
    pub fn port(&self) -> u32 {
        // SAFETY: Only the consumer's modify call, which it serialises, changes it.
        unsafe { (*self.as_raw()).port }
    }

    /// Sets the port. For the consumer that modifies.
    pub fn set_port(&self, port: u32) {
        // SAFETY: As above.
        unsafe { (*self.as_raw()).port = port };
    }

    /// Multicast attachments, flows and shared handles.
    pub fn uses(&self) -> &UseCount {
        // SAFETY: The field is part of a valid object and only accessed atomically.
        unsafe { UseCount::from_raw(&raw mut (*self.as_raw()).usecnt) }
    }

    /// Whether the queue pair belongs to user space.
    pub fn is_user(&self) -> bool {
        // SAFETY: Set at creation.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }

    /// Entries of a send request.
    pub fn max_write_sge(&self) -> u32 {
        // SAFETY: Set at creation.
        unsafe { (*self.as_raw()).max_write_sge }
    }

    /// Entries of an RDMA READ.
    pub fn max_read_sge(&self) -> u32 {
        // SAFETY: Set at creation.
        unsafe { (*self.as_raw()).max_read_sge }
    }

    /// Whether the queue pair transfers data with protection information.
    pub fn integrity_enabled(&self) -> bool {
        // SAFETY: Set at creation.
        unsafe { (*self.as_raw()).integrity_en }
    }

    /// Number of pool regions that are not back in their pool.
    pub fn mrs_in_use(&self) -> i32 {
        // SAFETY: The object is valid; read without the lock for a warning only.
        unsafe { (&raw const (*self.as_raw()).mrs_used).read_volatile() }
    }

    /// Whether a counter set counts this queue pair.
    pub fn has_counter(&self) -> bool {
        // SAFETY: The object is valid; a racing bind is settled by the bind itself.
        unsafe {
            !(&raw const (*self.as_raw()).counter)
                .read_volatile()
                .is_null()
        }
    }

    /// Completed by the event that the last entry was taken from the shared receive queue.
    pub fn last_wqe_reached(&self) -> &Completion {
        // SAFETY: Initialised by `set_up`.
        unsafe { Completion::from_raw(&raw mut (*self.as_raw()).srq_completion) }
    }

    /// The consumer's handler, behind the core's own.
    pub fn consumer_handler(&self) -> EventHandler {
        // SAFETY: Set at creation from a consumer's request.
        unsafe {
            EventHandler::from_raw(
                (*self.as_raw()).registered_event_handler,
                (*self.as_raw()).qp_context,
            )
        }
    }

    /// The handler of a shared handle.
    pub fn handle_handler(&self) -> EventHandler {
        // SAFETY: Set when the handle was made, from a consumer's request.
        unsafe {
            EventHandler::from_raw((*self.as_raw()).event_handler, (*self.as_raw()).qp_context)
        }
    }

    /// Fills in what the driver may look at. For the creator.
    pub fn set_up<E: QpEvents>(
        &self,
        device: &Device,
        pd: Option<&Pd>,
        attr: &QpInitAttr,
        user: Option<&UserQp>,
    ) {
        let qp = self.as_raw();
        // SAFETY: The creator has the object for itself; the request names live objects.
        unsafe {
            (*qp).device = device.as_raw();
            (*qp).pd = pd.map_or(ptr::null_mut(), Pd::as_raw);
            (*qp).uobject = user.map_or(ptr::null_mut(), UserQp::as_raw);
            (*qp).real_qp = qp;
            (*qp).qp_type = attr.0.qp_type;
            (*qp).rwq_ind_tbl = attr.0.rwq_ind_tbl;
            (*qp).srq = attr.0.srq;
            (*qp).event_handler = Some(on_event::<E>);
            (*qp).registered_event_handler = attr.0.event_handler;
            (*qp).port = attr.0.port_num;
            (*qp).qp_context = attr.0.qp_context;

            bindings::__spin_lock_init(
                &raw mut (*qp).mr_lock,
                c"&qp->mr_lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            Xa::<bindings::ib_comp_cntr>::init_raw(&raw mut (*qp).comp_cntrs, Kind::Plain);
            bindings::INIT_LIST_HEAD(&raw mut (*qp).rdma_mrs);
            bindings::INIT_LIST_HEAD(&raw mut (*qp).sig_mrs);
            bindings::init_completion(&raw mut (*qp).srq_completion);
        }
        self.set_cqs(attr);
    }

    /// Stores the completion queues of the request. For the creator, who does it again after
    /// the driver's turn, as a driver (mlx4) is known to overwrite them.
    pub fn set_cqs(&self, attr: &QpInitAttr) {
        let qp = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*qp).send_cq = attr.0.send_cq;
            (*qp).recv_cq = attr.0.recv_cq;
        }
    }

    /// Turns a new queue pair into the shared target of an XRC domain. For the creator.
    pub fn set_up_target<E: QpEvents>(&self, xrcd: &Xrcd) {
        let qp = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*qp).event_handler = Some(on_event::<E>);
            (*qp).qp_context = qp.cast();
            (*qp).pd = ptr::null_mut();
            (*qp).send_cq = ptr::null_mut();
            (*qp).recv_cq = ptr::null_mut();
            (*qp).srq = ptr::null_mut();
            (*qp).xrcd = xrcd.as_raw();
            bindings::INIT_LIST_HEAD(&raw mut (*qp).open_list);
        }
    }

    /// Makes a new object a handle on `target`. For the creator.
    pub fn set_up_handle(&self, target: &Qp, events: EventHandler) {
        let qp = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*qp).real_qp = target.as_raw();
            (*qp).device = target.device().as_raw();
            (*qp).event_handler = events.function;
            (*qp).qp_context = events.context;
            (*qp).qp_num = target.number();
            (*qp).qp_type = target.kind().0;
        }
        target.handles().add(self);
    }

    /// Takes a handle off its target's list; after this no event goes to it.
    pub fn unlink_handle(&self) {
        self.real().handles().remove(self);
    }

    /// The handles on this target.
    pub fn handles(&self) -> Handles<'_> {
        // SAFETY: The lock is initialised with the device, which outlives the queue pair.
        let lock =
            unsafe { CSpinLock::from_raw(&raw mut (*self.device().as_raw()).qp_open_list_lock) };
        Handles {
            target: self,
            _held: lock.lock_irqsave(),
        }
    }

    /// Sets the user object. For the creator.
    pub fn set_user(&self, user: Option<&UserQp>) {
        // SAFETY: The creator has the object for itself.
        unsafe { (*self.as_raw()).uobject = user.map_or(ptr::null_mut(), UserQp::as_raw) };
    }

    /// Sets what the RDMA READ/WRITE API may use. For the creator.
    pub fn set_rw_limits(&self, write_sge: u32, read_sge: u32, integrity: bool) {
        let qp = self.as_raw();
        // SAFETY: The creator has the object for itself.
        unsafe {
            (*qp).max_write_sge = write_sge;
            (*qp).max_read_sge = read_sge;
            if integrity {
                (*qp).integrity_en = true;
            }
        }
    }

    /// Fills the pools of the RDMA READ/WRITE API. May sleep.
    #[inline]
    pub fn init_rw_pools(&self, attr: &mut QpInitAttr) -> Result {
        // SAFETY: Both are valid.
        to_result(unsafe { bindings::rdma_rw_init_mrs(self.as_raw(), &mut attr.0) })
    }

    /// Empties the pools of the RDMA READ/WRITE API. May sleep.
    #[inline]
    pub fn cleanup_rw_pools(&self) {
        // SAFETY: The queue pair is valid and not used by its consumer any more.
        unsafe { bindings::rdma_rw_cleanup_mrs(self.as_raw()) };
    }

    /// Lets the port's counter mode bind a counter. Failures only mean that nothing is counted.
    #[inline]
    pub fn bind_counter(&self, port: u32) {
        // SAFETY: The queue pair is valid.
        unsafe { bindings::rdma_counter_bind_qp_auto(self.as_raw(), port) };
    }

    /// Unbinds the counter, whatever the driver says.
    #[inline]
    pub fn unbind_counter(&self) {
        // SAFETY: The queue pair is valid.
        unsafe { bindings::rdma_counter_unbind_qp(self.as_raw(), self.port(), true) };
    }

    /// Replaces the source GID of the primary path; returns the earlier one. For the consumer
    /// that modifies, and for the destroyer.
    pub fn replace_av_sgid(&self, sgid: Option<ARef<GidAttr>>) -> Option<ARef<GidAttr>> {
        let new = sgid.map_or(ptr::null(), GidAttr::into_raw);
        // SAFETY: The caller serialises these calls; a pointer that is there owns a reference.
        unsafe {
            let slot = &raw mut (*self.as_raw()).av_sgid_attr;
            owned(slot.replace(new))
        }
    }

    /// As [`Self::replace_av_sgid`], for the alternate path.
    pub fn replace_alt_sgid(&self, sgid: Option<ARef<GidAttr>>) -> Option<ARef<GidAttr>> {
        let new = sgid.map_or(ptr::null(), GidAttr::into_raw);
        // SAFETY: As above.
        unsafe {
            let slot = &raw mut (*self.as_raw()).alt_path_sgid_attr;
            owned(slot.replace(new))
        }
    }

    /// Gives up the completion counters that user space attached. For the destroyer.
    pub fn release_comp_counters(&self) {
        // SAFETY: Initialised by `set_up`; uverbs stores counters, each in use by this queue
        // pair.
        let counters =
            unsafe { Xa::<bindings::ib_comp_cntr>::from_raw(&raw mut (*self.as_raw()).comp_cntrs) };
        for (_, counter) in counters.iter(Mark::Present) {
            // SAFETY: As above.
            let uses = unsafe { UseCount::from_raw(&raw mut (*counter.as_ptr()).usecnt) };
            drop(uses.reclaim());
        }
        counters.clear();
    }

    /// Asks the driver to set up its part; it updates the capabilities of the request.
    pub fn driver_create(&self, attr: &mut QpInitAttr, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(
            self.device(),
            create_qp(self.as_raw(), &mut attr.0, udata)
        )?)
    }

    /// Asks the driver to change attributes.
    pub fn driver_modify(
        &self,
        attr: &mut QpAttr,
        mask: AttrMask,
        udata: Option<&Udata>,
    ) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(
            self.device(),
            modify_qp(self.as_raw(), &mut attr.0, mask.bits(), udata)
        )?)
    }

    /// Asks the driver for attributes.
    pub fn driver_query(&self, attr: &mut QpAttr, mask: AttrMask, init: &mut QpInitAttr) -> Result {
        to_result(driver_op!(
            self.device(),
            query_qp(self.as_raw(), &mut attr.0, mask.bits(), &mut init.0)
        )?)
    }

    /// Asks the driver to give up its part.
    pub fn driver_destroy(&self, udata: Option<&Udata>) -> Result {
        let udata = Udata::as_raw_or_null(udata);
        to_result(driver_op!(self.device(), destroy_qp(self.as_raw(), udata))?)
    }

    /// Asks the driver to send a multicast group's packets here.
    pub fn driver_attach_mcast(&self, gid: &mut Gid, lid: u16) -> Result {
        to_result(driver_op!(
            self.device(),
            attach_mcast(self.as_raw(), gid.as_raw_mut(), lid)
        )?)
    }

    /// Asks the driver to end that.
    pub fn driver_detach_mcast(&self, gid: &mut Gid, lid: u16) -> Result {
        to_result(driver_op!(
            self.device(),
            detach_mcast(self.as_raw(), gid.as_raw_mut(), lid)
        )?)
    }

    /// Lets the driver drain the send queue, if it has a way of its own.
    pub fn driver_drain_sq(&self) -> bool {
        driver_op!(self.device(), drain_sq(self.as_raw())).is_ok()
    }

    /// Lets the driver drain the receive queue, if it has a way of its own.
    pub fn driver_drain_rq(&self) -> bool {
        driver_op!(self.device(), drain_rq(self.as_raw())).is_ok()
    }

    /// Changes attributes through the core, as a kernel consumer.
    pub fn modify(&self, attr: &mut QpAttr, mask: AttrMask) -> Result {
        // SAFETY: Both are valid.
        to_result(unsafe { bindings::ib_modify_qp(self.as_raw(), &mut attr.0, mask.bits()) })
    }

    /// Asks for attributes through the core.
    pub fn query(&self, attr: &mut QpAttr, mask: AttrMask, init: &mut QpInitAttr) -> Result {
        // SAFETY: All are valid.
        to_result(unsafe {
            bindings::ib_query_qp(self.as_raw(), &mut attr.0, mask.bits(), &mut init.0)
        })
    }

    /// Destroys through the core. The queue pair must not be used after success.
    pub fn destroy(&self) -> Result {
        // SAFETY: The queue pair is valid, and the caller gives it up.
        to_result(unsafe { bindings::ib_destroy_qp_user(self.as_raw(), ptr::null_mut()) })
    }
}

/// The domain of the target behind a handle. It outlives the handle, as the target keeps it in
/// use until the target's destroyer gives that use back.
pub fn handle_domain<'a>(handle: &Object<Qp>) -> Option<&'a Xrcd> {
    let xrcd = handle.real().xrcd()?.as_raw();
    // SAFETY: As said above.
    Some(unsafe { Xrcd::from_raw(xrcd) })
}

/// Entry of the driver into a queue pair's events.
///
/// # Safety
///
/// Called by the driver, with an event of a live queue pair that is not destroyed before the
/// call returns.
unsafe extern "C" fn on_event<E: QpEvents>(event: *mut bindings::ib_event, _context: *mut c_void) {
    // SAFETY: Drivers build the event on their stack and name the queue pair they know.
    unsafe {
        let qp = (*event).element.qp;
        E::on_event(Qp::from_raw(qp), Event::from_raw(event));
    }
}
