// SPDX-License-Identifier: GPL-2.0

//! A fake RDMA device for tests: scriptable, recording, connected to its like.
//!
//! C header: `include/rdma/ib_fake.h`, where every function is described.

extern crate kernel_facade as kernel;

mod control;
mod cq;
mod device;
mod engine;
mod fabric;
mod ffi;
mod mad;
mod memory;
mod module;
mod objects;
mod ops;
mod qp;
mod ring;
mod script;
mod srq;
mod transfer;

kernel::prelude::module! {
    type: module::FakeModule,
    name: "ib_fake",
    authors: ["The ib-core-rust authors"],
    description: "Fake RDMA devices for tests",
    license: "GPL",
    alias: ["rdma-link-fake"],
    imports_ns: ["DMA_BUF"],
    params: {
        devices: u32 {
            default: 0,
            description: "Number of devices to make at once",
        },
        protocol: u32 {
            default: 0,
            description: "What devices speak: 0 InfiniBand (links: RoCE), 1 RoCE, 2 iWARP (links only)",
        },
    },
}
