// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    cq::Queue,
    device::{Fake, State},
    engine,
    fabric::{self, Address},
    memory::Region,
    objects::Counted,
    ops::Op,
    ring::Ring,
    srq::{Recv, Shared},
    transfer::{Message, Sges, MAX_INLINE, MAX_SGE},
};
use kernel::{
    prelude::*,
    sync::{new_spinlock_irq, Arc, SetOnce, SpinLockIrq},
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};
use rdma::{
    ah::AhAttr,
    gid::Gid,
    mr::Access,
    provider::{
        Atomic, Device, Handle, NewQp, Qp, QpOps, QpTag, RecvList, SendFlags, SendList, SendOp,
        SendWr, Target, Udata,
    },
    qp::{transition, AttrMask, QpAttr, QpCap, QpInitAttr, QpState, QpType},
};

/// Where a datagram goes.
#[derive(Clone, Copy)]
pub(crate) struct Dest {
    pub(crate) address: Address,
    pub(crate) qp: u32,
    pub(crate) qkey: u32,
    pub(crate) pkey_index: u16,
}

impl Dest {
    fn of(target: &Target<'_, Fake>) -> Self {
        Self {
            address: target.ah.with_attr(Address::of),
            qp: target.qp,
            qkey: target.qkey,
            pkey_index: target.pkey_index,
        }
    }
}

/// What a send request is to do.
pub(crate) enum Task {
    Send {
        imm: Option<u32>,
        invalidate: Option<u32>,
        dest: Option<Dest>,
    },
    Write {
        addr: u64,
        rkey: u32,
        imm: Option<u32>,
    },
    Read {
        addr: u64,
        rkey: u32,
        invalidate: Option<u32>,
    },
    CompareSwap(Atomic),
    FetchAdd(Atomic),
    Invalidate(u32),
    Register {
        region: Arc<Region>,
        key: u32,
        access: Access,
        range: (u64, u64),
    },
}

/// A send request.
pub(crate) struct Send {
    pub(crate) wr_id: u64,
    pub(crate) flags: SendFlags,
    pub(crate) task: Task,
    pub(crate) sges: Sges,
    pub(crate) inline: Option<Message>,
}

impl Send {
    /// Copies a request. `EINVAL` for one that no fake can do.
    fn new(wr: &SendWr<'_, Fake>, pair: &Pair) -> Result<Self> {
        let datagram = pair.kind.is_datagram();
        let connected = pair.kind.is_connected();
        let reliable = connected && pair.kind != QpType::UC;
        let task = match wr.op() {
            SendOp::Send | SendOp::SendImm(_) if datagram => {
                let target = wr.target().ok_or(EINVAL)?;
                Task::Send {
                    imm: match wr.op() {
                        SendOp::SendImm(imm) => Some(imm),
                        _ => None,
                    },
                    invalidate: None,
                    dest: Some(Dest::of(&target)),
                }
            }
            SendOp::Send if connected => Task::Send {
                imm: None,
                invalidate: None,
                dest: None,
            },
            SendOp::SendImm(imm) if connected => Task::Send {
                imm: Some(imm),
                invalidate: None,
                dest: None,
            },
            SendOp::SendInvalidate(rkey) if reliable => Task::Send {
                imm: None,
                invalidate: Some(rkey),
                dest: None,
            },
            SendOp::RdmaWrite {
                remote_addr: addr,
                rkey,
                imm,
            } if connected => Task::Write { addr, rkey, imm },
            SendOp::RdmaRead {
                remote_addr: addr,
                rkey,
                invalidate,
            } if reliable => Task::Read {
                addr,
                rkey,
                invalidate,
            },
            SendOp::CompareSwap(atomic) if reliable => Task::CompareSwap(atomic),
            SendOp::FetchAdd(atomic) if reliable => Task::FetchAdd(atomic),
            SendOp::LocalInvalidate(key) if connected => Task::Invalidate(key),
            SendOp::RegisterMr { mr, key, access } if connected => Task::Register {
                region: mr.region.clone(),
                key,
                access,
                range: mr.core().range(),
            },
            _ => return Err(EINVAL),
        };
        let mut this = Self {
            wr_id: wr.wr_id(),
            flags: wr.flags(),
            task,
            sges: Sges::NONE,
            inline: None,
        };
        if wr.flags().inline() {
            let mut data = KVVec::from_elem(0, pair.cap.max_inline_data as usize, GFP_ATOMIC)?;
            let len = wr.copy_inline(&mut data)?;
            data.truncate(len);
            this.inline = Some(data);
        } else {
            this.sges = Sges::new(wr.sges(), pair.cap.max_send_sge)?;
        }
        Ok(this)
    }
}

