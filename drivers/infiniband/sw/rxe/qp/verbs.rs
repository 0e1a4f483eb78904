// SPDX-License-Identifier: GPL-2.0

//! Verbs of queue pairs.

use kernel::{
    bindings, new_delayed_work, new_mutex, new_spinlock_irq, new_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        SetOnce, //
    },
};
use rdma::{
    gfp::Gfp,
    gid::Gid,
    net::{
        roce,
        skb::SkbQueue, //
    },
    provider::{
        self,
        Device,
        NewQp,
        QpOps,
        RecvList,
        SendList,
        Udata, //
    },
    qp::{
        self as core_qp,
        AttrMask,
        QpAttr,
        QpCap,
        QpInitAttr,
        QpType, //
    },
};

use super::{
    attrs::Attrs,
    path,
    recv::Responder,
    send::Sender,
    side::Side,
    Gate,
    QpCore, //
};
use crate::{
    abi,
    cq::QpName,
    device::{
        Rxe,
        Shared, //
    },
    flight::Flight,
    ids::Published,
    mem::Asker,
    mmap::{
        self,
        Offer, //
    },
    params,
    pd::{
        PdId,
        QpId,
        XrcdId, //
    },
    proto::{
        attrs::Transport,
        send::{
            SendState,
            WINDOW, //
        },
        state::QpState, //
    },
    srq::{
        self,
        SrqCore, //
    },
    wq::{
        RecvQueue,
        SendQueue,
        RECV_TAILS, //
    },
    wqe::{
        SendCaps,
        TailPool, //
    },
};
use zerocopy::FromZeros as _;

/// Where receive requests come from.
pub(super) enum RecvSource {
    /// The queue of the queue pair.
    Own(Arc<RecvQueue>),
    /// A queue that it shares with others, and memory for what is taken from it.
    Shared(Arc<SrqCore>, Arc<TailPool>),
    /// The queue that the peer names, of those in the domain of an XRC target, and memory for what
    /// is taken from it.
    Named(XrcdId, Arc<TailPool>),
    /// There are none: XRC initiators.
    None,
}

/// A queue pair.
pub(crate) struct Qp {
    core: Arc<QpCore>,
    kind: QpType,
    /// Of a process.
    user: bool,
    signals_all: bool,
    cap: QpCap,
    send_offer: Option<Offer>,
    recv_offer: Option<Offer>,
    _published: Published<QpCore>,
}

/// The transport of a kind of queue pairs; `EOPNOTSUPP` for one that there is not.
fn transport_of(kind: QpType) -> Result<Transport> {
    match kind.as_raw() {
        bindings::ib_qp_type_IB_QPT_RC => Ok(Transport::Rc),
        bindings::ib_qp_type_IB_QPT_UC => Ok(Transport::Uc),
        bindings::ib_qp_type_IB_QPT_UD | bindings::ib_qp_type_IB_QPT_GSI => Ok(Transport::Ud),
        bindings::ib_qp_type_IB_QPT_XRC_INI => Ok(Transport::XrcIni),
        bindings::ib_qp_type_IB_QPT_XRC_TGT => Ok(Transport::XrcTgt),
        _ => Err(EOPNOTSUPP),
    }
}

/// `EINVAL` if more is asked for than there is.
fn check_cap(cap: &QpCap, has_srq: bool) -> Result {
    let too_much = cap.max_send_wr > params::MAX_QP_WR
        || cap.max_send_sge > params::MAX_SGE
        || cap.max_inline_data > params::MAX_INLINE
        || (!has_srq && cap.max_recv_wr > params::MAX_QP_WR)
        || (!has_srq && cap.max_recv_sge > params::MAX_SGE);
    if too_much {
        Err(EINVAL)
    } else {
        Ok(())
    }
}

