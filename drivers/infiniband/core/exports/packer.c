// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_pack.h>

EXPORT_SYMBOL(ib_pack);
EXPORT_SYMBOL(ib_unpack);
