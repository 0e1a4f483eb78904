// SPDX-License-Identifier: GPL-2.0
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>

#include "rig.h"

static char *dev0 = "rxe0";
module_param(dev0, charp, 0444);
MODULE_PARM_DESC(dev0, "device of the first end");
static char *dev1 = "rxe1";
module_param(dev1, charp, 0444);
MODULE_PARM_DESC(dev1, "device of the second end; if there is none, the first one");
static int loopback;
module_param(loopback, int, 0444);
MODULE_PARM_DESC(loopback, "use the first device alone");

struct ib_device *rig_devices[2];

static int rig_add(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), dev0))
		rig_devices[0] = dev;
	else if (*dev1 && !loopback && !strcmp(dev_name(&dev->dev), dev1))
		rig_devices[1] = dev;
	else
		return -ENODEV;
	return 0;
}

static void rig_remove(struct ib_device *dev, void *data)
{
	if (rig_devices[0] == dev)
		rig_devices[0] = NULL;
	if (rig_devices[1] == dev)
		rig_devices[1] = NULL;
}

static struct ib_client rig_client = {
	.name = "classic_test",
	.add = rig_add,
	.remove = rig_remove,
};

int rig_suite_init(struct kunit_suite *suite)
{
	return ib_register_client(&rig_client);
}

void rig_suite_exit(struct kunit_suite *suite)
{
	ib_unregister_client(&rig_client);
}

int rig_init(struct kunit *test)
{
	struct rig *rig = kzalloc(sizeof(*rig), GFP_KERNEL);

	test->priv = rig;
	return rig ? 0 : -ENOMEM;
}

static int undo(struct object *o)
{
	switch (o->kind) {
	case O_PD:
		return ib_dealloc_pd(o->ptr);
	case O_CQ:
		return ib_destroy_cq(o->ptr);
	case O_QP:
		return ib_destroy_qp(o->ptr);
	case O_SRQ:
		return ib_destroy_srq(o->ptr);
	case O_MR:
		return ib_dereg_mr(o->ptr);
	case O_MW:
		return ib_dealloc_mw(o->ptr);
	case O_AH:
		return ib_destroy_ah(o->ptr);
	case O_MEM:
		kfree(o->ptr);
		return 0;
	case O_PAGES:
		free_pages_exact(o->ptr, o->dma);
		return 0;
	case O_MAP:
		ib_dma_unmap_single(o->dev, o->dma, (size_t)o->ptr, DMA_BIDIRECTIONAL);
		return 0;
	}
	return -EINVAL;
}

void rig_exit(struct kunit *test)
{
	struct rig *rig = test->priv;

	if (!rig)
		return;
	while (rig->count) {
		struct object *o = &rig->objects[--rig->count];
		int ret = undo(o);

		if (ret)
			pr_err("%s: object %d of kind %d is left behind: %d\n", test->name,
			       rig->count, o->kind, ret);
	}
	kfree(rig);
	test->priv = NULL;
}

static struct object *new_object(struct kunit *test, enum object_kind kind, void *ptr)
{
	struct rig *rig = test->priv;

	KUNIT_ASSERT_TRUE(test, rig->count < ARRAY_SIZE(rig->objects));
	rig->objects[rig->count] = (struct object){ .kind = kind, .ptr = ptr };
	return &rig->objects[rig->count++];
}

void rig_own(struct kunit *test, enum object_kind kind, void *ptr)
{
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ptr);
	new_object(test, kind, ptr);
}

static struct object *find_object(struct rig *rig, void *ptr)
{
	int i;

	for (i = rig->count - 1; i >= 0; i--)
		if (rig->objects[i].ptr == ptr)
			return &rig->objects[i];
	return NULL;
}

void rig_forget(struct kunit *test, void *ptr)
{
	struct rig *rig = test->priv;
	struct object *o = find_object(rig, ptr);

	if (!o)
		return;
	rig->count--;
	memmove(o, o + 1, (char *)&rig->objects[rig->count] - (char *)o);
}

int rig_drop(struct kunit *test, void *ptr)
{
	struct object *o = find_object(test->priv, ptr);
	int ret = o ? undo(o) : -ENOENT;

	if (!ret)
		rig_forget(test, ptr);
	return ret;
}

struct ib_pd *rig_pd(struct kunit *test, struct ib_device *dev)
{
	struct ib_pd *pd = ib_alloc_pd(dev);

