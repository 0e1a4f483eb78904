// SPDX-License-Identifier: GPL-2.0

//! Statistics counters: which queue pair counts where.
//!
//! Per port, queue pairs are bound to counters by an administrator (manual mode), by the core when
//! a process brings a queue pair to INIT (automatic mode: one counter per type of queue pair, per
//! process, or both), or not at all. The values of a counter whose last queue pair is gone go into
//! the history of its port, so that the sums in sysfs and netlink never run backwards.
//!
//! Lock order: [`Counters`] (per device), then the mutex of a counter's values, inside the
//! wrappers. Looking through the table of counters takes its spinlock, as an inner lock of the
//! first. All functions may sleep.

use kernel::prelude::*;
use rdma::{
    counter::{
        has_raw_cap,
        Counter,
        CounterRef,
        Counters,
        HeldQp,
        Mask,
        Mode,
        Port,
        Settings,
        Setup,
        UniqueCounter, //
    },
    device::Device,
    qp::Qp,
    restrack::{
        Entry,
        Kind,
        Owner,
        Tables, //
    }, //
    stats::{
        HwStats,
        OwnedHwStats,
        StatDesc, //
    },
};

/// A reference to a counter that releases the counter when it is the last one. Not to be dropped
/// while [`Counters`] is held.
struct Hold(Option<CounterRef>);

impl Hold {
    fn new(counter: CounterRef) -> Self {
        Self(Some(counter))
    }

    fn into_inner(mut self) -> Option<CounterRef> {
        self.0.take()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(last) = self.0.take().and_then(CounterRef::put) {
            release(last);
        }
    }
}

/// The end of a counter that was published: it leaves the table, its values go to the history.
fn release(mut counter: UniqueCounter) {
    let device = counter.device().hold();

    if let Some(history) = Port::of(&device, counter.port()).and_then(Port::history) {
        // The values of the last update stand in if there is no newer one to be had.
        let _ = counter.update();
        if let Some(_guard) = Counters::lock(&device) {
            keep(history, counter.stats());
        }
    }
    // Waits for readers of the values.
    counter.entry().withdraw();
    counter.dealloc();
    forget(&device, counter.port());
}

/// Adds the values of a counter to the history. [`Counters`] is held.
fn keep(history: &HwStats, values: &HwStats) {
    for index in 0..values.len() {
        if let Some(value) = values.value(index) {
            history.add(index, value);
        }
    }
}

/// Counts a counter out; manual mode ends with the last one.
fn forget(device: &Device, port: u32) {
    let (Some(port), Some(mut counters)) = (Port::of(device, port), Counters::lock(device)) else {
        return;
    };
    let left = counters.count(port).saturating_sub(1);
    counters.set_count(port, left);
    if left == 0 && port.settings().mode == Mode::Manual {
        counters.set(port, Settings::NONE);
    }
}

/// The settings that automatic mode by `mask` means for a port with `count` counters; an empty mask
/// ends automatic mode.
fn auto_settings(count: u32, mask: Mask, bind_opcnt: bool) -> Settings {
    let mode = match (mask, count) {
        (Mask::NONE, 0) => Mode::None,
        (Mask::NONE, _) => Mode::Manual,
        _ => Mode::Auto,
    };
    Settings {
        mode,
        mask,
        bind_opcnt,
    }
}

/// Whether a port with `count` counters can take the settings `new`.
fn check_change(count: u32, new: Settings) -> Result {
    match new.mode {
        Mode::Auto if new.mask.has_unknown() => Err(EINVAL),
        Mode::Auto if count != 0 => Err(EBUSY),
        _ => Ok(()),
    }
}

/// Turns automatic mode on, or off with an empty mask.
///
/// # Errors
///
/// `EOPNOTSUPP` if the driver has no port statistics, `EINVAL` for unknown criteria, `EBUSY` while
/// the port has counters.
pub(crate) fn set_auto_mode(device: &Device, port: u32, mask: Mask, bind_opcnt: bool) -> Result {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    port.history().ok_or(EOPNOTSUPP)?;

    let mut counters = Counters::lock(device).ok_or(EINVAL)?;
    let count = counters.count(port);
    let new = auto_settings(count, mask, bind_opcnt);
    if port.settings() != new {
        check_change(count, new)?;
        counters.set(port, new);
    }
    Ok(())
}

