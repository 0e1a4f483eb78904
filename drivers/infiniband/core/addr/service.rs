// SPDX-License-Identifier: GPL-2.0

//! Pending requests.
//!
//! A request is in the table from its start until its asker was told, or until it is cancelled.
//! Whoever takes it out of the table decides what becomes of it: the worker, after the asker's
//! handler has returned, or a cancellation, which then waits for the worker. A request that is not
//! in the table is never scheduled again.

use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_mutex, new_spinlock_irq, Arc, Mutex, SpinLockIrq};
use kernel::time::{msecs_to_jiffies, Jiffies};
use kernel::workqueue::{impl_has_delayed_work, DelayedWork, WorkItem};
use kernel::{new_delayed_work, warn_on};
use rdma::addr::{Asker, DevAddr, GidDevAddr, Key, SockAddr};
use rdma::completion::Completion;
use rdma::gid::{Gid, GidAttr};
use rdma::net::netevent::{NeighbourUpdate, Netevent};
use rdma::net::notifier::{Handler, Registration};
use rdma::net::route::jiffies;
use rdma::pin_once::PinOnce;
use rdma::workqueue::{self, WorkQueue};

use super::resolve::{resolve, Attempt, Unresolved};

/// Whom a request belongs to.
pub(crate) enum Client {
    /// C code, with a result structure and a handler of its own.
    Asker(Asker),
    /// A thread of the core that waits.
    Waiter(Arc<Waiter>),
}

impl Client {
    fn addr(&self) -> &DevAddr {
        match self {
            Self::Asker(asker) => asker.addr(),
            Self::Waiter(waiter) => &waiter.addr,
        }
    }

    fn key(&self) -> Key {
        match self {
            Self::Asker(asker) => asker.key(),
            Self::Waiter(waiter) => Key::from(&*waiter.addr),
        }
    }

    fn tell(self, outcome: Result, source: SockAddr) {
        match self {
            Self::Asker(asker) => asker.tell(outcome, source),
            Self::Waiter(waiter) => {
                *waiter.outcome.lock() = outcome;
                waiter.done.complete();
            }
        }
    }
}

/// A thread that waits for the outcome of a request.
#[pin_data]
pub(crate) struct Waiter {
    addr: GidDevAddr,
    #[pin]
    outcome: Mutex<Result>,
    #[pin]
    done: Completion,
}

/// What changes while a request is worked on; only the worker does.
struct Progress {
    source: SockAddr,
    /// There until the outcome was told.
    client: Option<Client>,
    /// The first attempt has succeeded: only the telling is left.
    resolved: bool,
}

#[pin_data]
struct Request {
    service: Arc<Service>,
    key: Key,
    attempt: Attempt,
    destination: SockAddr,
    deadline: Jiffies,
    #[pin]
    progress: Mutex<Progress>,
    #[pin]
    work: DelayedWork<Request>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Request { self.work }
}

/// A request in the table.
struct Pending {
    request: Arc<Request>,
    /// What user space has said.
    answer: Option<Gid>,
}

#[pin_data]
struct Service {
    queue: WorkQueue,
    next_seq: Atomic<u32>,
    /// By the number that user space answers with.
    #[pin]
    pending: SpinLockIrq<RBTree<u32, Pending>>,
}

/// How long until `time`, which may be over.
fn until(time: Jiffies) -> Jiffies {
    let left = time.wrapping_sub(jiffies());
    if left > Jiffies::MAX / 2 {
        0
    } else {
        left
    }
}

impl Request {
    fn schedule(self: &Arc<Self>, time: Jiffies) {
        self.service.queue.reschedule(self.clone(), until(time));
    }

    /// Makes another attempt, unless user space has answered.
    fn advance(&self, progress: &mut Progress) -> Result<(), Unresolved> {
        let Some(client) = progress.client.as_ref() else {
            return Ok(());
        };
        if progress.resolved {
            return Ok(());
        }
        if let Some(gid) = self.service.answer_of(self.attempt.seq) {
            client.addr().set_destination_gid(gid);
            return Ok(());
        }
        resolve(
            &mut progress.source,
            &self.destination,
            client.addr(),
            self.attempt,
        )
    }
}

impl WorkItem for Request {
    type Pointer = Arc<Request>;

