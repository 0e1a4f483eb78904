// SPDX-License-Identifier: GPL-2.0
/* Runs the suites where the kernel has no KUnit. */
#include "shim.h"

#if !IS_ENABLED(CONFIG_KUNIT)

void __noreturn shim_abort(struct kunit *test)
{
	kthread_complete_and_exit(&test->ended, 0);
}

static int run_case(void *data)
{
	struct kunit *test = data;

	test->test_case->run_case(test);
	kthread_complete_and_exit(&test->ended, 0);
}

static void run(const struct kunit_suite *suite, const struct kunit_case *test_case, int number,
		bool *all)
{
	struct kunit test = {
		.name = test_case->name,
		.suite = suite,
		.test_case = test_case,
	};
	struct task_struct *thread;

	init_completion(&test.ended);
	if (suite->init && suite->init(&test)) {
		test.failed = true;
	} else {
		thread = kthread_run(run_case, &test, "%s", test_case->name);
		if (IS_ERR(thread))
			test.failed = true;
		else
			wait_for_completion(&test.ended);
		if (suite->exit)
			suite->exit(&test);
	}
	if (test.failed)
		pr_info("    not ok %d %s\n", number, test.name);
	else if (test.skipped)
		pr_info("    ok %d %s # SKIP %s\n", number, test.name, test.reason);
	else
		pr_info("    ok %d %s\n", number, test.name);
	*all = *all && !test.failed;
}

static int __init shim_init(void)
{
	size_t count = shim_suite_count;
	size_t i;
	int n;

	pr_info("KTAP version 1\n1..%zu\n", count);
	for (i = 0; i < count; i++) {
		struct kunit_suite *suite = shim_suites[i];
		bool all = true;

		for (n = 0; suite->test_cases[n].run_case; n++)
			;
		pr_info("    KTAP version 1\n");
		pr_info("    # Subtest: %s\n", suite->name);
		pr_info("    1..%d\n", n);
		if (suite->suite_init && suite->suite_init(suite)) {
			pr_info("    # suite_init failed\n");
			all = false;
		} else {
			for (n = 0; suite->test_cases[n].run_case; n++)
				run(suite, &suite->test_cases[n], n + 1, &all);
			if (suite->suite_exit)
				suite->suite_exit(suite);
		}
		pr_info("%s %zu %s\n", all ? "ok" : "not ok", i + 1, suite->name);
	}
	return 0;
}
module_init(shim_init);

static void __exit shim_exit(void)
{
}
module_exit(shim_exit);

#endif
