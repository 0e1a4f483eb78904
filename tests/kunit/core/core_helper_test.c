// SPDX-License-Identifier: GPL-2.0
/* What drivers and ULPs have computed, packed, printed and counted by the core. */
#include <linux/bvec.h>
#include <linux/console.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/netlink.h>
#include <rdma/frmr_pools.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_pack.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/rw.h>
#include <uapi/rdma/rdma_netlink.h>

#include "core_test.h"

/* Exported, but in no header of drivers. */
void ib_get_cached_subnet_prefix(struct ib_device *device, u32 port, u64 *prefix);

static void rates(struct kunit *test)
{
	static const struct { enum ib_rate rate; int mult, mbps; } table[] = {
		{ IB_RATE_2_5_GBPS, 1, 2500 },	   { IB_RATE_5_GBPS, 2, 5000 },
		{ IB_RATE_10_GBPS, 4, 10000 },	   { IB_RATE_20_GBPS, 8, 20000 },
		{ IB_RATE_30_GBPS, 12, 30000 },	   { IB_RATE_40_GBPS, 16, 40000 },
		{ IB_RATE_60_GBPS, 24, 60000 },	   { IB_RATE_80_GBPS, 32, 80000 },
		{ IB_RATE_120_GBPS, 48, 120000 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		KUNIT_EXPECT_EQ(test, ib_rate_to_mult(table[i].rate), table[i].mult);
		KUNIT_EXPECT_EQ(test, ib_rate_to_mbps(table[i].rate), table[i].mbps);
		KUNIT_EXPECT_EQ(test, (int)mult_to_ib_rate(table[i].mult), (int)table[i].rate);
	}
	KUNIT_EXPECT_EQ(test, ib_rate_to_mult(IB_RATE_PORT_CURRENT), -1);
	KUNIT_EXPECT_EQ(test, ib_rate_to_mbps(IB_RATE_PORT_CURRENT), -1);
	KUNIT_EXPECT_EQ(test, (int)mult_to_ib_rate(3), (int)IB_RATE_PORT_CURRENT);
}

static void speed_of_a_port(struct kunit *test)
{
	struct ib_port_attr attr = { .active_speed = IB_SPEED_EDR, .active_width = IB_WIDTH_4X };
	struct ib_port_speed_info info;

	KUNIT_EXPECT_EQ(test, ib_port_attr_to_speed_info(&attr, &info), 0);
	KUNIT_EXPECT_EQ(test, info.rate, 1000);
	KUNIT_EXPECT_STREQ(test, info.str, " EDR");
	/* What is no speed counts as the slowest. */
	attr.active_speed = 0x4000;
	KUNIT_EXPECT_EQ(test, ib_port_attr_to_speed_info(&attr, &info), 0);
	KUNIT_EXPECT_EQ(test, info.rate, 100);
	attr.active_width = 0x80;
	KUNIT_EXPECT_EQ(test, ib_port_attr_to_speed_info(&attr, &info), -EINVAL);
}

struct packed {
	u8 first;
	__be16 second;
	__be64 third;
};

#define FIELD(member, word, bit, bits)					\
	{ .struct_offset_bytes = offsetof(struct packed, member),	\
	  .struct_size_bytes = sizeof_field(struct packed, member),	\
	  .offset_words = word, .offset_bits = bit, .size_bits = bits, .field_name = #member }

static void fields_of_a_header(struct kunit *test)
{
	static const struct ib_field fields[] = {
		FIELD(first, 0, 4, 6), FIELD(second, 0, 16, 12), FIELD(third, 1, 0, 64),
	};
	const struct packed in = { 0x2a, cpu_to_be16(0x0abc), cpu_to_be64(0x0123456789abcdefULL) };
	static const u8 wire[] = { 0x0a, 0x80, 0xab, 0xc0, 0x01, 0x23, 0x45, 0x67,
				   0x89, 0xab, 0xcd, 0xef };
	struct packed out = {};
	u8 buf[12] = {};

	ib_pack(fields, ARRAY_SIZE(fields), (void *)&in, buf);
	KUNIT_EXPECT_MEMEQ(test, buf, wire, sizeof(wire));
	ib_unpack(fields, ARRAY_SIZE(fields), buf, &out);
	KUNIT_EXPECT_EQ(test, out.first, in.first);
	KUNIT_EXPECT_EQ(test, out.second, in.second);
	KUNIT_EXPECT_EQ(test, out.third, in.third);
}

static void header_of_a_datagram(struct kunit *test)
{
	struct ib_ud_header *header = kunit_kzalloc(test, sizeof(*header), GFP_KERNEL);
	u8 *buf = kunit_kzalloc(test, 256, GFP_KERNEL);
	struct iphdr ip;

	KUNIT_ASSERT_NOT_NULL(test, header);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	/* UDP is over IP. */
	KUNIT_EXPECT_EQ(test, ib_ud_header_init(10, 0, 1, 0, 0, 0, 1, 0, header), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_ud_header_init(10, 0, 1, 0, 0, 4, 1, 0, header), 0);
	header->eth.type = cpu_to_be16(ETH_P_IP);
	header->ip4.ttl = 64;
	header->ip4.saddr = cpu_to_be32(0x0a090001);
	header->ip4.daddr = cpu_to_be32(0x0a090002);
	header->ip4.check = ib_ud_ip4_csum(header);
	/* Ethernet, IPv4, UDP, BTH, DETH. */
	KUNIT_EXPECT_EQ(test, ib_ud_header_pack(header, buf), 14 + 20 + 8 + 12 + 8);
	memcpy(&ip, buf + 14, sizeof(ip));
	KUNIT_EXPECT_EQ(test, (int)ip.version, 4);
	KUNIT_EXPECT_EQ(test, (int)ip.ihl, 5);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(ip.tot_len), 20 + 8 + 12 + 8 + 10 + 4);
	KUNIT_EXPECT_EQ(test, (int)ip_fast_csum((u8 *)&ip, 5), 0);
	/* On InfiniBand with a global route: LRH, GRH, BTH, DETH, immediate data. */
	KUNIT_EXPECT_EQ(test, ib_ud_header_init(10, 1, 0, 0, 1, 0, 0, 1, header), 0);
	KUNIT_EXPECT_EQ(test, ib_ud_header_pack(header, buf), 8 + 40 + 12 + 8 + 4);
	KUNIT_EXPECT_EQ(test, (int)be16_to_cpu(header->lrh.packet_length),
			(8 + 40 + 12 + 8 + 10 + 4 + 3) / 4);
	KUNIT_EXPECT_EQ(test, (int)header->bth.opcode, (int)IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE);
}

static void addresses_in_a_header(struct kunit *test)
{
	union rdma_network_hdr hdr = {};
	static const union ib_gid zero;
	union ib_gid from, to;

	KUNIT_EXPECT_TRUE(test, rdma_is_zero_gid(&zero));
	KUNIT_EXPECT_EQ(test, ib_get_rdma_header_version(&hdr), 0);
	hdr.roce4grh = (struct iphdr){ .version = 4, .ihl = 5, .saddr = cpu_to_be32(0x0a090001),
				       .daddr = cpu_to_be32(0x0a090002) };
	KUNIT_EXPECT_EQ(test, ib_get_rdma_header_version(&hdr), 4);
	KUNIT_EXPECT_EQ(test, ib_get_gids_from_rdma_hdr(&hdr, RDMA_NETWORK_IPV4, &from, &to), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(from.global.interface_id), 0xffff0a090001ULL);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(to.global.interface_id), 0xffff0a090002ULL);
	KUNIT_EXPECT_FALSE(test, rdma_is_zero_gid(&from));
	/* With six in the garbled bytes the checksum decides. */
	hdr.reserved[0] = 0x60;
	KUNIT_EXPECT_EQ(test, ib_get_rdma_header_version(&hdr), 6);
	hdr.roce4grh.check = ip_fast_csum((u8 *)&hdr.roce4grh, 5);
	KUNIT_EXPECT_EQ(test, ib_get_rdma_header_version(&hdr), 4);

	memset(&hdr, 0, sizeof(hdr));
	hdr.ibgrh.version_tclass_flow = cpu_to_be32(6 << 28);
	memset(hdr.ibgrh.sgid.raw, 1, 16);
	memset(hdr.ibgrh.dgid.raw, 2, 16);
	KUNIT_EXPECT_EQ(test, ib_get_rdma_header_version(&hdr), 6);
	KUNIT_EXPECT_EQ(test, ib_get_gids_from_rdma_hdr(&hdr, RDMA_NETWORK_IPV6, &from, &to), 0);
	KUNIT_EXPECT_MEMEQ(test, from.raw, hdr.ibgrh.sgid.raw, 16);
	KUNIT_EXPECT_MEMEQ(test, to.raw, hdr.ibgrh.dgid.raw, 16);
	KUNIT_EXPECT_EQ(test, ib_get_gids_from_rdma_hdr(&hdr, RDMA_NETWORK_IPV6, NULL, &to),
			-EINVAL);
}

