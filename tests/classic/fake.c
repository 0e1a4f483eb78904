// SPDX-License-Identifier: GPL-2.0
/*
 * The classic calls on fake devices: what a loopback over rxe cannot show. The
 * numbers are those of Documentation/classic-verbs.md.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <rdma/ib_cache.h>
#include <rdma/ib_fake.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_verbs_classic.h>

#include "shim.h"

#define ALL_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* The devices and domains of a case, in the order of their making. */
struct ctx {
	struct ib_device *dev[3];
	struct ib_pd *pd;
	struct ib_device_attr attr;
	void *pages;
};

static int classic_init(struct kunit *test)
{
	struct ctx *ctx = kzalloc_obj(*ctx);

	test->priv = ctx;
	return ctx ? 0 : -ENOMEM;
}

static struct ib_device *make(struct kunit *test, int n, const struct ib_fake_config *config)
{
	struct ctx *ctx = test->priv;

	ctx->dev[n] = ib_fake_create(config);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ctx->dev[n]);
	return ctx->dev[n];
}

static struct ib_pd *make_pd(struct kunit *test, struct ib_device *dev)
{
	struct ctx *ctx = test->priv;

	ctx->pd = ib_alloc_pd(dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ctx->pd);
	return ctx->pd;
}

static void classic_exit(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	int i;

	if (!ctx)
		return;
	if (ctx->pd)
		KUNIT_EXPECT_EQ(test, ib_dealloc_pd(ctx->pd), 0);
	for (i = ARRAY_SIZE(ctx->dev) - 1; i >= 0; i--)
		if (!IS_ERR_OR_NULL(ctx->dev[i]))
			ib_fake_destroy(ctx->dev[i]);
	if (ctx->pages)
		free_pages_exact(ctx->pages, 2 * PAGE_SIZE);
	kfree(ctx);
}

/* What the clients of a case are told, in order. */
static struct {
	char text[64];
	struct ib_client *other;
	void *others_data;
} heard;

static void note(char who, char what)
{
	size_t at = strlen(heard.text);

	if (at + 2 < sizeof(heard.text)) {
		heard.text[at] = who;
		heard.text[at + 1] = what;
	}
}

static bool is_fake(struct ib_device *dev)
{
	return !strncmp(dev_name(&dev->dev), "cfake", 5);
}

static struct ib_client client_a, client_b;

static int add_a(struct ib_device *dev)
{
	if (!is_fake(dev))
		return -ENODEV;
	note('a', '+');
	ib_set_client_data(dev, &client_a, &client_a);
	return 0;
}

static int add_b(struct ib_device *dev)
{
	if (!is_fake(dev))
		return -ENODEV;
	note('b', '+');
	ib_set_client_data(dev, &client_b, &client_b);
	return 0;
}

static void remove_a(struct ib_device *dev, void *data)
{
	note('a', data == &client_a ? '-' : '?');
	if (heard.other)
		heard.others_data = ib_get_client_data(dev, heard.other);
}

static void remove_b(struct ib_device *dev, void *data)
{
	note('b', data == &client_b ? '-' : '?');
}

static struct ib_client client_a = { .name = "classic_a", .add = add_a, .remove = remove_a };
static struct ib_client client_b = { .name = "classic_b", .add = add_b, .remove = remove_b };

static const struct ib_fake_config infiniband = { .name = "cfake%d" };

static void r01_later_devices_too(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);

	memset(&heard, 0, sizeof(heard));
	KUNIT_ASSERT_EQ(test, ib_register_client(&client_a), 0);
	KUNIT_ASSERT_EQ(test, ib_register_client(&client_b), 0);
	KUNIT_EXPECT_STREQ(test, heard.text, "a+b+");
	make(test, 1, &infiniband);
	KUNIT_EXPECT_STREQ(test, heard.text, "a+b+a+b+");
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(dev, &client_b), (void *)&client_b);
	ib_unregister_client(&client_b);
	ib_unregister_client(&client_a);
	KUNIT_EXPECT_STREQ(test, heard.text, "a+b+a+b+b-b-a-a-");
}