/// The settings of a port.
pub(crate) fn settings(device: &Device, port: u32) -> Result<Settings> {
    Ok(Port::of(device, port).ok_or(EINVAL)?.settings())
}

/// Switches an optional counter of a port.
///
/// # Errors
///
/// `EOPNOTSUPP` if the driver has none, `EINVAL` for one that does not exist or is not optional, and
/// the driver's.
pub(crate) fn modify(device: &Device, port: u32, index: u32, enable: bool) -> Result {
    device.ops().modify_hw_stat.ok_or(EOPNOTSUPP)?;

    let stats = HwStats::of_port(device, port).ok_or(EINVAL)?;
    let at = usize::try_from(index)?;
    if !stats.descs().get(at).is_some_and(StatDesc::is_optional) {
        return Err(EINVAL);
    }

    let mut guard = stats.lock();
    if guard.is_disabled(at) == enable {
        guard.modify(device, port, index, enable)?;
        guard.set_disabled(at, !enable);
    }
    Ok(())
}

/// Binds `qp` to a counter that exists. A reference that the queue pair did not take is dropped
/// when the right to bind is given up.
fn bind_shared(mut counters: Counters<'_>, counter: CounterRef, qp: &Qp, port: u32) -> Result {
    let bound = counters.bind(counter, qp, port);
    drop(counters);
    bound.map_err(|(e, counter)| {
        drop(Hold::new(counter));
        e
    })
}

/// Makes a counter that came to be by `settings`, binds `qp` to it and publishes it. Returns its
/// id.
fn bind_new(counters: &mut Counters<'_>, qp: &Qp, number: u32, settings: Settings) -> Result<u32> {
    let port = Port::of(counters.device(), number).ok_or(EINVAL)?;
    let mut counter = UniqueCounter::new(counters.device(), number)?;
    counter.set(
        settings,
        settings.mask.has(Mask::QP_TYPE).then(|| qp.kind().as_raw()),
    );

    if let Err((e, counter)) = counters.bind(counter.share(), qp, number) {
        // Nobody else knows the counter: this frees it.
        drop(counter.put());
        return Err(e);
    }
    counters.set_count(port, counters.count(port).saturating_add(1));

    // The queue pair stays bound, and the counter alive, as long as the right to bind is held.
    let counter = counters.bound_to(qp).ok_or(EIO)?;
    counter.entry().copy_owner(qp.entry());
    counter.entry().publish();
    Ok(counter.id())
}

/// Whether two objects were made by the same process.
fn same_process(a: &Entry, b: &Entry) -> bool {
    match (a.owner(), b.owner()) {
        (Owner::User(Some(a)), Owner::User(Some(b))) => a.pid() == b.pid(),
        _ => false,
    }
}

/// Whether automatic mode by `mask` binds `qp` to `counter`.
fn is_shared_by(counter: &Counter, qp: &Qp, mask: Mask) -> bool {
    let same_type = || u32::try_from(counter.qp_type()) == Ok(qp.kind().as_raw());

    (!mask.has(Mask::QP_TYPE) || same_type())
        && (!mask.has(Mask::PID) || same_process(counter.entry(), qp.entry()))
}

/// Looks for the counter of a port that automatic mode by `mask` binds `qp` to.
fn find_shared(device: &Device, port: u32, qp: &Qp, mask: Mask) -> Option<CounterRef> {
    let table = Tables::of_device(device).of(Kind::Counter).lock();
    let found = table
        .iter_from(0)
        .filter_map(|found| Counter::of_entry(found.entry))
        .filter(|counter| counter.port() == port && is_shared_by(counter, qp, mask))
        .find_map(Counter::get);
    found
}