static void details_of_drivers(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(256, GFP_KERNEL), *small = alloc_skb(1, GFP_KERNEL);
	struct nlattr *entry, *value, *attr;
	int rem, names = 0;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_NOT_NULL(test, small);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_string(skb, "a", "text"), 0);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_u32(skb, "b", 1), 0);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_u32_hex(skb, "c", 2), 0);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_u64(skb, "d", 3), 0);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_u64_hex(skb, "e", 4), 0);
	nla_for_each_attr(attr, (struct nlattr *)skb->data, skb->len, rem)
		names += nla_type(attr) == RDMA_NLDEV_ATTR_DRIVER_STRING && nla_len(attr) == 2;
	KUNIT_EXPECT_EQ(test, names, 5);
	KUNIT_EXPECT_EQ(test, rem, 0);
	attr = nla_find((struct nlattr *)skb->data, skb->len, RDMA_NLDEV_ATTR_DRIVER_U64);
	KUNIT_ASSERT_NOT_NULL(test, attr);
	KUNIT_EXPECT_EQ(test, nla_get_u64(attr), 3);

	skb_trim(skb, 0);
	KUNIT_EXPECT_EQ(test, rdma_nl_stat_hwcounter_entry(skb, "hits", 77), 0);
	entry = (struct nlattr *)skb->data;
	KUNIT_EXPECT_EQ(test, nla_type(entry), RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
	value = nla_find(nla_data(entry), nla_len(entry),
			 RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
	KUNIT_ASSERT_NOT_NULL(test, value);
	KUNIT_EXPECT_EQ(test, nla_get_u64(value), 77);

	/* Without room: told, and nothing half done. */
	skb_put(small, skb_tailroom(small));
	rem = small->len;
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_string(small, "a", "text"), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, rdma_nl_put_driver_u32(small, "b", 1), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, rdma_nl_stat_hwcounter_entry(small, "hits", 77), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, (int)small->len, rem);
	/* Nobody listens in a kernel where no daemon runs. */
	KUNIT_EXPECT_FALSE(test, rdma_nl_chk_listeners(RDMA_NL_GROUP_IWPM));
	kfree_skb(skb);
	kfree_skb(small);
}

