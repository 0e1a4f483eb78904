// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/frmr_pools.h>

EXPORT_SYMBOL(ib_frmr_pool_drop);
EXPORT_SYMBOL(ib_frmr_pool_pop);
EXPORT_SYMBOL(ib_frmr_pool_push);
EXPORT_SYMBOL(ib_frmr_pools_cleanup);
EXPORT_SYMBOL(ib_frmr_pools_init);
