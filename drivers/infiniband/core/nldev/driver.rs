// SPDX-License-Identifier: GPL-2.0

//! Attributes that drivers add to replies.

use kernel::prelude::*;
use rdma::netlink::AttrWriter;

use super::policy::{
    DRIVER_PRINT_TYPE,
    DRIVER_STRING,
    DRIVER_U32,
    DRIVER_U64,
    STAT_HWCOUNTER_ENTRY,
    STAT_HWCOUNTER_ENTRY_NAME,
    STAT_HWCOUNTER_ENTRY_VALUE, //
};

/// How tools print a driver's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintType {
    /// In decimal, which is not mentioned.
    Decimal,
    /// In hexadecimal.
    Hex,
}

fn put_name(out: &mut AttrWriter<'_>, name: &CStr, print: PrintType) -> Result {
    const HEX: u8 = kernel::bindings::rdma_nldev_print_type_RDMA_NLDEV_PRINT_TYPE_HEX as u8;

    out.put(DRIVER_STRING, name)?;
    out.put_some(DRIVER_PRINT_TYPE, (print == PrintType::Hex).then_some(HEX))
}

/// Writes a driver's text.
pub(crate) fn put_driver_string(out: &mut AttrWriter<'_>, name: &CStr, value: &CStr) -> Result {
    put_name(out, name, PrintType::Decimal)?;
    out.put(DRIVER_STRING, value)
}

/// Writes a driver's 32-bit number.
pub(crate) fn put_driver_u32(
    out: &mut AttrWriter<'_>,
    name: &CStr,
    print: PrintType,
    value: u32,
) -> Result {
    put_name(out, name, print)?;
    out.put(DRIVER_U32, value)
}

/// Writes a driver's 64-bit number.
pub(crate) fn put_driver_u64(
    out: &mut AttrWriter<'_>,
    name: &CStr,
    print: PrintType,
    value: u64,
) -> Result {
    put_name(out, name, print)?;
    out.put(DRIVER_U64, value)
}

/// Writes one value of a set of statistics.
pub(crate) fn put_hwcounter(out: &mut AttrWriter<'_>, name: &CStr, value: u64) -> Result {
    let mut entry = out.nest(STAT_HWCOUNTER_ENTRY)?;
    entry.put(STAT_HWCOUNTER_ENTRY_NAME, name)?;
    entry.put(STAT_HWCOUNTER_ENTRY_VALUE, value)?;
    entry.end()
}
