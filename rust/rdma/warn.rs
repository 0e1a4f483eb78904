// SPDX-License-Identifier: GPL-2.0

//! Warnings with a stack trace that appear once per boot and place.

/// If the condition holds, warns the first time; tells whether it holds.
#[macro_export]
macro_rules! warn_on_once {
    ($cond:expr $(,)?) => {{
        let cond = $cond;
        if cond {
            ::kernel::do_once_lite! {
                ::kernel::warn_on!(true);
            }
        }
        cond
    }};
}

/// Warns the first time, with a formatted line above the trace.
#[macro_export]
macro_rules! warn_once {
    ($($arg:tt)+) => {
        ::kernel::do_once_lite! {
            $crate::printk::warn_plain(::kernel::prelude::fmt!($($arg)+));
            ::kernel::warn_on!(true);
        }
    };
}
