// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

#include "umem_test.h"

kunit_test_suites(&umem_block_suite, &umem_pin_suite);

MODULE_DESCRIPTION("KUnit suites of memory regions");
MODULE_LICENSE("GPL");
