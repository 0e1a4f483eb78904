// SPDX-License-Identifier: GPL-2.0

//! What the driver's library in user space sends and expects.

use super::{Driver, Ucontext};
use crate::uverbs::BundleHeader;
use core::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};
use kernel::{bindings, prelude::*};
use zerocopy::Immutable;

/// The driver's part of a command of user space; nothing, when a kernel consumer calls.
#[derive(Clone, Copy)]
pub struct Udata<'a> {
    raw: Option<NonNull<bindings::ib_udata>>,
    _command: PhantomData<&'a bindings::ib_udata>,
}

impl<'a> Udata<'a> {
    /// # Safety
    ///
    /// `raw` must be null, or the `driver_udata` of the command that the current thread executes
    /// for the whole of `'a`.
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Self {
        Self {
            raw: NonNull::new(raw),
            _command: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `bundle` must be null, or the bundle of the command that the current thread executes for
    /// the whole of `'a`.
    pub(super) unsafe fn from_bundle(bundle: *mut bindings::uverbs_attr_bundle) -> Self {
        // The driver's part is the first member, so null stays null.
        // SAFETY: By the contract of this function.
        unsafe { Self::from_raw(bundle.cast()) }
    }

    /// Whether user space calls.
    pub fn is_user(self) -> bool {
        self.raw.is_some()
    }

    fn get(self) -> Option<bindings::ib_udata> {
        // SAFETY: Valid by the contract of `from_raw`; written before the driver runs only.
        self.raw.map(|raw| unsafe { raw.as_ptr().read() })
    }

    /// Bytes that user space sends.
    pub fn input_len(self) -> usize {
        self.get().map_or(0, |udata| udata.inlen)
    }

    /// Bytes that user space has room for.
    pub fn output_len(self) -> usize {
        self.get().map_or(0, |udata| udata.outlen)
    }

    /// Reads a request; bytes that user space sends beyond it are ignored. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if user space sends less, or a kernel consumer calls; `EFAULT`.
    pub fn read<T: FromBytes>(self) -> Result<T> {
        let udata = self.get().ok_or(EINVAL)?;
        if udata.inlen < size_of::<T>() {
            return Err(EINVAL);
        }
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: `value` is writable for its size; the user's side is checked by the call.
        let left = unsafe {
            bindings::copy_from_user(value.as_mut_ptr().cast(), udata.inbuf, size_of::<T>())
        };
        if left != 0 {
            return Err(EFAULT);
        }
        // SAFETY: All bytes were written, and any bytes are a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// Makes sure that user space sends nothing, and clears what it has room for. For commands in
    /// which the driver and its library say nothing to each other. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if user space sends bytes that are not zero; `EFAULT`.
    pub fn expect_nothing(self) -> Result {
        const STEP: usize = 64;
        let Some(udata) = self.get() else {
            return Ok(());
        };
        let mut at = 0;
        while at < udata.inlen {
            let mut bytes = [0u8; STEP];
            let len = (udata.inlen - at).min(STEP);
            let from = udata.inbuf.wrapping_byte_add(at);
            // SAFETY: `len` bytes are writable; the user's side is checked by the call.
            if unsafe { bindings::copy_from_user(bytes.as_mut_ptr().cast(), from, len) } != 0 {
                return Err(EFAULT);
            }
            if bytes.iter().any(|byte| *byte != 0) {
                return Err(EOPNOTSUPP);
            }
            at += len;
        }
        let mut at = 0;
        while at < udata.outlen {
            let bytes = [0u8; STEP];
            let len = (udata.outlen - at).min(STEP);
            let to = udata.outbuf.wrapping_byte_add(at);
            // SAFETY: `len` bytes are readable; the user's side is checked by the call.
            if unsafe { bindings::copy_to_user(to, bytes.as_ptr().cast(), len) } != 0 {
                return Err(EFAULT);
            }
            at += len;
        }
        Ok(())
    }

    /// Writes an answer. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if user space has no room for all of it, or a kernel consumer calls; `EFAULT`.
    pub fn respond<T: IntoBytes + Immutable>(self, answer: &T) -> Result {
        if self.output_len() < size_of::<T>() {
            return Err(EINVAL);
        }
        self.respond_as_room(answer)
    }

    /// Writes as much of an answer as user space has room for, as older libraries know less of
    /// it. May sleep. `EINVAL` if a kernel consumer calls; `EFAULT`.
    pub fn respond_as_room<T: IntoBytes + Immutable>(self, answer: &T) -> Result {
        let udata = self.get().ok_or(EINVAL)?;
        let bytes = answer.as_bytes();
        let len = bytes.len().min(udata.outlen);
        // SAFETY: `len` bytes of the answer are readable; the user's side is checked by the call.
        if unsafe { bindings::copy_to_user(udata.outbuf, bytes.as_ptr().cast(), len) } != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// The context of the process that calls.
    pub fn context<D: Driver>(self) -> Option<&'a Ucontext<D>> {
        let header: *mut BundleHeader = self.raw?.as_ptr().cast();
        // SAFETY: The driver's part is the first member of the bundle of the running command,
        // whose context, if any, is one of the driver that is asked.
        unsafe {
            let context = (*header).context;
            (!context.is_null()).then(|| Ucontext::from_raw(context))
        }
    }
}
