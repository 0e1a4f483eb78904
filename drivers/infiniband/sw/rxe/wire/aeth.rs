// SPDX-License-Identifier: GPL-2.0

//! The acknowledgement header (IBTA vol. 1, 9.7.5.2): syndromes and the times of receiver-not-ready.

use super::psn::Msn;

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum NakCode {
    /// A packet is missing.
    PsnSequence = 0,
    /// The request is not one that the responder can execute.
    InvalidRequest = 1,
    /// Key, range or rights.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperation = 3,
}

/// A code of a receiver-not-ready time, 5 bits.
///
/// # Invariants
///
/// The value is below 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RnrTimer(u8);

impl RnrTimer {
    /// Times in units of 10 us by code (IBTA vol. 1, table 45).
    const TENS_OF_US: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];

    /// From the low five bits of `code`.
    pub(crate) const fn new(code: u8) -> Self {
        // INVARIANT: The mask keeps five bits.
        Self(code & 0x1f)
    }

    /// The code.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The time that the sender has to wait, in nanoseconds.
    pub(crate) const fn nanos(self) -> u64 {
        // The mask is the type invariant, spelled out so that the compiler knows it, too.
        Self::TENS_OF_US[(self.0 & 0x1f) as usize] as u64 * 10_000
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Syndrome {
    /// All is well; five bits of credit count, which only matters with end-to-end flow control.
    Ack {
        /// Encoded credits.
        credits: u8,
    },
    /// No receive request was posted; try again after this time.
    Rnr(RnrTimer),
    /// Refused.
    Nak(NakCode),
    /// A value that is reserved. A receiver ignores the packet.
    Reserved(u8),
}

impl Syndrome {
    /// An acknowledgement without flow control.
    pub(crate) const ACK: Self = Self::Ack { credits: 0x1f };

    /// From the byte in a packet.
    pub(crate) const fn from_byte(byte: u8) -> Self {
        let value = byte & 0x1f;
        match byte >> 5 {
            0 => Self::Ack { credits: value },
            1 => Self::Rnr(RnrTimer::new(value)),
            3 => match value {
                0 => Self::Nak(NakCode::PsnSequence),
                1 => Self::Nak(NakCode::InvalidRequest),
                2 => Self::Nak(NakCode::RemoteAccess),
                3 => Self::Nak(NakCode::RemoteOperation),
                _ => Self::Reserved(byte),
            },
            _ => Self::Reserved(byte),
        }
    }

    /// The byte in a packet.
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::Rnr(timer) => 0x20 | timer.code(),
            Self::Nak(code) => 0x60 | code as u8,
            Self::Reserved(byte) => byte,
        }
    }
}

/// An acknowledgement header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Aeth {
    /// What it says.
    pub(crate) syndrome: Syndrome,
    /// Messages finished.
    pub(crate) msn: Msn,
}

impl Aeth {
    /// From the word in a packet.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self {
            syndrome: Syndrome::from_byte((word >> 24) as u8),
            msn: Msn::new(word),
        }
    }

    /// The word in a packet.
    pub(crate) const fn to_word(self) -> u32 {
        (self.syndrome.to_byte() as u32) << 24 | self.msn.get()
    }
}

#[cfg_attr(CONFIG_KUNIT = "y", kernel::prelude::kunit_tests(rust_rxe_aeth))]
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests {
    use super::*;

    #[test]
    fn every_byte_converts_both_ways() {
        for byte in 0..=255u8 {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
        assert_eq!(Syndrome::ACK.to_byte(), 0x1f);
        assert_eq!(Syndrome::Nak(NakCode::RemoteOperation).to_byte(), 0x63);
        assert_eq!(Syndrome::from_byte(0x64), Syndrome::Reserved(0x64));
        assert_eq!(Syndrome::from_byte(0x5f), Syndrome::Reserved(0x5f));
    }

    #[test]
    fn words_convert_both_ways() {
        let aeth = Aeth::from_word(0x2cff_fffe);
        assert_eq!(aeth.syndrome, Syndrome::Rnr(RnrTimer::new(12)));
        assert_eq!(aeth.msn.next().next().get(), 0);
        assert_eq!(aeth.to_word(), 0x2cff_fffe);
    }

    #[test]
    fn rnr_times() {
        assert_eq!(RnrTimer::new(0).nanos(), 655_360_000);
        assert_eq!(RnrTimer::new(1).nanos(), 10_000);
        assert_eq!(RnrTimer::new(12).nanos(), 640_000);
        assert_eq!(RnrTimer::new(20).nanos(), 10_240_000);
        assert_eq!(RnrTimer::new(26).nanos(), 81_920_000);
        assert_eq!(RnrTimer::new(31).nanos(), 491_520_000);
        assert_eq!(RnrTimer::new(0xff).code(), 31);
    }
}
