// SPDX-License-Identifier: GPL-2.0
/* Small promises of single calls, with devices that lack something. */
#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <kunit/device.h>
#include <rdma/ib_cache.h>

#include "core_test.h"

static struct ib_device *device_without(struct kunit *test, u32 without)
{
	const struct ib_fake_config config = { .name = "core%d", .without = without };
	struct ib_device *dev = ib_fake_create(&config);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	return dev;
}

static void ports_and_attributes(struct kunit *test)
{
	const struct ib_fake_config config = { .name = "core%d", .ports = 3 };
	struct ib_device *dev = ib_fake_create(&config);
	struct ib_port_attr attr;
	u32 port;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	for (port = 1; port <= 3; port++) {
		memset(&attr, 0xff, sizeof(attr));
		KUNIT_EXPECT_EQ(test, ib_query_port(dev, port, &attr), 0);
		/* What the driver does not set is zero. */
		KUNIT_EXPECT_EQ(test, attr.bad_pkey_cntr, 0);
		KUNIT_EXPECT_EQ(test, attr.init_type_reply, 0);
		KUNIT_EXPECT_EQ(test, attr.subnet_prefix, 0xfe80000000000000ULL);
	}
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 0, &attr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 4, &attr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, U32_MAX, &attr), -EINVAL);
	ib_fake_fail(dev, IB_FAKE_QUERY_PORT, 1, -EIO);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 2, &attr), -EIO);
	KUNIT_EXPECT_EQ(test, (int)rdma_port_get_link_layer(dev, 1),
			(int)IB_LINK_LAYER_INFINIBAND);
	ib_fake_destroy(dev);
}

static void partition_keys(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	const struct ib_fake_config iwarp = { .name = "core%d", .protocol = IB_FAKE_IWARP,
					      .netdev = core_netdev(test, 9) };
	struct ib_device *without = ib_fake_create(&iwarp);
	u16 pkey = 0, index = 0;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, without);
	KUNIT_EXPECT_EQ(test, ib_query_pkey(dev, 1, 0, &pkey), 0);
	KUNIT_EXPECT_EQ(test, pkey, 0xffff);
	KUNIT_EXPECT_EQ(test, ib_query_pkey(dev, 1, 4, &pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_pkey(dev, 0, 0, &pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_pkey(dev, 2, 0, &pkey), -EINVAL);
	/* iWARP has no partitions, and its drivers no such operation. */
	KUNIT_EXPECT_EQ(test, ib_query_pkey(without, 1, 0, &pkey), -EOPNOTSUPP);

	/* The limited member comes first in the table; the full one is preferred. */
	KUNIT_EXPECT_EQ(test, ib_fake_set_pkey(dev, 1, 1, 0x0123), 0);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x8123, &index), 0);
	KUNIT_EXPECT_EQ(test, index, 1);
	KUNIT_EXPECT_EQ(test, ib_fake_set_pkey(dev, 1, 3, 0x8123), 0);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x0123, &index), 0);
	KUNIT_EXPECT_EQ(test, index, 3);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x0456, &index), -ENOENT);
	ib_fake_destroy(without);
}

static void gids_by_value(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	const union ib_gid nobody = { .raw = { 0xfd, [15] = 99 } };
	union ib_gid gid;
	u16 index = 9;
	u32 port = 9;

	KUNIT_EXPECT_EQ(test, rdma_query_gid(dev, 1, 0, &gid), 0);
	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, &gid, &port, &index), 0);
	KUNIT_EXPECT_EQ(test, port, 1);
	KUNIT_EXPECT_EQ(test, index, 0);
	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, &gid, &port, NULL), 0);
	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, (union ib_gid *)&nobody, &port, &index), -ENOENT);
}

