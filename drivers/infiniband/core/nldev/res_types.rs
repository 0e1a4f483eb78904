// SPDX-License-Identifier: GPL-2.0

//! What is told of the objects of each type.

use kernel::prelude::*;
use rdma::{
    netlink::{
        Attr,
        AttrWriter,
        Nested, //
    },
    nldev::object::{
        self,
        DriverDetails,
        Held, //
    },
};

use super::{
    fill::put_owner,
    policy::{
        DEV_DIM,
        MAX_RANGE,
        MIN_RANGE,
        PORT_INDEX,
        RES_CM_ID,
        RES_CM_IDN,
        RES_CM_ID_ENTRY,
        RES_CQ,
        RES_CQE,
        RES_CQN,
        RES_CQ_ENTRY,
        RES_CTX,
        RES_CTXN,
        RES_CTX_ENTRY,
        RES_DST_ADDR,
        RES_LKEY,
        RES_LOCAL_DMA_LKEY,
        RES_LQPN,
        RES_MR,
        RES_MRLEN,
        RES_MRN,
        RES_MR_ENTRY,
        RES_PATH_MIG_STATE,
        RES_PD,
        RES_PDN,
        RES_PD_ENTRY,
        RES_POLL_CTX,
        RES_PS,
        RES_QP,
        RES_QP_ENTRY,
        RES_RKEY,
        RES_RQPN,
        RES_RQ_PSN,
        RES_SQ_PSN,
        RES_SRC_ADDR,
        RES_SRQ,
        RES_SRQN,
        RES_SRQ_ENTRY,
        RES_STATE,
        RES_TYPE,
        RES_UNSAFE_GLOBAL_RKEY,
        RES_USECNT, //
    },
    res::{
        Context,
        Resource, //
    },
};

/// Queue pairs.
pub(super) struct Qp;

impl Resource for Qp {
    type Object = object::Qp;
    const TABLE: Attr<Nested> = RES_QP;
    const ENTRY: Attr<Nested> = RES_QP_ENTRY;
    const ID: Attr<u32> = RES_LQPN;
    const OF_PORT: bool = true;

    fn port(qp: &object::Qp) -> u32 {
        qp.port()
    }

    fn put(context: &Context<'_>, qp: &Held<object::Qp>, out: &mut AttrWriter<'_>) -> Result {
        // A new queue pair has no port yet.
        out.put_some(PORT_INDEX, Some(qp.port()).filter(|port| *port != 0))?;
        out.put(RES_LQPN, qp.number())?;
        if qp.is_user() {
            out.put_some(RES_PDN, qp.pd_id())?;
        }
        put_owner(out, qp.entry())?;

        let state = qp.query()?;
        let kind = qp.kind();
        if kind.is_connected() {
            out.put(RES_RQPN, state.dest_qp_num)?;
            out.put(RES_RQ_PSN, state.rq_psn)?;
        }
        out.put(RES_SQ_PSN, state.sq_psn)?;
        if kind.can_migrate() {
            out.put(RES_PATH_MIG_STATE, state.path_mig_state)?;
        }
        out.put(RES_TYPE, kind.number())?;
        out.put(RES_STATE, state.state)?;
        qp.put_driver(context.device, out)
    }
}

/// Connection manager ids.
pub(super) struct CmId;

impl Resource for CmId {
    type Object = object::CmId;
    const TABLE: Attr<Nested> = RES_CM_ID;
    const ENTRY: Attr<Nested> = RES_CM_ID_ENTRY;
    const ID: Attr<u32> = RES_CM_IDN;
    const OF_PORT: bool = true;

    fn port(id: &object::CmId) -> u32 {
        id.port()
    }

    fn put(context: &Context<'_>, id: &Held<object::CmId>, out: &mut AttrWriter<'_>) -> Result {
        out.put_some(PORT_INDEX, Some(id.port()).filter(|port| *port != 0))?;
        let qp = id.qp_number();
        if qp != 0 {
            out.put(RES_LQPN, qp)?;
            out.put(RES_TYPE, id.qp_kind().number())?;
        }
        out.put(RES_PS, id.port_space())?;
        out.put(RES_STATE, id.state())?;
        out.put_some(RES_SRC_ADDR, id.source().as_ref())?;
        out.put_some(RES_DST_ADDR, id.destination().as_ref())?;
        out.put(RES_CM_IDN, id.id())?;
        put_owner(out, id.entry())?;
        id.put_driver(context.device, out)
    }
}

/// Completion queues.
pub(super) struct Cq;

impl Resource for Cq {
    type Object = object::Cq;
    const TABLE: Attr<Nested> = RES_CQ;
    const ENTRY: Attr<Nested> = RES_CQ_ENTRY;
    const ID: Attr<u32> = RES_CQN;

    fn put(context: &Context<'_>, cq: &Held<object::Cq>, out: &mut AttrWriter<'_>) -> Result {
        out.put(RES_CQE, cq.entries())?;
        out.put(RES_USECNT, cq.uses())?;
        if !cq.is_user() {
            // Users poll by themselves.
            out.put(RES_POLL_CTX, cq.poll_context())?;
        }
        out.put(DEV_DIM, cq.has_dim().into())?;
        out.put(RES_CQN, cq.id())?;
        if cq.is_user() {
            out.put_some(RES_CTXN, cq.context_id())?;
        }
        put_owner(out, cq.entry())?;
        cq.put_driver(context.device, out)
    }
}

