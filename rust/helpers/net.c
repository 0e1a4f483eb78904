// SPDX-License-Identifier: GPL-2.0

__rust_helper void rust_helper_skb_reset_mac_header(struct sk_buff *skb)
{
	skb_reset_mac_header(skb);
}

__rust_helper void rust_helper_skb_set_network_header(struct sk_buff *skb, int offset)
{
	skb_set_network_header(skb, offset);
}

__rust_helper void rust_helper_skb_set_transport_header(struct sk_buff *skb, int offset)
{
	skb_set_transport_header(skb, offset);
}

__rust_helper struct in_device *rust_helper_rdma_in_dev_get_rtnl(const struct net_device *dev)
{
	return __in_dev_get_rtnl(dev);
}
