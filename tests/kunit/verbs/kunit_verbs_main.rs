// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of the verbs core, on fake devices.

extern crate kernel_facade as kernel;

mod client;
mod cq;
mod events;
mod gids;
mod life;
mod loopback;
mod mads;
mod qp_table;
mod util;

kernel::prelude::module! {
    type: Suites,
    name: "kunit_verbs",
    authors: ["The ib-core-rust authors"],
    description: "KUnit suites of the verbs core",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static kernel::ThisModule) -> kernel::error::Result<Self> {
        Ok(Self)
    }
}
