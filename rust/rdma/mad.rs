// SPDX-License-Identifier: GPL-2.0

//! Management datagrams.
//!
//! C headers: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h),
//! [`include/rdma/ib_smi.h`](srctree/include/rdma/ib_smi.h)

pub mod smp;
