# SPDX-License-Identifier: GPL-2.0
# The fake device, for every kernel.
fake := tests/kunit/fake

obj-$(rdma-tests) += ib_fake.o
ib_fake-y := $(fake)/ib_fake_main.o $(fake)/exports.o $(rdma-shared)
RUSTFLAGS_$(fake)/ib_fake_main.o := $(rdma-extern) --extern rdma
$(obj)/$(fake)/ib_fake_main.o: $(obj)/rust/rdma/rdma.o
