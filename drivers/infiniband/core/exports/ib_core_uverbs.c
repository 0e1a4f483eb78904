// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <linux/module.h>
#include "uverbs.h"
#include "core_priv.h"
#include "rdma_core.h"

MODULE_IMPORT_NS("DMA_BUF");

EXPORT_SYMBOL(_ib_copy_validate_udata_cm_fail);
EXPORT_SYMBOL(_ib_copy_validate_udata_in);
EXPORT_SYMBOL(_ib_respond_udata);
EXPORT_SYMBOL(_uverbs_alloc);
EXPORT_SYMBOL(_uverbs_get_const_signed);
EXPORT_SYMBOL(_uverbs_get_const_unsigned);
EXPORT_SYMBOL(ib_uverbs_get_ucontext_file);
EXPORT_SYMBOL(rdma_umap_priv_init);
EXPORT_SYMBOL(rdma_user_mmap_entry_get);
EXPORT_SYMBOL(rdma_user_mmap_entry_get_pgoff);
EXPORT_SYMBOL(rdma_user_mmap_entry_insert);
EXPORT_SYMBOL(rdma_user_mmap_entry_insert_range);
EXPORT_SYMBOL(rdma_user_mmap_entry_put);
EXPORT_SYMBOL(rdma_user_mmap_entry_remove);
EXPORT_SYMBOL(rdma_user_mmap_io);
EXPORT_SYMBOL(uverbs_copy_to);
EXPORT_SYMBOL(uverbs_copy_to_struct_or_zero);
EXPORT_SYMBOL(uverbs_destroy_def_handler);
EXPORT_SYMBOL(uverbs_finalize_uobj_create);
EXPORT_SYMBOL(uverbs_get_buffer_desc);
EXPORT_SYMBOL(uverbs_get_flags32);
EXPORT_SYMBOL(uverbs_get_flags64);
EXPORT_SYMBOL_NS_GPL(uverbs_get_cleared_udata, "rdma_core");
