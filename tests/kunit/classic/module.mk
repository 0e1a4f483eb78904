# SPDX-License-Identifier: GPL-2.0
# The classic calls over rxe.
include $(src)/tests/classic/objects.mk
obj-m += ib_classic_test.o
ib_classic_test-y := $(addprefix tests/classic/,$(classic-objs))
