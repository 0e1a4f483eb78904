// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the classic sheet, in the classic form, and beside it today's
 * form where the two clash. Nothing of this runs: it has to compile without a
 * warning, and to link.
 */
#include <linux/module.h>
#include <linux/scatterlist.h>

#include <rdma/ib_verbs.h>
#include <rdma/ib_verbs_classic.h>

struct things {
	struct ib_client client;
	struct ib_event_handler handler;
	struct ib_device_attr device_attr;
	struct ib_port_attr port_attr;
	struct ib_ah_attr ah_attr;
	struct rdma_ah_attr rdma_ah_attr;
	struct ib_mr_attr mr_attr;
	struct ib_phys_buf bufs[2];
	struct ib_mw_bind bind;
	struct ib_srq_init_attr srq_init;
	struct ib_srq_attr srq_attr;
	struct ib_qp_init_attr qp_init;
	struct ib_qp_attr qp_attr;
	struct ib_cq_init_attr cq_attr;
	struct ib_send_wr send_wr;
	struct ib_recv_wr recv_wr;
	struct ib_wc wc;
	struct ib_grh grh;
	struct scatterlist sg[1];
	union ib_gid gid;
};

static void on_completion(struct ib_cq *cq, void *context)
{
}

static void on_async(struct ib_event *event, void *context)
{
}

/* 1-13 */
static int devices(struct ib_device *dev, struct things *t)
{
	u8 port = 1;
	u32 wide_port;
	u16 index, pkey;
	int ret;

	ret = ib_register_client(&t->client);
	ib_set_client_data(dev, &t->client, t);
	ret |= ib_get_client_data(dev, &t->client) != t;
	ib_unregister_client(&t->client);
	ret |= ib_register_event_handler(&t->handler);
	ret |= ib_unregister_event_handler(&t->handler);
	ib_register_event_handler(&t->handler);
	ib_unregister_event_handler(&t->handler);
	ret |= ib_query_device(dev, &t->device_attr);
	ret |= ib_query_port(dev, port, &t->port_attr);
	ret |= rdma_port_get_link_layer(dev, port);
	ret |= ib_query_gid(dev, port, 0, &t->gid);
	ret |= rdma_query_gid(dev, port, 0, &t->gid);
	ret |= ib_query_pkey(dev, port, 0, &pkey);
	ret |= ib_find_gid(dev, &t->gid, &port, &index);
	ret |= ib_find_gid(dev, &t->gid, &port, NULL);
	ret |= ib_find_gid(dev, &t->gid, &wide_port, &index);
	ret |= ib_find_pkey(dev, port, 0xffff, &index);
	return ret;
}

/* 14, 15 */
static int domains(struct ib_device *dev)
{
	struct ib_pd *pd = ib_alloc_pd(dev);
	struct ib_pd *modern = ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY);

	ib_dealloc_pd(modern);
	return ib_dealloc_pd(pd);
}

/* 16-21 */
static int addresses(struct ib_pd *pd, struct things *t)
{
	u8 port = 1;
	struct ib_ah *ah = ib_create_ah(pd, &t->ah_attr);
	int ret;

	ret = ib_init_ah_from_wc(pd->device, port, &t->wc, &t->grh, &t->ah_attr);
	ret |= ib_modify_ah(ah, &t->ah_attr);
	ret |= ib_query_ah(ah, &t->ah_attr);
	ret |= t->ah_attr.dlid | t->ah_attr.src_path_bits | t->ah_attr.dmac[0];
	ret |= ib_destroy_ah(ah);
	ib_destroy_ah(ib_create_ah_from_wc(pd, &t->wc, &t->grh, port));

	ah = rdma_create_ah(pd, &t->rdma_ah_attr, RDMA_CREATE_AH_SLEEPABLE);
	ret |= rdma_modify_ah(ah, &t->rdma_ah_attr);
	ret |= rdma_query_ah(ah, &t->rdma_ah_attr);
	/* The InfiniBand part of today's vector keeps its members. */
	ret |= t->rdma_ah_attr.ib.dlid | t->rdma_ah_attr.ib.src_path_bits;
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return ret;
}

/* 22-32 */
static int dma(struct ib_device *dev, void *mem, struct things *t)
{
	u64 addr = ib_dma_map_single(dev, mem, 64, DMA_TO_DEVICE);
	int ret = ib_dma_mapping_error(dev, addr);

	ib_dma_sync_single_for_cpu(dev, addr, 64, DMA_TO_DEVICE);
	ib_dma_sync_single_for_device(dev, addr, 64, DMA_TO_DEVICE);
	ib_dma_unmap_single(dev, addr, 64, DMA_TO_DEVICE);
	addr = ib_dma_map_page(dev, virt_to_page(mem), 0, 64, DMA_FROM_DEVICE);
	ib_dma_unmap_page(dev, addr, 64, DMA_FROM_DEVICE);
	ret |= ib_dma_map_sg(dev, t->sg, 1, DMA_BIDIRECTIONAL);
	ib_dma_unmap_sg(dev, t->sg, 1, DMA_BIDIRECTIONAL);
	mem = ib_dma_alloc_coherent(dev, PAGE_SIZE, &addr, GFP_KERNEL);
	ib_dma_free_coherent(dev, PAGE_SIZE, mem, addr);
	return ret;
}

