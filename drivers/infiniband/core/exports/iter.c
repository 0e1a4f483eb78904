// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/iter.h>

EXPORT_SYMBOL(__rdma_block_iter_next);
EXPORT_SYMBOL(__rdma_block_iter_start);
