// SPDX-License-Identifier: GPL-2.0
/*
 * Page sizes and blocks of regions as drivers get them, over lists that no
 * machine has to have the memory for, against a model in 128 bits.
 */
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>

#include "umem_test.h"

#define MAX_SEGS	16
#define ALL_PAGES	PAGE_MASK
#define KIB(n)		((n) * 1024ULL)
#define GIB(n)		((n) << 30)

/* A list, with runs of entries that lie back to back taken together. */
struct layout {
	struct scatterlist sg[MAX_SEGS];
	unsigned int count;
	struct {
		u128 start;
		u128 len;
	} run[MAX_SEGS];
	unsigned int runs;
	u128 total;
	struct ib_umem umem;
};

static int layout_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct layout), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void start(struct layout *l)
{
	memset(l, 0, sizeof(*l));
	sg_init_table(l->sg, MAX_SEGS);
}

static void add(struct layout *l, u64 addr, u32 len)
{
	struct scatterlist *sg = &l->sg[l->count++];
	unsigned int last = l->runs - 1;

	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	l->total += len;
	if (l->runs && l->run[last].start + l->run[last].len == addr) {
		l->run[last].len += len;
		return;
	}
	l->run[l->runs].start = addr;
	l->run[l->runs++].len = len;
}

/* The region of @len bytes that begins @offset bytes into the list. */
static struct ib_umem *region(struct layout *l, u32 offset, u64 len)
{
	l->umem.address = 0x7000000000UL + offset;
	l->umem.length = len;
	l->umem.sgt_append.sgt.sgl = l->sg;
	l->umem.sgt_append.sgt.nents = l->count;
	l->umem.sgt_append.sgt.orig_nents = l->count;
	return &l->umem;
}

/* Every byte of a page has the same place in it on both sides of the device. */
static bool fits(const struct layout *l, u64 iova, u32 offset, u64 page)
{
	/* In 2^64 arithmetic: only the bits below the page size count. */
	u64 va = iova - offset;
	unsigned int i;

	for (i = 0; i < l->runs; i++) {
		if (((u64)l->run[i].start - va) & (page - 1))
			return false;
		if (i && (va & (page - 1)))
			return false;
		va += (u64)l->run[i].len;
	}
	return true;
}

static u64 model_best(const struct layout *l, u64 sizes, u64 iova, u32 offset, u64 len)
{
	u128 last = (u128)iova + len - 1;
	unsigned int bit;
	u64 best = 0;

	if (last >> 64)
		return 0;
	for (bit = 0; bit < 64; bit++) {
		if (!(sizes & BIT_ULL(bit)))
			continue;
		if (fits(l, iova, offset, BIT_ULL(bit)))
			best = BIT_ULL(bit);
		/* Larger ones are of no use. A byte has two of its size, by definition. */
		if (bit && iova >> bit == (u64)last >> bit)
			break;
	}
	return best;
}

/* The bus address of a byte of the list. */
static u64 model_bus(const struct layout *l, u128 at)
{
	unsigned int i;

	for (i = 0; i < l->runs; i++) {
		if (at < l->run[i].len)
			return (u64)(l->run[i].start + at);
		at -= l->run[i].len;
	}
	return 0;
}

/* Asks the core and the model; the blocks as well, if there are not too many. */
static u64 check(struct kunit *test, struct layout *l, u64 sizes, u64 iova, u32 offset, u64 len)
{
	struct ib_umem *umem = region(l, offset, len);
	u64 want = model_best(l, sizes, iova, offset, len);
	u64 got = ib_umem_find_best_pgsz(umem, sizes, iova);
	struct ib_block_iter biter;
	u64 blocks, n = 0;
	u128 first, end;

	KUNIT_EXPECT_EQ_MSG(test, got, want, "sizes %llx iova %llx offset %x length %llx", sizes,
			    iova, offset, len);
	KUNIT_EXPECT_EQ(test, umem->iova, iova);
	if (!got || got != want)
		return got;

	first = iova & ~(got - 1);
	end = ((u128)iova + len + got - 1) & ~((u128)got - 1);
	blocks = (u64)((end - first) >> __ffs64(got));
	/* ib_umem_num_dma_blocks() has no bit for a region that ends where addresses do. */
	if (end >> 64)
		return got;
	KUNIT_EXPECT_EQ(test, ib_umem_num_dma_blocks(umem, got), blocks);
	if (blocks > 4096)
		return got;
	rdma_umem_for_each_dma_block(umem, &biter, got) {
		u128 va = first + (u128)n * got;
		u64 bus = va < iova ? model_bus(l, offset) : model_bus(l, va - iova + offset);

		if (rdma_block_iter_dma_address(&biter) != (bus & ~(got - 1))) {
			KUNIT_FAIL(test, "block %llu of %llu: %llx, not %llx", n, blocks,
				   (u64)rdma_block_iter_dma_address(&biter), bus & ~(got - 1));
			return got;
		}
		n++;
	}
	KUNIT_EXPECT_EQ(test, n, blocks);
	return got;
}

