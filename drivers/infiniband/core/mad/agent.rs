// SPDX-License-Identifier: GPL-2.0

//! Agents: registration, the table of transaction ids, and unregistration.
//!
//! An agent lives in an [`Arc`]. Whoever works for it holds a [`Lease`]: a send
//! object until it is freed, the delivery of a datagram until the handler has
//! returned. Unregistration waits for the last lease, after which no handler of
//! the client runs.

use super::{
    flight::{
        Sends,
        Status, //
    },
    port::Port,
    registry::Routes,
    send,
};
use crate::mad_rmpp;
use kernel::{
    dev_dbg, dev_notice, new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Refcount,
        SpinLockIrq, //
    },
    workqueue::{
        impl_has_delayed_work,
        impl_has_work,
        new_delayed_work,
        new_work,
        DelayedWork,
        Work,
        WorkItem, //
    },
};
use rdma::{
    completion::Completion,
    device::Device,
    mad::{
        agent::{
            AgentHead,
            Handlers,
            Registration, //
        },
        glue::{
            self,
            AgentEvent, //
        },
        verbs::QpKind,
        wire::{
            Class,
            Header,
            RmppHeader, //
        }, //
    },
    refcount::RefcountExt,
    static_lock::StaticSpinLock,
    workqueue, //
};

/// Flag of a registration: the client does RMPP itself.
const USER_RMPP: u32 = 1;
/// Class versions below this can be registered.
const CLASS_VERSION_LIMIT: u8 = 0x83;
/// Agent ids have 24 bits: a driver uses the upper byte to tell functions.
const ID_LIMIT: u32 = 1 << 24;

/// A registered client.
#[pin_data]
#[repr(C)]
pub(crate) struct Agent {
    /// First: the client's pointer is that of the agent.
    head: AgentHead,
    port: Arc<Port>,
    kind: QpKind,
    #[pin]
    sends: SpinLockIrq<Sends>,
    #[pin]
    transfers: SpinLockIrq<mad_rmpp::Transfers>,
    /// Runs timeouts and gives back what was cancelled.
    #[pin]
    timer: DelayedWork<Agent, 0>,
    /// Completes what the driver's own agents answered.
    #[pin]
    local_work: Work<Agent, 1>,
    leases: Refcount,
    #[pin]
    idle: Completion,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Agent, 0> for Agent { self.timer }
}
impl_has_work! {
    impl HasWork<Agent, 1> for Agent { self.local_work }
}

impl WorkItem<0> for Agent {
    type Pointer = Arc<Agent>;

    fn run(this: Arc<Agent>) {
        send::run_timeouts(&this);
    }
}

impl WorkItem<1> for Agent {
    type Pointer = Arc<Agent>;

    fn run(this: Arc<Agent>) {
        super::local::run(&this);
    }
}

/// The registered agents, for answers: the upper half of their transaction id
/// names the agent.
struct Agents {
    by_id: RBTree<u32, Arc<Agent>>,
    next: u32,
}

static AGENTS: StaticSpinLock<Option<Agents>> = StaticSpinLock::new(None);

/// Permission to use an agent; its unregistration waits.
pub(crate) struct Lease(Arc<Agent>);

impl Lease {
    /// A lease, unless the agent is gone.
    pub(crate) fn new(agent: &Arc<Agent>) -> Option<Self> {
        agent.leases.inc_not_zero().then(|| Self(agent.clone()))
    }

    /// The agent.
    pub(crate) fn agent(&self) -> &Arc<Agent> {
        &self.0
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.0.leases.inc();
        Self(self.0.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.dec_and_test() {
            self.0.idle.complete_all();
        }
    }
}

impl core::ops::Deref for Lease {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.0
    }
}

