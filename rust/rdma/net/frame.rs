// SPDX-License-Identifier: GPL-2.0

//! Socket buffers that are looked at but never sent.

use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;

use super::NetDevice;
use crate::gfp::Gfp;

/// Where the headers of a frame begin, counted from its first byte.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The header of IPv4 or IPv6.
    pub network: u8,
    /// The header of UDP or the like.
    pub transport: u8,
}

/// An Ethernet frame that stands for those that will be sent.
///
/// # Invariants
///
/// The buffer is valid and belongs to this value.
pub struct Frame(NonNull<bindings::sk_buff>);

impl Frame {
    /// Makes a frame of the bytes of its headers. `protocol` is the type in the Ethernet header.
    pub fn new(bytes: &[u8], offsets: Offsets, protocol: u16, gfp: Gfp) -> Result<Self> {
        let len = u32::try_from(bytes.len())?;

        // SAFETY: Plain allocation, on any node.
        let skb = unsafe { bindings::__alloc_skb(len, gfp.as_raw(), 0, bindings::NUMA_NO_NODE) };
        // INVARIANT: The buffer is new.
        let frame = Self(NonNull::new(skb).ok_or(ENOMEM)?);

        // SAFETY: The buffer is ours and has room for `len` bytes.
        unsafe {
            let data = bindings::skb_put(skb, len).cast::<u8>();
            ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            bindings::skb_reset_mac_header(skb);
            bindings::skb_set_network_header(skb, offsets.network.into());
            bindings::skb_set_transport_header(skb, offsets.transport.into());
            // The headers group is a union of one anonymous and one named struct.
            let headers = &raw mut (*skb).__bindgen_anon_4;
            let headers = headers.cast::<bindings::sk_buff__bindgen_ty_4__bindgen_ty_1>();
            (*headers).protocol = protocol.to_be();
        }
        Ok(frame)
    }

    /// Asks `master` through which of its slaves it would send the frame, if it can tell. With
    /// `all_slaves` it may name one that is not active now.
    pub fn xmit_slave(&mut self, master: &NetDevice, all_slaves: bool) -> Option<ARef<NetDevice>> {
        let skb = self.0.as_ptr();
        let _guard = rcu::read_lock();

        // SAFETY: Device and buffer are valid; the guard protects the slave until it is counted.
        unsafe {
            (*skb)
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev = master.as_raw().cast();
            let slave = bindings::netdev_get_xmit_slave(master.as_raw(), skb, all_slaves);
            NetDevice::from_raw_opt(slave).map(ARef::from)
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let reason = bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED;
        // SAFETY: The buffer is ours, and nobody else has a reference to it.
        unsafe { bindings::sk_skb_reason_drop(ptr::null(), self.0.as_ptr(), reason) };
    }
}
