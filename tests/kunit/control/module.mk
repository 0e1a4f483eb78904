# SPDX-License-Identifier: GPL-2.0
# Deliberate bugs: scripts/kunit fails unless the debug kernel reports each.
obj-m += control_c.o control_c_memory.o control_rust.o
control_c-y := tests/kunit/control/control_c.o
control_c_memory-y := tests/kunit/control/control_c_memory.o
control_rust-y := tests/kunit/control/control_rust.o