/// Why a registration is refused, for the debug log.
fn check(
    registration: Option<&Registration>,
    kind: QpKind,
    rmpp_version: u8,
    flags: u32,
    handlers: &Handlers,
) -> core::result::Result<(), &'static str> {
    if rmpp_version != 0 && rmpp_version != RmppHeader::VERSION {
        return Err("invalid RMPP Version");
    }
    let Some(registration) = registration else {
        if handlers.send.is_none() {
            return Err("no send_handler");
        }
        if flags & USER_RMPP != 0 {
            return Err("user RMPP without a class");
        }
        return Ok(());
    };
    let class = registration.class();
    if registration.class_version() >= CLASS_VERSION_LIMIT {
        return Err("invalid Class Version");
    }
    if handlers.recv.is_none() {
        return Err("no recv_handler");
    }
    if class.0 == 0 || class.0 >= Class::LIMIT && class != Class::SUBN_DIRECTED_ROUTE {
        return Err("Invalid Mgmt Class");
    }
    if class.is_vendor() && registration.oui() == [0; 3] {
        return Err("No OUI specified");
    }
    if rmpp_version != 0 && !class.has_rmpp() {
        return Err("RMPP version for non-RMPP class");
    }
    if class.is_smi() != (kind == QpKind::Smi) {
        return Err("Invalid QP type for the class");
    }
    Ok(())
}

/// Part of the receive queue that the answers to an agent's requests may fill;
/// 0 for no limit.
fn flow_limit(registration: Option<&Registration>, handlers: &Handlers) -> u32 {
    /// Size of the receive queue that subnet management counts with.
    const SMI_RECEIVES: u32 = 512;
    let receives = glue::queue_sizes().receives;
    if handlers.recv.is_none() {
        return 0;
    }
    match registration.map(|registration| registration.class()) {
        None | Some(Class::CM) => receives / 4,
        Some(Class::SUBN_ADM) => receives / 32,
        Some(class) if class.is_smi() => receives.min(SMI_RECEIVES) / 4,
        Some(_) => 0,
    }
}

/// What a client registers with.
pub(crate) struct Request<'a> {
    pub(crate) device: &'a Device,
    pub(crate) port: u32,
    /// `None` for a type of queue pair that has no management.
    pub(crate) kind: Option<QpKind>,
    pub(crate) registration: Option<Registration>,
    pub(crate) rmpp_version: u8,
    pub(crate) flags: u32,
    pub(crate) handlers: Handlers,
    /// Has no handlers, and all its datagrams are internal.
    pub(crate) internal: bool,
}

impl Agent {
    /// Registers a client. May sleep.
    ///
    /// `EPROTONOSUPPORT` if the port has no such queue pair, `ENODEV` if it is not
    /// open, `EINVAL` for contradictory requests and taken methods.
    pub(crate) fn register(request: Request<'_>) -> Result<Arc<Self>> {
        let device = request.device;
        let caps = device.port_caps(request.port);
        let kind = match request.kind {
            Some(QpKind::Smi) if !caps.ib_smi() => return Err(EPROTONOSUPPORT),
            Some(QpKind::Gsi) if !caps.ib_cm() => return Err(EPROTONOSUPPORT),
            Some(kind) => kind,
            None => {
                dev_dbg!(device.as_dev(), "ib_register_mad_agent: invalid QP Type\n");
                return Err(EINVAL);
            }
        };
        if !request.internal {
            if let Err(why) = check(
                request.registration.as_ref(),
                kind,
                request.rmpp_version,
                request.flags,
                &request.handlers,
            ) {
                dev_dbg!(device.as_dev(), "ib_register_mad_agent: {}\n", why);
                return Err(EINVAL);
            }
        }
        let port = Port::find(device, request.port).ok_or(ENODEV)?;
        let qp = port.slot(kind).head().ok_or(EPROTONOSUPPORT)?;
        let limit = flow_limit(request.registration.as_ref(), &request.handlers);
        let head = AgentHead::new(
            device,
            request.port,
            qp,
            request.registration,
            request.rmpp_version,
            request.flags,
            request.handlers,
        );
        let agent = Arc::pin_init(
            pin_init!(Self {
                head,
                kind,
                sends <- new_spinlock_irq!(Sends::new(limit)),
                transfers <- new_spinlock_irq!(mad_rmpp::Transfers::new()),
                timer <- new_delayed_work!(),
                local_work <- new_work!(),
                leases: Refcount::new(1),
                idle <- Completion::new(),
                port,
            }),
            GFP_KERNEL,
        )?;
        let routes = Routes::new(&agent)?;
        agent.publish()?;
        let added = agent.port.registry().lock().add(&agent, routes);
        if let Err((method, _routes)) = added {
            pr_err!("Method {} already in use\n", method);
            agent.withdraw();
            return Err(EINVAL);
        }
        glue::trace_agent(AgentEvent::Create, &agent.head);
        Ok(agent)
    }

