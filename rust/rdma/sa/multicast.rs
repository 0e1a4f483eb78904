// SPDX-License-Identifier: GPL-2.0

//! Memberships as C code sees them, and queries about members.

use super::{
    errno,
    status_of,
    Client,
    Components,
    Member, //
};
use crate::{
    device::Device,
    gfp::Gfp, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// The type of a handler that is told what becomes of a membership; other values than 0 end it.
pub type RawHandler =
    unsafe extern "C" fn(status: c_int, multicast: *mut bindings::ib_sa_multicast) -> c_int;

/// What a user of a membership holds, `struct ib_sa_multicast`.
///
/// # Invariants
///
/// The handler may be called as long as the user has not given the membership up.
#[repr(transparent)]
pub struct Ticket(Opaque<bindings::ib_sa_multicast>);

// SAFETY: Only one thread at a time writes the record, and calls the handler.
unsafe impl Send for Ticket {}
// SAFETY: As above.
unsafe impl Sync for Ticket {}

impl Ticket {
    /// Makes a ticket.
    ///
    /// # Safety
    ///
    /// The handler may be called with the ticket, one call after the other, until its user gives
    /// it up.
    pub unsafe fn new(
        record: &Member,
        components: Components,
        handler: RawHandler,
        context: *mut c_void,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self(Opaque::new(bindings::ib_sa_multicast {
            rec: *record.raw(),
            comp_mask: components.as_raw(),
            callback: Some(handler),
            context,
        }))
    }

    /// What the user holds.
    pub fn as_raw(&self) -> *mut bindings::ib_sa_multicast {
        self.0.get()
    }

    /// Writes the record of the group, before the user is told. Not while the handler runs.
    pub fn set_record(&self, record: &Member) {
        // SAFETY: The user reads it when it is told, which is later, from the same thread.
        unsafe { (*self.as_raw()).rec = *record.raw() };
    }

    /// Tells the user; says whether it gives the membership up thereby. May sleep.
    pub fn tell(&self, status: Result) -> bool {
        // SAFETY: Constant; by the type invariant.
        unsafe {
            (*self.as_raw())
                .callback
                .is_some_and(|handler| handler(errno(status), self.as_raw()) != 0)
        }
    }
}

/// Who asks about members.
pub trait MemberAsker: Send + Sync + 'static {
    /// The administration has answered, or not. May sleep. Not called from [`ask`].
    fn answered(this: Arc<Self>, answer: Result<&Member>);
}

/// Sets or deletes a record of a member.
///
/// Errors: those of `ib_sa_mcmember_rec_query`; `asker` is not told then.
#[expect(clippy::too_many_arguments)]
pub fn ask<A: MemberAsker>(
    client: &Client,
    device: &Device,
    port: u32,
    method: u8,
    record: &Member,
    components: Components,
    timeout_ms: usize,
    asker: Arc<A>,
) -> Result {
    let mut record = *record.raw();
    let mut query = core::ptr::null_mut();
    let context = Arc::into_raw(asker);
    // SAFETY: Client and device are valid, the record is copied, and the handler takes the count
    // that the context is.
    let ret = unsafe {
        bindings::ib_sa_mcmember_rec_query(
            client.0.get(),
            device.as_raw(),
            port,
            method,
            &mut record,
            components.as_raw(),
            timeout_ms,
            Gfp::KERNEL.as_raw(),
            Some(answered::<A>),
            context.cast_mut().cast(),
            &mut query,
        )
    };
    if ret < 0 {
        // SAFETY: The handler is not called, so the count is still ours.
        drop(unsafe { Arc::from_raw(context) });
        to_result(ret)?;
    }
    Ok(())
}

/// # Safety
///
/// Called once for the count of an `A` that `context` is, with a record that is valid if `status`
/// is 0.
unsafe extern "C" fn answered<A: MemberAsker>(
    status: c_int,
    record: *mut bindings::ib_sa_mcmember_rec,
    context: *mut c_void,
) {
    // SAFETY: By the contract of this function.
    let asker = unsafe { Arc::from_raw(context.cast::<A>().cast_const()) };
    match status_of(status) {
        Ok(()) if !record.is_null() => {
            // SAFETY: By the contract of this function.
            let record = unsafe { Member::read(record) };
            A::answered(asker, Ok(&record));
        }
        Ok(()) => A::answered(asker, Err(EIO)),
        Err(error) => A::answered(asker, Err(error)),
    }
}
