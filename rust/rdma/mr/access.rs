// SPDX-License-Identifier: GPL-2.0

//! Rights of a memory region.

use crate::device::Device;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Rights of a memory region (`IB_ACCESS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Only local reads.
    pub const NONE: Self = Self(0);
    /// Local writes.
    pub const LOCAL_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    /// Reads by peers.
    pub const REMOTE_READ: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_READ);
    /// Writes by peers.
    pub const REMOTE_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    /// Atomic operations by peers.
    pub const REMOTE_ATOMIC: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    /// Windows may be bound to the region.
    pub const MW_BIND: Self = Self(bindings::ib_access_flags_IB_ACCESS_MW_BIND);
    /// Addresses count from the start of the region.
    pub const ZERO_BASED: Self = Self(bindings::ib_access_flags_IB_ZERO_BASED);
    /// Pages are not pinned but faulted in.
    pub const ON_DEMAND: Self = Self(bindings::ib_access_flags_IB_ACCESS_ON_DEMAND);
    /// Peers may flush to global visibility.
    pub const FLUSH_GLOBAL: Self = Self(bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL);
    /// Peers may flush to persistence.
    pub const FLUSH_PERSISTENT: Self = Self(bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT);
    /// Wishes, which a device may ignore.
    pub const OPTIONAL: Self = Self(bindings::ib_access_flags_IB_ACCESS_OPTIONAL);

    /// Takes the bits of a consumer.
    pub fn from_bits(bits: kernel::ffi::c_int) -> Self {
        Self(bits as u32)
    }

    /// Whether peers have any right.
    pub fn is_remote(self) -> bool {
        const REMOTE: u32 = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
        self.0 & REMOTE != 0
    }

    /// Whether the rights go together and the device has them all.
    ///
    /// `EINVAL` for rights that contradict each other or that nobody knows, `EOPNOTSUPP` for
    /// those that the device lacks.
    pub fn check(self, device: &Device) -> Result {
        // SAFETY: The device is live.
        to_result(unsafe { bindings::rdma_check_mr_access(device.as_raw(), self.0) })
    }

    /// The bits as C passes them.
    pub fn bits(self) -> kernel::ffi::c_int {
        self.0 as kernel::ffi::c_int
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits that `other` does not have.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl core::ops::BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
