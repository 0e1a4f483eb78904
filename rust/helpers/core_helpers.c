// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers around what only ib_core itself has: its tracepoints and the id of
 * its part of a network namespace. Linked into no other module.
 */

#include "../bindings/rdma_bindings_helper.h"
#include <trace/events/rdma_core.h>

#ifndef __rust_helper
#define __rust_helper
#endif

__rust_helper void rust_helper_trace_cq_schedule(struct ib_cq *cq)
{
	trace_cq_schedule(cq);
}

__rust_helper void rust_helper_trace_cq_reschedule(struct ib_cq *cq)
{
	trace_cq_reschedule(cq);
}

__rust_helper void rust_helper_trace_cq_process(const struct ib_cq *cq)
{
	trace_cq_process(cq);
}

__rust_helper void rust_helper_trace_cq_poll(const struct ib_cq *cq, int requested, int rc)
{
	trace_cq_poll(cq, requested, rc);
}

__rust_helper void rust_helper_trace_cq_modify(const struct ib_cq *cq, u16 comps, u16 usec)
{
	trace_cq_modify(cq, comps, usec);
}

__rust_helper void rust_helper_trace_cq_alloc(const struct ib_cq *cq, int nr_cqe,
					      int comp_vector, enum ib_poll_context poll_ctx)
{
	trace_cq_alloc(cq, nr_cqe, comp_vector, poll_ctx);
}

__rust_helper void rust_helper_trace_cq_alloc_error(int nr_cqe, int comp_vector,
						    enum ib_poll_context poll_ctx, int rc)
{
	trace_cq_alloc_error(nr_cqe, comp_vector, poll_ctx, rc);
}

__rust_helper void rust_helper_trace_cq_free(const struct ib_cq *cq)
{
	trace_cq_free(cq);
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

__rust_helper struct rdma_dev_net *rust_helper_rdma_net_to_dev_net(struct net *net)
{
	return rdma_net_to_dev_net(net);
}
