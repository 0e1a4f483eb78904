// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! The data path writes completions ([`CqCore::push`]) with locks of its own held, and tells the
//! consumer ([`CqCore::notify`]) after it has released them. Between the two the queue remembers
//! that there is something to tell. So a handler may poll the queue and arm it anew; it never runs
//! twice at the same time for one queue.
//!
//! A consumer may want to be told only of so many completions at once, or after some time: then a
//! timer tells it of what has not been told, from an interrupt.

mod completion;
mod ring;
mod verbs;

use crate::{
    device::Rxe,
    proto::env::CqOverflow, //
};
pub(crate) use completion::{
    Arrival,
    Completion, //
};
use kernel::{
    impl_has_hr_timer,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        SetOnce,
        SpinLockIrq, //
    },
    time::{
        hrtimer::{
            ArcHrTimerHandle,
            HrTimer,
            HrTimerCallback,
            HrTimerCallbackContext,
            HrTimerPointer,
            HrTimerRestart,
            RelativeMode, //
        },
        Delta,
        Monotonic, //
    }, //
};
use rdma::{
    provider::{
        self,
        CqEvent,
        Handle,
        QpTag,
        Wc, //
    },
    softirq,
    user_ring::ReportRing, //
};
use ring::KernelRing;
pub(crate) use verbs::Cq;

/// Most entries of a queue.
pub(crate) const MAX_CQE: u32 = 32767;

/// The queue pair that a completion names.
#[derive(Clone, Copy)]
pub(crate) struct QpName {
    /// To consumers in user space.
    pub(crate) number: u32,
    /// To consumers in the kernel.
    pub(crate) tag: QpTag,
}

/// What the consumer wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Nothing,
    Solicited,
    Next,
}

/// How often the consumer wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moderation {
    /// Of so many completions at once; errors are told at once.
    count: u32,
    /// Or this many microseconds after the first one.
    period: u16,
}

impl Moderation {
    /// Of each completion.
    const NONE: Self = Self {
        count: 1,
        period: 0,
    };

    /// Without a period nobody would be told of the last ones, so there is no moderation then.
    fn new(count: u16, period: u16) -> Self {
        if period == 0 {
            return Self::NONE;
        }
        Self {
            count: u32::from(count).max(1),
            period,
        }
    }
}

/// Whether the consumer is to be told, without regard to who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alarm {
    wish: Wish,
    moderation: Moderation,
    /// Completions that were wished for and are not told.
    untold: u32,
    /// The consumer is to be told.
    due: bool,
}

/// What has to be done after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// Start the timer, for so many microseconds.
    Wait(u16),
}

impl Alarm {
    const SILENT: Self = Self {
        wish: Wish::Nothing,
        moderation: Moderation::NONE,
        untold: 0,
        due: false,
    };

    /// Notes a completion.
    fn completed(&mut self, solicited: bool, error: bool) -> Next {
        let wished = match self.wish {
            Wish::Nothing => false,
            Wish::Solicited => solicited,
            Wish::Next => true,
        };
        if !wished {
            return Next::Nothing;
        }
        self.untold = self.untold.saturating_add(1);
        if error || self.untold >= self.moderation.count {
            self.tell();
            return Next::Nothing;
        }
        if self.untold == 1 {
            Next::Wait(self.moderation.period)
        } else {
            Next::Nothing
        }
    }

    fn tell(&mut self) {
        self.wish = Wish::Nothing;
        self.untold = 0;
        self.due = true;
    }

    /// Tells what is untold.
    fn time_is_up(&mut self) {
        if self.untold != 0 {
            self.tell();
        }
    }
}

enum Entries {
    User(ReportRing),
    Kernel(KernelRing<Wc>),
}

impl Entries {
    fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.used(),
            Self::Kernel(ring) => ring.len() as u32,
        }
    }
}

struct State {
    entries: Entries,
    alarm: Alarm,
    /// Somebody is telling the consumer.
    telling: bool,
}

/// The queue, apart from what keeps its timer.
#[pin_data]
struct Queue {
    #[pin]
    state: SpinLockIrq<State>,
    /// The way to the consumer, once the queue is complete.
    consumer: SetOnce<Handle<provider::Cq<Rxe>>>,
    #[pin]
    timer: HrTimer<Self>,
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for Queue {
        mode: RelativeMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for Queue {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, _ctx: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        this.state.lock().alarm.time_is_up();
        this.tell(|| ());
        HrTimerRestart::NoRestart
    }
}

impl Queue {
    /// Calls the consumer's handler if it is due, in a context that `enter` makes. The caller holds
    /// no lock.
    fn tell<C>(&self, enter: impl Fn() -> C) {
        let mut state = self.state.lock();
        if state.telling {
            // Who is telling looks again.
            return;
        }
        while state.alarm.due {
            state.alarm.due = false;
            state.telling = true;
            drop(state);
            let context = enter();
            self.with_consumer(|cq| cq.complete());
            drop(context);
            state = self.state.lock();
            state.telling = false;
        }
    }