static char said[1024];
static size_t said_len;

static void listen(struct console *console, const char *text, unsigned int len)
{
	len = min_t(size_t, len, sizeof(said) - 1 - said_len);
	memcpy(said + said_len, text, len);
	said_len += len;
}

static void devices_have_their_name_in_the_log(struct kunit *test)
{
	static const char * const levels[] = { "emerg", "alert", "crit", "err", "warn", "notice",
					       "info" };
	static struct console console = { .name = "core_test", .write = listen,
					  .flags = CON_ENABLED, .index = -1 };
	struct ib_device *dev = core_device(test, "core%d");
	char line[64];
	int i;

	memset(said, 0, sizeof(said));
	said_len = 0;
	register_console(&console);
	ibdev_emerg(dev, "test of %s\n", "emerg");
	ibdev_alert(dev, "test of %s\n", "alert");
	ibdev_crit(dev, "test of %s\n", "crit");
	ibdev_err(dev, "test of %s\n", "err");
	ibdev_warn(dev, "test of %s\n", "warn");
	ibdev_notice(dev, "test of %s\n", "notice");
	ibdev_info(dev, "test of %s\n", "info");
	/* Whoever has the lock prints what is left before he lets go of it. */
	console_lock();
	console_unlock();
	unregister_console(&console);
	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		snprintf(line, sizeof(line), "%s: test of %s\n", dev_name(&dev->dev), levels[i]);
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(said, line), "%s", levels[i]);
	}
}

