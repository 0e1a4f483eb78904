// SPDX-License-Identifier: GPL-2.0

//! The RDMA verbs core.
//!
//! One module per file of the C core. A part that `parts.mk` does not yet
//! select is absent here, and its C namesake is linked instead; the parts call
//! one another through the declarations of the kernel's own headers either way.

extern crate kernel_facade as kernel;

#[cfg(part_addr)]
mod addr;
#[cfg(part_agent)]
mod agent;
#[cfg(part_cache)]
mod cache;
#[cfg(part_cgroup)]
mod cgroup;
#[cfg(part_verbs)]
mod classic;
#[cfg(part_counters)]
mod counters;
#[cfg(part_cq)]
mod cq;
#[cfg(part_device)]
mod device;
mod ffi;
#[cfg(part_frmr_pools)]
mod frmr_pools;
#[cfg(part_ib_core_uverbs)]
mod ib_core_uverbs;
#[cfg(part_iter)]
mod iter;
#[cfg(part_lag)]
mod lag;
#[cfg(part_mad)]
mod mad;
#[cfg(part_mad_rmpp)]
mod mad_rmpp;
#[cfg(part_mr_pool)]
mod mr_pool;
#[cfg(part_multicast)]
mod multicast;
#[cfg(part_netlink)]
mod netlink;
#[cfg(part_nldev)]
mod nldev;
#[cfg(part_packer)]
mod packer;
#[cfg(part_restrack)]
mod restrack;
#[cfg(part_roce_gid_mgmt)]
mod roce_gid_mgmt;
#[cfg(part_rw)]
mod rw;
#[cfg(part_sa_query)]
mod sa_query;
#[cfg(part_smi)]
mod smi;
#[cfg(part_sysfs)]
mod sysfs;
#[cfg(part_ud_header)]
mod ud_header;
#[cfg(part_umem)]
mod umem;
#[cfg(part_umem_dmabuf)]
mod umem_dmabuf;
#[cfg(part_umem_odp)]
mod umem_odp;
#[cfg(part_verbs)]
mod verbs;

/// Read by the `pr_*` macros. The module's entry points and parameters are C,
/// so `module!`, which usually defines it, is not used.
#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"ib_core\0";
