// SPDX-License-Identifier: GPL-2.0
#include <linux/export.h>

#include <rdma/restrack.h>

#include "restrack.h"

EXPORT_SYMBOL(rdma_restrack_abort_del);
EXPORT_SYMBOL(rdma_restrack_add);
EXPORT_SYMBOL(rdma_restrack_begin_del);
EXPORT_SYMBOL(rdma_restrack_commit_del);
EXPORT_SYMBOL(rdma_restrack_count);
EXPORT_SYMBOL(rdma_restrack_del);
EXPORT_SYMBOL(rdma_restrack_get);
EXPORT_SYMBOL(rdma_restrack_get_byid);
EXPORT_SYMBOL(rdma_restrack_new);
EXPORT_SYMBOL(rdma_restrack_parent_name);
EXPORT_SYMBOL(rdma_restrack_put);
EXPORT_SYMBOL(rdma_restrack_set_name);
EXPORT_SYMBOL(rdma_restrack_sync);
