// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_umem.h>

EXPORT_SYMBOL(ib_umem_check_rereg);
EXPORT_SYMBOL(ib_umem_copy_from);
EXPORT_SYMBOL(ib_umem_find_best_pgsz);
EXPORT_SYMBOL(ib_umem_get_attr);
EXPORT_SYMBOL(ib_umem_get_attr_or_va);
EXPORT_SYMBOL(ib_umem_get_cq_buf);
EXPORT_SYMBOL(ib_umem_get_cq_buf_or_va);
EXPORT_SYMBOL(ib_umem_get_desc);
EXPORT_SYMBOL(ib_umem_release);
