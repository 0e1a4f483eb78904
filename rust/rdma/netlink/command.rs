// SPDX-License-Identifier: GPL-2.0

//! Command tables.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*, //
};

use super::{
    attr::{
        Attrs,
        Strictness, //
    },
    request::{
        Dump,
        Progress,
        Request, //
    },
};

/// A netlink client: its number and how its attributes are validated.
pub trait Family {
    /// The client's number, `CLIENT_*`.
    const CLIENT: u32;

    /// Validates the attributes of a request against the family's policy.
    fn attrs<'a>(request: &mut Request<'a>, strictness: Strictness) -> Result<Attrs<'a>>;
}

/// What answers a request.
pub trait Handler {
    /// The error for attributes that the policy refused with `error`.
    fn invalid(_error: Error) -> Error {
        EINVAL
    }

    /// Does what the request asks for. May sleep.
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result;
}

/// What answers a request for a table.
pub trait DumpHandler {
    /// Fills one buffer. May sleep.
    fn dump(dump: &mut Dump<'_>) -> Result<Progress>;
}

/// The commands of the family `F`, whose operations are less than `N`.
///
/// Two kinds of command exist. One that only looks ([`Table::get`], [`Table::dump`],
/// [`Table::admin_get_and_dump`]) tolerates attributes that this kernel does not know. One that
/// changes something ([`Table::set`]) does not, and always needs `CAP_NET_ADMIN`.
#[repr(transparent)]
pub struct Table<F, const N: usize> {
    commands: [bindings::rdma_nl_cbs; N],
    family: PhantomData<fn() -> F>,
}

impl<F: Family, const N: usize> Default for Table<F, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Family, const N: usize> Table<F, N> {
    /// A table without commands.
    pub const fn new() -> Self {
        const NONE: bindings::rdma_nl_cbs = bindings::rdma_nl_cbs {
            doit: None,
            dump: None,
            flags: 0,
        };
        Self {
            commands: [NONE; N],
            family: PhantomData,
        }
    }

    /// Anyone may ask `op`.
    pub const fn get<H: Handler>(mut self, op: u32) -> Self {
        self.commands[op as usize].doit = Some(doit::<F, H, false>);
        self
    }

    /// Anyone may dump `op`.
    pub const fn dump<H: DumpHandler>(mut self, op: u32) -> Self {
        self.commands[op as usize].dump = Some(dump::<H>);
        self
    }

    /// Anyone may ask and dump `op`.
    pub const fn get_and_dump<H: Handler + DumpHandler>(self, op: u32) -> Self {
        self.get::<H>(op).dump::<H>(op)
    }

    /// An administrator may ask and dump `op`.
    pub const fn admin_get_and_dump<H: Handler + DumpHandler>(self, op: u32) -> Self {
        self.get_and_dump::<H>(op).admin(op)
    }

    /// An administrator may have `op` done.
    pub const fn set<H: Handler>(mut self, op: u32) -> Self {
        self.commands[op as usize].doit = Some(doit::<F, H, true>);
        self.admin(op)
    }

    const fn admin(mut self, op: u32) -> Self {
        self.commands[op as usize].flags = bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8;
        self
    }

    /// Opens the commands to user space.
    #[inline]
    pub fn register(&'static self) {
        // SAFETY: The table is static.
        unsafe { bindings::rdma_nl_register(F::CLIENT, self.commands.as_ptr()) };
    }

    /// Closes the commands to user space, after waiting for those that run.
    #[inline]
    pub fn unregister(&'static self) {
        // SAFETY: No requirements.
        unsafe { bindings::rdma_nl_unregister(F::CLIENT) };
    }
}

/// The `doit` callback of a command.
///
/// # Safety
///
/// Called by the netlink core with a message that is being received.
unsafe extern "C" fn doit<F: Family, H: Handler, const STRICT: bool>(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    let (Some(skb), Some(nlh)) = (NonNull::new(skb), NonNull::new(nlh)) else {
        return EINVAL.to_errno();
    };
    let strictness = if STRICT {
        Strictness::Strict
    } else {
        Strictness::Tolerant
    };
    // SAFETY: Promised by the caller; the request does not outlive the call.
    let mut request = unsafe { Request::from_raw(skb, nlh, extack) };
    let result = F::attrs(&mut request, strictness)
        .map_err(H::invalid)
        .and_then(|attrs| H::handle(&mut request, &attrs));
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The `dump` callback of a command.
///
/// # Safety
///
/// Called by netlink with the buffer to fill and the dump's state.
unsafe extern "C" fn dump<H: DumpHandler>(
    skb: *mut bindings::sk_buff,
    cb: *mut bindings::netlink_callback,
) -> c_int {
    let (Some(skb), Some(cb)) = (NonNull::new(skb), NonNull::new(cb)) else {
        return EINVAL.to_errno();
    };
    // SAFETY: Promised by the caller; the dump does not outlive the call.
    let mut dump = unsafe { Dump::from_raw(skb, cb) };
    match H::dump(&mut dump) {
        Ok(progress) => dump.result(progress),
        Err(error) => error.to_errno(),
    }
}
