// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel whose packets go to a callback instead of a receive queue.
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::skb::{Family, SkBuff};
use crate::netns::Net;

/// Bytes of a UDP header.
pub const UDP_HEADER_LEN: usize = 8;

/// Takes the packets of a tunnel.
pub trait Receiver: 'static {
    /// Called for every packet, in bottom-half context inside an RCU section. The data of the buffer
    /// start after the UDP header and end with the datagram.
    fn receive(skb: SkBuff);
}

/// A socket bound to a port, on all addresses of one family. Visible to `ss` like any other.
///
/// Creation and drop may sleep. The socket does not keep its namespace alive, so it has to be
/// dropped before the namespace is gone.
///
/// # Invariants
///
/// The socket belongs to this value, and its callback is that of `R`.
pub struct UdpTunnel<R: Receiver> {
    sock: NonNull<bindings::socket>,
    _receiver: PhantomData<R>,
}

// SAFETY: Sockets are used from any thread.
unsafe impl<R: Receiver> Send for UdpTunnel<R> {}
// SAFETY: Nothing can be reached through a shared reference.
unsafe impl<R: Receiver> Sync for UdpTunnel<R> {}

impl<R: Receiver> UdpTunnel<R> {
    /// Opens the socket. An IPv6 one takes no IPv4 packets, and accepts packets without a checksum.
    ///
    /// Errors: `EAFNOSUPPORT` if the family is not available; `EADDRINUSE`; those of sockets.
    pub fn open(net: &Net, family: Family, port: u16) -> Result<Self> {
        // SAFETY: Integers and addresses, for which zero is "any".
        let mut config: bindings::udp_port_cfg = unsafe { core::mem::zeroed() };
        config.local_udp_port = port.to_be();
        let mut sock = ptr::null_mut();
        // SAFETY: The namespace is valid, the configuration is initialised and `sock` is writable.
        to_result(unsafe {
            match family {
                Family::V4 => {
                    config.family = bindings::AF_INET as u8;
                    bindings::udp_sock_create4(net.as_raw(), &mut config, &mut sock)
                }
                Family::V6 => {
                    config.family = bindings::AF_INET6 as u8;
                    config.set_ipv6_v6only(1);
                    bindings::udp_sock_create6(net.as_raw(), &mut config, &mut sock)
                }
            }
        })?;
        let sock = NonNull::new(sock).ok_or(EAFNOSUPPORT)?;

        let mut tunnel: bindings::udp_tunnel_sock_cfg = pin_init::zeroed();
        tunnel.encap_type = 1;
        tunnel.encap_rcv = Some(Self::encap_rcv);
        // SAFETY: The socket was just made, and is of that namespace.
        unsafe {
            bindings::setup_udp_tunnel_sock(net.as_raw(), (*sock.as_ptr()).sk.cast(), &mut tunnel)
        };
        // INVARIANT: Made above.
        Ok(Self {
            sock,
            _receiver: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by UDP with a packet of the socket, which it gives away; the data start with the UDP
    /// header.
    unsafe extern "C" fn encap_rcv(_sk: *mut bindings::sock, skb: *mut bindings::sk_buff) -> c_int {
        if let Some(skb) = NonNull::new(skb) {
            // SAFETY: UDP gives the packet away.
            let mut skb = unsafe { SkBuff::from_raw(skb) };
            // UDP has looked at its header already, so that it is in the linear part.
            if skb.pull(UDP_HEADER_LEN).is_ok() {
                R::receive(skb);
            }
        }
        0
    }
}

impl<R: Receiver> Drop for UdpTunnel<R> {
    fn drop(&mut self) {
        // SAFETY: The socket is ours, and nobody uses it any more. UDP finds it under RCU, so no
        // callback runs after the wait.
        unsafe {
            bindings::udp_tunnel_sock_release((*self.sock.as_ptr()).sk.cast());
            bindings::synchronize_net();
        }
    }
}
