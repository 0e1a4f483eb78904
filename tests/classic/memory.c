// SPDX-License-Identifier: GPL-2.0
/* Rows 22-37: DMA, memory regions. */
#include <linux/scatterlist.h>

#include "rig.h"

/* Sends what lies at an address of one end; whether the other end got it. */
static bool arrives(struct rig *rig, u64 dma, const void *bytes, u32 length, u32 lkey)
{
	struct ib_sge from = { .addr = dma, .length = length, .lkey = lkey };
	struct ib_sge to = sge_of(&rig->b, 0, length);

	memset(rig->b.buf, 0, length);
	if (post_recv(rig->b.qp, 1, &to) || post_send(rig->a.qp, 2, &from, IB_SEND_SIGNALED))
		return false;
	if (wait_status(rig->a.scq) != IB_WC_SUCCESS || wait_status(rig->b.rcq) != IB_WC_SUCCESS)
		return false;
	ib_dma_sync_single_for_cpu(rig->b.dev, rig->b.dma, length, DMA_BIDIRECTIONAL);
	return !memcmp(rig->b.buf, bytes, length);
}

static void r22_dma_mapping_error(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);

	KUNIT_EXPECT_EQ(test, ib_dma_mapping_error(rig->a.dev, rig->a.dma), 0);
}

static void r23_dma_map_single(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig_pages(test, PAGE_SIZE);
	u64 dma = rig_map(test, rig->a.dev, mem + 100, 200);

	memset(mem + 100, 0xa1, 200);
	ib_dma_sync_single_for_device(rig->a.dev, dma, 200, DMA_BIDIRECTIONAL);
	KUNIT_EXPECT_TRUE(test, arrives(rig, dma, mem + 100, 200, rig->a.pd->local_dma_lkey));
}

static void r24_dma_unmap_single(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig_pages(test, PAGE_SIZE);
	u64 dma;
	int i;

	for (i = 1; i < 4; i++) {
		memset(mem, i, 64);
		dma = ib_dma_map_single(rig->a.dev, mem, 64, DMA_TO_DEVICE);
		KUNIT_ASSERT_EQ(test, ib_dma_mapping_error(rig->a.dev, dma), 0);
		KUNIT_EXPECT_TRUE(test, arrives(rig, dma, mem, 64, rig->a.pd->local_dma_lkey));
		ib_dma_unmap_single(rig->a.dev, dma, 64, DMA_TO_DEVICE);
	}
}

static void r25_dma_map_page(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig_pages(test, PAGE_SIZE);
	u64 dma;

	memset(mem, 0x11, PAGE_SIZE);
	memset(mem + 512, 0x22, 64);
	dma = ib_dma_map_page(rig->a.dev, virt_to_page(mem), 512, 64, DMA_TO_DEVICE);
	KUNIT_ASSERT_EQ(test, ib_dma_mapping_error(rig->a.dev, dma), 0);
	KUNIT_EXPECT_TRUE(test, arrives(rig, dma, mem + 512, 64, rig->a.pd->local_dma_lkey));
	ib_dma_unmap_page(rig->a.dev, dma, 64, DMA_TO_DEVICE);
}

static void r26_dma_unmap_page(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig_pages(test, PAGE_SIZE);
	int i;

	for (i = 0; i < 2; i++) {
		u64 dma = ib_dma_map_page(rig->a.dev, virt_to_page(mem), 0, 64, DMA_TO_DEVICE);

		mem[0] = i + 1;
		KUNIT_EXPECT_TRUE(test, arrives(rig, dma, mem, 64, rig->a.pd->local_dma_lkey));
		ib_dma_unmap_page(rig->a.dev, dma, 64, DMA_TO_DEVICE);
	}
}

static void sg_of(struct scatterlist *sg, u8 *mem)
{
	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], mem + 64, 128);
	sg_set_buf(&sg[1], mem + PAGE_SIZE, 256);
}

