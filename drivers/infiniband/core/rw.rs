// SPDX-License-Identifier: GPL-2.0

//! The RDMA READ/WRITE API: memory of storage and file servers, moved with as few work requests
//! as the device allows.
//!
//! | how | when |
//! |---|---|
//! | one request | one mapped entry |
//! | several requests with several entries each | otherwise, if the device reads into them well |
//! | registered regions | iWARP reads, long reads on devices that prefer it, or `force_mr` |
//! | one request for a range of the IOMMU's addresses | segments, on devices with an IOMMU |
//! | an integrity region | data with protection information |

use kernel::prelude::*;
use rdma::{
    device::Device,
    mr::{Access, MrKind},
    mr_pool::{self, MrPool, PooledMr},
    printk::err_plain,
    qp::{Qp, QpInitAttr},
    rw::{
        Bvecs, Context, Direction, Entries, Iova, MappedBvec, MappedSg, Multi, Opcode, Operation,
        OwnedSg, Piece, Registration, Remote, SgSource, SigAttrs, Single,
    },
    warn_on_once,
};

/// Most pages of a region that the API asks for, whatever the device can do.
const MAX_PAGES: u32 = 256;

/// Page size of regions.
const PAGE_SIZE: u32 = kernel::page::PAGE_SIZE as u32;

/// Page size of integrity regions.
const INTEGRITY_PAGE_SIZE: u32 = 4096;

/// What the administrator wants of all contexts.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    /// Register memory even where nothing is won.
    pub(crate) force_mr: bool,
}

/// A transfer that a consumer asks for.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// The port that the connection uses.
    pub(crate) port: u32,
    /// The peer's memory.
    pub(crate) remote: Remote,
    /// Which way.
    pub(crate) dir: Direction,
}

impl Transfer {
    fn opcode(&self) -> Opcode {
        if self.dir.is_write() {
            Opcode::Write
        } else {
            Opcode::Read
        }
    }

    /// For a registered region: on iWARP a read may invalidate it as it ends.
    fn registered_opcode(&self, device: &Device) -> Opcode {
        match self.opcode() {
            Opcode::Read if device.port_caps(self.port).protocol_iwarp() => {
                Opcode::ReadWithInvalidate
            }
            opcode => opcode,
        }
    }

    /// What a region must allow: an iWARP read response is a remote write.
    fn access(&self, device: &Device) -> Access {
        if device.port_caps(self.port).protocol_iwarp() {
            Access::LOCAL_WRITE | Access::REMOTE_WRITE
        } else {
            Access::LOCAL_WRITE
        }
    }
}

impl Policy {
    /// Whether contexts on a port may need regions, which then have to be there.
    fn may_use_mr(self, device: &Device, port: u32) -> bool {
        self.force_mr || device.port_caps(port).protocol_iwarp() || device.attrs().max_sgl_rd != 0
    }

    /// Whether a transfer cannot do without regions.
    fn must_use_mr(self, device: &Device, transfer: &Transfer) -> bool {
        let iwarp = device.port_caps(transfer.port).protocol_iwarp();
        self.force_mr || (iwarp && transfer.dir.is_read())
    }

    /// Whether a transfer of so many entries is better off with regions.
    fn prefers_mr(self, device: &Device, transfer: &Transfer, entries: u32) -> bool {
        let limit = device.attrs().max_sgl_rd;
        transfer.dir.is_read() && limit != 0 && entries > limit
    }
}

/// Pages of a region.
fn pages_per_mr(device: &Device, integrity: bool) -> u32 {
    let attrs = device.attrs();
    let max = if integrity {
        attrs.max_pi_fast_reg_page_list_len
    } else {
        attrs.max_fast_reg_page_list_len
    };
    max.min(MAX_PAGES)
}

fn lkey(qp: &Qp) -> Result<u32> {
    Ok(qp.pd().ok_or(EINVAL)?.local_dma_lkey())
}

/// Entries of a request that goes this way.
fn sges_per_wr(qp: &Qp, dir: Direction) -> u32 {
    if dir.is_write() {
        qp.max_write_sge()
    } else {
        qp.max_read_sge()
    }
}

/// Regions of a context that is being made; they go back to the pool if it is not finished.
struct Registrations<'a> {
    pool: MrPool<'a>,
    regs: KVec<Registration>,
    requests: u32,
}

impl<'a> Registrations<'a> {
    fn finish(mut self) -> (KVec<Registration>, u32) {
        (core::mem::take(&mut self.regs), self.requests)
    }
}

impl Drop for Registrations<'_> {
    fn drop(&mut self) {
        for reg in core::mem::take(&mut self.regs) {
            reg.release(self.pool);
        }
    }
}

