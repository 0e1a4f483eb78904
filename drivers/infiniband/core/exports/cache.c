// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>

#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "core_priv.h"

/* Its address is what modules link to. */
union ib_gid zgid;
EXPORT_SYMBOL(zgid);

EXPORT_SYMBOL(ib_cache_gid_parse_type_str);
EXPORT_SYMBOL(ib_cache_gid_type_str);
EXPORT_SYMBOL(ib_dispatch_event);
EXPORT_SYMBOL(ib_find_cached_pkey);
EXPORT_SYMBOL(ib_get_cached_lmc);
EXPORT_SYMBOL(ib_get_cached_pkey);
EXPORT_SYMBOL(ib_get_cached_port_state);
EXPORT_SYMBOL(ib_get_cached_subnet_prefix);
EXPORT_SYMBOL(rdma_find_gid);
EXPORT_SYMBOL(rdma_find_gid_by_port);
EXPORT_SYMBOL(rdma_get_gid_attr);
EXPORT_SYMBOL(rdma_hold_gid_attr);
EXPORT_SYMBOL(rdma_is_zero_gid);
EXPORT_SYMBOL(rdma_put_gid_attr);
EXPORT_SYMBOL(rdma_query_gid);
EXPORT_SYMBOL(rdma_query_gid_table);
EXPORT_SYMBOL(rdma_read_gid_attr_ndev_rcu);
EXPORT_SYMBOL(rdma_read_gid_hw_context);
EXPORT_SYMBOL(rdma_read_gid_l2_fields);
