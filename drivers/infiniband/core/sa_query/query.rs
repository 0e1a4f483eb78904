// SPDX-License-Identifier: GPL-2.0

//! One query, from its start to its end.
//!
//! | stage | who has it |
//! |---|---|
//! | `Fresh` | the thread that starts it, or one that took it from the resolver |
//! | `Asking` | the table of [`service`] |
//! | `Posted` | the MAD layer |
//! | `Cancelled` | as before, but it is not posted any more |
//! | `Over` | nobody: the asker was told |
//!
//! A query's lock is held while it is posted, so it comes before the locks of the MAD layer. The
//! tables of queries and of the resolver are locked alone.

use super::{
    asker::Asker,
    port::{
        Port,
        PortUse, //
    },
    service::{
        self,
        Question, //
    },
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        SpinLockIrq, //
    },
};
use rdma::{
    gfp::Gfp,
    mad::client::{
        self,
        Answer,
        Outcome,
        SendBuf,
        Transaction, //
    },
    random,
    sa::{
        wire::{
            Dialect,
            Draft, //
        },
        ClientUse, //
    },
    static_lock::StaticSpinLock, //
};

/// How often a request is sent again, each time after a part of the time to wait.
const RETRIES: u32 = 10;

/// What is asked, and by whom.
pub(super) struct Order {
    pub(super) client: Option<ClientUse>,
    pub(super) dialect: Dialect,
    pub(super) draft: Draft,
    /// How long to wait in all, in milliseconds.
    pub(super) timeout_ms: usize,
    pub(super) asker: Asker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Asking(u64),
    Posted,
    Cancelled,
    Over,
}

struct Progress {
    stage: Stage,
    /// There until it was told.
    asker: Option<Asker>,
}

/// See the [module](self).
#[pin_data]
pub(crate) struct Query {
    buf: SendBuf<Query>,
    id: Atomic<u32>,
    #[pin]
    progress: SpinLockIrq<Progress>,
    /// After the datagram: the port may go when it is dropped.
    port: PortUse,
    /// Last: the client may go when it is dropped.
    _client: Option<ClientUse>,
}

/// The queries under way.
struct Queries {
    by_id: RBTree<u32, Arc<Query>>,
    next: u32,
}

static QUERIES: StaticSpinLock<Option<Queries>> = StaticSpinLock::new(None);

impl Queries {
    /// Numbers are positive, and not used again soon.
    const LIMIT: u32 = i32::MAX as u32;

    fn add(query: &Arc<Query>, gfp: Gfp) -> Result<u32> {
        let reservation = RBTreeNodeReservation::new(gfp.flags())?;
        let mut guard = QUERIES.lock();
        let queries = guard.get_or_insert_with(|| Queries {
            by_id: RBTree::new(),
            next: 1,
        });
        // There is memory for less queries than numbers.
        loop {
            let id = queries.next;
            queries.next = if id < Self::LIMIT { id + 1 } else { 1 };
            if queries.by_id.get(&id).is_none() {
                query.id.store(id, Relaxed);
                let _ = queries
                    .by_id
                    .insert(reservation.into_node(id, query.clone()));
                return Ok(id);
            }
        }
    }

    fn remove(id: u32) {
        let node = QUERIES
            .lock()
            .as_mut()
            .and_then(|queries| queries.by_id.remove_node(&id));
        // Not under the lock.
        drop(node);
    }

    /// The first query with a number from `from` on that `wanted` is true of.
    fn find(from: u32, wanted: impl Fn(&Query) -> bool) -> Option<Arc<Query>> {
        let guard = QUERIES.lock();
        let queries = guard.as_ref()?;
        let mut from = from;
        loop {
            let cursor = queries.by_id.cursor_lower_bound(&from)?;
            let (id, query) = cursor.current();
            if wanted(query) {
                return Some(query.clone());
            }
            from = id.checked_add(1)?;
        }
    }
}

/// Whether there is a query.
pub(super) fn any() -> bool {
    Queries::find(0, |_| true).is_some()
}

/// Cancels the query of that number, if it is the one that `is_it` is true of: its asker is told
/// `EINTR`, from another thread. Any context.
pub(crate) fn cancel(id: u32, is_it: impl Fn(&Query) -> bool) {
    let found = {
        let guard = QUERIES.lock();
        guard
            .as_ref()
            .and_then(|queries| queries.by_id.get(&id))
            .filter(|query| is_it(query))
            .cloned()
    };
    if let Some(query) = found {
        query.cancel();
    }
}

/// Cancels all queries of a port that is closed.
pub(super) fn cancel_all(port: &Port) {
    let mut from = 0;
    while let Some(query) = Queries::find(from, |query| core::ptr::eq(&**query.port, port)) {
        query.cancel();
        from = query.id.load(Relaxed).wrapping_add(1);
    }
}

/// Time to wait for each try, and how many tries follow the first.
fn patience(timeout_ms: usize) -> (u32, u32) {
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    match timeout_ms / RETRIES {
        0 => (1, timeout_ms),
        each => (each, RETRIES),
    }
}