static struct ib_device *roce_device(struct kunit *test, struct net_device *netdev)
{
	const struct ib_fake_config config = { .name = "core%d", .protocol = IB_FAKE_ROCE,
					       .ports = 2, .netdev = netdev, .gids = 8 };
	struct ib_device *dev = ib_fake_create(&config);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	return dev;
}

static void ports_of_an_interface(struct kunit *test)
{
	struct net_device *netdev = core_netdev(test, 21), *other = core_netdev(test, 22);
	struct ib_device *dev = roce_device(test, netdev);
	const struct ib_gid_attr *gid;
	u8 mac[ETH_ALEN] = {};
	u16 vlan = 0;
	u32 port = 0;

	KUNIT_EXPECT_EQ(test, ib_query_netdev_port(dev, netdev, &port), 0);
	KUNIT_EXPECT_EQ(test, port, 1);
	KUNIT_EXPECT_EQ(test, ib_query_netdev_port(dev, other, &port), -ENOENT);
	KUNIT_EXPECT_EQ(test, ib_port_immutable_read(dev, 1)->gid_tbl_len, 8);
	KUNIT_EXPECT_EQ(test, ib_port_immutable_read(dev, 1)->pkey_tbl_len, 4);

	/* Its GIDs go with the interface, and come back when somebody looks again. */
	KUNIT_ASSERT_TRUE(test, core_wait_for(!IS_ERR(gid = rdma_get_gid_attr(dev, 1, 0))));
	KUNIT_EXPECT_EQ(test, rdma_read_gid_l2_fields(gid, &vlan, mac), 0);
	KUNIT_EXPECT_EQ(test, vlan, 0xffff);
	KUNIT_EXPECT_MEMEQ(test, mac, netdev->dev_addr, ETH_ALEN);
	/* A driver's own word on the entry; this one has none. */
	KUNIT_EXPECT_NULL(test, rdma_read_gid_hw_context(gid));
	rdma_put_gid_attr(gid);
	roce_del_all_netdev_gids(dev, 1, netdev);
	KUNIT_EXPECT_TRUE(test, IS_ERR(rdma_get_gid_attr(dev, 1, 0)));
	rdma_roce_rescan_port(dev, 1);
	KUNIT_EXPECT_TRUE(test, core_wait_for(!IS_ERR(gid = rdma_get_gid_attr(dev, 1, 0))));
	if (!IS_ERR(gid))
		rdma_put_gid_attr(gid);
	roce_del_all_netdev_gids(dev, 1, netdev);
	KUNIT_EXPECT_TRUE(test, IS_ERR(rdma_get_gid_attr(dev, 1, 0)));
	rdma_roce_rescan_device(dev);
	KUNIT_EXPECT_TRUE(test, core_wait_for(!IS_ERR(gid = rdma_get_gid_attr(dev, 1, 0))));
	if (!IS_ERR(gid))
		rdma_put_gid_attr(gid);
	ib_fake_destroy(dev);
}

struct told {
	struct ib_event_handler handler;
	atomic_t down, up;
};

