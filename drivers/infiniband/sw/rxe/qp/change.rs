// SPDX-License-Identifier: GPL-2.0

//! Changes of attributes and of the state of a queue pair, to the last one.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    gid::Gid,
    net::skb::SkbList,
    qp::{
        self as core_qp,
        AttrMask,
        QpAttr,
        QpType, //
    },
    workqueue::{
        cancel_delayed_sync,
        cancel_sync, //
    },
};

use super::{
    attrs::Attrs,
    path,
    recv::Responder,
    send::{
        SendCtx,
        Sender, //
    },
    tasks,
    verbs::RecvSource,
    Outbox,
    QpCore, //
};
use crate::{
    av::Av,
    proto::{
        send::SendState,
        state::{
            QpState,
            Step, //
        },
    },
};

/// What an address vector in the rights to a peer becomes: own GID and the peer's.
fn peers(av: &Av) -> (Gid, Gid) {
    let (source, destination) = av.addresses();
    (source.into(), destination.into())
}

impl QpCore {
    /// Changes attributes, and the state if the mask says so. May sleep.
    pub(super) fn modify(
        self: &Arc<Self>,
        kind: QpType,
        attr: &mut QpAttr,
        mask: AttrMask,
    ) -> Result {
        let mut outbox = Outbox::default();
        {
            let mut attrs = self.attrs.lock();
            let now = self.state();
            let step = if mask.contains(AttrMask::STATE) {
                Some(self.step(kind, now, attr, mask)?)
            } else {
                None
            };
            // What may fail comes first, so that a change is made as a whole or not at all.
            let starts = matches!(step, Some((Step::StartReceive, _)));
            let resources = if mask.contains(AttrMask::MAX_DEST_RD_ATOMIC) {
                Some(Responder::slots(attr.max_dest_rd_atomic().into())?)
            } else if starts {
                Some(Responder::slots(attrs.resources())?)
            } else {
                None
            };
            attrs.update(attr, mask, self.transport)?;
            self.open_gate(&attrs, mask);
            self.update_sides(&attrs);
            match (step, resources) {
                (Some((Step::StartReceive, to)), Some(resources)) => {
                    let attrs = attrs.for_recv();
                    self.with_recv(|responder| responder.side.start(&attrs, resources));
                    self.set_state(to);
                }
                (step, resources) => {
                    if let Some(resources) = resources {
                        let old =
                            self.with_recv(|responder| responder.side.set_resources(resources));
                        drop(old);
                    }
                    if let Some((step, to)) = step {
                        self.take_step(&mut attrs, step, to, &mut outbox);
                    }
                }
            }
        }
        outbox.deliver(self);
        Ok(())
    }

