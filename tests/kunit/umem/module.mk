# SPDX-License-Identifier: GPL-2.0
# Memory of devices: page sizes, blocks, pinned memory of a process.
obj-m += umem_test.o
umem_test-y := $(addprefix tests/kunit/umem/,umem_test_main.o umem_block_test.o umem_pin_test.o)
