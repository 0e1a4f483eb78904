// SPDX-License-Identifier: GPL-2.0
/* Multicast groups: who is let in, who is told what, and what the administration hears. */

#include <linux/delay.h>
#include <linux/unaligned.h>

#include "sa_test.h"

#define FULL_MEMBER	1
#define SEND_ONLY	4
#define MASK		(IB_SA_MCMEMBER_REC_MGID | IB_SA_MCMEMBER_REC_PORT_GID | \
			 IB_SA_MCMEMBER_REC_JOIN_STATE | IB_SA_MCMEMBER_REC_QKEY | \
			 IB_SA_MCMEMBER_REC_PKEY)

/* A user of a group. */
struct mc_user {
	struct sa_told told;
	struct ib_sa_multicast *multicast;
	struct ib_sa_mcmember_rec rec;
	int give_up;		/* what the handler returns */
};

static int handler(int status, struct ib_sa_multicast *multicast)
{
	struct mc_user *user = multicast->context;
	int give_up = user->give_up;

	user->rec = multicast->rec;
	user->told.status = status;
	user->told.calls++;
	complete(&user->told.done);
	return give_up;
}

static void group(struct ib_sa_mcmember_rec *rec, u8 number, u8 join_state)
{
	memset(rec, 0, sizeof(*rec));
	rec->mgid.raw[0] = 0xff;
	rec->mgid.raw[1] = 0x12;
	rec->mgid.raw[15] = number;
	rec->port_gid.global.subnet_prefix = cpu_to_be64(0xfe80000000000000);
	rec->port_gid.global.interface_id = cpu_to_be64(1);
	rec->qkey = cpu_to_be32(0xb1b);
	rec->mlid = cpu_to_be16(0xc001);
	rec->pkey = cpu_to_be16(0xffff);
	rec->join_state = join_state;
}

static void join_record(struct kunit *test, struct mc_user *user, struct ib_sa_mcmember_rec *rec)
{
	struct sa_fake *sa = test->priv;

	memset(user, 0, sizeof(*user));
	sa_told_init(&user->told);
	user->multicast = ib_sa_join_multicast(&sa->client, sa->device, 1, rec, MASK, GFP_KERNEL,
					       handler, user);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->multicast);
}

static void join(struct kunit *test, struct mc_user *user, u8 number, u8 join_state)
{
	struct ib_sa_mcmember_rec rec;

	group(&rec, number, join_state);
	join_record(test, user, &rec);
}

static void leave(struct mc_user *user)
{
	ib_sa_free_multicast(user->multicast);
}

static u32 joins(struct sa_fake *sa)
{
	return sa_fake_requests(sa, IB_MGMT_METHOD_SET, IB_SA_ATTR_MC_MEMBER_REC);
}

static u32 leaves(struct sa_fake *sa)
{
	return sa_fake_requests(sa, IB_SA_METHOD_DELETE, IB_SA_ATTR_MC_MEMBER_REC);
}

/* Waits until the administration has been told of so many departures. */
static void expect_leaves(struct kunit *test, u32 wanted)
{
	int i;

	for (i = 0; i < 100 && leaves(test->priv) < wanted; i++)
		msleep(20);
	msleep(50);
	KUNIT_EXPECT_EQ(test, leaves(test->priv), wanted);
}

static int known(struct sa_fake *sa, u8 number, struct ib_sa_mcmember_rec *found)
{
	struct ib_sa_mcmember_rec rec;

	group(&rec, number, 0);
	return ib_sa_get_mcmember_rec(sa->device, 1, &rec.mgid, found);
}

