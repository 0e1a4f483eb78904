// SPDX-License-Identifier: GPL-2.0

//! Packing of structures into wire headers; prototypes in `rdma/ib_pack.h`.

use crate::packer;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::pack::{
    Fault,
    Field, //
};

fn report(field: &Field, result: core::result::Result<(), Fault>) {
    let Err(fault) = result else {
        return;
    };
    let name = core::str::from_utf8(field.name()).unwrap_or("?");
    let bits = field.bits().map_or(0, |(_, size)| size);
    match fault {
        Fault::MemberSize => pr_warn!(
            "Field size {} bits not handled\n",
            field.member().map_or(0, |(_, size)| size.saturating_mul(8))
        ),
        Fault::Unaligned => pr_warn!(
            "Structure field {} of size {} bits is not byte-aligned\n",
            name,
            bits
        ),
        Fault::Range => pr_warn!(
            "Structure field {} of size {} bits is invalid\n",
            name,
            bits
        ),
    }
}

/// Packs `structure` into the wire header at `buf`.
///
/// # Safety
///
/// `desc` is a table of `desc_len` fields; `structure` and `buf` are as large
/// as the table says. Called by drivers, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_pack(
    desc: *const bindings::ib_field,
    desc_len: c_int,
    structure: *mut c_void,
    buf: *mut c_void,
) {
    // SAFETY: By this function's contract.
    let table = unsafe { Field::table(desc, desc_len.try_into().unwrap_or(0)) };
    for field in table {
        // SAFETY: By this function's contract the structure holds the member
        // of each field.
        let from = unsafe { core::slice::from_raw_parts(structure.cast(), field.member_extent()) };
        // SAFETY: By this function's contract the header has the bits of each
        // field, and it is not part of the structure.
        let to = unsafe { core::slice::from_raw_parts_mut(buf.cast(), field.header_extent()) };
        report(field, packer::pack(field, from, to));
    }
}

/// Unpacks the wire header at `buf` into `structure`.
///
/// # Safety
///
/// `desc` is a table of `desc_len` fields; `structure` and `buf` are as large
/// as the table says. Called by drivers, in any context.
#[export]
pub(crate) unsafe extern "C" fn ib_unpack(
    desc: *const bindings::ib_field,
    desc_len: c_int,
    buf: *mut c_void,
    structure: *mut c_void,
) {
    // SAFETY: By this function's contract.
    let table = unsafe { Field::table(desc, desc_len.try_into().unwrap_or(0)) };
    for field in table {
        // SAFETY: By this function's contract the header has the bits of each
        // field.
        let from = unsafe { core::slice::from_raw_parts(buf.cast(), field.header_extent()) };
        // SAFETY: By this function's contract the structure holds the member
        // of each field, and it is not part of the header.
        let to =
            unsafe { core::slice::from_raw_parts_mut(structure.cast(), field.member_extent()) };
        report(field, packer::unpack(field, from, to));
    }
}