    fn run(this: Arc<Request>) {
        let mut progress = this.progress.lock();
        let outcome = match this.advance(&mut progress) {
            Ok(()) => Ok(()),
            Err(_) if until(this.deadline) == 0 => Err(ETIMEDOUT),
            Err(Unresolved::Pending) => {
                drop(progress);
                this.service.schedule_if_pending(&this);
                return;
            }
            Err(Unresolved::Failed(error)) => Err(error),
        };
        let source = progress.source;
        let client = progress.client.take();
        drop(progress);
        if let Some(client) = client {
            client.tell(outcome, source);
        }
        this.service.finish(&this);
    }
}

impl Service {
    /// The next number by which user space answers.
    fn next_attempt(&self, by_gid: bool) -> Attempt {
        Attempt {
            by_gid,
            seq: self.next_seq.fetch_add(1, Relaxed).wrapping_add(1),
        }
    }

    /// Starts a request; its client is told later, never from here.
    ///
    /// Errors: those of the first attempt, except that an answer is not there yet.
    fn start(
        self: Arc<Self>,
        mut source: SockAddr,
        destination: SockAddr,
        client: Client,
        timeout_ms: u32,
        by_gid: bool,
    ) -> Result {
        let attempt = self.next_attempt(by_gid);
        let resolved = match resolve(&mut source, &destination, client.addr(), attempt) {
            Ok(()) => true,
            Err(Unresolved::Pending) => false,
            Err(Unresolved::Failed(error)) => return Err(error),
        };
        let progress = Progress {
            source,
            client: Some(client),
            resolved,
        };
        self.enqueue(progress, destination, attempt, timeout_ms)
    }

    /// Puts a request into the table after its first attempt.
    fn enqueue(
        self: Arc<Self>,
        progress: Progress,
        destination: SockAddr,
        attempt: Attempt,
        timeout_ms: u32,
    ) -> Result {
        let now = jiffies();
        let deadline = if progress.resolved {
            now
        } else {
            now.wrapping_add(msecs_to_jiffies(timeout_ms))
        };
        let key = progress.client.as_ref().ok_or(EINVAL)?.key();
        let service = self.clone();
        let request = Arc::pin_init(
            pin_init!(Request {
                service,
                key,
                attempt,
                destination,
                deadline,
                progress <- new_mutex!(progress),
                work <- new_delayed_work!("rdma::addr::Request::work"),
            }),
            GFP_KERNEL,
        )?;
        let pending = Pending {
            request: request.clone(),
            answer: None,
        };
        let node = RBTreeNode::new(attempt.seq, pending, GFP_KERNEL)?;
        let mut table = self.pending.lock();
        if table.get(&attempt.seq).is_some() {
            // Four billion requests later; refused rather than replaced.
            drop(table);
            return Err(EBUSY);
        }
        table.insert(node);
        request.schedule(deadline);
        Ok(())
    }

    fn answer_of(&self, seq: u32) -> Option<Gid> {
        self.pending.lock().get(&seq)?.answer
    }

    /// Waits for the deadline, or for a neighbour, unless the request was cancelled.
    fn schedule_if_pending(&self, request: &Arc<Request>) {
        let table = self.pending.lock();
        if table.get(&request.attempt.seq).is_some() {
            request.schedule(request.deadline);
        }
    }

    /// Takes a request out of the table, unless that was done meanwhile.
    fn finish(&self, request: &Arc<Request>) {
        let mut table = self.pending.lock();
        let node = table.remove_node(&request.attempt.seq);
        if node.is_some() {
            // A neighbour may have scheduled it once more while the client was told.
            workqueue::cancel_delayed(request);
        }
        drop(table);
        drop(node);
    }

    /// Takes the request with a key out of the table.
    fn take(&self, key: Key) -> Option<Arc<Request>> {
        let mut table = self.pending.lock();
        let seq = table
            .iter()
            .find(|(_, pending)| pending.request.key == key)
            .map(|(seq, _)| *seq)?;
        let node = table.remove_node(&seq)?;
        drop(table);
        Some(node.to_key_value().1.request)
    }
}

/// A neighbour has become known: all requests try again.
impl Handler<Netevent> for Retry {
    fn notify(&self, _: NeighbourUpdate) {
        let table = self.0.pending.lock();
        let now = jiffies();
        for pending in table.values() {
            pending.request.schedule(now);
        }
    }
}

struct Retry(Arc<Service>);

/// The service, and what feeds it.
struct Running {
    service: Arc<Service>,
    events: Pin<KBox<Registration<Netevent, Retry>>>,
}

/// There between `init` and `cleanup`.
static RUNNING: PinOnce<Mutex<Option<Running>>> = PinOnce::new();

fn service() -> Result<Arc<Service>> {
    let running = RUNNING.get().ok_or(ENODEV)?.lock();
    running
        .as_ref()
        .map(|running| running.service.clone())
        .ok_or(ENODEV)
}