	rig_own(test, O_PD, pd);
	return pd;
}

static void on_comp(struct ib_cq *cq, void *context)
{
	struct cq_calls *calls = context;

	calls->atomic_context = !preemptible();
	atomic_inc(&calls->comp);
}

static void on_cq_event(struct ib_event *event, void *context)
{
	struct cq_calls *calls = context;

	if (event->event == IB_EVENT_CQ_ERR)
		atomic_inc(&calls->error);
}

struct ib_cq *rig_cq(struct kunit *test, struct ib_device *dev, int cqe, struct cq_calls *calls)
{
	struct ib_cq *cq = ib_create_cq(dev, on_comp, on_cq_event, calls, cqe, 0);

	rig_own(test, O_CQ, cq);
	return cq;
}

static atomic_t limit_events;

static void on_srq_event(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(context ? context : &limit_events);
}

struct ib_srq *rig_srq(struct kunit *test, struct ib_pd *pd, u32 max_wr, u32 limit)
{
	struct ib_srq_init_attr attr = {
		.event_handler = on_srq_event,
		.attr = { .max_wr = max_wr, .max_sge = 1, .srq_limit = limit },
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_srq *srq = ib_create_srq(pd, &attr);

	if (PTR_ERR(srq) == -EOPNOTSUPP)
		kunit_skip(test, "the device has no shared receive queues");
	rig_own(test, O_SRQ, srq);
	KUNIT_EXPECT_GE(test, attr.attr.max_wr, max_wr);
	return srq;
}

struct ib_qp *rig_qp(struct kunit *test, struct end *end, enum ib_qp_type type,
		     struct ib_srq *srq)
{
	struct ib_qp_init_attr attr = {
		.send_cq = end->scq,
		.recv_cq = end->rcq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = srq ? 0 : 16,
			 .max_send_sge = 2, .max_recv_sge = srq ? 0 : 2 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = type,
	};
	struct ib_qp *qp = ib_create_qp(end->pd, &attr);

	rig_own(test, O_QP, qp);
	KUNIT_EXPECT_GE(test, attr.cap.max_send_wr, 16);
	return qp;
}

void *rig_pages(struct kunit *test, size_t size)
{
	void *mem = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mem);
	new_object(test, O_PAGES, mem)->dma = size;
	return mem;
}

u64 rig_map(struct kunit *test, struct ib_device *dev, void *mem, size_t size)
{
	u64 dma = ib_dma_map_single(dev, mem, size, DMA_BIDIRECTIONAL);
	struct object *o;

	KUNIT_ASSERT_EQ(test, ib_dma_mapping_error(dev, dma), 0);
	o = new_object(test, O_MAP, (void *)size);
	o->dev = dev;
	o->dma = dma;
	return dma;
}

struct ib_mr *rig_phys_mr(struct kunit *test, struct ib_pd *pd, void *mem, size_t size,
			  int access, u64 iova)
{
	struct ib_phys_buf buf = { .addr = virt_to_phys(mem), .size = size };
	struct ib_mr *mr = ib_reg_phys_mr(pd, &buf, 1, access, &iova);

	rig_own(test, O_MR, mr);
	return mr;
}

/* The first entry of the table with an IPv4 address, else the first one. */
static bool find_gid(struct end *end)
{
	struct ib_port_attr attr;
	union ib_gid gid;
	int i;

	if (ib_query_port(end->dev, end->port, &attr))
		return false;
	for (i = 0; i < min(attr.gid_tbl_len, 32); i++) {
		if (ib_query_gid(end->dev, end->port, i, &gid))
			continue;
		if (!ipv6_addr_v4mapped((struct in6_addr *)gid.raw))
			continue;
		end->gid = gid;
		end->gid_index = i;
		return true;
	}
	end->gid_index = 0;
	return !ib_query_gid(end->dev, end->port, 0, &end->gid);
}

struct rig *rig_ends(struct kunit *test, int type)
{
	struct rig *rig = test->priv;
	struct end *end;

