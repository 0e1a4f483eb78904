// SPDX-License-Identifier: GPL-2.0

//! Declarations of the RDMA headers, next to those of the kernel's bindings.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
#![cfg_attr(not(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES), allow(unknown_lints))]
#![allow(unnecessary_transmutes)]

mod raw {
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    // What is generated below takes precedence over the glob imports.
    pub use super::helpers::*;
    pub use kernel::bindings::*;
    include!(concat!(
        env!("RDMA_GENERATED"),
        "/rdma_bindings_generated.rs"
    ));
}

mod helpers {
    use super::raw::*;
    use kernel::ffi;
    include!(concat!(
        env!("RDMA_GENERATED"),
        "/rdma_helpers_generated.rs"
    ));
}

pub use raw::*;
