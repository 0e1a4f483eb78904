// SPDX-License-Identifier: GPL-2.0
/* Queries: what is asked, and what the asker is told, once. */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/unaligned.h>

#include "sa_test.h"

#define PATH_MASK	(IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID | IB_SA_PATH_REC_NUMB_PATH)

static void told(struct sa_told *told, int status, unsigned int count)
{
	told->status = status;
	told->count = count;
	told->calls++;
	complete(&told->done);
}

struct path_told {
	struct sa_told told;
	struct sa_path_rec rec;
};

static void path_handler(int status, struct sa_path_rec *rec, unsigned int count, void *context)
{
	struct path_told *path = context;

	if (rec && count)
		path->rec = *rec;
	told(&path->told, status, count);
}

static void path_init(struct path_told *path)
{
	memset(path, 0, sizeof(*path));
	sa_told_init(&path->told);
}

static int ask_path(struct sa_fake *sa, u32 port, unsigned long ms, struct path_told *path,
		    struct ib_sa_query **query)
{
	struct sa_path_rec rec = { .rec_type = SA_PATH_REC_TYPE_IB, .numb_path = 1 };

	rec.sgid.global.subnet_prefix = cpu_to_be64(0xfe80000000000000);
	rec.sgid.global.interface_id = cpu_to_be64(0x1122);
	rec.dgid.global.interface_id = cpu_to_be64(0x3344);
	rec.pkey = cpu_to_be16(0xffff);
	return ib_sa_path_rec_get(&sa->client, sa->device, port, &rec, PATH_MASK, ms, GFP_KERNEL,
				  path_handler, path, query);
}

static void path_success(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query = NULL;
	struct path_told path;
	const u8 *mad;
	int id;

	path_init(&path);
	id = ask_path(sa, 1, 1000, &path, &query);
	KUNIT_ASSERT_GE(test, id, 0);
	KUNIT_ASSERT_NOT_NULL(test, query);
	KUNIT_ASSERT_EQ(test, sa_told_wait(&path.told, 5000), 0);
	KUNIT_EXPECT_EQ(test, path.told.count, 1);
	KUNIT_EXPECT_EQ(test, path.told.calls, 1);
	KUNIT_EXPECT_EQ(test, path.rec.rec_type, SA_PATH_REC_TYPE_IB);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(path.rec.dgid.global.interface_id), 0x3344);
	KUNIT_EXPECT_EQ(test, path.rec.numb_path, 1);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(path.rec.pkey), 0xffff);

	KUNIT_ASSERT_EQ(test, sa->requests, 1);
	mad = sa_fake_last(sa);
	KUNIT_EXPECT_EQ(test, get_unaligned_be32(mad), 0x01030201);
	KUNIT_EXPECT_EQ(test, get_unaligned_be16(mad + 4), 0);
	KUNIT_EXPECT_NE(test, get_unaligned_be32(mad + 8), 0);
	KUNIT_EXPECT_EQ(test, get_unaligned_be16(mad + 16), IB_SA_ATTR_PATH_REC);
	KUNIT_EXPECT_EQ(test, get_unaligned_be64(mad + 48), be64_to_cpu(PATH_MASK));

	/* It is over: nothing is cancelled, and nothing else is told. */
	ib_sa_cancel_query(id, query);
	msleep(50);
	KUNIT_EXPECT_EQ(test, path.told.calls, 1);
}

static void path_refused(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query;
	struct path_told path;

	sa_fake_reset(sa, SA_REFUSE);
	path_init(&path);
	KUNIT_ASSERT_GE(test, ask_path(sa, 1, 1000, &path, &query), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&path.told, 5000), -EINVAL);
	KUNIT_EXPECT_EQ(test, path.told.calls, 1);
}

