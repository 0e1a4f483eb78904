// SPDX-License-Identifier: GPL-2.0
/* Completion queues that the core polls: contexts, budgets, draining, sharing. */
#include <linux/interrupt.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "core_test.h"

#define WRS	8

static const enum ib_poll_context contexts[] = {
	IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE,
};

/* A request, and what its end was like. */
struct request {
	struct ib_cqe cqe;
	atomic_t *ended;
	int turn;
	bool softirq;
	bool kworker;
	enum ib_wc_status status;
};

static void on_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *r = container_of(wc->wr_cqe, struct request, cqe);

	r->softirq = in_serving_softirq();
	r->kworker = current->flags & PF_WQ_WORKER;
	r->status = wc->status;
	r->turn = atomic_inc_return(r->ended);
}

struct queues {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	atomic_t ended;
};

static int queues_init(struct kunit *test)
{
	const struct ib_fake_config config = { .name = "core%d", .comp_vectors = 4 };
	struct queues *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);

	if (!q)
		return -ENOMEM;
	test->priv = q;
	q->dev = ib_fake_create(&config);
	if (IS_ERR(q->dev))
		return PTR_ERR(q->dev);
	q->pd = ib_alloc_pd(q->dev, 0);
	return PTR_ERR_OR_ZERO(q->pd);
}

static void queues_exit(struct kunit *test)
{
	struct queues *q = test->priv;

	if (!q || IS_ERR_OR_NULL(q->dev))
		return;
	if (!IS_ERR_OR_NULL(q->pd))
		ib_dealloc_pd(q->pd);
	ib_fake_destroy(q->dev);
}

static void open_queues(struct kunit *test, enum ib_poll_context context, u32 entries, u32 wrs)
{
	struct queues *q = test->priv;

	atomic_set(&q->ended, 0);
	q->cq = ib_alloc_cq(q->dev, NULL, entries, 0, context);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, q->cq);
	q->qp = core_qp(test, q->pd, q->cq, wrs);
}

static void close_queues(struct kunit *test)
{
	struct queues *q = test->priv;

	KUNIT_EXPECT_EQ(test, ib_destroy_qp(q->qp), 0);
	ib_free_cq(q->cq);
}

static int post(struct queues *q, struct request *r)
{
	const struct ib_recv_wr wr = { .wr_cqe = &r->cqe };

	memset(r, 0, sizeof(*r));
	r->cqe.done = on_done;
	r->ended = &q->ended;
	return ib_post_recv(q->qp, &wr, NULL);
}

static void where_and_in_which_order(struct kunit *test)
{
	struct queues *q = test->priv;
	struct request r[WRS];
	int c, i;

	for (c = 0; c < ARRAY_SIZE(contexts); c++) {
		enum ib_poll_context context = contexts[c];

		open_queues(test, context, 64, WRS + 1);
		for (i = 0; i < WRS; i++)
			KUNIT_EXPECT_EQ(test, post(q, &r[i]), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), 0);
		KUNIT_EXPECT_EQ(test, core_qp_state(q->qp, IB_QPS_ERR), 0);
		ib_fake_flush();
		if (context == IB_POLL_DIRECT) {
			KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), 0);
			KUNIT_EXPECT_EQ(test, ib_process_cq_direct(q->cq, -1), WRS);
		}
		KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&q->ended) == WRS));
		for (i = 0; i < WRS; i++) {
			KUNIT_EXPECT_EQ(test, r[i].turn, i + 1);
			KUNIT_EXPECT_EQ(test, (int)r[i].status, (int)IB_WC_WR_FLUSH_ERR);
			KUNIT_EXPECT_EQ(test, r[i].softirq, context == IB_POLL_SOFTIRQ);
			if (context == IB_POLL_WORKQUEUE || context == IB_POLL_UNBOUND_WORKQUEUE)
				KUNIT_EXPECT_TRUE(test, r[i].kworker);
			if (context == IB_POLL_DIRECT)
				KUNIT_EXPECT_FALSE(test, r[i].kworker);
		}
		close_queues(test);
	}
}