static void join_and_leave(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_mcmember_rec found;
	struct mc_user user;

	KUNIT_EXPECT_EQ(test, known(sa, 1, &found), -EADDRNOTAVAIL);
	join(test, &user, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, user.rec.join_state, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(user.rec.mlid), 0xc001);
	KUNIT_EXPECT_EQ(test, joins(sa), 1);
	KUNIT_EXPECT_EQ(test, known(sa, 1, &found), 0);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(found.qkey), 0xb1b);

	leave(&user);
	expect_leaves(test, 1);
	KUNIT_EXPECT_EQ(test, user.told.calls, 1);
	KUNIT_EXPECT_EQ(test, known(sa, 1, &found), -EADDRNOTAVAIL);
}

static void shared(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_mcmember_rec rec;
	struct mc_user a, b, other;

	join(test, &a, 1, FULL_MEMBER);
	join(test, &b, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&b.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, joins(sa), 1);

	/* One that wants another group of the same GID. */
	group(&rec, 1, FULL_MEMBER);
	rec.qkey = cpu_to_be32(1);
	join_record(test, &other, &rec);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&other.told, 5000), -EINVAL);
	leave(&other);
	KUNIT_EXPECT_EQ(test, joins(sa), 1);

	leave(&a);
	msleep(100);
	KUNIT_EXPECT_EQ(test, leaves(sa), 0);
	leave(&b);
	expect_leaves(test, 1);
}

static void two_ways(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct mc_user full, send;
	const u8 *mad;

	sa->join_state = FULL_MEMBER;
	join(test, &full, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&full.told, 5000), 0);
	sa->join_state = FULL_MEMBER | SEND_ONLY;
	join(test, &send, 1, SEND_ONLY);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&send.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, joins(sa), 2);
	KUNIT_EXPECT_EQ(test, send.rec.join_state, SEND_ONLY);
	sa->join_state = 0;

	/* Only that way is left. */
	leave(&full);
	expect_leaves(test, 1);
	mad = sa_fake_last(sa);
	KUNIT_EXPECT_EQ(test, mad[SA_DATA_OFFSET + 48] & 0xf, FULL_MEMBER);
	leave(&send);
	expect_leaves(test, 2);
	mad = sa_fake_last(sa);
	KUNIT_EXPECT_EQ(test, mad[SA_DATA_OFFSET + 48] & 0xf, SEND_ONLY);
}

static void refused(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct mc_user a, b;

	sa_fake_reset(sa, SA_REFUSE);
	join(test, &a, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 5000), -EINVAL);
	/* The next one asks again. */
	sa_fake_reset(sa, SA_ECHO);
	join(test, &b, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&b.told, 5000), 0);
	leave(&a);
	msleep(50);
	KUNIT_EXPECT_EQ(test, leaves(sa), 0);
	leave(&b);
	expect_leaves(test, 1);
}

/*
 * Joins after an event, and says what the user was told in the end. The address of the
 * administration is looked up again after the event; until it is known, joins are refused.
 */
static int join_again(struct kunit *test, struct mc_user *user, u8 number)
{
	int i, status;

	for (i = 0; i < 250; i++) {
		join(test, user, number, FULL_MEMBER);
		status = sa_told_wait(&user->told, 5000);
		if (status != -EAGAIN)
			break;
		leave(user);
		msleep(20);
	}
	return status;
}

static void rejoin(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct mc_user a, b, again;

	join(test, &a, 1, FULL_MEMBER);
	join(test, &b, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&b.told, 5000), 0);
	/* b is given up by its handler. */
	b.give_up = 1;
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_CLIENT_REREGISTER), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 5000), -ENETRESET);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&b.told, 5000), -ENETRESET);

	KUNIT_EXPECT_EQ(test, join_again(test, &again, 1), 0);
	KUNIT_EXPECT_EQ(test, joins(sa), 2);
	leave(&a);
	msleep(50);
	KUNIT_EXPECT_EQ(test, leaves(sa), 0);
	leave(&again);
	expect_leaves(test, 1);
	KUNIT_EXPECT_EQ(test, a.told.calls, 2);
	KUNIT_EXPECT_EQ(test, b.told.calls, 2);
}