static void r02_last_come_first_gone(struct kunit *test)
{
	struct ctx *ctx;

	memset(&heard, 0, sizeof(heard));
	KUNIT_ASSERT_EQ(test, ib_register_client(&client_a), 0);
	KUNIT_ASSERT_EQ(test, ib_register_client(&client_b), 0);
	make(test, 0, &infiniband);
	ctx = test->priv;
	/* When A is told, B is no longer attached. */
	heard.other = &client_b;
	heard.others_data = &client_b;
	ib_fake_destroy(ctx->dev[0]);
	ctx->dev[0] = NULL;
	ib_unregister_client(&client_b);
	ib_unregister_client(&client_a);
	KUNIT_EXPECT_STREQ(test, heard.text, "a+b+b-a-");
	KUNIT_EXPECT_PTR_EQ(test, heard.others_data, NULL);
}

struct listener {
	struct ib_event_handler handler;
	u16 pkey;
	bool heard;
};

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct listener *l = container_of(handler, struct listener, handler);

	if (event->event != IB_EVENT_PKEY_CHANGE)
		return;
	ib_get_cached_pkey(event->device, event->element.port_num, 2, &l->pkey);
	WRITE_ONCE(l->heard, true);
}

static bool within_5s(bool *what)
{
	int i;

	for (i = 0; i < 500 && !READ_ONCE(*what); i++)
		msleep(20);
	return READ_ONCE(*what);
}

static void r05_cache_before_handler(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct listener l = {};
	bool ok;

	INIT_IB_EVENT_HANDLER(&l.handler, dev, on_event);
	KUNIT_ASSERT_EQ(test, ib_register_event_handler(&l.handler), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_set_pkey(dev, 1, 2, 0x8123), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_event(dev, 1, IB_EVENT_PKEY_CHANGE), 0);
	ok = within_5s(&l.heard);
	KUNIT_EXPECT_EQ(test, ib_unregister_event_handler(&l.handler), 0);
	KUNIT_EXPECT_TRUE(test, ok);
	KUNIT_EXPECT_EQ(test, l.pkey, 0x8123);
}

static void r07_values_of_the_provider(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .max_fast_reg_pages = 33 });
	struct ctx *ctx = test->priv;
	struct ib_device_attr *attr = &ctx->attr;
	u32 before = ib_fake_calls(dev, IB_FAKE_QUERY_DEVICE);

	KUNIT_EXPECT_EQ(test, ib_query_device(dev, attr), 0);
	KUNIT_EXPECT_EQ(test, attr->max_fast_reg_page_list_len, 33);
	/* They are asked for once, at registration. */
	KUNIT_EXPECT_EQ(test, ib_fake_calls(dev, IB_FAKE_QUERY_DEVICE), before);
}

static void r08_ports(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .ports = 2 });
	struct ib_port_attr attr;

	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 0, &attr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 3, &attr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 2, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.state, IB_PORT_ACTIVE);
	KUNIT_EXPECT_EQ(test, ib_fake_fail(dev, IB_FAKE_QUERY_PORT, 1, -EIO), 0);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, 2, &attr), -EIO);
}

static void r09_infiniband_by_default(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);

	KUNIT_EXPECT_EQ(test, rdma_port_get_link_layer(dev, 1), IB_LINK_LAYER_INFINIBAND);
}

static void r12_any_port(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .ports = 2 });
	union ib_gid gid = { .raw = { 0xfe, 0x80, [15] = 0x77 } }, got;
	u32 wide = 0;
	u8 port = 0;
	u16 index = 9;
	int i;

	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, &gid, &port, &index), -ENOENT);
	KUNIT_EXPECT_EQ(test, ib_fake_set_gid(dev, 2, 1, &gid), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_event(dev, 2, IB_EVENT_GID_CHANGE), 0);
	for (i = 0; i < 250 && ib_query_gid(dev, 2, 1, &got); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, &gid, &port, &index), 0);
	KUNIT_EXPECT_EQ(test, port, 2);
	KUNIT_EXPECT_EQ(test, index, 1);
	/* On InfiniBand today's form finds the same. */
	KUNIT_EXPECT_EQ(test, ib_find_gid(dev, &gid, &wide, &index), 0);
	KUNIT_EXPECT_EQ(test, wide, 2);
}

