// SPDX-License-Identifier: GPL-2.0

//! The UDP sockets of each network namespace that has a link.
//!
//! A link owns a [`SocketShare`] of its namespace's sockets; the sockets are opened with the first
//! share and closed with the last one, whichever way that goes.
//!
//! Lock: the mutex of the table, under which sockets are opened and closed. It may be taken inside
//! RTNL, and RTNL is not taken inside.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use rdma::{
    net::{
        skb::Family,
        udp_tunnel::{
            Receiver,
            UdpTunnel, //
        },
    },
    netns::{
        Net,
        NetId, //
    },
};

use crate::params::ROCE_PORT;

/// The sockets of one namespace, and how many links use them.
struct Owner<R: Receiver> {
    net: NetId,
    /// Tells this owner from a later one of a namespace at the same address.
    serial: u64,
    shares: usize,
    _v4: UdpTunnel<R>,
    _v6: Option<UdpTunnel<R>>,
}

struct Table<R: Receiver> {
    owners: KVec<Owner<R>>,
    next_serial: u64,
}

/// The sockets of all namespaces.
#[pin_data]
pub(crate) struct Sockets<R: Receiver> {
    #[pin]
    table: Mutex<Table<R>>,
}

impl<R: Receiver> Sockets<R> {
    /// An empty table.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(Table { owners: KVec::new(), next_serial: 0 }),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a share of the sockets of `net`, which are opened if this is the first one. May sleep.
    ///
    /// A system without IPv6 gets along with the IPv4 socket. Other errors of sockets are the
    /// caller's, above all `EADDRINUSE` if another program has the port.
    pub(crate) fn acquire(self: &Arc<Self>, net: &Net) -> Result<SocketShare<R>> {
        let mut table = self.table.lock();
        if let Some(owner) = table.owners.iter_mut().find(|owner| owner.net == net.id()) {
            owner.shares += 1;
            let serial = owner.serial;
            drop(table);
            return Ok(SocketShare {
                sockets: self.clone(),
                serial,
            });
        }

        let v4 = UdpTunnel::open(net, Family::V4, ROCE_PORT)
            .inspect_err(|err| pr_err!("cannot open the IPv4 socket: {}\n", err.to_errno()))?;
        let v6 = match UdpTunnel::open(net, Family::V6, ROCE_PORT) {
            Ok(tunnel) => Some(tunnel),
            Err(err) if err == EAFNOSUPPORT => {
                pr_warn!("IPv6 is not supported, links work with IPv4 only\n");
                None
            }
            Err(err) => {
                pr_err!("cannot open the IPv6 socket: {}\n", err.to_errno());
                return Err(err);
            }
        };
        let serial = table.next_serial;
        table.owners.push(
            Owner {
                net: net.id(),
                serial,
                shares: 1,
                _v4: v4,
                _v6: v6,
            },
            GFP_KERNEL,
        )?;
        table.next_serial = serial.wrapping_add(1);
        drop(table);
        Ok(SocketShare {
            sockets: self.clone(),
            serial,
        })
    }

    /// Closes the sockets of a namespace that goes away, whoever has a share of them. May sleep.
    pub(crate) fn close(&self, net: &Net) {
        self.remove(|owner| owner.net == net.id());
    }

    fn release(&self, serial: u64) {
        self.remove(|owner| {
            if owner.serial != serial {
                return false;
            }
            owner.shares -= 1;
            owner.shares == 0
        });
    }

    /// Closes the sockets for which `done` says so.
    fn remove(&self, mut done: impl FnMut(&mut Owner<R>) -> bool) {
        let mut table = self.table.lock();
        table.owners.retain(|owner| !done(owner));
    }
}

/// A link's share of the sockets of its namespace.
///
/// Dropping it may sleep; the last one closes the sockets.
pub(crate) struct SocketShare<R: Receiver> {
    sockets: Arc<Sockets<R>>,
    serial: u64,
}

impl<R: Receiver> Drop for SocketShare<R> {
    fn drop(&mut self) {
        self.sockets.release(self.serial);
    }
}
