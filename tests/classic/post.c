// SPDX-License-Identifier: GPL-2.0
/* Rows 55-57: posting. */
#include "rig.h"

/* Three sends, the second with more entries than the queue pair has. */
static void r55_post_send(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 16), to = sge_of(&rig->b, 0, 16);
	struct ib_send_wr wr[3], *bad = NULL;
	const struct ib_send_wr *cbad = NULL;
	struct ib_wc wc;
	int i;

	for (i = 0; i < 3; i++) {
		wr[i] = (struct ib_send_wr){
			.next = i < 2 ? &wr[i + 1] : NULL,
			.wr_id = i,
			.sg_list = &from,
			.num_sge = i == 1 ? 100 : 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
		KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, i, &to), 0);
	}
	KUNIT_EXPECT_LT(test, ib_post_send(rig->a.qp, &wr[0], &bad), 0);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1]);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->a.scq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->a.scq, &wc, 100));
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 50));

	/* The other forms of the last argument. */
	wr[0].next = NULL;
	KUNIT_EXPECT_EQ(test, ib_post_send(rig->a.qp, &wr[0], &cbad), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, ib_post_send(rig->a.qp, &wr[0], NULL), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
}

static void r55_post_send_states(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 16);
	struct ib_wc wc;
	int i, ret = 0;

	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, to_init(rig->a.qp, rig->a.port, 0), 0);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->a, rig->a.qp, &rig->b, rig->b.qp->qp_num,
				     &LINK_DEFAULT), 0);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, to_rts(rig->a.qp, &LINK_DEFAULT), 0);
	/* B is not ready: what is posted stays, until the queue is full. */
	for (i = 0; !ret && i < 1000; i++)
		ret = post_send(rig->a.qp, i, &from, IB_SEND_SIGNALED);
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_GT(test, i, 16);
	KUNIT_EXPECT_EQ(test, to_state(rig->a.qp, IB_QPS_ERR), 0);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->a.scq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
}

static void r55_unsignaled(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 16), to = sge_of(&rig->b, 0, 16);
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 2, &to), 0);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, 0), 0);
	KUNIT_EXPECT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->a.scq, &wc, 100));
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 2, &from, IB_SEND_SIGNALED), 0);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->a.scq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.wr_id, 2);
}

static void three_recvs(struct ib_recv_wr wr[3], struct ib_sge *to)
{
	int i;

	for (i = 0; i < 3; i++)
		wr[i] = (struct ib_recv_wr){
			.next = i < 2 ? &wr[i + 1] : NULL,
			.wr_id = i,
			.sg_list = to,
			.num_sge = i == 1 ? 100 : 1,
		};
}

static void r56_post_recv(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_sge to = sge_of(&rig->b, 0, 16), from = sge_of(&rig->a, 0, 16);
	struct ib_recv_wr wr[3], *bad = NULL;
	const struct ib_recv_wr *cbad = NULL;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), -EINVAL);
	/* Allowed from INIT on. */
	KUNIT_ASSERT_EQ(test, to_init(rig->b.qp, rig->b.port, ALL_ACCESS), 0);
	three_recvs(wr, &to);
	KUNIT_EXPECT_LT(test, ib_post_recv(rig->b.qp, &wr[0], &bad), 0);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1]);
	KUNIT_ASSERT_EQ(test, to_init(rig->a.qp, rig->a.port, 0), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->b, rig->b.qp, &rig->a, rig->a.qp->qp_num,
				     &LINK_DEFAULT), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(&rig->a, rig->a.qp, &rig->b, rig->b.qp->qp_num,
				     &LINK_DEFAULT), 0);
	KUNIT_ASSERT_EQ(test, to_rts(rig->a.qp, &LINK_DEFAULT), 0);
	/* The first one is there. */
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0);
	/* The third is not, or it would be flushed. */
	KUNIT_EXPECT_EQ(test, to_state(rig->b.qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 50));
	/* In ERR it completes at once. */
	wr[0].next = NULL;
	KUNIT_EXPECT_EQ(test, ib_post_recv(rig->b.qp, &wr[0], &cbad), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_WR_FLUSH_ERR);

	srq = rig_srq(test, rig->b.pd, 4, 0);
	qp = rig_qp(test, &rig->b, IB_QPT_RC, srq);
	KUNIT_ASSERT_EQ(test, to_init(qp, rig->b.port, 0), 0);
	KUNIT_EXPECT_EQ(test, post_recv(qp, 1, &to), -EINVAL);
}

static void r57_post_srq_recv(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_srq *srq = rig_srq(test, rig->b.pd, 4, 0);
	struct ib_qp *qa = rig_qp(test, &rig->a, IB_QPT_RC, NULL);
	struct ib_qp *qb = rig_qp(test, &rig->b, IB_QPT_RC, srq);
	struct ib_sge to = sge_of(&rig->b, 0, 16), from = sge_of(&rig->a, 0, 16);
	struct ib_recv_wr wr[3], *bad = NULL;
	const struct ib_recv_wr *cbad = NULL;
	struct ib_wc wc;
	int i;

	rig_connect(test, &rig->a, qa, &rig->b, qb, &LINK_DEFAULT);
	three_recvs(wr, &to);
	KUNIT_EXPECT_LT(test, ib_post_srq_recv(srq, &wr[0], &bad), 0);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1]);
	wr[0].next = NULL;
	wr[0].wr_id = 7;
	KUNIT_EXPECT_EQ(test, ib_post_srq_recv(srq, &wr[0], &cbad), 0);
	wr[0].wr_id = 8;
	KUNIT_EXPECT_EQ(test, ib_post_srq_recv(srq, &wr[0], NULL), 0);
	/* First in, first out, without the one that was refused and those after it. */
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, post_send(qa, i, &from, IB_SEND_SIGNALED), 0);
		KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
		KUNIT_EXPECT_EQ(test, wc.wr_id, i ? 6 + i : 0);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r55_post_send),
	KUNIT_CASE(r55_post_send_states),
	KUNIT_CASE(r55_unsignaled),
	KUNIT_CASE(r56_post_recv),
	KUNIT_CASE(r57_post_srq_recv),
	{}
};

RIG_SUITE(post_suite, "classic_post", cases);
