// SPDX-License-Identifier: GPL-2.0

//! Management ports: the special queue pairs of a port and what belongs to them.

use super::{
    flight::SendMad,
    receive,
    registry::Registry, //
};
use crate::agent;
use kernel::{
    dev_err,
    list::{
        List,
        ListArc, //
    },
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        aref::ARef,
        atomic::{
            ordering::{
                Acquire,
                Release, //
            },
            Atomic, //
        },
        Arc,
        Mutex,
        SetOnce,
        SpinLockIrq, //
    },
    types::ScopeGuard, //
};
use rdma::{
    device::Device,
    gfp::Gfp,
    mad::{
        agent::{
            PortHead,
            QpHead, //
        },
        glue::{
            self,
            DeviceClient, //
        },
        recv::{
            Recv,
            RecvContext,
            RecvQueue, //
        },
        verbs::{
            find_pkey,
            max_mad_size,
            Cq,
            Pd,
            Qp,
            QpKind,
            QpSize, //
        },
        wire::{
            MAD_SIZE,
            OPA_MAD_SIZE, //
        },
        WorkCompletion, //
    },
    static_lock::StaticSpinLock,
    workqueue::{
        self,
        WorkQueue, //
    }, //
};

/// Default partition, full member.
const PKEY_DEFAULT_FULL: u16 = 0xffff;
/// Key of QP1.
const QP1_QKEY: u32 = 0x8001_0000;

/// What the lock of a queue pair's send side protects.
pub(crate) struct SendQueue {
    qp: Option<Arc<Qp<Port>>>,
    /// Datagrams that the queue pair works on.
    in_qp: u32,
    /// Most of them.
    size: u32,
    /// Number of recoveries from errors.
    epoch: u32,
    /// Datagrams that wait for room.
    line: List<SendMad, 1>,
}

impl SendQueue {
    /// There is no room.
    pub(crate) fn is_full(&self) -> bool {
        self.in_qp >= self.size || !self.line.is_empty()
    }

    /// The queue pair; `ENODEV` if the port is closed.
    pub(crate) fn qp(&self) -> Result<&Qp<Port>> {
        self.qp.as_deref().ok_or(ENODEV)
    }

    /// Counts a posted datagram and returns the epoch.
    pub(crate) fn posted(&mut self) -> u32 {
        self.in_qp = self.in_qp.saturating_add(1);
        self.epoch
    }

    /// Counts a completion.
    pub(crate) fn completed(&mut self) {
        self.in_qp = self.in_qp.saturating_sub(1);
    }

    /// Lets a datagram wait.
    pub(crate) fn line_up(&mut self, send: ListArc<SendMad, 1>) {
        self.line.push_back(send);
    }

    /// The datagram that has waited longest.
    pub(crate) fn next_in_line(&mut self) -> Option<ListArc<SendMad, 1>> {
        self.line.pop_front()
    }

    /// Number of recoveries.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The queue pair works again: what it flushed before may be posted again.
    pub(crate) fn recovered(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }
}

/// One of the two queue pairs of a port.
#[pin_data]
pub(crate) struct Slot {
    /// Set once the queue pair exists.
    head: SetOnce<QpHead>,
    #[pin]
    receives: RecvQueue,
    #[pin]
    sends: SpinLockIrq<SendQueue>,
}

impl Slot {
    fn new(size: QpSize) -> impl PinInit<Self> {
        pin_init!(Self {
            head: SetOnce::new(),
            receives <- RecvQueue::new(),
            sends <- new_spinlock_irq!(SendQueue {
                qp: None,
                in_qp: 0,
                size: size.sends,
                epoch: 0,
                line: List::new(),
            }),
        })
    }

    /// What traces see of the queue pair, if it exists.
    pub(crate) fn head(&self) -> Option<&QpHead> {
        self.head.as_ref()
    }

    /// The send side.
    pub(crate) fn sends(&self) -> &SpinLockIrq<SendQueue> {
        &self.sends
    }
}

/// Objects that only the opening and the closing of a port touch.
struct Verbs {
    qps: KVec<(QpKind, Arc<Qp<Port>>)>,
    cq: Arc<Cq<Port>>,
}

/// An open management port.
#[pin_data]
pub(crate) struct Port {
    head: PortHead,
    device: ARef<Device>,
    number: u32,
    is_opa: bool,
    mad_size: usize,
    size: QpSize,
    lkey: u32,
    closing: Atomic<i32>,
    #[pin]
    smi: Slot,
    #[pin]
    gsi: Slot,
    #[pin]
    registry: SpinLockIrq<Registry>,
    #[pin]
    verbs: Mutex<Option<Verbs>>,
    queue: WorkQueue,
}

type Key = (usize, u32);

static PORTS: StaticSpinLock<Option<RBTree<Key, Arc<Port>>>> = StaticSpinLock::new(None);

