// SPDX-License-Identifier: GPL-2.0
/* What is told about RDMA in general. */
#include <linux/netdevice.h>

#include "rig.h"

static void x04_guid_gid_lid(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct net_device *ndev = ib_device_get_netdev(rig->a.dev, rig->a.port);
	struct ib_port_attr attr;
	union ib_gid gid;
	u8 eui[8];

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ndev);
	memcpy(eui, ndev->dev_addr, 3);
	memcpy(eui + 5, ndev->dev_addr + 3, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	dev_put(ndev);
	KUNIT_EXPECT_MEMEQ(test, &rig->a.dev->node_guid, eui, 8);
	KUNIT_ASSERT_EQ(test, ib_query_gid(rig->a.dev, rig->a.port, 0, &gid), 0);
	KUNIT_EXPECT_MEMEQ(test, &gid.global.interface_id, eui, 8);
	KUNIT_ASSERT_EQ(test, ib_query_port(rig->a.dev, rig->a.port, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.lid, 0);
	KUNIT_EXPECT_EQ(test, attr.sm_lid, 0);
}

/* What a local key that is not good leads to. */
static void expect_protection(struct kunit *test, struct rig *rig, int status)
{
	if (status == IB_WC_WR_FLUSH_ERR && is_stock_rxe(rig->a.dev))
		kunit_skip(test, "the provider reports the failing request as flushed");
	KUNIT_EXPECT_EQ(test, status, IB_WC_LOC_PROT_ERR);
}

static void x05_keys(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_sge from = sge_of(&rig->a, 0, 16);
	struct ib_sge wrong = from;

	KUNIT_EXPECT_NE(test, mr->lkey, 0);
	KUNIT_EXPECT_NE(test, mr->rkey, 0);
	/* Another low byte is another key. */
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, 0, mr->rkey ^ 1),
			IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	wrong.lkey ^= 1;
	expect_protection(test, rig, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &wrong, 0, mr->rkey));
}

static void x06_domains_isolate(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_pd *far = rig_pd(test, rig->b.dev), *near = rig_pd(test, rig->a.dev);
	struct ib_mr *theirs = rig_phys_mr(test, far, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_mr *good = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_mr *ours = rig_phys_mr(test, near, rig->a.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_sge from = sge_of(&rig->a, 0, 16);

	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, 0, good->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, 0, theirs->rkey),
			IB_WC_REM_ACCESS_ERR);
	rig_reconnect(test, rig);
	from = (struct ib_sge){ .addr = 0, .length = 16, .lkey = ours->lkey };
	expect_protection(test, rig, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, 0,
						 good->rkey));
}

static void x07_write_is_one_sided(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE, ALL_ACCESS, 0);
	struct ib_sge from = sge_of(&rig->a, 0, 64);
	struct ib_wc wc;

	memset(rig->a.buf, 0x21, 64);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE, &from, 0, mr->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rig->b.buf[63], 0x21);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 50));

	/* With immediate data it takes a receive, of no length. */
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 9, NULL), 0);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_WRITE_WITH_IMM, &from, 128,
					  mr->rkey), IB_WC_SUCCESS);
	KUNIT_ASSERT_TRUE(test, wait_wc(rig->b.rcq, &wc, 5000));
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RECV_RDMA_WITH_IMM);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(wc.ex.imm_data), 0x1234);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 9);
	KUNIT_EXPECT_EQ(test, rig->b.buf[128], 0x21);
}

static void x08_send_needs_receive(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 16), to = sge_of(&rig->b, 0, 16);
	struct link link = LINK_DEFAULT;

	/* Two retries, then an error. */
	link.rnr_retry = 2;
	rig_connect(test, &rig->a, rig->a.qp, &rig->b, rig->b.qp, &link);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_RNR_RETRY_EXC_ERR);
	/* Seven means for ever. */
	rig_reconnect(test, rig);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	msleep(100);
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->a.scq, 1), 0);
	KUNIT_EXPECT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
}

static void x09_read_pulls(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_RC);
	struct ib_mr *mr = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       IB_ACCESS_REMOTE_READ, 0);
	struct ib_mr *no = rig_phys_mr(test, rig->b.pd, rig->b.buf, PAGE_SIZE,
				       IB_ACCESS_LOCAL_WRITE, 0);
	struct ib_sge into = sge_of(&rig->a, 0, 64);

	memset(rig->b.buf, 0x31, 64);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_READ, &into, 0, mr->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rig->a.buf[63], 0x31);
	KUNIT_EXPECT_EQ(test, rdma_status(rig->a.qp, IB_WR_RDMA_READ, &into, 0, no->rkey),
			IB_WC_REM_ACCESS_ERR);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(x04_guid_gid_lid),
	KUNIT_CASE(x05_keys),
	KUNIT_CASE(x06_domains_isolate),
	KUNIT_CASE(x07_write_is_one_sided),
	KUNIT_CASE(x08_send_needs_receive),
	KUNIT_CASE(x09_read_pulls),
	{}
};

RIG_SUITE(fact_suite, "classic_fact", cases);
