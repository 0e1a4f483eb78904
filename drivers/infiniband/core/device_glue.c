// SPDX-License-Identifier: GPL-2.0
/*
 * What of the part "device" cannot be Rust: the initcall and the parameters of
 * the module, data whose address is ABI or that inline functions read, and
 * tables that C keeps a pointer to.
 */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "core_priv.h"
#include "device_glue.h"

#ifdef CONFIG_SECURITY_INFINIBAND
#error "the Rust core has no hooks for CONFIG_SECURITY_INFINIBAND"
#endif

MODULE_AUTHOR("Roland Dreier");
MODULE_DESCRIPTION("core kernel InfiniBand API");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_NETLINK(RDMA_NL_LS, 4);

bool ib_devices_shared_netns = true;
module_param_named(netns_mode, ib_devices_shared_netns, bool, 0444);
MODULE_PARM_DESC(netns_mode,
		 "Share device among net namespaces; default=1 (shared). In exclusive mode device names are unique per net namespace");

struct workqueue_struct *ib_wq;
struct workqueue_struct *ib_comp_wq;
struct workqueue_struct *ib_comp_unbound_wq;
struct workqueue_struct *ib_unreg_wq;

unsigned int rdma_dev_net_id;

static struct pernet_operations rdma_pernet_ops = {
	.init = rdma_net_init,
	.exit = rdma_net_exit,
	.id = &rdma_dev_net_id,
	.size = sizeof(struct rdma_dev_net),
};

int rdma_register_pernet(void)
{
	return register_pernet_device(&rdma_pernet_ops);
}

void rdma_unregister_pernet(void)
{
	unregister_pernet_device(&rdma_pernet_ops);
}

static const struct rdma_nl_cbs rdma_ls_ops[RDMA_NL_LS_NUM_OPS] = {
	[RDMA_NL_LS_OP_RESOLVE] = {
		.doit = ib_nl_handle_resolve_resp,
		.flags = RDMA_NL_ADMIN_PERM,
	},
	[RDMA_NL_LS_OP_SET_TIMEOUT] = {
		.doit = ib_nl_handle_set_timeout,
		.flags = RDMA_NL_ADMIN_PERM,
	},
	[RDMA_NL_LS_OP_IP_RESOLVE] = {
		.doit = ib_nl_handle_ip_res_resp,
		.flags = RDMA_NL_ADMIN_PERM,
	},
};

void rdma_register_ls(void)
{
	rdma_nl_register(RDMA_NL_LS, rdma_ls_ops);
}

static int __init ib_core_init(void)
{
	return rdma_core_init();
}

static void __exit ib_core_exit(void)
{
	rdma_core_exit();
}

/* Before all users of the core, also when everything is built in. */
fs_initcall(ib_core_init);
module_exit(ib_core_exit);
