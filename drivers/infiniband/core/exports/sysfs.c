// SPDX-License-Identifier: GPL-2.0
#include <linux/export.h>

#include <rdma/ib_sysfs.h>

#include "core_priv.h"

EXPORT_SYMBOL(ib_port_register_client_groups);
EXPORT_SYMBOL(ib_port_sysfs_get_ibdev_kobj);
EXPORT_SYMBOL(ib_port_unregister_client_groups);
