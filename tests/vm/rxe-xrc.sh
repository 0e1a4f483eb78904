#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 600
# vm: --rxe=rust
# Extended reliable connections (XRC) of our rdma_rxe, between two namespaces
# and within one device: the distribution's driver has none, and no library has
# calls for them, so a process speaks to uverbs and writes to the rings itself.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

rig_veth || { result FAIL rig; exit 1; }
t offered "rdma -d dev show rxe0 | tee /dev/stderr | grep -qw XRC"
for c in traffic own_device one_connection_many_queues domains rights no_receives shared half_a_message refused; do
	t "${c//_/-}" -T 120 "python3 '$H/rxe_xrc.py' $c"
done
t nothing-left "for o in qp srq cq mr pd; do [ \"\$(rdma resource show \$o dev rxe1 | grep -c 'comm python')\" = 0 ] || exit 1; done"
finish
