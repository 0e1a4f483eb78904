# SPDX-License-Identifier: GPL-2.0
# Queries for paths on the fake device, for every kernel.
obj-m += sa_probe.o
sa_probe-y := tests/kunit/sa/sa_probe.o
