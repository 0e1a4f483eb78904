// SPDX-License-Identifier: GPL-2.0
/*
 * The functions behind <rdma/ib_verbs_classic.h>. None of these names is one of
 * the distribution's module, and scripts/check-exports holds them to this list.
 */

#include <linux/export.h>
#include <rdma/ib_classic.h>

EXPORT_SYMBOL_GPL(ib_classic_ah_attr_to_rdma);
EXPORT_SYMBOL_GPL(ib_classic_alloc_mw);
EXPORT_SYMBOL_GPL(ib_classic_bind_mw);
EXPORT_SYMBOL_GPL(ib_classic_create_ah);
EXPORT_SYMBOL_GPL(ib_classic_dealloc_mw);
EXPORT_SYMBOL_GPL(ib_classic_dma_alloc_coherent);
EXPORT_SYMBOL_GPL(ib_classic_dma_free_coherent);
EXPORT_SYMBOL_GPL(ib_classic_find_gid);
EXPORT_SYMBOL_GPL(ib_classic_get_dma_mr);
EXPORT_SYMBOL_GPL(ib_classic_init_ah_from_wc);
EXPORT_SYMBOL_GPL(ib_classic_modify_ah);
EXPORT_SYMBOL_GPL(ib_classic_peek_cq);
EXPORT_SYMBOL_GPL(ib_classic_query_ah);
EXPORT_SYMBOL_GPL(ib_classic_query_mr);
EXPORT_SYMBOL_GPL(ib_classic_reg_phys_mr);
EXPORT_SYMBOL_GPL(ib_classic_rereg_phys_mr);
EXPORT_SYMBOL_GPL(ib_classic_resize_cq);
