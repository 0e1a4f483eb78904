# SPDX-License-Identifier: GPL-2.0
# Order and fences of the core, with threads of its own on fake devices.
obj-m += core_test.o
core_test-y := $(addprefix tests/kunit/core/,core_test_main.o core_client_test.o core_event_test.o \
	core_cq_test.o core_gid_test.o core_track_test.o core_rows_test.o core_helper_test.o)
