/* SPDX-License-Identifier: GPL-2.0 */
#ifndef UMEM_TEST_H
#define UMEM_TEST_H

#include <kunit/test.h>

extern struct kunit_suite umem_block_suite;
extern struct kunit_suite umem_pin_suite;

#endif
