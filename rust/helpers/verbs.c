// SPDX-License-Identifier: GPL-2.0

#include <trace/events/rdma_core.h>

__rust_helper void *rust_helper_rdma_zalloc_obj(struct ib_device *dev, size_t size, gfp_t gfp,
						bool is_numa_aware)
{
	return rdma_zalloc_obj(dev, size, gfp, is_numa_aware);
}

__rust_helper void rust_helper_list_add(struct list_head *new, struct list_head *head)
{
	list_add(new, head);
}

__rust_helper void rust_helper_list_del(struct list_head *entry)
{
	list_del(entry);
}

__rust_helper void rust_helper_trace_cq_drain_complete(struct ib_cq *cq)
{
	trace_cq_drain_complete(cq);
}

__rust_helper void rust_helper_trace_mr_alloc(struct ib_pd *pd, enum ib_mr_type mr_type,
					      u32 max_num_sg, const struct ib_mr *mr)
{
	trace_mr_alloc(pd, mr_type, max_num_sg, mr);
}

__rust_helper void rust_helper_trace_mr_integ_alloc(struct ib_pd *pd, u32 max_num_data_sg,
						    u32 max_num_meta_sg, const struct ib_mr *mr)
{
	trace_mr_integ_alloc(pd, max_num_data_sg, max_num_meta_sg, mr);
}

__rust_helper void rust_helper_trace_mr_dereg(const struct ib_mr *mr)
{
	trace_mr_dereg(mr);
}