static void r13_full_member_first(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	u16 index = 9;

	KUNIT_EXPECT_EQ(test, ib_fake_set_pkey(dev, 1, 1, 0x0123), 0);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x8123, &index), 0);
	KUNIT_EXPECT_EQ(test, index, 1);
	KUNIT_EXPECT_EQ(test, ib_fake_set_pkey(dev, 1, 2, 0x8123), 0);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x0123, &index), 0);
	KUNIT_EXPECT_EQ(test, index, 2);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(dev, 1, 0x8555, &index), -ENOENT);
}

static void r14_errors_of_the_provider(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	u32 before = ib_fake_objects(dev, IB_FAKE_ALLOC_PD);

	ib_fake_fail(dev, IB_FAKE_ALLOC_PD, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_pd(dev)), -ENOSPC);
	/* The region for the domain's key, if the device has none for all. */
	if (!(dev->attrs.kernel_cap_flags & IBK_LOCAL_DMA_LKEY)) {
		ib_fake_fail(dev, IB_FAKE_GET_DMA_MR, 1, -ENOSPC);
		KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_pd(dev)), -ENOSPC);
	}
	KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_ALLOC_PD), before);
}

static struct ib_ah_attr path_on(struct ib_device *dev)
{
	struct ib_ah_attr path = { .dlid = 0x17, .sl = 3, .src_path_bits = 1, .port_num = 1 };

	return path;
}

static void r15_busy(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_ah_attr path = path_on(dev);
	struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 4);
	struct ib_ah *ah = ib_create_ah(pd, &path);

	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	/* A region that the device does not give up keeps the domain. */
	ib_fake_fail(dev, IB_FAKE_DEREG_MR, 1, -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
}

static void r16_lids(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_ah_attr path = path_on(dev), got;
	struct ib_ah *ah = ib_create_ah(pd, &path);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, ib_query_ah(ah, &got), 0);
	KUNIT_EXPECT_EQ(test, got.dlid, 0x17);
	KUNIT_EXPECT_EQ(test, got.sl, 3);
	KUNIT_EXPECT_EQ(test, got.src_path_bits, 1);
	KUNIT_EXPECT_EQ(test, got.port_num, 1);
	KUNIT_EXPECT_EQ(test, got.ah_flags, 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), 0);

	path.ah_flags = IB_AH_GRH;
	path.grh.sgid_index = 200;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)), -EINVAL);
	path.grh.sgid_index = 3;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)), -ENODATA);
	path.grh.sgid_index = 0;
	ib_fake_fail(dev, IB_FAKE_CREATE_AH, 1, -ENOMEM);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_ah(pd, &path)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
}

static void r19_without_the_operation(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .without = IB_FAKE_NO_MODIFY_AH | IB_FAKE_NO_QUERY_AH });
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_ah_attr path = path_on(dev);
	struct ib_ah *ah = ib_create_ah(pd, &path);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, ib_modify_ah(ah, &path), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_query_ah(ah, &path), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), 0);
}

static void r21_error_passes_through(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_ah_attr path = path_on(dev);
	struct ib_ah *ah = ib_create_ah(pd, &path);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	ib_fake_fail(dev, IB_FAKE_DESTROY_AH, 1, -EAGAIN);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), -EAGAIN);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, ib_destroy_ah(ah), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
}

