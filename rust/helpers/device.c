// SPDX-License-Identifier: GPL-2.0

__rust_helper bool rust_helper_ib_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

__rust_helper struct net *rust_helper_rdma_dev_net(struct ib_device *device)
{
	return rdma_dev_net(device);
}

__rust_helper void *rust_helper_ib_device_kzalloc(size_t size, gfp_t flags)
{
	return kzalloc(size, flags);
}

__rust_helper void rust_helper_rdma_list_del(struct list_head *entry)
{
	list_del(entry);
}

__rust_helper void rust_helper_hlist_add_head_rcu(struct hlist_node *n, struct hlist_head *h)
{
	hlist_add_head_rcu(n, h);
}

__rust_helper void rust_helper_hlist_del_init_rcu(struct hlist_node *n)
{
	hlist_del_init_rcu(n);
}

__rust_helper bool rust_helper_hlist_unhashed(const struct hlist_node *n)
{
	return hlist_unhashed(n);
}

__rust_helper void rust_helper_netdev_hold(struct net_device *dev, netdevice_tracker *tracker,
					   gfp_t gfp)
{
	netdev_hold(dev, tracker, gfp);
}

__rust_helper void rust_helper_netdev_put(struct net_device *dev, netdevice_tracker *tracker)
{
	netdev_put(dev, tracker);
}

__rust_helper struct net *rust_helper_read_pnet(const possible_net_t *pnet)
{
	return read_pnet(pnet);
}

__rust_helper void rust_helper_write_pnet(possible_net_t *pnet, struct net *net)
{
	write_pnet(pnet, net);
}

__rust_helper void rust_helper_put_net(struct net *net)
{
	put_net(net);
}

__rust_helper const struct ns_common *rust_helper_to_ns_common(struct net *net)
{
	return to_ns_common(net);
}

__rust_helper struct net *rust_helper_current_net(void)
{
	return current->nsproxy->net_ns;
}

__rust_helper void rust_helper_dev_set_uevent_suppress(struct device *dev, int val)
{
	dev_set_uevent_suppress(dev, val);
}

__rust_helper void *rust_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

__rust_helper enum ib_port_state rust_helper_ib_get_curr_port_state(struct net_device *dev)
{
	return ib_get_curr_port_state(dev);
}

__rust_helper enum ib_mtu rust_helper_ib_mtu_int_to_enum(int mtu)
{
	return ib_mtu_int_to_enum(mtu);
}

__rust_helper struct net *rust_helper_rdma_skb_net(struct sk_buff *skb)
{
	return sock_net(skb->sk);
}

#ifndef CONFIG_ARCH_HAS_CC_PLATFORM
__rust_helper bool rust_helper_cc_platform_has(enum cc_attr attr)
{
	return cc_platform_has(attr);
}
#endif

#ifndef CONFIG_ARCH_HAS_PMEM_API
__rust_helper void rust_helper_arch_wb_cache_pmem(void *addr, size_t size)
{
	arch_wb_cache_pmem(addr, size);
}
#endif
