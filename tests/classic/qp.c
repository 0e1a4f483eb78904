// SPDX-License-Identifier: GPL-2.0
/* Rows 51-54: queue pairs. */
#include "rig.h"

static void r51_create_qp(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	static const enum ib_qp_type types[] = { IB_QPT_RC, IB_QPT_UC, IB_QPT_UD };
	struct ib_qp_init_attr attr = {
		.recv_cq = rig->a.rcq,
		.cap = { .max_send_wr = 3, .max_recv_wr = 3, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	int before = atomic_read(&rig->a.pd->usecnt);
	struct ib_qp *qp[3];
	int i;

	for (i = 0; i < 3; i++) {
		qp[i] = rig_qp(test, &rig->a, types[i], NULL);
		KUNIT_EXPECT_EQ(test, state_of(qp[i]), IB_QPS_RESET);
		KUNIT_EXPECT_EQ(test, qp[i]->qp_type, types[i]);
	}
	KUNIT_EXPECT_NE(test, qp[0]->qp_num, qp[1]->qp_num);
	KUNIT_EXPECT_NE(test, qp[1]->qp_num, qp[2]->qp_num);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->a.pd->usecnt), before + 3);

	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_qp(rig->a.pd, &attr)), -EINVAL);
	attr.send_cq = rig->a.scq;
	attr.qp_type = IB_QPT_RAW_IPV6;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_qp(rig->a.pd, &attr)), -EOPNOTSUPP);
	attr.qp_type = IB_QPT_RC;
	attr.cap.max_send_sge = 1000;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_qp(rig->a.pd, &attr)), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->a.pd->usecnt), before + 3);
}

/* The bits of IBTA vol. 1, 11.2.5.2, that each step of a connected queue pair needs. */
struct step {
	enum ib_qp_state from, to;
	int mask[3];		/* RC, UC, UD */
};

static const struct step steps[] = {
	{ IB_QPS_RESET, IB_QPS_INIT, {
		IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS,
		IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS,
		IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY } },
	{ IB_QPS_INIT, IB_QPS_RTR, {
		IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
		IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER,
		IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN,
		0 } },
	{ IB_QPS_RTR, IB_QPS_RTS, {
		IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
		IB_QP_MAX_QP_RD_ATOMIC,
		IB_QP_SQ_PSN,
		IB_QP_SQ_PSN } },
};

/* Bits that no transition of a queue pair of the kind takes. */
static const int never[3] = { IB_QP_QKEY, IB_QP_QKEY | IB_QP_RETRY_CNT, IB_QP_DEST_QPN };

static int try(struct end *end, struct ib_qp *qp, enum ib_qp_state to, int mask)
{
	struct ib_ah_attr path = classic_path(end, end);
	struct ib_qp_attr attr = {
		.qp_state = to,
		.port_num = end->port,
		.qkey = QKEY,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
	};
	int ret = ib_classic_ah_attr_to_rdma(end->dev, &path, &attr.ah_attr);

	return ret ?: ib_modify_qp(qp, &attr, mask | IB_QP_STATE);
}

static void r52_modify_qp(struct kunit *test)
{
	static const enum ib_qp_type types[] = { IB_QPT_RC, IB_QPT_UC, IB_QPT_UD };
	struct rig *rig = rig_ends(test, -1);
	int t, s, bit;

	for (t = 0; t < 3; t++) {
		struct ib_qp *qp = rig_qp(test, &rig->a, types[t], NULL);

		KUNIT_EXPECT_EQ(test, try(&rig->a, qp, IB_QPS_RTR, steps[1].mask[t]), -EINVAL);
		KUNIT_EXPECT_EQ(test, state_of(qp), IB_QPS_RESET);
		for (s = 0; s < ARRAY_SIZE(steps); s++) {
			int mask = steps[s].mask[t];

			/* Each required bit left out, and one too many. */
			for (bit = 1; bit <= mask; bit <<= 1) {
				if (!(mask & bit))
					continue;
				KUNIT_EXPECT_EQ(test, try(&rig->a, qp, steps[s].to, mask & ~bit),
						-EINVAL);
			}
			KUNIT_EXPECT_EQ(test, try(&rig->a, qp, steps[s].to, mask | never[t]),
					-EINVAL);
			KUNIT_EXPECT_EQ(test, state_of(qp), steps[s].from);
			if (s == 1)
				KUNIT_EXPECT_EQ(test, try(&rig->a, qp, IB_QPS_RTS,
							  steps[2].mask[t]), -EINVAL);
			KUNIT_EXPECT_EQ(test, state_of(qp), steps[s].from);
			KUNIT_ASSERT_EQ(test, try(&rig->a, qp, steps[s].to, mask), 0);
			KUNIT_EXPECT_EQ(test, state_of(qp), steps[s].to);
		}
		KUNIT_EXPECT_EQ(test, to_state(qp, IB_QPS_RESET), 0);
		KUNIT_EXPECT_EQ(test, state_of(qp), IB_QPS_RESET);
		KUNIT_EXPECT_EQ(test, try(&rig->a, qp, IB_QPS_INIT, steps[0].mask[t]), 0);
		KUNIT_EXPECT_EQ(test, to_state(qp, IB_QPS_ERR), 0);
		KUNIT_EXPECT_EQ(test, state_of(qp), IB_QPS_ERR);
		KUNIT_EXPECT_EQ(test, to_state(qp, IB_QPS_RESET), 0);
	}
}