static void tell(struct ib_event_handler *handler, struct ib_event *event)
{
	struct told *told = container_of(handler, struct told, handler);

	if (event->event == IB_EVENT_PORT_ERR)
		atomic_inc(&told->down);
	else if (event->event == IB_EVENT_PORT_ACTIVE)
		atomic_inc(&told->up);
}

static void a_state_is_told_once(struct kunit *test)
{
	struct net_device *netdev = core_netdev(test, 23);
	struct ib_device *dev = roce_device(test, netdev);
	struct told told = {};

	INIT_IB_EVENT_HANDLER(&told.handler, dev, tell);
	ib_register_event_handler(&told.handler);
	netif_carrier_off(netdev);
	ib_dispatch_port_state_event(dev, netdev);
	ib_dispatch_port_state_event(dev, netdev);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&told.down)));
	netif_carrier_on(netdev);
	ib_dispatch_port_state_event(dev, netdev);
	ib_dispatch_port_state_event(dev, netdev);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&told.up)));
	ib_unregister_event_handler(&told.handler);
	KUNIT_EXPECT_EQ(test, atomic_read(&told.down), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&told.up), 1);
	ib_fake_destroy(dev);
}

static void calls_of_drivers(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_device_modify modify = { .node_desc = "a name" };
	struct rdma_ah_attr want = { .type = RDMA_AH_ATTR_TYPE_IB, .port_num = 1 }, got = {};
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_wq_init_attr wq = { .wq_type = IB_WQT_RQ };
	struct rdma_hw_stats *stats;
	static const struct rdma_stat_desc names[] = { { .name = "one" }, { .name = "two" } };
	struct ib_ah *ah;
	u64 prefix = 0;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	ib_get_cached_subnet_prefix(dev, 1, &prefix);
	KUNIT_EXPECT_EQ(test, prefix, 0xfe80000000000000ULL);
	KUNIT_EXPECT_EQ(test, ib_modify_device(dev, IB_DEVICE_MODIFY_NODE_DESC, &modify), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(dev, IB_FAKE_MODIFY_DEVICE), 1);
	ib_fake_fail(dev, IB_FAKE_MODIFY_DEVICE, 1, -EIO);
	KUNIT_EXPECT_EQ(test, ib_modify_device(dev, IB_DEVICE_MODIFY_NODE_DESC, &modify), -EIO);

	rdma_ah_set_dlid(&want, 7);
	rdma_ah_set_sl(&want, 3);
	ah = rdma_create_ah(pd, &want, RDMA_CREATE_AH_SLEEPABLE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, rdma_query_ah(ah, &got), 0);
	KUNIT_EXPECT_EQ(test, (int)rdma_ah_get_dlid(&got), 7);
	KUNIT_EXPECT_EQ(test, (int)rdma_ah_get_sl(&got), 3);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);

	/* What this driver does not have. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_wq(pd, &wq)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_advise_mr(pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0),
			-EOPNOTSUPP);

	/* Who has taken an object keeps its owner from ending it. */
	KUNIT_EXPECT_NE(test, rdma_restrack_get(&pd->res), 0);
	KUNIT_EXPECT_EQ(test, kref_read(&pd->res.kref), 2);
	rdma_restrack_put(&pd->res);
	KUNIT_EXPECT_EQ(test, kref_read(&pd->res.kref), 1);
	ib_dealloc_pd(pd);

	stats = rdma_alloc_hw_stats_struct(names, ARRAY_SIZE(names), 10);
	KUNIT_ASSERT_NOT_NULL(test, stats);
	KUNIT_EXPECT_EQ(test, stats->num_counters, 2);
	/* What is left of it would be a leak. */
	rdma_free_hw_stats_struct(stats);
}