static void five_entries_of_nearly_4_gib(struct kunit *test)
{
	const u32 len = 0xfffff000;
	struct layout *l = test->priv;
	u64 at = 0x10000000000, all = 5 * (u64)len + KIB(16);
	int i;

	start(l);
	for (i = 0; i < 5; i++)
		add(l, at + i * (u64)len, len);
	add(l, at + 5 * (u64)len, KIB(16));
	/* One run of 20 GiB less 4 KiB: the next power of two holds it. */
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, at, 0, all), GIB(32ULL));
	KUNIT_EXPECT_EQ(test, check(test, l, SZ_2M | SZ_4K, at, 0, all), SZ_2M);
	KUNIT_EXPECT_EQ(test, check(test, l, SZ_1G | SZ_4K, at, 0, all), SZ_1G);
	KUNIT_EXPECT_EQ(test, check(test, l, GIB(8ULL), at, 0, all), GIB(8ULL));
	/* The bus addresses are off by a page from those of the device. */
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, at + SZ_4K, 0, all), SZ_4K);
}

static void five_gib(struct kunit *test)
{
	struct layout *l = test->priv;

	start(l);
	add(l, 0x4000000000, SZ_2G);
	add(l, 0x4080000000, 3 * (u32)SZ_1G);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, 0x4000000000, 0, GIB(5ULL)), GIB(8ULL));
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, 0x4040000000, 0, GIB(5ULL)), SZ_1G);
}

static void neighbours_that_are_split(struct kunit *test)
{
	struct layout *l = test->priv;
	int i;

	/* The same memory, whole and in pieces, has the same page size. */
	start(l);
	add(l, SZ_2M, SZ_2M);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_2M, 0, SZ_2M), SZ_2M);
	start(l);
	for (i = 0; i < 8; i++)
		add(l, SZ_2M + i * SZ_256K, SZ_256K);
	KUNIT_EXPECT_EQ(test, l->runs, 1);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_2M, 0, SZ_2M), SZ_2M);
}

static void offset_in_the_first_page(struct kunit *test)
{
	struct layout *l = test->priv;

	start(l);
	add(l, SZ_64K, SZ_64K);
	add(l, SZ_512K, SZ_64K);
	/* A page of twice the size begins before the region, and the gap is at its end. */
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_64K + 0x80, 0x80, SZ_128K - 0x100),
			SZ_128K);
	/* The device has its own idea of the address. */
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_1M + 0x80, 0x80, SZ_128K - 0x100),
			SZ_64K);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_4K + 0x80, 0x80, SZ_128K - 0x100),
			SZ_4K);
	/* Not congruent at all. */
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_64K, 0x80, SZ_128K - 0x100), 0);
}

static void device_pages_below_those_of_the_system(struct kunit *test)
{
	struct layout *l = test->priv;

	start(l);
	add(l, SZ_64K, SZ_64K);
	add(l, SZ_512K, SZ_64K);
	KUNIT_EXPECT_EQ(test, check(test, l, SZ_1K, SZ_64K + 0x480, 0x480, SZ_128K - 0x500),
			SZ_1K);
	KUNIT_EXPECT_EQ(test, check(test, l, SZ_512, SZ_64K + 0xe80, 0xe80, SZ_4K), SZ_512);
	KUNIT_EXPECT_EQ(test, check(test, l, 0x40 | SZ_64K, SZ_64K + 0xfc0, 0xfc0, 0x40), 0x40);
}

static void the_end_of_addresses(struct kunit *test)
{
	struct layout *l = test->priv;

	start(l);
	add(l, SZ_64K, SZ_8K);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, U64_MAX - 0xfff, 0, SZ_4K + 1), 0);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, U64_MAX, 0, 2), 0);
	KUNIT_EXPECT_NE(test, check(test, l, ALL_PAGES, U64_MAX - 0xfff, 0, SZ_4K), 0);

	/* Bus addresses that end there are no run with one that begins at 0. */
	start(l);
	add(l, U64_MAX - 0xfff, SZ_4K);
	add(l, 0, SZ_4K);
	KUNIT_EXPECT_EQ(test, l->runs, 2);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_4K, 0, SZ_8K), SZ_8K);
	KUNIT_EXPECT_EQ(test, check(test, l, ALL_PAGES, SZ_8K, 0, SZ_8K), SZ_4K);
}