    /// What a change of state means. `EINVAL` if there is no such change, or its attributes are not
    /// those that it needs.
    fn step(
        self: &Arc<Self>,
        kind: QpType,
        now: QpState,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result<(Step, QpState)> {
        let of = |state: Option<core_qp::QpState>| {
            state.and_then(|state| QpState::from_code(state.as_raw()))
        };
        let to = of(attr.state()).ok_or(EINVAL)?;
        let believed = if mask.contains(AttrMask::CUR_STATE) {
            Some(of(attr.cur_state()).ok_or(EINVAL)?)
        } else {
            None
        };
        let raw = |state: QpState| core_qp::QpState::from_raw(state.code()).ok_or(EINVAL);
        if !core_qp::transition(raw(now)?, raw(to)?, kind, mask) {
            return Err(EINVAL);
        }
        let state = self.with_send(|sender| sender.side.state());
        let draining = matches!(state, SendState::Draining { .. });
        if draining && !matches!(to, QpState::Err | QpState::Reset) {
            return Err(EINVAL);
        }
        let step = now.step(believed, to, self.transport).ok_or(EINVAL)?;
        Ok((step, to))
    }

    /// Lets the receive path know of new attributes.
    fn open_gate(&self, attrs: &Attrs, mask: AttrMask) {
        let mut gate = self.gate.lock();
        gate.qkey = attrs.qkey();
        if let Some(av) = attrs.av().filter(|_| mask.contains(AttrMask::AV)) {
            gate.av = Some(av);
            gate.peers = Some(peers(&av));
            gate.port = path::port_of_flow(av.flow_label(), self.qpn(), attrs.dest_qpn());
        }
    }

    /// Lets the sides know of new attributes, as far as they are started.
    fn update_sides(self: &Arc<Self>, attrs: &Attrs) {
        let for_send = attrs.for_send(self.transport, tasks::port_mtu(&self.shared));
        self.with_send(|sender| {
            if sender.side.state() != SendState::Idle {
                sender.side.set_attrs(&for_send);
            }
        });
        self.with_recv(|responder| {
            responder.side.set_allowed(attrs.allowed());
            responder.side.set_min_rnr_timer(attrs.min_rnr_timer());
        });
    }

    /// Sets the state. The caller holds the lock of the attributes.
    fn set_state(&self, to: QpState) {
        self.gate.lock().state = to;
    }

    fn take_step(
        self: &Arc<Self>,
        attrs: &mut Attrs,
        step: Step,
        to: QpState,
        outbox: &mut Outbox,
    ) {
        match step {
            // Comes with resources, which the caller has.
            Step::StartReceive => (),
            Step::Fail => self.fail(attrs, outbox),
            Step::Stay | Step::Initialize => self.set_state(to),
            Step::Reset => {
                self.set_state(to);
                self.forget(attrs);
            }
            Step::StartSend | Step::ResumeSend => {
                let attrs = attrs.for_send(self.transport, tasks::port_mtu(&self.shared));
                self.with_send(|sender| sender.side.start(&attrs));
                self.set_state(to);
                self.schedule_send();
            }
            Step::Drain => {
                self.set_state(to);
                let Some(way) = self.way() else { return };
                self.with_send(|sender| {
                    let Sender { side, routes, .. } = sender;
                    let mut ctx = SendCtx::new(self, &way, routes, outbox);
                    side.drain(&mut ctx, attrs.sqd_notify());
                });
            }
        }
    }

    /// Forgets all requests, packets and paths, without completions. The state has been changed, so
    /// that nothing new comes in.
    fn forget(self: &Arc<Self>, attrs: &mut Attrs) {
        {
            let mut gate = self.gate.lock();
            gate.av = None;
            gate.peers = None;
        }
        self.with_send(|sender| {
            sender.side.reset();
            sender.routes.clear();
            sender.arrived = SkbList::new();
            self.sq.discard();
        });
        self.with_recv(|responder| {
            responder.side.reset();
            responder.routes.clear();
            responder.arrived = SkbList::new();
            responder.waiting = None;
            if let RecvSource::Own(rq) = &self.rq {
                rq.discard();
            }
        });
        self.requests.clear();
        self.responses.clear();
        attrs.clear_paths();
    }

    /// The end: when this returns, no task does anything for the queue pair any more. May sleep, but
    /// waits for nothing outside of the driver.
    pub(super) fn close(self: &Arc<Self>) {
        {
            let mut gate = self.gate.lock();
            gate.closed = true;
            gate.state = QpState::Reset;
        }
        self.flight.set_sender(None);
        // Those in softirqs first: they queue the others, but not the other way round.
        cancel_sync::<_, { tasks::SOFT_SEND }>(self);
        cancel_sync::<_, { tasks::SOFT_RECV }>(self);
        cancel_delayed_sync::<_, { tasks::TIMER }>(self);
        cancel_sync::<_, { tasks::SEND }>(self);
        cancel_sync::<_, { tasks::RECV }>(self);
        // Tasks that had begun before may have set the timer, which would keep the queue pair for as
        // long as its peer may take.
        cancel_delayed_sync::<_, { tasks::TIMER }>(self);
        let mut attrs = self.attrs.lock();
        self.forget(&mut attrs);
    }
}
