# SPDX-License-Identifier: GPL-2.0
kunit-verbs := tests/kunit/verbs

obj-$(rdma-tests) += kunit_verbs.o
kunit_verbs-y := $(kunit-verbs)/kunit_verbs_main.o $(rdma-shared)
RUSTFLAGS_$(kunit-verbs)/kunit_verbs_main.o := $(rdma-extern) --extern rdma
$(obj)/$(kunit-verbs)/kunit_verbs_main.o: $(obj)/rust/rdma/rdma.o