static void no_size_fits(struct kunit *test)
{
	struct layout *l = test->priv;

	start(l);
	add(l, SZ_1M, SZ_4K);
	add(l, SZ_2M, SZ_4K);
	KUNIT_EXPECT_EQ(test, check(test, l, SZ_64K, SZ_1M, 0, SZ_8K), 0);
	KUNIT_EXPECT_EQ(test, check(test, l, 0, SZ_1M, 0, SZ_8K), 0);
}

static void offsets_instead_of_addresses(struct kunit *test)
{
	struct layout *l = test->priv;
	struct ib_umem *umem;

	start(l);
	add(l, SZ_1M, SZ_64K);
	umem = region(l, 0x240, SZ_64K - 0x240);
	KUNIT_EXPECT_EQ(test, ib_umem_find_best_pgoff(umem, ALL_PAGES, 0xfc0), SZ_64K);
	KUNIT_EXPECT_TRUE(test, ib_umem_is_contiguous(umem));
	KUNIT_EXPECT_EQ(test, ib_umem_dma_offset(umem, SZ_64K), 0x240);

	/* Bits below 64 cannot be said. */
	umem = region(l, 0x244, SZ_4K);
	KUNIT_EXPECT_EQ(test, ib_umem_find_best_pgoff(umem, ALL_PAGES, 0xfc0), 0);

	start(l);
	add(l, SZ_1M, SZ_4K);
	add(l, SZ_2M, SZ_4K);
	KUNIT_EXPECT_FALSE(test, ib_umem_is_contiguous(region(l, 0, SZ_8K)));
}

/* Walks a list without a region and returns the number of blocks. */
static u64 walk(struct kunit *test, struct scatterlist *sg, unsigned int nents, u64 page,
		u64 *last)
{
	struct ib_block_iter biter;
	u64 n = 0;

	rdma_for_each_block(sg, &biter, nents, page) {
		*last = rdma_block_iter_dma_address(&biter);
		KUNIT_EXPECT_EQ(test, *last & (page - 1), 0);
		n++;
	}
	/* It stays at the end. */
	KUNIT_EXPECT_FALSE(test, __rdma_block_iter_next(&biter));
	return n;
}

static void walks_of_lists(struct kunit *test)
{
	struct layout *l = test->priv;
	u64 last = 0;

	start(l);
	add(l, SZ_1M, SZ_64K);
	add(l, SZ_1M + SZ_64K, SZ_64K);
	add(l, SZ_4M, SZ_4K);
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 3, SZ_4K, &last), 33);
	KUNIT_EXPECT_EQ(test, last, SZ_4M);
	/* Both halves of the run are one block. */
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 3, SZ_128K, &last), 2);
	/* Only so many entries are looked at. */
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 2, SZ_4K, &last), 32);
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 1, SZ_4K, &last), 16);
	KUNIT_EXPECT_EQ(test, last, SZ_1M + SZ_64K - SZ_4K);
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 0, SZ_4K, &last), 0);

	/* A block that is larger than the length of an entry can say. */
	start(l);
	add(l, GIB(16ULL), SZ_2G);
	add(l, GIB(18ULL), SZ_2G);
	add(l, GIB(20ULL), SZ_2G);
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 3, GIB(8ULL), &last), 1);
	KUNIT_EXPECT_EQ(test, last, GIB(16ULL));
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 3, GIB(4ULL), &last), 2);
	KUNIT_EXPECT_EQ(test, last, GIB(20ULL));

	/* One that begins within a block. */
	start(l);
	add(l, SZ_1M + 0x600, 0x400);
	KUNIT_EXPECT_EQ(test, walk(test, l->sg, 1, SZ_1K, &last), 2);
	KUNIT_EXPECT_EQ(test, last, SZ_1M + 0x800);
}

