// SPDX-License-Identifier: GPL-2.0

//! Rate-limited log lines.
//!
//! C header: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h)

use kernel::bindings;
#[cfg(CONFIG_DEBUG_SPINLOCK)]
use kernel::ffi::c_void;
use kernel::types::Opaque;

/// The state of one rate-limited place: ten lines in five seconds, the kernel's default.
///
/// Made at compile time, so a `static` works: an interval that is over, and a raw spinlock that is
/// unlocked, which is all zeroes but for what lock debugging checks.
pub struct RateLimit(Opaque<bindings::ratelimit_state>);

// SAFETY: The state has a lock of its own.
unsafe impl Sync for RateLimit {}

impl RateLimit {
    /// A fresh state.
    pub const fn new() -> Self {
        let mut state: bindings::ratelimit_state = pin_init::zeroed();
        state.interval = 5 * bindings::HZ as i32;
        state.burst = 10;
        #[cfg(CONFIG_DEBUG_SPINLOCK)]
        {
            state.lock.magic = bindings::SPINLOCK_MAGIC;
            // Nobody (`SPINLOCK_OWNER_INIT`).
            state.lock.owner = core::ptr::null_mut::<c_void>().wrapping_byte_sub(1);
            state.lock.owner_cpu = u32::MAX;
        }
        #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
        {
            state.lock.dep_map.name = c"rdma_ratelimit".as_ptr().cast();
            state.lock.dep_map.wait_type_inner = bindings::lockdep_wait_type_LD_WAIT_SPIN as u8;
        }
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