static void r27_dma_map_sg(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig_pages(test, 2 * PAGE_SIZE);
	struct scatterlist sg[2], *entry;
	u32 lkey = rig->a.pd->local_dma_lkey;
	int i, n;

	sg_of(sg, mem);
	get_random_bytes(mem, 2 * PAGE_SIZE);
	n = ib_dma_map_sg(rig->a.dev, sg, 2, DMA_TO_DEVICE);
	KUNIT_ASSERT_EQ(test, n, 2);
	for_each_sg(sg, entry, n, i) {
		KUNIT_EXPECT_EQ(test, sg_dma_len(entry), i ? 256 : 128);
		KUNIT_EXPECT_TRUE(test, arrives(rig, sg_dma_address(entry), sg_virt(entry),
						sg_dma_len(entry), lkey));
	}
	ib_dma_unmap_sg(rig->a.dev, sg, 2, DMA_TO_DEVICE);
}

static void r28_dma_unmap_sg(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	u8 *mem = rig_pages(test, 2 * PAGE_SIZE);
	struct scatterlist sg[2];
	int i;

	for (i = 0; i < 3; i++) {
		sg_of(sg, mem);
		KUNIT_EXPECT_EQ(test, ib_dma_map_sg(rig->a.dev, sg, 2, DMA_BIDIRECTIONAL), 2);
		ib_dma_unmap_sg(rig->a.dev, sg, 2, DMA_BIDIRECTIONAL);
	}
}

static void r29_dma_sync_for_cpu(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 64), to = sge_of(&rig->b, 0, 64);

	memset(rig->a.buf, 0x77, 64);
	ib_dma_sync_single_for_device(rig->a.dev, rig->a.dma, 64, DMA_BIDIRECTIONAL);
	ib_dma_sync_single_for_device(rig->b.dev, rig->b.dma, 64, DMA_BIDIRECTIONAL);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	ib_dma_sync_single_for_cpu(rig->b.dev, rig->b.dma, 64, DMA_BIDIRECTIONAL);
	KUNIT_EXPECT_EQ(test, rig->b.buf[63], 0x77);
}

static void r30_dma_sync_for_device(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_sge into = sge_of(&rig->a, 0, 64);
	int i;

	/* What the CPU wrote last before the call is what the peer reads. */
	for (i = 1; i < 4; i++) {
		memset(rig->b.buf, i, 64);
		ib_dma_sync_single_for_device(rig->b.dev, rig->b.dma, 64, DMA_BIDIRECTIONAL);
		KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_READ, &into, 0, mr->rkey),
				IB_WC_SUCCESS);
		KUNIT_EXPECT_MEMEQ(test, rig->a.buf, rig->b.buf, 64);
	}
}

static void r31_dma_alloc_coherent(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u32 lkey = rig->a.pd->local_dma_lkey;
	size_t size = 3 * PAGE_SIZE;
	u64 dma = 0;
	u8 *mem = ib_dma_alloc_coherent(rig->a.dev, size, &dma, GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mem);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(mem, 0, size), NULL);
	KUNIT_EXPECT_TRUE(test, PAGE_ALIGNED(mem));
	memset(mem + PAGE_SIZE, 0x3c, 128);
	KUNIT_EXPECT_TRUE(test, arrives(rig, dma + PAGE_SIZE, mem + PAGE_SIZE, 128, lkey));
	ib_dma_free_coherent(rig->a.dev, size, mem, dma);
}

static void r32_dma_free_coherent(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	unsigned long before, after;
	u64 dma;
	void *mem;
	int i;

	ib_dma_free_coherent(rig->a.dev, PAGE_SIZE, NULL, 0);
	before = global_zone_page_state(NR_FREE_PAGES);
	for (i = 0; i < 2000; i++) {
		mem = ib_dma_alloc_coherent(rig->a.dev, 16 * PAGE_SIZE, &dma, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mem);
		ib_dma_free_coherent(rig->a.dev, 16 * PAGE_SIZE, mem, dma);
	}
	after = global_zone_page_state(NR_FREE_PAGES);
	/* 32,000 pages came and went. */
	KUNIT_EXPECT_GT(test, after + 8000, before);
}

