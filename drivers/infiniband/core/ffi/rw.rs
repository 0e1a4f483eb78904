// SPDX-License-Identifier: GPL-2.0

//! The RDMA READ/WRITE API for the C side; prototypes in `rdma/rw.h`.

use crate::rw::{self, Policy, Transfer};
use kernel::{bindings, error::from_result, prelude::*};
use rdma::{
    device::Device,
    qp::{Qp, QpInitAttr},
    rw::{Bvecs, Context, Direction, Remote, SgSource, SigAttrs, Tail},
    warn_on_once,
};

extern "C" {
    /// Whether the parameter asks for registration everywhere.
    fn rdma_rw_is_mr_forced() -> bool;
}

fn policy() -> Policy {
    Policy {
        // SAFETY: Defined in `rw_param.c` with this type; it reads a variable.
        force_mr: unsafe { rdma_rw_is_mr_forced() },
    }
}

fn transfer(port: u32, addr: u64, rkey: u32, dir: bindings::dma_data_direction) -> Transfer {
    Transfer {
        port,
        remote: Remote { addr, rkey },
        dir: Direction::from_raw(dir),
    }
}

fn count_or_errno(result: Result<u32>) -> c_int {
    from_result(|| Ok(c_int::try_from(result?)?))
}

/// Initialises a context for a scatter list; returns how many work requests it takes.
///
/// # Safety
///
/// `ctx` and `qp` must be valid and the caller's to use, `sg` must have `sg_cnt` entries that
/// are not mapped. Process context.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_init(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    sg_offset: u32,
    remote_addr: u64,
    rkey: u32,
    dir: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let sg = unsafe { SgSource::from_raw(sg, sg_cnt) };
    let transfer = transfer(port_num, remote_addr, rkey, dir);
    count_or_errno(rw::init(context, qp, sg, sg_offset, &transfer, policy()))
}

/// Initialises a context for segments; returns how many work requests it takes.
///
/// # Safety
///
/// `ctx` and `qp` must be valid and the caller's to use, `bvecs` must have `nr_bvec` segments,
/// which `iter` covers. Process context.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_init_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port_num: u32,
    bvecs: *const bindings::bio_vec,
    nr_bvec: u32,
    iter: bindings::bvec_iter,
    remote_addr: u64,
    rkey: u32,
    dir: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let bvecs = unsafe { Bvecs::from_raw(bvecs, iter) };
    let transfer = transfer(port_num, remote_addr, rkey, dir);
    count_or_errno(rw::init_bvec(
        context,
        qp,
        bvecs,
        nr_bvec,
        &transfer,
        policy(),
    ))
}

/// Initialises a context for data and protection information; returns how many work requests it
/// takes.
///
/// # Safety
///
/// As for [`rdma_rw_ctx_init`]; `sig_attrs` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_signature_init(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    prot_sg: *mut bindings::scatterlist,
    prot_sg_cnt: u32,
    sig_attrs: *mut bindings::ib_sig_attrs,
    remote_addr: u64,
    rkey: u32,
    dir: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let (data, meta, attrs) = unsafe {
        (
            SgSource::from_raw(sg, sg_cnt),
            SgSource::from_raw(prot_sg, prot_sg_cnt),
            SigAttrs::from_raw(sig_attrs),
        )
    };
    let transfer = transfer(port_num, remote_addr, rkey, dir);
    count_or_errno(rw::init_signature(
        context, qp, data, meta, attrs, &transfer,
    ))
}

/// Chains the work requests of a context; null, with a warning, if it holds none.
///
/// # Safety
///
/// `ctx` must be initialised and stay where it is until the requests have completed, and so must
/// `cqe` and `chain_wr`, one of which may be null.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_wrs(
    ctx: *mut bindings::rdma_rw_ctx,
    _qp: *mut bindings::ib_qp,
    _port_num: u32,
    cqe: *mut bindings::ib_cqe,
    chain_wr: *mut bindings::ib_send_wr,
) -> *mut bindings::ib_send_wr {
    // SAFETY: By the contract of this function.
    let (context, tail) = unsafe { (Context::from_raw(ctx), Tail::from_raw(cqe, chain_wr)) };
    let chain = context.chain(tail);
    warn_on_once!(chain.is_none());
    chain.map_or(core::ptr::null_mut(), |chain| chain.as_raw())
}

