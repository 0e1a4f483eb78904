# SPDX-License-Identifier: GPL-2.0
#
# The parts of ib_core, named after the C file that each one replaces, and the
# language that each is built from: "rust" is this tree's, "c" is compiled from
# the file of that name in the kernel tree that the module is built against
# (nothing of it is kept here). This one list decides; Kbuild, the export
# check, the demo and the README's table read it.

part-addr		:= rust
part-agent		:= rust
part-cache		:= rust
part-cgroup		:= rust
part-counters		:= rust
part-cq			:= rust
part-device		:= rust
part-frmr_pools		:= rust
part-ib_core_uverbs	:= rust
part-iter		:= rust
part-lag		:= rust
part-mad		:= rust
part-mad_rmpp		:= rust
part-mr_pool		:= rust
part-multicast		:= rust
part-netlink		:= rust
part-nldev		:= rust
part-packer		:= rust
part-restrack		:= rust
part-roce_gid_mgmt	:= rust
part-rw			:= rust
part-sa_query		:= rust
part-smi		:= rust
part-sysfs		:= rust
part-ud_header		:= rust
part-umem		:= rust
part-umem_dmabuf	:= rust
part-umem_odp		:= rust
part-verbs		:= rust

# C companions of a Rust part: what has to stay C (tracepoint definitions,
# variadic printers, module glue, data whose address is ABI), and the list of the
# classic calls, which are exported beside the stock names.
c-of-device		:= device_glue.o device_printk.o
c-of-mad		:= mad_glue.o
c-of-rw			:= rw_param.o
c-of-verbs		:= exports/classic.o

ib-core-parts := $(sort $(patsubst part-%,%,$(filter part-%,$(.VARIABLES))))
rust-parts := $(foreach p,$(ib-core-parts),$(if $(filter rust,$(part-$(p))),$(p)))
