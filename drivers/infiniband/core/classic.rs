// SPDX-License-Identifier: GPL-2.0

//! The classic calls: those of older kernels that today's drivers can still serve.
//!
//! | module | calls |
//! |---|---|
//! | [`address`] | `ib_find_gid`, `ib_create_ah` and its sisters, `ib_init_ah_from_wc` |
//! | [`region`], [`notes`], [`layout`] | `ib_get_dma_mr`, `ib_reg_phys_mr`, `ib_rereg_phys_mr`, `ib_query_mr` |
//! | [`window`] | `ib_alloc_mw`, `ib_bind_mw`, `ib_dealloc_mw` |
//! | [`queue`] | `ib_resize_cq`, `ib_peek_cq` |
//!
//! The calls that need no more than a few lines are in `include/rdma/ib_verbs_classic.h`. What is
//! built here keeps the same books as the rest of the core, use counts and tracker entries, and
//! ends through the same functions.

pub(crate) mod address;
pub(crate) mod layout;
pub(crate) mod notes;
pub(crate) mod queue;
pub(crate) mod region;
pub(crate) mod window;
