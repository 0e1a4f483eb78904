# SPDX-License-Identifier: GPL-2.0
# The examples of Documentation/testing-your-ulp.md.
example := tests/kunit/example

obj-$(rdma-tests) += example_ulp_c.o example_ulp_rust.o
example_ulp_c-y := $(example)/ulp_c.o
example_ulp_rust-y := $(example)/ulp_rust.o $(rdma-shared)
RUSTFLAGS_$(example)/ulp_rust.o := $(rdma-extern) --extern rdma
$(obj)/$(example)/ulp_rust.o: $(obj)/rust/rdma/rdma.o
