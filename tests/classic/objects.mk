# SPDX-License-Identifier: GPL-2.0
# What ib_classic_test.ko is made of.
classic-objs := rig.o shim.o device.o object.o memory.o window.o queue.o qp.o post.o datagram.o \
	fact.o link.o