/// Binds a queue pair that a process is bringing to INIT, if the port is in automatic mode.
pub(crate) fn bind_qp_auto(qp: &Qp, number: u32) -> Result {
    if !qp.entry().is_tracked() || qp.entry().is_kernel() {
        return Ok(());
    }

    let device = qp.device();
    let port = Port::of(device, number).ok_or(EINVAL)?;
    if port.settings().mode != Mode::Auto {
        return Ok(());
    }

    let mut counters = Counters::lock(device).ok_or(EINVAL)?;
    let settings = port.settings();
    if settings.mode != Mode::Auto {
        return Ok(());
    }
    match find_shared(device, number, qp, settings.mask) {
        Some(counter) => bind_shared(counters, counter, qp, number),
        None => bind_new(&mut counters, qp, number, settings).map(|_| ()),
    }
}

/// Unbinds a queue pair; with `force` in any case, because it is about to be destroyed.
///
/// # Errors
///
/// `EINVAL` if it is not bound, `EOPNOTSUPP` if the driver cannot, and the driver's.
pub(crate) fn unbind_qp(qp: &Qp, port: u32, force: bool) -> Result {
    if !qp.has_counter() {
        return Err(EINVAL);
    }

    let mut counters = Counters::lock(qp.device()).ok_or(EINVAL)?;
    let counter = counters.unbind(qp, port, force)?;
    drop(counters);
    drop(Hold::new(counter));
    Ok(())
}

/// Has the driver read the values of a counter.
pub(crate) fn query_stats(counter: &Counter) -> Result {
    counter.update()
}

/// The sum of a value over the counters of a port, those that are gone included. Two calls may see
/// a counter that goes meanwhile twice or not at all.
pub(crate) fn hwstat_value(device: &Device, port: u32, index: u32) -> u64 {
    let Some(history) = Port::of(device, port).and_then(Port::history) else {
        return 0;
    };
    let Ok(index) = usize::try_from(index) else {
        return 0;
    };

    Tables::of_device(device)
        .of(Kind::Counter)
        .readers(0)
        .filter_map(|entry| {
            let counter = Counter::of_entry(&entry).filter(|counter| counter.port() == port)?;
            counter.update().ok()?;
            counter.stats().value(index)
        })
        .fold(history.value(index).unwrap_or(0), u64::wrapping_add)
}

/// Finds a queue pair that the caller may see by its number.
fn find_qp(device: &Device, number: u32) -> Option<HeldQp> {
    let entry = Tables::of_device(device).of(Kind::Qp).get(number)?;
    HeldQp::new(entry).filter(|qp| !qp.is_raw_packet() || has_raw_cap(device))
}

/// Finds a counter by its id.
fn find_counter(device: &Device, id: u32) -> Option<Hold> {
    let entry = Tables::of_device(device).of(Kind::Counter).get(id)?;
    Counter::of_entry(&entry)?.get().map(Hold::new)
}

/// Takes the right to bind queue pairs of a port by hand.
fn lock_manual<'a>(device: &'a Device, port: Port<'a>) -> Result<Counters<'a>> {
    let counters = Counters::lock(device).ok_or(EINVAL)?;
    if port.settings().mode == Mode::Auto {
        return Err(EINVAL);
    }
    Ok(counters)
}

/// Whether a queue pair is, or may come to be, on `port`.
fn fits_port(device: &Device, qp: &Qp, port: u32) -> bool {
    !device.has_port(qp.port()) || qp.port() == port
}

/// Binds a queue pair to a counter that exists, both given by number.
///
/// # Errors
///
/// `ENOENT` if there is no such queue pair or counter; `EINVAL` in automatic mode, if they are not
/// of the same port or the same side, user or kernel, or if the queue pair is bound already;
/// `EOPNOTSUPP` if the driver cannot, and the driver's.
pub(crate) fn bind_qpn(device: &Device, number: u32, qp: u32, counter: u32) -> Result {
    let port = Port::of(device, number).ok_or(EINVAL)?;
    if port.settings().mode == Mode::Auto {
        return Err(EINVAL);
    }

    let qp = find_qp(device, qp).ok_or(ENOENT)?;
    let hold = find_counter(device, counter).ok_or(ENOENT)?;
    let counter = hold.0.as_ref().ok_or(ENOENT)?;
    if counter.entry().is_kernel() != qp.entry().is_kernel() || counter.port() != qp.port() {
        return Err(EINVAL);
    }

    let counters = lock_manual(device, port)?;
    let counter = hold.into_inner().ok_or(ENOENT)?;
    bind_shared(counters, counter, &qp, number)
}