static void budget_of_the_consumer(struct kunit *test)
{
	static const struct {
		int budget;
		int got;
	} steps[] = { { 3, 3 }, { 1, 1 }, { 17, 17 }, { 8, 8 }, { 0, 0 }, { -1, 11 }, { 5, 0 } };
	struct queues *q = test->priv;
	struct request *r = kunit_kcalloc(test, 40, sizeof(*r), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, r);
	open_queues(test, IB_POLL_DIRECT, 64, 40);
	for (i = 0; i < 40; i++)
		KUNIT_ASSERT_EQ(test, post(q, &r[i]), 0);
	KUNIT_EXPECT_EQ(test, core_qp_state(q->qp, IB_QPS_ERR), 0);
	ib_fake_flush();
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		KUNIT_EXPECT_EQ_MSG(test, ib_process_cq_direct(q->cq, steps[i].budget),
				    steps[i].got, "step %d", i);
	for (i = 0; i < 40; i++)
		KUNIT_EXPECT_EQ(test, r[i].turn, i + 1);
	close_queues(test);
}

/* More at once than a turn in softirq may take: nothing is left lying. */
static void more_than_a_turn(struct kunit *test)
{
	const int count = 1500;
	struct queues *q = test->priv;
	struct request *r = kunit_kcalloc(test, count, sizeof(*r), GFP_KERNEL);
	int c, i, wrong;

	KUNIT_ASSERT_NOT_NULL(test, r);
	for (c = 1; c < ARRAY_SIZE(contexts); c++) {
		open_queues(test, contexts[c], 2048, count);
		for (i = 0; i < count; i++)
			KUNIT_ASSERT_EQ(test, post(q, &r[i]), 0);
		KUNIT_EXPECT_EQ(test, core_qp_state(q->qp, IB_QPS_ERR), 0);
		KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&q->ended) == count));
		for (i = 0, wrong = 0; i < count; i++)
			wrong += r[i].turn != i + 1;
		KUNIT_EXPECT_EQ(test, wrong, 0);
		close_queues(test);
	}
}

static void drain(struct kunit *test)
{
	struct queues *q = test->priv;
	struct request r[WRS];
	int c, i;

	for (c = 0; c < ARRAY_SIZE(contexts); c++) {
		/* One more for the mark that is waited for. */
		open_queues(test, contexts[c], 64, WRS + 1);
		for (i = 0; i < WRS; i++)
			KUNIT_ASSERT_EQ(test, post(q, &r[i]), 0);
		ib_drain_qp(q->qp);
		/* Everything that was posted has ended, and has been told of. */
		KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), WRS);
		for (i = 0; i < WRS; i++)
			KUNIT_EXPECT_EQ(test, (int)r[i].status, (int)IB_WC_WR_FLUSH_ERR);
		/* A second time there is nothing, which does not take long. */
		ib_drain_sq(q->qp);
		ib_drain_rq(q->qp);
		KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), WRS);
		close_queues(test);
	}
}

/* A queue that ends while it is told of completions: nobody is called afterwards. */
static void freed_under_completions(struct kunit *test)
{
	struct queues *q = test->priv;
	struct request *r = kunit_kcalloc(test, 64, sizeof(*r), GFP_KERNEL);
	int c, i, round, before;

	KUNIT_ASSERT_NOT_NULL(test, r);
	for (c = 1; c < ARRAY_SIZE(contexts); c++) {
		for (round = 0; round < 5; round++) {
			open_queues(test, contexts[c], 128, 64);
			for (i = 0; i < 64; i++)
				KUNIT_ASSERT_EQ(test, post(q, &r[i]), 0);
			KUNIT_EXPECT_EQ(test, core_qp_state(q->qp, IB_QPS_ERR), 0);
			close_queues(test);
			before = atomic_read(&q->ended);
			msleep(20);
			KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), before);
		}
	}
}

/* The operations of a device that takes its time, and the queue that it does so for. */
static struct {
	int (*arm)(struct ib_cq *cq, enum ib_cq_notify_flags flags);
	int (*destroy)(struct ib_cq *cq, struct ib_udata *udata);
	int (*poll)(struct ib_cq *cq, int count, struct ib_wc *wcs);
	struct ib_cq *cq;
	bool arming;
	bool destroyed;
	bool too_early;
	bool too_late;
} slow;

static int arm_slowly(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	int rc;

	if (cq != READ_ONCE(slow.cq) || !in_serving_softirq())
		return slow.arm(cq, flags);
	WRITE_ONCE(slow.arming, true);
	mdelay(200);
	if (READ_ONCE(slow.destroyed)) {
		/* There is nothing left to be armed. */
		slow.too_early = true;
		return 0;
	}
	rc = slow.arm(cq, flags);
	WRITE_ONCE(slow.arming, false);
	return rc;
}

static int note_destroy(struct ib_cq *cq, struct ib_udata *udata)
{
	if (cq == slow.cq)
		WRITE_ONCE(slow.destroyed, true);
	return slow.destroy(cq, udata);
}

