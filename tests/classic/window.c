// SPDX-License-Identifier: GPL-2.0
/* Rows 38-40, and the windows' part of row 37. */
#include "rig.h"

static int write_at(struct rig *rig, u64 iova, u32 length, u32 rkey)
{
	struct ib_sge from = sge_of(&rig->a, 0, length);

	return rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, iova, rkey);
}

static struct ib_mw *new_mw(struct kunit *test, struct ib_pd *pd, enum ib_mw_type type)
{
	struct ib_mw *mw = ib_alloc_mw(pd, type);

	if (PTR_ERR(mw) == -EOPNOTSUPP)
		kunit_skip(test, "the device has no windows");
	rig_own(test, O_MW, mw);
	return mw;
}

static void r38_alloc_mw(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	int before = atomic_read(&rig->b.pd->usecnt);
	struct ib_mw *one = new_mw(test, rig->b.pd, IB_MW_TYPE_1);
	struct ib_mw *two = new_mw(test, rig->b.pd, IB_MW_TYPE_2);

	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mw(rig->b.pd, 7)), -EINVAL);
	KUNIT_EXPECT_NE(test, one->rkey, 0);
	KUNIT_EXPECT_NE(test, one->rkey, two->rkey);
	KUNIT_EXPECT_EQ(test, two->type, IB_MW_TYPE_2);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before + 2);
	/* Bound to nothing, they open nothing. */
	KUNIT_EXPECT_EQ(test, write_at(rig, rig->b.dma, 8, one->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	KUNIT_EXPECT_EQ(test, write_at(rig, rig->b.dma, 8, two->rkey), IB_WC_REM_ACCESS_ERR);
}

static int bind(struct ib_qp *qp, struct ib_mw *mw, struct ib_mr *mr, u64 addr, u64 length,
		int access)
{
	struct ib_mw_bind request = {
		.wr_id = 0xb1d,
		.send_flags = IB_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = addr, .length = length,
			       .mw_access_flags = access },
	};

	return ib_bind_mw(qp, mw, &request);
}

/* Skips a case on a provider that does not know the request. */
static void need_bind(struct kunit *test, struct end *end)
{
	if (!(end->dev->attrs.kernel_cap_flags & IBK_CLASSIC_BIND_MW))
		kunit_skip(test, "the provider takes no bind request of the kernel");
}

static void r39_bind_mw_refused(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mw *mw = new_mw(test, rig->b.pd, IB_MW_TYPE_1);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       ALL_ACCESS | IB_ACCESS_MW_BIND, 0);
	u32 key = mw->rkey;

	KUNIT_EXPECT_EQ(test, bind(rig->b.qp, mw, NULL, 0, 0, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_bind_mw(rig->b.qp, mw, NULL), -EINVAL);
	if (!(rig->b.dev->attrs.kernel_cap_flags & IBK_CLASSIC_BIND_MW))
		KUNIT_EXPECT_EQ(test, bind(rig->b.qp, mw, mr, 0, 64, IB_ACCESS_REMOTE_WRITE),
				-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, mw->rkey, key);
}

static void r39_bind_mw(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mw *mw = new_mw(test, rig->b.pd, IB_MW_TYPE_1);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       ALL_ACCESS | IB_ACCESS_MW_BIND, 0);
	struct ib_mr *closed = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	u32 key = mw->rkey;
	struct ib_wc wc;

	need_bind(test, &rig->b);
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 128, 64, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, mw->rkey >> 8, key >> 8);
	KUNIT_EXPECT_NE(test, mw->rkey, key);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.scq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_BIND_MW);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0xb1d);

	memset(rig->a.buf, 0x66, 64);
	KUNIT_EXPECT_EQ(test, write_at(rig, 128, 64, mw->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rig->b.buf[128], 0x66);
	/* A region with a window stays; the domain as well. */
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), -EINVAL);
	KUNIT_EXPECT_EQ(test, write_at(rig, 127, 1, mw->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);

	/* Outside, or without the right. */
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 128, 64, IB_ACCESS_REMOTE_READ), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, write_at(rig, 128, 8, mw->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);

	/* Length zero revokes at once. */
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 128, 64, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	key = mw->rkey;
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, write_at(rig, 128, 8, key), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);

	/* A region that does not allow it. */
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, closed, 0, 64, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_MW_BIND_ERR);
}

static void r39_invalidate_mw(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mw *mw = new_mw(test, rig->b.pd, IB_MW_TYPE_2);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       ALL_ACCESS | IB_ACCESS_MW_BIND, 0);

	need_bind(test, &rig->b);
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 128, 64, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, write_at(rig, 128, 8, mw->rkey), IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, post_inv(rig->b.qp, mw->rkey), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, write_at(rig, 128, 8, mw->rkey), IB_WC_REM_ACCESS_ERR);
}

static void r40_dealloc_mw(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	int before = atomic_read(&rig->b.pd->usecnt);
	struct ib_mw *mw = new_mw(test, rig->b.pd, IB_MW_TYPE_1);
	u32 key = mw->rkey;

	KUNIT_EXPECT_EQ(test, rig_drop(test, mw), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before);
	KUNIT_EXPECT_EQ(test, write_at(rig, rig->b.dma, 8, key), IB_WC_REM_ACCESS_ERR);
}

static void r40_dealloc_bound_mw(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       ALL_ACCESS | IB_ACCESS_MW_BIND, 0);
	struct ib_mw *mw = new_mw(test, rig->b.pd, IB_MW_TYPE_1);
	u32 key;

	need_bind(test, &rig->b);
	KUNIT_ASSERT_EQ(test, bind(rig->b.qp, mw, mr, 0, 64, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.scq), IB_WC_SUCCESS);
	key = mw->rkey;
	KUNIT_EXPECT_EQ(test, rig_drop(test, mw), 0);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, key), IB_WC_REM_ACCESS_ERR);
	KUNIT_EXPECT_EQ(test, rig_drop(test, mr), 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r38_alloc_mw),
	KUNIT_CASE(r39_bind_mw_refused),
	KUNIT_CASE(r39_bind_mw),
	KUNIT_CASE(r39_invalidate_mw),
	KUNIT_CASE(r40_dealloc_mw),
	KUNIT_CASE(r40_dealloc_bound_mw),
	{}
};

RIG_SUITE(window_suite, "classic_window", cases);