/// Posts the work requests of a context.
///
/// # Safety
///
/// As for [`rdma_rw_ctx_wrs`]; `qp` must be live.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_post(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    cqe: *mut bindings::ib_cqe,
    chain_wr: *mut bindings::ib_send_wr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let tail = unsafe { Tail::from_raw(cqe, chain_wr) };
    from_result(|| {
        context.chain(tail).ok_or(EINVAL)?.post(qp)?;
        Ok(0)
    })
}

/// Releases a context of `rdma_rw_ctx_init()`.
///
/// # Safety
///
/// `ctx` must be initialised with the same list, and its requests have completed.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    dir: bindings::dma_data_direction,
) {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let sg = unsafe { SgSource::from_raw(sg, sg_cnt) };
    rw::destroy(context, qp, sg, Direction::from_raw(dir));
}

/// Releases a context of `rdma_rw_ctx_init_bvec()`.
///
/// # Safety
///
/// `ctx` must be initialised, and its requests have completed.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    _bvecs: *const bindings::bio_vec,
    _nr_bvec: u32,
    dir: bindings::dma_data_direction,
) {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    rw::destroy_bvec(context, qp, Direction::from_raw(dir));
}

/// Releases a context of `rdma_rw_ctx_signature_init()`.
///
/// # Safety
///
/// As for [`rdma_rw_ctx_destroy`].
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy_signature(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    prot_sg: *mut bindings::scatterlist,
    prot_sg_cnt: u32,
    dir: bindings::dma_data_direction,
) {
    // SAFETY: By the contract of this function.
    let (context, qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) };
    // SAFETY: As above.
    let (data, meta) = unsafe {
        (
            SgSource::from_raw(sg, sg_cnt),
            SgSource::from_raw(prot_sg, prot_sg_cnt),
        )
    };
    rw::destroy_signature(context, qp, data, meta, Direction::from_raw(dir));
}

/// Regions that a payload of so many pages takes.
///
/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_mr_factor(
    device: *mut bindings::ib_device,
    port_num: u32,
    maxpages: c_uint,
) -> c_uint {
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(device) };
    rw::mr_factor(device, port_num, maxpages, policy())
}

/// Send queue entries for so many contexts.
///
/// # Safety
///
/// `dev` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_max_send_wr(
    dev: *mut bindings::ib_device,
    port_num: u32,
    max_rdma_ctxs: c_uint,
    create_flags: u32,
) -> c_uint {
    const INTEGRITY: u32 = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
    // SAFETY: By the contract of this function.
    let device = unsafe { Device::from_raw(dev) };
    let integrity = create_flags & INTEGRITY != 0;
    rw::max_send_wr(device, port_num, max_rdma_ctxs, integrity, policy())
}

/// Enlarges the send queue that a consumer asks for by what its contexts need; called by the
/// verbs part.
///
/// # Safety
///
/// `dev` and `attr` must be valid.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_init_qp(
    dev: *mut bindings::ib_device,
    attr: *mut bindings::ib_qp_init_attr,
) {
    // SAFETY: By the contract of this function.
    let (device, attr) = unsafe { (Device::from_raw(dev), QpInitAttr::from_raw(attr)) };
    rw::init_qp(device, attr, policy());
}

/// Fills the pools of a new queue pair; called by the verbs part.
///
/// # Safety
///
/// `qp` and `attr` must be valid. Process context.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_init_mrs(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    let (qp, attr) = unsafe { (Qp::from_raw(qp), QpInitAttr::from_raw(attr)) };
    from_result(|| rw::init_mrs(qp, attr, policy()).map(|()| 0))
}

/// Empties the pools of a queue pair; called by the verbs part.
///
/// # Safety
///
/// `qp` must be valid and not in use. Process context.
#[export]
pub(crate) unsafe extern "C" fn rdma_rw_cleanup_mrs(qp: *mut bindings::ib_qp) {
    // SAFETY: By the contract of this function.
    rw::cleanup_mrs(unsafe { Qp::from_raw(qp) });
}
