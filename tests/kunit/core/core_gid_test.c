// SPDX-License-Identifier: GPL-2.0
/* Who keeps an entry of a GID table, and for how long. */
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_cache.h>

#include "core_test.h"

static union ib_gid gid_of(u8 last)
{
	return (union ib_gid){ .raw = { 0xfd, [15] = last } };
}

static bool is_cached(struct ib_device *dev, int index, const union ib_gid *want)
{
	union ib_gid gid;

	return !rdma_query_gid(dev, 1, index, &gid) && !memcmp(&gid, want, sizeof(gid));
}

/* Gives port 1 a GID, and waits until the core has seen it; zeroes take it away. */
static void set_gid(struct kunit *test, struct ib_device *dev, int index, const union ib_gid *gid)
{
	static const union ib_gid none;
	union ib_gid now;

	KUNIT_ASSERT_EQ(test, ib_fake_set_gid(dev, 1, index, gid), 0);
	ib_fake_event(dev, 1, IB_EVENT_GID_CHANGE);
	if (memcmp(gid, &none, sizeof(none)))
		KUNIT_ASSERT_TRUE(test, core_wait_for(is_cached(dev, index, gid)));
	else
		KUNIT_ASSERT_TRUE(test, core_wait_for(rdma_query_gid(dev, 1, index, &now)));
}

static void what_a_query_says(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	union ib_gid gid;

	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, 0, &gid), 0);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, 1, &gid), -ENOENT);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, 4, &gid), -EINVAL);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, -1, &gid), -EINVAL);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 0, 0, &gid), -EINVAL);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 2, 0, &gid), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(rdma_get_gid_attr(dev, 1, 1)), -ENODATA);
	KUNIT_EXPECT_EQ(test, PTR_ERR(rdma_get_gid_attr(dev, 1, 4)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(rdma_get_gid_attr(dev, 2, 0)), -EINVAL);
}

static void an_address_handle_keeps_its_gid(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_IB, .port_num = 1 };
	const union ib_gid mine = gid_of(1), other = gid_of(2), none = {};
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_ah *ah;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	set_gid(test, dev, 1, &mine);
	rdma_ah_set_grh(&attr, (union ib_gid *)&other, 0, 1, 64, 0);
	rdma_ah_set_dlid(&attr, 7);
	ah = rdma_create_ah(pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah->sgid_attr);

	/* The port loses the GID, and another moves in. */
	set_gid(test, dev, 1, &none);
	KUNIT_EXPECT_MEMEQ(test, &ah->sgid_attr->gid, &mine, sizeof(mine));
	set_gid(test, dev, 1, &other);
	KUNIT_EXPECT_MEMEQ(test, &ah->sgid_attr->gid, &mine, sizeof(mine));
	KUNIT_EXPECT_EQ(test, (int)ah->sgid_attr->index, 1);
	/* It is not to be had any more otherwise. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(rdma_find_gid(dev, &mine, IB_GID_TYPE_IB, NULL)), -ENOENT);

	/* A change to the new one lets go of the old one. */
	rdma_ah_set_grh(&attr, (union ib_gid *)&other, 0, 1, 64, 0);
	KUNIT_EXPECT_EQ(test, rdma_modify_ah(ah, &attr), 0);
	KUNIT_EXPECT_MEMEQ(test, &ah->sgid_attr->gid, &other, sizeof(other));
	/* A change that the driver refuses does not. */
	set_gid(test, dev, 2, &mine);
	rdma_ah_set_grh(&attr, (union ib_gid *)&other, 0, 2, 64, 0);
	ib_fake_fail(dev, IB_FAKE_MODIFY_AH, 1, -EAGAIN);
	KUNIT_EXPECT_EQ(test, rdma_modify_ah(ah, &attr), -EAGAIN);
	KUNIT_EXPECT_MEMEQ(test, &ah->sgid_attr->gid, &other, sizeof(other));
	/* Nor does one of another kind of address. */
	attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	KUNIT_EXPECT_EQ(test, rdma_modify_ah(ah, &attr), -EINVAL);
	/* One that the driver does not give up stays as it is. */
	ib_fake_fail(dev, IB_FAKE_DESTROY_AH, 1, -EAGAIN);
	KUNIT_EXPECT_EQ(test, rdma_destroy_ah_user(ah, RDMA_DESTROY_AH_SLEEPABLE, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_MEMEQ(test, &ah->sgid_attr->gid, &other, sizeof(other));
	KUNIT_EXPECT_EQ(test, rdma_destroy_ah_user(ah, RDMA_DESTROY_AH_SLEEPABLE, NULL), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
	ib_dealloc_pd(pd);
	/* A reference that nobody gave back would be reported with the device. */
}

static void a_queue_pair_keeps_its_gid(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	const union ib_gid mine = gid_of(1), none = {};
	const struct ib_gid_attr *held;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = 9,
		.min_rnr_timer = 12,
		.ah_attr = { .type = RDMA_AH_ATTR_TYPE_IB, .port_num = 1 },
	};
	const int mask = IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			 IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_cq *cq;
	struct ib_qp *qp;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	cq = ib_alloc_cq(dev, NULL, 16, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	qp = core_qp(test, pd, cq, 4);
	set_gid(test, dev, 1, &mine);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&mine, 0, 1, 64, 0);
	rdma_ah_set_dlid(&attr.ah_attr, 7);
	/* A change that fails keeps nothing. */
	ib_fake_fail(dev, IB_FAKE_MODIFY_QP, 1, -EAGAIN);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(qp, &attr, mask), -EAGAIN);
	KUNIT_EXPECT_PTR_EQ(test, qp->av_sgid_attr, NULL);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(qp, &attr, mask), 0);
	held = qp->av_sgid_attr;
	KUNIT_ASSERT_NOT_NULL(test, held);
	set_gid(test, dev, 1, &none);
	KUNIT_EXPECT_MEMEQ(test, &held->gid, &mine, sizeof(mine));
	/* The path cannot be set anew with what is gone. */
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&mine, 0, 1, 64, 0);
	KUNIT_EXPECT_LT(test, ib_modify_qp(qp, &attr, mask), 0);
	KUNIT_EXPECT_PTR_EQ(test, qp->av_sgid_attr, held);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	ib_free_cq(cq);
	ib_dealloc_pd(pd);
}

