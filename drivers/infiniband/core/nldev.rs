// SPDX-License-Identifier: GPL-2.0

//! The device family of RDMA netlink: what `rdma`(8) and libibverbs ask and want done.
//!
//! [`COMMANDS`] lists the operations. Each has a handler type in the module of its subject; the
//! table decides who may call it and whether unknown attributes are tolerated.
//!
//! A reply holds a device by [`Get`](rdma::device::Get) and an object by
//! [`Held`](rdma::nldev::object::Held) while it is written, so unregistration and destruction wait
//! for it; the owner of an object waits for at most one reply. Replies are written without locks
//! except for those of statistics (a mutex) and of handle pools (spinlocks).

mod chardev;
mod dev;
mod driver;
mod fill;
mod frmr;
mod link;
mod monitor;
mod policy;
mod port;
mod res;
mod res_types;
mod stat;
mod stat_set;
mod subdev;
mod sys;

pub(crate) use self::{
    driver::{
        put_driver_string,
        put_driver_u32,
        put_driver_u64,
        put_hwcounter,
        PrintType, //
    },
    monitor::{
        notify,
        Event, //
    },
    sys::privileged_qkey,
};

use kernel::{
    bindings::{
        self,
        rdma_nldev_command, //
    },
    prelude::*, //
};
use rdma::{
    netlink::{
        Attrs,
        Family,
        Request,
        Strictness,
        Table,
        CLIENT_NLDEV,
        NLDEV_OPS, //
    },
    nldev::link::LINK_TYPES, //
};

use self::{
    res::{
        OfObject,
        Raw, //
    },
    res_types::{
        CmId,
        Cq,
        Ctx,
        Mr,
        Pd,
        Qp,
        Srq, //
    },
};

/// The client that the operations here are of.
const CLIENT: u32 = CLIENT_NLDEV;

struct Nldev;

impl Family for Nldev {
    const CLIENT: u32 = CLIENT;

    fn attrs<'a>(request: &mut Request<'a>, strictness: Strictness) -> Result<Attrs<'a>> {
        request.attrs(&policy::POLICY, strictness)
    }
}

const GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_GET;
const SET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_SET;
const NEWLINK: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_NEWLINK;
const DELLINK: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_DELLINK;
const PORT_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_PORT_GET;
const SYS_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_SYS_GET;
const SYS_SET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_SYS_SET;
const RES_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_GET;
const RES_QP_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_QP_GET;
const RES_CM_ID_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_CM_ID_GET;
const RES_CQ_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_CQ_GET;
const RES_MR_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_MR_GET;
const RES_PD_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_PD_GET;
const GET_CHARDEV: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_GET_CHARDEV;
const STAT_SET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_STAT_SET;
const STAT_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_STAT_GET;
const STAT_DEL: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_STAT_DEL;
const RES_QP_GET_RAW: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_QP_GET_RAW;
const RES_CQ_GET_RAW: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_CQ_GET_RAW;
const RES_MR_GET_RAW: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_MR_GET_RAW;
const RES_CTX_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_CTX_GET;
const RES_SRQ_GET: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_SRQ_GET;
const STAT_GET_STATUS: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_STAT_GET_STATUS;
const RES_SRQ_GET_RAW: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_RES_SRQ_GET_RAW;
const NEWDEV: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_NEWDEV;
const DELDEV: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_DELDEV;
const MONITOR: rdma_nldev_command = bindings::rdma_nldev_command_RDMA_NLDEV_CMD_MONITOR;
const FRMR_POOLS_GET: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_FRMR_POOLS_GET;
const FRMR_POOLS_SET: rdma_nldev_command =
    bindings::rdma_nldev_command_RDMA_NLDEV_CMD_FRMR_POOLS_SET;

static COMMANDS: Table<Nldev, { NLDEV_OPS as usize }> = Table::new()
    .get_and_dump::<dev::Device>(GET)
    .set::<dev::Set>(SET)
    .set::<link::New>(NEWLINK)
    .set::<link::Del>(DELLINK)
    .get_and_dump::<port::Port>(PORT_GET)
    .get::<sys::Get>(SYS_GET)
    .set::<sys::Set>(SYS_SET)
    .get_and_dump::<res::Summary>(RES_GET)
    .get_and_dump::<OfObject<Qp>>(RES_QP_GET)
    .get_and_dump::<OfObject<CmId>>(RES_CM_ID_GET)
    .get_and_dump::<OfObject<Cq>>(RES_CQ_GET)
    .get_and_dump::<OfObject<Mr>>(RES_MR_GET)
    .get_and_dump::<OfObject<Pd>>(RES_PD_GET)
    .get_and_dump::<OfObject<Ctx>>(RES_CTX_GET)
    .get_and_dump::<OfObject<Srq>>(RES_SRQ_GET)
    .admin_get_and_dump::<OfObject<Raw<Qp>>>(RES_QP_GET_RAW)
    .admin_get_and_dump::<OfObject<Raw<Cq>>>(RES_CQ_GET_RAW)
    .admin_get_and_dump::<OfObject<Raw<Mr>>>(RES_MR_GET_RAW)
    .admin_get_and_dump::<OfObject<Raw<Srq>>>(RES_SRQ_GET_RAW)
    .get::<chardev::Get>(GET_CHARDEV)
    .set::<stat_set::Set>(STAT_SET)
    .get_and_dump::<stat::Get>(STAT_GET)
    .set::<stat_set::Del>(STAT_DEL)
    .get::<stat::Status>(STAT_GET_STATUS)
    .set::<subdev::New>(NEWDEV)
    .set::<subdev::Del>(DELDEV)
    .dump::<frmr::Get>(FRMR_POOLS_GET)
    .set::<frmr::Set>(FRMR_POOLS_SET);

/// Opens the commands to user space.
pub(crate) fn init() {
    LINK_TYPES.init();
    COMMANDS.register();
}

/// Closes the commands to user space.
pub(crate) fn exit() {
    COMMANDS.unregister();
}
