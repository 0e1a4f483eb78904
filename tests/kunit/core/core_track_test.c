// SPDX-License-Identifier: GPL-2.0
/* The book of what there is on a device. */
#include <rdma/restrack.h>

#include "core_test.h"

static const enum rdma_restrack_type types[] = {
	RDMA_RESTRACK_PD, RDMA_RESTRACK_CQ, RDMA_RESTRACK_QP, RDMA_RESTRACK_MR, RDMA_RESTRACK_SRQ,
	RDMA_RESTRACK_CM_ID, RDMA_RESTRACK_CTX, RDMA_RESTRACK_COUNTER,
};

static void count(struct ib_device *dev, u32 counts[])
{
	int i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		counts[i] = rdma_restrack_count(dev, types[i], true);
}

/* Looks an entry up and lets it go. */
static bool is_there(struct ib_device *dev, enum rdma_restrack_type type, u32 id)
{
	struct rdma_restrack_entry *res = rdma_restrack_get_byid(dev, type, id);

	if (IS_ERR(res))
		return false;
	rdma_restrack_put(res);
	return true;
}

static void expect_entry(struct kunit *test, struct ib_device *dev, enum rdma_restrack_type type,
			 struct rdma_restrack_entry *want)
{
	struct rdma_restrack_entry *res = rdma_restrack_get_byid(dev, type, want->id);

	KUNIT_ASSERT_FALSE(test, IS_ERR(res));
	KUNIT_EXPECT_PTR_EQ(test, res, want);
	KUNIT_EXPECT_EQ(test, (int)res->type, (int)type);
	KUNIT_EXPECT_TRUE(test, res->valid);
	KUNIT_EXPECT_TRUE(test, rdma_is_kernel_res(res));
	KUNIT_EXPECT_STREQ(test, res->kern_name, KBUILD_MODNAME);
	KUNIT_EXPECT_PTR_EQ(test, res->task, NULL);
	rdma_restrack_put(res);
}

static void every_object_has_an_entry(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	u32 before[ARRAY_SIZE(types)], now[ARRAY_SIZE(types)];
	struct ib_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_srq *srq;
	struct ib_mr *mr;
	u32 qpn, mr_id;

	count(dev, before);
	/* Those of the MAD layer are tracked, too. */
	KUNIT_EXPECT_GE(test, before[0], 1);
	pd = ib_alloc_pd(dev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	cq = ib_alloc_cq(dev, NULL, 16, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	qp = core_qp(test, pd, cq, 4);
	srq = ib_create_srq(pd, &srq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, srq);
	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 4);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	count(dev, now);
	KUNIT_EXPECT_EQ(test, now[0], before[0] + 1);
	KUNIT_EXPECT_EQ(test, now[1], before[1] + 1);
	KUNIT_EXPECT_EQ(test, now[2], before[2] + 1);
	KUNIT_EXPECT_EQ(test, now[3], before[3] + 1);
	KUNIT_EXPECT_EQ(test, now[4], before[4] + 1);
	expect_entry(test, dev, RDMA_RESTRACK_PD, &pd->res);
	expect_entry(test, dev, RDMA_RESTRACK_CQ, &cq->res);
	expect_entry(test, dev, RDMA_RESTRACK_QP, &qp->res);
	expect_entry(test, dev, RDMA_RESTRACK_SRQ, &srq->res);
	expect_entry(test, dev, RDMA_RESTRACK_MR, &mr->res);
	/* A queue pair is known by its number. */
	KUNIT_EXPECT_EQ(test, qp->res.id, qp->qp_num);
	qpn = qp->qp_num;
	mr_id = mr->res.id;

	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	KUNIT_EXPECT_FALSE(test, is_there(dev, RDMA_RESTRACK_QP, qpn));
	KUNIT_EXPECT_FALSE(test, is_there(dev, RDMA_RESTRACK_MR, mr_id));
	ib_destroy_srq(srq);
	ib_free_cq(cq);
	ib_dealloc_pd(pd);
	count(dev, now);
	KUNIT_EXPECT_MEMEQ(test, now, before, sizeof(now));
}

static void numbers_are_not_used_again_at_once(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	u32 last = 0;
	int i;

	for (i = 0; i < 50; i++) {
		struct ib_pd *pd = ib_alloc_pd(dev, 0);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
		if (i)
			KUNIT_EXPECT_EQ(test, pd->res.id, last + 1);
		last = pd->res.id;
		KUNIT_EXPECT_TRUE(test, is_there(dev, RDMA_RESTRACK_PD, last));
		ib_dealloc_pd(pd);
		KUNIT_EXPECT_FALSE(test, is_there(dev, RDMA_RESTRACK_PD, last));
	}
	KUNIT_EXPECT_FALSE(test, is_there(dev, RDMA_RESTRACK_PD, U32_MAX));
	KUNIT_EXPECT_FALSE(test, is_there(dev, RDMA_RESTRACK_CM_ID, 0));
}

static void what_was_refused_is_not_there(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	u32 before[ARRAY_SIZE(types)], now[ARRAY_SIZE(types)];
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};
	struct ib_qp *qp;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	attr.send_cq = ib_alloc_cq(dev, NULL, 16, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, attr.send_cq);
	attr.recv_cq = attr.send_cq;
	count(dev, before);
	ib_fake_fail(dev, IB_FAKE_ALLOC_PD, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_pd(dev, 0)), -ENOSPC);
	ib_fake_fail(dev, IB_FAKE_GET_DMA_MR, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_pd(dev, 0)), -ENOSPC);
	ib_fake_fail(dev, IB_FAKE_CREATE_CQ, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_cq(dev, NULL, 4, 0, IB_POLL_DIRECT)), -ENOSPC);
	ib_fake_fail(dev, IB_FAKE_CREATE_QP, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_qp(pd, &attr)), -ENOSPC);
	ib_fake_fail(dev, IB_FAKE_ALLOC_MR, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 4)), -ENOSPC);
	count(dev, now);
	KUNIT_EXPECT_MEMEQ(test, now, before, sizeof(now));
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);

	/* One that the driver keeps is there still, and can be ended later. */
	qp = ib_create_qp(pd, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp);
	ib_fake_fail(dev, IB_FAKE_DESTROY_QP, 1, -EDEADLK);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), -EDEADLK);
	expect_entry(test, dev, RDMA_RESTRACK_QP, &qp->res);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	ib_free_cq(attr.send_cq);
	ib_dealloc_pd(pd);
}