static void vectors_hand_references_on(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct rdma_ah_attr one = { .type = RDMA_AH_ATTR_TYPE_IB, .port_num = 1 };
	struct rdma_ah_attr two = one, three = one;
	const union ib_gid mine = gid_of(1), none = {};
	const struct ib_gid_attr *held;

	set_gid(test, dev, 1, &mine);
	held = rdma_get_gid_attr(dev, 1, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, held);
	/* The vector takes the reference over. */
	rdma_move_grh_sgid_attr(&one, (union ib_gid *)&mine, 0, 64, 0, held);
	KUNIT_EXPECT_PTR_EQ(test, one.grh.sgid_attr, held);
	rdma_copy_ah_attr(&two, &one);
	KUNIT_EXPECT_PTR_EQ(test, two.grh.sgid_attr, held);
	rdma_move_ah_attr(&three, &one);
	KUNIT_EXPECT_PTR_EQ(test, one.grh.sgid_attr, NULL);
	KUNIT_EXPECT_PTR_EQ(test, three.grh.sgid_attr, held);
	set_gid(test, dev, 1, &none);
	rdma_destroy_ah_attr(&three);
	KUNIT_EXPECT_PTR_EQ(test, three.grh.sgid_attr, NULL);
	/* The copy has one of its own. */
	KUNIT_EXPECT_MEMEQ(test, &two.grh.sgid_attr->gid, &mine, sizeof(mine));
	rdma_replace_ah_attr(&two, &three);
	KUNIT_EXPECT_PTR_EQ(test, two.grh.sgid_attr, NULL);
	/* Twice does no harm. */
	rdma_destroy_ah_attr(&two);
	rdma_destroy_ah_attr(&two);
}

struct race {
	struct ib_device *dev;
	bool stop;
	atomic_t wrong;
	atomic_t found;
};

static void take_and_put(void *arg)
{
	struct race *race = arg;

	while (!READ_ONCE(race->stop)) {
		const struct ib_gid_attr *attr = rdma_get_gid_attr(race->dev, 1, 1);

		if (!IS_ERR(attr)) {
			union ib_gid first = attr->gid;

			rdma_hold_gid_attr(attr);
			rdma_put_gid_attr(attr);
			cond_resched();
			/* It does not change as long as it is held. */
			if (memcmp(&first, &attr->gid, sizeof(first)) || attr->index != 1)
				atomic_inc(&race->wrong);
			rdma_put_gid_attr(attr);
			atomic_inc(&race->found);
		}
		attr = rdma_find_gid_by_port(race->dev, &(union ib_gid){ .raw = { 0xfd,
					     [15] = 3 } }, IB_GID_TYPE_IB, 1, NULL);
		if (!IS_ERR(attr)) {
			if (attr->gid.raw[15] != 3)
				atomic_inc(&race->wrong);
			rdma_put_gid_attr(attr);
		}
		cond_resched();
	}
}