static void r33_get_dma_mr(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *local = ib_get_dma_mr(rig->a.pd, IB_ACCESS_LOCAL_WRITE);
	struct ib_mr *closed = ib_get_dma_mr(rig->b.pd, IB_ACCESS_LOCAL_WRITE);
	struct ib_mr *open = ib_get_dma_mr(rig->b.pd, ALL_ACCESS);
	struct ib_sge from = sge_of(&rig->a, 0, 64);

	rig_own(test, O_MR, local);
	rig_own(test, O_MR, closed);
	rig_own(test, O_MR, open);
	/* Remote writes without local ones make no sense. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_get_dma_mr(rig->a.pd, IB_ACCESS_REMOTE_WRITE)), -EINVAL);
	memset(rig->a.buf, 0x42, 64);
	KUNIT_EXPECT_TRUE(test, arrives(rig, rig->a.dma, rig->a.buf, 64, local->lkey));

	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from,
					  rig->b.dma + PAGE_SIZE, open->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_MEMEQ(test, rig->a.buf, rig->b.buf + PAGE_SIZE, 64);
	memset(rig->b.buf, 0, 64);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, rig->b.dma,
					  closed->rkey), IB_WC_REM_ACCESS_ERR);
	KUNIT_EXPECT_EQ(test, rig->b.buf[0], 0);
}

/* A write of so many bytes at an address of the peer. */
static int write_at(struct rig *rig, u64 iova, u32 length, u32 rkey)
{
	struct ib_sge from = sge_of(&rig->a, 0, length);

	return rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, iova, rkey);
}

static void r34_reg_phys_mr(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig->b.buf;
	/* The end of page 2, page 0, and the beginning of page 1: in this order. */
	struct ib_phys_buf bufs[] = {
		{ virt_to_phys(mem + 2 * PAGE_SIZE + 4000), 96 },
		{ virt_to_phys(mem), PAGE_SIZE },
		{ virt_to_phys(mem + PAGE_SIZE), 100 },
	};
	u64 iova = 0x123450000ULL + 4000, length = 96 + PAGE_SIZE + 100, asked = iova;
	struct ib_mr *mr, *other;

	mr = ib_reg_phys_mr(rig->b.pd, bufs, 3, ALL_ACCESS, &asked);
	rig_own(test, O_MR, mr);
	KUNIT_EXPECT_EQ(test, asked, iova);
	KUNIT_EXPECT_EQ(test, mr->iova, iova);
	KUNIT_EXPECT_EQ(test, mr->length, length);
	KUNIT_EXPECT_NE(test, mr->lkey, 0);
	KUNIT_EXPECT_NE(test, mr->rkey, 0);
	other = rig_phys_mr(test, rig->b.pd, mem + 3 * PAGE_SIZE, PAGE_SIZE, ALL_ACCESS, 0);
	KUNIT_EXPECT_NE(test, mr->rkey, other->rkey);
	KUNIT_EXPECT_NE(test, mr->lkey, other->lkey);

	/* All of it, in three pieces of memory. */
	get_random_bytes(rig->a.buf, length);
	KUNIT_EXPECT_EQ(test, write_at(rig, iova, length, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_MEMEQ(test, mem + 2 * PAGE_SIZE + 4000, rig->a.buf, 96);
	KUNIT_EXPECT_MEMEQ(test, mem, rig->a.buf + 96, PAGE_SIZE);
	KUNIT_EXPECT_MEMEQ(test, mem + PAGE_SIZE, rig->a.buf + 96 + PAGE_SIZE, 100);
	KUNIT_EXPECT_EQ(test, mem[PAGE_SIZE + 100], 0);
	/* One byte outside, at either end. */
	KUNIT_EXPECT_EQ(test, write_at(rig, iova + length, 1, mr->rkey), IB_WC_REM_ACCESS_ERR);
	KUNIT_EXPECT_EQ(test, mem[PAGE_SIZE + 100], 0);
	rig_reconnect(test, rig);
	KUNIT_EXPECT_EQ(test, write_at(rig, iova - 1, 1, mr->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	/* A right that was not given. */
	other = rig_phys_mr(test, rig->b.pd, mem, PAGE_SIZE, IB_ACCESS_REMOTE_READ, 0);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, other->rkey), IB_WC_REM_ACCESS_ERR);
}

static long reg_error(struct rig *rig, struct ib_phys_buf *bufs, int n, int access, u64 iova)
{
	struct ib_mr *mr = ib_reg_phys_mr(rig->b.pd, bufs, n, access, &iova);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	ib_dereg_mr(mr);
	return 0;
}

static void r34_reg_phys_mr_refuses(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	u64 at = virt_to_phys(rig->b.buf);
	struct ib_phys_buf hole[] = { { at, 100 }, { at + PAGE_SIZE, PAGE_SIZE } };
	struct ib_phys_buf late[] = { { at, PAGE_SIZE }, { at + PAGE_SIZE + 1, 10 } };
	struct ib_phys_buf one = { at, PAGE_SIZE };
	struct ib_phys_buf empty = { at, 0 };
	struct ib_phys_buf nowhere = { 1ULL << 62, PAGE_SIZE };
	struct ib_phys_buf wraps = { -PAGE_SIZE, 2 * PAGE_SIZE };
	struct ib_phys_buf huge = { at, PAGE_SIZE * 100000ULL };
	int before = atomic_read(&rig->b.pd->usecnt);

	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, 1, ALL_ACCESS, 0), 0);
	KUNIT_EXPECT_EQ(test, reg_error(rig, hole, 2, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, late, 2, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &empty, 1, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &nowhere, 1, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &wraps, 1, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &huge, 1, ALL_ACCESS, 0), -E2BIG);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, 0, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, -1, ALL_ACCESS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, NULL, 1, ALL_ACCESS, 0), -EINVAL);
	/* The address of the first byte is as far into its page as the byte. */
	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, 1, ALL_ACCESS, 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, 1, ALL_ACCESS, -PAGE_SIZE), -EINVAL);
	KUNIT_EXPECT_EQ(test, reg_error(rig, &one, 1, IB_ACCESS_REMOTE_WRITE, 0), -EINVAL);
	/* Nothing is left behind. */
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before);
}

