/* SPDX-License-Identifier: GPL-2.0 */
/* What the Rust part "mad" calls in mad_glue.c. */
#ifndef RDMA_MAD_GLUE_H
#define RDMA_MAD_GLUE_H

struct ib_device;
struct ib_mad_agent_private;
struct ib_mad_hdr;
struct ib_mad_qp_info;
struct ib_wc;
struct mad_send_record;

void mad_glue_trace_send(int event, const struct mad_send_record *record);
void mad_glue_trace_send_done(const struct mad_send_record *record, struct ib_wc *wc);
void mad_glue_trace_recv(struct ib_mad_qp_info *qp, struct ib_wc *wc, struct ib_mad_hdr *hdr);
void mad_glue_trace_agent(int event, struct ib_mad_agent_private *agent);
void mad_glue_trace_smi(int event, void *smp);
int mad_glue_send_queue_size(void);
int mad_glue_recv_queue_size(void);
int mad_glue_register_client(int (*add)(struct ib_device *device),
			     void (*remove)(struct ib_device *device, void *client_data));
void mad_glue_unregister_client(void);

#endif
