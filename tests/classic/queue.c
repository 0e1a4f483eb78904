// SPDX-License-Identifier: GPL-2.0
/* Rows 41-50: completion queues, shared receive queues. */
#include "rig.h"

/* Completes so many sends of A into receives of B. */
static void exchange(struct kunit *test, struct rig *rig, int n, int flags)
{
	struct ib_sge from = sge_of(&rig->a, 0, 16), to = sge_of(&rig->b, 0, 16);
	int i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 100 + i, &to), 0);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, post_send(rig->a.qp, 200 + i, &from, flags), 0);
}

static void r41_create_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_cq_init_attr modern = { .cqe = 7 };
	struct ib_device_attr *attr = &rig->a.dev->attrs;
	struct ib_wc wc;
	struct ib_cq *cq;

	KUNIT_EXPECT_GE(test, rig->a.scq->cqe, 64);
	cq = ib_create_cq(rig->a.dev, NULL, NULL, NULL, &modern);
	rig_own(test, O_CQ, cq);
	KUNIT_EXPECT_GE(test, cq->cqe, 7);
	cq = ib_create_cq(rig->a.dev, NULL, NULL, NULL, 7, 0);
	rig_own(test, O_CQ, cq);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_cq(rig->a.dev, NULL, NULL, NULL, -1, 0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_cq(rig->a.dev, NULL, NULL, NULL,
						   attr->max_cqe + 1, 0)), -EINVAL);

	/* Not armed: silence. Armed: the handler. */
	exchange(test, rig, 1, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.rcalls.comp), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP), 0);
	exchange(test, rig, 1, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(&rig->b.rcalls.comp) == 1, 5000));
	kunit_info(test, "the handler ran %s", rig->b.rcalls.atomic_context ?
		   "in atomic context" : "in process context");
}

static void r41_cq_overflow(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct cq_calls overrun = {};
	struct end a = rig->a;
	struct ib_qp *qa, *qb;
	struct ib_sge from, to;
	int i, n;

	a.scq = rig_cq(test, a.dev, 1, &overrun);
	n = a.scq->cqe + 1;
	KUNIT_ASSERT_TRUE(test, n <= 16);
	qa = rig_qp(test, &a, IB_QPT_RC, NULL);
	qb = rig_qp(test, &rig->b, IB_QPT_RC, NULL);
	rig_connect(test, &a, qa, &rig->b, qb, &LINK_DEFAULT);
	from = sge_of(&rig->a, 0, 16);
	to = sge_of(&rig->b, 0, 16);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, post_recv(qb, i, &to), 0);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, post_send(qa, i, &from, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(&overrun.error), 10000));
	KUNIT_EXPECT_EQ(test, rig_drop(test, qa), 0);
}

static void r42_resize_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_cq *cq = rig->a.scq;
	struct ib_wc wc;
	int i, ret;

	exchange(test, rig, 8, IB_SEND_SIGNALED);
	KUNIT_ASSERT_TRUE(test, wait_for(ib_peek_cq(rig->a.scq, 100) == 8, 5000));
	ret = ib_resize_cq(cq, 500);
	if (ret == -EOPNOTSUPP)
		kunit_skip(test, "the provider does not resize queues of the kernel");
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_GE(test, cq->cqe, 500);
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, 4), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, -1), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, rig->a.dev->attrs.max_cqe + 1), -EINVAL);
	KUNIT_EXPECT_GE(test, cq->cqe, 500);
	/* What was not polled is still there, in order. */
	for (i = 0; i < 8; i++) {
		KUNIT_ASSERT_EQ(test, ib_poll_cq(cq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, 200 + i);
	}
	KUNIT_EXPECT_EQ(test, ib_poll_cq(cq, 1, &wc), 0);
	exchange(test, rig, 2, IB_SEND_SIGNALED);
	KUNIT_EXPECT_EQ(test, wait_status(cq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(cq), IB_WC_SUCCESS);
}

static void r43_modify_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	int i, ret = ib_modify_cq(rig->b.rcq, 8, 50000);

	if (!rig->a.dev->ops.modify_cq) {
		KUNIT_EXPECT_EQ(test, ret, -EOPNOTSUPP);
		kunit_skip(test, "the provider does not hold notifications back");
	}
	KUNIT_ASSERT_EQ(test, ret, 0);
	for (i = 0; i < 8; i++) {
		ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP);
		exchange(test, rig, 1, 0);
	}
	KUNIT_EXPECT_TRUE(test, wait_for(ib_peek_cq(rig->b.rcq, 8) == 8, 5000));
	KUNIT_EXPECT_LT(test, atomic_read(&rig->b.rcalls.comp), 8);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(&rig->b.rcalls.comp), 1000));
}

