// SPDX-License-Identifier: GPL-2.0
/* Memory of a process, pinned for a device: what is counted, and what is refused. */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <rdma/ib_fake.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>

#include "umem_test.h"

#define PAGES	5

struct pin {
	struct ib_device *dev;
	unsigned long addr;
	s64 before;
};

static s64 pinned(void)
{
	return atomic64_read(&current->mm->pinned_vm);
}

static int pin_init(struct kunit *test)
{
	const struct ib_fake_config config = { .protocol = IB_FAKE_INFINIBAND };
	struct pin *pin = kunit_kzalloc(test, sizeof(*pin), GFP_KERNEL);

	if (!pin)
		return -ENOMEM;
	test->priv = pin;
	pin->addr = kunit_vm_mmap(test, NULL, 0, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE,
				  MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!pin->addr || IS_ERR_VALUE(pin->addr))
		return -ENOMEM;
	pin->before = pinned();
	pin->dev = ib_fake_create(&config);
	return PTR_ERR_OR_ZERO(pin->dev);
}

static void pin_exit(struct kunit *test)
{
	struct pin *pin = test->priv;

	if (pin && !IS_ERR_OR_NULL(pin->dev))
		ib_fake_destroy(pin->dev);
}

static void pages_are_counted(struct kunit *test)
{
	static const struct {
		u32 offset;
		u32 len;
		u32 pages;
	} cases[] = {
		{ 0, 1, 1 },
		{ PAGE_SIZE - 1, 1, 1 },
		{ PAGE_SIZE - 1, 2, 2 },
		{ 0, PAGE_SIZE, 1 },
		{ 1, PAGE_SIZE, 2 },
		{ 0, PAGES * PAGE_SIZE, PAGES },
		{ 17, 3 * PAGE_SIZE, 4 },
	};
	struct pin *pin = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned long addr = pin->addr + cases[i].offset;
		struct ib_umem *umem = ib_umem_get_va(pin->dev, addr, cases[i].len,
						      IB_ACCESS_LOCAL_WRITE);
		struct ib_block_iter biter;
		u32 blocks = 0;

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
		KUNIT_EXPECT_EQ(test, pinned(), pin->before + cases[i].pages);
		KUNIT_EXPECT_EQ(test, ib_umem_num_pages(umem), cases[i].pages);
		KUNIT_EXPECT_EQ(test, umem->address, addr);
		KUNIT_EXPECT_EQ(test, umem->length, cases[i].len);
		KUNIT_EXPECT_EQ(test, umem->iova, addr);
		KUNIT_EXPECT_EQ(test, (int)umem->writable, 1);
		KUNIT_EXPECT_EQ(test, ib_umem_offset(umem), cases[i].offset);
		KUNIT_EXPECT_EQ(test, ib_umem_find_best_pgsz(umem, PAGE_SIZE, addr), PAGE_SIZE);
		rdma_umem_for_each_dma_block(umem, &biter, PAGE_SIZE)
			blocks++;
		KUNIT_EXPECT_EQ(test, blocks, cases[i].pages);
		ib_umem_release(umem);
		KUNIT_EXPECT_EQ(test, pinned(), pin->before);
	}
}

static void a_region_of_a_region(struct kunit *test)
{
	struct pin *pin = test->priv;
	struct ib_umem *one, *two;

	one = ib_umem_get_va(pin->dev, pin->addr, 2 * PAGE_SIZE, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, one);
	two = ib_umem_get_va(pin->dev, pin->addr + PAGE_SIZE, 2 * PAGE_SIZE, 0);
	KUNIT_EXPECT_FALSE(test, IS_ERR(two));
	/* The shared page is counted for each. */
	KUNIT_EXPECT_EQ(test, pinned(), pin->before + 4);
	KUNIT_EXPECT_EQ(test, (int)one->writable, 0);
	ib_umem_release(one);
	KUNIT_EXPECT_EQ(test, pinned(), pin->before + 2);
	if (!IS_ERR(two))
		ib_umem_release(two);
	KUNIT_EXPECT_EQ(test, pinned(), pin->before);
	/* There may be none. */
	ib_umem_release(NULL);
}

