// SPDX-License-Identifier: GPL-2.0

//! `hw_counters/`: statistics that the driver reads from the hardware.

use kernel::{
    prelude::*,
    static_lock_class,
    sync::Arc,
    time::msecs_to_jiffies, //
};
use rdma::{
    counter,
    device::Device,
    port::Port,
    stats::{
        jiffies_to_msecs,
        now,
        HwStats,
        OwnedHwStats,
        StatsGuard, //
    },
    sysfs::{
        Access,
        DeviceFile,
        DeviceGroup,
        DeviceStats,
        Input,
        Output,
        Own,
        OwnDevice,
        PortFile,
        PortGroup, //
    }, //
};

/// The longest lifespan that can be set, in milliseconds.
const MAX_LIFESPAN: i32 = 10_000;

/// Port 0 means the device as a whole.
const WHOLE_DEVICE: u32 = 0;

#[derive(Clone, Copy)]
enum What {
    /// The value with this index.
    Value(usize),
    /// How long values are good for.
    Lifespan,
}

/// A file in `hw_counters/`.
pub(crate) struct StatFile {
    stats: Arc<OwnedHwStats>,
    what: What,
}

/// Whether values that were read at `timestamp` are still good, times being in wrapping ticks.
fn is_fresh(now: usize, timestamp: usize, lifespan: usize) -> bool {
    timestamp.wrapping_add(lifespan).wrapping_sub(now) as isize >= 0
}

/// Reads the value again if it is too old.
fn refresh(guard: &mut StatsGuard<'_>, device: &Device, port: u32, index: usize) -> Result {
    if is_fresh(now(), guard.timestamp(), guard.lifespan()) {
        return Ok(());
    }
    let read = guard.fetch(device, port, index)?;
    if read == guard.stats().len() {
        guard.set_timestamp(now());
    }
    Ok(())
}

impl StatFile {
    fn show(&self, device: &Device, port: u32, out: &mut Output<'_>) -> Result {
        let mut guard = self.stats.lock();

        match self.what {
            What::Value(index) => {
                refresh(&mut guard, device, port, index)?;
                let value = self.stats.value(index).ok_or(EINVAL)?;
                // What counters that queue pairs are bound to have taken from the port's.
                let bound = counter::hwstat_value(device, port, index);
                out.text(fmt!("{}\n", value.wrapping_add(bound)));
            }
            What::Lifespan => out.text(fmt!("{}\n", jiffies_to_msecs(guard.lifespan()))),
        }
        Ok(())
    }

    fn store(&self, text: &Input<'_>) -> Result {
        let What::Lifespan = self.what else {
            return Err(EIO);
        };
        let msecs = text.decimal()?;
        if !(0..=MAX_LIFESPAN).contains(&msecs) {
            return Err(EINVAL);
        }
        let lifespan = msecs_to_jiffies(u32::try_from(msecs)?);
        self.stats.lock().set_lifespan(lifespan);
        Ok(())
    }
}

impl PortFile for StatFile {
    fn show(&self, port: Port<'_>, out: &mut Output<'_>) -> Result {
        self.show(port.device(), port.number(), out)
    }

    fn store(&self, _port: Port<'_>, text: &Input<'_>) -> Result {
        self.store(text)
    }
}

/// A file in the `hw_counters/` of a device.
pub(crate) struct DeviceStatFile(StatFile);

impl DeviceFile for DeviceStatFile {
    type Scope = Own;

    fn show(&self, device: OwnDevice<'_>, out: &mut Output<'_>) -> Result {
        self.0.show(device.device(), WHOLE_DEVICE, out)
    }

    fn store(&self, _device: OwnDevice<'_>, text: &Input<'_>) -> Result {
        self.0.store(text)
    }
}

/// Reads all values for the first time.
///
/// # Errors
///
/// `ENOMEM` if the driver did not describe any value, `EINVAL` if it did not read all, and its own.
fn read_all(device: &Device, port: u32, stats: &HwStats) -> Result {
    if stats.descs().is_empty() {
        return Err(ENOMEM);
    }

    let mut guard = stats.lock();
    if guard.fetch(device, port, stats.len())? != stats.len() {
        kernel::warn_on!(true);
        return Err(EINVAL);
    }
    guard.set_timestamp(now());
    Ok(())
}

/// The files for statistics: their values, but for optional ones, and the lifespan.
fn files(
    stats: &Arc<OwnedHwStats>,
) -> impl Iterator<Item = (&'static CStr, Access, StatFile)> + '_ {
    let file = |what| StatFile {
        stats: stats.clone(),
        what,
    };
    let values = stats
        .descs()
        .iter()
        .enumerate()
        .filter(|(_, desc)| !desc.is_optional())
        .map(move |(index, desc)| (desc.name(), Access::ReadOnly, file(What::Value(index))));
    let lifespan = (c"lifespan", Access::ReadWrite, file(What::Lifespan));
    Iterator::chain(values, [lifespan])
}

/// The statistics of a port and their files, if the driver has any.
pub(super) fn port_files(
    port: Port<'_>,
) -> Result<Option<(Arc<OwnedHwStats>, PortGroup<StatFile>)>> {
    let stats = match OwnedHwStats::of_port(port.device(), port.number()) {
        Ok(stats) => Arc::new(stats, GFP_KERNEL)?,
        Err(EOPNOTSUPP) => return Ok(None),
        Err(e) => return Err(e),
    };
    read_all(port.device(), port.number(), &stats)?;
    let group = PortGroup::new(Some(c"hw_counters"), files(&stats), static_lock_class!())?;
    Ok(Some((stats, group)))
}

/// The files of the statistics of a device as a whole.
pub(super) fn device_files(
    device: &Device,
    stats: OwnedHwStats,
) -> Result<KBox<DeviceStats<DeviceStatFile>>> {
    let stats = Arc::new(stats, GFP_KERNEL)?;
    read_all(device, WHOLE_DEVICE, &stats)?;
    let files = files(&stats).map(|(name, access, file)| (name, access, DeviceStatFile(file)));
    DeviceStats::new(DeviceGroup::new(
        c"hw_counters",
        files,
        static_lock_class!(),
    )?)
}

#[kunit_tests(rust_ib_core_sysfs_stats)]
mod tests {
    use super::*;

    #[test]
    fn values_age() {
        assert!(is_fresh(100, 90, 10));
        assert!(!is_fresh(101, 90, 10));
        assert!(is_fresh(90, 90, 0));
        assert!(!is_fresh(91, 90, 0));
    }

    #[test]
    fn the_tick_counter_wraps() {
        assert!(is_fresh(3, usize::MAX - 2, 10));
        assert!(!is_fresh(20, usize::MAX - 2, 10));
    }
}
