// SPDX-License-Identifier: GPL-2.0

//! The resolver in user space: it is asked for paths before the administration is.
//!
//! A question is in the table from before it is sent until somebody takes it out, and whoever does
//! decides: an answer, or the timer, which asks the administration instead. Questions that were
//! cancelled go to the head of the table and are the timer's.

use super::query::Query;
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        SpinLockIrq, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
    workqueue::{
        DelayedWork,
        WorkItem, //
    },
};
use rdma::{
    gfp::Gfp,
    jiffies::Deadline,
    netlink::{
        has_listeners,
        ls,
        message_type,
        multicast,
        Header,
        Message,
        Netns,
        Request,
        SkBuff,
        CLIENT_LS, //
    },
    sa::{
        path,
        Components,
        PathRecord, //
    },
    static_lock::StaticSpinLock,
    workqueue::{
        cancel_delayed_sync,
        WorkQueue,
        MEM_RECLAIM, //
    },
};

/// How long to wait for an answer, in milliseconds.
const TIMEOUT_MS: u32 = 2000;
/// User space may change that within these bounds.
const TIMEOUT_MS_MIN: u32 = 100;
const TIMEOUT_MS_MAX: u32 = 200_000;

/// A path that is looked for.
pub(super) struct Question<'a> {
    pub(super) path: &'a PathRecord,
    pub(super) components: Components,
}

/// Order of the questions in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Cancelled: over at once.
    Now,
    /// When its time is over; they time out in the order of their numbers.
    Waiting,
}

struct Pending {
    query: Arc<Query>,
    since: Deadline,
    path_use: ls::PathUse,
}

struct Table {
    /// Each entry is there; it is moved out to change its key.
    pending: RBTree<(Turn, u64), Option<Pending>>,
    /// Its lower half is the number in the message.
    next: u64,
    timeout_ms: u32,
}

#[pin_data]
struct Service {
    queue: WorkQueue,
    #[pin]
    table: SpinLockIrq<Table>,
    #[pin]
    timer: DelayedWork<Service>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Service { self.timer }
}

static SERVICE: StaticSpinLock<Option<Arc<Service>>> = StaticSpinLock::new(None);

fn service() -> Option<Arc<Service>> {
    SERVICE.lock().clone()
}

/// Starts the service. Sleeps.
pub(super) fn start() -> Result {
    let queue = WorkQueue::new_ordered(c"ib_nl_sa_wq", MEM_RECLAIM)?;
    let service = Arc::pin_init(
        pin_init!(Service {
            queue,
            table <- new_spinlock_irq!(Table {
                pending: RBTree::new(),
                next: 1,
                timeout_ms: TIMEOUT_MS,
            }),
            timer <- new_delayed_work!("rdma::sa::Service::timer"),
        }),
        GFP_KERNEL,
    )?;
    *SERVICE.lock() = Some(service);
    Ok(())
}

/// Ends the service, when there are no questions. Sleeps.
pub(super) fn stop() {
    let service = SERVICE.lock().take();
    if let Some(service) = service {
        cancel_delayed_sync(&service);
    }
}

impl Table {
    fn timeout(&self) -> Jiffies {
        msecs_to_jiffies(self.timeout_ms)
    }

    /// How long until the first question is over.
    fn first_due(&self) -> Option<Jiffies> {
        let cursor = self.pending.cursor_front()?;
        Some(match cursor.current() {
            ((Turn::Waiting, _), Some(pending)) => pending.since.later(self.timeout()).remaining(),
            _ => 0,
        })
    }

    /// Takes the first question out if it is over.
    fn take_due(&mut self) -> Option<Pending> {
        if self.first_due()? != 0 {
            return None;
        }
        let (_, node) = self.pending.cursor_front_mut()?.remove_current();
        node.to_key_value().1
    }

    /// The number of which `seq` is the lower half: the last one that was given.
    fn serial_of(&self, seq: u32) -> Option<u64> {
        const STEP: u64 = 1 << 32;
        let serial = (self.next & !(STEP - 1)) | u64::from(seq);
        if serial < self.next {
            Some(serial)
        } else {
            serial.checked_sub(STEP)
        }
    }

    fn take(&mut self, serial: u64) -> Option<Pending> {
        self.pending.remove(&(Turn::Waiting, serial)).flatten()
    }
}