static long refused(struct pin *pin, unsigned long addr, size_t len, int access)
{
	struct ib_umem *umem = ib_umem_get_va(pin->dev, addr, len, access);

	if (IS_ERR(umem))
		return PTR_ERR(umem);
	ib_umem_release(umem);
	return 0;
}

static void what_is_refused(struct kunit *test)
{
	struct pin *pin = test->priv;

	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 0, 0), -EINVAL);
	/* The sum, or its page, is beyond the last address. */
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, SIZE_MAX, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, refused(pin, ULONG_MAX, 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, refused(pin, ULONG_MAX - 10, 5, 0), -EINVAL);
	/* More pages than are counted. */
	KUNIT_EXPECT_EQ(test, refused(pin, PAGE_SIZE, (size_t)UINT_MAX * PAGE_SIZE + PAGE_SIZE,
				      0), -EINVAL);
	/* Addresses of the kernel. */
	KUNIT_EXPECT_EQ(test, refused(pin, (unsigned long)pin, 8, 0), -EFAULT);
	/* Pages that are not there, at once and behind some that are. */
	KUNIT_EXPECT_EQ(test, refused(pin, PAGE_SIZE, 8, 0), -EFAULT);
	KUNIT_EXPECT_EQ(test, vm_munmap(pin->addr + 3 * PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, PAGES * PAGE_SIZE, 0), -EFAULT);
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 3 * PAGE_SIZE, 0), 0);
	/* On demand is another function. */
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 8, IB_ACCESS_ON_DEMAND), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, pinned(), pin->before);
}

/* As a process that may not lock more than so much. */
static void the_limit_of_the_process(struct kunit *test)
{
	struct rlimit *limit = &current->signal->rlim[RLIMIT_MEMLOCK], old = *limit;
	struct cred *creds = prepare_creds();
	struct pin *pin = test->priv;
	const struct cred *before;
	struct ib_umem *umem;

	KUNIT_ASSERT_NOT_NULL(test, creds);
	cap_lower(creds->cap_effective, CAP_IPC_LOCK);
	before = override_creds(creds);
	limit->rlim_cur = 3 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 3 * PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 3 * PAGE_SIZE + 1, 0), -ENOMEM);
	umem = ib_umem_get_va(pin->dev, pin->addr, 2 * PAGE_SIZE, 0);
	KUNIT_EXPECT_FALSE(test, IS_ERR(umem));
	/* All regions of the process count. */
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 2 * PAGE_SIZE, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, pinned(), pin->before + 2);
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	limit->rlim_cur = 0;
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, 1, 0), -EPERM);
	*limit = old;
	revert_creds(before);
	put_cred(creds);
	KUNIT_EXPECT_EQ(test, refused(pin, pin->addr, PAGES * PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, pinned(), pin->before);
}

static void bytes_are_copied(struct kunit *test)
{
	struct pin *pin = test->priv;
	const size_t len = 2 * PAGE_SIZE + 100, offset = 40;
	u8 *want = kunit_kzalloc(test, 3 * PAGE_SIZE, GFP_KERNEL);
	u8 *got = kunit_kzalloc(test, 3 * PAGE_SIZE, GFP_KERNEL);
	struct ib_umem *umem;
	size_t i;

	KUNIT_ASSERT_NOT_NULL(test, want);
	KUNIT_ASSERT_NOT_NULL(test, got);
	for (i = 0; i < 3 * PAGE_SIZE; i++)
		want[i] = i * 7 + i / 256;
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)pin->addr, want, 3 * PAGE_SIZE), 0);
	umem = ib_umem_get_va(pin->dev, pin->addr + offset, len, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);

	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, 0, len), 0);
	KUNIT_EXPECT_MEMEQ(test, got, want + offset, len);
	/* Over the edge of a page, and the last byte. */
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, PAGE_SIZE - 50, 20), 0);
	KUNIT_EXPECT_MEMEQ(test, got, want + offset + PAGE_SIZE - 50, 20);
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, len - 1, 1), 0);
	KUNIT_EXPECT_EQ(test, got[0], want[offset + len - 1]);
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, len, 0), 0);

	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, len, 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, len + 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, 1, len), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_umem_copy_from(got, umem, 1, SIZE_MAX), -EINVAL);
	ib_umem_release(umem);
}