	if (!rig_devices[0])
		kunit_skip(test, "no device %s", dev0);
	rig->a.dev = rig_devices[0];
	rig->b.dev = rig_devices[1] ?: rig_devices[0];
	for (end = &rig->a; end; end = end == &rig->a ? &rig->b : NULL) {
		end->port = rdma_start_port(end->dev);
		KUNIT_ASSERT_TRUE(test, find_gid(end));
		end->pd = rig_pd(test, end->dev);
		end->scq = rig_cq(test, end->dev, 64, &end->scalls);
		end->rcq = rig_cq(test, end->dev, 64, &end->rcalls);
		end->buf = rig_pages(test, BUF_SIZE);
		end->dma = rig_map(test, end->dev, end->buf, BUF_SIZE);
		if (type >= 0)
			end->qp = rig_qp(test, end, type, NULL);
	}
	return rig;
}

int to_init(struct ib_qp *qp, u8 port, int access)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = port,
		.qp_access_flags = access,
		.qkey = QKEY,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			    (qp->qp_type == IB_QPT_UD ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS));
}

struct ib_ah_attr classic_path(struct end *from, struct end *to)
{
	return (struct ib_ah_attr){
		.grh = { .dgid = to->gid, .sgid_index = from->gid_index, .hop_limit = 9,
			 .traffic_class = 3, .flow_label = 5 },
		.sl = 2,
		.ah_flags = IB_AH_GRH,
		.port_num = from->port,
	};
}

int to_rtr(struct end *end, struct ib_qp *qp, struct end *peer, u32 peer_qpn,
	   const struct link *link)
{
	struct ib_ah_attr path = classic_path(end, peer);
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = link->min_rnr_timer,
	};
	int mask = IB_QP_STATE;
	int ret;

	if (qp->qp_type != IB_QPT_UD) {
		ret = ib_classic_ah_attr_to_rdma(end->dev, &path, &attr.ah_attr);
		if (ret)
			return ret;
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	}
	if (qp->qp_type == IB_QPT_RC)
		mask |= IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	return ib_modify_qp(qp, &attr, mask);
}

int to_rts(struct ib_qp *qp, const struct link *link)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.timeout = link->timeout,
		.retry_cnt = link->retry_cnt,
		.rnr_retry = link->rnr_retry,
		.max_rd_atomic = 1,
	};
	int mask = IB_QP_STATE | IB_QP_SQ_PSN;

	if (qp->qp_type == IB_QPT_RC)
		mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			IB_QP_MAX_QP_RD_ATOMIC;
	return ib_modify_qp(qp, &attr, mask);
}

int to_state(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

enum ib_qp_state state_of(struct ib_qp *qp)
{
	struct ib_qp_attr attr;
	struct ib_qp_init_attr init;

	if (ib_query_qp(qp, &attr, IB_QP_STATE, &init))
		return -1;
	return attr.qp_state;
}

void rig_connect(struct kunit *test, struct end *a, struct ib_qp *qa, struct end *b,
		 struct ib_qp *qb, const struct link *link)
{
	KUNIT_ASSERT_EQ(test, to_init(qa, a->port, link->access), 0);
	KUNIT_ASSERT_EQ(test, to_init(qb, b->port, link->access), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(a, qa, b, qb->qp_num, link), 0);
	KUNIT_ASSERT_EQ(test, to_rtr(b, qb, a, qa->qp_num, link), 0);
	KUNIT_ASSERT_EQ(test, to_rts(qa, link), 0);
	KUNIT_ASSERT_EQ(test, to_rts(qb, link), 0);
}

struct rig *rig_pair(struct kunit *test, enum ib_qp_type type)
{
	struct rig *rig = rig_ends(test, type);

	rig_connect(test, &rig->a, rig->a.qp, &rig->b, rig->b.qp, &LINK_DEFAULT);
	return rig;
}

void rig_reconnect(struct kunit *test, struct rig *rig)
{
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, to_state(rig->a.qp, IB_QPS_RESET), 0);
	KUNIT_ASSERT_EQ(test, to_state(rig->b.qp, IB_QPS_RESET), 0);
	while (ib_poll_cq(rig->a.scq, 1, &wc) > 0 || ib_poll_cq(rig->a.rcq, 1, &wc) > 0 ||
	       ib_poll_cq(rig->b.scq, 1, &wc) > 0 || ib_poll_cq(rig->b.rcq, 1, &wc) > 0)
		;
	rig_connect(test, &rig->a, rig->a.qp, &rig->b, rig->b.qp, &LINK_DEFAULT);
}

struct ib_sge sge_of(struct end *end, u32 offset, u32 length)
{
	return (struct ib_sge){
		.addr = end->dma + offset,
		.length = length,
		.lkey = end->pd->local_dma_lkey,
	};
}