static void r44_peek_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);

	if (!rig->b.dev->ops.peek_cq) {
		KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 1), -EOPNOTSUPP);
		kunit_skip(test, "the provider cannot tell");
	}
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 5), 0);
	exchange(test, rig, 3, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_for(ib_peek_cq(rig->b.rcq, 5) == 3, 5000));
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 2), 2);
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, -1), -EINVAL);
	/* Nothing was taken. */
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 5), 3);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 5), 2);
}

static void r45_req_notify_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	atomic_t *heard = &rig->b.rcalls.comp;
	struct ib_wc wc[4];

	/* One call for each arming. */
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP), 0);
	exchange(test, rig, 3, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_for(ib_peek_cq(rig->b.rcq, 4) == 3, 5000));
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(heard), 1);
	/* With completions there, arming tells so. */
	KUNIT_EXPECT_GT(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP |
					       IB_CQ_REPORT_MISSED_EVENTS), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(rig->b.rcq, 4, wc), 3);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP |
					       IB_CQ_REPORT_MISSED_EVENTS), 0);
	exchange(test, rig, 1, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(heard) == 2, 5000));
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, wc, 5000));

	/* Solicited only: a plain message is not, the next one is. */
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_SOLICITED), 0);
	exchange(test, rig, 1, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, wc, 5000));
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(heard), 2);
	exchange(test, rig, 1, IB_SEND_SIGNALED | IB_SEND_SOLICITED);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(heard) == 3, 5000));
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, wc, 5000));
}

/* An error is always solicited. */
static void r45_error_is_solicited(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	bool heard;

	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(rig->b.rcq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, NULL), 0);
	KUNIT_EXPECT_EQ(test, to_state(rig->b.qp, IB_QPS_ERR), 0);
	heard = wait_for(atomic_read(&rig->b.rcalls.comp) == 1, 2000);
	if (!heard && is_stock_rxe(rig->b.dev))
		kunit_skip(test, "the provider does not take a flush for solicited");
	KUNIT_EXPECT_TRUE(test, heard);
}

static void r46_poll_cq(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_wc wc[8];
	int i;

	KUNIT_EXPECT_EQ(test, ib_poll_cq(rig->b.rcq, 8, wc), 0);
	exchange(test, rig, 5, IB_SEND_SIGNALED);
	KUNIT_EXPECT_TRUE(test, wait_for(ib_peek_cq(rig->b.rcq, 8) == 5, 5000));
	KUNIT_EXPECT_EQ(test, ib_poll_cq(rig->b.rcq, 2, wc), 2);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(rig->b.rcq, 8, wc + 2), 3);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, wc[i].wr_id, 100 + i);
		KUNIT_EXPECT_EQ(test, wc[i].status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, wc[i].opcode, IB_WC_RECV);
		KUNIT_EXPECT_EQ(test, wc[i].byte_len, 16);
		KUNIT_EXPECT_PTR_EQ(test, wc[i].qp, rig->b.qp);
	}
	KUNIT_EXPECT_TRUE(test, wait_for(ib_peek_cq(rig->a.scq, 8) == 5, 5000));
	KUNIT_EXPECT_EQ(test, ib_poll_cq(rig->a.scq, 8, wc), 5);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, wc[i].wr_id, 200 + i);
		KUNIT_EXPECT_EQ(test, wc[i].opcode, IB_WC_SEND);
		KUNIT_EXPECT_PTR_EQ(test, wc[i].qp, rig->a.qp);
	}
}

static atomic_t polled;

