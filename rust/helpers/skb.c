// SPDX-License-Identifier: GPL-2.0

__rust_helper unsigned int rust_helper_rdma_skb_frag_size(unsigned int room)
{
	return SKB_DATA_ALIGN(room) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
}

__rust_helper struct page *rust_helper_rdma_alloc_pages(gfp_t gfp, unsigned int order)
{
	return alloc_pages(gfp, order);
}

__rust_helper void *rust_helper_rdma_page_address(struct page *page)
{
	return page_address(page);
}

__rust_helper int rust_helper_rdma_page_ref_count(struct page *page)
{
	return page_ref_count(page);
}

__rust_helper void rust_helper_rdma_page_ref_inc(struct page *page)
{
	page_ref_inc(page);
}

__rust_helper int rust_helper_rdma_skb_cloned(const struct sk_buff *skb)
{
	return skb_cloned(skb);
}

__rust_helper void rust_helper_skb_reserve(struct sk_buff *skb, int len)
{
	skb_reserve(skb, len);
}

__rust_helper void rust_helper_skb_reset_network_header(struct sk_buff *skb)
{
	skb_reset_network_header(skb);
}

__rust_helper void rust_helper_rdma_skb_fragments_keep_df(struct sk_buff *skb)
{
	IPCB(skb)->flags |= IPSKB_FRAG_PMTU;
}

__rust_helper int rust_helper_skb_linearize(struct sk_buff *skb)
{
	return skb_linearize(skb);
}

__rust_helper void rust_helper_skb_dst_set(struct sk_buff *skb, struct dst_entry *dst)
{
	skb_dst_set(skb, dst);
}

__rust_helper void rust_helper_skb_orphan(struct sk_buff *skb)
{
	skb_orphan(skb);
}

__rust_helper struct skb_shared_info *rust_helper_skb_shinfo(const struct sk_buff *skb)
{
	return skb_shinfo(skb);
}

__rust_helper void rust_helper_skb_queue_head_init(struct sk_buff_head *list)
{
	skb_queue_head_init(list);
}

__rust_helper void rust_helper___skb_queue_head_init(struct sk_buff_head *list)
{
	__skb_queue_head_init(list);
}

__rust_helper void rust_helper___skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb)
{
	__skb_queue_tail(list, skb);
}

__rust_helper void rust_helper_skb_add_rx_frag(struct sk_buff *skb, int i, struct page *page,
					       int off, int size, unsigned int truesize)
{
	skb_add_rx_frag(skb, i, page, off, size, truesize);
}

__rust_helper unsigned int rust_helper_LL_RESERVED_SPACE(const struct net_device *dev)
{
	return LL_RESERVED_SPACE(dev);
}

__rust_helper struct dst_entry *rust_helper_dst_clone(struct dst_entry *dst)
{
	return dst_clone(dst);
}

__rust_helper struct dst_entry *rust_helper_dst_check(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

__rust_helper u32 rust_helper_rt6_get_cookie(const struct rt6_info *rt)
{
	return rt6_get_cookie(rt);
}

__rust_helper struct net *rust_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

#ifndef CONFIG_TRACEPOINTS
__rust_helper void rust_helper_consume_skb(struct sk_buff *skb)
{
	consume_skb(skb);
}
#endif