/// Registers entries, as many regions as it takes. `EAGAIN` if the pool runs dry.
fn register<'a>(
    qp: &'a Qp,
    transfer: &Transfer,
    mut entries: Entries<'_>,
    skip: u32,
) -> Result<Registrations<'a>> {
    let device = qp.device();
    let per_mr = pages_per_mr(device, qp.integrity_enabled());
    if per_mr == 0 {
        return Err(EINVAL);
    }
    let mut done = Registrations {
        pool: qp.rdma_mrs(),
        regs: KVec::with_capacity(entries.left().div_ceil(per_mr) as usize, GFP_KERNEL)?,
        requests: 0,
    };
    let mut remote = transfer.remote;
    let mut skip = skip;
    while entries.left() != 0 {
        let count = entries.left().min(per_mr);
        let mr = PooledMr::take(done.pool).ok_or(EAGAIN)?;
        entries.map_to(&mr, count, skip, PAGE_SIZE)?;
        let reg = Registration::new(
            mr,
            transfer.access(device),
            transfer.registered_opcode(device),
            remote,
            false,
            0,
        );
        done.requests = done.requests.wrapping_add(reg.requests());
        remote = remote.advanced(reg.length().into());
        done.regs.push(reg, GFP_KERNEL)?;
        entries.by_ref().take(count as usize).for_each(drop);
        skip = 0;
    }
    Ok(done)
}

/// Initialises a context for a scatter list, `skip` bytes of which are left out. Returns how many
/// work requests it takes. May sleep.
///
/// `EAGAIN` if there is no way without regions and the pool is empty.
pub(crate) fn init(
    context: &Context,
    qp: &Qp,
    sg: SgSource<'_>,
    skip: u32,
    transfer: &Transfer,
    policy: Policy,
) -> Result<u32> {
    let device = qp.device();
    let mapped = MappedSg::map(device, sg, transfer.dir)?;
    let mut entries = mapped.entries();
    let mut skip = skip;
    while let Some(entry) = entries.first() {
        if skip < entry.length {
            break;
        }
        skip -= entry.length;
        entries.next();
    }
    if warn_on_once!(entries.left() == 0) {
        return Err(EIO);
    }

    let must = policy.must_use_mr(device, transfer);
    if must || policy.prefers_mr(device, transfer, entries.left()) {
        match register(qp, transfer, entries.clone(), skip) {
            Ok(done) => {
                let (regs, requests) = done.finish();
                let count = regs.len() as u32;
                context.install(Operation::Registered(regs, None), count);
                mapped.keep();
                return Ok(requests);
            }
            // Only a preference: several entries do as well.
            Err(e) if e == EAGAIN && !must => (),
            Err(e) => return Err(e),
        }
    }

    let lkey = lkey(qp)?;
    let pieces = entries.left();
    let mut first = skip;
    let pieces_iter = entries.map(|entry| {
        let skip = core::mem::take(&mut first);
        Piece {
            addr: entry.addr.wrapping_add(skip.into()),
            length: entry.length.wrapping_sub(skip),
        }
    });
    let count = install_pieces(context, qp, transfer, lkey, pieces, pieces_iter)?;
    mapped.keep();
    Ok(count)
}

fn install_pieces(
    context: &Context,
    qp: &Qp,
    transfer: &Transfer,
    lkey: u32,
    count: u32,
    mut pieces: impl Iterator<Item = Piece>,
) -> Result<u32> {
    if count == 1 {
        let piece = pieces.next().ok_or(EIO)?;
        let single = Single::new(piece, lkey, transfer.opcode(), transfer.remote);
        context.install(Operation::Single(single), 1);
        return Ok(1);
    }
    let per_wr = sges_per_wr(qp, transfer.dir);
    let mut multi = Multi::new(count, per_wr, lkey, transfer.opcode(), transfer.remote)?;
    for piece in pieces {
        multi.push(piece)?;
    }
    let requests = multi.requests();
    context.install(Operation::Multi(multi), requests);
    Ok(requests)
}

