// SPDX-License-Identifier: GPL-2.0
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/sched/task.h>

#include "core_test.h"

static int run(void *data)
{
	struct core_task *thread = data;

	thread->fn(thread->arg);
	complete_all(&thread->done);
	return 0;
}

int core_start(struct core_task *thread, void (*fn)(void *arg), void *arg)
{
	thread->fn = fn;
	thread->arg = arg;
	init_completion(&thread->done);
	thread->task = kthread_create(run, thread, "core_test");
	if (IS_ERR(thread->task))
		return PTR_ERR(thread->task);
	get_task_struct(thread->task);
	wake_up_process(thread->task);
	return 0;
}

/*
 * Waits until it has ended. If it does not in time, the test has failed, but no memory is
 * safe before. The wait is in pieces, so that the waiter is never taken for a hung one: that
 * is what the thread itself may be.
 */
bool core_join(struct core_task *thread)
{
	unsigned long end = jiffies + CORE_PATIENCE;
	bool in_time = true;

	while (!wait_for_completion_timeout(&thread->done, HZ)) {
		if (in_time && time_after(jiffies, end)) {
			pr_err("core_test: a thread does not end\n");
			in_time = false;
		}
	}
	kthread_stop_put(thread->task);
	return in_time;
}

bool core_is_done(struct core_task *thread)
{
	return completion_done(&thread->done);
}

static netdev_tx_t drop(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops netdev_ops = {
	.ndo_start_xmit = drop,
	.ndo_set_mac_address = eth_mac_addr,
};

static void end_netdev(void *netdev)
{
	unregister_netdev(netdev);
	free_netdev(netdev);
}

/* A network device with the address 02:00:00:00:00:number that is up, and ends with the test. */
struct net_device *core_netdev(struct kunit *test, u8 number)
{
	struct net_device *netdev = alloc_etherdev(0);
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, netdev);
	netdev->netdev_ops = &netdev_ops;
	netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	eth_hw_addr_set(netdev, (u8[]){ 2, 0, 0, 0, 0, number });
	ret = register_netdev(netdev);
	if (ret)
		free_netdev(netdev);
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_netdev, netdev), 0);
	rtnl_lock();
	ret = dev_open(netdev, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, ret, 0);
	return netdev;
}

static void end_device(void *device)
{
	ib_fake_destroy(device);
}

/* An InfiniBand device that ends with the test. */
struct ib_device *core_device(struct kunit *test, const char *name)
{
	const struct ib_fake_config config = { .name = name };
	struct ib_device *device = ib_fake_create(&config);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, device);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_device, device), 0);
	return device;
}

struct ib_qp *core_qp(struct kunit *test, struct ib_pd *pd, struct ib_cq *cq, u32 wrs)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = wrs, .max_recv_wr = wrs, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ib_qp *qp = ib_create_qp(pd, &attr);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp);
	KUNIT_EXPECT_EQ(test, core_qp_state(qp, IB_QPS_INIT), 0);
	return qp;
}

int core_qp_state(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state, .port_num = 1 };
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PORT | IB_QP_PKEY_INDEX | IB_QP_ACCESS_FLAGS;
	return ib_modify_qp(qp, &attr, mask);
}

kunit_test_suites(&core_client_suite, &core_event_suite, &core_cq_suite, &core_gid_suite,
		  &core_track_suite, &core_rows_suite, &core_helper_suite);

MODULE_DESCRIPTION("KUnit suites of order and fences of the RDMA core");
MODULE_LICENSE("GPL");
