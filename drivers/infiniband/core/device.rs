// SPDX-License-Identifier: GPL-2.0

//! Devices and clients: who is registered, under which name, and who was told.
//!
//! # Lives of a device
//!
//! *Memory* lives from `ib_alloc_device` to the last `ARef<Device>`, plus a grace period of RCU
//! for those who look at the table or the hash of network devices under RCU only. The table of
//! devices has a reference of its own.
//!
//! *Registration* lasts from [`lifecycle::enable`] to [`lifecycle::disable`]. A [`Get`] proves it;
//! `disable` waits for the last one. A device that is in the table but not registered cannot be
//! had by a `Get`, so lookups by index or network device never see a half-made one.
//!
//! Between the two lie the stages of [`Stage`]. Each is recorded in the device when it is entered,
//! and left at most once, so the unwinding of a failed registration and the unregistration are
//! the same function.
//!
//! # Locks
//!
//! In the order of taking:
//!
//! 1. registration lock of a device (`unregistration_lock`): one thread at a time registers,
//!    unregisters or moves the device. Who gets it looks at the count of references next, as
//!    another thread may have been faster.
//! 2. table of devices (rwsem): the set of devices, their marks, names and namespaces. Names and
//!    namespaces only change through [`DevicesMut`].
//! 3. table of clients (rwsem): the set of clients and the mark of those that are registered.
//!    Never held while a `remove` callback runs.
//! 4. slots of a device (`client_data_rwsem`): which clients are attached to the device.
//!    `add` runs with read locks on 2, 3 and 4 (of its own device), or write locks on 2 and 3;
//!    `remove` runs with none of them, and with lock 1 if the device is going.
//! 5. table of namespaces (rwsem), within 2: the set of namespaces and the sharing mode.
//! 6. compat devices of a device (mutex): a compat device is made and removed within it.
//! 7. `cache_lock` of a device (rwlock, irq safe): the copy of the name, and the link states.
//! 8. locks of a port's network device, then that of their hash (spinlocks, irq safe).
//!
//! The lock of a device's list of sub-devices is only held to change the list, never while a
//! sub-device is made or deleted, so it is not part of the order. Handlers of asynchronous events
//! run with `event_handler_rwsem` of their device alone.
//!
//! # Names
//!
//! A rename frees the string that the driver model has, while uevents and netlink replies want to
//! print the name at any time. So nobody prints that string: `Device::name` copies the one that
//! lies in the device, under lock 7, whole before or whole after a rename.
//!
//! # Sharing modes
//!
//! In shared mode all devices belong to the initial namespace, and every other namespace has a
//! compat device for each. In exclusive mode a device is in one namespace, to which it can be
//! moved. The mode changes only while there is no other namespace.
//!
//! [`Get`]: rdma::device::Get
//! [`Stage`]: rdma::device::stage::Stage
//! [`DevicesMut`]: rdma::registry::DevicesMut

pub(crate) mod client;
mod compat;
pub(crate) mod enumerate;
pub(crate) mod init;
pub(crate) mod lifecycle;
pub(crate) mod name;
pub(crate) mod netdev;
pub(crate) mod netns;
pub(crate) mod port;
pub(crate) mod subdev;

use rdma::class::Class;

/// `/sys/class/infiniband`.
static CLASS: Class = Class::new(c"infiniband");