fn key(device: &Device, number: u32) -> Key {
    (device.as_raw().addr(), number)
}

impl Port {
    /// The open port of that number.
    pub(crate) fn find(device: &Device, number: u32) -> Option<Arc<Self>> {
        let guard = PORTS.lock();
        guard.as_ref()?.get(&key(device, number)).cloned()
    }

    /// Opens a port: makes its queue pairs and posts receive buffers. May sleep.
    fn open(device: &Device, number: u32) -> Result {
        let caps = device.port_caps(number);
        let mad_size = max_mad_size(device, number);
        let too_small = mad_size < MAD_SIZE || caps.opa_mad() && mad_size < OPA_MAD_SIZE;
        if kernel::warn_on!(too_small) {
            return Err(EFAULT);
        }
        let size = glue::queue_sizes();
        let log = |what: &str| dev_err!(device.as_dev(), "Couldn't create ib_mad {}\n", what);

        let pd = Arc::new(Pd::new(device).inspect_err(|_| log("PD"))?, GFP_KERNEL)?;
        let lkey = pd.local_dma_lkey();
        let name = kernel::str::CString::try_from_fmt(fmt!("ib_mad{}", number))?;
        let queue = WorkQueue::new_ordered(&name, workqueue::MEM_RECLAIM)?;
        let port = Arc::pin_init(
            pin_init!(Self {
                head: PortHead::new(device, number),
                device: device.hold(),
                number,
                is_opa: caps.opa_mad(),
                mad_size,
                size,
                lkey,
                closing: Atomic::new(0),
                smi <- Slot::new(*size),
                gsi <- Slot::new(*size),
                registry <- new_spinlock_irq!(Registry::new()),
                verbs <- new_mutex!(None),
                queue,
            }),
            GFP_KERNEL,
        )?;

        let qps = if caps.ib_smi() { 2 } else { 1 };
        let entries = size.sends.saturating_add(size.receives).saturating_mul(qps);
        let cq = Cq::new(device, port.clone(), entries.try_into()?).inspect_err(|_| log("CQ"))?;
        *port.verbs.lock() = Some(Verbs {
            qps: KVec::new(),
            cq: Arc::new(cq, GFP_KERNEL)?,
        });
        let unwind = ScopeGuard::new(|| port.close());

        if caps.ib_smi() {
            port.make_qp(&pd, QpKind::Smi)?;
        }
        if caps.ib_cm() {
            port.make_qp(&pd, QpKind::Gsi)?;
        }
        let node = RBTreeNode::new(key(device, number), port.clone(), GFP_KERNEL)?;
        let _ = PORTS.lock().get_or_insert_with(RBTree::new).insert(node);
        port.start()
            .inspect_err(|_| dev_err!(device.as_dev(), "Couldn't start port\n"))?;
        unwind.dismiss();
        Ok(())
    }

    fn make_qp(&self, pd: &Arc<Pd>, kind: QpKind) -> Result {
        let mut verbs = self.verbs.lock();
        let verbs = (*verbs).as_mut().ok_or(ENODEV)?;
        let qp = Qp::new(verbs.cq.clone(), pd.clone(), self.number, kind, self.size).inspect_err(
            |_| {
                dev_err!(
                    self.device.as_dev(),
                    "Couldn't create ib_mad QP{}\n",
                    kind.number()
                )
            },
        )?;
        let qp = Arc::new(qp, GFP_KERNEL)?;
        let slot = self.slot(kind);
        slot.head.populate(QpHead::new(&self.head, qp.as_raw()));
        slot.sends.lock().qp = Some(qp.clone());
        verbs.qps.push((kind, qp), GFP_KERNEL)?;
        Ok(())
    }

    /// Brings the queue pairs to work and fills their receive queues.
    fn start(&self) -> Result {
        let pkey_index = find_pkey(&self.device, self.number, PKEY_DEFAULT_FULL).unwrap_or(0);
        let verbs = self.verbs.lock();
        let verbs = verbs.as_ref().ok_or(ENODEV)?;
        for (kind, qp) in &verbs.qps {
            let log = |state: &str, error: &Error| {
                dev_err!(
                    self.device.as_dev(),
                    "Couldn't change QP{} state to {}: {}\n",
                    kind.number(),
                    state,
                    error.to_errno()
                )
            };
            let qkey = if qp.number() == 0 { 0 } else { QP1_QKEY };
            qp.init(pkey_index, qkey)
                .inspect_err(|error| log("INIT", error))?;
            qp.ready_to_receive()
                .inspect_err(|error| log("RTR", error))?;
            qp.ready_to_send().inspect_err(|error| log("RTS", error))?;
        }
        verbs.cq.request_notify().inspect_err(|error| {
            dev_err!(
                self.device.as_dev(),
                "Failed to request completion notification: {}\n",
                error.to_errno()
            )
        })?;
        for (kind, _) in &verbs.qps {
            self.fill(*kind, None)
                .inspect_err(|_| dev_err!(self.device.as_dev(), "Couldn't post receive WRs\n"))?;
        }
        Ok(())
    }

