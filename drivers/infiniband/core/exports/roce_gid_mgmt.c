// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>

#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "core_priv.h"

EXPORT_SYMBOL(rdma_roce_rescan_device);
EXPORT_SYMBOL(rdma_roce_rescan_port);
EXPORT_SYMBOL(roce_del_all_netdev_gids);
EXPORT_SYMBOL(roce_gid_type_mask_support);