/// What was set by modify, to be used or to be told again.
#[derive(Default)]
pub(crate) struct Attrs {
    av: Option<AhAttr>,
    pub(crate) port: u32,
    pub(crate) dest_qp: u32,
    pub(crate) qkey: u32,
    pub(crate) access: Option<Access>,
    pub(crate) rnr_retry: u8,
    pub(crate) pkey_index: u16,
    path_mtu: u32,
    rq_psn: u32,
    sq_psn: u32,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    timeout: u8,
    retry_cnt: u8,
}

impl Attrs {
    pub(crate) fn address(&self) -> Option<Address> {
        self.av.as_ref().map(Address::of)
    }

    /// Takes what the mask names; returns the path that it replaces.
    fn apply(&mut self, attr: &mut QpAttr, mask: AttrMask) -> Option<AhAttr> {
        let mut old = None;
        let has = |bit| mask.contains(bit);
        if has(AttrMask::AV) {
            old = self.av.replace(attr.av().duplicate());
        }
        if has(AttrMask::PORT) {
            self.port = attr.port_num();
        }
        if has(AttrMask::DEST_QPN) {
            self.dest_qp = attr.dest_qp_num();
        }
        if has(AttrMask::QKEY) {
            self.qkey = attr.qkey();
        }
        if has(AttrMask::ACCESS_FLAGS) {
            self.access = Some(attr.access());
        }
        if has(AttrMask::RNR_RETRY) {
            self.rnr_retry = attr.rnr_retry();
        }
        if has(AttrMask::PKEY_INDEX) {
            self.pkey_index = attr.pkey_index();
        }
        if has(AttrMask::PATH_MTU) {
            self.path_mtu = attr.path_mtu();
        }
        if has(AttrMask::RQ_PSN) {
            self.rq_psn = attr.rq_psn_value();
        }
        if has(AttrMask::SQ_PSN) {
            self.sq_psn = attr.sq_psn_value();
        }
        if has(AttrMask::MAX_QP_RD_ATOMIC) {
            self.max_rd_atomic = attr.max_rd_atomic();
        }
        if has(AttrMask::MAX_DEST_RD_ATOMIC) {
            self.max_dest_rd_atomic = attr.max_dest_rd_atomic();
        }
        if has(AttrMask::MIN_RNR_TIMER) {
            self.min_rnr_timer = attr.min_rnr_timer();
        }
        if has(AttrMask::TIMEOUT) {
            self.timeout = attr.timeout();
        }
        if has(AttrMask::RETRY_CNT) {
            self.retry_cnt = attr.retry_cnt();
        }
        old
    }

    fn tell(&self, attr: &mut QpAttr) {
        if let Some(av) = &self.av {
            attr.av().copy_from(av);
        }
        attr.set_port_num(self.port);
        attr.set_dest_qp_num(self.dest_qp);
        attr.set_qkey(self.qkey);
        attr.set_access(self.access.unwrap_or(Access::NONE));
        attr.set_rnr_retry(self.rnr_retry);
        attr.set_pkey_index(self.pkey_index);
        attr.set_path_mtu(self.path_mtu);
        attr.set_rq_psn(self.rq_psn);
        attr.set_sq_psn(self.sq_psn);
        attr.set_max_rd_atomic(self.max_rd_atomic);
        attr.set_max_dest_rd_atomic(self.max_dest_rd_atomic);
        attr.set_min_rnr_timer(self.min_rnr_timer);
        attr.set_timeout(self.timeout);
        attr.set_retry_cnt(self.retry_cnt);
    }
}

/// What changes of a queue pair.
pub(crate) struct Inner {
    pub(crate) state: QpState,
    pub(crate) attrs: Attrs,
    pub(crate) sends: Ring<Send>,
    /// A send that was taken from the queue, and that waits for a receive of the peer.
    pub(crate) parked: Option<Send>,
    pub(crate) recvs: Ring<Recv>,
    /// The end of the shared receive queue was told.
    pub(crate) last_told: bool,
    groups: KVec<Gid>,
}

