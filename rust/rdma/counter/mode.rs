// SPDX-License-Identifier: GPL-2.0

//! How counters come to be.

use kernel::bindings;

/// Who binds the queue pairs of a port to counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nobody.
    None,
    /// The core, by the criteria of a [`Mask`].
    Auto,
    /// An administrator.
    Manual,
}

impl Mode {
    /// The number in netlink messages.
    pub fn as_raw(self) -> bindings::rdma_nl_counter_mode {
        match self {
            Mode::None => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_NONE,
            Mode::Auto => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO,
            Mode::Manual => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_MANUAL,
        }
    }

    fn from_raw(raw: bindings::rdma_nl_counter_mode) -> Self {
        match raw {
            bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO => Mode::Auto,
            bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_MANUAL => Mode::Manual,
            _ => Mode::None,
        }
    }
}

/// What queue pairs have to have in common to share a counter in automatic mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(bindings::rdma_nl_counter_mask);

impl Mask {
    /// Nothing.
    pub const NONE: Mask = Mask(0);
    /// The type of the queue pair.
    pub const QP_TYPE: Mask = Mask(bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE);
    /// The process.
    pub const PID: Mask = Mask(bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID);

    /// From the bits in netlink messages.
    pub fn from_raw(raw: bindings::rdma_nl_counter_mask) -> Self {
        Self(raw)
    }

    /// The bits in netlink messages.
    pub fn as_raw(self) -> bindings::rdma_nl_counter_mask {
        self.0
    }

    /// Whether it has all of `other`.
    pub fn has(self, other: Mask) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it has bits without a meaning.
    pub fn has_unknown(self) -> bool {
        self.0 & !(Self::QP_TYPE.0 | Self::PID.0) != 0
    }
}

/// How the counters of a port work, or how one counter came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who binds.
    pub mode: Mode,
    /// By which criteria.
    pub mask: Mask,
    /// Whether optional counters count per counter too.
    pub bind_opcnt: bool,
}

impl Settings {
    /// Those of a port where nothing is bound.
    pub const NONE: Settings = Settings {
        mode: Mode::None,
        mask: Mask::NONE,
        bind_opcnt: false,
    };

    /// # Safety
    ///
    /// `ptr` is valid for reads.
    pub(super) unsafe fn read(ptr: *const bindings::rdma_counter_mode) -> Self {
        // SAFETY: By the contract. The fields are read on their own because users without the
        // mutex read them too.
        unsafe {
            Self {
                mode: Mode::from_raw((&raw const (*ptr).mode).read_volatile()),
                mask: Mask((&raw const (*ptr).mask).read_volatile()),
                bind_opcnt: (&raw const (*ptr).bind_opcnt).read_volatile(),
            }
        }
    }

    /// # Safety
    ///
    /// `ptr` is valid for writes.
    pub(super) unsafe fn write(self, ptr: *mut bindings::rdma_counter_mode) {
        // SAFETY: By the contract.
        unsafe {
            (&raw mut (*ptr).mode).write_volatile(self.mode.as_raw());
            (&raw mut (*ptr).mask).write_volatile(self.mask.0);
            (&raw mut (*ptr).bind_opcnt).write_volatile(self.bind_opcnt);
        }
    }
}