impl Qp {
    fn new(
        device: &Device<Rxe>,
        qp: NewQp<'_>,
        request: &mut QpInitAttr,
        udata: Udata<'_>,
    ) -> Result<Self> {
        let user = udata.is_user();
        if user && (udata.input_len() != 0 || udata.output_len() < size_of::<abi::QpResponse>()) {
            return Err(EINVAL);
        }
        if request.create_flags() != 0 {
            return Err(EOPNOTSUPP);
        }
        let kind = request.kind();
        let transport = transport_of(kind)?;
        let is_gsi = kind.as_raw() == bindings::ib_qp_type_IB_QPT_GSI;
        if is_gsi && request.port() != params::PORT {
            return Err(EINVAL);
        }
        if transport == Transport::XrcIni && !user {
            // A request of the kernel, `struct ib_send_wr`, has no place for the number.
            return Err(EOPNOTSUPP);
        }
        let srq = qp.srq(device);
        let send_cq = qp.send_cq(device).map(|cq| cq.inner().clone());
        let recv_cq = qp.recv_cq(device).map(|cq| cq.inner().clone());
        let (has_sends, has_receives) = match transport {
            Transport::XrcIni => (true, false),
            Transport::XrcTgt => (false, false),
            _ => (true, true),
        };
        if (has_sends && send_cq.is_none()) || (has_receives && recv_cq.is_none()) {
            return Err(EINVAL);
        }
        let pd = match qp.pd(device) {
            Some(pd) => pd.id(),
            // The queue that the peer names has one.
            None if transport == Transport::XrcTgt => PdId::new(),
            None => return Err(EINVAL),
        };
        let mut cap = request.cap();
        if !has_sends {
            cap.max_send_wr = 0;
            cap.max_send_sge = 0;
            cap.max_inline_data = 0;
        }
        if !has_receives {
            cap.max_recv_wr = 0;
            cap.max_recv_sge = 0;
        }
        check_cap(&cap, srq.is_some())?;

        // Entries and inline bytes of a request share their place.
        let unit = size_of::<abi::Sge>() as u32;
        let tail = (cap.max_send_sge * unit).max(cap.max_inline_data);
        let caps = SendCaps {
            service: transport.service(),
            max_sge: tail / unit,
            max_inline: tail,
            signal_all: request.signals_all(),
            pd,
        };
        let sq = SendQueue::new(cap.max_send_wr.max(1), caps, user && has_sends)?;
        if has_sends {
            cap.max_send_wr = sq.capacity();
            cap.max_send_sge = caps.max_sge;
            cap.max_inline_data = caps.max_inline;
        }
        let rq = match (transport, srq) {
            (Transport::XrcTgt, _) => {
                let domain = qp.xrcd(device, request).ok_or(EINVAL)?.id();
                let tails = TailPool::new(RECV_TAILS, srq::MAX_SGE as usize)?;
                RecvSource::Named(domain, tails)
            }
            (Transport::XrcIni, _) => RecvSource::None,
            (_, Some(srq)) => {
                let core = srq.inner().clone();
                let tails = TailPool::new(RECV_TAILS, core.max_sge() as usize)?;
                RecvSource::Shared(core, tails)
            }
            (_, None) => {
                let rq = RecvQueue::new(cap.max_recv_wr.max(1), cap.max_recv_sge, user)?;
                cap.max_recv_wr = rq.capacity();
                RecvSource::Own(rq)
            }
        };

        let shared = Shared::of(device);
        let slot = if is_gsi {
            let slot = shared.qps.reserve_at(params::GSI_QPN, Gfp::KERNEL);
            slot.map_err(|err| if err == EBUSY { EINVAL } else { err })?
        } else {
            shared.qps.reserve(Gfp::KERNEL)?
        };
        let qpn = slot.id();

        let offer = |pages: Option<Arc<_>>| -> Result<Option<Offer>> {
            match pages {
                Some(pages) => Ok(Some(mmap::maps_of(udata)?.offer(&pages)?)),
                None => Ok(None),
            }
        };
        let send_offer = offer(sq.pages())?;
        let recv_offer = match &rq {
            RecvSource::Own(rq) => offer(rq.pages())?,
            _ => None,
        };

        let sender = Sender::new(transport, qpn, (cap.max_send_wr as usize).clamp(1, WINDOW))?;
        let is_shared = matches!(rq, RecvSource::Shared(..) | RecvSource::Named(..));
        let responder = Responder::new(transport, qpn, is_shared);
        let flight = Flight::new()?;
        let port = request.port();
        let name = QpName {
            number: qpn,
            tag: qp.tag(),
        };
        let core = Arc::pin_init(
            pin_init!(QpCore {
                shared: shared.clone(),
                asker: Asker { pd, qp: QpId::new() },
                name,
                transport,
                gate <- new_spinlock_irq!(Gate {
                    state: QpState::Reset,
                    av: None,
                    peers: None,
                    port: path::port_of_qpn(qpn),
                    qkey: 0,
                    closed: false,
                }, "rxe_qp_gate"),
                attrs <- new_mutex!(Attrs::new(port), "rxe_qp_attrs"),
                send <- Side::new(sender),
                recv <- Side::new(responder),
                taken_to: Atomic::new(u64::MAX),
                failing: Atomic::new(false),
                sq,
                rq,
                send_cq,
                recv_cq,
                requests <- SkbQueue::new(),
                responses <- SkbQueue::new(),
                flight,
                groups: Atomic::new(0),
                consumer: SetOnce::new(),
                send_work <- new_work!("rxe_send"),
                recv_work <- new_work!("rxe_recv"),
                timer_work <- new_delayed_work!("rxe_timer"),
                soft_send_work <- new_work!("rxe_soft_send"),
                soft_recv_work <- new_work!("rxe_soft_recv"),
            }),
            GFP_KERNEL,
        )?;
        let published = slot.publish(core.clone(), Gfp::KERNEL)?;
        qp.set_number(qpn);
        request.set_cap(cap);
        Ok(Self {
            core,
            kind,
            user,
            signals_all: request.signals_all(),
            cap,
            send_offer,
            recv_offer,
            _published: published,
        })
    }
}