static void pkey_change(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct mc_user user;

	join(test, &user, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 5000), 0);
	/* It is where it was. */
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_PKEY_CHANGE), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 500), 2);
	/* It moves. */
	KUNIT_ASSERT_EQ(test, ib_fake_set_pkey(sa->device, 1, 1, 0xffff), 0);
	KUNIT_ASSERT_EQ(test, ib_fake_set_pkey(sa->device, 1, 0, 0x8001), 0);
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_PKEY_CHANGE), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 5000), -ENETRESET);
	leave(&user);
}

static void chosen_gid(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_mcmember_rec rec, found;
	struct mc_user user, second;
	int i;

	/* The administration chooses the GID. */
	group(&rec, 9, FULL_MEMBER);
	for (i = 0; i < 16; i++)
		sa->data[i] = rec.mgid.raw[i];
	put_unaligned_be32(0xb1b, sa->data + 32);
	put_unaligned_be16(0xffff, sa->data + 40);
	sa->data[48] = FULL_MEMBER;
	sa->data[31] = 1;
	sa->data[16] = 0xfe;
	sa->data[17] = 0x80;
	sa->reply = SA_DATA;
	memset(&rec.mgid, 0, sizeof(rec.mgid));
	join_record(test, &user, &rec);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, user.rec.mgid.raw[15], 9);
	KUNIT_EXPECT_EQ(test, known(sa, 9, &found), 0);

	/* Who names it gets the same group. */
	join(test, &second, 9, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&second.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, joins(sa), 1);
	leave(&user);
	leave(&second);
	expect_leaves(test, 1);
}

static void leaving_is_repeated(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct mc_user user;

	join(test, &user, 1, FULL_MEMBER);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&user.told, 5000), 0);
	sa->delete_reply = SA_REFUSE;
	leave(&user);
	expect_leaves(test, 4);
}

/* Memberships that are given up while the administration is asked. */
static void impatient(struct kunit *test)
{
	struct mc_user *users = kunit_kcalloc(test, 40, sizeof(*users), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, users);
	for (i = 0; i < 40; i++) {
		join(test, &users[i], i % 5, i & 1 ? FULL_MEMBER : SEND_ONLY);
		if (i % 3 == 0)
			leave(&users[i]);
	}
	for (i = 0; i < 40; i++) {
		if (i % 3 == 0)
			continue;
		sa_told_wait(&users[i].told, 10000);
		KUNIT_EXPECT_EQ(test, users[i].told.calls, 1);
		leave(&users[i]);
	}
}

static void bad_arguments(struct kunit *test)
{
	struct ib_fake_config config = { .protocol = IB_FAKE_ROCE };
	struct sa_fake *sa = test->priv;
	struct ib_sa_mcmember_rec rec;
	struct ib_sa_multicast *multicast;
	struct ib_device *roce;

	group(&rec, 1, FULL_MEMBER);
	roce = ib_fake_create(&config);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, roce);
	multicast = ib_sa_join_multicast(&sa->client, roce, 1, &rec, MASK, GFP_KERNEL, handler,
					 NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(multicast), -ENODEV);
	KUNIT_EXPECT_EQ(test, ib_sa_get_mcmember_rec(roce, 1, &rec.mgid, &rec), -ENODEV);
	ib_fake_destroy(roce);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(join_and_leave),
	KUNIT_CASE(shared),
	KUNIT_CASE(two_ways),
	KUNIT_CASE(refused),
	KUNIT_CASE(rejoin),
	KUNIT_CASE(pkey_change),
	KUNIT_CASE(chosen_gid),
	KUNIT_CASE(leaving_is_repeated),
	KUNIT_CASE_SLOW(impatient),
	KUNIT_CASE(bad_arguments),
	{}
};

struct kunit_suite sa_multicast_suite = {
	.name = "ib_sa_multicast",
	.init = sa_fake_init,
	.exit = sa_fake_exit,
	.test_cases = cases,
};
