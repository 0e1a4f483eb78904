// SPDX-License-Identifier: GPL-2.0

//! Soft RoCE: the RDMA transports of InfiniBand over UDP, on any Ethernet interface.

extern crate kernel_facade as kernel;

mod abi;
mod ah;
mod av;
mod counters;
mod cq;
mod device;
mod flight;
mod ids;
mod link;
mod mad;
mod mcast;
mod mem;
mod mmap;
mod module;
mod mr;
mod mw;
mod params;
mod pd;
mod pools;
mod port;
mod proto;
mod qp;
mod rx;
mod sge;
mod sockets;
mod srq;
mod tx;
mod wire;
mod wq;
mod wqe;
mod xrcd;

kernel::prelude::module! {
    type: module::RxeModule,
    name: "rdma_rxe",
    authors: ["Bob Pearson, Frank Zago, John Groves, Kamal Heib"],
    description: "Soft RDMA transport",
    license: "Dual BSD/GPL",
    alias: ["rdma-link-rxe"],
    imports_ns: ["DMA_BUF"],
}
