// SPDX-License-Identifier: GPL-2.0

//! Attributes of a queue pair: what consumers set and query, and what the two sides get of it.

use kernel::prelude::*;
use rdma::{
    ah::AhAttr,
    mr::Access,
    qp::{
        AttrMask,
        QpAttr, //
    },
};

use crate::{
    av::Av,
    params,
    proto::attrs::{
        self,
        Allowed,
        Mtu,
        RecvAttrs,
        Retries,
        SendAttrs,
        Transport, //
    },
    wire::{
        aeth::RnrTimer,
        psn::Psn, //
    },
};

/// Largest exponent of a timeout, five bits.
const MAX_TIMEOUT: u8 = 31;

/// What peers may be allowed. Rights that a device may ignore are no fault.
fn is_supported(access: Access) -> bool {
    use kernel::bindings::*;
    const KNOWN: u32 = ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | ib_access_flags_IB_ACCESS_REMOTE_READ
        | ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | ib_access_flags_IB_ACCESS_MW_BIND
        | ib_access_flags_IB_ACCESS_ON_DEMAND
        | ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
        | ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT
        | ib_access_flags_IB_ACCESS_OPTIONAL;
    access.bits() as u32 & !KNOWN == 0
}

/// The attributes as they were set last.
#[derive(Clone, Copy)]
struct Values {
    access: Access,
    path_mtu: Mtu,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qpn: u32,
    pkey_index: u16,
    alt_pkey_index: u16,
    sqd_notify: bool,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port: u32,
    alt_port: u32,
    timeout: u8,
    alt_timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
}

/// The attributes of a queue pair.
pub(super) struct Attrs {
    values: Values,
    path: Option<(AhAttr, Av)>,
    alt_path: Option<AhAttr>,
}

impl Attrs {
    /// Those of a new queue pair.
    pub(super) fn new(port: u32) -> Self {
        Self {
            values: Values {
                access: Access::NONE,
                path_mtu: Mtu::B256,
                path_mig_state: 0,
                qkey: 0,
                rq_psn: 0,
                sq_psn: 0,
                dest_qpn: 0,
                pkey_index: 0,
                alt_pkey_index: 0,
                sqd_notify: false,
                max_rd_atomic: 0,
                max_dest_rd_atomic: 0,
                min_rnr_timer: 0,
                port,
                alt_port: 0,
                timeout: 0,
                alt_timeout: 0,
                retry_cnt: 0,
                rnr_retry: 0,
            },
            path: None,
            alt_path: None,
        }
    }

    /// Takes what a change names over. Nothing is changed if any of it is wrong (`EINVAL`).
    pub(super) fn update(
        &mut self,
        attr: &mut QpAttr,
        mask: AttrMask,
        transport: Transport,
    ) -> Result {
        let has = |part| mask.contains(part);
        let mut values = self.values;

        if has(AttrMask::PORT) {
            values.port = valid_port(attr.port_num())?;
        }
        if has(AttrMask::ACCESS_FLAGS) {
            let access = attr.access();
            if transport == Transport::Ud || !is_supported(access) {
                return Err(EINVAL);
            }
            values.access = access;
        }
        if has(AttrMask::PATH_MTU) {
            values.path_mtu = Mtu::from_code(attr.path_mtu()).ok_or(EINVAL)?;
        }
        if has(AttrMask::MAX_QP_RD_ATOMIC) {
            values.max_rd_atomic = attr.max_rd_atomic();
            if u32::from(values.max_rd_atomic) > params::MAX_RD_ATOMIC {
                return Err(EINVAL);
            }
        }
        if has(AttrMask::MAX_DEST_RD_ATOMIC) {
            values.max_dest_rd_atomic = attr.max_dest_rd_atomic();
        }
        if has(AttrMask::TIMEOUT) {
            values.timeout = valid_timeout(attr.timeout())?;
        }
        if has(AttrMask::RETRY_CNT) {
            values.retry_cnt = three_bits(attr.retry_cnt())?;
        }
        if has(AttrMask::RNR_RETRY) {
            values.rnr_retry = three_bits(attr.rnr_retry())?;
        }
        if has(AttrMask::MIN_RNR_TIMER) {
            values.min_rnr_timer = valid_timeout(attr.min_rnr_timer())?;
        }
        if has(AttrMask::EN_SQD_ASYNC_NOTIFY) {
            values.sqd_notify = attr.en_sqd_async_notify() != 0;
        }
        if has(AttrMask::PKEY_INDEX) {
            values.pkey_index = attr.pkey_index();
        }
        if has(AttrMask::QKEY) {
            values.qkey = attr.qkey();
        }
        if has(AttrMask::RQ_PSN) {
            values.rq_psn = Psn::new(attr.rq_psn_value()).get();
        }
        if has(AttrMask::SQ_PSN) {
            values.sq_psn = Psn::new(attr.sq_psn_value()).get();
        }
        if has(AttrMask::PATH_MIG_STATE) {
            values.path_mig_state = attr.path_mig_state();
        }
        if has(AttrMask::DEST_QPN) {
            values.dest_qpn = attr.dest_qp_num();
        }

        let path = if has(AttrMask::AV) {
            Some((attr.av().duplicate(), Av::from_attr(attr.av())?))
        } else {
            None
        };
        let alt_path = if has(AttrMask::ALT_PATH) {
            Av::from_attr(attr.alt_path())?;
            values.alt_port = valid_port(attr.alt_port_num())?;
            values.alt_timeout = valid_timeout(attr.alt_timeout())?;
            values.alt_pkey_index = attr.alt_pkey_index();
            Some(attr.alt_path().duplicate())
        } else {
            None
        };

        self.values = values;
        if path.is_some() {
            self.path = path;
        }
        if alt_path.is_some() {
            self.alt_path = alt_path;
        }
        Ok(())
    }

