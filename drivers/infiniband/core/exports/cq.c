// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_verbs.h>

EXPORT_SYMBOL(__ib_alloc_cq);
EXPORT_SYMBOL(__ib_alloc_cq_any);
EXPORT_SYMBOL(ib_cq_pool_get);
EXPORT_SYMBOL(ib_cq_pool_put);
EXPORT_SYMBOL(ib_free_cq);
EXPORT_SYMBOL(ib_process_cq_direct);