static void poll_in_handler(struct ib_cq *cq, void *context)
{
	struct ib_wc wc;

	ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	while (ib_poll_cq(cq, 1, &wc) == 1)
		atomic_inc(&polled);
}

static void r46_poll_in_handler(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct end b = rig->b;
	struct ib_qp *qa, *qb;
	struct ib_sge from = sge_of(&rig->a, 0, 16), to = sge_of(&rig->b, 0, 16);
	struct ib_cq *cq;
	int i;

	/* A promise of the project's providers; the distribution's rxe deadlocks here. */
	if (is_stock_rxe(b.dev))
		kunit_skip(test, "the provider calls the handler with the queue's lock held");
	atomic_set(&polled, 0);
	cq = ib_create_cq(b.dev, poll_in_handler, NULL, NULL, 16, 0);
	rig_own(test, O_CQ, cq);
	b.rcq = cq;
	qa = rig_qp(test, &rig->a, IB_QPT_RC, NULL);
	qb = rig_qp(test, &b, IB_QPT_RC, NULL);
	rig_connect(test, &rig->a, qa, &b, qb, &LINK_DEFAULT);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq, IB_CQ_NEXT_COMP), 0);
	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, post_recv(qb, i, &to), 0);
	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, post_send(qa, i, &from, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(&polled) == 5, 5000));
	KUNIT_EXPECT_EQ(test, rig_drop(test, qb), 0);
}

static void r47_create_srq(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq_init_attr attr = {
		.attr = { .max_wr = 1000000000, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	int before = atomic_read(&rig->a.pd->usecnt);
	struct ib_srq *srq;

	rig_srq(test, rig->a.pd, 5, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->a.pd->usecnt), before + 1);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_srq(rig->a.pd, &attr)), -EINVAL);
	attr.attr.max_wr = 5;
	srq = ib_create_srq(rig->a.pd, &attr);
	rig_own(test, O_SRQ, srq);
	KUNIT_EXPECT_GE(test, attr.attr.max_wr, 5);
	KUNIT_EXPECT_GE(test, attr.attr.max_sge, 1);
}

static int fill_srq(struct ib_srq *srq, struct end *end, int first, int n)
{
	struct ib_sge to = sge_of(end, 0, 64);
	int i, ret = 0;

	for (i = 0; !ret && i < n; i++) {
		struct ib_recv_wr wr = { .wr_id = first + i, .sg_list = &to, .num_sge = 1 };
		struct ib_recv_wr *bad;

		ret = ib_post_srq_recv(srq, &wr, &bad);
	}
	return ret;
}

/* Two pairs of queue pairs; those of B share the queue. */
static void srq_pairs(struct kunit *test, struct rig *rig, struct ib_srq *srq,
		      struct ib_qp *qa[2], struct ib_qp *qb[2])
{
	int i;

	for (i = 0; i < 2; i++) {
		qa[i] = rig_qp(test, &rig->a, IB_QPT_RC, NULL);
		qb[i] = rig_qp(test, &rig->b, IB_QPT_RC, srq);
		rig_connect(test, &rig->a, qa[i], &rig->b, qb[i], &LINK_DEFAULT);
	}
}

static atomic_t limit_reached;

static void on_limit(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(&limit_reached);
}

static void r48_modify_srq(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq_init_attr init = {
		.event_handler = on_limit,
		.attr = { .max_wr = 8, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_srq *srq = ib_create_srq(rig->b.pd, &init);
	struct ib_sge from = sge_of(&rig->a, 0, 64);
	struct ib_qp *qa[2], *qb[2];
	struct ib_srq_attr attr = { .srq_limit = 3 };
	struct ib_wc wc;
	int i;

	rig_own(test, O_SRQ, srq);
	atomic_set(&limit_reached, 0);
	srq_pairs(test, rig, srq, qa, qb);
	KUNIT_ASSERT_EQ(test, fill_srq(srq, &rig->b, 10, 6), 0);
	KUNIT_EXPECT_EQ(test, ib_modify_srq(srq, &attr, IB_SRQ_LIMIT), 0);
	attr.srq_limit = 1000;
	KUNIT_EXPECT_EQ(test, ib_modify_srq(srq, &attr, IB_SRQ_LIMIT), -EINVAL);

	/* A larger queue keeps what is posted. */
	attr.max_wr = 32;
	if (rig->b.dev->attrs.device_cap_flags & IB_DEVICE_SRQ_RESIZE)
		KUNIT_EXPECT_EQ(test, ib_modify_srq(srq, &attr, IB_SRQ_MAX_WR), 0);
	for (i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, post_send(qa[0], i, &from, IB_SEND_SIGNALED), 0);
		KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
		KUNIT_EXPECT_EQ(test, wc.wr_id, 10 + i);
	}
	/* Four were left, then three, then two: one event. */
	KUNIT_EXPECT_TRUE(test, wait_for(atomic_read(&limit_reached) == 1, 2000));
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(&limit_reached), 1);
}