/// Makes the service, when the module loads.
pub(crate) fn init() -> Result {
    let queue = WorkQueue::new(c"ib_addr", workqueue::UNBOUND, 0)?;
    let service = Arc::pin_init(
        pin_init!(Service {
            queue,
            next_seq: Atomic::new(0),
            pending <- new_spinlock_irq!(RBTree::new()),
        }),
        GFP_KERNEL,
    )?;
    let events = KBox::pin_init(Registration::new(Retry(service.clone())), GFP_KERNEL)?;
    RUNNING.init(new_mutex!(None));
    *RUNNING.get().ok_or(ENOMEM)?.lock() = Some(Running { service, events });
    Ok(())
}

/// Ends the service, when the module is unloaded and nobody can ask any more.
pub(crate) fn cleanup() {
    let Some(running) = RUNNING.get().and_then(|running| running.lock().take()) else {
        return;
    };
    drop(running.events);
    // The last reference must not be that of an item on the queue, which would wait for itself.
    running.service.queue.drain();
    let is_empty = running.service.pending.lock().is_empty();
    warn_on!(!is_empty);
}

/// See `rdma_resolve_ip`: resolves `destination`, and `source` unless that is given; the client is
/// told exactly once unless it cancels. May sleep.
///
/// Errors: `EINVAL` if the two addresses are of different families, those of the first attempt.
pub(crate) fn start(
    source: Option<SockAddr>,
    destination: SockAddr,
    client: Client,
    timeout_ms: u32,
    by_gid: bool,
) -> Result {
    let source = source.unwrap_or_else(|| SockAddr::unspecified(destination.family()));
    if source.family() != destination.family() {
        return Err(EINVAL);
    }
    service()?.start(source, destination, client, timeout_ms, by_gid)
}

/// Cancels the request whose result goes to the place with this key, if there is one, and waits
/// for its handler if that runs. May sleep.
pub(crate) fn cancel(key: Key) {
    let Ok(service) = service() else { return };
    if let Some(request) = service.take(key) {
        workqueue::cancel_delayed_sync(&request);
    }
}

/// User space has found the GID of a far end; says whether somebody waits for it.
pub(super) fn answer(seq: u32, gid: Gid) -> bool {
    let Ok(service) = service() else { return false };
    let mut table = service.pending.lock();
    let Some(pending) = table.get_mut(&seq) else {
        return false;
    };
    pending.answer = Some(gid);
    pending.request.schedule(jiffies());
    true
}

/// How long the core itself waits for a neighbour.
const L2_TIMEOUT_MS: u32 = 1000;

/// What is needed to reach a GID over Ethernet.
pub(crate) struct L2 {
    /// The MAC address of the next hop.
    pub(crate) mac: [u8; 6],
    /// The hop limit.
    pub(crate) hop_limit: i32,
}

/// Finds the MAC address for packets from `attr` to the GID `destination`. Sleeps, for a second at
/// most, unless the neighbour is known.
pub(crate) fn find_l2(source: Gid, destination: Gid, attr: ARef<GidAttr>) -> Result<L2> {
    let mut source = SockAddr::from(source);
    let destination = SockAddr::from(destination);
    if source.family() != destination.family() {
        return Err(EINVAL);
    }
    let service = service()?;
    let attempt = service.next_attempt(true);
    let addr = GidDevAddr::new(attr);
    match resolve(&mut source, &destination, &addr, attempt) {
        Ok(()) => return Ok(L2::from(&*addr)),
        Err(Unresolved::Failed(error)) => return Err(error),
        Err(Unresolved::Pending) => (),
    }
    let waiter = Arc::pin_init(
        pin_init!(Waiter {
            addr,
            outcome <- new_mutex!(Err(ETIMEDOUT)),
            done <- Completion::new(),
        }),
        GFP_KERNEL,
    )?;
    let progress = Progress {
        source,
        client: Some(Client::Waiter(waiter.clone())),
        resolved: false,
    };
    service.enqueue(progress, destination, attempt, L2_TIMEOUT_MS)?;
    waiter.done.wait();
    let outcome = *waiter.outcome.lock();
    outcome?;
    Ok(L2::from(&*waiter.addr))
}

impl From<&DevAddr> for L2 {
    fn from(addr: &DevAddr) -> Self {
        let [a, b, c, d, e, f, ..] = addr.destination();
        L2 {
            mac: [a, b, c, d, e, f],
            hop_limit: addr.hop_limit(),
        }
    }
}
