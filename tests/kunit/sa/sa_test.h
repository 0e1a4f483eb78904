/* SPDX-License-Identifier: GPL-2.0 */
/* What the suites of subnet administration share. */
#ifndef SA_TEST_H
#define SA_TEST_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/spinlock.h>
#include <rdma/ib_fake.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_sa.h>

#define SA_MAD_BYTES	256
#define SA_DATA_OFFSET	56
#define SA_DATA_BYTES	200
#define SA_KEPT		64

/* How the administration answers. */
enum sa_reply {
	SA_DROP,	/* not at all */
	SA_ECHO,	/* with the record it got */
	SA_DATA,	/* with the record in the script */
	SA_REFUSE,	/* with a status, and the record it got */
};

/* A scripted subnet administration, behind a port of a fake device. */
struct sa_fake {
	struct ib_device *device;
	struct ib_sa_client client;
	spinlock_t lock;		/* of all below */
	enum sa_reply reply;
	enum sa_reply delete_reply;	/* to the method DELETE */
	u8 data[SA_DATA_BYTES];
	u8 join_state;			/* granted in a member record, if not 0 */
	bool segments;			/* answer GetTable with a transfer */
	u32 requests;			/* since the last reset */
	u8 mads[SA_KEPT][SA_MAD_BYTES];
};

/* What the handler of a query was told. */
struct sa_told {
	struct completion done;
	int status;
	unsigned int count;		/* of records */
	int calls;
};

int sa_fake_init(struct kunit *test);
void sa_fake_exit(struct kunit *test);
void sa_fake_reset(struct sa_fake *sa, enum sa_reply reply);
u32 sa_fake_requests(struct sa_fake *sa, u8 method, u16 attribute);
const u8 *sa_fake_last(struct sa_fake *sa);
void sa_told_init(struct sa_told *told);
int sa_told_wait(struct sa_told *told, unsigned int ms);

/* A generator of the same records on each core. */
static inline u32 sa_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static inline void sa_random_bytes(u32 *state, void *to, size_t len)
{
	u8 *bytes = to;

	while (len--)
		*bytes++ = sa_random(state) >> 24;
}

extern struct kunit_suite sa_record_suite;
extern struct kunit_suite sa_query_suite;
extern struct kunit_suite sa_multicast_suite;

#endif