impl Service {
    /// Sets the timer to the first question. With the table locked.
    fn arm(self: &Arc<Self>, table: &Table) {
        if let Some(delay) = table.first_due() {
            self.queue.reschedule(self.clone(), delay);
        }
    }
}

impl WorkItem for Service {
    type Pointer = Arc<Service>;

    fn run(this: Arc<Service>) {
        loop {
            let due = {
                let mut table = this.table.lock();
                let due = table.take_due();
                if due.is_none() {
                    this.arm(&table);
                }
                due
            };
            let Some(pending) = due else {
                return;
            };
            pending.query.go_on(EINTR);
        }
    }
}

/// Asks user space. On success the query is somebody else's: it is answered, or times out.
///
/// Errors: `ESRCH` if nobody listens, `EMSGSIZE` if there is nothing to ask, `EINTR` if the query
/// was cancelled, `ENOMEM`. The query is the caller's then.
pub(super) fn ask(query: &Arc<Query>, question: &Question<'_>, gfp: Gfp) -> Result {
    if !has_listeners(ls::GROUP) {
        return Err(ESRCH);
    }
    let service = service().ok_or(ENODEV)?;
    let serial = {
        let mut table = service.table.lock();
        let serial = table.next;
        table.next = serial.wrapping_add(1);
        serial
    };
    let path_use = question.path_use();
    let message = question.message(query, serial, path_use, gfp)?;
    let reservation = RBTreeNodeReservation::new(gfp.flags())?;

    query.begin_asking(serial)?;
    {
        let mut table = service.table.lock();
        let pending = Pending {
            query: query.clone(),
            since: Deadline::now(),
            path_use,
        };
        let _ = table
            .pending
            .insert(reservation.into_node((Turn::Waiting, serial), Some(pending)));
        service.arm(&table);
    }
    if let Err(error) = multicast(Netns::init(), message, ls::GROUP, gfp) {
        let taken = service.table.lock().take(serial);
        // If it is not there, the timer has it.
        if taken.is_some() {
            return Err(error);
        }
    }
    if query.is_cancelled() {
        hurry(serial);
    }
    Ok(())
}

/// A question was cancelled: the timer gets it at once.
pub(super) fn hurry(serial: u64) {
    let Some(service) = service() else { return };
    let mut table = service.table.lock();
    let key = (Turn::Waiting, serial);
    let pending = table.pending.get_mut(&key).and_then(Option::take);
    // The same memory under another key.
    if let Some(node) = table.pending.remove_node(&key) {
        let node = node.into_reservation();
        let _ = table
            .pending
            .insert(node.into_node((Turn::Now, serial), pending));
        service.arm(&table);
    }
}

impl Question<'_> {
    fn path_use(&self) -> ls::PathUse {
        if self.components.has(path::REVERSIBLE) && self.path.is_reversible() {
            ls::PathUse::All
        } else {
            ls::PathUse::Unidirectional
        }
    }

    fn message(
        &self,
        query: &Query,
        serial: u64,
        path_use: ls::PathUse,
        gfp: Gfp,
    ) -> Result<SkBuff> {
        const ASKED: [Components; 6] = [
            path::SERVICE_ID,
            path::DGID,
            path::SGID,
            path::TRAFFIC_CLASS,
            path::PKEY,
            path::QOS_CLASS,
        ];
        if !ASKED.iter().any(|asked| self.components.has(*asked)) {
            return Err(EMSGSIZE);
        }
        let mut skb = SkBuff::new(gfp)?;
        let mut message = skb.message(Header {
            portid: 0,
            // The lower half.
            seq: serial as u32,
            message_type: message_type(CLIENT_LS, ls::OP_RESOLVE),
            flags: ls::FLAG_REQUEST,
        })?;
        let port = query.port();
        let name = port.device().name();
        let header = ls::ResolveHeader::new(name.as_bytes(), port.number(), path_use);
        message.family_header(header.as_bytes())?;
        self.put(&mut message)?;
        message.end();
        Ok(skb)
    }

    fn put(&self, message: &mut Message<'_>) -> Result {
        let path = self.path;
        let asked = |components| self.components.has(components);
        if asked(path::SERVICE_ID) {
            message.put(ls::ASK_SERVICE_ID, &path.service_id().to_ne_bytes())?;
        }
        if asked(path::DGID) {
            message.put(ls::ASK_DGID, path.dgid().as_bytes())?;
        }
        if asked(path::SGID) {
            message.put(ls::ASK_SGID, path.sgid().as_bytes())?;
        }
        if asked(path::TRAFFIC_CLASS) {
            message.put(ls::ASK_TCLASS, path.traffic_class())?;
        }
        if asked(path::PKEY) {
            message.put(ls::ASK_PKEY, path.pkey())?;
        }
        if asked(path::QOS_CLASS) {
            message.put(ls::ASK_QOS_CLASS, path.qos_class())?;
        }
        Ok(())
    }
}