/* A device that has one more event while its part of the queue is being destroyed. */
static int destroy_with_event(struct ib_cq *cq, struct ib_udata *udata)
{
	if (cq == slow.cq) {
		WRITE_ONCE(slow.destroyed, true);
		cq->comp_handler(cq, cq->cq_context);
		msleep(50);
	}
	return slow.destroy(cq, udata);
}

static int poll_in_time(struct ib_cq *cq, int count, struct ib_wc *wcs)
{
	if (cq == READ_ONCE(slow.cq) && READ_ONCE(slow.destroyed)) {
		slow.too_late = true;
		return 0;
	}
	return slow.poll(cq, count, wcs);
}

static void events_until_the_end(struct kunit *test)
{
	struct queues *q = test->priv;
	int c;

	for (c = 1; c < ARRAY_SIZE(contexts); c++) {
		memset(&slow, 0, sizeof(slow));
		slow.poll = q->dev->ops.poll_cq;
		slow.destroy = q->dev->ops.destroy_cq;
		q->dev->ops.poll_cq = poll_in_time;
		q->dev->ops.destroy_cq = destroy_with_event;
		q->cq = ib_alloc_cq(q->dev, NULL, 64, 0, contexts[c]);
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, q->cq);
		if (!IS_ERR_OR_NULL(q->cq)) {
			WRITE_ONCE(slow.cq, q->cq);
			ib_free_cq(q->cq);
			KUNIT_EXPECT_TRUE(test, slow.destroyed);
			KUNIT_EXPECT_FALSE_MSG(test, slow.too_late, "context %d", contexts[c]);
		}
		q->dev->ops.poll_cq = slow.poll;
		q->dev->ops.destroy_cq = slow.destroy;
	}
}

static void raise_event(void *arg)
{
	struct ib_cq *cq = arg;

	cq->comp_handler(cq, cq->cq_context);
}

/*
 * A turn in softirq says that it is complete before it arms the queue: a queue that ends in
 * between stays until it has been armed.
 */
static void freed_while_it_is_armed(struct kunit *test)
{
	struct queues *q = test->priv;
	unsigned int cpu;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	memset(&slow, 0, sizeof(slow));
	slow.arm = q->dev->ops.req_notify_cq;
	slow.destroy = q->dev->ops.destroy_cq;
	q->dev->ops.req_notify_cq = arm_slowly;
	q->dev->ops.destroy_cq = note_destroy;
	q->cq = ib_alloc_cq(q->dev, NULL, 64, 0, IB_POLL_SOFTIRQ);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, q->cq);
	if (!IS_ERR_OR_NULL(q->cq)) {
		WRITE_ONCE(slow.cq, q->cq);
		migrate_disable();
		cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
		KUNIT_EXPECT_EQ(test, smp_call_function_single(cpu, raise_event, q->cq, 1), 0);
		KUNIT_EXPECT_TRUE(test, core_wait_for(READ_ONCE(slow.arming)));
		ib_free_cq(q->cq);
		migrate_enable();
		KUNIT_EXPECT_TRUE(test, slow.destroyed);
		KUNIT_EXPECT_FALSE(test, READ_ONCE(slow.arming));
		/* Long enough for the turn to find that the queue has gone. */
		msleep(300);
		KUNIT_EXPECT_FALSE(test, slow.too_early);
	}
	q->dev->ops.req_notify_cq = slow.arm;
	q->dev->ops.destroy_cq = slow.destroy;
}

static void vectors_are_spread(struct kunit *test)
{
	struct queues *q = test->priv;
	u32 count = min(4U, num_online_cpus());
	struct ib_cq *cq[8];
	u32 seen = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(cq); i++) {
		cq[i] = ib_alloc_cq_any(q->dev, NULL, 16, IB_POLL_DIRECT);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq[i]);
		KUNIT_EXPECT_LT(test, cq[i]->comp_vector, count);
		seen |= BIT(cq[i]->comp_vector);
	}
	KUNIT_EXPECT_EQ(test, seen, BIT(count) - 1);
	for (i = 0; i < ARRAY_SIZE(cq); i++)
		ib_free_cq(cq[i]);
}