static void r52_error_flushes(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_sge to = sge_of(&rig->b, 0, 16);
	struct ib_wc wc;
	int i;

	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, i, &to), 0);
	KUNIT_EXPECT_EQ(test, to_state(rig->b.qp, IB_QPS_ERR), 0);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
		KUNIT_EXPECT_EQ(test, wc.wr_id, i);
	}
}

static void r52_cur_state(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS, .cur_qp_state = IB_QPS_RTR,
				   .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	int mask = IB_QP_STATE | IB_QP_CUR_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
		   IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC;
	int ret = ib_modify_qp(rig->a.qp, &attr, mask);

	/* It is in RTS already, whatever the caller believes. */
	if (!ret && is_stock_rxe(rig->a.dev))
		kunit_skip(test, "the provider trusts the caller's word for the present state");
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
}

static void r53_query_qp(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_qp *qp = rig->a.qp;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	KUNIT_ASSERT_EQ(test, ib_query_qp(qp, &attr, IB_QP_STATE | IB_QP_CAP, &init), 0);
	KUNIT_EXPECT_EQ(test, attr.qp_state, IB_QPS_RESET);
	KUNIT_EXPECT_GE(test, attr.cap.max_send_wr, 16);
	KUNIT_EXPECT_GE(test, init.cap.max_recv_sge, 2);
	KUNIT_EXPECT_PTR_EQ(test, init.send_cq, rig->a.scq);
	KUNIT_EXPECT_EQ(test, init.qp_type, IB_QPT_RC);
	rig_connect(test, &rig->a, qp, &rig->b, rig->b.qp, &LINK_DEFAULT);
	memset(&attr, 0xff, sizeof(attr));
	KUNIT_ASSERT_EQ(test, ib_query_qp(qp, &attr, -1, &init), 0);
	KUNIT_EXPECT_EQ(test, attr.qp_state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, attr.dest_qp_num, rig->b.qp->qp_num);
	KUNIT_EXPECT_EQ(test, attr.path_mtu, IB_MTU_1024);
	KUNIT_EXPECT_EQ(test, attr.timeout, 14);
	KUNIT_EXPECT_EQ(test, attr.retry_cnt, 7);
	KUNIT_EXPECT_EQ(test, attr.rnr_retry, 7);
	KUNIT_EXPECT_EQ(test, attr.port_num, rig->a.port);
	KUNIT_EXPECT_EQ(test, attr.sq_psn, 0);
	KUNIT_EXPECT_EQ(test, attr.rq_psn, 0);
	KUNIT_EXPECT_MEMEQ(test, attr.ah_attr.grh.dgid.raw, rig->b.gid.raw, 16);
}

static void r54_destroy_qp(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	int before = atomic_read(&rig->b.pd->usecnt), cq = atomic_read(&rig->b.rcq->usecnt);
	struct ib_sge to = sge_of(&rig->b, 0, 16);
	int calls;

	KUNIT_EXPECT_EQ(test, ib_destroy_cq(rig->b.rcq), -EBUSY);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	ib_req_notify_cq(rig->b.rcq, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, rig_drop(test, rig->b.qp), 0);
	calls = atomic_read(&rig->b.rcalls.comp);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before - 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.rcq->usecnt), cq - 1);
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.rcalls.comp), calls);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r51_create_qp),
	KUNIT_CASE(r52_modify_qp),
	KUNIT_CASE(r52_error_flushes),
	KUNIT_CASE(r52_cur_state),
	KUNIT_CASE(r53_query_qp),
	KUNIT_CASE(r54_destroy_qp),
	{}
};

RIG_SUITE(qp_suite, "classic_qp", cases);
