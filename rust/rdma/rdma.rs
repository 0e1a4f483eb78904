// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers shared by the core and the providers.
//!
//! What the `kernel` crate lacks comes first ([`rwsem`], [`xarray`], ...), then the objects of the
//! RDMA headers. Nothing here decides a policy.

extern crate kernel_facade as kernel;

pub mod addr;
pub mod ah;
pub mod async_event;
pub mod block_iter;
pub mod cgroup;
pub mod class;
pub mod classic;
mod cleared;
pub mod client;
mod clist;
pub mod completion;
pub mod counter;
pub mod cpu_memory;
pub mod cq;
pub mod crc32;
pub mod device;
pub mod device_client;
pub mod dma;
pub mod dma_coherent;
pub mod dma_virt;
pub mod drain;
pub mod event;
pub mod frmr;
pub mod gfp;
pub mod gid;
pub mod gid_addr;
pub mod id_table;
pub mod irq_poll;
pub mod jiffies;
pub mod kmod;
pub mod kobject;
pub mod link;
pub mod mad;
pub mod mm;
pub mod module_state;
pub mod mr;
pub mod mr_pool;
pub mod mw;
pub mod net;
pub mod netlink;
pub mod netns;
pub mod network_header;
pub mod nldev;
pub mod object;
pub mod pack;
pub mod page_run;
pub mod pd;
pub mod perf_mad;
pub mod phys;
pub mod pin_once;
pub mod poll_cq;
pub mod port;
pub mod printk;
pub mod provider;
pub mod qp;
pub mod random;
pub mod rate;
pub mod ratelimit;
pub mod rcu_box;
pub mod rdma_netdev;
pub mod refcount;
pub mod region;
pub mod registry;
pub mod restrack;
pub mod rw;
pub mod rwlock;
pub mod rwsem;
pub mod sa;
pub mod self_qp;
pub mod sem_lock;
pub mod softirq;
pub mod spinlock;
pub mod srq;
pub mod static_lock;
pub mod stats;
pub mod subsystem;
pub mod sysfs;
pub mod udata;
pub mod umem;
pub mod umem_dmabuf;
pub mod umem_odp;
pub mod usecnt;
pub mod user_mmap;
pub mod user_ring;
pub mod uverbs;
pub mod vf;
pub mod visit;
pub mod warn;
pub mod wc;
pub mod workqueue;
pub mod wq;
pub mod xarray;
pub mod xrcd;

/// Read by the `pr_*` macros.
#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rdma\0";
