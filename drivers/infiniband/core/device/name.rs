// SPDX-License-Identifier: GPL-2.0

//! Names of devices: unique among the devices that one namespace can see.

use super::{
    compat,
    netns, //
};
use kernel::prelude::*;
use rdma::{
    device::{
        ops::Notice,
        Device,
        Name,
        NAME_MAX, //
    },
    netns::NetId,
    registry::{
        self,
        DeviceView, //
    },
};

/// A name with a place for a number: `mlx5_%d`.
struct Pattern<'a> {
    prefix: &'a [u8],
    suffix: &'a [u8],
}

impl<'a> Pattern<'a> {
    /// Takes a name apart; `None` if it is literal. `EINVAL` if it asks for anything but one
    /// number.
    fn parse(name: &'a [u8]) -> Result<Option<Self>> {
        let Some(at) = name.iter().position(|&c| c == b'%') else {
            return Ok(None);
        };
        let (prefix, rest) = name.split_at_checked(at).ok_or(EINVAL)?;
        match rest {
            [b'%', b'd' | b'u', suffix @ ..] if !suffix.contains(&b'%') => {
                Ok(Some(Self { prefix, suffix }))
            }
            _ => Err(EINVAL),
        }
    }

    /// The number in a name that this pattern would make, `None` for all other names.
    fn number_in(&self, name: &[u8]) -> Option<u32> {
        let digits = name.strip_prefix(self.prefix)?.strip_suffix(self.suffix)?;
        let canonical = match digits {
            [] => false,
            [b'0'] => true,
            [b'0', ..] => false,
            _ => true,
        };
        if !canonical {
            return None;
        }
        digits
            .iter()
            .try_fold(0u32, |number, digit| {
                let digit = digit.checked_sub(b'0').filter(|&d| d < 10)?;
                number.checked_mul(10)?.checked_add(digit.into())
            })
            .filter(|&number| number < i32::MAX as u32)
    }

    /// The name with a number.
    fn with(&self, number: u32) -> Result<Name> {
        let mut digits = [0u8; 10];
        let mut start = digits.len();
        let mut rest = number;
        loop {
            start = start.saturating_sub(1);
            if let Some(digit) = digits.get_mut(start) {
                *digit = b'0' + (rest % 10) as u8;
            }
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let number = digits.get(start..).unwrap_or_default();

        let mut text = [0u8; NAME_MAX];
        let mut len = 0usize;
        for part in [self.prefix, number, self.suffix] {
            let end = len.checked_add(part.len()).ok_or(ENAMETOOLONG)?;
            text.get_mut(len..end)
                .ok_or(ENAMETOOLONG)?
                .copy_from_slice(part);
            len = end;
        }
        let text = CStr::from_bytes_until_nul(&text).map_err(|_| ENAMETOOLONG)?;
        Name::new(text)
    }
}

/// The lowest number that is not in `used`, whose length bounds it.
fn lowest_free(used: impl Iterator<Item = u32> + Clone) -> Result<u32> {
    let count = used.clone().count();
    let mut taken: KVec<bool> = KVec::from_elem(false, count, GFP_KERNEL)?;
    for number in used {
        if let Some(place) = taken.get_mut(number as usize) {
            *place = true;
        }
    }
    let free = taken.iter().position(|&taken| !taken).unwrap_or(count);
    free.try_into().map_err(|_| ENOSPC)
}

/// Whether a device other than `except` that `net` can see has the name.
fn is_taken(devices: DeviceView<'_>, except: Option<&Device>, net: NetId, name: &CStr) -> bool {
    devices.iter().any(|device| {
        !except.is_some_and(|except| except.is(device))
            && netns::can_see(device, net)
            && device.name().to_bytes() == name.to_bytes()
    })
}

/// The first name of a pattern that no device other than `except` has.
fn pick_numbered(
    devices: DeviceView<'_>,
    except: Option<&Device>,
    net: NetId,
    pattern: &Pattern<'_>,
) -> Result<Name> {
    let numbers = || {
        devices
            .iter()
            .filter(|device| !except.is_some_and(|except| except.is(device)))
            .filter(|device| netns::can_see(device, net))
            .filter_map(|device| pattern.number_in(device.name().to_bytes()))
    };
    let count = numbers().count();
    let mut used = KVec::with_capacity(count, GFP_KERNEL)?;
    for number in numbers() {
        used.push(number, GFP_KERNEL)?;
    }
    pattern.with(lowest_free(used.iter().copied())?)
}

/// Gives a device its first name, and with it an index. `ENFILE` if the name is taken.
///
/// `name` is literal, or has a `%d` for the lowest free number.
pub(super) fn assign(device: &Device, name: &CStr) -> Result {
    let mut devices = registry::get().devices.write();
    let net = NetId::of(device);
    let name = match Pattern::parse(name.to_bytes())? {
        Some(pattern) => pick_numbered(devices.view(), None, net, &pattern)?,
        None => Name::new(name)?,
    };
    devices.set_first_name(device, &name)?;
    if is_taken(devices.view(), None, net, &name) {
        return Err(ENFILE);
    }
    devices.publish_name(device, &name);
    devices.insert(device)
}

/// The name for a device that moves to `net` on a user's request: the one asked for, or else the
/// one it has. `EEXIST` if that is taken there.
pub(super) fn for_move(
    devices: DeviceView<'_>,
    device: &Device,
    net: NetId,
    requested: Option<&Name>,
) -> Result<Name> {
    let name = requested.cloned().unwrap_or_else(|| device.name());
    if is_taken(devices, Some(device), net, &name) {
        return Err(EEXIST);
    }
    Ok(name)
}

/// The name for a device whose namespace dies: the one it has, or `ibdev<index>`, or the first
/// free `ibdev<number>`.
pub(super) fn for_refuge(devices: DeviceView<'_>, device: &Device, net: NetId) -> Result<Name> {
    const REFUGE: Pattern<'static> = Pattern {
        prefix: b"ibdev",
        suffix: b"",
    };