/// What a path has to be good for to be an answer.
fn wanted_flags(path_use: ls::PathUse) -> u32 {
    match path_use {
        ls::PathUse::All => ls::PathRecord::PRIMARY,
        ls::PathUse::Unidirectional => ls::PathRecord::PRIMARY | ls::PathRecord::OUTBOUND,
    }
}

/// Takes an answer. If user space has failed, or its answer is damaged, the administration is
/// asked. May sleep.
///
/// Errors: `EPERM` if it is not an answer.
pub(crate) fn handle_answer(request: &Request<'_>) -> Result {
    if request.flags() & ls::FLAG_REQUEST != 0 {
        return Err(EPERM);
    }
    let Some(service) = service() else {
        return Ok(());
    };
    let pending = {
        let mut table = service.table.lock();
        table
            .serial_of(request.seq())
            .and_then(|serial| table.take(serial))
    };
    let Some(pending) = pending else {
        return Ok(());
    };
    let attrs = if request.flags() & ls::FLAG_ERROR == 0 {
        request.answer_attrs(&ls::PATH_ANSWER).ok()
    } else {
        None
    };
    match attrs {
        None => pending.query.go_on(EIO),
        Some(attrs) => {
            let wanted = wanted_flags(pending.path_use);
            let found = attrs
                .all(ls::PATH_RECORD)
                .flatten()
                .filter(|path| path.flags & wanted == wanted)
                .map(|path| (path.flags, path.record));
            pending.query.resolved(found);
        }
    }
    Ok(())
}

/// Changes how long user space may take, also for questions that were asked already.
///
/// Errors: `EPERM` if it is not a request. A request without a time is ignored.
pub(crate) fn handle_set_timeout(request: &Request<'_>) -> Result {
    if request.flags() & ls::FLAG_REQUEST == 0 {
        return Err(EPERM);
    }
    let timeout = request
        .answer_attrs(&ls::PATH_ANSWER)
        .ok()
        .and_then(|attrs| attrs.get(ls::TIMEOUT));
    if let (Some(timeout), Some(service)) = (timeout, service()) {
        let mut table = service.table.lock();
        table.timeout_ms = bounded(timeout);
        service.arm(&table);
    }
    Ok(())
}

/// A time that user space may set. The number is signed on the wire.
fn bounded(timeout: u32) -> u32 {
    i32::try_from(timeout).map_or(TIMEOUT_MS_MIN, |_| {
        timeout.clamp(TIMEOUT_MS_MIN, TIMEOUT_MS_MAX)
    })
}

#[kunit_tests(rust_ib_core_sa_service)]
mod tests {
    use super::*;

    fn table(next: u64) -> Table {
        Table {
            pending: RBTree::new(),
            next,
            timeout_ms: TIMEOUT_MS,
        }
    }

    #[test]
    fn numbers_of_messages() {
        assert_eq!(table(8).serial_of(7), Some(7));
        assert_eq!(table(8).serial_of(8), None);
        assert_eq!(table((1 << 32) + 8).serial_of(7), Some((1 << 32) + 7));
        assert_eq!(table((1 << 32) + 8).serial_of(9), Some(9));
        assert_eq!(table(1 << 32).serial_of(u32::MAX), Some(0xffff_ffff));
    }

    #[test]
    fn an_empty_table_has_nothing_due() {
        let mut table = table(1);
        assert!(table.first_due().is_none());
        assert!(table.take_due().is_none());
        assert!(table.take(1).is_none());
    }

    #[test]
    fn timeouts_have_bounds() {
        assert_eq!(bounded(0), 100);
        assert_eq!(bounded(u32::MAX), 100);
        assert_eq!(bounded(2500), 2500);
        assert_eq!(bounded(i32::MAX as u32), 200_000);
    }

    #[test]
    fn cancelled_questions_come_first() {
        assert!((Turn::Now, 9) < (Turn::Waiting, 1));
        assert!((Turn::Waiting, 1) < (Turn::Waiting, 2));
    }
}
