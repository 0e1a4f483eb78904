// SPDX-License-Identifier: GPL-2.0

//! The netlink protocol of the RDMA subsystem.
//!
//! Each network namespace has one kernel socket. A message's type names a client, a number that a
//! part of the subsystem registers a table of commands for, and one of the client's operations.
//!
//! A client's lock is held for reading while one of its commands runs, so that unregistering,
//! which takes it for writing, waits for all of them. Commands may sleep, and so may everything
//! here.

use kernel::prelude::*;
use pin_init::pin_init_array_from_fn;
use rdma::{
    kmod,
    netlink::{
        Client,
        Inbound,
        InboundMessage,
        RawTable,
        Receiver,
        Verdict,
        CLIENT_IWCM,
        CLIENT_LS,
        CLIENT_NLDEV,
        IWCM_OPS,
        LS_OPS,
        NLDEV_OPS,
        NUM_CLIENTS, //
    },
    netns::{
        Net,
        RdmaNet, //
    },
    new_rwsem,
    pin_once::PinOnce,
    rwsem::RwSem, //
};

/// The clients by their numbers.
static CLIENTS: PinOnce<[RwSem<Client>; NUM_CLIENTS]> = PinOnce::new();

/// How many operations the client has; those without any are reserved numbers.
const fn num_ops(client: u32) -> u32 {
    match client {
        CLIENT_IWCM => IWCM_OPS,
        CLIENT_LS => LS_OPS,
        CLIENT_NLDEV => NLDEV_OPS,
        _ => 0,
    }
}

fn client(index: u32) -> Option<&'static RwSem<Client>> {
    CLIENTS.get()?.get(usize::try_from(index).ok()?)
}

/// Prepares the table of clients, once, before the first socket is opened.
pub(crate) fn init() {
    CLIENTS.init(pin_init_array_from_fn(|index| {
        new_rwsem!(Client::new(num_ops(index as u32)), "rdma_nl_client")
    }));
}

/// Checks that all clients are gone.
pub(crate) fn exit() {
    for (index, client) in CLIENTS.get().into_iter().flatten().enumerate() {
        if kernel::warn_on!(client.read().is_registered()) {
            pr_err!("Netlink client {index} wasn't released prior to unloading ib_core\n");
        }
    }
}

/// Opens the commands of a client. A number that is reserved or taken is a bug of the caller.
pub(crate) fn register(index: u32, table: Option<RawTable>) {
    let Some(client) = client(index).filter(|_| num_ops(index) != 0) else {
        kernel::warn_on!(true);
        return;
    };
    let mut client = client.write();
    if !kernel::warn_on!(client.is_registered()) {
        client.set_table(table);
    }
}

/// Closes the commands of a client and waits for those that run.
pub(crate) fn unregister(index: u32) {
    if let Some(client) = client(index) {
        client.write().set_table(None);
    }
}

/// Opens the socket of a new namespace.
pub(crate) fn net_init(net: &RdmaNet) -> Result {
    net.make_socket::<Protocol>()
}

/// Closes the socket of a namespace that goes away.
pub(crate) fn net_exit(net: &RdmaNet) {
    net.release_socket();
}

/// Whether anyone in the initial namespace listens to a group.
pub(crate) fn has_listeners(group: u32) -> bool {
    Net::init().rdma().socket().has_listeners(group)
}

/// What comes in through the sockets.
struct Protocol;

impl Receiver for Protocol {
    const SEND_TIMEOUT_MS: u32 = 10_000;

    fn receive(inbound: &mut Inbound<'_>) {
        inbound.for_each(|message| {
            // Only the local service answers: there the kernel asks and user space replies.
            let wanted = message.is_request() || message.client() == CLIENT_LS;
            let verdict = if wanted && !message.is_control() {
                dispatch(message).unwrap_or_else(Verdict::from)
            } else {
                Verdict::OK
            };
            if !verdict.is_answered() && (verdict.must_be_told() || message.wants_ack()) {
                message.acknowledge(verdict);
            }
        });
    }
}

/// Runs the command that a message is for.
fn dispatch(message: &mut InboundMessage<'_>) -> Result<Verdict> {
    let (index, op) = (message.client(), message.op());
    let slot = client(index).ok_or(EINVAL)?;

    let mut client = slot.read();
    let elsewhere = !message.netns().is_init() && index != CLIENT_NLDEV;
    if !client.has_op(op) || elsewhere {
        return Err(EINVAL);
    }
    if !client.is_registered() {
        // The module registers itself while it loads, which needs the lock.
        drop(client);
        // Whether it worked shows below.
        let _ = kmod::request(fmt!("rdma-netlink-subsys-{index}"));
        client = slot.read();
    }

    let command = client.command(op).ok_or(EINVAL)?;
    if !command.is_implemented() {
        return Err(EINVAL);
    }
    if command.needs_admin() && !message.has_net_admin() {
        return Err(EPERM);
    }
    let dump = match index {
        // Its replies have a bit of their own where requests ask for a dump.
        CLIENT_LS => false,
        // All its commands are dumps, whatever the flags say.
        CLIENT_IWCM => true,
        _ => message.is_dump(),
    };
    if dump {
        command.dump(message)
    } else {
        command.doit(message)
    }
    .ok_or(EINVAL)
}