/// Binds a queue pair, given by number, to a new counter. Returns the id of the counter.
///
/// # Errors
///
/// `ENOENT` if there is no such queue pair; `EINVAL` in automatic mode or for a bad
/// port; `EOPNOTSUPP` if the port has no statistics; `ENOMEM` if the counter cannot be made or
/// bound, for whatever reason: so user space has always been told.
pub(crate) fn bind_qpn_alloc(device: &Device, number: u32, qp: u32) -> Result<u32> {
    let port = Port::of(device, number).ok_or(EINVAL)?;
    port.history().ok_or(EOPNOTSUPP)?;
    if port.settings().mode == Mode::Auto {
        return Err(EINVAL);
    }

    let qp = find_qp(device, qp).ok_or(ENOENT)?;
    if !fits_port(device, &qp, number) {
        return Err(EINVAL);
    }

    let manual = Settings {
        mode: Mode::Manual,
        mask: Mask::NONE,
        bind_opcnt: true,
    };
    let mut counters = lock_manual(device, port)?;
    let id = bind_new(&mut counters, &qp, number, manual).map_err(|_| ENOMEM)?;
    counters.set(port, manual);
    Ok(id)
}

/// Unbinds a queue pair from a counter, both given by number.
///
/// # Errors
///
/// `ENOENT` if there is no such queue pair; `EINVAL` if it is not bound to that counter, or not by
/// hand; and those of [`unbind_qp`].
pub(crate) fn unbind_qpn(device: &Device, number: u32, qp: u32, counter: u32) -> Result {
    let port = Port::of(device, number).ok_or(EINVAL)?;
    let qp = find_qp(device, qp).ok_or(ENOENT)?;
    if !fits_port(device, &qp, number) {
        return Err(EINVAL);
    }

    let mut counters = Counters::lock(device).ok_or(EINVAL)?;
    if port.settings().mode != Mode::Manual
        || counters.bound_to(&qp).map(Counter::id) != Some(counter)
    {
        return Err(EINVAL);
    }
    let counter = counters.unbind(&qp, number, false)?;
    drop(counters);
    drop(Hold::new(counter));
    Ok(())
}

/// Prepares the ports of a device that is being registered. A port for whose history there is no
/// memory does without counters.
pub(crate) fn init(setup: &Setup<'_>) {
    for port in setup.ports() {
        let history = OwnedHwStats::of_port(setup.device(), port).ok();
        setup.init(port, history);
    }
}

/// Undoes [`init()`] for a device that is being freed.
pub(crate) fn clean(setup: &Setup<'_>) {
    for port in setup.ports() {
        setup.release(port);
    }
}

#[kunit_tests(rust_ib_core_counters)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_mask_ends_automatic_mode() {
        assert_eq!(auto_settings(0, Mask::NONE, false).mode, Mode::None);
        assert_eq!(auto_settings(3, Mask::NONE, false).mode, Mode::Manual);
        assert_eq!(auto_settings(0, Mask::PID, true).mode, Mode::Auto);
        assert_eq!(check_change(3, auto_settings(3, Mask::NONE, false)), Ok(()));
    }

    #[test]
    fn automatic_mode_needs_a_port_without_counters() {
        let auto = auto_settings(0, Mask::QP_TYPE, false);
        assert_eq!(check_change(0, auto), Ok(()));
        assert_eq!(check_change(1, auto), Err(EBUSY));
    }

    #[test]
    fn unknown_criteria_are_refused() {
        let unknown = auto_settings(0, Mask::from_raw(4), false);
        assert_eq!(check_change(0, unknown), Err(EINVAL));
        assert_eq!(check_change(1, unknown), Err(EINVAL));
    }
}
