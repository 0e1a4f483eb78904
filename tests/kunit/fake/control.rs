// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs, for tests in user space: what is to fail, and what was called.
//!
//! They are named in Documentation/testing-your-ulp.md. A device is named in what is written, so
//! there is nothing to be renamed or removed with it.

use super::{
    device::Fake,
    fabric,
    ops::Op,
    script::{Failure, Script},
};
use kernel::{debugfs::Scope, fmt, prelude::*, uaccess::UserSliceReader};
use rdma::provider::DeviceRef;

/// What the files are about: all devices of the module.
pub(crate) struct Control;

/// The devices that are yet to be made, as they are named in the files.
const LATER: &str = "*";

/// The longest line that is taken.
const LINE: usize = 128;

/// Largest number of an error.
const MAX_ERRNO: i32 = kernel::bindings::MAX_ERRNO as i32;

/// The files, as long as the result exists. May sleep.
pub(crate) fn files() -> impl PinInit<Scope<Control>> {
    Scope::dir(Control, c"ib_fake", |control, dir| {
        dir.read_write_callback_file(c"fail", control, &show_failures, &set_failure);
        dir.read_write_callback_file(c"calls", control, &show_calls, &forget_calls);
    })
}

/// An operation, as it is written: like the member of `struct ib_device_ops`.
struct Lower(Op);

impl fmt::Display for Lower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use core::fmt::Write;
        let mut chars = self.0.name().chars();
        chars.try_for_each(|c| f.write_char(c.to_ascii_lowercase()))
    }
}

/// A device by its name.
fn device(name: &str) -> Result<DeviceRef<Fake>> {
    let is_it = |device: &DeviceRef<Fake>| device.core().name().as_bytes() == name.as_bytes();
    fabric::kept()?.into_iter().find(is_it).ok_or(ENODEV)
}

/// Calls `f` with the names and scripts of the devices.
fn for_each(mut f: impl FnMut(&dyn fmt::Display, &Script) -> fmt::Result) -> fmt::Result {
    for device in &fabric::kept().map_err(|_| fmt::Error)? {
        f(&device.core().name(), &device.state.script)?;
    }
    Ok(())
}

/// Reads a line.
fn line<'a>(reader: &mut UserSliceReader, buf: &'a mut [u8; LINE]) -> Result<&'a str> {
    let len = reader.len();
    let line = buf.get_mut(..len).ok_or(EINVAL)?;
    reader.read_slice(line)?;
    core::str::from_utf8(line).map_err(|_| EINVAL)
}

fn show_failures(_control: &Control, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut show = |name: &dyn fmt::Display, op: Op, failure: Option<Failure>| {
        let Some((nth, error)) = failure.map(Failure::parts) else {
            return Ok(());
        };
        let (op, errno) = (Lower(op), -error.to_errno());
        f.write_fmt(fmt!("{name} {op} {nth} {errno}\n"))
    };
    let template = fabric::template();
    for op in Op::all() {
        show(&LATER, op, template.get(op.index()).copied().flatten())?;
    }
    for_each(|name, script| Op::all().try_for_each(|op| show(name, op, script.failure(op))))
}

/// `DEVICE OPERATION NTH ERRNO`.
fn set_failure(_control: &Control, reader: &mut UserSliceReader) -> Result {
    let mut buf = [0; LINE];
    let mut words = line(reader, &mut buf)?.split_ascii_whitespace();
    let mut next = || words.next().ok_or(EINVAL);
    let (name, op, nth, errno) = (next()?, next()?, next()?, next()?);
    if words.next().is_some() {
        return Err(EINVAL);
    }
    let op = Op::all()
        .find(|known| known.name().eq_ignore_ascii_case(op))
        .ok_or(EINVAL)?;
    let nth = nth.parse::<u32>().map_err(|_| EINVAL)?;
    let errno = errno.parse::<i32>().map_err(|_| EINVAL)?;
    let failure = match errno.checked_abs() {
        Some(0) => None,
        Some(errno @ 1..=MAX_ERRNO) => Some(Failure::new(nth, Error::from_errno(-errno))),
        _ => return Err(EINVAL),
    };
    match name {
        LATER => fabric::set_template(op, failure),
        name => device(name)?.state.script.fail(op, failure),
    }
    Ok(())
}

fn show_calls(_control: &Control, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for_each(|name, script| {
        for op in Op::all() {
            let (count, op) = (script.count(op), Lower(op));
            if count > 0 {
                f.write_fmt(fmt!("{name} {op} {count}\n"))?;
            }
        }
        Ok(())
    })
}

/// `DEVICE`.
fn forget_calls(_control: &Control, reader: &mut UserSliceReader) -> Result {
    let mut buf = [0; LINE];
    device(line(reader, &mut buf)?.trim_ascii())?
        .state
        .script
        .clear();
    Ok(())
}