/// Starts a query, and returns its number.
///
/// `announce` gets it before its asker can be told. On an error the asker is not told.
pub(super) fn start(
    port: PortUse,
    mut order: Order,
    question: Option<Question<'_>>,
    gfp: Gfp,
    announce: &dyn Fn(&Query),
) -> Result<u32> {
    let agent = port.agent()?;
    let mut buf = port.create_send(&agent, order.dialect, gfp)?;
    order
        .draft
        .set_transaction(u64::from(agent.id()) << 32 | u64::from(next_transaction()));
    drop(agent);
    buf.fill(order.draft.as_bytes());
    let (each, retries) = patience(order.timeout_ms);
    buf.set_patience(each, retries);

    let query = Arc::pin_init(
        pin_init!(Query {
            buf,
            id: Atomic::new(0),
            progress <- new_spinlock_irq!(Progress {
                stage: Stage::Fresh,
                asker: Some(order.asker),
            }),
            port,
            _client: order.client,
        }),
        gfp.flags(),
    )?;
    let id = Queries::add(&query, gfp)?;
    // Closing looks for queries after it closed the port: either it finds this one, or this finds
    // the port closed.
    let sent = if query.port.is_open() {
        announce(&query);
        query.send(question, gfp)
    } else {
        Err(ENODEV)
    };
    if let Err(error) = sent {
        Queries::remove(id);
        return Err(error);
    }
    Ok(id)
}

/// The lower half of the transaction ids.
fn next_transaction() -> u32 {
    static NEXT: StaticSpinLock<Option<u32>> = StaticSpinLock::new(None);
    let mut next = NEXT.lock();
    let this = next.unwrap_or_else(random::u32);
    *next = Some(this.wrapping_add(1));
    this
}

impl Query {
    /// The port.
    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    fn send(self: &Arc<Self>, question: Option<Question<'_>>, gfp: Gfp) -> Result {
        if let Some(question) = question {
            if service::ask(self, &question, gfp).is_ok() {
                return Ok(());
            }
        }
        self.post()
    }

    /// The resolver is going to have it, under `serial`; `EINTR` if it was cancelled.
    pub(super) fn begin_asking(&self, serial: u64) -> Result {
        let mut progress = self.progress.lock();
        if progress.stage != Stage::Fresh {
            return Err(EINTR);
        }
        progress.stage = Stage::Asking(serial);
        Ok(())
    }

    /// Somebody wants it to end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.progress.lock().stage == Stage::Cancelled
    }

    /// Gives it to the MAD layer. `EINTR` if it was cancelled.
    fn post(self: &Arc<Self>) -> Result {
        let mut progress = self.progress.lock();
        match progress.stage {
            Stage::Fresh | Stage::Asking(_) => {
                client::post(self.clone())?;
                progress.stage = Stage::Posted;
                Ok(())
            }
            Stage::Cancelled => Err(EINTR),
            Stage::Posted | Stage::Over => Err(EBUSY),
        }
    }

    /// User space does not know, and the caller took it out of the resolver's table: the
    /// administration is asked. If that cannot be done, the asker is told `error`. May sleep.
    pub(super) fn go_on(self: Arc<Self>, error: Error) {
        match self.post() {
            Ok(()) => {}
            Err(EINTR) => self.end(|asker, port| asker.fail(port, EINTR)),
            Err(_) => self.end(|asker, port| asker.fail(port, error)),
        }
    }

    /// User space has found paths, and the caller took the query out of the resolver's table. May
    /// sleep.
    pub(super) fn resolved<'a>(self: Arc<Self>, found: impl Iterator<Item = (u32, &'a [u8; 64])>) {
        if self.is_cancelled() {
            self.end(|asker, port| asker.fail(port, EINTR));
        } else {
            self.end(|asker, port| asker.paths(port, found));
        }
    }

    /// Tells the asker, unless that was done, and forgets the query.
    fn end(self: Arc<Self>, tell: impl FnOnce(Asker, &Arc<Port>)) {
        let asker = {
            let mut progress = self.progress.lock();
            progress.stage = Stage::Over;
            progress.asker.take()
        };
        if let Some(asker) = asker {
            tell(asker, &self.port);
        }
        Queries::remove(self.id.load(Relaxed));
    }

    fn cancel(self: &Arc<Self>) {
        let mut progress = self.progress.lock();
        match progress.stage {
            Stage::Fresh => progress.stage = Stage::Cancelled,
            Stage::Asking(serial) => {
                progress.stage = Stage::Cancelled;
                drop(progress);
                service::hurry(serial);
            }
            Stage::Posted => {
                drop(progress);
                // Its memory is kept by `self`, also if it ends just now.
                self.buf.cancel();
            }
            Stage::Cancelled | Stage::Over => {}
        }
    }
}

impl Transaction for Query {
    fn send_buf(&self) -> &SendBuf<Self> {
        &self.buf
    }

    fn answered(&self, answer: &Answer<'_>) {
        let asker = self.progress.lock().asker.take();
        if let Some(asker) = asker {
            asker.answer(&self.port, answer);
        }
    }

    fn finished(this: Arc<Self>, outcome: Outcome) {
        let error = match outcome {
            Outcome::TimedOut => ETIMEDOUT,
            Outcome::Cancelled => EINTR,
            // Done is told by the answer before.
            Outcome::Failed | Outcome::Done => EIO,
        };
        this.end(|asker, port| asker.fail(port, error));
    }
}

#[kunit_tests(rust_ib_core_sa_query)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_shared_between_tries() {
        assert_eq!(patience(3000), (300, 10));
        assert_eq!(patience(10), (1, 10));
        assert_eq!(patience(9), (1, 9));
        assert_eq!(patience(0), (1, 0));
        assert_eq!(patience(usize::MAX), (u32::MAX / 10, 10));
    }
}
