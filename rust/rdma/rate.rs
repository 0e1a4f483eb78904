// SPDX-License-Identifier: GPL-2.0

//! Width and speed of links.
//!
//! IBTA vol. 1, 14.2.5.6 (`PortInfo`): `LinkWidthActive`, `LinkSpeedActive` and its extensions.

use kernel::{bindings, ffi::c_int, prelude::*};

/// Number of lanes of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// One lane.
    X1,
    /// Two lanes.
    X2,
    /// Four lanes.
    X4,
    /// Eight lanes.
    X8,
    /// Twelve lanes.
    X12,
}

impl Width {
    /// From `LinkWidthActive`.
    pub fn from_raw(raw: u8) -> Option<Self> {
        Some(match bindings::ib_port_width::from(raw) {
            bindings::ib_port_width_IB_WIDTH_1X => Self::X1,
            bindings::ib_port_width_IB_WIDTH_2X => Self::X2,
            bindings::ib_port_width_IB_WIDTH_4X => Self::X4,
            bindings::ib_port_width_IB_WIDTH_8X => Self::X8,
            bindings::ib_port_width_IB_WIDTH_12X => Self::X12,
            _ => return None,
        })
    }

    /// As `LinkWidthActive`.
    pub fn as_raw(self) -> u8 {
        // The constants are single bits of a byte.
        (match self {
            Self::X1 => bindings::ib_port_width_IB_WIDTH_1X,
            Self::X2 => bindings::ib_port_width_IB_WIDTH_2X,
            Self::X4 => bindings::ib_port_width_IB_WIDTH_4X,
            Self::X8 => bindings::ib_port_width_IB_WIDTH_8X,
            Self::X12 => bindings::ib_port_width_IB_WIDTH_12X,
        }) as u8
    }

    /// The number.
    pub fn lanes(self) -> u32 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }
}

/// Signalling rate of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// 2.5 Gb/s.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s.
    Qdr,
    /// 10 Gb/s, 64b/66b.
    Fdr10,
    /// 14 Gb/s.
    Fdr,
    /// 25 Gb/s.
    Edr,
    /// 50 Gb/s.
    Hdr,
    /// 100 Gb/s.
    Ndr,
    /// 200 Gb/s.
    Xdr,
}

impl Speed {
    /// From `LinkSpeedActive`.
    pub fn from_raw(raw: u16) -> Option<Self> {
        Some(match bindings::ib_port_speed::from(raw) {
            bindings::ib_port_speed_IB_SPEED_SDR => Self::Sdr,
            bindings::ib_port_speed_IB_SPEED_DDR => Self::Ddr,
            bindings::ib_port_speed_IB_SPEED_QDR => Self::Qdr,
            bindings::ib_port_speed_IB_SPEED_FDR10 => Self::Fdr10,
            bindings::ib_port_speed_IB_SPEED_FDR => Self::Fdr,
            bindings::ib_port_speed_IB_SPEED_EDR => Self::Edr,
            bindings::ib_port_speed_IB_SPEED_HDR => Self::Hdr,
            bindings::ib_port_speed_IB_SPEED_NDR => Self::Ndr,
            bindings::ib_port_speed_IB_SPEED_XDR => Self::Xdr,
            _ => return None,
        })
    }

    /// As `LinkSpeedActive`.
    pub fn as_raw(self) -> u16 {
        // The constants are single bits of 16.
        (match self {
            Self::Sdr => bindings::ib_port_speed_IB_SPEED_SDR,
            Self::Ddr => bindings::ib_port_speed_IB_SPEED_DDR,
            Self::Qdr => bindings::ib_port_speed_IB_SPEED_QDR,
            Self::Fdr10 => bindings::ib_port_speed_IB_SPEED_FDR10,
            Self::Fdr => bindings::ib_port_speed_IB_SPEED_FDR,
            Self::Edr => bindings::ib_port_speed_IB_SPEED_EDR,
            Self::Hdr => bindings::ib_port_speed_IB_SPEED_HDR,
            Self::Ndr => bindings::ib_port_speed_IB_SPEED_NDR,
            Self::Xdr => bindings::ib_port_speed_IB_SPEED_XDR,
        }) as u16
    }
}

/// Name and rate of a link, as sysfs shows them.
#[repr(transparent)]
pub struct SpeedInfo(bindings::ib_port_speed_info);

impl SpeedInfo {
    /// Takes the place for the result.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for `'a`, and nobody else may use it meanwhile.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_port_speed_info) -> &'a mut Self {
        // SAFETY: By the contract of this function; the type is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// Room for a result.
    pub const EMPTY: Self = Self(pin_init::zeroed());

    /// The C structure.
    pub fn as_raw_mut(&mut self) -> *mut bindings::ib_port_speed_info {
        &mut self.0
    }

    /// The suffix: a space and the name, or nothing.
    pub fn name(&self) -> &'static CStr {
        if self.0.str_.is_null() {
            return c"";
        }
        // SAFETY: Who sets the name takes a constant.
        unsafe { CStr::from_char_ptr(self.0.str_) }
    }

    /// The rate in units of 100 Mb/s.
    pub fn rate(&self) -> c_int {
        self.0.rate
    }

    /// Sets the suffix and the rate in units of 100 Mb/s.
    pub fn set(&mut self, name: &'static CStr, rate: c_int) {
        self.0.str_ = name.as_char_ptr();
        self.0.rate = rate;
    }
}
