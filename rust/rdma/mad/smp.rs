// SPDX-License-Identifier: GPL-2.0

//! Subnet management packets with a directed route.
//!
//! InfiniBand and Omni-Path use the same routing fields at different places of
//! the packet. Both packet types lend them out as one [`DirectedRoute`].
//!
//! C headers: [`include/rdma/ib_smi.h`](srctree/include/rdma/ib_smi.h),
//! [`include/rdma/opa_smi.h`](srctree/include/rdma/opa_smi.h)

use kernel::bindings;

/// Entries of a path vector; a route has fewer hops than that.
pub const PATH_ENTRIES: usize = bindings::IB_SMP_MAX_PATH_HOPS as usize;

const DIRECTION_BIT: u16 = 0x8000;
const IB_LID_PERMISSIVE: u16 = 0xffff;
const OPA_LID_PERMISSIVE: u32 = 0xffff_ffff;

/// Which way a packet travels along its route: the D bit of the status field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the requester, along the initial path.
    Outbound,
    /// Back to the requester, along the return path.
    Returning,
}

/// The routing fields of a directed-route packet, lent out by the packet.
pub struct DirectedRoute<'a> {
    /// Which of the two paths is being walked.
    pub direction: Direction,
    /// Number of hops of the directed part.
    pub hop_count: u8,
    /// Where on the path the packet is.
    pub hop_pointer: &'a mut u8,
    /// Port to leave each node by, counted from entry 1.
    pub initial_path: &'a [u8; PATH_ENTRIES],
    /// Port that the packet entered each node by.
    pub return_path: &'a mut [u8; PATH_ENTRIES],
    /// The directed part ends at the destination, no LID-routed part follows.
    pub dlid_permissive: bool,
    /// The directed part begins at the source.
    pub slid_permissive: bool,
}

/// An InfiniBand subnet management packet.
///
/// # Invariants
///
/// The packet is a buffer that nothing else changes while it is borrowed.
#[repr(transparent)]
pub struct Smp(bindings::ib_smp);

impl Smp {
    /// Borrows a packet of C code.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a whole packet that nothing else reads or writes
    /// during `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_smp) -> &'a mut Self {
        // SAFETY: By this function's contract the packet is valid and not
        // shared; the wrapper is transparent. INVARIANT: same.
        unsafe { &mut *ptr.cast() }
    }

    /// LID of the source's directed part.
    pub fn source_lid(&self) -> u16 {
        u16::from_be(self.0.dr_slid)
    }

    /// The routing fields.
    pub fn route(&mut self) -> DirectedRoute<'_> {
        let smp = &mut self.0;
        DirectedRoute {
            direction: direction(smp.status),
            hop_count: smp.hop_cnt,
            dlid_permissive: u16::from_be(smp.dr_dlid) == IB_LID_PERMISSIVE,
            slid_permissive: u16::from_be(smp.dr_slid) == IB_LID_PERMISSIVE,
            hop_pointer: &mut smp.hop_ptr,
            initial_path: &smp.initial_path,
            return_path: &mut smp.return_path,
        }
    }
}

/// An Omni-Path subnet management packet.
///
/// # Invariants
///
/// The packet is a buffer that nothing else changes while it is borrowed.
#[repr(transparent)]
pub struct OpaSmp(bindings::opa_smp);

impl OpaSmp {
    /// Borrows a packet of C code.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a whole packet that nothing else reads or writes
    /// during `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::opa_smp) -> &'a mut Self {
        // SAFETY: By this function's contract the packet is valid and not
        // shared; the wrapper is transparent. INVARIANT: same.
        unsafe { &mut *ptr.cast() }
    }

    /// LID of the source's directed part.
    pub fn source_lid(&self) -> u32 {
        // SAFETY: Both variants of the union are plain integers; the packet may lie
        // at any address.
        u32::from_be(unsafe { (&raw const self.0.route.dr.dr_slid).read_unaligned() })
    }

    /// The routing fields.
    pub fn route(&mut self) -> DirectedRoute<'_> {
        let smp = &mut self.0;
        // SAFETY: The variant is not read here, only its address is taken.
        let dr = unsafe { &raw mut smp.route.dr };
        // SAFETY: `dr` points into the packet, which may lie at any address.
        let (dlid, slid) = unsafe {
            (
                (&raw const (*dr).dr_dlid).read_unaligned(),
                (&raw const (*dr).dr_slid).read_unaligned(),
            )
        };
        // SAFETY: The paths are disjoint byte arrays within the packet, which
        // is exclusively borrowed for as long as the references live.
        let (initial_path, return_path) = unsafe { (&(*dr).initial_path, &mut (*dr).return_path) };
        DirectedRoute {
            direction: direction(smp.status),
            hop_count: smp.hop_cnt,
            dlid_permissive: u32::from_be(dlid) == OPA_LID_PERMISSIVE,
            slid_permissive: u32::from_be(slid) == OPA_LID_PERMISSIVE,
            hop_pointer: &mut smp.hop_ptr,
            initial_path,
            return_path,
        }
    }
}

fn direction(status: u16) -> Direction {
    if u16::from_be(status) & DIRECTION_BIT != 0 {
        Direction::Returning
    } else {
        Direction::Outbound
    }
}
