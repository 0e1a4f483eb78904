// SPDX-License-Identifier: GPL-2.0
/* What depends on the wire. Last, as it takes the link away. */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "rig.h"

/* Runs a command with the name of A's network interface in it. */
static int run_on(struct end *end, const char *format)
{
	struct net_device *ndev = ib_device_get_netdev(end->dev, end->port);
	char command[128];

	if (!ndev)
		return -ENODEV;
	snprintf(command, sizeof(command), format, ndev->name);
	dev_put(ndev);
	return run(command);
}

static rx_handler_result_t swallow(struct sk_buff **skb)
{
	kfree_skb(*skb);
	return RX_HANDLER_CONSUMED;
}

/*
 * Whether what arrives at B gets lost. Here and not in a queue discipline: how long a command
 * takes to remove that one is nothing to measure the retries of a queue pair by.
 */
static int set_lossy(struct end *end, bool lossy)
{
	struct net_device *ndev = ib_device_get_netdev(end->dev, end->port);
	int ret = 0;

	if (!ndev)
		return -ENODEV;
	rtnl_lock();
	if (lossy)
		ret = netdev_rx_handler_register(ndev, swallow, NULL);
	else
		netdev_rx_handler_unregister(ndev);
	rtnl_unlock();
	dev_put(ndev);
	return ret;
}

/* Packets of A get lost. A loopback has no wire. */
static void lose(struct kunit *test, struct rig *rig)
{
	if (rig->a.dev == rig->b.dev)
		kunit_skip(test, "one device has no wire to itself");
	if (set_lossy(&rig->b, true))
		kunit_skip(test, "the interface is in use otherwise");
}

static int find(struct rig *rig)
{
	return set_lossy(&rig->b, false);
}

static void x10_uc_loses(struct kunit *test)
{
	struct rig *rig = rig_pair(test, IB_QPT_UC);
	struct ib_sge from = sge_of(&rig->a, 0, 64), to = sge_of(&rig->b, 0, 64);
	struct ib_wc wc;
	int status;

	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	lose(test, rig);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	status = wait_status(rig->a.scq);
	KUNIT_EXPECT_EQ(test, find(rig), 0);
	/* Sent is sent. */
	KUNIT_EXPECT_EQ(test, status, IB_WC_SUCCESS);
	KUNIT_EXPECT_FALSE(test, wait_wc(rig->b.rcq, &wc, 200));
}

static void x11_rc_retries(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 64), to = sge_of(&rig->b, 0, 64);
	struct link link = LINK_DEFAULT;
	int status;

	/* 4.096 us * 2^14 = 67 ms, twice again. */
	link.retry_cnt = 2;
	rig_connect(test, &rig->a, rig->a.qp, &rig->b, rig->b.qp, &link);
	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	lose(test, rig);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	status = wait_status(rig->a.scq);
	KUNIT_EXPECT_EQ(test, find(rig), 0);
	KUNIT_EXPECT_EQ(test, status, IB_WC_RETRY_EXC_ERR);
}

static void x12_rc_recovers(struct kunit *test)
{
	struct rig *rig = rig_ends(test, IB_QPT_RC);
	struct ib_sge from = sge_of(&rig->a, 0, 64), to = sge_of(&rig->b, 0, 64);
	struct link link = LINK_DEFAULT;

	/* 537 ms, seven times: the wire is back before that. */
	link.timeout = 17;
	rig_connect(test, &rig->a, rig->a.qp, &rig->b, rig->b.qp, &link);
	KUNIT_ASSERT_EQ(test, post_recv(rig->b.qp, 1, &to), 0);
	memset(rig->a.buf, 0x55, 64);
	lose(test, rig);
	KUNIT_EXPECT_EQ(test, post_send(rig->a.qp, 1, &from, IB_SEND_SIGNALED), 0);
	msleep(100);
	KUNIT_EXPECT_EQ(test, ib_peek_cq(rig->b.rcq, 1), 0);
	KUNIT_EXPECT_EQ(test, find(rig), 0);
	KUNIT_EXPECT_EQ(test, wait_status(rig->a.scq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wait_status(rig->b.rcq), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, rig->b.buf[63], 0x55);
}

static enum ib_port_state port_state(struct end *end)
{
	struct ib_port_attr attr;

	return ib_query_port(end->dev, end->port, &attr) ? -1 : attr.state;
}

static void r08_port_follows_link(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);

	KUNIT_EXPECT_EQ(test, port_state(&rig->a), IB_PORT_ACTIVE);
	KUNIT_ASSERT_EQ(test, run_on(&rig->a, "ip link set %s down"), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(port_state(&rig->a) == IB_PORT_DOWN, 5000));
	KUNIT_EXPECT_EQ(test, run_on(&rig->a, "ip link set %s up"), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(port_state(&rig->a) == IB_PORT_ACTIVE, 5000));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(x10_uc_loses),
	KUNIT_CASE(x11_rc_retries),
	KUNIT_CASE(x12_rc_recovers),
	KUNIT_CASE(r08_port_follows_link),
	{}
};

RIG_SUITE(link_suite, "classic_link", cases);
