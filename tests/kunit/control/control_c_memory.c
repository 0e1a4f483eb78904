// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate bugs for KASAN, whose first report turns lockdep off, and a test
 * that fails: loaded after all other controls.
 */
#define pr_fmt(fmt) "control: " fmt

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/slab.h>

static int mark_begin(struct kunit *test)
{
	pr_info("begin c_%s\n", test->name);
	return 0;
}

static void mark_end(struct kunit *test)
{
	pr_info("end c_%s\n", test->name);
}

static void use_after_free(struct kunit *test)
{
	u8 *p = kmalloc(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	READ_ONCE(p[0]);
}

static void out_of_bounds(struct kunit *test)
{
	u8 *p = kmalloc(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	OPTIMIZER_HIDE_VAR(p);
	READ_ONCE(p[64]);
	kfree(p);
}

static void assertion(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1 + 1, 3);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(use_after_free),
	KUNIT_CASE(out_of_bounds),
	KUNIT_CASE(assertion),
	{}
};

static struct kunit_suite suite = {
	.name = "control_c_memory",
	.init = mark_begin,
	.exit = mark_end,
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("Deliberate memory bugs for the debug kernel");
MODULE_LICENSE("GPL");
