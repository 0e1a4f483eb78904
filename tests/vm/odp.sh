#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 4000
# vm: --append page_poison=1
# Field report B22: fifty runs of rdma-core's on-demand paging tests. Every run
# gives the same, and what the page cache holds of the system stays what it was.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

rig_dummy || { result FAIL rig; exit 1; }
W=/tmp/rdma-core
mkdir $W && cp -r /usr/share/doc/rdma-core/tests $W/ && find $W -name '*.gz' -exec gunzip {} +
sha256sum /usr/bin/[a-d]* /usr/lib/x86_64-linux-gnu/libc.so.6 > $W/sums 2> /dev/null
t sums "[ \$(wc -l < $W/sums) -gt 50 ]"
export PYV_DIR=$W/tests PYV_CURRENT=$W/current
run() { # N
	PYV_RESULTS=$W/res.$1 python3 "$H/pyverbs_runner.py" --dev rxe0 -k odp 2>&1 | tail -n 5
	cut -d' ' -f1,2 "$W/res.$1" | sort > "$W/sorted.$1"
}
ten() { # FIRST
	local i
	for ((i = $1; i < $1 + 10; i++)); do
		run $i && cmp $W/sorted.0 $W/sorted.$i && sha256sum --quiet -c $W/sums || return 1
	done
}
defs="H='$H' W=$W; $(declare -f run ten)"
t first -T 300 "$defs; run 0 && ! grep FAIL $W/sorted.0 && [ \$(grep -c PASS $W/sorted.0) -gt 5 ]"
for i in 1 11 21 31 41; do
	t "runs-$i-to-$((i + 9))" -T 900 "$defs; ten $i"
done
finish