    /// Forgets the paths, and with them the references on GIDs.
    pub(super) fn clear_paths(&mut self) {
        self.path = None;
        self.alt_path = None;
    }

    /// Tells the attributes, apart from those that the sides know better.
    pub(super) fn report(&self, attr: &mut QpAttr) {
        let values = &self.values;
        attr.set_access(values.access);
        attr.set_path_mtu(values.path_mtu.code());
        attr.set_path_mig_state(values.path_mig_state);
        attr.set_qkey(values.qkey);
        attr.set_dest_qp_num(values.dest_qpn);
        attr.set_pkey_index(values.pkey_index);
        attr.set_alt_pkey_index(values.alt_pkey_index);
        attr.set_en_sqd_async_notify(values.sqd_notify.into());
        attr.set_max_rd_atomic(values.max_rd_atomic);
        attr.set_max_dest_rd_atomic(values.max_dest_rd_atomic);
        attr.set_min_rnr_timer(values.min_rnr_timer);
        attr.set_port_num(values.port);
        attr.set_alt_port_num(values.alt_port);
        attr.set_timeout(values.timeout);
        attr.set_alt_timeout(values.alt_timeout);
        attr.set_retry_cnt(values.retry_cnt);
        attr.set_rnr_retry(values.rnr_retry);
        if let Some((path, _)) = &self.path {
            report_path(path, attr.av());
        }
        if let Some(path) = &self.alt_path {
            report_path(path, attr.alt_path());
        }
    }

    /// The path of a connection.
    pub(super) fn av(&self) -> Option<Av> {
        self.path.as_ref().map(|(_, av)| *av)
    }

    /// The queue key.
    pub(super) fn qkey(&self) -> u32 {
        self.values.qkey
    }

    /// The connected queue pair.
    pub(super) fn dest_qpn(&self) -> u32 {
        self.values.dest_qpn
    }

    /// Answers that the peer may want to have repeated.
    pub(super) fn resources(&self) -> usize {
        self.values.max_dest_rd_atomic.into()
    }

    /// Whether the end of draining is to be told.
    pub(super) fn sqd_notify(&self) -> bool {
        self.values.sqd_notify
    }

    /// Those of the send side. Datagrams have the MTU of the port.
    pub(super) fn for_send(&self, transport: Transport, port_mtu: Mtu) -> SendAttrs {
        let values = &self.values;
        SendAttrs {
            dest_qpn: values.dest_qpn,
            mtu: match transport {
                Transport::Ud => port_mtu,
                _ => values.path_mtu,
            },
            pkey: params::DEFAULT_PKEY,
            sq_psn: Psn::new(values.sq_psn),
            ack_timeout: attrs::ack_timeout_nanos(values.timeout),
            retry: Retries::from_retry_cnt(values.retry_cnt),
            rnr_retry: Retries::from_rnr_retry(values.rnr_retry),
            max_rd_atomic: values.max_rd_atomic,
        }
    }

    /// What the peer may do.
    pub(super) fn allowed(&self) -> Allowed {
        let has = |right| self.values.access.contains(right);
        Allowed {
            read: has(Access::REMOTE_READ),
            write: has(Access::REMOTE_WRITE),
            atomic: has(Access::REMOTE_ATOMIC),
            flush_global: has(Access::FLUSH_GLOBAL),
            flush_persistent: has(Access::FLUSH_PERSISTENT),
        }
    }

    /// How long a peer waits that found no receive request.
    pub(super) fn min_rnr_timer(&self) -> RnrTimer {
        RnrTimer::new(self.values.min_rnr_timer)
    }

    /// Those of the receive side.
    pub(super) fn for_recv(&self) -> RecvAttrs {
        let values = &self.values;
        RecvAttrs {
            dest_qpn: values.dest_qpn,
            mtu: values.path_mtu,
            pkey: params::DEFAULT_PKEY,
            rq_psn: Psn::new(values.rq_psn),
            allowed: self.allowed(),
            min_rnr_timer: self.min_rnr_timer(),
        }
    }
}

/// Copies a path for a consumer, who gets no reference on the source GID.
fn report_path(from: &AhAttr, to: &mut AhAttr) {
    to.copy_from(from);
    drop(to.replace_sgid(None));
}

fn valid_port(port: u32) -> Result<u32> {
    if port == params::PORT {
        Ok(port)
    } else {
        Err(EINVAL)
    }
}

fn valid_timeout(timeout: u8) -> Result<u8> {
    if timeout <= MAX_TIMEOUT {
        Ok(timeout)
    } else {
        Err(EINVAL)
    }
}

fn three_bits(count: u8) -> Result<u8> {
    if count <= 7 {
        Ok(count)
    } else {
        Err(EINVAL)
    }
}
