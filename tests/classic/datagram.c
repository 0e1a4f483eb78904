// SPDX-License-Identifier: GPL-2.0
/* Rows 17-19, 58, 59: datagrams, their addresses, multicast. */
#include "rig.h"

#define GRH	sizeof(struct ib_grh)

/* Two UD queue pairs in RTS and a receive posted at B. */
static struct rig *ud_pair(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_UD);
	struct ib_sge to = sge_of(&rig->b, 0, GRH + 256);

	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	return rig;
}

static struct ib_ah *ah_to(struct kunit *test, struct end *from, struct end *to)
{
	struct ib_ah_attr path = classic_path(from, to);
	struct ib_ah *ah = ib_create_ah(from->pd, &path);

	rig_own(test, O_AH, ah);
	return ah;
}

/* A datagram from A to B; its completion at B. */
static struct ib_wc a_to_b(struct kunit *test, struct rig *rig)
{
	struct ib_sge from = sge_of(&rig->a, 0, 32);
	struct ib_wc wc = {};

	memset(rig->a.buf, 0x3d, 32);
	KUNIT_ASSERT_EQ(test, post_ud(rig->a.qp, 1, &from, ah_to(test, &rig->a, &rig->b),
				      rig->b.qp->qp_num), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.byte_len, GRH + 32);
	KUNIT_EXPECT_EQ(test, wc.src_qp, rig->a.qp->qp_num);
	KUNIT_EXPECT_MEMEQ(test, rig->b.buf + GRH, rig->a.buf, 32);
	return wc;
}

static void r17_init_ah_from_wc(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_wc wc = a_to_b(test, rig);
	struct ib_grh *grh = (struct ib_grh *)rig->b.buf;
	struct ib_ah_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	KUNIT_ASSERT_EQ(test, ib_init_ah_from_wc(rig->b.dev, rig->b.port, &wc, grh, &attr), 0);
	KUNIT_EXPECT_MEMEQ(test, attr.grh.dgid.raw, rig->a.gid.raw, 16);
	KUNIT_EXPECT_EQ(test, attr.grh.sgid_index, rig->b.gid_index);
	KUNIT_EXPECT_EQ(test, attr.ah_flags, IB_AH_GRH);
	KUNIT_EXPECT_EQ(test, attr.port_num, rig->b.port);
	KUNIT_EXPECT_PTR_EQ(test, attr.grh.sgid_attr, NULL);
	/* The route to the sender is known, and tells the hop limit. */
	KUNIT_EXPECT_NE(test, attr.grh.hop_limit, 0);

	KUNIT_EXPECT_EQ(test, ib_init_ah_from_wc(rig->b.dev, rig->b.dev->phys_port_cnt + 1, &wc,
						 grh, &attr), -EINVAL);
	wc.wc_flags &= ~IB_WC_GRH;
	KUNIT_EXPECT_EQ(test, ib_init_ah_from_wc(rig->b.dev, rig->b.port, &wc, grh, &attr),
			rdma_protocol_roce(rig->b.dev, rig->b.port) ? -EPROTOTYPE : 0);
}

/* Only a header of IPv6 has class and flow label in the place of a GRH. */
static void r17_init_ah_from_wc_ipv6(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_grh *grh = (struct ib_grh *)rig->b.buf;
	struct ib_ah_attr attr;
	struct ib_wc wc;

	if (!use_ipv6(&rig->a) || !use_ipv6(&rig->b))
		kunit_skip(test, "no IPv6 addresses");
	wc = a_to_b(test, rig);
	KUNIT_ASSERT_EQ(test, ib_init_ah_from_wc(rig->b.dev, rig->b.port, &wc, grh, &attr), 0);
	KUNIT_EXPECT_MEMEQ(test, attr.grh.dgid.raw, rig->a.gid.raw, 16);
	KUNIT_EXPECT_EQ(test, attr.grh.sgid_index, rig->b.gid_index);
	KUNIT_EXPECT_EQ(test, attr.grh.traffic_class, 3);
	/* A provider may send another label than that of the address. */
	KUNIT_EXPECT_EQ(test, attr.grh.flow_label,
			be32_to_cpu(grh->version_tclass_flow) & 0xfffff);
}