    if let Ok(name) = for_move(devices, device, net, None) {
        return Ok(name);
    }
    let name = REFUGE.with(device.index())?;
    if !is_taken(devices, Some(device), net, &name) {
        return Ok(name);
    }
    pick_numbered(devices, Some(device), net, &REFUGE)
}

/// Renames a registered device, tells its clients, then listeners on netlink. Sleeps.
///
/// `EEXIST` if the name is taken. The name that the device has is no change.
pub(crate) fn rename(device: &Device, name: &CStr) -> Result {
    let registry = registry::get();
    let mut devices = registry.devices.write();
    if device.name().to_bytes() == name.to_bytes() {
        return Ok(());
    }
    let name = Name::new(name)?;
    if is_taken(devices.view(), None, NetId::of(device), &name) {
        return Err(EEXIST);
    }
    devices.rename(device, &name)?;
    compat::rename(device, &name);

    let _devices = devices.downgrade();
    {
        let slots = device.slots();
        for (client, data) in slots.attached(&registry.clients) {
            client.renamed(device, data);
        }
    }
    // Nobody can be told that nobody listens.
    let _ = device.notify(0, Notice::Rename);
    Ok(())
}

#[kunit_tests(rust_ib_core_device_name)]
mod tests {
    use super::*;

    fn pattern(name: &[u8]) -> Pattern<'_> {
        Pattern::parse(name).ok().flatten().unwrap()
    }

    #[test]
    fn literal_names_are_no_patterns() {
        assert!(Pattern::parse(b"rxe0").unwrap().is_none());
        assert!(Pattern::parse(b"").unwrap().is_none());
    }

    #[test]
    fn patterns_take_one_number() {
        assert!(Pattern::parse(b"a%d_b").unwrap().is_some());
        assert!(Pattern::parse(b"a%s").is_err());
        assert!(Pattern::parse(b"a%d%d").is_err());
        assert!(Pattern::parse(b"a%").is_err());
    }

    #[test]
    fn only_canonical_numbers_count() {
        let pattern = pattern(b"mlx5_%d");
        assert_eq!(pattern.number_in(b"mlx5_0"), Some(0));
        assert_eq!(pattern.number_in(b"mlx5_42"), Some(42));
        assert_eq!(pattern.number_in(b"mlx5_042"), None);
        assert_eq!(pattern.number_in(b"mlx5_"), None);
        assert_eq!(pattern.number_in(b"mlx5_1x"), None);
        assert_eq!(pattern.number_in(b"mlx5_+1"), None);
        assert_eq!(pattern.number_in(b"mlx4_1"), None);
        assert_eq!(pattern.number_in(b"mlx5_2147483647"), None);
        assert_eq!(pattern.number_in(b"mlx5_99999999999"), None);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let pattern = pattern(b"p%d.s");
        for (number, text) in [
            (0, c"p0.s"),
            (7, c"p7.s"),
            (10, c"p10.s"),
            (987654321, c"p987654321.s"),
        ] {
            assert_eq!(pattern.with(number).unwrap().to_bytes(), text.to_bytes());
        }
        let long = [b'x'; NAME_MAX - 1];
        let pattern = Pattern {
            prefix: &long,
            suffix: b"",
        };
        assert!(pattern.with(0).is_err());
    }

    #[test]
    fn the_lowest_free_number_is_found() {
        for (used, free) in [
            (&[][..], 0),
            (&[0][..], 1),
            (&[1][..], 0),
            (&[0, 1, 3][..], 2),
            (&[2, 0, 1][..], 3),
            (&[1000, 0][..], 1),
        ] {
            assert_eq!(lowest_free(used.iter().copied()).unwrap(), free);
        }
    }
}
