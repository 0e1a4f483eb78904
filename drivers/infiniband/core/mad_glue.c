// SPDX-License-Identifier: GPL-2.0
/*
 * What the MAD layer has in C: the trace events of ib_mad, the module parameters,
 * and the table of its client. The trace events name four structures; here they
 * are what rust/rdma/mad shows of its objects.
 */

#include <linux/minmax.h>
#include <linux/module.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/opa_smi.h>

#include "mad_glue.h"

#define QUEUE_MIN 64
#define QUEUE_MAX 8192

struct ib_mad_port_private {
	struct ib_device *device;
	int port_num;
};

struct ib_mad_qp_info {
	const struct ib_mad_port_private *port_priv;
	struct ib_qp *qp;
};

struct ib_mad_agent_private {
	struct ib_mad_agent agent;
	const struct ib_mad_reg_req *reg_req;
	const struct ib_mad_qp_info *qp_info;
};

struct ib_mad_send_wr_private {
	struct ib_mad_agent_private *mad_agent_priv;
	struct ib_mad_send_buf send_buf;
	struct ib_ud_wr send_wr;
	__be64 tid;
	unsigned long timeout;
	int max_retries;
	int retries_left;
	int retry;
};

struct mad_send_record {
	struct ib_mad_agent_private *agent;
	struct ib_mad_qp_info *qp;
	const struct ib_mad_send_buf *buf;
	struct ib_ah *ah;
	__be64 tid;
	unsigned long timeout;
	u32 remote_qpn;
	u32 remote_qkey;
	int max_retries;
	int retries_left;
	int retry;
};

#define CREATE_TRACE_POINTS
#include <trace/events/ib_mad.h>

/* The header declares it, and the entry, only for a kernel that has tracepoints. */
#ifdef CONFIG_TRACEPOINTS
static void create_mad_addr_info(struct ib_mad_send_wr_private *wr,
				 struct ib_mad_qp_info *qp_info,
				 struct trace_event_raw_ib_mad_send_template *entry)
{
	struct rdma_ah_attr attr = {};

	rdma_query_ah(wr->send_wr.ah, &attr);
	entry->sl = attr.sl;
	entry->dlid = rdma_ah_get_dlid(&attr);
	entry->rqpn = wr->send_wr.remote_qpn;
	entry->rqkey = wr->send_wr.remote_qkey;
}
#endif

static void expand(struct ib_mad_send_wr_private *wr, const struct mad_send_record *record)
{
	*wr = (struct ib_mad_send_wr_private) {
		.mad_agent_priv = record->agent,
		.send_buf = *record->buf,
		.send_wr = {
			.ah = record->ah,
			.remote_qpn = record->remote_qpn,
			.remote_qkey = record->remote_qkey,
		},
		.tid = record->tid,
		.timeout = record->timeout,
		.max_retries = record->max_retries,
		.retries_left = record->retries_left,
		.retry = record->retry,
	};
}

void mad_glue_trace_send(int event, const struct mad_send_record *record)
{
	struct ib_mad_send_wr_private wr;

	if (!trace_ib_mad_error_handler_enabled() && !trace_ib_mad_ib_send_mad_enabled() &&
	    !trace_ib_mad_send_done_resend_enabled())
		return;

	expand(&wr, record);
	switch (event) {
	case 0:
		trace_ib_mad_error_handler(&wr, record->qp);
		break;
	case 1:
		trace_ib_mad_ib_send_mad(&wr, record->qp);
		break;
	case 2:
		trace_ib_mad_send_done_resend(&wr, record->qp);
		break;
	}
}

void mad_glue_trace_send_done(const struct mad_send_record *record, struct ib_wc *wc)
{
	struct ib_mad_send_wr_private wr;

	if (!trace_ib_mad_send_done_handler_enabled())
		return;

	expand(&wr, record);
	trace_ib_mad_send_done_handler(&wr, wc);
}

void mad_glue_trace_recv(struct ib_mad_qp_info *qp, struct ib_wc *wc, struct ib_mad_hdr *hdr)
{
	trace_ib_mad_recv_done_handler(qp, wc, hdr);
}

void mad_glue_trace_agent(int event, struct ib_mad_agent_private *agent)
{
	switch (event) {
	case 0:
		trace_ib_mad_create_agent(agent);
		break;
	case 1:
		trace_ib_mad_unregister_agent(agent);
		break;
	case 2:
		trace_ib_mad_recv_done_agent(agent);
		break;
	case 3:
		trace_ib_mad_send_done_agent(agent);
		break;
	}
}

void mad_glue_trace_smi(int event, void *smp)
{
	switch (event) {
	case 0:
		trace_ib_mad_handle_ib_smi(smp);
		break;
	case 1:
		trace_ib_mad_handle_out_ib_smi(smp);
		break;
	case 2:
		trace_ib_mad_handle_opa_smi(smp);
		break;
	case 3:
		trace_ib_mad_handle_out_opa_smi(smp);
		break;
	}
}

static int send_queue_size = 128;
module_param(send_queue_size, int, 0444);
MODULE_PARM_DESC(send_queue_size, "Size of send queue in number of work requests");

static int recv_queue_size = 512;
module_param(recv_queue_size, int, 0444);
MODULE_PARM_DESC(recv_queue_size, "Size of receive queue in number of work requests");

int mad_glue_send_queue_size(void)
{
	return send_queue_size;
}

int mad_glue_recv_queue_size(void)
{
	return recv_queue_size;
}

static struct ib_client client = {
	.name = "mad",
};

int mad_glue_register_client(int (*add)(struct ib_device *device),
			     void (*remove)(struct ib_device *device, void *client_data))
{
	send_queue_size = clamp(send_queue_size, QUEUE_MIN, QUEUE_MAX);
	recv_queue_size = clamp(recv_queue_size, QUEUE_MIN, QUEUE_MAX);
	client.add = add;
	client.remove = remove;
	return ib_register_client(&client);
}

void mad_glue_unregister_client(void)
{
	ib_unregister_client(&client);
}
