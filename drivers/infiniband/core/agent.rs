// SPDX-License-Identifier: GPL-2.0

//! Answers of the driver's own management agents.
//!
//! Each open port has a send-only agent per queue pair, which nobody hears of.

use crate::mad::{
    agent::{
        Agent,
        Lease,
        Request, //
    },
    send::{
        self,
        Draft, //
    },
};
use kernel::{
    dev_err,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};
use rdma::{
    device::Device,
    mad::{
        agent::Handlers,
        recv::Recv,
        verbs::QpKind,
        wire::{
            Header,
            MAD_SIZE,
            OPA_BASE_VERSION, //
        },
        WorkCompletion, //
    },
    static_lock::StaticSpinLock, //
};

/// The agents of one port.
struct Responder {
    smi: Option<Arc<Agent>>,
    gsi: Option<Arc<Agent>>,
}

impl Responder {
    fn agents(self) -> impl Iterator<Item = Arc<Agent>> {
        [self.gsi, self.smi].into_iter().flatten()
    }
}

type Key = (usize, u32);

static RESPONDERS: StaticSpinLock<Option<RBTree<Key, Responder>>> = StaticSpinLock::new(None);

fn key(device: &Device, port: u32) -> Key {
    (device.as_raw().addr(), port)
}

fn register(device: &Device, port: u32, kind: QpKind) -> Result<Arc<Agent>> {
    Agent::register(Request {
        device,
        port,
        kind: Some(kind),
        registration: None,
        rmpp_version: 0,
        flags: 0,
        handlers: Handlers::NONE,
        internal: true,
    })
}

/// Registers the agents of an open port. May sleep.
pub(crate) fn open(device: &Device, port: u32) -> Result {
    let caps = device.port_caps(port);
    let smi = caps
        .ib_smi()
        .then(|| register(device, port, QpKind::Smi))
        .transpose()?;
    let gsi = caps
        .ib_cm()
        .then(|| register(device, port, QpKind::Gsi))
        .transpose();
    let responder = match gsi {
        Ok(gsi) => Responder { smi, gsi },
        Err(error) => {
            smi.into_iter().for_each(Agent::unregister);
            return Err(error);
        }
    };
    match RBTreeNodeReservation::new(GFP_KERNEL) {
        Ok(node) => {
            let node: RBTreeNode<Key, Responder> = node.into_node(key(device, port), responder);
            let _ = RESPONDERS
                .lock()
                .get_or_insert_with(RBTree::new)
                .insert(node);
            Ok(())
        }
        Err(error) => {
            responder.agents().for_each(Agent::unregister);
            Err(error)
        }
    }
}

/// Unregisters the agents of a port. May sleep.
pub(crate) fn close(device: &Device, port: u32) -> Result {
    let node = RESPONDERS
        .lock()
        .as_mut()
        .and_then(|responders| responders.remove_node(&key(device, port)));
    let Some(node) = node else {
        dev_err!(device.as_dev(), "Port {} not found\n", port);
        return Err(ENODEV);
    };
    let (_, responder) = node.to_key_value();
    responder.agents().for_each(Agent::unregister);
    Ok(())
}

fn find(device: &Device, port: u32, kind: QpKind) -> Option<Lease> {
    let guard = RESPONDERS.lock();
    let responder = guard.as_ref()?.get(&key(device, port))?;
    let agent = match kind {
        QpKind::Smi => responder.smi.as_ref(),
        QpKind::Gsi => responder.gsi.as_ref(),
    };
    Lease::new(agent?)
}

/// Sends `len` bytes of `mad` to the sender of `request`, out of `port`. May sleep.
#[expect(clippy::too_many_arguments)]
pub(crate) fn respond(
    device: &Device,
    port: u32,
    kind: QpKind,
    mad: &[u8],
    len: usize,
    completion: &WorkCompletion,
    request: &Recv,
    opa: bool,
) {
    let home = if device.is_switch() { 0 } else { port };
    let Some(lease) = find(device, home, kind) else {
        dev_err!(device.as_dev(), "Unable to find port agent\n");
        return;
    };
    let ah = match request.reply_ah(lease.head(), completion, port) {
        Ok(ah) => ah,
        Err(error) => {
            dev_err!(
                device.as_dev(),
                "ib_create_ah_from_wc error {}\n",
                error.to_errno()
            );
            return;
        }
    };
    let base_version = mad.first().copied().unwrap_or(0);
    let len = if opa && base_version != OPA_BASE_VERSION {
        MAD_SIZE
    } else {
        len
    };
    let draft = Draft {
        remote_qpn: completion.raw().src_qp,
        pkey_index: completion.raw().pkey_index,
        rmpp: false,
        header: Header::BYTES,
        data: len.saturating_sub(Header::BYTES),
        base_version,
    };
    let send = match Arc::new(ah, GFP_KERNEL)
        .map_err(Error::from)
        .and_then(|ah| send::create_internal(lease, &draft, ah))
    {
        Ok(send) => send,
        Err(_) => {
            dev_err!(device.as_dev(), "ib_create_send_mad error\n");
            return;
        }
    };
    send.wr().fill(mad.get(..len).unwrap_or(mad));
    if device.is_switch() {
        send.wr().set_port(port);
    }
    if send::post(send).is_err() {
        dev_err!(device.as_dev(), "ib_post_send_mad error\n");
    }
}