static void entries_change_under_readers(struct kunit *test)
{
	struct race race = { .dev = core_device(test, "core%d") };
	struct core_task threads[3];
	union ib_gid gid;
	int i;

	for (i = 0; i < ARRAY_SIZE(threads); i++)
		KUNIT_ASSERT_EQ(test, core_start(&threads[i], take_and_put, &race), 0);
	for (i = 0; i < 300; i++) {
		gid = i % 5 ? gid_of(i % 5) : (union ib_gid){};
		ib_fake_set_gid(race.dev, 1, 1, &gid);
		ib_fake_event(race.dev, 1, IB_EVENT_GID_CHANGE);
		usleep_range(500, 1500);
	}
	KUNIT_EXPECT_TRUE(test, core_wait_for(is_cached(race.dev, 1, &gid)));
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&race.found) > 0));
	WRITE_ONCE(race.stop, true);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		KUNIT_EXPECT_TRUE(test, core_join(&threads[i]));
	KUNIT_EXPECT_EQ(test, atomic_read(&race.wrong), 0);
}

static int set_mac(struct net_device *netdev, u8 last)
{
	struct sockaddr_storage mac = { .ss_family = netdev->type };
	int ret;

	memcpy(mac.__data, (u8[]){ 2, 0, 0, 0, 0, last }, ETH_ALEN);
	rtnl_lock();
	ret = dev_set_mac_address(netdev, &mac, NULL);
	rtnl_unlock();
	return ret;
}

static bool is_last_byte(struct ib_device *dev, int index, u8 last)
{
	union ib_gid gid;

	return !rdma_query_gid(dev, 1, index, &gid) && gid.raw[15] == last;
}

static void end_device(void *dev)
{
	ib_fake_destroy(dev);
}

/* How often the driver was told to do that with the first GID of port 1. */
static int told_of_first(struct ib_device *dev, enum ib_fake_op op)
{
	struct ib_fake_call call;
	int i, found = 0;

	for (i = 0; !ib_fake_call_at(dev, i, &call); i++)
		found += call.op == op && call.args[0] == 1 && call.args[1] == 0;
	return found;
}

/*
 * On Ethernet a GID goes with the address that it comes from, and the driver is told at once.
 * Its place in the table is free when the last reference is gone, not before.
 */
static void a_roce_gid_keeps_its_place(struct kunit *test)
{
	struct ib_fake_config config = { .name = "core%d", .protocol = IB_FAKE_ROCE };
	struct net_device *netdev = core_netdev(test, 1);
	const struct ib_gid_attr *held;
	struct ib_device *dev;
	union ib_gid gid, second;

	config.netdev = netdev;
	dev = ib_fake_create(&config);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_device, dev), 0);
	/* The first two are those of the MAC address, one for each version of RoCE. */
	KUNIT_ASSERT_TRUE(test, core_wait_for(!rdma_query_gid(dev, 1, 1, &second)));
	KUNIT_ASSERT_EQ(test, rdma_query_gid(dev, 1, 0, &gid), 0);
	KUNIT_EXPECT_MEMEQ(test, &gid, &second, sizeof(gid));
	KUNIT_EXPECT_EQ(test, gid.raw[0], 0xfe);
	KUNIT_EXPECT_EQ(test, gid.raw[15], 1);
	held = rdma_get_gid_attr(dev, 1, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(held));

	ib_fake_clear_calls(dev);
	KUNIT_EXPECT_EQ(test, set_mac(netdev, 2), 0);
	KUNIT_EXPECT_TRUE(test, core_wait_for(is_last_byte(dev, 1, 2)));
	KUNIT_EXPECT_EQ(test, told_of_first(dev, IB_FAKE_DEL_GID), 1);
	KUNIT_EXPECT_EQ(test, told_of_first(dev, IB_FAKE_ADD_GID), 0);
	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, 0, &gid), -ENOENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR(rdma_get_gid_attr(dev, 1, 0)), -ENODATA);
	/* Whoever has it still sees what it was, without the network device. */
	KUNIT_EXPECT_EQ(test, held->gid.raw[15], 1);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(held->ndev), NULL);

	/* What found no place meanwhile comes then, without another event. */
	rdma_put_gid_attr(held);
	KUNIT_EXPECT_TRUE(test, core_wait_for(is_last_byte(dev, 0, 2)));
	KUNIT_EXPECT_EQ(test, told_of_first(dev, IB_FAKE_DEL_GID), 1);
	KUNIT_EXPECT_EQ(test, told_of_first(dev, IB_FAKE_ADD_GID), 1);
}

static struct kunit_case core_gid_cases[] = {
	KUNIT_CASE(what_a_query_says),
	KUNIT_CASE(an_address_handle_keeps_its_gid),
	KUNIT_CASE(a_queue_pair_keeps_its_gid),
	KUNIT_CASE(vectors_hand_references_on),
	KUNIT_CASE_SLOW(entries_change_under_readers),
	KUNIT_CASE(a_roce_gid_keeps_its_place),
	{}
};

struct kunit_suite core_gid_suite = {
	.name = "ib_core_gids",
	.test_cases = core_gid_cases,
};
