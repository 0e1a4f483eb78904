// SPDX-License-Identifier: GPL-2.0

//! Whether a device has regions whose use may sleep.
//!
//! As long as it has none, queue pairs work in softirqs and within the calls of those who post.
//! Such a section asks [`Sleepers::none`] first, under RCU, and ends before it gives RCU up. Who
//! makes a region of that kind announces it and waits for RCU before anybody can name the region.
//! So a section that has seen none meets none.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        rcu,
        Arc,
        Mutex, //
    },
};

/// The count of a device.
#[pin_data]
pub(crate) struct Sleepers {
    count: Atomic<u32>,
    /// Held while regions are announced, so that the second does not overtake the wait of the first.
    #[pin]
    announcing: Mutex<()>,
}

impl Sleepers {
    /// None.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                count: Atomic::new(0),
                announcing <- new_mutex!((), "rxe_sleepers"),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether there are none. The answer holds as long as the guard.
    #[inline]
    pub(crate) fn none(&self, _: &rcu::Guard) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Announces a region, which may be made when this returns. May sleep.
    pub(crate) fn announce(self: &Arc<Self>) -> Sleeper {
        let _announcing = self.announcing.lock();
        let sleeper = Sleeper(self.clone());
        if self.count.fetch_add(1, Relaxed) == 0 {
            rcu::synchronize_rcu();
        }
        sleeper
    }
}

/// A region that was announced; to be dropped after it is gone.
pub(crate) struct Sleeper(Arc<Sleepers>);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Relaxed);
    }
}
