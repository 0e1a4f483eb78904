// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>

#include <rdma/ib_sa.h>

EXPORT_SYMBOL(ib_init_ah_attr_from_path);
EXPORT_SYMBOL(ib_sa_cancel_query);
EXPORT_SYMBOL(ib_sa_guid_info_rec_query);
EXPORT_SYMBOL(ib_sa_pack_path);
EXPORT_SYMBOL(ib_sa_pack_service);
EXPORT_SYMBOL(ib_sa_path_rec_get);
EXPORT_SYMBOL(ib_sa_register_client);
EXPORT_SYMBOL(ib_sa_service_rec_get);
EXPORT_SYMBOL(ib_sa_unpack_path);
EXPORT_SYMBOL(ib_sa_unpack_service);
EXPORT_SYMBOL(ib_sa_unregister_client);
