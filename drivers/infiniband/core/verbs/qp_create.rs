// SPDX-License-Identifier: GPL-2.0

//! Creation, sharing and destruction of queue pairs.

use kernel::{prelude::*, types::ScopeGuard};
use rdma::{
    async_event::{Event, EventHandler},
    device::Device,
    object::{Draft, Object, Owner, Retiring},
    pd::Pd,
    qp::{handle_domain, Qp, QpEvents, QpInitAttr, QpOpenAttr, QpType, UserQp},
    udata::Udata,
    usecnt::{Use, UseCount},
    uverbs::AttrBundle,
    warn_on_once,
    xrcd::Xrcd,
};

/// Events of a queue pair with one user.
struct OwnEvents;

impl QpEvents for OwnEvents {
    fn on_event(qp: &Qp, event: &mut Event) {
        if event.is_last_wqe_reached() {
            qp.last_wqe_reached().complete();
        }
        event.deliver(qp, qp.consumer_handler());
    }
}

/// Events of an XRC target, which go to all its users.
struct TargetEvents;

impl QpEvents for TargetEvents {
    fn on_event(qp: &Qp, event: &mut Event) {
        qp.handles()
            .for_each(|handle| event.deliver(handle, handle.handle_handler()));
    }
}

fn create(
    device: &Device,
    pd: Option<&Pd>,
    attr: &mut QpInitAttr,
    user: Option<&AttrBundle>,
    object: Option<&UserQp>,
    owner: Owner<'_>,
) -> Result<Object<Qp>> {
    if device.ops().create_qp.is_none() {
        return Err(EOPNOTSUPP);
    }
    let qp = Draft::<Qp>::near_device(device)?;
    qp.set_up::<OwnEvents>(device, pd, attr, object);
    let qp = qp.track(owner);
    qp.driver_create(attr, user.map(AttrBundle::udata))?;
    qp.set_cqs(attr);
    Ok(qp.publish())
}

/// Creates a queue pair for user space. May sleep.
///
/// uverbs adds the uses of the objects that the queue pair is built on, see [`keep_uses`]. An XRC
/// target lives on as long as anybody has a handle on it, so it is not tied to the call's user
/// object and belongs to `module`; the caller gets the first handle.
pub(crate) fn create_user(
    device: &Device,
    pd: Option<&Pd>,
    attr: &mut QpInitAttr,
    user: Option<&AttrBundle>,
    object: Option<&UserQp>,
    module: Owner<'_>,
) -> Result<Object<Qp>> {
    if attr.kind() != QpType::XRC_TGT {
        return create(device, pd, attr, user, object, Owner::CurrentTask);
    }

    if attr.xrcd().is_none() {
        return Err(EINVAL);
    }
    let events = attr.event_handler();
    let target = create(device, pd, attr, None, None, module)?;
    let xrcd = attr.xrcd().ok_or(EINVAL)?;
    let handle = share(target, xrcd, events)?;
    handle.set_user(object);
    Ok(handle)
}

/// Makes a new queue pair the shared target of a domain; returns the first handle on it.
fn share(target: Object<Qp>, xrcd: &Xrcd, events: EventHandler) -> Result<Object<Qp>> {
    target.set_up_target::<TargetEvents>(xrcd);
    let xrcd_use = xrcd.uses().acquire();
    let target = ScopeGuard::new_with_data(target, |target| {
        let _ = destroy(target, None);
    });

    let handle = open_target(&target, events)?;
    if let Err(e) = xrcd.add_target(&target) {
        close(handle)?;
        return Err(e);
    }
    // From here on the domain's table has the target.
    target.dismiss();
    xrcd_use.keep();
    Ok(handle)
}

fn open_target(target: &Qp, events: EventHandler) -> Result<Object<Qp>> {
    let handle = Draft::<Qp>::without_driver(target.device())?;
    target.uses().acquire().keep();
    handle.set_up_handle(target, events);
    Ok(handle.finish())
}