static void r49_query_srq(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq *srq = rig_srq(test, rig->b.pd, 8, 0);
	struct ib_srq_attr attr = { .srq_limit = 4 }, got;
	struct ib_sge from = sge_of(&rig->a, 0, 64);
	struct ib_qp *qa[2], *qb[2];
	int i;

	srq_pairs(test, rig, srq, qa, qb);
	KUNIT_ASSERT_EQ(test, fill_srq(srq, &rig->b, 0, 5), 0);
	KUNIT_ASSERT_EQ(test, ib_modify_srq(srq, &attr, IB_SRQ_LIMIT), 0);
	memset(&got, 0xff, sizeof(got));
	KUNIT_ASSERT_EQ(test, ib_query_srq(srq, &got), 0);
	KUNIT_EXPECT_EQ(test, got.srq_limit, 4);
	KUNIT_EXPECT_GE(test, got.max_wr, 8);
	KUNIT_EXPECT_LT(test, got.max_wr, 1000);
	KUNIT_EXPECT_EQ(test, got.max_sge, 1);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, post_send(qa[0], i, &from, IB_SEND_SIGNALED), 0);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, ib_query_srq(srq, &got), 0);
	KUNIT_EXPECT_EQ(test, got.srq_limit, 0);
}

static void r50_destroy_srq(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq *srq = rig_srq(test, rig->b.pd, 8, 0);
	struct ib_qp *qp = rig_qp(test, &rig->b, IB_QPT_RC, srq);

	KUNIT_EXPECT_EQ(test, ib_destroy_srq(srq), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, qp), 0);
	KUNIT_EXPECT_EQ(test, rig_drop(test, srq), 0);
}

static void x01_srq_shares_receives(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq *srq = rig_srq(test, rig->b.pd, 8, 0);
	struct ib_sge from = sge_of(&rig->a, 0, 64);
	struct ib_qp *qa[2], *qb[2];
	struct ib_wc wc;
	int i;

	srq_pairs(test, rig, srq, qa, qb);
	KUNIT_ASSERT_EQ(test, fill_srq(srq, &rig->b, 10, 6), 0);
	/* Fewer buffers than two queue pairs would need; either takes the next one. */
	for (i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, post_send(qa[i % 2], i, &from, IB_SEND_SIGNALED), 0);
		KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
		KUNIT_EXPECT_EQ(test, wc.wr_id, 10 + i);
		KUNIT_EXPECT_PTR_EQ(test, wc.qp, qb[i % 2]);
		KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r41_create_cq),
	KUNIT_CASE(r41_cq_overflow),
	KUNIT_CASE(r42_resize_cq),
	KUNIT_CASE(r43_modify_cq),
	KUNIT_CASE(r44_peek_cq),
	KUNIT_CASE(r45_req_notify_cq),
	KUNIT_CASE(r45_error_is_solicited),
	KUNIT_CASE(r46_poll_cq),
	KUNIT_CASE(r46_poll_in_handler),
	KUNIT_CASE(r47_create_srq),
	KUNIT_CASE(r48_modify_srq),
	KUNIT_CASE(r49_query_srq),
	KUNIT_CASE(r50_destroy_srq),
	KUNIT_CASE(x01_srq_shares_receives),
	{}
};

RIG_SUITE(queue_suite, "classic_queue", cases);
