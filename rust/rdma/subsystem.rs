// SPDX-License-Identifier: GPL-2.0

//! The parts of the core that are started when the module loads.

use crate::workqueue::WorkQueue;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::rcu, //
};

/// A part that is started and stopped.
#[derive(Clone, Copy)]
pub enum Subsystem {
    /// The types of netlink messages.
    Netlink,
    /// Address resolution.
    Addr,
    /// Management datagrams: the first client.
    Mad,
    /// Subnet administration and multicast: the second and the third client.
    Sa,
    /// The netlink socket, and the compat devices, of each network namespace.
    Netns,
    /// Netlink commands about devices.
    Nldev,
    /// Netlink commands of the user-space resolver.
    LocalService,
    /// GIDs of RoCE ports.
    RoceGid,
}

/// A part that runs until this is dropped.
pub struct Running(Subsystem);

impl Subsystem {
    /// Starts a part. Sleeps.
    ///
    /// Each part is started once, after all those before it.
    #[inline]
    pub fn start(self) -> Result<Running> {
        // SAFETY: Called by module initialisation, which nothing runs beside.
        to_result(unsafe {
            match self {
                Subsystem::Netlink => {
                    bindings::rdma_nl_init();
                    0
                }
                Subsystem::Addr => bindings::addr_init(),
                Subsystem::Mad => bindings::ib_mad_init(),
                Subsystem::Sa => bindings::ib_sa_init(),
                Subsystem::Netns => bindings::rdma_register_pernet(),
                Subsystem::Nldev => {
                    bindings::nldev_init();
                    0
                }
                Subsystem::LocalService => {
                    bindings::rdma_register_ls();
                    0
                }
                Subsystem::RoceGid => bindings::roce_gid_mgmt_init(),
            }
        })?;
        Ok(Running(self))
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The part was started, and what was started after it is stopped.
        unsafe {
            match self.0 {
                Subsystem::Netlink => bindings::rdma_nl_exit(),
                Subsystem::Addr => bindings::addr_cleanup(),
                Subsystem::Mad => bindings::ib_mad_cleanup(),
                Subsystem::Sa => bindings::ib_sa_cleanup(),
                Subsystem::Netns => bindings::rdma_unregister_pernet(),
                Subsystem::Nldev => bindings::nldev_exit(),
                Subsystem::LocalService => bindings::rdma_nl_unregister(bindings::RDMA_NL_LS),
                Subsystem::RoceGid => bindings::roce_gid_mgmt_cleanup(),
            }
        }
    }
}

/// A work queue of the core that C code finds in a variable.
#[derive(Clone, Copy)]
pub enum Shared {
    /// `ib_wq`: events, releases of GIDs.
    Events,
    /// `ib_comp_wq`: completions, on the CPU where they come in.
    Completions,
    /// `ib_comp_unbound_wq`: completions, on any CPU.
    CompletionsUnbound,
    /// Unregistration of devices.
    Unregister,
}

impl Shared {
    #[inline]
    fn slot(self) -> *mut *mut bindings::workqueue_struct {
        match self {
            Shared::Events => &raw mut bindings::ib_wq,
            Shared::Completions => &raw mut bindings::ib_comp_wq,
            Shared::CompletionsUnbound => &raw mut bindings::ib_comp_unbound_wq,
            Shared::Unregister => &raw mut bindings::ib_unreg_wq,
        }
    }

    /// Makes the queue; see [`WorkQueue::new`].
    #[inline]
    pub fn create(self, name: &CStr, flags: u32, max_active: i32) -> Result<SharedQueue> {
        let queue = WorkQueue::new(name, flags, max_active)?;
        // SAFETY: Module initialisation, before any user of the variable.
        unsafe { self.slot().write(queue.as_raw()) };
        Ok(SharedQueue {
            queue: Some(queue),
            which: self,
        })
    }

    /// The queue, for use in a call to C.
    #[inline]
    pub(crate) fn raw(self) -> *mut bindings::workqueue_struct {
        // SAFETY: Written while the module loads only.
        unsafe { self.slot().read() }
    }
}

/// Owns a shared queue.
pub struct SharedQueue {
    queue: Option<WorkQueue>,
    which: Shared,
}

impl Drop for SharedQueue {
    #[inline]
    fn drop(&mut self) {
        // What still is queued may use the variable.
        drop(self.queue.take());
        // SAFETY: No user of the variable is left.
        unsafe { self.which.slot().write(core::ptr::null_mut()) };
    }
}

/// Waits for all callbacks of RCU.
pub fn finish_rcu() {
    rcu::rcu_barrier();
}

/// The most items that an unbound queue runs at once.
pub const UNBOUND_MAX_ACTIVE: i32 = bindings::wq_consts_WQ_UNBOUND_MAX_ACTIVE as i32;
