// SPDX-License-Identifier: GPL-2.0

//! Settings of the subsystem.

use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
};
use rdma::{
    netlink::{
        Attrs,
        Handler,
        Request, //
    },
    nldev::control, //
};

use super::{
    policy::{
        COPY_ON_FORK,
        MONITOR_MODE,
        NETNS_MODE,
        PRIVILEGED_QKEY_MODE, //
    },
    CLIENT, SYS_GET,
};

static PRIVILEGED_QKEY: Atomic<bool> = Atomic::new(false);

/// Whether processes without rights may use the queue keys that are reserved for the privileged.
pub(crate) fn privileged_qkey() -> bool {
    PRIVILEGED_QKEY.load(Relaxed)
}

/// `SYS_GET`.
pub(super) struct Get;

impl Handler for Get {
    fn invalid(error: Error) -> Error {
        error
    }

    fn handle<'a>(request: &mut Request<'a>, _attrs: &Attrs<'a>) -> Result {
        request.reply(CLIENT, SYS_GET, |out| {
            out.put(NETNS_MODE, control::netns_shared().into())?;
            out.put(PRIVILEGED_QKEY_MODE, privileged_qkey().into())?;
            // Notifications are sent.
            out.put(MONITOR_MODE, 1)?;
            // Pages pinned by the parent are copied when a process forks.
            out.put(COPY_ON_FORK, 1)
        })
    }
}

/// `SYS_SET`: the first of namespace mode and queue key mode that the request has.
pub(super) struct Set;

/// A switch: 0 or 1, nothing else.
fn switch(value: u8) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}

impl Handler for Set {
    fn handle<'a>(_request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        if let Some(shared) = attrs.get(NETNS_MODE) {
            return control::set_netns_shared(switch(shared)?);
        }
        PRIVILEGED_QKEY.store(switch(attrs.require(PRIVILEGED_QKEY_MODE)?)?, Relaxed);
        Ok(())
    }
}
