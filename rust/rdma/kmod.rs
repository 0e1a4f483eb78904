// SPDX-License-Identifier: GPL-2.0

//! Loading modules on demand, and leaving them.
//!
//! C header: [`include/linux/kmod.h`](srctree/include/linux/kmod.h)

use kernel::{
    bindings,
    error::to_result,
    fmt,
    prelude::*,
    str::CString, //
};

/// Has user space load the module with the alias `name`, and waits until that is done.
///
/// Sleeps for long. No lock may be held that the module takes while it loads.
pub fn request(name: fmt::Arguments<'_>) -> Result {
    let name = CString::try_from_fmt(name)?;
    // SAFETY: The format takes one string, which is valid during the call. A positive result is
    // the exit status of the loader, which does not matter: who asked looks for the result.
    to_result(unsafe {
        bindings::__request_module(true, c"%s".as_char_ptr(), name.as_char_ptr())
        //
    })
}

/// Waits until every thread has given up its CPU by its own will, slept or returned to user space.
/// May sleep, for long.
///
/// A callback that never sleeps and was preempted after its last sign of life is out of its module
/// afterwards. No lock of any kind can bear witness to that, as what lets go of the lock lies in
/// the module itself.
pub fn synchronize_tasks() {
    // SAFETY: Called from process context; takes nothing.
    unsafe { bindings::rdma_synchronize_rcu_tasks() }
}
