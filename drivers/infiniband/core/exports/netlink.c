// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <linux/module.h>
#include <linux/net.h>
#include <rdma/rdma_netlink.h>

EXPORT_SYMBOL(ibnl_put_attr);
EXPORT_SYMBOL(ibnl_put_msg);
EXPORT_SYMBOL(rdma_nl_chk_listeners);
EXPORT_SYMBOL(rdma_nl_multicast);
EXPORT_SYMBOL(rdma_nl_register);
EXPORT_SYMBOL(rdma_nl_unicast);
EXPORT_SYMBOL(rdma_nl_unicast_wait);
EXPORT_SYMBOL(rdma_nl_unregister);

MODULE_ALIAS_NET_PF_PROTO(PF_NETLINK, NETLINK_RDMA);