static void rights_that_change(struct kunit *test)
{
	struct pin *pin = test->priv;
	struct ib_umem *umem = ib_umem_get_va(pin->dev, pin->addr, 8, 0);
	const int write = IB_ACCESS_LOCAL_WRITE;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
	/* Pages that were pinned for reading cannot be written. */
	KUNIT_EXPECT_EQ(test, ib_umem_check_rereg(umem, IB_MR_REREG_ACCESS, write), -EACCES);
	KUNIT_EXPECT_EQ(test, ib_umem_check_rereg(umem, IB_MR_REREG_ACCESS, 0), 0);
	/* They are pinned anew. */
	KUNIT_EXPECT_EQ(test, ib_umem_check_rereg(umem, IB_MR_REREG_ACCESS | IB_MR_REREG_TRANS,
						  write), 0);
	KUNIT_EXPECT_EQ(test, ib_umem_check_rereg(umem, IB_MR_REREG_PD, write), 0);
	KUNIT_EXPECT_EQ(test, ib_umem_check_rereg(NULL, IB_MR_REREG_ACCESS, write), 0);
	ib_umem_release(umem);
}

/*
 * Longer than a batch, in huge pages but for the rest, from a page inside: the
 * list has the pages of the process in their order, and an end.
 */
static void many_pages_in_order(struct kunit *test)
{
	enum { MANY = 3000, HUGE = 2 << 20 };
	struct page **want = kunit_kcalloc(test, MANY, sizeof(*want), GFP_KERNEL);
	struct pin *pin = test->priv;
	unsigned long map, addr;
	unsigned int first;

	KUNIT_ASSERT_NOT_NULL(test, want);
	map = kunit_vm_mmap(test, NULL, 0, MANY * PAGE_SIZE + HUGE, PROT_READ | PROT_WRITE,
			    MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !map || IS_ERR_VALUE(map));
	addr = ALIGN(map, HUGE);
	mmap_write_lock(current->mm);
	vm_flags_set(find_vma(current->mm, map), VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	for (first = 0; first < 1200; first += 397) {
		const unsigned int count = MANY - first;
		struct sg_page_iter iter;
		struct ib_umem *umem;
		unsigned int i = 0;
		long got;

		umem = ib_umem_get_va(pin->dev, addr + first * PAGE_SIZE, count * PAGE_SIZE,
				      IB_ACCESS_LOCAL_WRITE);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
		got = pin_user_pages_fast(addr + first * PAGE_SIZE, count, FOLL_WRITE, want);
		KUNIT_EXPECT_EQ(test, got, (long)count);
		for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
			if (i < got && sg_page_iter_page(&iter) != want[i])
				break;
			i++;
		}
		KUNIT_EXPECT_EQ(test, i, count);
		KUNIT_EXPECT_TRUE(test, sg_is_last(umem->sgt_append.prv));
		KUNIT_EXPECT_EQ(test, sg_nents(umem->sgt_append.sgt.sgl),
				(int)umem->sgt_append.sgt.orig_nents);
		kunit_info(test, "%u pages in %u entries", count, umem->sgt_append.sgt.orig_nents);
		if (got > 0)
			unpin_user_pages(want, got);
		ib_umem_release(umem);
	}
	KUNIT_EXPECT_EQ(test, pinned(), pin->before);
}

static struct kunit_case umem_pin_cases[] = {
	KUNIT_CASE(pages_are_counted),
	KUNIT_CASE(a_region_of_a_region),
	KUNIT_CASE(what_is_refused),
	KUNIT_CASE(the_limit_of_the_process),
	KUNIT_CASE(bytes_are_copied),
	KUNIT_CASE(rights_that_change),
	KUNIT_CASE(many_pages_in_order),
	{}
};

struct kunit_suite umem_pin_suite = {
	.name = "ib_umem_pins",
	.init = pin_init,
	.exit = pin_exit,
	.test_cases = umem_pin_cases,
};
