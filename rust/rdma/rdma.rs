// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers shared by the core and the providers.
//!
//! What the `kernel` crate lacks comes first ([`rwsem`], [`xarray`], ...), then the objects of the
//! RDMA headers. Nothing here decides a policy.

extern crate kernel_facade as kernel;

pub mod cgroup;
pub mod completion;
pub mod device;
pub mod event;
pub mod gfp;
pub mod gid;
pub mod mad;
pub mod net;
pub mod pack;
pub mod port;
pub mod ratelimit;
pub mod rcu_box;
pub mod refcount;
pub mod rwlock;
pub mod rwsem;
pub mod spinlock;
pub mod workqueue;
pub mod xarray;

/// Read by the `pr_*` macros.
#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rdma\0";
