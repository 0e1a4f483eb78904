// SPDX-License-Identifier: GPL-2.0

//! What the drivers' side of user commands needs when ib_uverbs itself may be absent: reading
//! attributes, answering, and mapping device memory.

pub(crate) mod mmap;

use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::uverbs::{
    AttrBundle,
    Complaint,
    DriverData,
    KernelBytes,
    KernelRoom,
    UverbsFile, //
};

/// Reads the driver's input of a command into `room`.
///
/// Errors: `EINVAL` below `minimum` bytes; `EOPNOTSUPP` for bits beyond what the kernel knows;
/// `EFAULT`.
pub(crate) fn copy_driver_input(data: &DriverData, room: KernelRoom<'_>, minimum: usize) -> Result {
    if data.input_len() < minimum {
        data.complain(Complaint::Small(minimum));
        return Err(EINVAL);
    }
    match data.copy_struct(room) {
        Ok(()) => Ok(()),
        Err(e) if e == E2BIG => {
            data.complain(Complaint::Trailing(minimum));
            Err(EOPNOTSUPP)
        }
        Err(e) => {
            data.complain(Complaint::FaultIn);
            Err(e)
        }
    }
}

/// Refuses a mask with unknown bits.
pub(crate) fn refuse_comp_mask(data: &DriverData, request: u64, valid: u64) -> Error {
    data.complain(Complaint::CompMask { request, valid });
    EOPNOTSUPP
}

/// Writes the driver's answer: what fits, and zeros where user space has room for more.
pub(crate) fn respond(data: &DriverData, answer: KernelBytes<'_>) -> Result {
    data.respond(answer)
        .inspect_err(|_| data.complain(Complaint::FaultOut(answer.len())))
}

/// The context of a verbs file.
///
/// `EIO` when the device has left; `EINVAL` before there is a context. The result holds as long
/// as the caller's SRCU read lock.
pub(crate) fn context_of(file: &UverbsFile) -> Result<NonNull<bindings::ib_ucontext>> {
    let context = file.context();
    if !file.is_associated() {
        return Err(EIO);
    }
    context.ok_or(EINVAL)
}

/// Answers in attribute `id`: as much as there is room for.
pub(crate) fn copy_to(bundle: &AttrBundle, id: u16, from: KernelBytes<'_>) -> Result {
    bundle.get(id)?.copy_out(from)
}

/// Answers in attribute `id`, with zeros where user space has room for more.
pub(crate) fn copy_to_or_zero(bundle: &AttrBundle, id: u16, from: KernelBytes<'_>) -> Result {
    let attr = bundle.get(id)?;
    attr.clear_from(from.len())?;
    attr.copy_out(from)
}

/// The constant in attribute `id`, or `default` without one; `ENOENT` without either.
fn constant(bundle: &AttrBundle, id: u16, default: Option<u64>) -> Result<u64> {
    match bundle.get(id) {
        Ok(attr) => Ok(attr.data()),
        Err(e) if e == ENOENT => default.ok_or(e),
        Err(e) => Err(e),
    }
}

/// [`constant`] up to `max`; `EINVAL` above.
pub(crate) fn unsigned(
    bundle: &AttrBundle,
    id: u16,
    max: u64,
    default: Option<u64>,
) -> Result<u64> {
    constant(bundle, id, default).and_then(|v| if v <= max { Ok(v) } else { Err(EINVAL) })
}

/// [`constant`] within `min..=max`; `EINVAL` outside.
pub(crate) fn signed(
    bundle: &AttrBundle,
    id: u16,
    min: i64,
    max: u64,
    default: Option<i64>,
) -> Result<i64> {
    let value = constant(bundle, id, default.map(|v| v as u64))? as i64;
    match u64::try_from(value) {
        Ok(positive) if positive > max => Err(EINVAL),
        _ if value < min => Err(EINVAL),
        _ => Ok(value),
    }
}

/// The flags in attribute `id`, of 4 or 8 bytes; none without the attribute. `EINVAL` for flags
/// that are not among the `allowed` ones.
pub(crate) fn flags(bundle: &AttrBundle, id: u16, allowed: u64) -> Result<u64> {
    let Ok(attr) = bundle.get(id) else {
        return Ok(0);
    };
    let flags = match attr.len() {
        8 => attr.data(),
        4 => attr.data32().into(),
        _ => return Err(EINVAL),
    };
    if flags & !allowed == 0 {
        Ok(flags)
    } else {
        Err(EINVAL)
    }
}
