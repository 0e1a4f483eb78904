// SPDX-License-Identifier: GPL-2.0

//! Verbs for the C side; prototypes in `rdma/ib_verbs.h` and `core_priv.h`.

mod ah;
mod info;
mod memory;
mod qp;
mod queue;

use kernel::{error::from_result, prelude::*};
use rdma::object::{DriverObject, Object, Owner};

/// Zero or the negative error number.
fn errno(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// A count or the negative error number.
fn count_or_errno(result: Result<u32>) -> c_int {
    from_result(|| Ok(c_int::try_from(result?)?))
}

/// A new object or an error pointer.
fn object_or_err<T: DriverObject>(result: Result<Object<T>>) -> *mut T::Raw {
    result.map_or_else(|e| e.to_ptr(), Object::into_raw)
}

/// The owner that a kernel consumer names; the current task without a name.
///
/// # Safety
///
/// `name` must be null or the name of a module, a constant of its image.
unsafe fn module_owner(name: *const c_char) -> Owner<'static> {
    if name.is_null() {
        return Owner::CurrentTask;
    }
    // SAFETY: By the contract of this function.
    Owner::Module(unsafe { CStr::from_char_ptr(name) })
}