#[vtable]
impl QpOps<Rxe> for Qp {
    type OwnerModule = crate::LocalModule;

    fn create(
        device: &Device<Rxe>,
        qp: NewQp<'_>,
        request: &mut QpInitAttr,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, qp, request, udata)
    }

    fn created(this: &provider::Qp<Rxe>, udata: Udata<'_>) -> Result {
        if udata.is_user() {
            let info = |offer: &Option<Offer>| {
                offer
                    .as_ref()
                    .map_or_else(abi::MmapInfo::new_zeroed, Offer::info)
            };
            udata.respond(&abi::QpResponse {
                recv: info(&this.recv_offer),
                send: info(&this.send_offer),
            })?;
        }
        this.core.consumer.populate(this.handle()?);
        this.core.flight.set_sender(Some(this.core.clone()));
        Ok(())
    }

    fn modify(
        this: &provider::Qp<Rxe>,
        attr: &mut QpAttr,
        mask: AttrMask,
        _udata: Udata<'_>,
    ) -> Result {
        if !AttrMask::STANDARD.contains(mask) {
            return Err(EOPNOTSUPP);
        }
        if mask.contains(AttrMask::CAP) {
            check_cap(&attr.cap(), !matches!(this.core.rq, RecvSource::Own(..)))?;
        }
        this.core.modify(this.kind, attr, mask)
    }

    fn query(
        this: &provider::Qp<Rxe>,
        attr: &mut QpAttr,
        _mask: AttrMask,
        init: &mut QpInitAttr,
    ) -> Result {
        let core = &this.core;
        core.attrs.lock().report(attr);
        attr.set_cap(this.cap);
        core.with_send(|sender| {
            attr.set_sq_psn(sender.side.next_psn().get());
            let draining = matches!(sender.side.state(), SendState::Draining { .. });
            attr.set_sq_draining(draining.into());
        });
        attr.set_rq_psn(core.with_recv(|responder| responder.side.expected_psn().get()));
        if let Some(state) = core_qp::QpState::from_raw(core.state().code()) {
            attr.set_state(state);
            attr.set_cur_state(state);
        }
        init.set_kind(this.kind);
        init.set_cap(this.cap);
        init.set_sig_type(if this.signals_all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        });
        Ok(())
    }

    fn destroy(this: &provider::Qp<Rxe>, _udata: Udata<'_>) -> Result {
        if this.core.groups.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        this.core.close();
        Ok(())
    }

    fn post_send(this: &provider::Qp<Rxe>, list: &mut SendList<'_, Rxe>) -> Result {
        let core = &this.core;
        let state = core.state();
        if core.send_cq.is_none() || !state.may_post_send() {
            return Err(EINVAL);
        }
        let mut result = Ok(());
        if this.user {
            // A process posts to the ring itself, and only rings the doorbell. Requests that come
            // by the command are not looked at, as with the C driver.
            core.doorbell();
        } else {
            for wr in list.by_ref() {
                result = core.sq.post(&wr);
                if result.is_err() {
                    break;
                }
            }
            // From any context, and perhaps from the handler of a completion.
            core.schedule_send();
        }
        if state == QpState::Err {
            // A process tells of no receives that it posts; those are to be flushed as well. A change
            // to this state since then has had both queues flushed.
            core.schedule_recv();
        }
        result
    }

    fn post_recv(this: &provider::Qp<Rxe>, list: &mut RecvList<'_>) -> Result {
        let core = &this.core;
        let RecvSource::Own(rq) = &core.rq else {
            return Err(EINVAL);
        };
        if !core.state().may_post_recv() {
            return Err(EINVAL);
        }
        let mut result = Ok(());
        for wr in list.by_ref() {
            result = rq.post(&wr);
            if result.is_err() {
                break;
            }
        }
        if core.state() == QpState::Err {
            core.schedule_recv();
        }
        result
    }

    fn attach_mcast(this: &provider::Qp<Rxe>, gid: &Gid, _lid: u16) -> Result {
        let device = this.device();
        let netdev = roce::netdev_of(device.core(), params::PORT).ok_or(ENODEV)?;
        Shared::of(device).mcast.attach(&netdev, gid, &this.core)
    }

    fn detach_mcast(this: &provider::Qp<Rxe>, gid: &Gid, _lid: u16) -> Result {
        Shared::of(this.device()).mcast.detach(gid, &this.core)
    }
}