static void transfers_of_page_pieces(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct bio_vec pieces[3];
	struct bvec_iter iter = {};
	struct rdma_rw_ctx ctx = {};
	struct ib_send_wr *wr;
	struct ib_cqe cqe = {};
	struct ib_cq *cq;
	struct ib_qp *qp;
	int i, bytes = 0;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	cq = ib_alloc_cq(dev, NULL, 16, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	qp = core_qp(test, pd, cq, 8);
	for (i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct page *page = alloc_page(GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, page);
		bvec_set_page(&pieces[i], page, 1000, 8 * i);
	}
	KUNIT_EXPECT_EQ(test, rdma_rw_ctx_init_bvec(&ctx, qp, 1, pieces, 1, iter, 64, 1,
						    DMA_TO_DEVICE), -EINVAL);
	iter.bi_size = 1000;
	KUNIT_EXPECT_EQ(test, rdma_rw_ctx_init_bvec(&ctx, qp, 1, pieces, 1, iter, 64, 5,
						    DMA_TO_DEVICE), 1);
	wr = rdma_rw_ctx_wrs(&ctx, qp, 1, &cqe, NULL);
	KUNIT_EXPECT_EQ(test, (int)wr->opcode, (int)IB_WR_RDMA_WRITE);
	KUNIT_EXPECT_EQ(test, rdma_wr(wr)->remote_addr, 64);
	KUNIT_EXPECT_EQ(test, rdma_wr(wr)->rkey, 5);
	KUNIT_EXPECT_EQ(test, wr->sg_list[0].length, 1000);
	rdma_rw_ctx_destroy_bvec(&ctx, qp, 1, pieces, 1, DMA_TO_DEVICE);

	/* Of several, a request each, as the scatter lists have one entry. */
	iter.bi_size = 3000;
	KUNIT_EXPECT_EQ(test, rdma_rw_ctx_init_bvec(&ctx, qp, 1, pieces, 3, iter, 64, 5,
						    DMA_FROM_DEVICE), 3);
	for (wr = rdma_rw_ctx_wrs(&ctx, qp, 1, &cqe, NULL); wr; wr = wr->next) {
		KUNIT_EXPECT_EQ(test, (int)wr->opcode, (int)IB_WR_RDMA_READ);
		KUNIT_EXPECT_EQ(test, rdma_wr(wr)->remote_addr, 64 + bytes);
		bytes += wr->sg_list[0].length;
	}
	KUNIT_EXPECT_EQ(test, bytes, 3000);
	rdma_rw_ctx_destroy_bvec(&ctx, qp, 1, pieces, 3, DMA_FROM_DEVICE);

	/* A request a context, and two for its registration where there is any. */
	KUNIT_EXPECT_EQ(test, rdma_rw_max_send_wr(dev, 1, 10, IB_QP_CREATE_INTEGRITY_EN), 30);
	KUNIT_EXPECT_EQ(test, rdma_rw_max_send_wr(dev, 1, UINT_MAX, IB_QP_CREATE_INTEGRITY_EN),
			UINT_MAX);
	for (i = 0; i < ARRAY_SIZE(pieces); i++)
		__free_page(pieces[i].bv_page);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	ib_free_cq(cq);
	ib_dealloc_pd(pd);
}

static atomic_t handles;

static int create_handles(struct ib_device *device, struct ib_frmr_key *key, u32 *made, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		made[i] = atomic_inc_return(&handles);
	return 0;
}

static void destroy_handles(struct ib_device *device, u32 *gone, u32 count)
{
	atomic_sub(count, &handles);
}

static void pooled_registrations(struct kunit *test)
{
	static const struct ib_frmr_pool_ops ops = { .create_frmrs = create_handles,
						     .destroy_frmrs = destroy_handles };
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_mr *mr = kunit_kcalloc(test, 2, sizeof(*mr), GFP_KERNEL);
	u32 first;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	atomic_set(&handles, 0);
	KUNIT_ASSERT_EQ(test, ib_frmr_pools_init(dev, &ops), 0);
	mr[0].device = dev;
	mr[0].frmr.key.num_dma_blocks = 8;
	mr[1] = mr[0];
	KUNIT_ASSERT_EQ(test, ib_frmr_pool_pop(dev, &mr[0]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&handles), 1);
	first = mr[0].frmr.handle;
	/* What was given back is used again. */
	ib_frmr_pool_push(dev, &mr[0]);
	KUNIT_ASSERT_EQ(test, ib_frmr_pool_pop(dev, &mr[1]), 0);
	KUNIT_EXPECT_EQ(test, mr[1].frmr.handle, first);
	KUNIT_EXPECT_EQ(test, atomic_read(&handles), 1);
	/* This one the driver has ended by himself. */
	ib_frmr_pool_drop(&mr[1]);
	destroy_handles(dev, &first, 1);
	KUNIT_ASSERT_EQ(test, ib_frmr_pool_pop(dev, &mr[0]), 0);
	ib_frmr_pool_push(dev, &mr[0]);
	ib_frmr_pools_cleanup(dev);
	KUNIT_EXPECT_EQ(test, atomic_read(&handles), 0);
}

/* A driver that has less than nothing. */
static void table_of_a_negative_length(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	int before = dev->port_data[1].immutable.pkey_tbl_len;
	u16 index;

	dev->port_data[1].immutable.pkey_tbl_len = -1;
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0xffff, &index), -ENOENT);
	dev->port_data[1].immutable.pkey_tbl_len = before;
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0xffff, &index), 0);
}

