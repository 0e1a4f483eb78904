#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 600
# vm: --rxe=rust
# Things end at once, whatever is on its way: queue pairs with packets in a queue
# discipline, links, interfaces, namespaces and processes under traffic (B58, B61).
# DESTROY_ROUNDS: of each.
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

rig_veth || { result FAIL rig; exit 1; }
rounds=${DESTROY_ROUNDS:-4}
for case in destroy kill link interface namespace; do
	# The next case makes what there is not.
	t $case -T $((100 + 10 * rounds)) "python3 '$H/rxe_destroy.py' $case $rounds" || remove_links
done
remove_links
finish