static void dealloc(void *pd)
{
	ib_dealloc_pd(pd);
}

static void the_end_waits_for_who_looks(struct kunit *test)
{
	struct ib_device *dev = core_device(test, "core%d");
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct rdma_restrack_entry *res;
	struct core_task thread;
	u32 id;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	id = pd->res.id;
	res = rdma_restrack_get_byid(dev, RDMA_RESTRACK_PD, id);
	KUNIT_ASSERT_FALSE(test, IS_ERR(res));
	KUNIT_ASSERT_EQ(test, core_start(&thread, dealloc, pd), 0);
	/* Nobody finds it any more, but it stays in memory. */
	KUNIT_EXPECT_TRUE(test, core_wait_for(!is_there(dev, RDMA_RESTRACK_PD, id)));
	msleep(100);
	KUNIT_EXPECT_FALSE(test, core_is_done(&thread));
	KUNIT_EXPECT_EQ(test, res->id, id);
	rdma_restrack_put(res);
	KUNIT_EXPECT_TRUE(test, core_join(&thread));
}

struct book {
	struct ib_device *dev;
	bool stop;
	atomic_t others;	/* entries of another type that were found */
	atomic_t too_many;	/* counts that cannot be */
	atomic_t refused;
};

static void look_at_all(void *arg)
{
	struct book *book = arg;
	u32 id = 0;

	while (!READ_ONCE(book->stop)) {
		struct rdma_restrack_entry *res;

		res = rdma_restrack_get_byid(book->dev, RDMA_RESTRACK_PD, id++ % 700);
		if (!IS_ERR(res)) {
			/* Whether it is valid changes when its end begins. */
			if (res->type != RDMA_RESTRACK_PD)
				atomic_inc(&book->others);
			rdma_restrack_put(res);
		}
		if (rdma_restrack_count(book->dev, RDMA_RESTRACK_PD, true) > 16)
			atomic_inc(&book->too_many);
		cond_resched();
	}
}

static void write_it(void *arg)
{
	struct book *book = arg;
	int i;

	for (i = 0; i < 150; i++) {
		struct ib_pd *pd = ib_alloc_pd(book->dev, 0);

		if (IS_ERR(pd))
			atomic_inc(&book->refused);
		else
			ib_dealloc_pd(pd);
	}
}

static void readers_and_writers(struct kunit *test)
{
	struct book book = { .dev = core_device(test, "core%d") };
	struct core_task readers[2], writers[3];
	u32 before = rdma_restrack_count(book.dev, RDMA_RESTRACK_PD, true);
	int i;

	for (i = 0; i < ARRAY_SIZE(readers); i++)
		KUNIT_ASSERT_EQ(test, core_start(&readers[i], look_at_all, &book), 0);
	for (i = 0; i < ARRAY_SIZE(writers); i++)
		KUNIT_ASSERT_EQ(test, core_start(&writers[i], write_it, &book), 0);
	for (i = 0; i < ARRAY_SIZE(writers); i++)
		KUNIT_EXPECT_TRUE(test, core_join(&writers[i]));
	WRITE_ONCE(book.stop, true);
	for (i = 0; i < ARRAY_SIZE(readers); i++)
		KUNIT_EXPECT_TRUE(test, core_join(&readers[i]));
	KUNIT_EXPECT_EQ(test, atomic_read(&book.others), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&book.too_many), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&book.refused), 0);
	KUNIT_EXPECT_EQ(test, rdma_restrack_count(book.dev, RDMA_RESTRACK_PD, true), before);
}

static struct kunit_case core_track_cases[] = {
	KUNIT_CASE(every_object_has_an_entry),
	KUNIT_CASE(numbers_are_not_used_again_at_once),
	KUNIT_CASE(what_was_refused_is_not_there),
	KUNIT_CASE(the_end_waits_for_who_looks),
	KUNIT_CASE_SLOW(readers_and_writers),
	{}
};

struct kunit_suite core_track_suite = {
	.name = "ib_core_tracking",
	.test_cases = core_track_cases,
};