/// Makes one more handle on the XRC target of a number. May sleep.
pub(crate) fn open(xrcd: &Xrcd, attr: &QpOpenAttr) -> Result<Object<Qp>> {
    if attr.kind() != QpType::XRC_TGT {
        return Err(EINVAL);
    }
    let targets = xrcd.targets();
    open_target(
        targets.get(attr.number()).ok_or(EINVAL)?,
        attr.event_handler(),
    )
}

/// Closes a handle; the target stays. `EINVAL` for a queue pair that is not a handle.
pub(crate) fn close(handle: Object<Qp>) -> Result {
    if !handle.is_handle() {
        return Err(EINVAL);
    }
    handle.unlink_handle();
    drop(handle.real().uses().reclaim());
    handle.free();
    Ok(())
}

/// Creates a queue pair for a kernel module. May sleep.
pub(crate) fn create_kernel(
    pd: &Pd,
    attr: &mut QpInitAttr,
    owner: Owner<'_>,
) -> Result<Object<Qp>> {
    let device = pd.device();
    if attr.wants_rdma_contexts() {
        attr.reserve_rdma_contexts(device);
    }

    let qp = create(device, Some(pd), attr, None, None, owner)?;
    keep_uses(&qp);
    let qp = ScopeGuard::new_with_data(qp, |qp| {
        let _ = destroy(qp, None);
    });
    if attr.wants_rdma_contexts() {
        qp.init_rw_pools(attr)?;
    }

    // No driver allows more entries in an RDMA WRITE than in any send, but some allow fewer in
    // an RDMA READ.
    let write_sge = attr.max_send_sge();
    let read_sge = write_sge.min(device.attrs().max_sge_rd);
    qp.set_rw_limits(write_sge, read_sge, attr.wants_integrity());
    Ok(qp.dismiss())
}

/// The use counts of all that a queue pair is built on.
fn foundations(qp: &Qp) -> [Option<&UseCount>; 5] {
    [
        qp.pd().map(|pd| pd.uses()),
        qp.send_cq().map(|cq| cq.uses()),
        qp.recv_cq().map(|cq| cq.uses()),
        qp.srq().map(|srq| srq.uses()),
        qp.indirection_table().map(|table| table.uses()),
    ]
}

/// Counts the queue pair as a user of all that it is built on.
pub(crate) fn keep_uses(qp: &Qp) {
    foundations(qp)
        .into_iter()
        .flatten()
        .map(UseCount::acquire)
        .for_each(Use::keep);
}

/// Reverses [`keep_uses`].
pub(crate) fn give_up_uses(qp: &Qp) {
    foundations(qp)
        .into_iter()
        .rev()
        .flatten()
        .map(UseCount::reclaim)
        .for_each(drop);
}

/// Destroys a queue pair, or closes a handle, with which an XRC target goes if it was the last
/// one. May sleep. `EBUSY` while the queue pair is attached to a multicast group or a flow.
pub(crate) fn destroy(qp: Object<Qp>, udata: Option<&Udata>) -> Result {
    warn_on_once!(qp.mrs_in_use() > 0);
    qp.uses().check_idle()?;
    if qp.is_handle() {
        return destroy_handle(qp);
    }

    let qp = Retiring::begin(qp);
    if !qp.is_user() {
        qp.cleanup_rw_pools();
    }
    qp.unbind_counter();
    qp.driver_destroy(udata)?;

    drop(qp.replace_alt_sgid(None));
    drop(qp.replace_av_sgid(None));
    qp.release_comp_counters();
    give_up_uses(&qp);
    qp.finish();
    Ok(())
}

fn destroy_handle(handle: Object<Qp>) -> Result {
    let xrcd = handle_domain(&handle).ok_or(EINVAL)?;
    let number = handle.number();
    let unused = {
        let mut targets = xrcd.targets_mut();
        close(handle)?;
        targets.take_unused(number)
    };
    if let Some(target) = unused {
        // If the driver refuses, the target stays the domain's, which cannot go then.
        if destroy(target, None).is_ok() {
            drop(xrcd.uses().reclaim());
        }
    }
    Ok(())
}
