// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>

#include <rdma/ib_sa.h>

EXPORT_SYMBOL(ib_init_ah_from_mcmember);
EXPORT_SYMBOL(ib_sa_free_multicast);
EXPORT_SYMBOL(ib_sa_get_mcmember_rec);
EXPORT_SYMBOL(ib_sa_join_multicast);