/// Initialises a context for at most `count` segments. Returns how many work requests it takes.
/// May sleep.
pub(crate) fn init_bvec(
    context: &Context,
    qp: &Qp,
    mut bvecs: Bvecs<'_>,
    count: u32,
    transfer: &Transfer,
    policy: Policy,
) -> Result<u32> {
    if count == 0 || bvecs.bytes() == 0 {
        return Err(EINVAL);
    }
    let device = qp.device();
    if policy.must_use_mr(device, transfer) {
        return init_registered_bvec(context, qp, bvecs, count, transfer);
    }

    let lkey = lkey(qp)?;
    if count == 1 {
        let bv = bvecs.next().ok_or(EINVAL)?;
        let piece = MappedBvec::map(device, bv, transfer.dir)?.keep();
        let single = Single::new(piece, lkey, transfer.opcode(), transfer.remote);
        context.install(Operation::Single(single), 1);
        return Ok(1);
    }

    let iova = Iova::map(
        device,
        &mut bvecs,
        transfer.dir,
        lkey,
        transfer.opcode(),
        transfer.remote,
    );
    match iova {
        Ok(iova) => {
            context.install(Operation::Iova(iova), 1);
            return Ok(1);
        }
        Err(e) if e == EOPNOTSUPP => (),
        Err(e) => return Err(e),
    }

    let per_wr = sges_per_wr(qp, transfer.dir);
    let mut multi = MappedMulti {
        device,
        dir: transfer.dir,
        multi: Some(Multi::new(
            count,
            per_wr,
            lkey,
            transfer.opcode(),
            transfer.remote,
        )?),
    };
    for (i, bv) in bvecs.enumerate() {
        if i >= count as usize {
            return Err(EINVAL);
        }
        multi.push(MappedBvec::map(device, bv, transfer.dir)?)?;
    }
    let multi = multi.finish().ok_or(EIO)?;
    let requests = multi.requests();
    context.install(Operation::Multi(multi), requests);
    Ok(requests)
}

/// Requests whose entries are mapped one by one; unmapped if the context is not finished.
struct MappedMulti<'a> {
    device: &'a Device,
    dir: Direction,
    multi: Option<Multi>,
}

impl MappedMulti<'_> {
    fn push(&mut self, bvec: MappedBvec<'_>) -> Result {
        let multi = self.multi.as_mut().ok_or(EIO)?;
        multi.push(bvec.piece())?;
        bvec.keep();
        Ok(())
    }

    fn finish(mut self) -> Option<Multi> {
        self.multi.take()
    }
}

impl Drop for MappedMulti<'_> {
    fn drop(&mut self) {
        if let Some(multi) = &self.multi {
            unmap_pieces(self.device, multi, self.dir);
        }
    }
}

fn unmap_pieces(device: &Device, multi: &Multi, dir: Direction) {
    for piece in multi.pieces() {
        drop(MappedBvec::reclaim(device, piece, dir));
    }
}

fn init_registered_bvec(
    context: &Context,
    qp: &Qp,
    bvecs: Bvecs<'_>,
    count: u32,
    transfer: &Transfer,
) -> Result<u32> {
    let mut list = OwnedSg::new(bvecs, count)?;
    let mapped = MappedSg::map(qp.device(), list.source(), transfer.dir)?;
    let (regs, requests) = register(qp, transfer, mapped.entries(), 0)?.finish();
    mapped.keep();
    let count = regs.len() as u32;
    context.install(Operation::Registered(regs, Some(list)), count);
    Ok(requests)
}

/// Initialises a context for data and protection information. Returns how many work requests it
/// takes. May sleep.
pub(crate) fn init_signature(
    context: &Context,
    qp: &Qp,
    data: SgSource<'_>,
    meta: SgSource<'_>,
    attrs: SigAttrs<'_>,
    transfer: &Transfer,
) -> Result<u32> {
    let device = qp.device();
    let per_mr = pages_per_mr(device, qp.integrity_enabled());
    if data.entries() > per_mr || meta.entries() > per_mr {
        err_plain(fmt!(
            "SG count too large: sg_cnt={}, prot_sg_cnt={}, pages_per_mr={}\n",
            data.entries(),
            meta.entries(),
            per_mr
        ));
        return Err(EINVAL);
    }

    let data = MappedSg::map(device, data, transfer.dir)?;
    let meta = if meta.entries() != 0 {
        Some(MappedSg::map(device, meta, transfer.dir)?)
    } else {
        None
    };
    let meta_entries = meta.as_ref().map_or(Entries::none(), MappedSg::entries);

    let mut done = Registrations {
        pool: qp.sig_mrs(),
        regs: KVec::with_capacity(1, GFP_KERNEL)?,
        requests: 0,
    };
    let mr = PooledMr::take(done.pool).ok_or(EAGAIN)?;
    attrs.copy_to(&mr);
    let all = data.entries();
    if let Err(e) = all.map_integrity_to(&meta_entries, &mr, INTEGRITY_PAGE_SIZE) {
        let total = all.left().wrapping_add(meta_entries.left());
        err_plain(fmt!("failed to map PI sg ({})\n", total));
        return Err(e);
    }
    let stripped = attrs.stripped_on_wire(&mr);
    let reg = Registration::new(
        mr,
        transfer.access(device),
        transfer.opcode(),
        transfer.remote,
        true,
        stripped,
    );
    done.requests = reg.requests();
    done.regs.push(reg, GFP_KERNEL)?;
    let (regs, requests) = done.finish();
    context.install(Operation::Integrity(regs), 1);
    data.keep();
    if let Some(meta) = meta {
        meta.keep();
    }
    Ok(requests)
}

fn put_back(regs: KVec<Registration>, pool: MrPool<'_>) {
    for reg in regs {
        reg.release(pool);
    }
}