/// A queue pair, as the fabric knows it.
#[pin_data]
pub(crate) struct Pair {
    pub(crate) state: Arc<State>,
    pub(crate) number: u32,
    pub(crate) kind: QpType,
    pub(crate) tag: QpTag,
    pub(crate) pd: u32,
    /// The port of a management queue pair, else 0.
    pub(crate) management_port: u32,
    pub(crate) send_cq: Option<Arc<Queue>>,
    pub(crate) recv_cq: Option<Arc<Queue>>,
    pub(crate) srq: Option<Arc<Shared>>,
    pub(crate) signals_all: bool,
    cap: QpCap,
    #[pin]
    pub(crate) inner: SpinLockIrq<Inner>,
    pub(crate) handle: SetOnce<Handle<Qp<Fake>>>,
    #[pin]
    work: Work<Pair>,
}

impl_has_work! {
    impl HasWork<Self> for Pair { self.work }
}

impl WorkItem for Pair {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        engine::run(&this);
    }
}

impl Pair {
    /// Whether the queue pair gets what is sent to a group.
    pub(crate) fn is_in(&self, gid: &Gid) -> bool {
        self.inner.lock().groups.iter().any(|group| group == gid)
    }

    /// Takes a receive request.
    pub(crate) fn take_recv(&self) -> Option<Recv> {
        match &self.srq {
            Some(srq) => srq.take(),
            None => self.inner.lock().recvs.pop(),
        }
    }
}

/// A queue pair.
pub(crate) struct FakeQp {
    pair: Arc<Pair>,
    _counted: Counted,
}

impl FakeQp {
    fn new(device: &Device<Fake>, qp: NewQp<'_>, request: &mut QpInitAttr) -> Result<Self> {
        let kind = request.kind();
        let mut cap = request.cap();
        let args = [
            kind.as_raw().into(),
            cap.max_send_wr.into(),
            cap.max_recv_wr.into(),
        ];
        device.state.script.enter(Op::CREATE_QP, args)?;
        if !kind.is_connected() && !kind.is_datagram() {
            return Err(EOPNOTSUPP);
        }
        let too_many = |wr: u32, sge: u32| wr > 1 << 14 || sge as usize > MAX_SGE;
        if too_many(cap.max_send_wr, cap.max_send_sge)
            || too_many(cap.max_recv_wr, cap.max_recv_sge)
            || cap.max_inline_data as usize > MAX_INLINE
        {
            return Err(EINVAL);
        }
        let number = match kind {
            QpType::SMI => 0,
            QpType::GSI => 1,
            _ => fabric::next_id(),
        };
        let signals_all = request.signals_all();
        let management_port = if number < 2 { request.port() } else { 0 };
        let srq = qp.srq(device).map(|srq| srq.shared.clone());
        if srq.is_some() {
            cap.max_recv_wr = 0;
        }
        let inner = Inner {
            state: QpState::Reset,
            attrs: Attrs::default(),
            sends: Ring::new(cap.max_send_wr)?,
            parked: None,
            recvs: Ring::new(cap.max_recv_wr)?,
            last_told: false,
            groups: KVec::new(),
        };
        let pair = Arc::pin_init(
            pin_init!(Pair {
                state: device.state.clone(),
                number,
                kind,
                tag: qp.tag(),
                pd: qp.pd(device).map_or(0, |pd| pd.id),
                management_port,
                send_cq: qp.send_cq(device).map(|cq| cq.queue.clone()),
                recv_cq: qp.recv_cq(device).map(|cq| cq.queue.clone()),
                srq,
                signals_all,
                cap,
                inner <- new_spinlock_irq!(inner),
                handle: SetOnce::new(),
                work <- new_work!("Pair::work"),
            }),
            GFP_KERNEL,
        )?;
        qp.set_number(number);
        request.set_cap(cap);
        Ok(Self {
            pair,
            _counted: Counted::new(device, Op::CREATE_QP),
        })
    }
}

