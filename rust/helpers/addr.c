// SPDX-License-Identifier: GPL-2.0

__rust_helper struct rtable *rust_helper_dst_rtable(struct dst_entry *dst)
{
	return dst_rtable(dst);
}

__rust_helper struct rt6_info *rust_helper_dst_rt6_info(struct dst_entry *dst)
{
	return dst_rt6_info(dst);
}

__rust_helper int rust_helper_ip4_dst_hoplimit(const struct dst_entry *dst)
{
	return ip4_dst_hoplimit(dst);
}

__rust_helper struct neighbour *rust_helper_dst_neigh_lookup(const struct dst_entry *dst,
							     const void *daddr)
{
	return dst_neigh_lookup(dst, daddr);
}

__rust_helper int rust_helper_neigh_event_send(struct neighbour *neigh, struct sk_buff *skb)
{
	return neigh_event_send(neigh, skb);
}

__rust_helper void rust_helper_neigh_ha_snapshot(char *dst, const struct neighbour *n,
						 const struct net_device *dev)
{
	neigh_ha_snapshot(dst, n, dev);
}

__rust_helper void rust_helper_neigh_release(struct neighbour *neigh)
{
	neigh_release(neigh);
}

__rust_helper int rust_helper_skb_tailroom(const struct sk_buff *skb)
{
	return skb_tailroom(skb);
}
