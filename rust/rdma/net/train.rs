// SPDX-License-Identifier: GPL-2.0

//! Packets of UDP that pass through the network stack together.
//!
//! A train is a buffer with a list of others behind it (`SKB_GSO_FRAGLIST`), each a packet of its
//! own. The stack routes, filters and queues it as one. It is taken apart where that has to be: in
//! front of an interface that does not know trains, which no hardware does, or in front of the
//! socket if it never left the host. Then each packet gets the link-layer header of the first one,
//! lengths are set by what there is, and IPv4 packets are numbered on from the first one. The
//! checksums of UDP stay what they are, here 0.
//!
//! C: `skb_gro_receive_list()` makes the same of packets that are forwarded, `skb_segment_list()`
//! takes it apart.

use core::ptr;

use kernel::bindings;
use kernel::prelude::*;

use super::skb::{Family, SkBuff};
use super::udp_tunnel::UDP_HEADER_LEN;

/// Room in front of every packet of a train, beside that for the link layer: for the headers of
/// tunnels below the interface, which are written without another look at the room.
pub const TUNNEL_ROOM: usize = 256;

/// Packets of a train at most, as in trains of packets that are forwarded.
const MAX_PACKETS: u16 = 64;

/// Bytes of a train, from the IP header of the first packet on. With the headers of lower layers
/// it has to be less than the 64 KiB that interfaces take at once.
const MAX_BYTES: usize = 65_000;

/// Datagrams, each in a buffer of its own.
const GSO_TYPE: u32 = (bindings::SKB_GSO_UDP_L4 | bindings::SKB_GSO_FRAGLIST) as u32;

/// A train that is being made.
///
/// # Invariants
///
/// `last` is the last buffer of the list behind `first`, null if there is none. All of them belong
/// to `first`; lengths and size of `first` include theirs.
pub struct Train {
    first: SkBuff,
    last: *mut bindings::sk_buff,
    packets: u16,
    /// Bytes of IP and UDP header of each packet.
    headers: usize,
}

impl Train {
    /// A train of one packet, complete from the IP header on (see [`SkBuff::set_ip_header`]).
    pub fn new(first: SkBuff, family: Family) -> Self {
        // INVARIANT: There is no list.
        Self {
            first,
            last: ptr::null_mut(),
            packets: 1,
            headers: family.header_len() + UDP_HEADER_LEN,
        }
    }

    /// Whether another packet of `len` bytes, from the IP header on, has room.
    #[inline]
    pub fn has_room(&self, len: usize) -> bool {
        self.packets < MAX_PACKETS
            && len > self.headers
            && self.first.len().saturating_add(len - self.headers) <= MAX_BYTES
    }

    /// Appends a packet, complete from the IP header on. It has to be of the same flow and, with
    /// IPv4, to have the next number. `ENOSPC` if there is no room; the packet is lost then.
    pub fn push(&mut self, mut skb: SkBuff) -> Result {
        let alone = self.last.is_null() && self.first.paged_len() != 0;
        if !self.has_room(skb.len()) || alone {
            return Err(ENOSPC);
        }
        skb.pull(self.headers)?;
        let first = self.first.as_raw();
        let skb = skb.into_raw().as_ptr();
        // SAFETY: Both buffers are valid and belong to us; `last`, if there is one, is a buffer of
        // the list by the type invariant. The list takes the buffer over and is freed with `first`.
        unsafe {
            (*skb).__bindgen_anon_1.__bindgen_anon_1.next = ptr::null_mut();
            if self.last.is_null() {
                (*bindings::skb_shinfo(first)).frag_list = skb;
            } else {
                (*self.last).__bindgen_anon_1.__bindgen_anon_1.next = skb;
            }
            (*first).len = (*first).len.wrapping_add((*skb).len);
            (*first).data_len = (*first).data_len.wrapping_add((*skb).len);
            (*first).truesize = (*first).truesize.wrapping_add((*skb).truesize);
        }
        // INVARIANT: It was appended, and counted.
        self.last = skb;
        self.packets += 1;
        Ok(())
    }

    /// The train as a buffer to be sent.
    pub fn finish(mut self) -> SkBuff {
        if self.packets > 1 {
            let size = self.first.head().len().saturating_sub(self.headers);
            let udp = self
                .first
                .len()
                .saturating_sub(self.headers - UDP_HEADER_LEN);
            self.first.set_udp_len(udp as u16);
            // SAFETY: The buffer is valid and belongs to us. The values say what is in the list:
            // `size` is the payload of the first packet, which is less than 64 KiB like all of it.
            unsafe {
                let info = bindings::skb_shinfo(self.first.as_raw());
                (*info).gso_size = size as u16;
                (*info).gso_segs = self.packets;
                (*info).gso_type = GSO_TYPE;
            }
            // There is nothing that an interface would have to compute.
            self.first.set_checksum_good();
        }
        self.first
    }
}
