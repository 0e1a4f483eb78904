# SPDX-License-Identifier: GPL-2.0
# Subnet administration and multicast on a fake device.
obj-$(rdma-tests) += sa_test.o
sa_test-y := $(addprefix tests/kunit/sa/,sa_test_main.o sa_record_test.o sa_query_test.o sa_multicast_test.o)
