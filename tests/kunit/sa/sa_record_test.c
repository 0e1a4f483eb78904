// SPDX-License-Identifier: GPL-2.0
/*
 * Packing of records, compared with what the C core makes of the same ones: the
 * checksums are those of its tables.
 */

#include <linux/crc32.h>
#include <linux/unaligned.h>

#include "sa_test.h"

#define ROUNDS		500
#define PATH_BYTES	64
#define SERVICE_BYTES	176

static void random_path(u32 *state, struct sa_path_rec *rec)
{
	sa_random_bytes(state, rec, sizeof(*rec));
	rec->rec_type = SA_PATH_REC_TYPE_IB;
}

static void pack_path(struct kunit *test)
{
	u32 state = 1, crc = ~0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct sa_path_rec rec;
		u8 wire[PATH_BYTES];

		random_path(&state, &rec);
		memset(wire, 0, sizeof(wire));
		ib_sa_pack_path(&rec, wire);
		crc = crc32_le(crc, wire, sizeof(wire));
	}
	KUNIT_EXPECT_EQ(test, crc, 0x0155b31f);
}

static void unpack_path(struct kunit *test)
{
	u32 state = 2, crc = ~0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct sa_path_rec rec;
		u8 wire[PATH_BYTES];

		/* Members that the wire does not have stay. */
		memset(&rec, 0x5a, sizeof(rec));
		sa_random_bytes(&state, wire, sizeof(wire));
		ib_sa_unpack_path(wire, &rec);
		crc = crc32_le(crc, (u8 *)&rec, sizeof(rec));
	}
	KUNIT_EXPECT_EQ(test, crc, 0x857076c2);
}

static void pack_service(struct kunit *test)
{
	u32 state = 3, crc = ~0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct sa_service_rec rec;
		u8 wire[SERVICE_BYTES];

		sa_random_bytes(&state, &rec, sizeof(rec));
		memset(wire, 0, sizeof(wire));
		ib_sa_pack_service(&rec, wire);
		crc = crc32_le(crc, wire, sizeof(wire));
	}
	KUNIT_EXPECT_EQ(test, crc, 0x2e797ffe);
}

static void unpack_service(struct kunit *test)
{
	u32 state = 4, crc = ~0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct sa_service_rec rec;
		u8 wire[SERVICE_BYTES];

		memset(&rec, 0x5a, sizeof(rec));
		sa_random_bytes(&state, wire, sizeof(wire));
		ib_sa_unpack_service(wire, &rec);
		crc = crc32_le(crc, (u8 *)&rec, sizeof(rec));
	}
	KUNIT_EXPECT_EQ(test, crc, 0x4f4b67ad);
}

static void there_and_back(struct kunit *test)
{
	u32 state = 5;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct sa_path_rec rec;
		u8 wire[PATH_BYTES], again[PATH_BYTES];

		memset(&rec, 0, sizeof(rec));
		sa_random_bytes(&state, wire, sizeof(wire));
		ib_sa_unpack_path(wire, &rec);
		memset(again, 0, sizeof(again));
		ib_sa_pack_path(&rec, again);
		/* Reserved bits. */
		wire[44] &= 0x8f;
		memset(wire + 58, 0, 6);
		KUNIT_ASSERT_MEMEQ(test, wire, again, sizeof(wire));
	}
}

struct record_told {
	struct sa_told told;
	u32 crc;
};

static void guid_handler(int status, struct ib_sa_guidinfo_rec *rec, void *context)
{
	struct record_told *record = context;

	if (rec)
		record->crc = crc32_le(record->crc, (u8 *)rec, sizeof(*rec));
	record->told.status = status;
	complete(&record->told.done);
}

