#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 1500
# rdma-core's own test suite (of the rdma-core package of trixie) on rxe0. When
# the process dies, the test that ran has failed and the run goes on after it.
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")

rig_dummy || { result FAIL rig; exit 1; }
for m in ib_umad rdma_ucm; do modprobe $m; done
echo 64 > /proc/sys/vm/nr_hugepages
mkdir /tmp/rdma-core
cp -r /usr/share/doc/rdma-core/tests /tmp/rdma-core/
find /tmp/rdma-core -name '*.gz' -exec gunzip {} +
cd /tmp/rdma-core || exit 1
export PYV_DIR=/tmp/rdma-core/tests PYV_RESULTS=$OUT/results.txt PYV_CURRENT=/tmp/current
: > "$PYV_RESULTS"
python3 tests/run_tests.py --dev rxe0 --list-tests 2> /dev/null | grep -E '^tests\.' |
	grep -vE 'mlx5|efa|irdma|cuda' | sort -u > /tmp/all
t listed "[ \$(wc -l < /tmp/all) -gt 100 ]"
for _ in $(seq 30); do
	sed -n 's/^[A-Z]* pyverbs:\([^ ]*\).*/\1/p' "$PYV_RESULTS" | sort -u > /tmp/done
	comm -23 /tmp/all /tmp/done > /tmp/todo
	[ -s /tmp/todo ] || break
	: > /tmp/current
	xargs python3 -X faulthandler "$H/pyverbs_runner.py" --dev rxe0 -v < /tmp/todo >> "$LOG/pyverbs.txt" 2>&1
	if [ -s /tmp/current ]; then
		echo "FAIL pyverbs:$(cat /tmp/current) python died" >> "$PYV_RESULTS"
	elif comm -23 /tmp/todo <(sed -n 's/^[A-Z]* pyverbs:\([^ ]*\).*/\1/p' "$PYV_RESULTS" | sort -u) | cmp -s - /tmp/todo; then
		break
	fi
done
cat "$PYV_RESULTS"
cd /
sed -n 's/^[A-Z]* pyverbs:\([^ ]*\).*/\1/p' "$PYV_RESULTS" | sort -u > /tmp/done
t complete 'comm -23 /tmp/all /tmp/done; [ -z "$(comm -23 /tmp/all /tmp/done)" ]'
finish