/* A list in several tables that are chained. */
static void a_chained_list(struct kunit *test)
{
	const unsigned int count = 3 * SG_MAX_SINGLE_ALLOC;
	struct ib_umem *umem = &((struct layout *)test->priv)->umem;
	struct ib_block_iter biter;
	struct scatterlist *sg;
	struct sg_table table;
	u64 n = 0, bad = 0;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, sg_alloc_table(&table, count, GFP_KERNEL), 0);
	for_each_sgtable_sg(&table, sg, i) {
		/* Every other one has a gap behind it. */
		sg_dma_address(sg) = GIB(1ULL) + i * SZ_4K + i / 2 * SZ_1M;
		sg_dma_len(sg) = SZ_4K;
	}
	memset(umem, 0, sizeof(*umem));
	umem->length = count * SZ_4K;
	umem->sgt_append.sgt = table;
	KUNIT_EXPECT_EQ(test, ib_umem_find_best_pgsz(umem, ALL_PAGES, GIB(1ULL)), SZ_8K);
	KUNIT_EXPECT_EQ(test, ib_umem_find_best_pgsz(umem, SZ_4K, GIB(1ULL)), SZ_4K);
	rdma_umem_for_each_dma_block(umem, &biter, SZ_4K) {
		bad += rdma_block_iter_dma_address(&biter) !=
		       GIB(1ULL) + n * SZ_4K + n / 2 * SZ_1M;
		n++;
	}
	KUNIT_EXPECT_EQ(test, n, count);
	KUNIT_EXPECT_EQ(test, bad, 0);
	n = 0;
	rdma_umem_for_each_dma_block(umem, &biter, SZ_8K)
		n++;
	KUNIT_EXPECT_EQ(test, n, count / 2);
	sg_free_table(&table);
}

static u64 next(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static u64 below(u64 *state, u32 limit)
{
	return (u32)(next(state) >> 32) % limit;
}

/* A number of random magnitude up to 2^bits. */
static u64 magnitude(u64 *state, u32 bits)
{
	bits = below(state, bits + 1);
	return bits ? next(state) >> (64 - bits) : 0;
}

static void random_list(struct layout *l, u64 *state)
{
	static const u8 aligns[] = { 12, 12, 12, 16, 21, 30 };
	static const u8 gaps[] = { 12, 16, 21 };
	u32 align = aligns[below(state, 6)];
	u64 at = magnitude(state, 52) >> align << align;
	u32 i, n = 1 + below(state, 6);

	start(l);
	for (i = 0; i < n; i++) {
		u32 len = max(magnitude(state, 32) & PAGE_MASK, PAGE_SIZE);

		add(l, at, len);
		at += len;
		if (!below(state, 3))
			at = ALIGN(at + ((1 + below(state, 64)) << 12),
				   BIT_ULL(gaps[below(state, 3)]));
	}
}

static void random_lists(struct kunit *test)
{
	u64 state = 0x9e3779b97f4a7c15;
	struct layout *l = test->priv;
	unsigned int found[64] = {};
	u32 i, kinds = 0;

	for (i = 0; i < 20000 && test->status != KUNIT_FAILURE; i++) {
		u64 sizes, len, iova, got;
		u32 offset, bits;

		random_list(l, &state);
		offset = below(&state, 2) ? below(&state, PAGE_SIZE) : 0;
		len = (u64)l->total - offset;
		if (below(&state, 2))
			len -= below(&state, PAGE_SIZE - offset);
		/* Mostly congruent with the bus address to some degree. */
		bits = below(&state, 48);
		iova = magnitude(&state, 64) >> bits << bits;
		iova |= ((u64)l->run[0].start + offset) & (BIT_ULL(bits) - 1);
		switch (below(&state, 4)) {
		case 0:
			sizes = ALL_PAGES;
			break;
		case 1:
			sizes = SZ_1G | SZ_2M | SZ_4K;
			break;
		case 2:
			sizes = next(&state) & ~0x3fULL;
			break;
		default:
			sizes = U64_MAX;
		}
		got = check(test, l, sizes, iova, offset, len);
		if (got)
			found[__ffs64(got)]++;
		if (!(i % 256))
			cond_resched();
	}
	/* The lists are of many kinds. */
	for (i = 0; i < 64; i++)
		kinds += !!found[i];
	KUNIT_EXPECT_GE(test, kinds, 20);
}

static struct kunit_case umem_block_cases[] = {
	KUNIT_CASE(five_entries_of_nearly_4_gib),
	KUNIT_CASE(five_gib),
	KUNIT_CASE(neighbours_that_are_split),
	KUNIT_CASE(offset_in_the_first_page),
	KUNIT_CASE(device_pages_below_those_of_the_system),
	KUNIT_CASE(the_end_of_addresses),
	KUNIT_CASE(no_size_fits),
	KUNIT_CASE(offsets_instead_of_addresses),
	KUNIT_CASE(walks_of_lists),
	KUNIT_CASE(a_chained_list),
	KUNIT_CASE_SLOW(random_lists),
	{}
};

struct kunit_suite umem_block_suite = {
	.name = "ib_umem_blocks",
	.init = layout_init,
	.test_cases = umem_block_cases,
};
