// SPDX-License-Identifier: GPL-2.0

__rust_helper struct sk_buff *rust_helper_nlmsg_new_default(gfp_t flags)
{
	return nlmsg_new(NLMSG_DEFAULT_SIZE, flags);
}

__rust_helper struct nlmsghdr *rust_helper_nlmsg_put(struct sk_buff *skb,
						     u32 portid, u32 seq,
						     int type, int payload,
						     int flags)
{
	return nlmsg_put(skb, portid, seq, type, payload, flags);
}

__rust_helper int rust_helper_nlmsg_multicast(struct sock *sk,
					      struct sk_buff *skb, u32 portid,
					      unsigned int group, gfp_t flags)
{
	return nlmsg_multicast(sk, skb, portid, group, flags);
}

__rust_helper struct net *rust_helper_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

__rust_helper void *rust_helper_net_generic(const struct net *net,
					    unsigned int id)
{
	return net_generic(net, id);
}

__rust_helper struct sock *
rust_helper_netlink_kernel_create(struct net *net, int unit,
				  struct netlink_kernel_cfg *cfg)
{
	return netlink_kernel_create(net, unit, cfg);
}

__rust_helper int rust_helper_netlink_dump_start(struct sock *ssk,
						 struct sk_buff *skb,
						 const struct nlmsghdr *nlh,
						 struct netlink_dump_control *control)
{
	return netlink_dump_start(ssk, skb, nlh, control);
}

__rust_helper u64 rust_helper_huge_encode_dev(dev_t dev)
{
	return huge_encode_dev(dev);
}

__rust_helper void rust_helper_read_lock(rwlock_t *lock)
{
	read_lock(lock);
}

__rust_helper void rust_helper_read_unlock(rwlock_t *lock)
{
	read_unlock(lock);
}
