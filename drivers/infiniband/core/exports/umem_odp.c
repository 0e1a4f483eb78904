// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_umem_odp.h>

EXPORT_SYMBOL(ib_umem_odp_alloc_child);
EXPORT_SYMBOL(ib_umem_odp_alloc_implicit);
EXPORT_SYMBOL(ib_umem_odp_get);
EXPORT_SYMBOL(ib_umem_odp_map_dma_and_lock);
EXPORT_SYMBOL(ib_umem_odp_release);
EXPORT_SYMBOL(ib_umem_odp_unmap_dma_pages);