static void r33_dma_mr(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_mr *mr;

	ib_fake_fail(dev, IB_FAKE_GET_DMA_MR, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_get_dma_mr(pd, IB_ACCESS_LOCAL_WRITE)), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
	mr = ib_get_dma_mr(pd, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, mr->type, IB_MR_TYPE_DMA);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

static struct ib_mr *reg(struct ib_pd *pd, void *mem, size_t size)
{
	struct ib_phys_buf buf = { virt_to_phys(mem), size };
	u64 iova = 0x10000;

	return ib_reg_phys_mr(pd, &buf, 1, ALL_ACCESS, &iova);
}

static void *page(struct kunit *test)
{
	struct ctx *ctx = test->priv;

	ctx->pages = alloc_pages_exact(2 * PAGE_SIZE, GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ctx->pages);
	return ctx->pages;
}

/* Each step of a registration fails once: nothing is left, and the error arrives. */
static void r34_every_step_fails_once(struct kunit *test)
{
	static const enum ib_fake_op steps[] = {
		IB_FAKE_ALLOC_MR, IB_FAKE_MAP_MR_SG, IB_FAKE_CREATE_CQ, IB_FAKE_CREATE_QP,
		IB_FAKE_MODIFY_QP, IB_FAKE_POST_SEND,
	};
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	void *mem = page(test);
	u32 cqs = ib_fake_objects(dev, IB_FAKE_CREATE_CQ);
	u32 qps = ib_fake_objects(dev, IB_FAKE_CREATE_QP);
	u32 mrs = ib_fake_objects(dev, IB_FAKE_ALLOC_MR);
	struct ib_mr *mr;
	int i, nth;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		for (nth = 1; nth <= (steps[i] == IB_FAKE_MODIFY_QP ? 3 : 1); nth++) {
			KUNIT_EXPECT_EQ(test, ib_fake_fail(dev, steps[i], nth, -EDQUOT), 0);
			KUNIT_EXPECT_EQ(test, PTR_ERR(reg(pd, mem, PAGE_SIZE)), -EDQUOT);
			KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
			KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_CREATE_CQ), cqs);
			KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_CREATE_QP), qps);
			KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_ALLOC_MR), mrs);
		}
	}
	mr = reg(pd, mem, PAGE_SIZE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	/* What it took to get there is gone. */
	KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_CREATE_QP), qps);
	KUNIT_EXPECT_EQ(test, ib_fake_objects(dev, IB_FAKE_CREATE_CQ), cqs);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

/* Nothing stands in for what a device does not have. */
static void r34_devices_without(struct kunit *test)
{
	struct ib_device *no_mr = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .without = IB_FAKE_NO_ALLOC_MR });
	/* Without a network device it has no address to connect to. */
	struct ib_device *roce = make(test, 1, &(struct ib_fake_config){
		.name = "cfake%d", .protocol = IB_FAKE_ROCE });
	struct ib_device *small = make(test, 2, &(struct ib_fake_config){
		.name = "cfake%d", .max_fast_reg_pages = 1 });
	void *mem = page(test);
	struct ib_pd *pd;

	pd = ib_alloc_pd(no_mr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	ib_fake_clear_calls(no_mr);
	KUNIT_EXPECT_EQ(test, PTR_ERR(reg(pd, mem, PAGE_SIZE)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(no_mr, IB_FAKE_GET_DMA_MR), 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), 0);
	pd = ib_alloc_pd(roce);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	ib_fake_clear_calls(roce);
	KUNIT_EXPECT_EQ(test, PTR_ERR(reg(pd, mem, PAGE_SIZE)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(roce, IB_FAKE_GET_DMA_MR), 0);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), 0);
	pd = ib_alloc_pd(small);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	KUNIT_EXPECT_EQ(test, PTR_ERR(reg(pd, mem + 1, PAGE_SIZE)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(reg(pd, mem, PAGE_SIZE + 1)), -E2BIG);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(pd), 0);
}

static void r35_failure_leaves_it_allocated(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev), *other;
	void *mem = page(test);
	struct ib_phys_buf buf = { virt_to_phys(mem), 64 };
	struct ib_mr *mr = reg(pd, mem, PAGE_SIZE);
	struct ib_mr_attr attr;
	u64 iova = 0x20000;
	u32 key;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	key = mr->rkey;
	/* Before the old key is void: as it was. */
	ib_fake_fail(dev, IB_FAKE_CREATE_QP, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0, 0, NULL),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, mr->rkey, key);
	other = ib_alloc_pd(dev);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, other);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_PD, other, NULL, 0, 0, NULL),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_dealloc_pd(other), 0);
	KUNIT_EXPECT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.mr_access_flags, ALL_ACCESS);

	/* After: it has no valid key, and what it was can be registered again. */
	ib_fake_fail(dev, IB_FAKE_MAP_MR_SG, 1, -ENOSPC);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_TRANS, NULL, &buf, 1, 0, &iova),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.device_virt_addr, 0x10000);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0,
					       IB_ACCESS_REMOTE_READ, NULL), 0);
	KUNIT_EXPECT_EQ(test, mr->iova, 0x10000);
	KUNIT_EXPECT_EQ(test, mr->length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_TRANS, NULL, &buf, 1, 0, &iova), 0);
	KUNIT_EXPECT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.device_virt_addr, iova);
	KUNIT_EXPECT_EQ(test, attr.size, 64);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

