// SPDX-License-Identifier: GPL-2.0
/* Rows 1-13: clients, events, devices, ports, tables. */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>

#include "rig.h"

/* Clients that write down what is called, in which order. */
struct probe {
	struct ib_client client;
	int added, removed;
	int first_call;
	int refuse;
	void *seen;
	bool gone_in_remove;
};

static int calls;
static struct probe *probe_of(struct ib_device *dev, int which);

static int probe_add(struct probe *probe, struct ib_device *dev)
{
	probe->added++;
	if (dev == rig_devices[0])
		probe->first_call = ++calls;
	if (probe->refuse)
		return -EINVAL;
	ib_set_client_data(dev, &probe->client, probe);
	return 0;
}

static void probe_remove(struct probe *probe, struct ib_device *dev, void *data)
{
	probe->removed++;
	probe->seen = data;
	if (dev == rig_devices[0])
		probe->first_call = ++calls;
}

static struct probe probes[2];

static int add0(struct ib_device *dev)
{
	return probe_add(&probes[0], dev);
}

static int add1(struct ib_device *dev)
{
	return probe_add(&probes[1], dev);
}

static void remove0(struct ib_device *dev, void *data)
{
	probe_remove(&probes[0], dev, data);
}

static void remove1(struct ib_device *dev, void *data)
{
	probe_remove(&probes[1], dev, data);
}

static struct probe *probe_of(struct ib_device *dev, int which)
{
	memset(&probes[which], 0, sizeof(probes[which]));
	probes[which].client.name = which ? "classic_probe1" : "classic_probe0";
	probes[which].client.add = which ? add1 : add0;
	probes[which].client.remove = which ? remove1 : remove0;
	return &probes[which];
}

/* Devices of the machine, by what a client sees. */
static void r01_register_client(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct probe *first = probe_of(rig->a.dev, 0), *second = probe_of(rig->a.dev, 1);

	calls = 0;
	second->refuse = 1;
	KUNIT_ASSERT_EQ(test, ib_register_client(&first->client), 0);
	KUNIT_EXPECT_GE(test, first->added, rig->a.dev == rig->b.dev ? 1 : 2);
	KUNIT_EXPECT_EQ(test, first->first_call, 1);
	/* A refusal is the device's loss, not the client's. */
	KUNIT_EXPECT_EQ(test, ib_register_client(&second->client), 0);
	KUNIT_EXPECT_EQ(test, second->added, first->added);
	KUNIT_EXPECT_EQ(test, second->first_call, 2);
	ib_unregister_client(&second->client);
	KUNIT_EXPECT_EQ(test, second->removed, 0);
	ib_unregister_client(&first->client);
	KUNIT_EXPECT_EQ(test, first->added, first->removed);
}

static void r02_unregister_client(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct probe *probe = probe_of(rig->a.dev, 0);
	int removed;

	KUNIT_ASSERT_EQ(test, ib_register_client(&probe->client), 0);
	KUNIT_EXPECT_EQ(test, probe->removed, 0);
	ib_unregister_client(&probe->client);
	removed = probe->removed;
	KUNIT_EXPECT_EQ(test, removed, probe->added);
	msleep(20);
	KUNIT_EXPECT_EQ(test, probe->removed, removed);
}

static void r03_set_client_data(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct probe *first = probe_of(rig->a.dev, 0), *second = probe_of(rig->a.dev, 1);

	KUNIT_ASSERT_EQ(test, ib_register_client(&first->client), 0);
	KUNIT_ASSERT_EQ(test, ib_register_client(&second->client), 0);
	/* One value for each client. */
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(rig->a.dev, &first->client), first);
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(rig->a.dev, &second->client), second);
	/* NULL is a value: the client stays attached. */
	ib_set_client_data(rig->a.dev, &second->client, NULL);
	if (rig->a.dev != rig->b.dev)
		ib_set_client_data(rig->b.dev, &second->client, NULL);
	ib_unregister_client(&second->client);
	KUNIT_EXPECT_EQ(test, second->removed, second->added);
	ib_unregister_client(&first->client);
	KUNIT_EXPECT_PTR_EQ(test, first->seen, first);
}

static void r04_get_client_data(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct probe *probe = probe_of(rig->a.dev, 0);

	probe->refuse = 1;
	KUNIT_ASSERT_EQ(test, ib_register_client(&probe->client), 0);
	/* Not attached: nothing is stored. */
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(rig->a.dev, &probe->client), NULL);
	ib_unregister_client(&probe->client);

	probe = probe_of(rig->a.dev, 0);
	KUNIT_ASSERT_EQ(test, ib_register_client(&probe->client), 0);
	ib_set_client_data(rig->a.dev, &probe->client, &calls);
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(rig->a.dev, &probe->client), &calls);
	ib_unregister_client(&probe->client);
}

struct listener {
	struct ib_event_handler handler;
	atomic_t heard;
	int order;
	int delay;
	bool atomic_context;
	bool finished;
};

