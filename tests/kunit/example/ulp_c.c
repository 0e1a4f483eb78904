// SPDX-License-Identifier: GPL-2.0
#include <kunit/test.h>
#include <linux/module.h>
#include <rdma/ib_fake.h>

/* What is tested: takes a domain and a queue, or leaves nothing behind. */
static int ulp_start(struct ib_device *device, struct ib_pd **pd, struct ib_cq **cq)
{
	*pd = ib_alloc_pd(device, 0);
	if (IS_ERR(*pd))
		return PTR_ERR(*pd);
	*cq = ib_alloc_cq(device, NULL, 16, 0, IB_POLL_WORKQUEUE);
	if (!IS_ERR(*cq))
		return 0;
	ib_dealloc_pd(*pd);
	return PTR_ERR(*cq);
}

static void start_without_a_queue(struct kunit *test)
{
	struct ib_fake_config config = { .protocol = IB_FAKE_INFINIBAND };
	struct ib_device *device = ib_fake_create(&config);
	u32 domains, queues;
	struct ib_pd *pd;
	struct ib_cq *cq;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, device);
	domains = ib_fake_objects(device, IB_FAKE_ALLOC_PD);
	queues = ib_fake_calls(device, IB_FAKE_CREATE_CQ);
	ib_fake_fail(device, IB_FAKE_CREATE_CQ, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, ulp_start(device, &pd, &cq), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(device, IB_FAKE_CREATE_CQ), queues + 1);
	KUNIT_EXPECT_EQ(test, ib_fake_objects(device, IB_FAKE_ALLOC_PD), domains);
	ib_fake_destroy(device);
}

static struct kunit_case cases[] = { KUNIT_CASE(start_without_a_queue), {} };
static struct kunit_suite suite = { .name = "example_ulp_c", .test_cases = cases };
kunit_test_suite(suite);

MODULE_DESCRIPTION("Example of a ULP's test on a fake device");
MODULE_LICENSE("GPL");