/* 33-40 */
static int memory(struct ib_pd *pd, struct ib_qp *qp, struct things *t)
{
	struct ib_mr *mr = ib_get_dma_mr(pd, IB_ACCESS_LOCAL_WRITE);
	u64 iova = 0;
	struct ib_mw *mw;
	int ret = ib_dereg_mr(mr);

	mr = ib_reg_phys_mr(pd, t->bufs, 2, IB_ACCESS_LOCAL_WRITE, &iova);
	ret |= ib_rereg_phys_mr(mr, IB_MR_REREG_TRANS | IB_MR_REREG_PD | IB_MR_REREG_ACCESS, pd,
				t->bufs, 2, IB_ACCESS_REMOTE_READ, &iova);
	ret |= ib_query_mr(mr, &t->mr_attr);
	mw = ib_alloc_mw(pd, IB_MW_TYPE_1);
	t->bind.bind_info.mr = mr;
	ret |= ib_bind_mw(qp, mw, &t->bind);
	ret |= ib_dealloc_mw(mw);
	return ret | ib_dereg_mr(mr);
}

/* 41-46 */
static int completion_queues(struct ib_device *dev, struct things *t)
{
	struct ib_cq *cq = ib_create_cq(dev, on_completion, on_async, t, 16, 0);
	struct ib_cq *modern = ib_create_cq(dev, on_completion, on_async, t, &t->cq_attr);
	int ret = ib_resize_cq(cq, 32);

	ret |= ib_modify_cq(cq, 8, 100);
	ret |= rdma_set_cq_moderation(cq, 8, 100);
	ret |= ib_peek_cq(cq, 4);
	ret |= ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	ret |= ib_poll_cq(cq, 1, &t->wc);
	ret |= ib_destroy_cq(cq);
	ib_destroy_cq(modern);
	return ret;
}

/* 47-50, 57 */
static int shared_queues(struct ib_pd *pd, struct things *t)
{
	struct ib_srq *srq = ib_create_srq(pd, &t->srq_init);
	struct ib_recv_wr *bad;
	const struct ib_recv_wr *const_bad;
	int ret = ib_modify_srq(srq, &t->srq_attr, IB_SRQ_LIMIT);

	ret |= ib_query_srq(srq, &t->srq_attr);
	ret |= ib_post_srq_recv(srq, &t->recv_wr, &bad);
	ret |= ib_post_srq_recv(srq, &t->recv_wr, &const_bad);
	ret |= ib_post_srq_recv(srq, &t->recv_wr, NULL);
	return ret | ib_destroy_srq(srq);
}

/* 51-56, 58, 59 */
static int queue_pairs(struct ib_pd *pd, struct things *t)
{
	struct ib_qp *qp = ib_create_qp(pd, &t->qp_init);
	struct ib_send_wr *bad;
	const struct ib_send_wr *const_bad;
	struct ib_recv_wr *bad_recv;
	const struct ib_recv_wr *const_bad_recv;
	int ret;

	ret = ib_classic_ah_attr_to_rdma(pd->device, &t->ah_attr, &t->qp_attr.ah_attr);
	ret |= ib_modify_qp(qp, &t->qp_attr, IB_QP_STATE);
	ret |= ib_query_qp(qp, &t->qp_attr, IB_QP_STATE, &t->qp_init);
	ret |= ib_post_send(qp, &t->send_wr, &bad);
	ret |= ib_post_send(qp, &t->send_wr, &const_bad);
	ret |= ib_post_send(qp, &t->send_wr, NULL);
	ret |= ib_post_recv(qp, &t->recv_wr, &bad_recv);
	ret |= ib_post_recv(qp, &t->recv_wr, &const_bad_recv);
	ret |= ib_post_recv(qp, &t->recv_wr, NULL);
	ret |= ib_attach_mcast(qp, &t->gid, 0);
	ret |= ib_detach_mcast(qp, &t->gid, 0);
	ret |= memory(pd, qp, t);
	return ret | ib_destroy_qp(qp);
}

static int all(struct ib_device *dev, struct ib_pd *pd, struct things *t)
{
	return devices(dev, t) | domains(dev) | addresses(pd, t) | dma(dev, t, t) |
	       completion_queues(dev, t) | shared_queues(pd, t) | queue_pairs(pd, t);
}

/* Never set: what it would call needs real objects. */
static struct things *nothing;

static int __init compile_init(void)
{
	struct things *t = READ_ONCE(nothing);

	return t ? all(NULL, NULL, t) : -ENODEV;
}
module_init(compile_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Compiles and links every classic call");