static void r35_rereg_phys_mr(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	u8 *mem = rig->b.buf;
	struct ib_phys_buf next = { virt_to_phys(mem + 2 * PAGE_SIZE), PAGE_SIZE };
	struct ib_phys_buf more = { virt_to_phys(mem), BUF_SIZE };
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, mem, PAGE_SIZE, ALL_ACCESS, 0);
	u32 key = mr->rkey;
	u64 iova = 0x40000;

	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, key), IB_WC_SUCCESS);

	/* Rights: writes are refused, then allowed again. */
	KUNIT_ASSERT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0,
					       IB_ACCESS_REMOTE_READ, NULL), 0);
	KUNIT_EXPECT_NE(test, mr->rkey, key);
	KUNIT_EXPECT_EQ(test, mr->rkey >> 8, key >> 8);
	KUNIT_EXPECT_EQ(test, mr->lkey, mr->rkey);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, mr->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	KUNIT_ASSERT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0,
					       ALL_ACCESS, NULL), 0);
	memset(rig->a.buf, 0x10, 64);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 64, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, mem[0], 0x10);
	/* The old key is void. */
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 64, key), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);

	/* Memory: the new pages are seen, the old ones are not. */
	KUNIT_ASSERT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_TRANS, NULL, &next, 1, 0, &iova), 0);
	memset(rig->a.buf, 0x20, 64);
	KUNIT_EXPECT_EQ(test, write_at(rig, iova, 64, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, mem[2 * PAGE_SIZE], 0x20);
	KUNIT_EXPECT_EQ(test, mem[0], 0x10);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 64, mr->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);

	/* What is refused leaves the region as it is. */
	key = mr->rkey;
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, 0, NULL, NULL, 0, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, 1 << 3, NULL, NULL, 0, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_TRANS, NULL, &more, 1, 0, &iova),
			-E2BIG);
	KUNIT_EXPECT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0,
					       IB_ACCESS_REMOTE_WRITE, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, mr->rkey, key);
	KUNIT_EXPECT_EQ(test, write_at(rig, iova, 64, key), IB_WC_SUCCESS);
}