static void shared_queues(struct kunit *test)
{
	struct queues *q = test->priv;
	u32 count = min(4U, num_online_cpus()), before, made;
	struct ib_cq *a, *b, *c, *full;

	before = ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ);
	a = ib_cq_pool_get(q->dev, 100, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, a);
	/* One for each vector at once, of a size to be shared. */
	KUNIT_EXPECT_EQ(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ), before + count);
	KUNIT_EXPECT_GE(test, a->cqe, 4096);
	KUNIT_EXPECT_EQ(test, a->cqe_used, 100);
	KUNIT_EXPECT_EQ(test, (int)a->poll_ctx, (int)IB_POLL_WORKQUEUE);

	b = ib_cq_pool_get(q->dev, 50, 0, IB_POLL_WORKQUEUE);
	KUNIT_EXPECT_PTR_EQ(test, b, a);
	KUNIT_EXPECT_EQ(test, a->cqe_used, 150);
	/* Another vector, another context. */
	b = ib_cq_pool_get(q->dev, 50, count - 1, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, b);
	KUNIT_EXPECT_EQ(test, b->comp_vector, count - 1);
	c = ib_cq_pool_get(q->dev, 50, 0, IB_POLL_SOFTIRQ);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c);
	KUNIT_EXPECT_PTR_NE(test, c, a);
	KUNIT_EXPECT_EQ(test, (int)c->poll_ctx, (int)IB_POLL_SOFTIRQ);
	/* A hint beyond the vectors is folded. */
	KUNIT_EXPECT_PTR_EQ(test, ib_cq_pool_get(q->dev, 1, count, IB_POLL_SOFTIRQ), c);

	/* No room: another one. Room again: the same. */
	made = ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ);
	full = ib_cq_pool_get(q->dev, a->cqe - 149, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, full);
	KUNIT_EXPECT_PTR_NE(test, full, a);
	KUNIT_EXPECT_EQ(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ), made + count);
	ib_cq_pool_put(full, a->cqe - 149);
	made = ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ);
	full = ib_cq_pool_get(q->dev, a->cqe - 150, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, full);
	KUNIT_EXPECT_EQ(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ), made);
	ib_cq_pool_put(full, a->cqe - 150);

	/* More than a device can have, which must not be tried for ever. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_cq_pool_get(q->dev, q->dev->attrs.max_cqe + 1, 0,
						     IB_POLL_WORKQUEUE)), -EINVAL);
	/* What the driver says is passed on, and nothing is left of the attempt. */
	made = ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ);
	ib_fake_fail(q->dev, IB_FAKE_CREATE_CQ, count, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_cq_pool_get(q->dev, 5, 0, IB_POLL_UNBOUND_WORKQUEUE)),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ), made);

	ib_cq_pool_put(a, 150);
	ib_cq_pool_put(b, 50);
	ib_cq_pool_put(c, 51);
	KUNIT_EXPECT_EQ(test, a->cqe_used, 0);
	/* They stay until the device goes. */
	KUNIT_EXPECT_EQ(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ), made);
}

static void share(void *arg)
{
	struct queues *q = arg;
	int i;

	for (i = 0; i < 200; i++) {
		u32 n = 1 + i * 37 % 3000;
		struct ib_cq *cq = ib_cq_pool_get(q->dev, n, -1, IB_POLL_WORKQUEUE);

		if (IS_ERR(cq) || cq->cqe_used > cq->cqe) {
			atomic_inc(&q->ended);
			continue;
		}
		cond_resched();
		ib_cq_pool_put(cq, n);
	}
}

static void shared_by_many_at_once(struct kunit *test)
{
	struct queues *q = test->priv;
	struct core_task threads[4];
	int i;

	for (i = 0; i < ARRAY_SIZE(threads); i++)
		KUNIT_ASSERT_EQ(test, core_start(&threads[i], share, q), 0);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		KUNIT_EXPECT_TRUE(test, core_join(&threads[i]));
	KUNIT_EXPECT_EQ(test, atomic_read(&q->ended), 0);
	/* At most a queue for each thread and vector was ever needed. */
	KUNIT_EXPECT_LE(test, ib_fake_objects(q->dev, IB_FAKE_CREATE_CQ),
			8 * num_online_cpus() + 4);
}

static struct kunit_case core_cq_cases[] = {
	KUNIT_CASE(where_and_in_which_order),
	KUNIT_CASE(budget_of_the_consumer),
	KUNIT_CASE(more_than_a_turn),
	KUNIT_CASE(drain),
	KUNIT_CASE(freed_under_completions),
	KUNIT_CASE(freed_while_it_is_armed),
	KUNIT_CASE(events_until_the_end),
	KUNIT_CASE(vectors_are_spread),
	KUNIT_CASE(shared_queues),
	KUNIT_CASE(shared_by_many_at_once),
	{}
};

struct kunit_suite core_cq_suite = {
	.name = "ib_core_cqs",
	.init = queues_init,
	.exit = queues_exit,
	.test_cases = core_cq_cases,
};
