// SPDX-License-Identifier: GPL-2.0
#include <linux/export.h>
#include <rdma/ib_addr.h>

#include "core_priv.h"

EXPORT_SYMBOL(rdma_addr_cancel);
EXPORT_SYMBOL(rdma_addr_size);
EXPORT_SYMBOL(rdma_addr_size_in6);
EXPORT_SYMBOL(rdma_addr_size_kss);
EXPORT_SYMBOL(rdma_copy_src_l2_addr);
EXPORT_SYMBOL(rdma_resolve_ip);
EXPORT_SYMBOL(rdma_translate_ip);
