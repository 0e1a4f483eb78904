// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/rw.h>

EXPORT_SYMBOL(rdma_rw_ctx_init);
EXPORT_SYMBOL(rdma_rw_ctx_init_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_signature_init);
EXPORT_SYMBOL(rdma_rw_ctx_wrs);
EXPORT_SYMBOL(rdma_rw_ctx_post);
EXPORT_SYMBOL(rdma_rw_ctx_destroy);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_signature);
EXPORT_SYMBOL(rdma_rw_mr_factor);
EXPORT_SYMBOL(rdma_rw_max_send_wr);
