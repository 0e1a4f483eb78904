// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/mr_pool.h>

EXPORT_SYMBOL(ib_mr_pool_get);
EXPORT_SYMBOL(ib_mr_pool_put);
EXPORT_SYMBOL(ib_mr_pool_init);
EXPORT_SYMBOL(ib_mr_pool_destroy);
