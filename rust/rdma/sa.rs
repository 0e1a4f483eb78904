// SPDX-License-Identifier: GPL-2.0

//! Subnet administration: its records, whom queries belong to and who is told of the answers.
//!
//! IBTA volume 1, chapter 15.
//!
//! C header: [`include/rdma/ib_sa.h`](srctree/include/rdma/ib_sa.h)

pub mod multicast;
mod opa;
pub mod path;
pub mod record;
pub mod table;
pub mod wire;

use crate::completion::Completion;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

pub use self::{
    path::PathRecord,
    record::{
        ClassPortInfo,
        GuidInfo,
        Member,
        OpaClassPortInfo,
        Service, //
    },
};

/// Whom queries and memberships belong to, `struct ib_sa_client`.
///
/// # Invariants
///
/// The counter and the completion are initialised.
#[repr(transparent)]
pub struct Client(Opaque<bindings::ib_sa_client>);

// SAFETY: The counter is atomic, the completion made for several threads.
unsafe impl Send for Client {}
// SAFETY: As above.
unsafe impl Sync for Client {}

impl Client {
    /// Makes the client usable.
    ///
    /// # Safety
    ///
    /// `raw` is valid for writes, and stays valid until [`finish`](Self::finish) has returned.
    pub unsafe fn begin<'a>(raw: *mut bindings::ib_sa_client) -> &'a Self {
        // SAFETY: By the contract of this function.
        unsafe {
            bindings::atomic_set(&raw mut (*raw).users, 1);
            bindings::init_completion(&raw mut (*raw).comp);
            Self::from_raw(raw)
        }
    }

    /// Views a client of C code.
    ///
    /// # Safety
    ///
    /// `raw` is a client that is usable and stays so until [`finish`](Self::finish) has returned.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::ib_sa_client) -> &'a Self {
        // INVARIANT: By the contract of this function.
        // SAFETY: As above; the type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Takes a use of the client.
    pub fn take(&self) -> ClientUse {
        // SAFETY: Usable by the type invariant.
        unsafe { bindings::ib_sa_client_get(self.0.get()) };
        // INVARIANT: Just taken.
        ClientUse(self.0.get())
    }

    /// Waits until all uses are gone. Sleeps.
    pub fn finish(&self) {
        // SAFETY: Usable by the type invariant; gives the count of `begin` back.
        unsafe {
            bindings::ib_sa_client_put(self.0.get());
            Completion::from_raw(&raw mut (*self.0.get()).comp)
        }
        .wait();
    }
}

/// A client of the core's own.
#[pin_data]
pub struct OwnClient {
    #[pin]
    raw: Opaque<bindings::ib_sa_client>,
}

// SAFETY: See `Client`.
unsafe impl Send for OwnClient {}
// SAFETY: As above.
unsafe impl Sync for OwnClient {}

impl OwnClient {
    /// Makes a client.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot: *mut bindings::ib_sa_client| {
                // SAFETY: The memory is valid for writes. The client is in a static, or its owner
                // calls `finish`.
                unsafe { Client::begin(slot) };
            }),
        })
    }
}

impl core::ops::Deref for OwnClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        // SAFETY: Made usable by `new`.
        unsafe { Client::from_raw(self.raw.get()) }
    }
}

/// A use of a [`Client`], which does not go before it.
///
/// # Invariants
///
/// One count of the client belongs to this object.
pub struct ClientUse(*mut bindings::ib_sa_client);

// SAFETY: The counter is atomic.
unsafe impl Send for ClientUse {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl Sync for ClientUse {}

impl Drop for ClientUse {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_sa_client_put(self.0) };
    }
}

/// Which components of a record count, `ib_sa_comp_mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Components(u64);

impl Components {
    /// None.
    pub const NONE: Self = Self(0);

    /// The components with these numbers.
    pub const fn of<const N: usize>(numbers: [u8; N]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < N {
            bits |= 1 << numbers[i];
            i += 1;
        }
        Self(bits)
    }

    /// From the form in which C code keeps it.
    pub const fn from_raw(raw: bindings::ib_sa_comp_mask) -> Self {
        Self(u64::from_be(raw))
    }

    /// The form in which C code keeps it.
    pub const fn as_raw(self) -> bindings::ib_sa_comp_mask {
        self.0.to_be()
    }

    /// Whether any of `wanted` is set.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }
}

/// A handler of C code that is told of several records of a kind.
pub struct ListHandler<R> {
    call: unsafe extern "C" fn(c_int, *mut c_void, c_uint, *mut c_void),
    context: *mut c_void,
    _record: PhantomData<fn(R)>,
}

// SAFETY: The handler may be called by any thread; the context is its own business.
unsafe impl<R> Send for ListHandler<R> {}

impl<R: table::Record> ListHandler<R> {
    /// Takes a handler.
    ///
    /// # Safety
    ///
    /// `call` takes a status, an array of the C records of `R` or null, their number, and
    /// `context`; it may be called once.
    pub unsafe fn new(
        call: unsafe extern "C" fn(c_int, *mut R::Raw, c_uint, *mut c_void),
        context: *mut c_void,
    ) -> Self {
        Self {
            // SAFETY: The types differ in what a pointer points to only.
            call: unsafe {
                core::mem::transmute::<
                    unsafe extern "C" fn(c_int, *mut R::Raw, c_uint, *mut c_void),
                    unsafe extern "C" fn(c_int, *mut c_void, c_uint, *mut c_void),
                >(call)
            },
            context,
            _record: PhantomData,
        }
    }

    /// Tells the outcome. May sleep.
    pub fn tell(self, status: Result, records: &mut [R]) {
        let (ptr, len) = if records.is_empty() {
            (core::ptr::null_mut(), 0)
        } else {
            (
                records.as_mut_ptr().cast::<c_void>(),
                records.len().try_into().unwrap_or(0),
            )
        };
        // SAFETY: By the contract of `new`; records are transparent over their C type.
        unsafe { (self.call)(errno(status), ptr, len, self.context) }
    }
}

/// A handler of C code that is told of one record.
pub struct RecordHandler<R> {
    call: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void),
    context: *mut c_void,
    _record: PhantomData<fn(R)>,
}

// SAFETY: The handler may be called by any thread; the context is its own business.
unsafe impl<R> Send for RecordHandler<R> {}

impl<R: table::Record> RecordHandler<R> {
    /// Takes a handler.
    ///
    /// # Safety
    ///
    /// `call` takes a status, the C record of `R` or null, and `context`; it may be called once.
    pub unsafe fn new(
        call: unsafe extern "C" fn(c_int, *mut R::Raw, *mut c_void),
        context: *mut c_void,
    ) -> Self {
        Self {
            // SAFETY: The types differ in what a pointer points to only.
            call: unsafe {
                core::mem::transmute::<
                    unsafe extern "C" fn(c_int, *mut R::Raw, *mut c_void),
                    unsafe extern "C" fn(c_int, *mut c_void, *mut c_void),
                >(call)
            },
            context,
            _record: PhantomData,
        }
    }

    /// Tells the outcome. May sleep.
    pub fn tell(self, status: Result, record: Option<&mut R>) {
        let ptr = record.map_or(core::ptr::null_mut(), |record| {
            core::ptr::from_mut(record).cast::<c_void>()
        });
        // SAFETY: By the contract of `new`; records are transparent over their C type.
        unsafe { (self.call)(errno(status), ptr, self.context) }
    }
}

fn errno(status: Result) -> c_int {
    status.map_or_else(|error| error.to_errno(), |()| 0)
}

/// What a C handler's status says.
fn status_of(status: c_int) -> Result {
    to_result(status)
}