static void path_timeout(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query;
	struct path_told path;

	sa_fake_reset(sa, SA_DROP);
	path_init(&path);
	KUNIT_ASSERT_GE(test, ask_path(sa, 1, 200, &path, &query), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&path.told, 10000), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, path.told.calls, 1);
	KUNIT_EXPECT_EQ(test, path.told.count, 0);
	/* The first try and ten more. */
	KUNIT_EXPECT_EQ(test, sa_fake_requests(sa, IB_MGMT_METHOD_GET, IB_SA_ATTR_PATH_REC), 11);
}

static void path_cancel(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *first, *second;
	struct path_told a, b;
	int id, other;

	sa_fake_reset(sa, SA_DROP);
	path_init(&a);
	path_init(&b);
	id = ask_path(sa, 1, 100000, &a, &first);
	other = ask_path(sa, 1, 100000, &b, &second);
	KUNIT_ASSERT_GE(test, id, 0);
	KUNIT_ASSERT_GE(test, other, 0);
	KUNIT_EXPECT_NE(test, id, other);

	/* The number of one query and the address of another: neither. */
	ib_sa_cancel_query(id, second);
	ib_sa_cancel_query(-1, first);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 200), 2);
	KUNIT_EXPECT_EQ(test, b.told.calls, 0);

	ib_sa_cancel_query(id, first);
	ib_sa_cancel_query(id, first);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&a.told, 5000), -EINTR);
	KUNIT_EXPECT_EQ(test, b.told.calls, 0);
	ib_sa_cancel_query(other, second);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&b.told, 5000), -EINTR);
	msleep(50);
	KUNIT_EXPECT_EQ(test, a.told.calls, 1);
	KUNIT_EXPECT_EQ(test, b.told.calls, 1);
}

/* Answers and cancellations at the same time: each asker is told once. */
static void path_race(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct path_told *paths;
	int i, status;

	paths = kunit_kcalloc(test, 200, sizeof(*paths), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, paths);
	for (i = 0; i < 200; i++) {
		struct ib_sa_query *query;
		int id;

		path_init(&paths[i]);
		id = ask_path(sa, 1, 5000, &paths[i], &query);
		KUNIT_ASSERT_GE(test, id, 0);
		if (i % 3 == 1)
			udelay(i);
		if (i % 3)
			ib_sa_cancel_query(id, query);
	}
	for (i = 0; i < 200; i++) {
		status = sa_told_wait(&paths[i].told, 20000);
		KUNIT_EXPECT_TRUE(test, status == 0 || status == -EINTR);
		if (i % 3 == 0)
			KUNIT_EXPECT_EQ(test, status, 0);
	}
	msleep(50);
	for (i = 0; i < 200; i++)
		KUNIT_EXPECT_EQ(test, paths[i].told.calls, 1);
}

static void path_bad_arguments(struct kunit *test)
{
	struct ib_fake_config config = { .protocol = IB_FAKE_ROCE };
	struct sa_fake *sa = test->priv;
	struct sa_path_rec rec = { .rec_type = SA_PATH_REC_TYPE_ROCE_V2 };
	struct ib_device *infiniband = sa->device;
	struct ib_sa_query *query;
	struct path_told path;

	path_init(&path);
	KUNIT_EXPECT_EQ(test, ib_sa_path_rec_get(&sa->client, sa->device, 1, &rec, PATH_MASK, 100,
						 GFP_KERNEL, path_handler, &path, &query), -EINVAL);

	sa->device = ib_fake_create(&config);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, sa->device);
	KUNIT_EXPECT_EQ(test, ask_path(sa, 1, 100, &path, &query), -ENODEV);
	ib_fake_destroy(sa->device);
	sa->device = infiniband;
	KUNIT_EXPECT_EQ(test, path.told.calls, 0);
}

/* Waits until a query gets ahead, or not, as wanted; the core finds the way in the background. */
static int ask_until(struct sa_fake *sa, int wanted, struct path_told *path,
		     struct ib_sa_query **query)
{
	int i, ret = 0;

