// SPDX-License-Identifier: GPL-2.0

//! Rate-limited log lines.
//!
//! C header: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h)

use kernel::bindings;
use kernel::types::Opaque;

/// The state of one rate-limited place: ten lines in five seconds, the kernel's default.
///
/// All-zeroes is a valid unlocked raw spinlock and an expired interval, so a `static` works.
pub struct RateLimit(Opaque<bindings::ratelimit_state>);

// SAFETY: The state has a lock of its own.
unsafe impl Sync for RateLimit {}

impl RateLimit {
    /// A fresh state.
    pub const fn new() -> Self {
        let mut state: bindings::ratelimit_state = pin_init::zeroed();
        state.interval = 5 * bindings::HZ as i32;
        state.burst = 10;
        RateLimit(Opaque::new(state))
    }

    /// Whether a line may be printed now; suppressed ones are reported as `who`.
    pub fn allows(&self, who: &'static core::ffi::CStr) -> bool {
        // SAFETY: The state is initialised, and `who` is a C string.
        unsafe { bindings::___ratelimit(self.0.get(), who.as_ptr().cast()) != 0 }
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::new()
    }
}

/// `pr_warn!`, at most ten lines in five seconds for each place.
#[macro_export]
macro_rules! pr_warn_ratelimited {
    ($($arg:tt)*) => {{
        static LIMIT: $crate::ratelimit::RateLimit = $crate::ratelimit::RateLimit::new();
        if LIMIT.allows(c"rdma") {
            ::kernel::pr_warn!($($arg)*);
        }
    }};
}

/// `pr_err!`, at most ten lines in five seconds for each place.
#[macro_export]
macro_rules! pr_err_ratelimited {
    ($($arg:tt)*) => {{
        static LIMIT: $crate::ratelimit::RateLimit = $crate::ratelimit::RateLimit::new();
        if LIMIT.allows(c"rdma") {
            ::kernel::pr_err!($($arg)*);
        }
    }};
}
