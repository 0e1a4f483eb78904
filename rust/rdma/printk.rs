// SPDX-License-Identifier: GPL-2.0

//! Log lines without the module's name in front, whose format administrators know.

use kernel::{bindings, fmt, prelude::*};

/// Logs a warning exactly as formatted; the line break is part of the text.
pub fn warn_plain(args: fmt::Arguments<'_>) {
    plain(c"\x014%pA", args);
}

/// Logs an error exactly as formatted; the line break is part of the text.
pub fn err_plain(args: fmt::Arguments<'_>) {
    plain(c"\x013%pA", args);
}

fn plain(format: &CStr, args: fmt::Arguments<'_>) {
    // SAFETY: The format takes one pointer to formatting arguments, which live during the call.
    unsafe {
        bindings::_printk(
            format.as_char_ptr(),
            core::ptr::from_ref(&args).cast::<core::ffi::c_void>(),
        );
    }
}
