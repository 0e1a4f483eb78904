// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate bugs, each of which another checker of the debug kernel has to
 * report between the two lines that a test prints. None of them corrupts
 * memory, so that lockdep stays on for the modules after this one.
 */
#define pr_fmt(fmt) "control: " fmt

#include <kunit/test.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

static int mark_begin(struct kunit *test)
{
	pr_info("begin c_%s\n", test->name);
	return 0;
}

static void mark_end(struct kunit *test)
{
	pr_info("end c_%s\n", test->name);
}

/* kmemleak, once it has scanned */
static void leak(struct kunit *test)
{
	int i;

	for (i = 0; i < 10; i++)
		kmalloc(256, GFP_KERNEL);
}

/* DEBUG_ATOMIC_SLEEP */
static void atomic_sleep(struct kunit *test)
{
	static DEFINE_SPINLOCK(lock);

	spin_lock(&lock);
	might_sleep();
	spin_unlock(&lock);
}

static int __rcu *protected;

/* PROVE_RCU */
static void rcu(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, rcu_dereference(protected));
}

/* The reference counter itself */
static void refcount(struct kunit *test)
{
	refcount_t refs = REFCOUNT_INIT(1);

	KUNIT_EXPECT_TRUE(test, refcount_dec_and_test(&refs));
	refcount_inc(&refs);
}

/* DEBUG_LIST */
static void list(struct kunit *test)
{
	struct list_head entry;
	LIST_HEAD(head);

	list_add(&entry, &head);
	list_add(&entry, &head);
}

struct timed {
	struct timer_list timer;
};

static void never(struct timer_list *timer)
{
}

/* DEBUG_OBJECTS, which also stops the timer */
static void timer(struct kunit *test)
{
	struct timed *timed = kmalloc_obj(*timed, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, timed);
	timer_setup(&timed->timer, never, 0);
	mod_timer(&timed->timer, jiffies + 3600 * HZ);
	kfree(timed);
}

/* UBSAN */
static void shift(struct kunit *test)
{
	int bits = 40, one = 1;

	OPTIMIZER_HIDE_VAR(bits);
	one <<= bits;
	OPTIMIZER_HIDE_VAR(one);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(leak),
	KUNIT_CASE(atomic_sleep),
	KUNIT_CASE(rcu),
	KUNIT_CASE(refcount),
	KUNIT_CASE(list),
	KUNIT_CASE(timer),
	KUNIT_CASE(shift),
	{}
};

static struct kunit_suite suite = {
	.name = "control_c",
	.init = mark_begin,
	.exit = mark_end,
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("Deliberate bugs for the checkers of the debug kernel");
MODULE_LICENSE("GPL");
