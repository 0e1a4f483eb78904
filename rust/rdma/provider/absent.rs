// SPDX-License-Identifier: GPL-2.0

//! The kind of object that a driver has none of.

use super::{Driver, MwOps, SrqOps, UcontextOps, XrcdOps};
use kernel::prelude::*;

/// What a driver names for a kind of object that it has none of. The core then answers
/// `EOPNOTSUPP` without asking the driver.
pub enum Absent {}

#[vtable]
impl<D: Driver> UcontextOps<D> for Absent {
    type OwnerModule = D::OwnerModule;
}

#[vtable]
impl<D: Driver> SrqOps<D> for Absent {
    type OwnerModule = D::OwnerModule;
}

#[vtable]
impl<D: Driver> MwOps<D> for Absent {
    type OwnerModule = D::OwnerModule;
}

#[vtable]
impl<D: Driver> XrcdOps<D> for Absent {
    type OwnerModule = D::OwnerModule;
}