static atomic_t event_order;

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct listener *l = container_of(handler, struct listener, handler);

	if (event->event != IB_EVENT_SM_CHANGE)
		return;
	l->atomic_context = !preemptible();
	l->order = atomic_inc_return(&event_order);
	atomic_inc(&l->heard);
	if (l->delay)
		msleep(l->delay);
	l->finished = true;
}

static void dispatch(struct end *end)
{
	struct ib_event event = {
		.device = end->dev,
		.event = IB_EVENT_SM_CHANGE,
		.element.port_num = end->port,
	};

	ib_dispatch_event(&event);
}

static void r05_register_event_handler(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct listener one = {}, two = {};
	bool both;

	atomic_set(&event_order, 0);
	INIT_IB_EVENT_HANDLER(&one.handler, rig->a.dev, on_event);
	INIT_IB_EVENT_HANDLER(&two.handler, rig->a.dev, on_event);
	KUNIT_EXPECT_EQ(test, ib_register_event_handler(&one.handler), 0);
	KUNIT_EXPECT_EQ(test, ib_register_event_handler(&two.handler), 0);
	dispatch(&rig->a);
	both = wait_for(atomic_read(&one.heard) && atomic_read(&two.heard), 5000);
	ib_unregister_event_handler(&two.handler);
	ib_unregister_event_handler(&one.handler);
	KUNIT_EXPECT_TRUE(test, both);
	KUNIT_EXPECT_EQ(test, one.order, 1);
	KUNIT_EXPECT_EQ(test, two.order, 2);
	KUNIT_EXPECT_FALSE(test, one.atomic_context);
}

static void r06_unregister_event_handler(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct listener l = { .delay = 100 };
	bool begun;

	INIT_IB_EVENT_HANDLER(&l.handler, rig->a.dev, on_event);
	KUNIT_ASSERT_EQ(test, ib_register_event_handler(&l.handler), 0);
	dispatch(&rig->a);
	begun = wait_for(atomic_read(&l.heard), 5000);
	KUNIT_EXPECT_EQ(test, ib_unregister_event_handler(&l.handler), 0);
	KUNIT_EXPECT_TRUE(test, begun);
	KUNIT_EXPECT_TRUE(test, l.finished);
	dispatch(&rig->a);
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(&l.heard), 1);
}

static void r07_query_device(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_device_attr *attr = kmalloc(sizeof(*attr), GFP_KERNEL);

	rig_own(test, O_MEM, attr);
	KUNIT_EXPECT_EQ(test, ib_query_device(rig->a.dev, NULL), -EINVAL);
	memset(attr, 0xff, sizeof(*attr));
	KUNIT_ASSERT_EQ(test, ib_query_device(rig->a.dev, attr), 0);
	KUNIT_EXPECT_MEMEQ(test, attr, &rig->a.dev->attrs, sizeof(*attr));
	KUNIT_EXPECT_GT(test, attr->max_qp, 0);
	KUNIT_EXPECT_GT(test, attr->max_mr, 0);
	if (is_rxe(rig->a.dev)) {
		KUNIT_EXPECT_EQ(test, attr->max_cqe, 32767);
		KUNIT_EXPECT_EQ(test, attr->max_send_sge, 32);
		KUNIT_EXPECT_EQ(test, attr->max_fast_reg_page_list_len, 512);
		KUNIT_EXPECT_EQ(test, attr->max_qp_rd_atom, 128);
		KUNIT_EXPECT_TRUE(test, attr->device_cap_flags & IB_DEVICE_MEM_WINDOW);
	}
}

static void r08_query_port(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct ib_device *dev = rig->a.dev;
	struct net_device *ndev;
	struct ib_port_attr attr;
	u8 beyond = dev->phys_port_cnt + 1;

	KUNIT_EXPECT_EQ(test, ib_query_port(dev, (u8)0, &attr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_port(dev, beyond, &attr), -EINVAL);
	memset(&attr, 0xff, sizeof(attr));
	KUNIT_ASSERT_EQ(test, ib_query_port(dev, rig->a.port, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.state, IB_PORT_ACTIVE);
	KUNIT_EXPECT_EQ(test, attr.phys_state, IB_PORT_PHYS_STATE_LINK_UP);
	KUNIT_EXPECT_EQ(test, attr.lid, 0);
	/* Nothing sets this one: it was zeroed. */
	KUNIT_EXPECT_EQ(test, attr.port_cap_flags2, 0);
	KUNIT_EXPECT_NE(test, attr.active_width, 0);
	KUNIT_EXPECT_NE(test, attr.active_speed, 0);
	ndev = ib_device_get_netdev(dev, rig->a.port);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ndev);
	KUNIT_EXPECT_LE(test, ib_mtu_enum_to_int(attr.active_mtu), (int)ndev->mtu);
	KUNIT_EXPECT_GT(test, 4 * ib_mtu_enum_to_int(attr.active_mtu), (int)ndev->mtu);
	dev_put(ndev);
}

static void r09_link_layer(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);

	if (!is_rxe(rig->a.dev))
		kunit_skip(test, "not rxe");
	KUNIT_EXPECT_EQ(test, rdma_port_get_link_layer(rig->a.dev, rig->a.port),
			IB_LINK_LAYER_ETHERNET);
}

