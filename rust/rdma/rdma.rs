// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers shared by the core and the providers.

extern crate kernel_facade as kernel;

