// SPDX-License-Identifier: GPL-2.0
/* Rows 14-16 and 20-21: protection domains, address handles. */
#include "rig.h"

static void r14_alloc_pd(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_pd *pd = ib_alloc_pd(rig->a.dev), *modern;
	struct ib_sge from = sge_of(&rig->a, 0, 64), to = sge_of(&rig->b, 0, 64);

	rig_own(test, O_PD, pd);
	KUNIT_EXPECT_EQ(test, strcmp(pd->res.kern_name, KBUILD_MODNAME), 0);
	modern = ib_alloc_pd(rig->a.dev, 0);
	rig_own(test, O_PD, modern);
	KUNIT_EXPECT_EQ(test, strcmp(modern->res.kern_name, KBUILD_MODNAME), 0);

	/* The key of the domain is good for an SGE, on both ends. */
	memset(rig->a.buf, 0x5a, 64);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 2, &from, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_MEMEQ(test, rig->a.buf, rig->b.buf, 64);
}

static void r15_dealloc_pd(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_pd *pd = rig_pd(test, rig->a.dev);
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b);
	struct end on_pd = rig->a;
	void *user;

	/* rxe has no key for all memory, so the domain has a region. */
	if (is_rxe(rig->a.dev))
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, pd->__internal_mr);

	user = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 4);
	rig_own(test, O_MR, user);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);

	user = ib_create_ah(pd, &path);
	rig_own(test, O_AH, user);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);

	user = rig_srq(test, pd, 4, 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);

	user = ib_alloc_mw(pd, IB_MW_TYPE_1);
	rig_own(test, O_MW, user);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);

	on_pd.pd = pd;
	user = rig_qp(test, &on_pd, IB_QPT_RC, NULL);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	/* It is still good for something. */
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);
	user = rig_phys_mr(test, pd, rig->a.buf, PAGE_SIZE, ALL_ACCESS, 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, rig_drop(test, user), 0);

	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), 0);
	rig_forget(test, pd);
}

static void r16_create_ah(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b);
	struct ib_pd *pd = rig_pd(test, rig->a.dev);
	struct ib_port_attr port;
	struct ib_ah *ah;

	KUNIT_ASSERT_EQ(test, ib_query_port(rig->a.dev, rig->a.port, &port), 0);
	path.grh.sgid_index = 255;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)),
			port.gid_tbl_len > 255 ? -ENODATA : -EINVAL);
	path = classic_path(&rig->a, &rig->b);
	path.port_num = rig->a.dev->phys_port_cnt + 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)), -EINVAL);
	path = classic_path(&rig->a, &rig->b);
	path.ah_flags = 0;
	if (rdma_protocol_roce(rig->a.dev, rig->a.port))
		KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);

	path = classic_path(&rig->a, &rig->b);
	ah = ib_create_ah(pd, &path);
	rig_own(test, O_AH, ah);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, ah->sgid_attr);
	KUNIT_EXPECT_EQ(test, ah->sgid_attr->index, rig->a.gid_index);
}

static void expect_path(struct kunit *test, const struct ib_ah_attr *got,
			const struct ib_ah_attr *want)
{
	KUNIT_EXPECT_MEMEQ(test, got->grh.dgid.raw, want->grh.dgid.raw, 16);
	KUNIT_EXPECT_EQ(test, got->grh.sgid_index, want->grh.sgid_index);
	KUNIT_EXPECT_EQ(test, got->grh.hop_limit, want->grh.hop_limit);
	KUNIT_EXPECT_EQ(test, got->grh.traffic_class, want->grh.traffic_class);
	KUNIT_EXPECT_EQ(test, got->grh.flow_label, want->grh.flow_label);
	KUNIT_EXPECT_EQ(test, got->ah_flags, want->ah_flags);
	KUNIT_EXPECT_EQ(test, got->port_num, want->port_num);
	KUNIT_EXPECT_PTR_EQ(test, got->grh.sgid_attr, NULL);
}

static void r20_query_ah(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b), got;
	struct ib_ah *ah = ib_create_ah(rig->a.pd, &path);

	rig_own(test, O_AH, ah);
	memset(&got, 0xff, sizeof(got));
	KUNIT_ASSERT_EQ(test, ib_query_ah(ah, &got), 0);
	expect_path(test, &got, &path);
	path = classic_path(&rig->a, &rig->a);
	path.grh.hop_limit = 17;
	path.grh.traffic_class = 8;
	KUNIT_EXPECT_EQ(test, ib_modify_ah(ah, &path), 0);
	KUNIT_ASSERT_EQ(test, ib_query_ah(ah, &got), 0);
	expect_path(test, &got, &path);
}

static void r21_destroy_ah(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_ah_attr path = classic_path(&rig->a, &rig->b);
	int before = atomic_read(&rig->a.pd->usecnt);
	struct ib_ah *ah = ib_create_ah(rig->a.pd, &path);

	rig_own(test, O_AH, ah);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->a.pd->usecnt), before + 1);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), 0);
	rig_forget(test, ah);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->a.pd->usecnt), before);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r14_alloc_pd),
	KUNIT_CASE(r15_dealloc_pd),
	KUNIT_CASE(r16_create_ah),
	KUNIT_CASE(r20_query_ah),
	KUNIT_CASE(r21_destroy_ah),
	{}
};

RIG_SUITE(object_suite, "classic_object", cases);