    /// Calls `f` if the queue is still there.
    fn with_consumer(&self, f: impl FnOnce(&provider::Cq<Rxe>)) {
        if let Some(cq) = self.consumer.as_ref().and_then(Handle::get) {
            f(&cq);
        }
    }
}

/// What of a completion queue the data path holds.
#[pin_data]
pub(crate) struct CqCore {
    queue: Arc<Queue>,
    /// The timer, if it was started. Dropping the handle stops it; the lock is held while it is
    /// stopped and started again.
    #[pin]
    waiting: SpinLockIrq<Option<ArcHrTimerHandle<Queue>>>,
}

impl CqCore {
    fn new(entries: Entries) -> Result<Arc<Self>> {
        let state = State {
            entries,
            alarm: Alarm::SILENT,
            telling: false,
        };
        let queue = Arc::pin_init(
            pin_init!(Queue {
                state <- new_spinlock_irq!(state, "rxe_cq"),
                consumer: SetOnce::new(),
                timer <- HrTimer::new(),
            }),
            GFP_KERNEL,
        )?;
        Arc::pin_init(
            pin_init!(Self {
                queue,
                waiting <- new_spinlock_irq!(None, "rxe_cq_timer"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the way to the consumer.
    fn connect(&self, consumer: Handle<provider::Cq<Rxe>>) {
        self.queue.consumer.populate(consumer);
    }

    /// Adds a completion. Any context. Says whether [`Self::notify`] is to be called, when the
    /// caller has released its locks.
    ///
    /// If there is no room the completion is lost, and [`Self::report_overflow`] is to be called.
    pub(crate) fn push(&self, completion: Completion, qp: QpName) -> Result<bool, CqOverflow> {
        let mut state = self.queue.state.lock();
        match &mut state.entries {
            Entries::User(ring) => ring
                .push(&completion.to_user(qp.number))
                .map_err(|_| CqOverflow)?,
            Entries::Kernel(ring) => ring.push(completion.to_kernel(qp.tag))?,
        }
        let solicited = completion.is_solicited();
        let next = state.alarm.completed(solicited, completion.is_error());
        let due = state.alarm.due;
        drop(state);
        if let Next::Wait(period) = next {
            let mut waiting = self.waiting.lock();
            *waiting = None;
            *waiting = Some(self.queue.clone().start(Delta::from_micros(period.into())));
        }
        Ok(due)
    }

    /// Up to where a process says that it has taken completions. A number to be compared with an
    /// earlier one, for guesses only.
    pub(crate) fn taken_to(&self) -> u32 {
        match &self.queue.state.lock().entries {
            Entries::User(ring) => ring.taken_to(),
            Entries::Kernel(_) => 0,
        }
    }

    /// Calls the consumer's handler if it is due. The caller holds no lock, and interrupts are
    /// enabled.
    pub(crate) fn notify(&self) {
        // Handlers raise softirqs, which run at once this way.
        self.queue.tell(softirq::disable);
    }

    /// Tells the consumer that a completion was lost. The caller holds no lock.
    pub(crate) fn report_overflow(&self) {
        self.queue.with_consumer(|cq| cq.report(CqEvent::Error));
    }

    /// Arms the queue; says whether completions are there already.
    fn arm(&self, wish: Wish) -> bool {
        let mut state = self.queue.state.lock();
        state.alarm.wish = state.alarm.wish.max(wish);
        state.entries.len() != 0
    }

    /// Changes how often the consumer is told. The caller holds no lock, and interrupts are enabled.
    fn moderate(&self, moderation: Moderation) {
        {
            let alarm = &mut self.queue.state.lock().alarm;
            alarm.moderation = moderation;
            alarm.time_is_up();
        }
        self.notify();
    }

    fn with_entries<R>(&self, f: impl FnOnce(&mut Entries) -> R) -> R {
        f(&mut self.queue.state.lock().entries)
    }
}

#[kunit_tests(rust_rxe_cq)]
mod tests {
    use super::*;

    #[test]
    fn consumer_is_told_once_per_wish() {
        let mut alarm = Alarm::SILENT;
        assert_eq!(alarm.completed(true, false), Next::Nothing);
        assert!(!alarm.due);
        alarm.wish = Wish::Next;
        alarm.completed(false, false);
        assert!(alarm.due);
        alarm.due = false;
        alarm.completed(false, false);
        assert!(!alarm.due);
    }

    #[test]
    fn solicited_only() {
        let mut alarm = Alarm::SILENT;
        alarm.wish = Wish::Solicited;
        alarm.completed(false, false);
        assert!(!alarm.due);
        alarm.completed(true, false);
        assert!(alarm.due);
        // The stronger wish counts.
        assert_eq!(Wish::Next.max(Wish::Solicited), Wish::Next);
        assert_eq!(Wish::Nothing.max(Wish::Solicited), Wish::Solicited);
    }

    #[test]
    fn moderation_tells_of_several() {
        assert_eq!(Moderation::new(100, 0), Moderation::NONE);
        let mut alarm = Alarm {
            wish: Wish::Next,
            moderation: Moderation::new(3, 50),
            ..Alarm::SILENT
        };
        assert_eq!(alarm.completed(false, false), Next::Wait(50));
        assert_eq!(alarm.completed(false, false), Next::Nothing);
        assert!(!alarm.due);
        assert_eq!(alarm.completed(false, false), Next::Nothing);
        assert!(alarm.due);

        // The timer tells of fewer, and an error does not wait.
        for error in [false, true] {
            let mut alarm = Alarm {
                wish: Wish::Next,
                moderation: Moderation::new(3, 50),
                ..Alarm::SILENT
            };
            assert_eq!(alarm.completed(false, false), Next::Wait(50));
            if error {
                alarm.completed(false, true);
            } else {
                alarm.time_is_up();
            }
            assert!(alarm.due);
            // Nothing is left for a timer that comes late.
            alarm.due = false;
            alarm.time_is_up();
            assert!(!alarm.due);
        }
    }
}