int post_recv(struct ib_qp *qp, u64 id, struct ib_sge *sge)
{
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = sge ? 1 : 0 };
	struct ib_recv_wr *bad;

	return ib_post_recv(qp, &wr, &bad);
}

int post_send(struct ib_qp *qp, u64 id, struct ib_sge *sge, int flags)
{
	struct ib_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = IB_WR_SEND,
		.send_flags = flags,
	};
	struct ib_send_wr *bad;

	return ib_post_send(qp, &wr, &bad);
}

int post_rdma(struct ib_qp *qp, enum ib_wr_opcode opcode, u64 id, struct ib_sge *sge,
	      u64 remote, u32 rkey)
{
	struct ib_rdma_wr wr = {
		.wr = { .wr_id = id, .sg_list = sge, .num_sge = sge ? 1 : 0, .opcode = opcode,
			.send_flags = IB_SEND_SIGNALED, .ex.imm_data = cpu_to_be32(0x1234) },
		.remote_addr = remote,
		.rkey = rkey,
	};
	const struct ib_send_wr *bad;

	return ib_post_send(qp, &wr.wr, &bad);
}

int post_ud(struct ib_qp *qp, u64 id, struct ib_sge *sge, struct ib_ah *ah, u32 qpn)
{
	struct ib_ud_wr wr = {
		.wr = { .wr_id = id, .sg_list = sge, .num_sge = 1, .opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED },
		.ah = ah,
		.remote_qpn = qpn,
		.remote_qkey = QKEY,
	};

	return ib_post_send(qp, &wr.wr, NULL);
}

int post_inv(struct ib_qp *qp, u32 rkey)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};

	return ib_post_send(qp, &wr, NULL);
}

bool wait_wc(struct ib_cq *cq, struct ib_wc *wc, int ms)
{
	return wait_for(ib_poll_cq(cq, 1, wc) == 1, ms);
}

int wait_status(struct ib_cq *cq)
{
	struct ib_wc wc;

	return wait_wc(cq, &wc, 20000) ? wc.status : -1;
}

int rdma_status(struct ib_qp *qp, enum ib_wr_opcode opcode, struct ib_sge *sge, u64 remote,
		u32 rkey)
{
	if (post_rdma(qp, opcode, 1, sge, remote, rkey))
		return -2;
	return wait_status(qp->send_cq);
}

bool is_rxe(struct ib_device *dev)
{
	return dev->ops.driver_id == RDMA_DRIVER_RXE;
}

bool is_stock_rxe(struct ib_device *dev)
{
	return is_rxe(dev) && !(dev->attrs.kernel_cap_flags & IBK_CLASSIC_BIND_MW);
}

bool use_ipv6(struct end *end)
{
	union ib_gid gid;
	int i;

	for (i = 0; i < 16; i++) {
		struct in6_addr *addr = (struct in6_addr *)gid.raw;

		if (ib_query_gid(end->dev, end->port, i, &gid) || ipv6_addr_v4mapped(addr) ||
		    ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL)
			continue;
		end->gid = gid;
		end->gid_index = i;
		return true;
	}
	return false;
}

int host_membership(struct end *end, const union ib_gid *group, bool member)
{
	struct net_device *ndev = ib_device_get_netdev(end->dev, end->port);
	struct in_device *in_dev;
	__be32 addr;
	int ret = -ENODEV;

	if (!ndev)
		return ret;
	memcpy(&addr, &group->raw[12], 4);
	rtnl_lock();
	in_dev = __in_dev_get_rtnl(ndev);
	if (in_dev) {
		if (member)
			ip_mc_inc_group(in_dev, addr);
		else
			ip_mc_dec_group(in_dev, addr);
		ret = 0;
	}
	rtnl_unlock();
	dev_put(ndev);
	return ret;
}

int run(const char *command)
{
	const char *const argv[] = { "/bin/sh", "-c", command, NULL };
	static const char *const envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

	return call_usermodehelper(argv[0], (char **)argv, (char **)envp, UMH_WAIT_PROC);
}

kunit_test_suites(&device_suite, &object_suite, &memory_suite, &window_suite, &queue_suite,
		  &qp_suite, &post_suite, &datagram_suite, &fact_suite, &link_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The classic calls of the verbs interface over a loopback");
