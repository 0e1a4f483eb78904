// SPDX-License-Identifier: GPL-2.0

//! Changing and asking for the attributes of queue pairs.

use super::ah::{self, route_sgid};
use kernel::{dev_warn, prelude::*};
use rdma::{
    ah::{AhType, XmitSlave},
    gfp::Gfp,
    qp::{AttrMask, Qp, QpAttr, QpInitAttr},
    udata::Udata,
};

/// Largest packet sequence number.
const PSN_MASK: u32 = 0xff_ffff;

/// Attributes whose paths are completed for the driver.
///
/// Dropping it gives the caller the attributes back as they were.
struct Completed<'a> {
    attr: &'a mut QpAttr,
    av_filled: bool,
    alt_filled: bool,
    slave: XmitSlave,
}

impl<'a> Completed<'a> {
    fn new(attr: &'a mut QpAttr) -> Self {
        let this = Self {
            attr,
            av_filled: false,
            alt_filled: false,
            slave: XmitSlave::NONE,
        };
        this.attr.set_xmit_slave(&this.slave);
        this
    }

    /// Completes the primary path. User space leaves the Ethernet address to us, which may take
    /// about a second to resolve; kernel consumers have resolved it.
    fn complete_av(&mut self, qp: &Qp, from_user: bool) -> Result {
        let device = qp.device();
        let av = self.attr.av();
        self.av_filled = ah::fill_sgid(device, av)?;
        if av.kind() == AhType::Roce && qp.kind().is_connected() {
            if from_user {
                ah::resolve_dmac(av)?;
            }
            self.slave = XmitSlave::select(device, av, Gfp::KERNEL)?;
            self.attr.set_xmit_slave(&self.slave);
        }
        Ok(())
    }

    /// Completes the alternate path, which only exists between InfiniBand ports.
    fn complete_alt_path(&mut self, qp: &Qp, port: u32) -> Result {
        let device = qp.device();
        let path = self.attr.alt_path();
        self.alt_filled = ah::fill_sgid(device, path)?;
        let alt_port = path.port();
        if device.port_caps(alt_port).protocol_ib() && device.port_caps(port).protocol_ib() {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }
}

impl Drop for Completed<'_> {
    fn drop(&mut self) {
        if self.alt_filled {
            drop(self.attr.alt_path().replace_sgid(None));
        }
        if self.av_filled {
            drop(self.attr.av().replace_sgid(None));
        }
        self.attr.set_xmit_slave(&XmitSlave::NONE);
    }
}

/// Changes attributes of a queue pair, or of the target behind a shared handle. May sleep.
///
/// `udata` is there if user space asks. After success the queue pair holds the source GIDs of
/// its new paths; after an error it has those of the old ones.
pub(crate) fn modify(qp: &Qp, attr: &mut QpAttr, mask: AttrMask, udata: Option<&Udata>) -> Result {
    let qp = qp.real();
    let device = qp.device();
    let port = if mask.contains(AttrMask::PORT) {
        attr.port()
    } else {
        qp.port()
    };

    let mut done = Completed::new(attr);
    if mask.contains(AttrMask::AV) {
        done.complete_av(qp, udata.is_some())?;
    }
    if mask.contains(AttrMask::ALT_PATH) {
        done.complete_alt_path(qp, port)?;
    }

    let caps = device.port_caps(port);
    if caps.protocol_ib() || caps.protocol_roce() {
        if mask.contains(AttrMask::RQ_PSN) && *done.attr.rq_psn() > PSN_MASK {
            dev_warn!(
                device.as_dev(),
                "_ib_modify_qp rq_psn overflow, masking to 24 bits\n"
            );
            *done.attr.rq_psn() &= PSN_MASK;
        }
        if mask.contains(AttrMask::SQ_PSN) && *done.attr.sq_psn() > PSN_MASK {
            dev_warn!(
                device.as_dev(),
                " _ib_modify_qp sq_psn overflow, masking to 24 bits\n"
            );
            *done.attr.sq_psn() &= PSN_MASK;
        }
    }

    let gets_port = mask.contains(AttrMask::PORT | AttrMask::STATE) && done.attr.is_init();
    if gets_port && !qp.has_counter() {
        qp.bind_counter(done.attr.port());
    }

    qp.driver_modify(done.attr, mask, udata)?;

    if mask.contains(AttrMask::PORT) {
        qp.set_port(done.attr.port());
    }
    if mask.contains(AttrMask::AV) {
        drop(qp.replace_av_sgid(route_sgid(done.attr.av())));
    }
    if mask.contains(AttrMask::ALT_PATH) {
        drop(qp.replace_alt_sgid(route_sgid(done.attr.alt_path())));
    }
    Ok(())
}

/// Asks for attributes of a queue pair, or of the target behind a shared handle. May sleep.
pub(crate) fn query(qp: &Qp, attr: &mut QpAttr, mask: AttrMask, init: &mut QpInitAttr) -> Result {
    qp.real().driver_query(attr, mask, init)
}