static void r18_create_ah_from_wc(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_wc wc = a_to_b(test, rig);
	struct ib_sge back = sge_of(&rig->b, PAGE_SIZE, 32), to = sge_of(&rig->a, PAGE_SIZE, 256);
	struct ib_ah *ah;

	ah = ib_create_ah_from_wc(rig->b.pd, &wc, (struct ib_grh *)rig->b.buf, rig->b.port);
	rig_own(test, O_AH, ah);
	KUNIT_ASSERT_EQ(test, post_recv(rig->a.qp, 5, &to), 0);
	memset(rig->b.buf + PAGE_SIZE, 0x99, 32);
	KUNIT_ASSERT_EQ(test, post_ud(rig->b.qp, 1, &back, ah, wc.src_qp), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rig->a.buf[PAGE_SIZE + GRH], 0x99);
}

static void r19_modify_ah(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_sge from = sge_of(&rig->a, 0, 32), own = sge_of(&rig->a, PAGE_SIZE, 256);
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b);
	struct ib_ah *ah = ah_to(test, &rig->a, &rig->a);
	struct ib_qp *other;
	struct ib_wc wc;

	/* To a second queue pair of A first, then to B. */
	other = rig_qp(test, &rig->a, IB_QPT_UD, NULL);
	KUNIT_ASSERT_EQ(test, to_init(other, rig->a.port, 0), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->a, other, &rig->a, 0, &LINK_DEFAULT), 0);
	KUNIT_ASSERT_EQ(test, post_recv(other, 7, &own), 0);
	KUNIT_EXPECT_EQ(test, post_ud(rig->a.qp, 1, &from, ah, other->qp_num), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);

	KUNIT_EXPECT_EQ(test, ib_modify_ah(ah, &path), 0);
	KUNIT_EXPECT_EQ(test, post_ud(rig->a.qp, 1, &from, ah, rig->b.qp->qp_num), 0);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	path.port_num = rig->a.dev->phys_port_cnt + 1;
	KUNIT_EXPECT_EQ(test, ib_modify_ah(ah, &path), -EINVAL);
}

/* 239.1.2.3. A host drops what is sent to groups that it is no member of. */
static const union ib_gid group = {
	.raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 },
};

static void need_ipv4(struct kunit *test, struct rig *rig)
{
	if (!ipv6_addr_v4mapped((struct in6_addr *)rig->b.gid.raw))
		kunit_skip(test, "no IPv4 address");
	KUNIT_ASSERT_EQ(test, host_membership(&rig->b, &group, true), 0);
}

static void leave_group(struct kunit *test, struct rig *rig)
{
	KUNIT_EXPECT_EQ(test, host_membership(&rig->b, &group, false), 0);
}

static int post_group(struct kunit *test, struct rig *rig)
{
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b);
	struct ib_sge from = sge_of(&rig->a, 0, 32);
	struct ib_ah *ah;
	int ret;

	path.grh.dgid = group;
	ah = ib_create_ah(rig->a.pd, &path);
	rig_own(test, O_AH, ah);
	ret = post_ud(rig->a.qp, 1, &from, ah, IB_MULTICAST_QPN);
	return ret ?: wait_status(rig->a.scq);
}

static void r58_attach_mcast(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_qp *rc = rig_qp(test, &rig->b, IB_QPT_RC, NULL);
	union ib_gid gid = group;
	struct ib_wc wc;

	need_ipv4(test, rig);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(rc, &gid, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(rig->b.qp, &rig->b.gid, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, ib_attach_mcast(rig->b.qp, &gid, 0), 0);
	/* A member can join again, and cannot be destroyed. */
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(rig->b.qp, &gid, 0), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(rig->b.qp), -EBUSY);

	KUNIT_EXPECT_EQ(test, post_group(test, rig), IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(rig->b.qp, &gid, 0), 0);
	/* The core counts calls, a driver members: the second call stays counted. */
	if (ib_detach_mcast(rig->b.qp, &gid, 0))
		atomic_dec(&rig->b.qp->usecnt);
	leave_group(test, rig);
}

