/* SPDX-License-Identifier: GPL-2.0 */
/* Two ends of an RDMA connection, and what the suites do with them. */
#ifndef CLASSIC_RIG_H
#define CLASSIC_RIG_H

#include <linux/delay.h>
#include <linux/slab.h>

#include <rdma/ib_verbs.h>
#include <rdma/ib_verbs_classic.h>

#include "shim.h"

#define BUF_SIZE	(4 * PAGE_SIZE)
#define QKEY		0x11223344
#define ALL_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |	\
			 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

/* Calls of the handlers of a completion queue. */
struct cq_calls {
	atomic_t comp;
	atomic_t error;
	bool atomic_context;
};

/* A device and what a case makes of it. */
struct end {
	struct ib_device *dev;
	u8 port;
	u16 gid_index;
	union ib_gid gid;
	struct ib_pd *pd;
	struct ib_cq *scq;
	struct ib_cq *rcq;
	struct ib_qp *qp;
	struct cq_calls scalls;
	struct cq_calls rcalls;
	u8 *buf;
	u64 dma;
};

enum object_kind { O_PD, O_CQ, O_QP, O_SRQ, O_MR, O_MW, O_AH, O_MEM, O_PAGES, O_MAP };

struct object {
	enum object_kind kind;
	void *ptr;
	struct ib_device *dev;
	u64 dma;
};

/* What a case has made, to be undone in reverse, however it ends. */
struct rig {
	struct end a, b;
	struct object objects[96];
	int count;
};

/* The devices of the module's parameters; the second may be missing. */
extern struct ib_device *rig_devices[2];

int rig_suite_init(struct kunit_suite *suite);
void rig_suite_exit(struct kunit_suite *suite);
int rig_init(struct kunit *test);
void rig_exit(struct kunit *test);

#define RIG_SUITE(ident, suite_name, cases)		\
	struct kunit_suite ident = {			\
		.name = suite_name,			\
		.suite_init = rig_suite_init,		\
		.suite_exit = rig_suite_exit,		\
		.init = rig_init,			\
		.exit = rig_exit,			\
		.test_cases = cases,			\
	}

extern struct kunit_suite device_suite, object_suite, memory_suite, window_suite,
	queue_suite, qp_suite, post_suite, datagram_suite, fact_suite, link_suite;

/* Objects of a case. All of them assert. */
struct ib_pd *rig_pd(struct kunit *test, struct ib_device *dev);
struct ib_cq *rig_cq(struct kunit *test, struct ib_device *dev, int cqe, struct cq_calls *calls);
struct ib_srq *rig_srq(struct kunit *test, struct ib_pd *pd, u32 max_wr, u32 limit);
struct ib_qp *rig_qp(struct kunit *test, struct end *end, enum ib_qp_type type,
		     struct ib_srq *srq);
struct ib_mr *rig_phys_mr(struct kunit *test, struct ib_pd *pd, void *mem, size_t size,
			  int access, u64 iova);
void *rig_pages(struct kunit *test, size_t size);
u64 rig_map(struct kunit *test, struct ib_device *dev, void *mem, size_t size);

/* Takes an object over from the case: it is undone with the others. */
void rig_own(struct kunit *test, enum object_kind kind, void *ptr);
/* Undoes one object now; what the destroying call returned. */
int rig_drop(struct kunit *test, void *ptr);
/* The case has undone it by itself. */
void rig_forget(struct kunit *test, void *ptr);

/* A pair of ends: domain, queues, buffer, and a queue pair if type is not -1. */
struct rig *rig_ends(struct kunit *test, int type);
/* The same, connected (RC, UC) or ready (UD). */
struct rig *rig_pair(struct kunit *test, enum ib_qp_type type);

/* Options of a connection, as in ib_qp_attr. */
struct link {
	u8 timeout;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 min_rnr_timer;
	int access;
};

#define LINK_DEFAULT	((struct link){ .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,	\
					.min_rnr_timer = 1, .access = ALL_ACCESS })

int to_init(struct ib_qp *qp, u8 port, int access);
int to_rtr(struct end *end, struct ib_qp *qp, struct end *peer, u32 peer_qpn,
	   const struct link *link);
int to_rts(struct ib_qp *qp, const struct link *link);
int to_state(struct ib_qp *qp, enum ib_qp_state state);
enum ib_qp_state state_of(struct ib_qp *qp);
void rig_connect(struct kunit *test, struct end *a, struct ib_qp *qa, struct end *b,
		 struct ib_qp *qb, const struct link *link);

/* Posting. */
struct ib_sge sge_of(struct end *end, u32 offset, u32 length);
int post_recv(struct ib_qp *qp, u64 id, struct ib_sge *sge);
int post_send(struct ib_qp *qp, u64 id, struct ib_sge *sge, int flags);
int post_rdma(struct ib_qp *qp, enum ib_wr_opcode opcode, u64 id, struct ib_sge *sge,
	      u64 remote, u32 rkey);
int post_ud(struct ib_qp *qp, u64 id, struct ib_sge *sge, struct ib_ah *ah, u32 qpn);
int post_inv(struct ib_qp *qp, u32 rkey);

/* One completion, or false after the milliseconds. */
bool wait_wc(struct ib_cq *cq, struct ib_wc *wc, int ms);
/* The status of the next completion, -1 if none comes. */
int wait_status(struct ib_cq *cq);
/* An operation of the queue pair on the peer's memory: its status. */
int rdma_status(struct ib_qp *qp, enum ib_wr_opcode opcode, struct ib_sge *sge, u64 remote,
		u32 rkey);
/* After a failed operation: both ends of the pair are connected again. */
void rig_reconnect(struct kunit *test, struct rig *rig);

struct ib_ah_attr classic_path(struct end *from, struct end *to);
bool is_rxe(struct ib_device *dev);
/* The distribution's rxe, some faults of which are known. */
bool is_stock_rxe(struct ib_device *dev);
/* An entry of the table with a global IPv6 address. */
bool use_ipv6(struct end *end);
/* The host of an end receives, or does not, what is sent to a group. */
int host_membership(struct end *end, const union ib_gid *group, bool member);
/* Runs a command of user space. */
int run(const char *command);

#define wait_for(cond, ms)						\
({									\
	unsigned long __end = jiffies + msecs_to_jiffies(ms);		\
	bool __ok;							\
									\
	while (!(__ok = !!(cond)) && time_before(jiffies, __end))	\
		fsleep(2000);						\
	__ok || (cond);							\
})

#endif
