// SPDX-License-Identifier: GPL-2.0

//! Values of the extended transport headers (IBTA vol. 1, 9.3 to 9.6; FETH: annex A19).

/// Key of a memory region or window, as the peer names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key(pub(crate) u32);

/// Immediate data: four bytes that nobody interprets, in the order of the wire, which is also how
/// completions show them (`__be32`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Imm(pub(crate) [u8; 4]);

/// RDMA header: what a READ, WRITE, FLUSH or ATOMIC WRITE addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reth {
    /// First byte.
    pub(crate) va: u64,
    /// Key of the region or window.
    pub(crate) key: Key,
    /// Bytes of the whole message.
    pub(crate) len: u32,
}

/// Longest message: RETH lengths above are invalid (IBTA vol. 1, C9-94).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Atomic header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AtomicEth {
    /// The eight bytes to act on.
    pub(crate) va: u64,
    /// Key of the region or window.
    pub(crate) key: Key,
    /// The value to swap in, or to add.
    pub(crate) swap_add: u64,
    /// The value to compare with; 0 for a fetch and add.
    pub(crate) compare: u64,
}

/// Datagram header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Deth {
    /// Key of the destination queue pair.
    pub(crate) qkey: u32,
    /// Sending queue pair, 24 bits.
    pub(crate) src_qp: u32,
}

/// Flush header: where data has to be visible, and how much of the region is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Feth {
    /// Placement in global visibility.
    pub(crate) global: bool,
    /// Placement in persistent memory.
    pub(crate) persistent: bool,
    /// The whole region instead of a range.
    pub(crate) whole_region: bool,
}

impl Feth {
    const GLOBAL: u32 = 1 << 0;
    const PERSISTENT: u32 = 1 << 1;
    const TYPE_MASK: u32 = 0xf;
    const SELECTIVITY_SHIFT: u32 = 4;
    const SELECTIVITY_MASK: u32 = 0x3 << Self::SELECTIVITY_SHIFT;
    const RANGE: u32 = 0;
    const REGION: u32 = 1;

    /// From the word in a packet. Reserved bits are not looked at; an unknown placement type or
    /// selectivity is none.
    pub(crate) const fn from_word(word: u32) -> Option<Self> {
        let kind = word & Self::TYPE_MASK;
        let selectivity = (word & Self::SELECTIVITY_MASK) >> Self::SELECTIVITY_SHIFT;
        if kind & !(Self::GLOBAL | Self::PERSISTENT) != 0
            || kind == 0
            || (selectivity != Self::RANGE && selectivity != Self::REGION)
        {
            return None;
        }
        Some(Self {
            global: kind & Self::GLOBAL != 0,
            persistent: kind & Self::PERSISTENT != 0,
            whole_region: selectivity == Self::REGION,
        })
    }

    /// The word in a packet.
    pub(crate) const fn to_word(self) -> u32 {
        let global = if self.global { Self::GLOBAL } else { 0 };
        let persistent = if self.persistent { Self::PERSISTENT } else { 0 };
        let selectivity = if self.whole_region {
            Self::REGION
        } else {
            Self::RANGE
        };
        global | persistent | selectivity << Self::SELECTIVITY_SHIFT
    }
}