static void r59_detach_mcast(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_sge to = sge_of(&rig->b, 0, GRH + 256);
	union ib_gid gid = group;
	struct ib_wc wc;

	need_ipv4(test, rig);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(rig->b.qp, &gid, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, ib_attach_mcast(rig->b.qp, &gid, 0), 0);
	KUNIT_EXPECT_EQ(test, post_group(test, rig), IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 2, &to), 0);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(rig->b.qp, &gid, 0), 0);
	KUNIT_EXPECT_EQ(test, post_group(test, rig), IB_WC_SUCCESS);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 200));
	KUNIT_EXPECT_EQ(test, rig_drop(test, rig->b.qp), 0);
	leave_group(test, rig);
}

static void x02_mcast_needs_rtr(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_UD);
	struct ib_sge to = sge_of(&rig->b, 0, GRH + 256);
	union ib_gid gid = group;
	struct ib_wc wc;

	need_ipv4(test, rig);
	KUNIT_ASSERT_EQ(test, to_init(rig->a.qp, rig->a.port, 0), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->a, rig->a.qp, &rig->b, 0, &LINK_DEFAULT), 0);
	KUNIT_ASSERT_EQ(test, to_rts(rig->a.qp, &LINK_DEFAULT), 0);
	KUNIT_ASSERT_EQ(test, to_init(rig->b.qp, rig->b.port, 0), 0);
	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	KUNIT_ASSERT_EQ(test, ib_attach_mcast(rig->b.qp, &gid, 0), 0);
	/* In INIT what arrives is dropped. */
	KUNIT_EXPECT_EQ(test, post_group(test, rig), IB_WC_SUCCESS);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 200));
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->b, rig->b.qp, &rig->a, 0, &LINK_DEFAULT), 0);
	KUNIT_EXPECT_EQ(test, post_group(test, rig), IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(rig->b.qp, &gid, 0), 0);
	leave_group(test, rig);
}

static void x03_ud_is_datagram(struct kunit *test)
{
	struct rig *rig = ud_pair(test);
	struct ib_ah *ah = ah_to(test, &rig->a, &rig->b);
	struct ib_sge large = sge_of(&rig->a, 0, 3 * PAGE_SIZE), small = sge_of(&rig->a, 0, 32);
	struct ib_sge tiny = sge_of(&rig->b, 0, GRH + 16);
	struct ib_wc wc;

	/* More than an MTU: nobody gets it, and a good provider tells the sender. */
	KUNIT_ASSERT_EQ(test, post_ud(rig->a.qp, 1, &large, ah, rig->b.qp->qp_num), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), is_stock_rxe(rig->a.dev) ?
			IB_WC_SUCCESS : IB_WC_LOC_LEN_ERR);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 200));
	if (!is_stock_rxe(rig->a.dev)) {
		KUNIT_ASSERT_EQ(test, to_state(rig->a.qp, IB_QPS_RESET), 0);
		KUNIT_ASSERT_EQ(test, to_init(rig->a.qp, rig->a.port, 0), 0);
		KUNIT_ASSERT_EQ(test, to_rtr(&rig->a, rig->a.qp, &rig->b, 0, &LINK_DEFAULT), 0);
		KUNIT_ASSERT_EQ(test, to_rts(rig->a.qp, &LINK_DEFAULT), 0);
	}
	/* The buffer must hold 40 bytes and the payload; here it does. */
	KUNIT_ASSERT_EQ(test, post_ud(rig->a.qp, 1, &small, ah, rig->b.qp->qp_num), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	/* Here it does not: the payload does not arrive whole and well. */
	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 2, &tiny), 0);
	KUNIT_ASSERT_EQ(test, post_ud(rig->a.qp, 1, &small, ah, rig->b.qp->qp_num), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	if (wait_wc(rig->b.rcq, &wc, 500))
		KUNIT_EXPECT_NE(test, wc.status, IB_WC_SUCCESS);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r17_init_ah_from_wc),
	KUNIT_CASE(r17_init_ah_from_wc_ipv6),
	KUNIT_CASE(r18_create_ah_from_wc),
	KUNIT_CASE(r19_modify_ah),
	KUNIT_CASE(r58_attach_mcast),
	KUNIT_CASE(r59_detach_mcast),
	KUNIT_CASE(x02_mcast_needs_rtr),
	KUNIT_CASE(x03_ud_is_datagram),
	{}
};

RIG_SUITE(datagram_suite, "classic_datagram", cases);
