// SPDX-License-Identifier: GPL-2.0

//! Allocation contexts that can be handed to C.
//!
//! C header: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h)
//!
//! `kernel::alloc::Flags` keeps its number to itself; [`Gfp`] is both that type and the number.

use kernel::alloc::{flags, Flags};
use kernel::bindings;

/// How an allocation may behave.
#[derive(Copy, Clone)]
pub struct Gfp {
    raw: bindings::gfp_t,
    flags: Flags,
}

impl Gfp {
    /// May sleep.
    pub const KERNEL: Gfp = Gfp {
        raw: bindings::GFP_KERNEL,
        flags: flags::GFP_KERNEL,
    };
    /// Must not sleep; may use reserves.
    pub const ATOMIC: Gfp = Gfp {
        raw: bindings::GFP_ATOMIC,
        flags: flags::GFP_ATOMIC,
    };
    /// Must not sleep; no reserves, no warning.
    pub const NOWAIT: Gfp = Gfp {
        raw: bindings::GFP_NOWAIT,
        flags: flags::GFP_NOWAIT,
    };
    /// May sleep; charged to the memory cgroup of the caller.
    pub const KERNEL_ACCOUNT: Gfp = Gfp {
        raw: bindings::GFP_KERNEL_ACCOUNT,
        flags: flags::GFP_KERNEL_ACCOUNT,
    };

    /// The number for a C function.
    pub const fn as_raw(self) -> bindings::gfp_t {
        self.raw
    }

    /// The flags for the `kernel` crate's containers.
    pub const fn flags(self) -> Flags {
        self.flags
    }

    /// The context that a C caller asked for: sleeping unless its flags forbid it.
    pub const fn from_c(raw: bindings::gfp_t) -> Gfp {
        if raw & (1 << bindings::___GFP_DIRECT_RECLAIM_BIT) != 0 {
            Gfp::KERNEL
        } else {
            Gfp::ATOMIC
        }
    }

    /// Whether an allocation may sleep.
    pub const fn may_sleep(self) -> bool {
        self.raw & (1 << bindings::___GFP_DIRECT_RECLAIM_BIT) != 0
    }
}