/// Releases what [`init()`] took.
pub(crate) fn destroy(context: &Context, qp: &Qp, sg: SgSource<'_>, dir: Direction) {
    match context.take() {
        Some(Operation::Registered(regs, None)) => put_back(regs, qp.rdma_mrs()),
        Some(Operation::Single(_) | Operation::Multi(_)) => (),
        other => {
            // Made by another function, or not at all: what it holds is not ours to unmap.
            warn_on_once!(true);
            core::mem::forget(other);
            return;
        }
    }
    drop(MappedSg::reclaim(qp.device(), sg, dir));
}

/// Releases what [`init_bvec`] took.
pub(crate) fn destroy_bvec(context: &Context, qp: &Qp, dir: Direction) {
    let device = qp.device();
    match context.take() {
        Some(Operation::Registered(regs, Some(mut list))) => {
            put_back(regs, qp.rdma_mrs());
            drop(MappedSg::reclaim(device, list.source(), dir));
        }
        Some(Operation::Iova(iova)) => iova.release(device, dir),
        Some(Operation::Multi(multi)) => unmap_pieces(device, &multi, dir),
        Some(Operation::Single(single)) => {
            drop(MappedBvec::reclaim(device, single.piece(), dir));
        }
        other => {
            warn_on_once!(true);
            core::mem::forget(other);
        }
    }
}

/// Releases what [`init_signature`] took.
pub(crate) fn destroy_signature(
    context: &Context,
    qp: &Qp,
    data: SgSource<'_>,
    meta: SgSource<'_>,
    dir: Direction,
) {
    match context.take() {
        Some(Operation::Integrity(regs)) => put_back(regs, qp.sig_mrs()),
        other => {
            warn_on_once!(true);
            core::mem::forget(other);
            return;
        }
    }
    let device = qp.device();
    if meta.entries() != 0 {
        drop(MappedSg::reclaim(device, meta, dir));
    }
    drop(MappedSg::reclaim(device, data, dir));
}

/// Regions that a payload of so many pages takes.
pub(crate) fn mr_factor(device: &Device, port: u32, max_pages: u32, policy: Policy) -> u32 {
    let per_mr = if policy.may_use_mr(device, port) {
        pages_per_mr(device, false)
    } else {
        device.attrs().max_sge_rd
    };
    max_pages.div_ceil(per_mr.max(1))
}

/// Work requests of a context: the transfer, and registration and invalidation if there are
/// regions.
fn requests_per_context(device: &Device, port: u32, integrity: bool, policy: Policy) -> u32 {
    if integrity || policy.may_use_mr(device, port) {
        3
    } else {
        1
    }
}

/// Send queue entries for so many contexts; saturates.
pub(crate) fn max_send_wr(
    device: &Device,
    port: u32,
    contexts: u32,
    integrity: bool,
    policy: Policy,
) -> u32 {
    requests_per_context(device, port, integrity, policy).saturating_mul(contexts)
}

/// Enlarges the send queue that a consumer asks for by what its contexts need, as far as the
/// device goes.
pub(crate) fn init_qp(device: &Device, attr: &mut QpInitAttr, policy: Policy) {
    warn_on_once!(attr.port() == 0);
    let contexts = attr.rdma_contexts();
    let integrity = attr.wants_integrity();
    let extra = max_send_wr(device, attr.port(), contexts, integrity, policy);
    let wanted = attr.max_send_wr().saturating_add(extra);
    attr.set_max_send_wr(wanted.min(device.attrs().max_qp_wr));
}

/// Fills the pools of a new queue pair. May sleep.
pub(crate) fn init_mrs(qp: &Qp, attr: &QpInitAttr, policy: Policy) -> Result {
    let device = qp.device();
    let integrity = attr.wants_integrity();
    if !integrity && !policy.may_use_mr(device, attr.port()) {
        return Ok(());
    }
    let count = attr.rdma_contexts();
    let pages = pages_per_mr(device, integrity);

    mr_pool::fill(qp.rdma_mrs(), count, MrKind::MemReg, pages, 0).inspect_err(|_| {
        err_plain(fmt!(
            "rdma_rw_init_mrs: failed to allocated {} MRs\n",
            count
        ));
    })?;
    if !integrity {
        return Ok(());
    }
    mr_pool::fill(qp.sig_mrs(), count, MrKind::Integrity, pages, pages).inspect_err(|_| {
        err_plain(fmt!(
            "rdma_rw_init_mrs: failed to allocated {} SIG MRs\n",
            count
        ));
        mr_pool::empty(qp.rdma_mrs());
    })
}

/// Empties the pools. May sleep.
pub(crate) fn cleanup_mrs(qp: &Qp) {
    mr_pool::empty(qp.sig_mrs());
    mr_pool::empty(qp.rdma_mrs());
}