#[vtable]
impl QpOps<Fake> for FakeQp {
    fn create(
        device: &Device<Fake>,
        qp: NewQp<'_>,
        request: &mut QpInitAttr,
        _udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, qp, request)
    }

    fn created(this: &Qp<Fake>, _udata: Udata<'_>) -> Result {
        this.pair.handle.populate(this.handle()?);
        fabric::add_pair(&this.pair)
    }

    fn modify(this: &Qp<Fake>, attr: &mut QpAttr, mask: AttrMask, _udata: Udata<'_>) -> Result {
        let pair = &this.pair;
        let wanted = attr.state();
        let args = [
            pair.number.into(),
            mask.bits() as u64,
            wanted.map_or(u64::MAX, |state| state.as_raw().into()),
        ];
        pair.state.script.enter(Op::MODIFY_QP, args)?;
        let mut inner = pair.inner.lock();
        let next = match mask.contains(AttrMask::STATE) {
            true => wanted.ok_or(EINVAL)?,
            false => inner.state,
        };
        let believed = mask.contains(AttrMask::CUR_STATE).then(|| attr.cur_state());
        if believed.is_some_and(|state| state != Some(inner.state))
            || !transition(inner.state, next, pair.kind, mask)
        {
            return Err(EINVAL);
        }
        let mut discarded = None;
        if next == QpState::Reset {
            discarded = inner.attrs.av.take();
            inner.attrs = Attrs::default();
            inner.sends.retain(|_| false);
            inner.parked = None;
            inner.recvs.retain(|_| false);
            inner.last_told = false;
        }
        let old = inner.attrs.apply(attr, mask);
        inner.state = next;
        drop(inner);
        drop((discarded, old));
        engine::kick(pair);
        if next >= QpState::Rtr {
            // Somebody may have waited for this queue pair.
            engine::retry(&pair.state);
        }
        Ok(())
    }

    fn query(this: &Qp<Fake>, attr: &mut QpAttr, _mask: AttrMask, init: &mut QpInitAttr) -> Result {
        let pair = &this.pair;
        pair.state
            .script
            .enter(Op::QUERY_QP, [pair.number.into(), 0, 0])?;
        let inner = pair.inner.lock();
        inner.attrs.tell(attr);
        attr.set_state(inner.state);
        attr.set_cur_state(inner.state);
        attr.set_cap(pair.cap);
        init.set_cap(pair.cap);
        init.set_kind(pair.kind);
        Ok(())
    }

    fn destroy(this: &Qp<Fake>, _udata: Udata<'_>) -> Result {
        let pair = &this.pair;
        pair.state
            .script
            .enter(Op::DESTROY_QP, [pair.number.into(), 0, 0])?;
        fabric::remove_pair(pair);
        // Afterwards nothing of this queue pair is on its way.
        engine::flush();
        for cq in [&pair.send_cq, &pair.recv_cq].into_iter().flatten() {
            cq.forget(pair.tag);
        }
        Ok(())
    }

    fn post_send(this: &Qp<Fake>, list: &mut SendList<'_, Fake>) -> Result {
        let pair = &this.pair;
        let result = list.by_ref().try_for_each(|wr| {
            let args = [pair.number.into(), wr.opcode().into(), wr.wr_id()];
            pair.state.script.enter(Op::POST_SEND, args)?;
            let send = Send::new(&wr, pair)?;
            let mut inner = pair.inner.lock();
            if !matches!(
                inner.state,
                QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err
            ) {
                return Err(EINVAL);
            }
            let used = inner.sends.len() + usize::from(inner.parked.is_some());
            if used >= inner.sends.size() {
                return Err(ENOMEM);
            }
            inner.sends.push(send).map_err(|_| ENOMEM)
        });
        // Those before one that failed are posted.
        engine::kick(pair);
        result
    }

    fn post_recv(this: &Qp<Fake>, list: &mut RecvList<'_>) -> Result {
        let pair = &this.pair;
        let result = list.by_ref().try_for_each(|wr| {
            let args = [pair.number.into(), wr.sges().len() as u64, wr.wr_id()];
            pair.state.script.enter(Op::POST_RECV, args)?;
            if pair.srq.is_some() {
                return Err(EINVAL);
            }
            let recv = Recv::new(&wr, pair.cap.max_recv_sge)?;
            let mut inner = pair.inner.lock();
            if inner.state == QpState::Reset {
                return Err(EINVAL);
            }
            inner.recvs.push(recv).map_err(|_| ENOMEM)
        });
        engine::kick(pair);
        engine::retry(&pair.state);
        result
    }

    fn attach_mcast(this: &Qp<Fake>, gid: &Gid, lid: u16) -> Result {
        let pair = &this.pair;
        let args = [pair.number.into(), lid.into(), 0];
        pair.state.script.enter(Op::ATTACH_MCAST, args)?;
        let mut inner = pair.inner.lock();
        if !inner.groups.iter().any(|group| group == gid) {
            inner.groups.push(*gid, GFP_ATOMIC)?;
        }
        Ok(())
    }

    fn detach_mcast(this: &Qp<Fake>, gid: &Gid, lid: u16) -> Result {
        let pair = &this.pair;
        let args = [pair.number.into(), lid.into(), 0];
        pair.state.script.enter(Op::DETACH_MCAST, args)?;
        let mut inner = pair.inner.lock();
        let before = inner.groups.len();
        inner.groups.retain(|group| group != gid);
        if inner.groups.len() == before {
            return Err(EINVAL);
        }
        Ok(())
    }
}