static bool has_gid(struct end *end, const union ib_gid *gid)
{
	u8 port;

	return !ib_find_gid(end->dev, gid, &port, NULL);
}

static void r10_query_gid(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct end *a = &rig->a;
	union ib_gid gid, expected = {}, mapped = {};
	struct ib_port_attr attr;
	struct net_device *ndev;
	char command[96];
	u8 eui[8];
	int empty;

	KUNIT_ASSERT_EQ(test, ib_query_port(a->dev, a->port, &attr), 0);
	KUNIT_EXPECT_EQ(test, ib_query_gid(a->dev, a->port, -1, &gid), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_query_gid(a->dev, a->port, attr.gid_tbl_len, &gid), -EINVAL);
	empty = attr.gid_tbl_len - 1;
	KUNIT_EXPECT_EQ(test, ib_query_gid(a->dev, a->port, empty, &gid), -ENOENT);

	ndev = ib_device_get_netdev(a->dev, a->port);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ndev);
	memcpy(eui, ndev->dev_addr, 3);
	memcpy(eui + 5, ndev->dev_addr + 3, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	expected.global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	memcpy(&expected.raw[8], eui, 8);
	KUNIT_EXPECT_EQ(test, ib_query_gid(a->dev, a->port, 0, &gid), 0);
	KUNIT_EXPECT_MEMEQ(test, gid.raw, expected.raw, 16);

	ipv6_addr_set_v4mapped(cpu_to_be32(0x0a090709), (struct in6_addr *)mapped.raw);
	KUNIT_EXPECT_FALSE(test, has_gid(a, &mapped));
	snprintf(command, sizeof(command), "ip addr add 10.9.7.9/32 dev %s", ndev->name);
	KUNIT_EXPECT_EQ(test, run(command), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(has_gid(a, &mapped), 5000));
	snprintf(command, sizeof(command), "ip addr del 10.9.7.9/32 dev %s", ndev->name);
	KUNIT_EXPECT_EQ(test, run(command), 0);
	KUNIT_EXPECT_TRUE(test, wait_for(!has_gid(a, &mapped), 5000));
	dev_put(ndev);
}

static void r11_query_pkey(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	u16 pkey = 0;

	KUNIT_EXPECT_EQ(test, ib_query_pkey(rig->a.dev, rig->a.port, 0, &pkey), 0);
	KUNIT_EXPECT_EQ(test, pkey, 0xffff);
	KUNIT_EXPECT_EQ(test, ib_query_pkey(rig->a.dev, rig->a.port, 1, &pkey), -EINVAL);
}

static void r12_find_gid(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	struct end *a = &rig->a;
	union ib_gid unknown = { .raw = { 0xfd, 1, 2, 3 } };
	u8 port = 0xee;
	u32 wide = 0;
	u16 index = 0xeeee;

	KUNIT_EXPECT_EQ(test, ib_find_gid(a->dev, &a->gid, &port, &index), 0);
	KUNIT_EXPECT_EQ(test, port, a->port);
	KUNIT_EXPECT_EQ(test, index, a->gid_index);
	KUNIT_EXPECT_EQ(test, ib_find_gid(a->dev, &a->gid, &port, NULL), 0);
	port = 0xee;
	KUNIT_EXPECT_EQ(test, ib_find_gid(a->dev, &unknown, &port, &index), -ENOENT);
	KUNIT_EXPECT_EQ(test, port, 0xee);
	/* Today's form only looks at InfiniBand links. */
	KUNIT_EXPECT_EQ(test, ib_find_gid(a->dev, &a->gid, &wide, NULL),
			rdma_protocol_ib(a->dev, a->port) ? 0 : -ENOENT);
}

static void r13_find_pkey(struct kunit *test)
{
	struct rig *rig = rig_ends(test, -1);
	u16 index = 0xeeee;

	KUNIT_EXPECT_EQ(test, ib_find_pkey(rig->a.dev, rig->a.port, 0xffff, &index), 0);
	KUNIT_EXPECT_EQ(test, index, 0);
	/* A limited key is found by its full member. */
	KUNIT_EXPECT_EQ(test, ib_find_pkey(rig->a.dev, rig->a.port, 0x7fff, &index), 0);
	KUNIT_EXPECT_EQ(test, ib_find_pkey(rig->a.dev, rig->a.port, 0x1234, &index), -ENOENT);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(r01_register_client),
	KUNIT_CASE(r02_unregister_client),
	KUNIT_CASE(r03_set_client_data),
	KUNIT_CASE(r04_get_client_data),
	KUNIT_CASE(r05_register_event_handler),
	KUNIT_CASE(r06_unregister_event_handler),
	KUNIT_CASE(r07_query_device),
	KUNIT_CASE(r08_query_port),
	KUNIT_CASE(r09_link_layer),
	KUNIT_CASE(r10_query_gid),
	KUNIT_CASE(r11_query_pkey),
	KUNIT_CASE(r12_find_gid),
	KUNIT_CASE(r13_find_pkey),
	{}
};

RIG_SUITE(device_suite, "classic_device", cases);
