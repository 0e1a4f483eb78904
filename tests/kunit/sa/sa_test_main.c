// SPDX-License-Identifier: GPL-2.0
/* The scripted subnet administration of the suites. */

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/unaligned.h>

#include "sa_test.h"

/* The parts of a transfer (RMPP) that the responder speaks. */
#define RMPP_TYPE	25
#define RMPP_FLAGS	26
#define RMPP_SEGMENT	28
#define RMPP_PAYLEN	32
#define RMPP_DATA	1
#define RMPP_ACK	2
#define RMPP_ACTIVE	1
#define RMPP_FIRST	2
#define RMPP_LAST	4

#define SERVICE_BYTES	176
#define SERVICES	2

/* The data of a transfer of two service records, byte after byte. */
static u8 service_byte(unsigned int at)
{
	return at * 7 + at / SERVICE_BYTES;
}

static void segment(u8 *reply, u32 number)
{
	unsigned int from = (number - 1) * SA_DATA_BYTES, i;
	bool last = number * SA_DATA_BYTES >= SERVICES * SERVICE_BYTES;

	reply[24] = 1;
	reply[RMPP_TYPE] = RMPP_DATA;
	reply[RMPP_FLAGS] = RMPP_ACTIVE | (number == 1 ? RMPP_FIRST : 0) | (last ? RMPP_LAST : 0);
	put_unaligned_be32(number, reply + RMPP_SEGMENT);
	/* The SA header of 20 bytes counts in each segment. */
	if (last)
		put_unaligned_be32(SERVICES * SERVICE_BYTES - from + 20, reply + RMPP_PAYLEN);
	else if (number == 1)
		put_unaligned_be32(SERVICES * SERVICE_BYTES + 2 * 20, reply + RMPP_PAYLEN);
	/* Records lie at multiples of 8 bytes. */
	put_unaligned_be16(SERVICE_BYTES / 8, reply + 44);
	for (i = 0; i < SA_DATA_BYTES && from + i < SERVICES * SERVICE_BYTES; i++)
		reply[SA_DATA_OFFSET + i] = service_byte(from + i);
}

static enum ib_fake_verdict respond(void *context, const struct ib_fake_mad *mad, u8 *reply)
{
	struct sa_fake *sa = context;
	enum sa_reply how;
	const u8 *data = mad->data;
	u8 method = data[3];
	unsigned long flags;

	if (mad->qp != 1 || data[1] != IB_MGMT_CLASS_SUBN_ADM)
		return IB_FAKE_PASS;

	spin_lock_irqsave(&sa->lock, flags);
	if (sa->segments && (data[RMPP_FLAGS] & RMPP_ACTIVE) && data[RMPP_TYPE] == RMPP_ACK) {
		u32 next = get_unaligned_be32(data + RMPP_SEGMENT) + 1;

		spin_unlock_irqrestore(&sa->lock, flags);
		if ((next - 1) * SA_DATA_BYTES >= SERVICES * SERVICE_BYTES)
			return IB_FAKE_DROP;
		memcpy(reply, data, SA_DATA_OFFSET);
		reply[3] = IB_SA_METHOD_GET_TABLE_RESP;
		segment(reply, next);
		return IB_FAKE_REPLY;
	}
	memcpy(sa->mads[sa->requests++ % SA_KEPT], data, SA_MAD_BYTES);
	how = method == IB_SA_METHOD_DELETE ? sa->delete_reply : sa->reply;
	if (how == SA_DROP) {
		spin_unlock_irqrestore(&sa->lock, flags);
		return IB_FAKE_DROP;
	}
	memcpy(reply, data, SA_MAD_BYTES);
	reply[3] = method == IB_MGMT_METHOD_SET ? IB_MGMT_METHOD_GET_RESP : method | IB_MGMT_METHOD_RESP;
	if (how == SA_REFUSE)
		put_unaligned_be16(0x0300, reply + 4);
	if (how == SA_DATA)
		memcpy(reply + SA_DATA_OFFSET, sa->data, SA_DATA_BYTES);
	if (get_unaligned_be16(data + 16) == IB_SA_ATTR_MC_MEMBER_REC && sa->join_state)
		reply[SA_DATA_OFFSET + 48] = (reply[SA_DATA_OFFSET + 48] & 0xf0) | sa->join_state;
	if (sa->segments && method == IB_SA_METHOD_GET_TABLE)
		segment(reply, 1);
	spin_unlock_irqrestore(&sa->lock, flags);
	return IB_FAKE_REPLY;
}

void sa_fake_reset(struct sa_fake *sa, enum sa_reply reply)
{
	unsigned long flags;

	spin_lock_irqsave(&sa->lock, flags);
	sa->reply = reply;
	sa->delete_reply = SA_ECHO;
	sa->segments = false;
	sa->join_state = 0;
	sa->requests = 0;
	spin_unlock_irqrestore(&sa->lock, flags);
}

/* How many of the requests that are kept were these. */
u32 sa_fake_requests(struct sa_fake *sa, u8 method, u16 attribute)
{
	unsigned long flags;
	u32 i, found = 0;

	spin_lock_irqsave(&sa->lock, flags);
	for (i = 0; i < min_t(u32, sa->requests, SA_KEPT); i++)
		found += sa->mads[i][3] == method &&
			 get_unaligned_be16(sa->mads[i] + 16) == attribute;
	spin_unlock_irqrestore(&sa->lock, flags);
	return found;
}

const u8 *sa_fake_last(struct sa_fake *sa)
{
	return sa->mads[(sa->requests - 1) % SA_KEPT];
}

void sa_told_init(struct sa_told *told)
{
	memset(told, 0, sizeof(*told));
	init_completion(&told->done);
	told->status = 1;
}

/* Whether something was told in time: then its status, else 2. */
int sa_told_wait(struct sa_told *told, unsigned int ms)
{
	if (!wait_for_completion_timeout(&told->done, msecs_to_jiffies(ms)))
		return 2;
	return told->status;
}

int sa_fake_init(struct kunit *test)
{
	static const struct ib_fake_config config = { .protocol = IB_FAKE_INFINIBAND };
	struct sa_fake *sa = kunit_kzalloc(test, sizeof(*sa), GFP_KERNEL);

	if (!sa)
		return -ENOMEM;
	spin_lock_init(&sa->lock);
	sa_fake_reset(sa, SA_ECHO);
	sa->device = ib_fake_create(&config);
	if (IS_ERR(sa->device))
		return PTR_ERR(sa->device);
	ib_sa_register_client(&sa->client);
	test->priv = sa;
	return ib_fake_set_responder(sa->device, 1, respond, sa);
}

void sa_fake_exit(struct kunit *test)
{
	struct sa_fake *sa = test->priv;

	if (!sa)
		return;
	if (sa->device)
		ib_fake_destroy(sa->device);
	ib_sa_unregister_client(&sa->client);
}

kunit_test_suites(&sa_record_suite, &sa_query_suite, &sa_multicast_suite);

MODULE_DESCRIPTION("Tests of subnet administration and multicast");
MODULE_LICENSE("GPL");