/// Memory regions.
pub(super) struct Mr;

impl Resource for Mr {
    type Object = object::Mr;
    const TABLE: Attr<Nested> = RES_MR;
    const ENTRY: Attr<Nested> = RES_MR_ENTRY;
    const ID: Attr<u32> = RES_MRN;

    fn put(context: &Context<'_>, mr: &Held<object::Mr>, out: &mut AttrWriter<'_>) -> Result {
        if context.admin {
            out.put(RES_RKEY, mr.rkey())?;
            out.put(RES_LKEY, mr.lkey())?;
        }
        out.put(RES_MRLEN, mr.length())?;
        out.put(RES_MRN, mr.id())?;
        if mr.is_user() {
            out.put_some(RES_PDN, mr.pd_id())?;
        }
        put_owner(out, mr.entry())?;
        mr.put_driver(context.device, out)
    }
}

/// Protection domains.
pub(super) struct Pd;

impl Resource for Pd {
    type Object = object::Pd;
    const TABLE: Attr<Nested> = RES_PD;
    const ENTRY: Attr<Nested> = RES_PD_ENTRY;
    const ID: Attr<u32> = RES_PDN;

    fn put(context: &Context<'_>, pd: &Held<object::Pd>, out: &mut AttrWriter<'_>) -> Result {
        if context.admin {
            out.put(RES_LOCAL_DMA_LKEY, pd.local_dma_lkey())?;
            out.put_some(RES_UNSAFE_GLOBAL_RKEY, pd.unsafe_global_rkey())?;
        }
        out.put(RES_USECNT, pd.uses())?;
        out.put(RES_PDN, pd.id())?;
        if pd.is_user() {
            out.put_some(RES_CTXN, pd.context_id())?;
        }
        put_owner(out, pd.entry())
    }
}

/// Contexts of users.
pub(super) struct Ctx;

impl Resource for Ctx {
    type Object = object::Ctx;
    const TABLE: Attr<Nested> = RES_CTX;
    const ENTRY: Attr<Nested> = RES_CTX_ENTRY;
    const ID: Attr<u32> = RES_CTXN;

    fn put(_context: &Context<'_>, ctx: &Held<object::Ctx>, out: &mut AttrWriter<'_>) -> Result {
        if !ctx.is_user() {
            return Ok(());
        }
        out.put(RES_CTXN, ctx.id())?;
        put_owner(out, ctx.entry())
    }
}

/// Shared receive queues.
pub(super) struct Srq;

impl Resource for Srq {
    type Object = object::Srq;
    const TABLE: Attr<Nested> = RES_SRQ;
    const ENTRY: Attr<Nested> = RES_SRQ_ENTRY;
    const ID: Attr<u32> = RES_SRQN;

    fn put(context: &Context<'_>, srq: &Held<object::Srq>, out: &mut AttrWriter<'_>) -> Result {
        out.put(RES_SRQN, srq.id())?;
        out.put(RES_TYPE, srq.kind())?;
        out.put_some(RES_PDN, srq.pd_id())?;
        out.put_some(RES_CQN, srq.cq_id())?;
        put_qps_of_srq(context, srq, out)?;
        put_owner(out, srq.entry())?;
        srq.put_driver(context.device, out)
    }
}

/// Consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    first: u32,
    last: u32,
}

/// Takes numbers into ranges: the range that `number` ends, if it does not continue it.
fn extend(range: &mut Option<Range>, number: u32) -> Option<Range> {
    match range {
        Some(current) if current.last.checked_add(1) == Some(number) => {
            current.last = number;
            None
        }
        _ => range.replace(Range {
            first: number,
            last: number,
        }),
    }
}

fn put_range(out: &mut AttrWriter<'_>, range: Range) -> Result {
    let mut entry = out.nest(RES_QP_ENTRY)?;
    if range.first == range.last {
        entry.put(RES_LQPN, range.first)?;
    } else {
        entry.put(MIN_RANGE, range.first)?;
        entry.put(MAX_RANGE, range.last)?;
    }
    entry.end()
}

/// Writes which queue pairs receive from a shared receive queue, neighbours as one range.
fn put_qps_of_srq(context: &Context<'_>, srq: &object::Srq, out: &mut AttrWriter<'_>) -> Result {
    let mut table = out.nest(RES_QP)?;
    let mut range = None;
    for qp in Held::<object::Qp>::all(context.device).filter(|qp| qp.uses_srq(srq)) {
        if let Some(done) = extend(&mut range, qp.number()) {
            put_range(&mut table, done)?;
        }
    }
    if let Some(done) = range {
        put_range(&mut table, done)?;
    }
    table.end()
}

#[kunit_tests(rust_ib_core_nldev_ranges)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_a_range() {
        let mut range = None;
        assert_eq!(extend(&mut range, 17), None);
        assert_eq!(extend(&mut range, 18), None);
        assert_eq!(
            extend(&mut range, 20),
            Some(Range {
                first: 17,
                last: 18
            })
        );
        // A number that does not go on upwards begins a new range.
        assert_eq!(
            extend(&mut range, 1),
            Some(Range {
                first: 20,
                last: 20
            })
        );
        assert_eq!(range, Some(Range { first: 1, last: 1 }));
    }

    #[test]
    fn the_highest_number_ends_its_range() {
        let mut range = Some(Range {
            first: u32::MAX,
            last: u32::MAX,
        });
        assert!(extend(&mut range, 0).is_some());
    }
}
