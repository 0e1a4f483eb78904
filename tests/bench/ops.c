// SPDX-License-Identifier: GPL-2.0
/*
 * ops DEVICE: times the creation and destruction of verbs objects, in
 * nanoseconds of CLOCK_MONOTONIC per pair; one "name value" line each.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static void one_pd(void)
{
	struct ibv_pd *p = ibv_alloc_pd(ctx);

	need(p && !ibv_dealloc_pd(p), "pd");
}

static void one_cq(void)
{
	struct ibv_cq *c = ibv_create_cq(ctx, 64, NULL, NULL, 0);

	need(c && !ibv_destroy_cq(c), "cq");
}

static void one_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_srq *s = ibv_create_srq(pd, &a);

	need(s && !ibv_destroy_srq(s), "srq");
}

static void one_ah(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1 } };
	struct ibv_ah *ah;

	need(!ibv_query_gid(ctx, 1, 1, &a.grh.dgid), "gid");
	ah = ibv_create_ah(pd, &a);
	need(ah && !ibv_destroy_ah(ah), "ah");
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &a);
}

static void one_qp(void)
{
	struct ibv_qp *qp = make_qp();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	need(!!qp, "qp");
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "init");
	memset(&a, 0, sizeof(a));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.sgid_index = 1;
	need(!ibv_query_gid(ctx, 1, 1, &a.ah_attr.grh.dgid), "gid");
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "rtr");
	memset(&a, 0, sizeof(a));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "rts");
	need(!ibv_destroy_qp(qp), "destroy qp");
}

static char *region;
static size_t region_size, region_place, region_end;

/* One of the places, in turn. */
static void one_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, region + region_place, region_size, IBV_ACCESS_LOCAL_WRITE);

	need(mr && !ibv_dereg_mr(mr), "mr");
	region_place += region_size;
	if (region_place == region_end)
		region_place = 0;
}

static void measure(const char *name, void (*one)(void), int rounds)
{
	uint64_t t;
	int i;

	one();
	t = now();
	for (i = 0; i < rounds; i++)
		one();
	printf("%s %llu\n", name, (unsigned long long)((now() - t) / rounds));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	/* In many places, as what small pages cost depends on where they are. */
	static const struct { const char *name; size_t size; int places, rounds, advice; } sizes[] = {
		{ "mr-4KiB", 4096, 16, 300, MADV_NOHUGEPAGE },
		{ "mr-1MiB", 1 << 20, 16, 10, MADV_NOHUGEPAGE },
		{ "mr-64MiB", 64 << 20, 1, 3, MADV_NOHUGEPAGE },
		{ "mr-64MiB-huge-pages", 64 << 20, 1, 3, MADV_HUGEPAGE },
		{ "mr-1GiB-huge-pages", 1ul << 30, 1, 1, MADV_HUGEPAGE },
		{ NULL, 0, 0, 0, 0 },
	};
	size_t i;
	int n, hold;

	need(argc > 1 && list, "usage: ops DEVICE [HOLD-QPS]");
	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	need(!!ctx, "open");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4096, NULL, NULL, 0);
	need(pd && cq, "pd, cq");
	hold = argc > 2 ? atoi(argv[2]) : 0;
	if (hold) {
		/* Holds QPs for others to look at; also whether creation stays flat. */
		uint64_t t = now();

		for (n = 0; n < hold; n++)
			need(!!make_qp(), "qp");
		printf("qp-of-%d %llu\n", hold, (unsigned long long)((now() - t) / hold));
		fflush(stdout);
		fclose(stdout);
		for (;;)
			nanosleep(&(struct timespec){ .tv_sec = 1000 }, NULL);
	}
	measure("pd", one_pd, 20000);
	measure("cq", one_cq, 300);
	measure("srq", one_srq, 200);
	measure("ah", one_ah, 500);
	measure("qp-to-rts", one_qp, 100);
	for (i = 0; sizes[i].name; i++) {
		region_size = sizes[i].size;
		region_place = 0;
		region_end = region_size * sizes[i].places;
		region = mmap(NULL, region_end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (region == MAP_FAILED)
			continue;
		need(!madvise(region, region_end, sizes[i].advice), "madvise");
		memset(region, 1, region_end);
		measure(sizes[i].name, one_mr, sizes[i].rounds * sizes[i].places);
		munmap(region, region_end);
	}
	return 0;
}
