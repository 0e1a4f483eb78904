// SPDX-License-Identifier: GPL-2.0

//! Log lines without the module's name in front, whose format administrators know.

use kernel::{bindings, fmt};

/// Logs a warning exactly as formatted; the line break is part of the text.
pub fn warn_plain(args: fmt::Arguments<'_>) {
    // SAFETY: The format takes one pointer to formatting arguments, which live during the call.
    unsafe {
        bindings::_printk(
            c"\x014%pA".as_ptr().cast(),
            core::ptr::from_ref(&args).cast::<core::ffi::c_void>(),
        );
    }
}