static void r37_error_keeps_the_note(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_mr *mr = reg(pd, page(test), PAGE_SIZE);
	struct ib_mr_attr attr;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	ib_fake_fail(dev, IB_FAKE_DEREG_MR, 1, -EBUSY);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), -EBUSY);
	KUNIT_EXPECT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

static void r38_no_windows(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_pd *pd = make_pd(test, dev);

	if (!dev->ops.alloc_mw)
		KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mw(pd, IB_MW_TYPE_1)), -EOPNOTSUPP);
	else
		kunit_skip(test, "the fake has windows");
}

static void r42_promises(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_cq *cq = ib_create_cq(dev, NULL, NULL, NULL, 8, 0);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	/* A driver that promises nothing is not called. */
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, 16), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_destroy_cq(cq), 0);
}

static void r43_moderation(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &infiniband);
	struct ib_device *without = make(test, 1, &(struct ib_fake_config){
		.name = "cfake%d", .without = IB_FAKE_NO_MODIFY_CQ | IB_FAKE_NO_PEEK_CQ });
	struct ib_cq *cq = ib_create_cq(dev, NULL, NULL, NULL, 8, 0);
	struct ib_fake_call call;
	u32 i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	ib_fake_clear_calls(dev);
	KUNIT_EXPECT_EQ(test, ib_modify_cq(cq, 7, 123), 0);
	KUNIT_EXPECT_EQ(test, ib_fake_calls(dev, IB_FAKE_MODIFY_CQ), 1);
	for (i = 0; !ib_fake_call_at(dev, i, &call) && call.op != IB_FAKE_MODIFY_CQ; i++)
		;
	KUNIT_EXPECT_EQ(test, call.op, IB_FAKE_MODIFY_CQ);
	KUNIT_EXPECT_TRUE(test, (call.args[0] == 7 && call.args[1] == 123) ||
			  (call.args[1] == 7 && call.args[2] == 123));
	KUNIT_EXPECT_EQ(test, ib_destroy_cq(cq), 0);

	cq = ib_create_cq(without, NULL, NULL, NULL, 8, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	KUNIT_EXPECT_EQ(test, ib_modify_cq(cq, 7, 123), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_peek_cq(cq, 1), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_destroy_cq(cq), 0);

	cq = ib_cq_pool_get(dev, 8, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	KUNIT_EXPECT_EQ(test, ib_modify_cq(cq, 7, 123), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_resize_cq(cq, 100), -EOPNOTSUPP);
	ib_cq_pool_put(cq, 8);
}

static void r47_no_srq(struct kunit *test)
{
	struct ib_device *dev = make(test, 0, &(struct ib_fake_config){
		.name = "cfake%d", .without = IB_FAKE_NO_SRQ });
	struct ib_pd *pd = make_pd(test, dev);
	struct ib_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_create_srq(pd, &attr)), -EOPNOTSUPP);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r01_later_devices_too),
	KUNIT_CASE(r02_last_come_first_gone),
	KUNIT_CASE(r05_cache_before_handler),
	KUNIT_CASE(r07_values_of_the_provider),
	KUNIT_CASE(r08_ports),
	KUNIT_CASE(r09_infiniband_by_default),
	KUNIT_CASE(r12_any_port),
	KUNIT_CASE(r13_full_member_first),
	KUNIT_CASE(r14_errors_of_the_provider),
	KUNIT_CASE(r15_busy),
	KUNIT_CASE(r16_lids),
	KUNIT_CASE(r19_without_the_operation),
	KUNIT_CASE(r21_error_passes_through),
	KUNIT_CASE(r33_dma_mr),
	KUNIT_CASE(r34_every_step_fails_once),
	KUNIT_CASE(r34_devices_without),
	KUNIT_CASE(r35_failure_leaves_it_allocated),
	KUNIT_CASE(r37_error_keeps_the_note),
	KUNIT_CASE(r38_no_windows),
	KUNIT_CASE(r42_promises),
	KUNIT_CASE(r43_moderation),
	KUNIT_CASE(r47_no_srq),
	{}
};

static struct kunit_suite classic_fake = {
	.name = "classic_fake",
	.init = classic_init,
	.exit = classic_exit,
	.test_cases = cases,
};
kunit_test_suites(&classic_fake);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The classic calls of the verbs interface on fake devices");