static void groups(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_device *without = device_without(test, IB_FAKE_NO_MCAST);
	union ib_gid group = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 7 } };
	union ib_gid no_group = { .raw = { 0xfd, [15] = 7 } };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_pd *pd = ib_alloc_pd(dev, 0), *pd2 = ib_alloc_pd(without, 0);
	struct ib_cq *cq = ib_alloc_cq(dev, NULL, 8, 0, IB_POLL_DIRECT);
	struct ib_cq *cq2 = ib_alloc_cq(without, NULL, 8, 0, IB_POLL_DIRECT);
	struct ib_qp *ud, *rc, *ud2;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd2);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq2);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	ud = ib_create_qp(pd, &attr);
	attr.send_cq = cq2;
	attr.recv_cq = cq2;
	ud2 = ib_create_qp(pd2, &attr);
	rc = core_qp(test, pd, cq, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ud);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ud2);

	ib_fake_clear_calls(dev);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(rc, &group, 0xc001), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(ud, &no_group, 0xc001), -EINVAL);
	/* On InfiniBand the LID is that of a group, too. */
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(ud, &group, 7), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(rc, &group, 0xc001), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(ud, &no_group, 0xc001), -EINVAL);
	/* The driver was asked nothing of all that. */
	KUNIT_EXPECT_EQ(test, ib_fake_calls(dev, IB_FAKE_ATTACH_MCAST), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(dev, IB_FAKE_DETACH_MCAST), 0);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(ud2, &group, 0xc001), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(ud2, &group, 0xc001), -EOPNOTSUPP);

	ib_fake_fail(dev, IB_FAKE_ATTACH_MCAST, 1, -ENOMEM);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(ud, &group, 0xc001), -ENOMEM);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(ud, &group, 0xc001), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(ud), -EBUSY);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(ud, &group, 0xc001), 0);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(ud, &group, 0xc001), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(ud), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(rc), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(ud2), 0);
	ib_free_cq(cq);
	ib_free_cq(cq2);
	ib_dealloc_pd(pd);
	ib_dealloc_pd(pd2);
	ib_fake_destroy(without);
}

static void errors_of_mappings(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct device *real = kunit_device_register(test, "core_test");
	struct ib_device *hardware = kunit_kzalloc(test, sizeof(*hardware), GFP_KERNEL);
	void *memory = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	u64 addr;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, real);
	KUNIT_ASSERT_NOT_NULL(test, hardware);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	/* Without a DMA device there is nothing that could fail. */
	KUNIT_EXPECT_TRUE(test, ib_uses_virt_dma(dev));
	addr = ib_dma_map_single(dev, memory, PAGE_SIZE, DMA_TO_DEVICE);
	KUNIT_EXPECT_EQ(test, addr, (u64)(uintptr_t)memory);
	KUNIT_EXPECT_EQ(test, ib_dma_mapping_error(dev, addr), 0);
	ib_dma_unmap_single(dev, addr, PAGE_SIZE, DMA_TO_DEVICE);
	/* With one, its errors are told. */
	hardware->dma_device = real;
	KUNIT_EXPECT_FALSE(test, ib_uses_virt_dma(hardware));
	KUNIT_EXPECT_NE(test, ib_dma_mapping_error(hardware, DMA_MAPPING_ERROR), 0);
}

/* For each state that is a step too far: refused, and nothing has changed. */
static void changes_of_state(struct kunit *test)
{
	static const enum ib_qp_state refused[] = { IB_QPS_RTR, IB_QPS_RTS, IB_QPS_SQD,
						       IB_QPS_SQE };
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct ib_cq *cq;
	struct ib_qp *qp;
	int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	cq = ib_alloc_cq(dev, NULL, 8, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	qp = core_qp(test, pd, cq, 1);
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		KUNIT_EXPECT_EQ(test, core_qp_state(qp, refused[i]), -EINVAL);
		KUNIT_EXPECT_EQ(test, ib_query_qp(qp, &attr, IB_QP_STATE, &init), 0);
		KUNIT_EXPECT_EQ(test, (int)attr.qp_state, (int)IB_QPS_INIT);
	}
	/* A state of their own for those who believe in another one. */
	attr = (struct ib_qp_attr){ .qp_state = IB_QPS_ERR, .cur_qp_state = IB_QPS_RTS };
	KUNIT_EXPECT_EQ(test, ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE), -EINVAL);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_INIT), -EINVAL);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_ERR), -EINVAL);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_INIT), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	ib_free_cq(cq);
	ib_dealloc_pd(pd);
}

static struct kunit_case core_rows_cases[] = {
	KUNIT_CASE(ports_and_attributes),
	KUNIT_CASE(partition_keys),
	KUNIT_CASE(gids_by_value),
	KUNIT_CASE(groups),
	KUNIT_CASE(errors_of_mappings),
	KUNIT_CASE(changes_of_state),
	{}
};

struct kunit_suite core_rows_suite = {
	.name = "ib_core_calls",
	.test_cases = core_rows_cases,
};
