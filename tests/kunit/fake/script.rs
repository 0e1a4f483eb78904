// SPDX-License-Identifier: GPL-2.0

//! What a test has scripted, and what was called.

use super::{
    ops::{Op, COUNT},
    ring::Ring,
};
use kernel::{
    bindings,
    prelude::*,
    sync::{new_spinlock_irq, SpinLockIrq},
};

/// Calls that are kept.
const KEPT: u32 = 1024;

/// Which call of an operation is to fail.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// All of them.
    Always(Error),
    /// The one after so many others.
    After(u32, Error),
}

impl Failure {
    /// The `nth` call from now, 1 is the next one; all of them for 0.
    pub(crate) fn new(nth: u32, error: Error) -> Self {
        match nth {
            0 => Self::Always(error),
            n => Self::After(n - 1, error),
        }
    }

    /// As given to [`Self::new`].
    pub(crate) fn parts(self) -> (u32, Error) {
        match self {
            Self::Always(e) => (0, e),
            Self::After(n, e) => (n + 1, e),
        }
    }
}

/// What is to fail, by the number of the operation.
pub(crate) type Failures = [Option<Failure>; COUNT];

struct Inner {
    failures: Failures,
    counts: [u32; COUNT],
    calls: Ring<bindings::ib_fake_call>,
}

/// Scripted failures and recorded calls. Any context.
#[pin_data]
pub(crate) struct Script {
    #[pin]
    inner: SpinLockIrq<Inner>,
}

impl Script {
    /// Nothing fails and nothing was called. May sleep.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            let calls = Ring::new(KEPT)?;
            Ok::<_, Error>(try_pin_init!(Self {
                inner <- new_spinlock_irq!(Inner {
                    failures: [None; COUNT],
                    counts: [0; COUNT],
                    calls,
                }),
            }? Error))
        })
    }

    /// Records a call; fails if the script says so.
    pub(crate) fn enter(&self, op: Op, args: [u64; 3]) -> Result {
        let mut inner = self.inner.lock();
        let mut result = Ok(());
        if let Some(failure) = inner.failures.get_mut(op.index()) {
            match *failure {
                None => {}
                Some(Failure::Always(e)) => result = Err(e),
                Some(Failure::After(0, e)) => {
                    result = Err(e);
                    *failure = None;
                }
                Some(Failure::After(n, e)) => *failure = Some(Failure::After(n - 1, e)),
            }
        }
        if let Some(count) = inner.counts.get_mut(op.index()) {
            *count = count.saturating_add(1);
        }
        if inner.calls.len() == inner.calls.size() {
            let _ = inner.calls.pop();
        }
        let _ = inner.calls.push(bindings::ib_fake_call {
            op: op.as_raw(),
            injected: result.map_or_else(|e: Error| e.to_errno(), |()| 0),
            args,
        });
        result
    }

    /// Records a call that cannot fail.
    pub(crate) fn note(&self, op: Op, args: [u64; 3]) {
        let _ = self.enter(op, args);
    }

    /// Sets what is to fail, for all operations.
    pub(crate) fn fail_as(&self, failures: &Failures) {
        self.inner.lock().failures = *failures;
    }

    /// What is to fail from now on.
    pub(crate) fn failure(&self, op: Op) -> Option<Failure> {
        *self.inner.lock().failures.get(op.index())?
    }

    /// Sets which call is to fail; nothing ends that.
    pub(crate) fn fail(&self, op: Op, failure: Option<Failure>) {
        if let Some(slot) = self.inner.lock().failures.get_mut(op.index()) {
            *slot = failure;
        }
    }

    /// How often an operation was called.
    pub(crate) fn count(&self, op: Op) -> u32 {
        self.inner
            .lock()
            .counts
            .get(op.index())
            .copied()
            .unwrap_or(0)
    }

    /// A recorded call.
    pub(crate) fn call_at(&self, index: u32) -> Option<bindings::ib_fake_call> {
        let mut at = 0;
        let mut found = None;
        self.inner.lock().calls.retain(|call| {
            if at == index {
                found = Some(*call);
            }
            at += 1;
            true
        });
        found
    }

    /// Forgets the calls.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.counts = [0; COUNT];
        inner.calls.retain(|_| false);
    }
}
