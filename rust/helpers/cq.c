// SPDX-License-Identifier: GPL-2.0

#include <trace/events/rdma_core.h>

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

__rust_helper unsigned int rust_helper_rdma_num_online_cpus(void)
{
	return num_online_cpus();
}