static void entries_that_can_be_mapped(struct kunit *test)
{
	struct ib_ucontext *context = kunit_kzalloc(test, sizeof(*context), GFP_KERNEL);
	struct rdma_user_mmap_entry *entry = kunit_kzalloc(test, sizeof(*entry), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, context);
	KUNIT_ASSERT_NOT_NULL(test, entry);
	context->device = core_device(test, "core%d");
	xa_init_flags(&context->mmap_xa, XA_FLAGS_ALLOC);
	kref_init(&entry->ref);
	entry->ucontext = context;
	entry->start_pgoff = 5;
	entry->npages = 2;
	KUNIT_ASSERT_EQ(test, xa_err(xa_store(&context->mmap_xa, 5, entry, GFP_KERNEL)), 0);
	KUNIT_ASSERT_EQ(test, xa_err(xa_store(&context->mmap_xa, 6, entry, GFP_KERNEL)), 0);
	KUNIT_EXPECT_NULL(test, rdma_user_mmap_entry_get_pgoff(context, 4));
	/* Only from its beginning. */
	KUNIT_EXPECT_NULL(test, rdma_user_mmap_entry_get_pgoff(context, 6));
	KUNIT_EXPECT_NULL(test, rdma_user_mmap_entry_get_pgoff(context, 5 + BIT_ULL(32)));
	KUNIT_EXPECT_PTR_EQ(test, rdma_user_mmap_entry_get_pgoff(context, 5), entry);
	KUNIT_EXPECT_EQ(test, kref_read(&entry->ref), 2);
	entry->driver_removed = true;
	KUNIT_EXPECT_NULL(test, rdma_user_mmap_entry_get_pgoff(context, 5));
	KUNIT_EXPECT_EQ(test, kref_read(&entry->ref), 2);
	xa_destroy(&context->mmap_xa);
}

static struct kunit_case core_helper_cases[] = {
	KUNIT_CASE(rates),
	KUNIT_CASE(speed_of_a_port),
	KUNIT_CASE(fields_of_a_header),
	KUNIT_CASE(header_of_a_datagram),
	KUNIT_CASE(addresses_in_a_header),
	KUNIT_CASE(details_of_drivers),
	KUNIT_CASE(devices_have_their_name_in_the_log),
	KUNIT_CASE(ports_of_an_interface),
	KUNIT_CASE(a_state_is_told_once),
	KUNIT_CASE(calls_of_drivers),
	KUNIT_CASE(transfers_of_page_pieces),
	KUNIT_CASE(pooled_registrations),
	KUNIT_CASE(table_of_a_negative_length),
	KUNIT_CASE(entries_that_can_be_mapped),
	{}
};

struct kunit_suite core_helper_suite = {
	.name = "ib_core_helpers",
	.test_cases = core_helper_cases,
};