	for (i = 0; i < 100; i++) {
		ret = ask_path(sa, 1, 1000, path, query);
		if ((ret < 0 ? ret : 0) == wanted)
			break;
		if (ret >= 0)
			wait_for_completion_timeout(&path->told.done, 5 * HZ);
		msleep(20);
	}
	return ret;
}

static void manager_gone(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query;
	struct ib_port_attr attr;
	struct path_told path;
	u16 lid;

	path_init(&path);
	KUNIT_ASSERT_EQ(test, ib_fake_get_port(sa->device, 1, &attr), 0);
	lid = attr.sm_lid;
	attr.sm_lid = 0;
	KUNIT_ASSERT_EQ(test, ib_fake_set_port(sa->device, 1, &attr), 0);
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_SM_CHANGE), 0);
	KUNIT_EXPECT_EQ(test, ask_until(sa, -EAGAIN, &path, &query), -EAGAIN);

	attr.sm_lid = lid;
	KUNIT_ASSERT_EQ(test, ib_fake_set_port(sa->device, 1, &attr), 0);
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_SM_CHANGE), 0);
	path_init(&path);
	KUNIT_EXPECT_GE(test, ask_until(sa, 0, &path, &query), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&path.told, 5000), 0);
}

/* A new manager is asked what it can do, and asked again until it answers. */
static void abilities(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	u16 attribute = IB_SA_ATTR_CLASS_PORTINFO;
	int i;

	sa_fake_reset(sa, SA_REFUSE);
	KUNIT_ASSERT_EQ(test, ib_fake_event(sa->device, 1, IB_EVENT_SM_CHANGE), 0);
	for (i = 0; i < 100 && sa_fake_requests(sa, IB_MGMT_METHOD_GET, attribute) < 2; i++)
		msleep(100);
	KUNIT_EXPECT_EQ(test, sa_fake_requests(sa, IB_MGMT_METHOD_GET, attribute), 2);
	sa_fake_reset(sa, SA_ECHO);
	for (i = 0; i < 100 && sa_fake_requests(sa, IB_MGMT_METHOD_GET, attribute) < 1; i++)
		msleep(100);
	msleep(1500);
	KUNIT_EXPECT_EQ(test, sa_fake_requests(sa, IB_MGMT_METHOD_GET, attribute), 1);
}

struct service_told {
	struct sa_told told;
	struct sa_service_rec recs[2];
};

static void service_handler(int status, struct sa_service_rec *rec, unsigned int count,
			    void *context)
{
	struct service_told *service = context;

	if (rec)
		memcpy(service->recs, rec, min(count, 2U) * sizeof(*rec));
	told(&service->told, status, count);
}

static int ask_service(struct sa_fake *sa, struct service_told *service)
{
	struct sa_service_rec rec = { .id = cpu_to_be64(0x0102030405060708) };
	struct ib_sa_query *query;

	memset(service, 0, sizeof(*service));
	sa_told_init(&service->told);
	return ib_sa_service_rec_get(&sa->client, sa->device, 1, &rec,
				     IB_SA_SERVICE_REC_SERVICE_ID, 3000, GFP_KERNEL,
				     service_handler, service, &query);
}

static void service_one(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct service_told *service = kunit_kzalloc(test, sizeof(*service), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, service);
	KUNIT_ASSERT_GE(test, ask_service(sa, service), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&service->told, 5000), 0);
	KUNIT_EXPECT_EQ(test, service->told.count, 1);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(service->recs[0].id), 0x0102030405060708);
	KUNIT_EXPECT_EQ(test, sa_fake_requests(sa, IB_SA_METHOD_GET_TABLE, IB_SA_ATTR_SERVICE_REC), 1);

	sa_fake_reset(sa, SA_REFUSE);
	KUNIT_ASSERT_GE(test, ask_service(sa, service), 0);
	KUNIT_EXPECT_EQ(test, sa_told_wait(&service->told, 5000), -EINVAL);
}

