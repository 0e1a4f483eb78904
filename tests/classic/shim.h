/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit where the kernel has it. Elsewhere as much of it as these suites use:
 * each case runs in a thread of its own, a failed assertion ends the thread,
 * the results are printed to the log in the same format (KTAP).
 */
#ifndef CLASSIC_SHIM_H
#define CLASSIC_SHIM_H

#include <linux/kconfig.h>

#if IS_ENABLED(CONFIG_KUNIT)
#include <kunit/test.h>
#else

#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

struct kunit {
	void *priv;
	const char *name;
	bool failed;
	bool skipped;
	char reason[128];
	struct completion ended;
	const struct kunit_suite *suite;
	const struct kunit_case *test_case;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char name[64];
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(function)	{ .run_case = function, .name = #function }

void __noreturn shim_abort(struct kunit *test);

#define kunit_info(test, fmt, ...)	\
	pr_info("    # %s: " fmt "\n", (test)->name, ##__VA_ARGS__)

#define kunit_skip(test, fmt, ...)						\
	do {									\
		struct kunit *__t = (test);					\
										\
		__t->skipped = true;						\
		snprintf(__t->reason, sizeof(__t->reason), fmt, ##__VA_ARGS__);	\
		shim_abort(__t);						\
	} while (0)

#define SHIM_FAILED(test, fmt, ...)						\
	do {									\
		(test)->failed = true;						\
		pr_info("    # %s: failed at %s:%d: " fmt "\n", (test)->name,	\
			kbasename(__FILE__), __LINE__, ##__VA_ARGS__);		\
	} while (0)

#define SHIM_BINARY(test, l, op, r, then)					\
	do {									\
		typeof(l) __l = (l);						\
		typeof(r) __r = (r);						\
										\
		if (!(__l op __r)) {						\
			SHIM_FAILED(test, "%s " #op " %s: %lld and %lld", #l,	\
				    #r, (long long)__l, (long long)__r);	\
			then;							\
		}								\
	} while (0)

#define SHIM_TRUE(test, c, text, then)						\
	do {									\
		if (!(c)) {							\
			SHIM_FAILED(test, "%s", text);				\
			then;							\
		}								\
	} while (0)

#define SHIM_PTR_EQ(test, l, r, then)						\
	do {									\
		if ((const void *)(l) != (const void *)(r)) {			\
			SHIM_FAILED(test, "%s == %s", #l, #r);			\
			then;							\
		}								\
	} while (0)

#define SHIM_POINTER(test, p, then)						\
	do {									\
		const void *__p = (p);						\
										\
		if (IS_ERR_OR_NULL(__p)) {					\
			SHIM_FAILED(test, "%s is %ld", #p, PTR_ERR(__p));	\
			then;							\
		}								\
	} while (0)

#define SHIM_GO_ON	((void)0)

#define KUNIT_EXPECT_EQ(t, l, r)	SHIM_BINARY(t, l, ==, r, SHIM_GO_ON)
#define KUNIT_EXPECT_NE(t, l, r)	SHIM_BINARY(t, l, !=, r, SHIM_GO_ON)
#define KUNIT_EXPECT_GE(t, l, r)	SHIM_BINARY(t, l, >=, r, SHIM_GO_ON)
#define KUNIT_EXPECT_GT(t, l, r)	SHIM_BINARY(t, l, >, r, SHIM_GO_ON)
#define KUNIT_EXPECT_LE(t, l, r)	SHIM_BINARY(t, l, <=, r, SHIM_GO_ON)
#define KUNIT_EXPECT_LT(t, l, r)	SHIM_BINARY(t, l, <, r, SHIM_GO_ON)
#define KUNIT_EXPECT_TRUE(t, c)		SHIM_TRUE(t, c, #c, SHIM_GO_ON)
#define KUNIT_EXPECT_FALSE(t, c)	SHIM_TRUE(t, !(c), "not " #c, SHIM_GO_ON)
#define KUNIT_EXPECT_PTR_EQ(t, l, r)	SHIM_PTR_EQ(t, l, r, SHIM_GO_ON)
#define KUNIT_EXPECT_STREQ(t, l, r)	SHIM_TRUE(t, !strcmp(l, r), #l " is " #r, SHIM_GO_ON)
#define KUNIT_EXPECT_MEMEQ(t, l, r, n)	SHIM_TRUE(t, !memcmp(l, r, n), #l " is " #r, SHIM_GO_ON)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL(t, p)	SHIM_POINTER(t, p, SHIM_GO_ON)
#define KUNIT_ASSERT_EQ(t, l, r)	SHIM_BINARY(t, l, ==, r, shim_abort(t))
#define KUNIT_ASSERT_NE(t, l, r)	SHIM_BINARY(t, l, !=, r, shim_abort(t))
#define KUNIT_ASSERT_GE(t, l, r)	SHIM_BINARY(t, l, >=, r, shim_abort(t))
#define KUNIT_ASSERT_GT(t, l, r)	SHIM_BINARY(t, l, >, r, shim_abort(t))
#define KUNIT_ASSERT_TRUE(t, c)		SHIM_TRUE(t, c, #c, shim_abort(t))
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(t, p)	SHIM_POINTER(t, p, shim_abort(t))

/* shim.c runs them when the module is loaded. */
extern struct kunit_suite *const shim_suites[];
extern const size_t shim_suite_count;

#define kunit_test_suites(...)							\
	struct kunit_suite *const shim_suites[] = { __VA_ARGS__ };		\
	const size_t shim_suite_count = ARRAY_SIZE(shim_suites)

#endif /* CONFIG_KUNIT */
#endif /* CLASSIC_SHIM_H */
