/* SPDX-License-Identifier: GPL-2.0 */
/* What the suites of the core share. */
#ifndef CORE_TEST_H
#define CORE_TEST_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <rdma/ib_fake.h>
#include <rdma/ib_verbs.h>

extern struct kunit_suite core_client_suite;
extern struct kunit_suite core_event_suite;
extern struct kunit_suite core_cq_suite;
extern struct kunit_suite core_gid_suite;
extern struct kunit_suite core_track_suite;
extern struct kunit_suite core_rows_suite;
extern struct kunit_suite core_helper_suite;

/* Long enough for a loaded emulator, where a device takes seconds to come and go. */
#define CORE_PATIENCE	(180 * HZ)

/* Waits until a condition holds, and says whether it does. */
#define core_wait_for(cond) ({						\
	unsigned long end_ = jiffies + CORE_PATIENCE;			\
	bool so_;							\
									\
	while (!(so_ = (cond)) && time_before(jiffies, end_))		\
		msleep(20);						\
	so_ || (cond);							\
})

/* A function that runs in a thread of its own, once. */
struct core_task {
	void (*fn)(void *arg);
	void *arg;
	struct task_struct *task;
	struct completion done;
};

int core_start(struct core_task *thread, void (*fn)(void *arg), void *arg);
bool core_join(struct core_task *thread);
bool core_is_done(struct core_task *thread);

struct net_device *core_netdev(struct kunit *test, u8 number);
struct ib_device *core_device(struct kunit *test, const char *name);
struct ib_qp *core_qp(struct kunit *test, struct ib_pd *pd, struct ib_cq *cq, u32 wrs);
int core_qp_state(struct ib_qp *qp, enum ib_qp_state state);

#endif