/* Two records in two segments: the second record begins in the first one. */
static void service_transfer(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct service_told *service = kunit_kzalloc(test, sizeof(*service), GFP_KERNEL);
	u8 wire[176];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, service);
	sa->segments = true;
	KUNIT_ASSERT_GE(test, ask_service(sa, service), 0);
	KUNIT_ASSERT_EQ(test, sa_told_wait(&service->told, 10000), 0);
	KUNIT_ASSERT_EQ(test, service->told.count, 2);
	ib_sa_pack_service(&service->recs[1], wire);
	for (i = 0; i < 176; i++) {
		u8 wanted = (176 + i) * 7 + 1;

		/* Two bytes of the record are reserved. */
		if (i == 26 || i == 27)
			wanted = 0;
		KUNIT_EXPECT_EQ(test, wire[i], wanted);
	}
}

static void guid_handler(int status, struct ib_sa_guidinfo_rec *rec, void *context)
{
	told(context, status, rec && rec->guid_info_list[63] == 0xa5);
}

static void guid_info(struct kunit *test)
{
	static const u8 methods[] = { IB_MGMT_METHOD_GET, IB_MGMT_METHOD_SET, IB_SA_METHOD_DELETE };
	struct ib_sa_guidinfo_rec rec = { .lid = cpu_to_be16(7), .block_num = 3 };
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query;
	struct sa_told result;
	int i;

	rec.guid_info_list[63] = 0xa5;
	for (i = 0; i < ARRAY_SIZE(methods); i++) {
		sa_told_init(&result);
		KUNIT_ASSERT_GE(test, ib_sa_guid_info_rec_query(&sa->client, sa->device, 1, &rec,
								IB_SA_GUIDINFO_REC_LID, methods[i],
								1000, GFP_KERNEL, guid_handler,
								&result, &query), 0);
		KUNIT_EXPECT_EQ(test, sa_told_wait(&result, 5000), 0);
		KUNIT_EXPECT_EQ(test, result.count, 1);
		KUNIT_EXPECT_EQ(test, sa_fake_requests(sa, methods[i], IB_SA_ATTR_GUID_INFO_REC), 1);
	}
	KUNIT_EXPECT_EQ(test, ib_sa_guid_info_rec_query(&sa->client, sa->device, 1, &rec, 0,
							IB_MGMT_METHOD_TRAP, 1000, GFP_KERNEL,
							guid_handler, &result, &query), -EINVAL);
}

/* The device goes with queries under way: their askers are told, and it does not take long. */
static void device_gone(struct kunit *test)
{
	struct sa_fake *sa = test->priv;
	struct ib_sa_query *query;
	struct path_told paths[8];
	unsigned long begin;
	int i;

	sa_fake_reset(sa, SA_DROP);
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		path_init(&paths[i]);
		KUNIT_ASSERT_GE(test, ask_path(sa, 1, 600000, &paths[i], &query), 0);
	}
	begin = jiffies;
	ib_fake_destroy(sa->device);
	sa->device = NULL;
	KUNIT_EXPECT_LT(test, jiffies_to_msecs(jiffies - begin), 20000);
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		KUNIT_EXPECT_EQ(test, paths[i].told.status, -EINTR);
		KUNIT_EXPECT_EQ(test, paths[i].told.calls, 1);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(path_success),
	KUNIT_CASE(path_refused),
	KUNIT_CASE(path_timeout),
	KUNIT_CASE(path_cancel),
	KUNIT_CASE_SLOW(path_race),
	KUNIT_CASE(path_bad_arguments),
	KUNIT_CASE(manager_gone),
	KUNIT_CASE_SLOW(abilities),
	KUNIT_CASE(service_one),
	KUNIT_CASE(service_transfer),
	KUNIT_CASE(guid_info),
	KUNIT_CASE(device_gone),
	{}
};

struct kunit_suite sa_query_suite = {
	.name = "ib_sa_query",
	.init = sa_fake_init,
	.exit = sa_fake_exit,
	.test_cases = cases,
};
