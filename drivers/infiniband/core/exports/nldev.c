// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <linux/module.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "core_priv.h"

EXPORT_SYMBOL(rdma_link_register);
EXPORT_SYMBOL(rdma_link_unregister);
EXPORT_SYMBOL(rdma_nl_get_privileged_qkey);
EXPORT_SYMBOL(rdma_nl_put_driver_string);
EXPORT_SYMBOL(rdma_nl_put_driver_u32);
EXPORT_SYMBOL(rdma_nl_put_driver_u32_hex);
EXPORT_SYMBOL(rdma_nl_put_driver_u64);
EXPORT_SYMBOL(rdma_nl_put_driver_u64_hex);
EXPORT_SYMBOL(rdma_nl_stat_hwcounter_entry);

MODULE_ALIAS_RDMA_NETLINK(RDMA_NL_NLDEV, 5);
