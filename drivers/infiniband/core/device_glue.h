/* SPDX-License-Identifier: GPL-2.0 */
/* What device_glue.c and the Rust part "device" know of each other. */
#ifndef RDMA_DEVICE_GLUE_H
#define RDMA_DEVICE_GLUE_H

struct net;
struct workqueue_struct;

/* In device_glue.c. */
extern struct workqueue_struct *ib_unreg_wq;
int rdma_register_pernet(void);
void rdma_unregister_pernet(void);
void rdma_register_ls(void);

/* In Rust. */
int rdma_core_init(void);
void rdma_core_exit(void);
int rdma_net_init(struct net *net);
void rdma_net_exit(struct net *net);

#endif