static void r35_rereg_phys_mr_pd(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_pd *pd = rig_pd(test, rig->b.dev);
	struct ib_mr *mr = rig_phys_mr(test, pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	int before = atomic_read(&rig->b.pd->usecnt);
	int ret;

	/* The queue pair is of another domain. */
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, mr->rkey), IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	ret = ib_rereg_phys_mr(mr, IB_MR_REREG_PD, rig->b.pd, NULL, 0, 0, NULL);
	if (ret == -EOPNOTSUPP)
		kunit_skip(test, "the device does not move regions");
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_EXPECT_PTR_EQ(test, mr->pd, rig->b.pd);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before + 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, mr->rkey), IB_WC_SUCCESS);
}

static void r36_query_mr(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	u64 iova = 0x7000 + 0x10;
	struct ib_phys_buf buf = { virt_to_phys(rig->a.buf) + 0x10, 1000 };
	int access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ;
	struct ib_mr *mr, *fast, *all;
	struct ib_mr_attr attr;

	mr = ib_reg_phys_mr(rig->a.pd, &buf, 1, access, &iova);
	rig_own(test, O_MR, mr);
	memset(&attr, 0xff, sizeof(attr));
	KUNIT_ASSERT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_PTR_EQ(test, attr.pd, rig->a.pd);
	KUNIT_EXPECT_EQ(test, attr.device_virt_addr, iova);
	KUNIT_EXPECT_EQ(test, attr.size, 1000);
	KUNIT_EXPECT_EQ(test, attr.mr_access_flags, access);
	KUNIT_EXPECT_EQ(test, attr.lkey, mr->lkey);
	KUNIT_EXPECT_EQ(test, attr.rkey, mr->rkey);
	KUNIT_EXPECT_EQ(test, ib_query_mr(mr, NULL), -EINVAL);
	KUNIT_ASSERT_EQ(test, ib_rereg_phys_mr(mr, IB_MR_REREG_ACCESS, NULL, NULL, 0, ALL_ACCESS,
					       NULL), 0);
	KUNIT_ASSERT_EQ(test, ib_query_mr(mr, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.mr_access_flags, ALL_ACCESS);
	KUNIT_EXPECT_EQ(test, attr.rkey, mr->rkey);

	all = ib_get_dma_mr(rig->a.pd, IB_ACCESS_LOCAL_WRITE);
	rig_own(test, O_MR, all);
	KUNIT_ASSERT_EQ(test, ib_query_mr(all, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.mr_access_flags, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, attr.size, U64_MAX);
	/* Nobody notes the rights of other regions. */
	fast = ib_alloc_mr(rig->a.pd, IB_MR_TYPE_MEM_REG, 1);
	rig_own(test, O_MR, fast);
	KUNIT_EXPECT_EQ(test, ib_query_mr(fast, &attr), -EOPNOTSUPP);
}

static void r37_dereg_mr(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	int before = atomic_read(&rig->b.pd->usecnt);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	u32 key = mr->rkey;

	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, key), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before + 1);
	KUNIT_EXPECT_EQ(test, rig_drop(test, mr), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->b.pd->usecnt), before);
	KUNIT_EXPECT_EQ(test, write_at(rig, 0, 8, key), IB_WC_REM_ACCESS_ERR);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r22_dma_mapping_error),
	KUNIT_CASE(r23_dma_map_single),
	KUNIT_CASE(r24_dma_unmap_single),
	KUNIT_CASE(r25_dma_map_page),
	KUNIT_CASE(r26_dma_unmap_page),
	KUNIT_CASE(r27_dma_map_sg),
	KUNIT_CASE(r28_dma_unmap_sg),
	KUNIT_CASE(r29_dma_sync_for_cpu),
	KUNIT_CASE(r30_dma_sync_for_device),
	KUNIT_CASE(r31_dma_alloc_coherent),
	KUNIT_CASE(r32_dma_free_coherent),
	KUNIT_CASE(r33_get_dma_mr),
	KUNIT_CASE(r34_reg_phys_mr),
	KUNIT_CASE(r34_reg_phys_mr_refuses),
	KUNIT_CASE(r35_rereg_phys_mr),
	KUNIT_CASE(r35_rereg_phys_mr_pd),
	KUNIT_CASE(r36_query_mr),
	KUNIT_CASE(r37_dereg_mr),
	{}
};

RIG_SUITE(memory_suite, "classic_memory", cases);