    /// Gives the agent its id.
    fn publish(self: &Arc<Self>) -> Result {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut guard = AGENTS.lock();
        let agents = guard.get_or_insert_with(|| Agents {
            by_id: RBTree::new(),
            next: 1,
        });
        for _ in 1..ID_LIMIT {
            let id = agents.next;
            agents.next = if id + 1 < ID_LIMIT { id + 1 } else { 1 };
            if agents.by_id.get(&id).is_none() {
                self.head.set_id(id);
                let _ = agents.by_id.insert(reservation.into_node(id, self.clone()));
                return Ok(());
            }
        }
        Err(EBUSY)
    }

    fn withdraw(&self) {
        let mut guard = AGENTS.lock();
        if let Some(agents) = guard.as_mut() {
            drop(agents.by_id.remove_node(&self.head.id()));
        }
    }

    /// Unregisters the client: its datagrams come back as flushed, and when this
    /// returns, no handler of it runs. May sleep; not from a handler.
    pub(crate) fn unregister(self: Arc<Self>) {
        glue::trace_agent(AgentEvent::Unregister, &self.head);
        // Nothing can wait for an answer any more, so none is delivered.
        send::cancel_all(&self);
        workqueue::cancel_delayed::<_, 0>(&self);
        self.port.registry().lock().remove(&self);
        self.withdraw();
        self.port.queue().flush();

        if !self.leases.dec_and_test() {
            self.idle.wait();
        }
        workqueue::cancel_delayed::<_, 0>(&self);
        mad_rmpp::drop_transfers(&self);
    }

    /// What clients and traces see.
    pub(crate) fn head(&self) -> &AgentHead {
        &self.head
    }

    /// The port.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// The queue pair.
    pub(crate) fn kind(&self) -> QpKind {
        self.kind
    }

    /// Datagrams under way.
    pub(crate) fn sends(&self) -> &SpinLockIrq<Sends> {
        &self.sends
    }

    /// Transfers that are being received.
    pub(crate) fn transfers(&self) -> &SpinLockIrq<mad_rmpp::Transfers> {
        &self.transfers
    }

    /// The kernel does RMPP for the client.
    pub(crate) fn has_kernel_rmpp(&self) -> bool {
        self.head.rmpp_version() != 0 && self.head.flags() & USER_RMPP == 0
    }

    /// Runs the timeouts `delay` jiffies from now.
    pub(crate) fn arm_timer(self: &Arc<Self>, delay: usize) {
        self.port.queue().reschedule::<_, 0>(self.clone(), delay);
    }

    /// Runs the completions of local deliveries.
    pub(crate) fn kick_local(self: &Arc<Self>) {
        let _ = self.port.queue().enqueue::<_, 1>(self.clone());
    }

    /// Gives a datagram back, or drops an internal one.
    pub(crate) fn give_back(&self, send: super::flight::OwnedSend, status: Status) {
        if send.is_internal() {
            drop(send);
        } else {
            self.head.report(send, status.code, status.vendor_err);
        }
    }
}

/// The agent that a received datagram is for.
pub(crate) fn find(port: &Port, header: &Header, mad: &[u8]) -> Option<Lease> {
    let lease = if header.is_response() {
        let guard = AGENTS.lock();
        let agents = guard.as_ref()?;
        Lease::new(agents.by_id.get(&header.agent_id())?)?
    } else {
        let registry = port.registry().lock();
        Lease::new(registry.find(header, mad)?)?
    };
    if !lease.head.has_recv_handler() {
        dev_notice!(
            port.device().as_dev(),
            "No receive handler for client {:p} on port {}\n",
            lease.head.as_raw(),
            port.number()
        );
        return None;
    }
    Some(lease)
}