    /// Posts `recv`, if there is one, and new buffers until the queue is full. May
    /// sleep.
    pub(crate) fn fill(&self, kind: QpKind, recv: Option<Recv>) -> Result {
        let slot = self.slot(kind);
        let mut recv = recv;
        while slot.receives.count() < self.size.receives {
            let recv = match recv.take() {
                Some(recv) => recv,
                None => Recv::new(self.mad_size, Gfp::KERNEL)?,
            };
            let sends = slot.sends.lock();
            sends
                .qp()?
                .post_recv(&self.device, self, kind, recv, self.lkey)
                .inspect_err(|error| {
                    dev_err!(
                        self.device.as_dev(),
                        "ib_post_recv failed: {}\n",
                        error.to_errno()
                    )
                })?;
        }
        Ok(())
    }

    /// Closes the port. No agent is left, and no completion is served afterwards.
    /// May sleep.
    fn close(&self) {
        self.closing.store(1, Release);
        let node = PORTS
            .lock()
            .as_mut()
            .and_then(|ports| ports.remove_node(&key(&self.device, self.number)));
        self.queue.flush();
        let in_slots = [&self.gsi, &self.smi].map(|slot| slot.sends.lock().qp.take());
        let verbs = self.verbs.lock().take();
        drop(in_slots);
        // Queue pairs first, then their completion queue, whose end waits for its
        // work item.
        drop(verbs);
        drop(node);
    }

    /// Brings a queue pair back to work after a send failed. May sleep.
    pub(crate) fn recover(&self, kind: QpKind) -> Result {
        let verbs = self.verbs.lock();
        let verbs = verbs.as_ref().ok_or(ENODEV)?;
        let (_, qp) = verbs
            .qps
            .iter()
            .find(|(which, _)| *which == kind)
            .ok_or(ENODEV)?;
        qp.recover()
    }

    /// A queue pair.
    pub(crate) fn slot(&self, kind: QpKind) -> &Slot {
        match kind {
            QpKind::Smi => &self.smi,
            QpKind::Gsi => &self.gsi,
        }
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Number of the port.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The link has Omni-Path datagrams.
    pub(crate) fn is_opa(&self) -> bool {
        self.is_opa
    }

    /// Bytes of the largest datagram.
    pub(crate) fn mad_size(&self) -> usize {
        self.mad_size
    }

    /// Key for the memory of datagrams.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Receive buffers of a queue pair.
    pub(crate) fn receive_size(&self) -> u32 {
        self.size.receives
    }

    /// Who gets which request.
    pub(crate) fn registry(&self) -> &SpinLockIrq<Registry> {
        &self.registry
    }

    /// Runs timeouts and local deliveries, one at a time.
    pub(crate) fn queue(&self) -> &WorkQueue {
        &self.queue
    }
}

impl RecvContext for Port {
    fn receives(&self, kind: QpKind) -> &RecvQueue {
        &self.slot(kind).receives
    }

    fn received(&self, kind: QpKind, recv: Recv, completion: &WorkCompletion) {
        receive::received(self, kind, recv, completion);
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Acquire) != 0
    }
}

/// The client of the device registry.
pub(crate) struct Client;

impl DeviceClient for Client {
    fn add(device: &Device) -> Result {
        let mut opened = 0;
        for number in device
            .ports()
            .filter(|port| device.port_caps(*port).ib_mad())
        {
            if let Err(error) = open(device, number) {
                for number in (device.start_port()..number).rev() {
                    if device.port_caps(number).ib_mad() {
                        shut(device, number);
                    }
                }
                return Err(error);
            }
            opened += 1;
        }
        if opened == 0 {
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }

    fn remove(device: &Device) {
        for number in device
            .ports()
            .filter(|port| device.port_caps(*port).ib_mad())
        {
            shut(device, number);
        }
    }
}

fn open(device: &Device, number: u32) -> Result {
    Port::open(device, number)
        .inspect_err(|_| dev_err!(device.as_dev(), "Couldn't open port {}\n", number))?;
    agent::open(device, number).inspect_err(|_| {
        dev_err!(
            device.as_dev(),
            "Couldn't open port {} for agents\n",
            number
        );
        if let Some(port) = Port::find(device, number) {
            port.close();
        }
    })
}

fn shut(device: &Device, number: u32) {
    if agent::close(device, number).is_err() {
        dev_err!(
            device.as_dev(),
            "Couldn't close port {} for agents\n",
            number
        );
    }
    match Port::find(device, number) {
        Some(port) => port.close(),
        None => dev_err!(device.as_dev(), "Port {} not found\n", number),
    }
}
