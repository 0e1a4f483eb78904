# SPDX-License-Identifier: GPL-2.0
# The classic calls on fake devices.
obj-m += ib_classic_fake.o
ib_classic_fake-y := tests/classic/fake.o