/* Both ways by a query: what is sent, and what its asker gets. */
static void guid_info(struct kunit *test)
{
	struct record_told record = { .crc = ~0 };
	struct sa_fake *sa = test->priv;
	u32 state = 6, crc = ~0;
	int i;

	for (i = 0; i < 32; i++) {
		struct ib_sa_guidinfo_rec rec;
		struct ib_sa_query *query;

		sa_fake_reset(sa, SA_DATA);
		sa_random_bytes(&state, sa->data, sizeof(sa->data));
		sa_random_bytes(&state, &rec, sizeof(rec));
		sa_told_init(&record.told);
		KUNIT_ASSERT_GE(test, ib_sa_guid_info_rec_query(&sa->client, sa->device, 1, &rec,
								IB_SA_GUIDINFO_REC_LID,
								IB_MGMT_METHOD_GET, 1000,
								GFP_KERNEL, guid_handler, &record,
								&query), 0);
		KUNIT_ASSERT_EQ(test, sa_told_wait(&record.told, 5000), 0);
		crc = crc32_le(crc, sa_fake_last(sa) + SA_DATA_OFFSET, SA_DATA_BYTES);
	}
	KUNIT_EXPECT_EQ(test, crc, 0xd706096b);
	KUNIT_EXPECT_EQ(test, record.crc, 0x43f4c474);
}

/* The fields of a member, without the bytes between them. */
static u32 member_crc(u32 crc, const struct ib_sa_mcmember_rec *rec)
{
	u8 bytes[] = {
		rec->mtu_selector, rec->mtu, rec->traffic_class, rec->rate_selector, rec->rate,
		rec->packet_life_time_selector, rec->packet_life_time, rec->sl, rec->hop_limit,
		rec->scope, rec->join_state, rec->proxy_join,
	};

	crc = crc32_le(crc, rec->mgid.raw, 16);
	crc = crc32_le(crc, rec->port_gid.raw, 16);
	crc = crc32_le(crc, (const u8 *)&rec->qkey, 4);
	crc = crc32_le(crc, (const u8 *)&rec->mlid, 2);
	crc = crc32_le(crc, (const u8 *)&rec->pkey, 2);
	crc = crc32_le(crc, (const u8 *)&rec->flow_label, 4);
	return crc32_le(crc, bytes, sizeof(bytes));
}

static int member_handler(int status, struct ib_sa_multicast *multicast)
{
	struct record_told *record = multicast->context;

	if (!status)
		record->crc = member_crc(record->crc, &multicast->rec);
	record->told.status = status;
	complete(&record->told.done);
	return 0;
}

static u32 departures(struct sa_fake *sa)
{
	return sa_fake_requests(sa, IB_SA_METHOD_DELETE, IB_SA_ATTR_MC_MEMBER_REC);
}

static void member(struct kunit *test)
{
	struct record_told record = { .crc = ~0 };
	struct sa_fake *sa = test->priv;
	u32 state = 7, crc = ~0;
	int i, k;

	for (i = 0; i < 32; i++) {
		struct ib_sa_mcmember_rec rec;
		struct ib_sa_multicast *multicast;

		sa_fake_reset(sa, SA_DATA);
		sa_random_bytes(&state, sa->data, sizeof(sa->data));
		sa_random_bytes(&state, &rec, sizeof(rec));
		rec.join_state = 1;
		sa->join_state = 1;
		sa_told_init(&record.told);
		multicast = ib_sa_join_multicast(&sa->client, sa->device, 1, &rec, 0, GFP_KERNEL,
						 member_handler, &record);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, multicast);
		KUNIT_EXPECT_EQ(test, sa_told_wait(&record.told, 5000), 0);
		crc = crc32_le(crc, sa_fake_last(sa) + SA_DATA_OFFSET, SA_DATA_BYTES);
		ib_sa_free_multicast(multicast);
		/* Its departure is told later, and would be the last request of the next round. */
		for (k = 0; k < 5000 && !departures(sa); k++)
			usleep_range(500, 1000);
	}
	KUNIT_EXPECT_EQ(test, crc, 0xba6b709f);
	KUNIT_EXPECT_EQ(test, record.crc, 0x8c4be828);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(pack_path),
	KUNIT_CASE(unpack_path),
	KUNIT_CASE(pack_service),
	KUNIT_CASE(unpack_service),
	KUNIT_CASE(there_and_back),
	KUNIT_CASE(guid_info),
	KUNIT_CASE(member),
	{}
};

struct kunit_suite sa_record_suite = {
	.name = "ib_sa_record",
	.init = sa_fake_init,
	.exit = sa_fake_exit,
	.test_cases = cases,
};
