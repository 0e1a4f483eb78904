// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_verbs.h>

#include "core_priv.h"

EXPORT_SYMBOL_GPL(ib_wq);

EXPORT_SYMBOL(_ib_alloc_device);
EXPORT_SYMBOL(ib_dealloc_device);
EXPORT_SYMBOL(ib_device_get_by_netdev);
EXPORT_SYMBOL(ib_device_get_netdev);
EXPORT_SYMBOL(ib_device_put);
EXPORT_SYMBOL(ib_device_set_netdev);
EXPORT_SYMBOL(ib_dispatch_port_state_event);
EXPORT_SYMBOL(ib_dma_virt_map_sg);
EXPORT_SYMBOL(ib_find_gid);
EXPORT_SYMBOL(ib_find_pkey);
EXPORT_SYMBOL(ib_get_device_fw_str);
EXPORT_SYMBOL(ib_get_net_dev_by_params);
EXPORT_SYMBOL(ib_modify_device);
EXPORT_SYMBOL(ib_modify_port);
EXPORT_SYMBOL(ib_port_immutable_read);
EXPORT_SYMBOL(ib_query_netdev_port);
EXPORT_SYMBOL(ib_query_pkey);
EXPORT_SYMBOL(ib_query_port);
EXPORT_SYMBOL(ib_register_client);
EXPORT_SYMBOL(ib_register_device);
EXPORT_SYMBOL(ib_register_event_handler);
EXPORT_SYMBOL(ib_set_client_data);
EXPORT_SYMBOL(ib_set_device_ops);
EXPORT_SYMBOL(ib_unregister_client);
EXPORT_SYMBOL(ib_unregister_device);
EXPORT_SYMBOL(ib_unregister_device_and_put);
EXPORT_SYMBOL(ib_unregister_device_queued);
EXPORT_SYMBOL(ib_unregister_driver);
EXPORT_SYMBOL(ib_unregister_event_handler);
EXPORT_SYMBOL(rdma_dev_access_netns);
EXPORT_SYMBOL(rdma_dev_has_raw_cap);
