// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <linux/module.h>
#include <rdma/ib_umem.h>

MODULE_IMPORT_NS("DMA_BUF");

EXPORT_SYMBOL(ib_umem_dmabuf_get);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned_revocable_and_lock);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned_with_dma_device);
EXPORT_SYMBOL(ib_umem_dmabuf_map_pages);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke_lock);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke_unlock);
EXPORT_SYMBOL(ib_umem_dmabuf_set_revoke_locked);
EXPORT_SYMBOL(ib_umem_dmabuf_unmap_pages);
